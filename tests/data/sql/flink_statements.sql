-- Statements in the shapes of Flink's SQL pages, in their order, of which `flink_answers.json` has what Flink 2.3 answers.

-- create_bids
CREATE TABLE bids (
    id BIGINT NOT NULL, item STRING, buyer STRING, price DECIMAL(6, 2), amount INT, at_time TIMESTAMP(3),
    cost AS price * amount, proc AS PROCTIME(), WATERMARK FOR at_time AS at_time - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/bids.json');

-- create_people
CREATE TABLE people (
    name STRING, city STRING, tags ARRAY<STRING>, address ROW<street STRING, number INT>, scores MAP<STRING, INT>
) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/people.json');

-- create_shipments
CREATE TABLE shipments (bid BIGINT, port STRING, sent TIMESTAMP(3), WATERMARK FOR sent AS sent)
WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/shipments.json');

-- create_rate_rows
CREATE TABLE rate_rows (item STRING, rate DECIMAL(6, 2), since TIMESTAMP(3), WATERMARK FOR since AS since)
WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/rates.json');

-- create_rates
CREATE TEMPORARY VIEW rates AS
SELECT item, rate, since FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY since DESC) AS place FROM rate_rows
) WHERE place = 1;

-- select_where
SELECT id, price * 2 AS doubled, UPPER(item) FROM bids WHERE amount > 1 AND price BETWEEN 1.15 AND 5;

-- select_values
SELECT n, word FROM (VALUES (1, 'a'), (2, 'bc'), (3, CAST(NULL AS STRING))) AS t (n, word) WHERE n <> 2;

-- select_is_null
SELECT id, item IS NULL, amount IS NOT NULL, item IS DISTINCT FROM 'tea', (price > 4) IS UNKNOWN FROM bids;

-- select_in_like
SELECT id FROM bids WHERE item IN ('tea', 'bun') AND (buyer LIKE 'A%' OR buyer SIMILAR TO '(B|E).*');

-- select_computed
SELECT id, cost, CAST(at_time AS STRING) FROM bids WHERE cost > 5;

-- select_case
SELECT id, CASE item WHEN 'tea' THEN 1 WHEN 'cake' THEN 2 ELSE 0 END, CASE WHEN amount > 2 THEN 'many' END,
    COALESCE(buyer, 'nobody'), NULLIF(item, 'tea'), IF(amount > 2, 'x', 'y') FROM bids;

-- select_distinct
SELECT DISTINCT item, buyer FROM bids;

-- select_distinct_expression
SELECT DISTINCT amount > 1 AS many FROM bids;

-- with
WITH spent AS (SELECT buyer, SUM(cost) AS total FROM bids GROUP BY buyer), most (m) AS (SELECT MAX(total) FROM spent)
SELECT buyer, total FROM spent WHERE total > 10;

-- with_nested
WITH a AS (SELECT id, item FROM bids WHERE id < 4), b AS (SELECT item, COUNT(*) AS n FROM a GROUP BY item)
SELECT a.id, b.n FROM a JOIN b ON a.item = b.item;

-- hint_options
SELECT COUNT(*) FROM shipments /*+ OPTIONS('path' = '{files}/shipments.json') */;

-- hint_join
SELECT /*+ BROADCAST(p) */ b.id, p.city FROM bids AS b JOIN people AS p ON b.buyer = p.name;

-- hint_state_ttl
SELECT /*+ STATE_TTL('b' = '1d', 'p' = '2d') */ b.id, p.city FROM bids AS b JOIN people AS p ON b.buyer = p.name;

-- hint_aggregate_ttl
SELECT /*+ STATE_TTL('bids' = '1d') */ item, COUNT(*) FROM bids GROUP BY item;

-- union
SELECT item FROM bids UNION SELECT item FROM rate_rows;

-- union_all
SELECT buyer FROM bids WHERE id < 3 UNION ALL SELECT name FROM people;

-- intersect
SELECT buyer FROM bids INTERSECT SELECT name FROM people;

-- intersect_all
SELECT item FROM bids INTERSECT ALL SELECT item FROM rate_rows;

-- except
SELECT name FROM people EXCEPT SELECT buyer FROM bids;

-- except_all
SELECT item FROM bids EXCEPT ALL SELECT item FROM rate_rows;

-- in_query
SELECT id FROM bids WHERE buyer IN (SELECT name FROM people WHERE city = 'Oslo');

-- not_in_query
SELECT name FROM people WHERE name NOT IN (SELECT buyer FROM bids WHERE buyer IS NOT NULL);

-- exists
SELECT id FROM bids AS b WHERE EXISTS (SELECT * FROM shipments AS s WHERE s.bid = b.id AND s.port = 'south');

-- not_exists
SELECT id FROM bids AS b WHERE NOT EXISTS (SELECT 1 FROM shipments AS s WHERE s.bid = b.id);

-- scalar_query
SELECT id, price FROM bids WHERE price >= (SELECT MAX(price) FROM bids);

-- scalar_query_correlated
SELECT id FROM bids AS b WHERE amount = (SELECT MAX(amount) FROM bids AS o WHERE o.item = b.item);

-- join_inner
SELECT b.id, p.city FROM bids AS b INNER JOIN people AS p ON b.buyer = p.name AND b.amount > 1;

-- join_left
SELECT b.id, p.city, p.name FROM bids AS b LEFT JOIN people AS p ON b.buyer = p.name;

-- join_right
SELECT b.id, p.name FROM bids AS b RIGHT JOIN people AS p ON b.buyer = p.name;

-- join_full
SELECT b.id, p.name FROM bids AS b FULL OUTER JOIN people AS p ON b.buyer = p.name;

-- join_cross
SELECT s.port, p.name FROM shipments AS s CROSS JOIN people AS p WHERE s.bid < 3;

-- join_using
SELECT item, id, rate FROM bids JOIN rate_rows USING (item);

-- join_three
SELECT b.id, s.port, p.city FROM bids AS b JOIN shipments AS s ON s.bid = b.id LEFT JOIN people AS p ON p.name = b.buyer;

-- join_not_equal
SELECT b.id, o.id FROM bids AS b JOIN bids AS o ON b.item = o.item AND b.price < o.price;

-- join_of_aggregates
SELECT a.item, a.n, r.rate FROM (SELECT item, COUNT(*) AS n FROM bids GROUP BY item) AS a LEFT JOIN rates AS r ON a.item = r.item;

-- join_interval
SELECT b.id, s.port FROM bids AS b, shipments AS s
WHERE b.id = s.bid AND b.at_time BETWEEN s.sent - INTERVAL '5' MINUTE AND s.sent;

-- join_interval_left
SELECT b.id, s.port FROM bids AS b LEFT JOIN shipments AS s
ON b.id = s.bid AND s.sent >= b.at_time AND s.sent < b.at_time + INTERVAL '5' MINUTE;

-- join_temporal
SELECT b.id, b.price * r.rate AS converted FROM bids AS b LEFT JOIN rates FOR SYSTEM_TIME AS OF b.at_time AS r ON b.item = r.item;

-- join_temporal_inner
SELECT b.id, r.rate, r.since FROM bids AS b JOIN rates FOR SYSTEM_TIME AS OF b.at_time AS r ON b.item = r.item;

-- unnest
SELECT name, tag FROM people CROSS JOIN UNNEST(tags) AS t (tag);

-- unnest_left
SELECT name, tag FROM people LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE;

-- unnest_map
SELECT name, k, v FROM people CROSS JOIN UNNEST(scores) AS t (k, v);

-- unnest_ordinality
SELECT name, tag, place FROM people CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, place);

-- unnest_constant
SELECT * FROM UNNEST(ARRAY[1, 2, 3]) AS t (n) WHERE n > 1;

-- lateral_query
SELECT p.name, t.total FROM people AS p, LATERAL (SELECT SUM(b.amount) AS total FROM bids AS b WHERE b.buyer = p.name) AS t;

-- window_tumble
SELECT id, window_start, window_end, window_time FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '5' MINUTES));

-- window_tumble_named
SELECT id, window_start FROM TABLE(
    TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(at_time), SIZE => INTERVAL '5' MINUTES, `OFFSET` => INTERVAL '1' MINUTE));

-- window_hop
SELECT id, window_start, window_end FROM TABLE(HOP(TABLE bids, DESCRIPTOR(at_time), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES));

-- window_cumulate
SELECT id, window_start, window_end FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES));

-- window_aggregate_tumble
SELECT window_start, window_end, SUM(price) AS total, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end;

-- window_aggregate_hop
SELECT window_start, item, AVG(price), MAX(amount) FROM TABLE(HOP(TABLE bids, DESCRIPTOR(at_time), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, item;

-- window_aggregate_cumulate
SELECT window_start, window_end, COUNT(DISTINCT item) FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))
GROUP BY window_start, window_end;

-- window_aggregate_session
SELECT window_start, window_end, item, COUNT(*) FROM TABLE(SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(at_time), INTERVAL '4' MINUTES))
GROUP BY item, window_start, window_end;

-- window_grouping_sets
SELECT window_start, item, SUM(amount) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, GROUPING SETS ((item), ());

-- window_rollup
SELECT window_start, item, buyer, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, ROLLUP (item, buyer);

-- window_cube
SELECT window_start, item, buyer, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, CUBE (item, buyer);

-- window_cascade
CREATE TEMPORARY VIEW by_five AS SELECT window_time AS rowtime, item, SUM(amount) AS amount
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '5' MINUTES)) GROUP BY window_start, window_end, window_time, item;

-- window_cascaded
SELECT window_start, window_end, SUM(amount) FROM TABLE(TUMBLE(TABLE by_five, DESCRIPTOR(rowtime), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end;

-- group_window
SELECT TUMBLE_START(at_time, INTERVAL '10' MINUTE), TUMBLE_ROWTIME(at_time, INTERVAL '10' MINUTE), COUNT(*) FROM bids
GROUP BY TUMBLE(at_time, INTERVAL '10' MINUTE);

-- group_by
SELECT item, COUNT(*), COUNT(amount), SUM(amount), AVG(amount), MIN(price), MAX(buyer) FROM bids GROUP BY item;

-- group_all
SELECT COUNT(*), SUM(cost), COUNT(DISTINCT buyer) FROM bids;

-- group_filter
SELECT item, COUNT(*) FILTER (WHERE amount > 1), SUM(amount) FILTER (WHERE buyer = 'Ada') FROM bids GROUP BY item;

-- group_having
SELECT item, SUM(amount) AS total FROM bids GROUP BY item HAVING SUM(amount) > 4 AND COUNT(*) > 1;

-- group_distinct
SELECT item, COUNT(DISTINCT buyer), SUM(DISTINCT price), COUNT(DISTINCT amount) FILTER (WHERE amount > 1) FROM bids GROUP BY item;

-- grouping_sets
SELECT item, buyer, COUNT(*), GROUPING(item), GROUPING_ID(item, buyer) FROM bids GROUP BY GROUPING SETS ((item, buyer), (item), ());

-- rollup
SELECT item, buyer, SUM(amount) FROM bids GROUP BY ROLLUP (item, buyer);

-- cube
SELECT item, amount, COUNT(*) FROM bids GROUP BY CUBE (item, amount);

-- group_expression
SELECT UPPER(item) AS name, amount + 1, COUNT(*) FROM bids GROUP BY UPPER(item), amount + 1;

-- group_of_group
SELECT n, COUNT(*) FROM (SELECT item, COUNT(*) AS n FROM bids GROUP BY item) GROUP BY n;

-- group_statistics
SELECT STDDEV_POP(amount), VAR_SAMP(amount), STDDEV_SAMP(price), VAR_POP(id) FROM bids;

-- group_listagg
SELECT buyer, LISTAGG(item), LISTAGG(CAST(id AS STRING), '-') FROM bids WHERE id < 4 GROUP BY buyer;

-- group_json
SELECT item, JSON_ARRAYAGG(id), JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE amount) FROM bids WHERE id IN (1, 4) GROUP BY item;

-- over_range
SELECT id, SUM(amount) OVER (PARTITION BY item ORDER BY at_time RANGE BETWEEN INTERVAL '5' MINUTE PRECEDING AND CURRENT ROW) FROM bids;

-- over_rows
SELECT id, COUNT(*) OVER w, SUM(price) OVER w, AVG(amount) OVER w FROM bids
WINDOW w AS (PARTITION BY item ORDER BY at_time ROWS BETWEEN 1 PRECEDING AND CURRENT ROW);

-- over_unbounded
SELECT id, MAX(price) OVER (PARTITION BY buyer ORDER BY at_time ROWS UNBOUNDED PRECEDING) FROM bids;

-- over_lag
SELECT id, LAG(id) OVER (PARTITION BY item ORDER BY at_time) FROM bids WHERE id < 9;

-- over_row_number
SELECT id, ROW_NUMBER() OVER (PARTITION BY item ORDER BY at_time) FROM bids;

-- top_n
SELECT item, id, price, place FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC, id) AS place FROM bids) WHERE place <= 2;

-- top_n_of_sums
SELECT buyer, total FROM (
    SELECT buyer, total, ROW_NUMBER() OVER (ORDER BY total DESC, buyer) AS place FROM (
        SELECT buyer, SUM(amount) AS total FROM bids GROUP BY buyer)) WHERE place < 3;

-- window_top_n
SELECT id, place FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC, id) AS place
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' MINUTES))) WHERE place <= 2;

-- window_top_n_of_aggregate
SELECT window_start, item, n FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, item) AS place FROM (
        SELECT window_start, window_end, item, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, item)) WHERE place <= 1;

-- deduplicate_first
SELECT id, item FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY at_time ASC) AS place FROM bids) WHERE place = 1;

-- deduplicate_last
SELECT id, item FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY at_time DESC) AS place FROM bids) WHERE place = 1;

-- deduplicate_proctime
SELECT id, item FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY proc DESC) AS place FROM bids) WHERE place = 1;

-- window_deduplicate
SELECT id, window_start FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, item ORDER BY at_time DESC) AS place
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' MINUTES))) WHERE place = 1;

-- window_join
SELECT l.id, r.port, l.window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '5' MINUTES))) AS l
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE shipments, DESCRIPTOR(sent), INTERVAL '5' MINUTES))) AS r
ON l.id = r.bid AND l.window_start = r.window_start AND l.window_end = r.window_end;

-- window_join_full
SELECT l.id, r.port, COALESCE(l.window_start, r.window_start) FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '5' MINUTES))) AS l
FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE shipments, DESCRIPTOR(sent), INTERVAL '5' MINUTES))) AS r
ON l.id = r.bid AND l.window_start = r.window_start AND l.window_end = r.window_end;

-- window_join_semi
SELECT id FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '5' MINUTES))) AS l WHERE l.id IN (
    SELECT bid FROM (SELECT * FROM TABLE(TUMBLE(TABLE shipments, DESCRIPTOR(sent), INTERVAL '5' MINUTES))) AS r
    WHERE l.window_start = r.window_start AND l.window_end = r.window_end);

-- limit_of_order
SELECT id, price FROM bids ORDER BY price DESC, id LIMIT 3;

-- offset
SELECT id FROM bids ORDER BY id OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY;

-- order_by_time
SELECT id, at_time FROM bids ORDER BY at_time, price;

-- temporal_functions
SELECT id, EXTRACT(MINUTE FROM at_time), DATE_FORMAT(at_time, 'yyyy-MM-dd HH:mm'), TIMESTAMPADD(DAY, 1, at_time), FLOOR(at_time TO HOUR),
    at_time + INTERVAL '1' HOUR, TIMESTAMPDIFF(SECOND, TIMESTAMP '2024-05-01 12:00:00', at_time), CAST(at_time AS DATE), DAYOFWEEK(CAST(at_time AS DATE))
FROM bids WHERE id < 3;

-- temporal_constants
SELECT DATE '2024-02-29' + INTERVAL '1' YEAR, TIMESTAMP '2024-01-31 10:00:00' + INTERVAL '1' MONTH, TIME '10:00:00' + INTERVAL '90' MINUTE,
    CEIL(DATE '2024-02-10' TO MONTH), TO_DATE('2024-01-02'), TO_TIMESTAMP('2024-01-02 03:04:05'), CAST(TO_TIMESTAMP_LTZ(1000, 3) AS STRING), QUARTER(DATE '2024-07-01'),
    (DATE '2024-01-01', DATE '2024-01-05') OVERLAPS (DATE '2024-01-04', INTERVAL '3' DAY);

-- json_functions
SELECT JSON_VALUE('{"a": {"b": [1, 2]}}', '$.a.b[1]' RETURNING INTEGER), JSON_QUERY('{"a": [1, 2]}', '$.a'), JSON_EXISTS('{"a": 1}', '$.b'),
    '{"a": 1}' IS JSON OBJECT, JSON_OBJECT('k' VALUE 1, 'n' VALUE CAST(NULL AS INT) ABSENT ON NULL), JSON_ARRAY(1, 'x', TRUE), JSON_STRING(ARRAY[1, 2]),
    JSON_VALUE('{"a": 1}', 'lax $.b' DEFAULT 'none' ON EMPTY), JSON_QUOTE('a"b');

-- collections
SELECT name, tags[1], CARDINALITY(tags), scores['x'], people.address.street, people.address.number + 1, ARRAY_CONTAINS(tags, 'b') FROM people;

-- collection_constants
SELECT ARRAY[1, 2], MAP['a', 1], ARRAY_DISTINCT(ARRAY[1, 1, 2]), MAP_KEYS(MAP['k', 2]), ELEMENT(ARRAY[7]), ARRAY_JOIN(ARRAY['a', 'b'], '-'), ARRAY_CONCAT(ARRAY[1], ARRAY[2]), CARDINALITY(MAP['a', 1]), ARRAY[ARRAY[1], ARRAY[2, 3]][2][1], ARRAY_SORT(ARRAY[3, 1, 2]), SPLIT('a,b', ',');

-- view
CREATE VIEW teas AS SELECT id, price FROM bids WHERE item = 'tea';

-- view_read
SELECT COUNT(*), MAX(price) FROM teas;

-- view_again
CREATE VIEW IF NOT EXISTS teas AS SELECT 1;

-- show_views
SHOW VIEWS;

-- view_renamed
ALTER VIEW teas RENAME TO tea_bids;

-- view_dropped
DROP VIEW tea_bids;

-- describe
DESCRIBE bids;

-- describe_people
DESC people;

-- create_like
CREATE TABLE more_bids (note STRING) WITH ('path' = '{out}/more') LIKE bids (EXCLUDING GENERATED EXCLUDING WATERMARKS OVERWRITING OPTIONS);

-- describe_like
DESCRIBE more_bids;

-- alter_add
ALTER TABLE more_bids ADD (extra INT COMMENT 'more' FIRST, twice AS amount * 2);

-- alter_modify
ALTER TABLE more_bids MODIFY note STRING COMMENT 'said' AFTER id;

-- alter_add_watermark
ALTER TABLE more_bids ADD WATERMARK FOR at_time AS at_time - INTERVAL '1' SECOND;

-- alter_rename_column
ALTER TABLE more_bids RENAME buyer TO who;

-- alter_drop
ALTER TABLE more_bids DROP (extra, twice);

-- alter_options
ALTER TABLE more_bids SET ('format' = 'csv');

-- describe_altered
DESCRIBE more_bids;

-- show_columns
SHOW COLUMNS FROM more_bids LIKE '%i%';

-- alter_name
ALTER TABLE more_bids RENAME TO old_bids;

-- show_tables
SHOW TABLES;

-- show_tables_like
SHOW TABLES FROM default_catalog.default_database NOT LIKE 'r%';

-- drop_table
DROP TABLE old_bids;

-- drop_if_exists
DROP TABLE IF EXISTS old_bids;

-- create_table_as
CREATE TABLE sums WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{out}/sums') AS SELECT id, item, price * 2 AS twice FROM bids WHERE id < 4;

-- create_table_as_read
SELECT * FROM sums;

-- insert_columns
INSERT INTO sums (twice, id) VALUES (7.5, 50), (8, 51);

-- insert_read
SELECT * FROM sums;

-- create_other_sink
CREATE TABLE names (name STRING, n INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{out}/names');

-- statement_set
EXECUTE STATEMENT SET BEGIN INSERT INTO names SELECT name, 1 FROM people; INSERT INTO sums SELECT id + 100, item, price FROM bids WHERE id = 9; END;

-- statement_set_read
SELECT name, n FROM names UNION ALL SELECT item, CAST(id AS INT) FROM sums WHERE id > 50;

-- create_ticks
CREATE TABLE ticks (
    id INT, symbol STRING, price INT, tax DECIMAL(6, 2), weight DOUBLE, kind STRING, at_time TIMESTAMP(3),
    WATERMARK FOR at_time AS at_time - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/ticks.json');

-- match_falls
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES FIRST_ROW.at_time AS begins, LAST(DOWN.at_time) AS bottom, LAST(UP.at_time) AS ends
    ONE ROW PER MATCH AFTER MATCH SKIP TO LAST UP
    PATTERN (FIRST_ROW DOWN+ UP)
    DEFINE
        DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < FIRST_ROW.price) OR DOWN.price < LAST(DOWN.price, 1),
        UP AS UP.price > LAST(DOWN.price)
) AS m;

-- match_averages
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES FIRST(A.at_time) AS begins, LAST(A.at_time) AS ends, AVG(A.price) AS mean
    ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A+ B)
    DEFINE A AS AVG(A.price) < 14
) AS m;

-- match_aggregates
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES COUNT(*) AS n, COUNT(A.price) AS c, SUM(A.price) AS s, AVG(A.tax) AS mean, SUM(A.tax * 2) AS taxes,
        MIN(A.weight) AS least, MAX(A.kind) AS most, SUM(price) AS total, SUM(B.price) AS maybe, AVG(A.weight) AS w
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A{2} B? C)
    DEFINE A AS A.kind <> 'c', B AS B.kind = 'c' AND B.price > 12, C AS C.price IS NOT NULL
) AS m;

-- match_navigation
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES FIRST(A.id) AS a, FIRST(A.id, 1) AS b, LAST(A.id, 1) AS c, LAST(A.id, 9) AS d, A.id + B.id AS e, id AS f,
        UPPER(B.kind) AS g, FIRST(A.price + A.id, 1) AS h, MATCH_ROWTIME() AS t
    AFTER MATCH SKIP TO NEXT ROW
    PATTERN (A{2,} B)
    DEFINE A AS A.kind <> 'c', B AS B.kind = 'c'
) AS m;

-- match_star
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, COUNT(B.id) AS n, C.id AS c
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C)
    DEFINE A AS A.kind = 'a', B AS B.price < 15, C AS C.price > 12
) AS m;

-- match_star_reluctant
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, COUNT(B.id) AS n, C.id AS c
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*? C)
    DEFINE A AS A.kind = 'a', B AS B.price < 15, C AS C.price > 12
) AS m;

-- match_plus_reluctant_at_end
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, LAST(B.id) AS b
    AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+?)
    DEFINE A AS A.kind = 'a', B AS B.kind = 'b'
) AS m;

-- match_times
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES FIRST(A.id) AS a, LAST(A.id) AS b, B.id AS c
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A{2} B)
    DEFINE A AS A.price >= 11, B AS B.price >= LAST(A.price)
) AS m;

-- match_times_up_to
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, COUNT(B.id) AS n, C.id AS c
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B{1,2} C)
    DEFINE B AS B.kind = 'b', C AS C.kind = 'c'
) AS m;

-- match_times_range_reluctant
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, COUNT(B.id) AS n, C.id AS c
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B{1,3}? C)
    DEFINE B AS B.price > 10, C AS C.price > 11
) AS m;

-- match_optional
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, B.id AS b, C.id AS c
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B? C)
    DEFINE A AS A.kind = 'a', B AS B.kind = 'b', C AS C.kind = 'b' OR C.kind = 'c'
) AS m;

-- match_skip_to_first
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, FIRST(B.id) AS b, C.id AS c
    AFTER MATCH SKIP TO FIRST B PATTERN (A B+ C)
    DEFINE B AS B.price > 11, C AS C.price < 14
) AS m;

-- match_skip_to_last
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, LAST(B.id) AS b, C.id AS c
    AFTER MATCH SKIP TO LAST B PATTERN (A B+ C)
    DEFINE B AS B.price > 11, C AS C.price < 14
) AS m;

-- match_within
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, C.id AS c
    AFTER MATCH SKIP PAST LAST ROW PATTERN (A B*? C) WITHIN INTERVAL '8' SECOND
    DEFINE A AS A.kind = 'a', C AS C.kind = 'a'
) AS m;

-- match_without_partition
SELECT * FROM ticks MATCH_RECOGNIZE (
    ORDER BY at_time MEASURES A.symbol AS a, B.symbol AS b, B.id AS i
    AFTER MATCH SKIP PAST LAST ROW PATTERN (A B)
    DEFINE A AS A.id < 60 AND A.kind = 'a', B AS B.id < 60 AND B.price > A.price
) AS m;

-- match_ties
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time, price
    MEASURES A.price AS a, B.price AS b, C.price AS c
    AFTER MATCH SKIP PAST LAST ROW PATTERN (A B C)
    DEFINE A AS A.symbol = 'TIE', B AS B.price > A.price, C AS C.price > B.price
) AS m;

-- match_sums_in_define
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES COUNT(A.id) AS n, SUM(A.price) AS s, B.id AS b
    AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B)
    DEFINE A AS SUM(A.price) < 60 AND COUNT(A.id) <= 4, B AS B.price > FIRST(A.price) OR B.price IS NULL
) AS m;

-- match_undefined
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, B.id AS b
    PATTERN (A B) DEFINE B AS B.price > A.price
) AS m;

-- match_expressions
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, B.id AS b, CASE WHEN B.price > 14 THEN 'high' ELSE 'low' END AS h
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)
    DEFINE B AS B.price * 2 > A.price + 12 AND CHAR_LENGTH(B.symbol) = CHAR_LENGTH(A.symbol) AND B.weight >= A.weight
) AS m;

-- create_ticks_matched
CREATE TEMPORARY VIEW ticks_matched AS
SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY at_time
    MEASURES A.id AS a, MATCH_ROWTIME() AS rt
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE B AS B.price > A.price
);

-- match_then_windows
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE ticks_matched, DESCRIPTOR(rt), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;

-- create_database
CREATE DATABASE IF NOT EXISTS shop COMMENT 'of tests' WITH ('k' = 'v');

-- show_databases
SHOW DATABASES;

-- use_database
USE shop;

-- current_database
SHOW CURRENT DATABASE;

-- table_of_database
CREATE TABLE t (a INT, b AS a + 1) WITH ('connector' = 'datagen');

-- show_tables_of_database
SHOW TABLES;

-- table_of_other_database
SELECT COUNT(*) FROM default_database.people;

-- use_back
USE default_catalog.default_database;

-- drop_database
DROP DATABASE shop CASCADE;

-- show_catalogs
SHOW CATALOGS;

-- current_catalog
SHOW CURRENT CATALOG;

-- create_function_if_not_there
DROP TEMPORARY FUNCTION IF EXISTS nothing_here;

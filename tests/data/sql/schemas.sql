-- Queries of which `schemas.json` has the columns that Flink 2.3 gives them, or none where it refuses them.

-- orders
CREATE TABLE orders (
    id BIGINT NOT NULL, customer INT, price DECIMAL(10, 2), amount INT NOT NULL, name STRING, tags ARRAY<STRING>,
    address ROW<city STRING, zip INT NOT NULL>, attributes MAP<STRING, INT>, ts TIMESTAMP(3), day_ DATE, flag BOOLEAN,
    total AS price * amount, proc AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
    PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'datagen');

-- customers
CREATE TABLE customers (id INT NOT NULL, name STRING NOT NULL, rating DOUBLE, since TIMESTAMP_LTZ(3), region CHAR(2))
WITH ('connector' = 'datagen');

-- rates
CREATE TABLE rates (
    currency STRING NOT NULL, rate DECIMAL(12, 4), valid_from TIMESTAMP(3),
    WATERMARK FOR valid_from AS valid_from, PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'datagen');

-- star
SELECT * FROM orders;

-- names
SELECT id, id + 1, price AS p, address.city, orders.address.zip, COUNT(*) OVER (PARTITION BY id ORDER BY proc), 'x', id FROM orders;

-- literals
SELECT 1, 3000000000, 1.50, 1e3, 'abc', '', TRUE, DATE '2024-01-01', TIME '10:00:00', TIMESTAMP '2024-01-01 00:00:00.123', INTERVAL '1' DAY, INTERVAL '1-2' YEAR TO MONTH, X'0aFF', -5, NULL IS NULL;

-- arithmetic
SELECT amount + 1, orders.id * 2, price * amount, price / 3, price - 0.5, rating * 2, amount / 2, MOD(orders.id, 3), -price FROM orders, customers;

-- join_inner
SELECT o.*, c.name FROM orders AS o JOIN customers AS c ON o.customer = c.id;

-- join_left
SELECT o.id, c.id, c.name, c.rating FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.id;

-- join_right
SELECT o.id, o.amount, c.id FROM orders AS o RIGHT JOIN customers AS c ON o.customer = c.id;

-- join_full
SELECT o.id, c.id AS cid FROM orders AS o FULL JOIN customers AS c ON o.customer = c.id;

-- join_using
SELECT * FROM (SELECT customer AS id, amount FROM orders) AS o JOIN customers USING (id);

-- join_using_left
SELECT * FROM (SELECT customer AS id, amount FROM orders) AS o LEFT JOIN (SELECT id, name FROM customers) AS c USING (id);

-- join_natural
SELECT * FROM (SELECT customer AS id, amount FROM orders) AS o NATURAL JOIN (SELECT id, rating FROM customers) AS c;

-- join_cross
SELECT o.amount, c.region FROM orders AS o CROSS JOIN customers AS c;

-- join_temporal
SELECT o.id, r.rate, o.price * r.rate AS converted, o.ts FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.name = r.currency;

-- join_temporal_left
SELECT o.id, r.currency, r.rate FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.name = r.currency;

-- unnest
SELECT id, tag FROM orders CROSS JOIN UNNEST(tags) AS t (tag);

-- unnest_left
SELECT id, tag FROM orders LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE;

-- unnest_map
SELECT id, k, v FROM orders CROSS JOIN UNNEST(attributes) AS t (k, v);

-- group
SELECT customer, COUNT(*), COUNT(price), SUM(amount), SUM(price), AVG(amount), AVG(price), MIN(name), MAX(ts), MAX(id) FROM orders GROUP BY customer;

-- group_global
SELECT COUNT(*) AS n, SUM(amount) AS s, MAX(id) FROM orders;

-- group_expression
SELECT amount + 1 AS a, UPPER(name), COUNT(DISTINCT customer) FROM orders GROUP BY amount + 1, name HAVING SUM(amount) > 10;

-- group_filter
SELECT customer, SUM(amount) FILTER (WHERE flag), COUNT(*) FILTER (WHERE price > 1) FROM orders GROUP BY customer;

-- group_sets
SELECT customer, name, COUNT(*), GROUPING(customer) FROM orders GROUP BY GROUPING SETS ((customer, name), (customer), ());

-- group_cube
SELECT id, amount, SUM(amount) FROM orders GROUP BY CUBE (id, amount);

-- group_rollup
SELECT id, amount, COUNT(*) FROM orders GROUP BY ROLLUP (id, amount);

-- statistics
SELECT STDDEV_POP(amount), VAR_SAMP(price), LISTAGG(name), COLLECT(name), FIRST_VALUE(amount), LAST_VALUE(name), ARRAY_AGG(amount) FROM orders;

-- distinct
SELECT DISTINCT customer, amount FROM orders;

-- tumble
SELECT window_start, window_end, window_time, SUM(amount) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, window_time;

-- tumble_star
SELECT * FROM TABLE(TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTES));

-- hop_proc
SELECT id, window_start, window_time FROM TABLE(HOP(TABLE orders, DESCRIPTOR(proc), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES));

-- cumulate
SELECT name, window_end, MAX(price) FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)) GROUP BY name, window_start, window_end;

-- session
SELECT name, window_start, COUNT(*) FROM TABLE(SESSION(TABLE orders PARTITION BY name, DESCRIPTOR(ts), INTERVAL '5' MINUTES)) GROUP BY name, window_start, window_end;

-- group_window
SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), TUMBLE_END(ts, INTERVAL '1' HOUR) AS e, TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR), name, COUNT(*), SUM(amount) FROM orders GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), name;

-- over_range
SELECT id, SUM(amount) OVER (PARTITION BY name ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS s, COUNT(*) OVER (ORDER BY ts) AS n FROM orders;

-- over_named
SELECT AVG(price) OVER w AS a, MIN(amount) OVER w FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);

-- over_ranks
SELECT ROW_NUMBER() OVER (PARTITION BY name ORDER BY price) AS r FROM orders;

-- over_lag
SELECT LAG(amount) OVER (ORDER BY ts), LAG(amount, 1, 0) OVER (ORDER BY ts) AS x, LEAD(name, 2) OVER (ORDER BY ts) FROM orders;

-- union
SELECT id FROM orders UNION ALL SELECT id FROM customers;

-- union_types
SELECT amount AS x, name FROM orders UNION SELECT rating, region FROM customers;

-- intersect
SELECT customer FROM orders INTERSECT SELECT id FROM customers;

-- except
SELECT id FROM customers EXCEPT SELECT customer FROM orders;

-- values
SELECT * FROM (VALUES (1, 'a'), (2, 'bcd')) AS t (n, s);

-- values_alone
VALUES (1, 2.5, DATE '2024-01-01');

-- subqueries
SELECT id, (SELECT MAX(rating) FROM customers) AS best FROM orders WHERE customer IN (SELECT id FROM customers) AND EXISTS (SELECT 1 FROM customers AS c WHERE c.id = orders.customer);

-- with
WITH big AS (SELECT id, price FROM orders WHERE price > 100), named (a, b) AS (SELECT * FROM big) SELECT b, a FROM named;

-- order
SELECT id, price AS p FROM orders ORDER BY ts, p DESC, 1 LIMIT 10;

-- case
SELECT CASE WHEN amount > 1 THEN 'many' ELSE 'few' END, CASE amount WHEN 1 THEN 1 END, COALESCE(customer, 0), NULLIF(amount, 1), IF(flag, 1, 2), CAST(amount AS STRING), TRY_CAST(name AS INT), CAST(price AS DOUBLE) FROM orders;

-- conditions
SELECT amount > 1, flag AND amount = 2, name LIKE 'a%', price BETWEEN 1 AND 2, customer IN (1, 2), name IS NULL, flag IS TRUE, NOT flag, name IS DISTINCT FROM 'x', amount IN (1, 2) FROM orders;

-- collections
SELECT tags[1], attributes['k'], address.zip, ARRAY[1, 2], MAP['a', 1], ROW(1, 'x'), CARDINALITY(tags), (address).city FROM orders;

-- times
SELECT ts, ts + INTERVAL '1' DAY, FLOOR(ts TO HOUR), EXTRACT(DAY FROM ts), YEAR(day_), DATE_FORMAT(ts, 'yyyy'), TIMESTAMPDIFF(DAY, ts, ts), proc, PROCTIME(), CURRENT_DATE, CAST(ts AS DATE), since, TO_TIMESTAMP('2024-01-01 00:00:00') FROM orders, customers;

-- texts
SELECT UPPER(o.name), o.name || 'x', CHAR_LENGTH(c.name), SUBSTRING(c.name FROM 2), TRIM(c.name), region || region, CONCAT(c.name, 'a'), POSITION('a' IN o.name), REPLACE(c.name, 'a', 'b') FROM orders AS o, customers AS c;

-- duplicates
SELECT a.ts, b.ts, a.id AS ts0 FROM orders AS a JOIN orders AS b ON a.id = b.id;

-- top
SELECT * FROM (SELECT id, name, ROW_NUMBER() OVER (PARTITION BY name ORDER BY price DESC) AS rn FROM orders) WHERE rn <= 3;

-- json
SELECT JSON_VALUE(name, '$.a'), JSON_VALUE(name, '$.a' RETURNING INT), JSON_EXISTS(name, '$.a'), JSON_OBJECT(KEY 'a' VALUE amount), JSON_ARRAY(amount, name), JSON_QUERY(name, '$') FROM orders;

-- derived_time
SELECT t FROM (SELECT ts AS t, amount FROM orders WHERE amount > 1) AS x;

-- group_time
SELECT ts, COUNT(*) FROM orders GROUP BY ts;

-- dynamic
SELECT NOW(), CURRENT_TIMESTAMP, LOCALTIMESTAMP, CURRENT_TIME, RAND() < 2, UUID() FROM customers;

-- group_not_null
SELECT id, SUM(amount), AVG(amount), MIN(amount), MAX(amount), COUNT(amount) FROM orders GROUP BY id;

-- group_missing
SELECT id, amount FROM orders GROUP BY id;

-- over_not_null
SELECT SUM(amount) OVER w, AVG(amount) OVER w, MIN(amount) OVER w, LAST_VALUE(amount) OVER w, SUM(price) OVER w,
    SUM(amount) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts);

-- unnest_ordinality
SELECT id, tag, place FROM orders CROSS JOIN UNNEST(tags) WITH ORDINALITY AS u (tag, place);

-- unnest_ordinality_left
SELECT id, tag, place FROM orders LEFT JOIN UNNEST(tags) WITH ORDINALITY AS u (tag, place) ON TRUE;

-- unknown
SELECT prise FROM orders;

-- ambiguous
SELECT id FROM orders JOIN customers ON customer = customers.id;

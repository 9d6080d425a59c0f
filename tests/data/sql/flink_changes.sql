-- Queries of which `flink_changes.json` has the changes that Flink 2.3 gives without mini-batches, in their order.

-- create_bids
CREATE TABLE bids (
    id BIGINT NOT NULL, item STRING, buyer STRING, price DECIMAL(6, 2), amount INT, at_time TIMESTAMP(3),
    proc AS PROCTIME()
) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/bids.json');

-- create_three
CREATE TABLE three (a INT, b BIGINT, c STRING, x DOUBLE, g STRING, proc AS PROCTIME())
WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/three.json');

-- count_by_item
SELECT item, COUNT(*) FROM bids GROUP BY item;

-- several_aggregates
SELECT item, SUM(amount), MAX(price), COUNT(DISTINCT buyer), AVG(amount) FROM bids GROUP BY item;

-- results_that_stay
SELECT b, MIN(a), COUNT(x) FROM three GROUP BY b;

-- all_rows
SELECT COUNT(*), SUM(amount) FROM bids;

-- having
SELECT item, COUNT(*) FROM bids GROUP BY item HAVING COUNT(*) > 1;

-- aggregate_of_aggregate
SELECT n, COUNT(*) FROM (SELECT item, COUNT(*) AS n FROM bids GROUP BY item) GROUP BY n;

-- extremes_of_aggregate
SELECT MAX(n), MIN(n), SUM(n) FROM (SELECT buyer, SUM(amount) AS n FROM bids GROUP BY buyer);

-- distinct
SELECT DISTINCT item FROM bids;

-- filtered
SELECT g, COUNT(*) FILTER (WHERE a > 3), SUM(a) FILTER (WHERE x > 1) FROM three GROUP BY g;

-- last_row
SELECT item, id, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY proc DESC) AS r FROM bids) WHERE r = 1;

-- first_row
SELECT item, id, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY proc) AS r FROM bids) WHERE r = 1;

-- top_two
SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY amount DESC) AS r FROM bids) WHERE r <= 2;

-- top_two_with_places
SELECT item, id, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY amount DESC) AS r FROM bids) WHERE r <= 2;

-- largest
SELECT id, price FROM bids WHERE price IS NOT NULL ORDER BY price DESC LIMIT 2;

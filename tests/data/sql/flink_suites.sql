Statements in the shapes of Flink's own test suites, of which `flink_suites_answers.json` has what Flink 2.3 answers.

-- create_three
CREATE TABLE three (
    a INT, b BIGINT, c STRING, x DOUBLE, g STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/three.json');

-- create_five
CREATE TABLE five (
    d INT, e BIGINT, f INT, g STRING, h BIGINT, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`
) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/five.json');

-- create_nested
CREATE TABLE nested (
    id INT, pairs ARRAY<ROW<n INT, w STRING>>, numbers ARRAY<INT>, counts MAP<STRING, INT>
) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{files}/nested.json');

-- scalar_max
SELECT a, (SELECT MAX(f) FROM five WHERE d = a) FROM three;

-- scalar_count
SELECT a, (SELECT COUNT(*) FROM five WHERE d = a) FROM three;

-- scalar_count_plus
SELECT a, (SELECT COUNT(*) + 1 FROM five WHERE d = a) + b FROM three;

-- scalar_sum_coalesce
SELECT a, (SELECT COALESCE(SUM(f), -1) FROM five WHERE d = a) FROM three;

-- scalar_two_columns
SELECT a FROM three WHERE b < (SELECT MAX(e) FROM five WHERE d = a AND h = b);

-- scalar_of_nothing
SELECT a, (SELECT SUM(f) FROM five WHERE f > 1000) FROM three WHERE a < 3;

-- scalar_count_of_nothing
SELECT a, (SELECT COUNT(*) FROM five WHERE f > 1000) FROM three WHERE a < 3;

-- scalar_in_having
SELECT b, SUM(a) FROM three GROUP BY b HAVING SUM(a) > (SELECT MIN(f) * 2 FROM five);

-- scalar_two
SELECT a FROM three WHERE a > (SELECT MIN(d) FROM five) AND a < (SELECT MAX(d) FROM five);

-- scalar_in_case
SELECT a, CASE WHEN a > (SELECT AVG(d) FROM five) THEN 'above' ELSE 'below' END FROM three;

-- scalar_in_aggregate
SELECT SUM((SELECT MAX(f) FROM five WHERE d = a)) FROM three;

-- scalar_of_outer
SELECT a, (SELECT a + 1) FROM three WHERE a < 3;

-- in_of_many
SELECT a, c FROM three WHERE (a, b) IN (SELECT d, h FROM five);

-- in_or
SELECT a FROM three WHERE a IN (SELECT d FROM five WHERE d IS NOT NULL) OR b = 5;

-- in_selected
SELECT a, a IN (SELECT d FROM five) FROM three;

-- in_selected_no_nulls
SELECT a, a IN (SELECT d FROM five WHERE d IS NOT NULL) FROM three;

-- in_correlated
SELECT a FROM three WHERE b IN (SELECT h FROM five WHERE d = a);

-- in_not_and
SELECT a FROM three WHERE NOT (a IN (SELECT d FROM five WHERE d IS NOT NULL) AND b > 2);

-- in_aggregate
SELECT a FROM three WHERE b IN (SELECT MAX(h) FROM five GROUP BY d);

-- in_of_set_operation
SELECT a FROM three WHERE a IN (SELECT d FROM five UNION SELECT f FROM five);

-- in_nested
SELECT a FROM three WHERE a IN (SELECT d FROM five WHERE e IN (SELECT b FROM three));

-- not_in_constant
SELECT a FROM three WHERE a NOT IN (SELECT d FROM five WHERE d IS NOT NULL);

-- not_in_nulls
SELECT a FROM three WHERE a NOT IN (SELECT d FROM five);

-- not_in_selected
SELECT a, a NOT IN (SELECT d FROM five WHERE d IS NOT NULL) FROM three;

-- exists_uncorrelated
SELECT a FROM three WHERE EXISTS (SELECT 1 FROM five WHERE f > 10);

-- exists_or
SELECT a FROM three WHERE EXISTS (SELECT 1 FROM five WHERE d = a AND f > 3) OR b = 1;

-- exists_selected
SELECT a, EXISTS (SELECT 1 FROM five WHERE d = a) FROM three;

-- exists_not_equal
SELECT a FROM three WHERE EXISTS (SELECT 1 FROM five WHERE d = a AND f > b);

-- exists_less
SELECT a FROM three WHERE EXISTS (SELECT 1 FROM five WHERE f > 2 * a);

-- not_exists_less
SELECT a FROM three WHERE NOT EXISTS (SELECT 1 FROM five WHERE f > 2 * a);

-- exists_aggregate
SELECT a FROM three WHERE EXISTS (SELECT MAX(f) FROM five WHERE d = a GROUP BY h HAVING MAX(f) > 2);

-- exists_nested
SELECT a FROM three AS t WHERE EXISTS (
    SELECT 1 FROM five WHERE d = t.a AND EXISTS (SELECT 1 FROM three AS u WHERE u.b = five.h AND u.a > 1));


-- all_greater
SELECT a FROM three WHERE a > ALL (SELECT d FROM five WHERE d < 4);

-- any_greater
SELECT a FROM three WHERE a > ANY (SELECT d FROM five);

-- some_equal
SELECT a FROM three WHERE a = SOME (SELECT d FROM five);

-- all_not_equal
SELECT a FROM three WHERE a <> ALL (SELECT d FROM five WHERE d IS NOT NULL);

-- all_selected
SELECT a, a >= ALL (SELECT d FROM five WHERE d IS NOT NULL) FROM three;

-- lateral_rows
SELECT a, f FROM three, LATERAL (SELECT f FROM five WHERE d = a);

-- lateral_left
SELECT a, f FROM three LEFT JOIN LATERAL (SELECT f FROM five WHERE d = a) ON TRUE;

-- lateral_total
SELECT a, s FROM three, LATERAL (SELECT SUM(f) AS s FROM five WHERE d = a);

-- lateral_total_left
SELECT a, s FROM three LEFT JOIN LATERAL (SELECT SUM(f) AS s FROM five WHERE d = a) ON TRUE;

-- lateral_count
SELECT a, s FROM three, LATERAL (SELECT COUNT(*) AS s FROM five WHERE d = a);

-- lateral_count_left
SELECT a, s FROM three LEFT JOIN LATERAL (SELECT COUNT(*) AS s FROM five WHERE d = a) ON TRUE;

-- lateral_grouped
SELECT a, h, n FROM three, LATERAL (SELECT h, COUNT(*) AS n FROM five WHERE d = a GROUP BY h);

-- unnest_rows
SELECT id, n, w FROM nested CROSS JOIN UNNEST(pairs) AS t (n, w);

-- unnest_left
SELECT id, n, w FROM nested LEFT JOIN UNNEST(pairs) AS t (n, w) ON TRUE;

-- unnest_comma
SELECT id, v FROM nested, UNNEST(numbers) AS t (v) WHERE v > 5;

-- unnest_map
SELECT id, k, v FROM nested CROSS JOIN UNNEST(counts) AS t (k, v);

-- unnest_ordinality
SELECT id, v, o FROM nested CROSS JOIN UNNEST(numbers) WITH ORDINALITY AS t (v, o);

-- unnest_of_collect
SELECT b, v FROM (SELECT b, COLLECT(a) AS s FROM three WHERE a IS NOT NULL GROUP BY b) AS q CROSS JOIN UNNEST(s) AS t (v);

-- unnest_of_array_agg
SELECT b, v FROM (SELECT b, ARRAY_AGG(a) AS s FROM three GROUP BY b) AS q CROSS JOIN UNNEST(s) AS t (v);

-- unnest_of_constant
SELECT * FROM UNNEST(ARRAY['x', 'y']) AS t (v);

-- unnest_joined
SELECT id, v, c FROM nested CROSS JOIN UNNEST(pairs) AS t (v, w) JOIN three ON three.a = v;

-- union_all_three
SELECT a FROM three UNION ALL SELECT d FROM five UNION ALL SELECT f FROM five;

-- union_then_intersect
SELECT a FROM three UNION SELECT d FROM five INTERSECT SELECT f FROM five;

-- union_grouped
SELECT k, COUNT(*) FROM (SELECT b AS k FROM three UNION ALL SELECT h FROM five) GROUP BY k;

-- union_of_types
SELECT a FROM three WHERE a < 3 UNION ALL SELECT e FROM five WHERE e < 3;

-- except_nulls
SELECT a FROM three EXCEPT SELECT d FROM five;

-- except_all_twice
SELECT b FROM three EXCEPT ALL SELECT h FROM five EXCEPT ALL SELECT h FROM five WHERE h = 3;

-- intersect_nulls
SELECT d FROM five INTERSECT SELECT a FROM three;

-- intersect_all_rows
SELECT b, b FROM three INTERSECT ALL SELECT h, h FROM five;

-- minus_in_parentheses
(SELECT a FROM three EXCEPT SELECT d FROM five) UNION ALL (SELECT d FROM five EXCEPT SELECT a FROM three);

-- aggregate_all
SELECT COUNT(*), COUNT(a), SUM(a), AVG(a), MIN(x), MAX(c), SUM(x), AVG(x) FROM three;

-- aggregate_by_null
SELECT b, COUNT(*), SUM(a), AVG(x) FROM three GROUP BY b;

-- aggregate_of_nothing_grouped
SELECT b, COUNT(*) FROM three WHERE a > 100 GROUP BY b;

-- aggregate_distinct_many
SELECT g, COUNT(DISTINCT b), SUM(DISTINCT b), COUNT(DISTINCT x), AVG(DISTINCT b), MAX(DISTINCT b) FROM three GROUP BY g;

-- aggregate_distinct_all
SELECT COUNT(DISTINCT g), COUNT(DISTINCT b), SUM(DISTINCT a) FROM three;

-- aggregate_filter
SELECT b, COUNT(*) FILTER (WHERE a > 4), SUM(a) FILTER (WHERE g = 'a'), COUNT(DISTINCT g) FILTER (WHERE x > 0) FROM three GROUP BY b;

-- aggregate_of_aggregate
SELECT n, COUNT(*), SUM(s) FROM (SELECT b, COUNT(*) AS n, SUM(a) AS s FROM three GROUP BY b) GROUP BY n;

-- aggregate_max_of_max
SELECT MAX(m), MIN(m), SUM(m) FROM (SELECT g, MAX(a) AS m FROM three GROUP BY g);

-- aggregate_by_expression
SELECT MOD(a, 3), COUNT(*), MIN(CHAR_LENGTH(c)) FROM three GROUP BY MOD(a, 3);

-- aggregate_having_not_selected
SELECT b FROM three GROUP BY b HAVING COUNT(*) > 2 AND MAX(a) < 10;

-- aggregate_by_constant
SELECT 'all', COUNT(*) FROM three GROUP BY 1 = 1;

-- aggregate_variances
SELECT g, STDDEV_POP(x), STDDEV_SAMP(x), VAR_POP(x), VAR_SAMP(x), STDDEV_POP(a) FROM three GROUP BY g;

-- aggregate_first_last
SELECT b, FIRST_VALUE(c), LAST_VALUE(c), FIRST_VALUE(x), LAST_VALUE(g) FROM three GROUP BY b;

-- aggregate_listagg
SELECT b, LISTAGG(c), LISTAGG(g, '|') FROM three GROUP BY b;

-- aggregate_listagg_distinct
SELECT LISTAGG(DISTINCT g) FROM three;

-- aggregate_collect
SELECT b, COLLECT(g) FROM three GROUP BY b;

-- aggregate_json
SELECT b, JSON_OBJECTAGG(KEY CAST(e AS STRING) VALUE f), JSON_ARRAYAGG(g) FROM (SELECT h AS b, e, f, g FROM five WHERE e IS NOT NULL) GROUP BY b;

-- aggregate_decimals
SELECT SUM(CAST(x AS DECIMAL(10, 3))), AVG(CAST(x AS DECIMAL(10, 3))), MAX(CAST(x AS DECIMAL(10, 1))) FROM three;

-- aggregate_small_numbers
SELECT SUM(CAST(a AS TINYINT)), AVG(CAST(a AS SMALLINT)), SUM(CAST(x AS FLOAT)) FROM three WHERE a < 9;

-- aggregate_booleans
SELECT MAX(a > 3), MIN(a > 3), COUNT(a > 3) FROM three;

-- aggregate_times
SELECT MIN(ts), MAX(ts), COUNT(ts), MAX(CAST(ts AS DATE)), MIN(CAST(ts AS TIME)) FROM three;

-- grouping_sets_empty
SELECT b, g, COUNT(*), GROUPING(b), GROUPING(g), GROUPING_ID(b, g) FROM three GROUP BY GROUPING SETS ((b, g), (g), ());

-- cube_of_two
SELECT b, g, SUM(a), GROUPING_ID(b, g) FROM three WHERE b < 4 GROUP BY CUBE (b, g);

-- rollup_having
SELECT b, g, COUNT(*) FROM three GROUP BY ROLLUP (b, g) HAVING COUNT(*) > 1;

-- rollup_beside_key
SELECT b, g, COUNT(*) FROM three WHERE b IS NOT NULL GROUP BY b, ROLLUP (g);

-- grouping_sets_distinct
SELECT b, COUNT(DISTINCT g), SUM(a) FROM three GROUP BY GROUPING SETS ((b), ());

-- distinct_rows
SELECT DISTINCT b, g FROM three;

-- distinct_then_count
SELECT COUNT(*) FROM (SELECT DISTINCT g FROM three);

-- distinct_of_aggregate
SELECT DISTINCT COUNT(*) FROM three GROUP BY b;

-- join_inner_two_keys
SELECT c, five.g FROM three JOIN five ON b = h AND a = d;

-- join_inner_residual
SELECT c, five.g FROM three JOIN five ON b = e AND a < 6 AND h < b;

-- join_left_residual
SELECT a, five.g FROM three LEFT JOIN five ON b = e AND a > 3;

-- join_left_on_right
SELECT a, five.g FROM three LEFT JOIN five ON b = e AND h > 1;

-- join_left_not_equal
SELECT a, f FROM three LEFT JOIN five ON b = h AND a < f;

-- join_right_residual
SELECT a, f FROM three RIGHT JOIN five ON a = d AND f > 3;

-- join_full_residual
SELECT a, f FROM three FULL JOIN five ON a = d AND f < 9;

-- join_full_keys
SELECT a, d, b, h FROM three FULL OUTER JOIN five ON a = d AND b = h;

-- join_self
SELECT l.a, r.a FROM three AS l JOIN three AS r ON l.a = r.b;

-- join_nulls_equal
SELECT a, f FROM three JOIN five ON a IS NOT DISTINCT FROM d;

-- join_nulls_equal_left
SELECT a, f FROM three LEFT JOIN five ON b IS NOT DISTINCT FROM e;

-- join_or_condition
SELECT a, f FROM three JOIN five ON a = d AND (b = h OR f > 4);

-- join_expression_keys
SELECT a, f FROM three JOIN five ON a + 1 = d * 2;

-- join_types_of_keys
SELECT a, e FROM three JOIN five ON a = e;

-- join_aggregates
SELECT l.b, l.n, r.s FROM (SELECT b, COUNT(*) AS n FROM three GROUP BY b) AS l
JOIN (SELECT h, SUM(f) AS s FROM five GROUP BY h) AS r ON l.b = r.h;

-- join_left_aggregates
SELECT l.b, l.n, r.s FROM (SELECT b, COUNT(*) AS n FROM three GROUP BY b) AS l
LEFT JOIN (SELECT h, SUM(f) AS s FROM five GROUP BY h) AS r ON l.b = r.h AND r.s > 10;

-- join_then_aggregate
SELECT h, COUNT(*), SUM(a) FROM three JOIN five ON a = d GROUP BY h;

-- join_three_outer
SELECT l.a, r.f, o.b FROM three AS l LEFT JOIN five AS r ON l.a = r.d LEFT JOIN three AS o ON o.a = r.f;

-- join_three_full
SELECT COUNT(*) FROM three AS l FULL JOIN five AS r ON l.b = r.e FULL JOIN three AS o ON o.a = r.f;

-- join_using_full
SELECT k, x, y FROM (SELECT b AS k, a AS x FROM three) AS l FULL JOIN (SELECT e AS k, f AS y FROM five) AS r USING (k);

-- join_cross_filtered
SELECT a, d FROM three CROSS JOIN five WHERE a + d = 6;

-- join_single_row
SELECT a, m FROM three, (SELECT MAX(f) AS m FROM five) WHERE a * 2 > m;

-- join_on_false
SELECT a, f FROM three LEFT JOIN five ON 1 = 2 WHERE a < 3;

-- join_interval_both
SELECT a, f FROM three JOIN five ON a = d AND ts BETWEEN `at` - INTERVAL '10' SECOND AND `at` + INTERVAL '10' SECOND;

-- join_interval_full
SELECT a, f FROM three FULL JOIN five ON a = d AND ts BETWEEN `at` - INTERVAL '6' SECOND AND `at`;

-- rank_top_2
SELECT b, a, n FROM (SELECT b, a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC) AS n FROM three) WHERE n <= 2;

-- rank_second
SELECT b, a FROM (SELECT b, a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM three) WHERE n = 2;

-- rank_nulls_last
SELECT g, a FROM (SELECT g, a, ROW_NUMBER() OVER (PARTITION BY g ORDER BY a NULLS LAST) AS n FROM three) WHERE n = 1;

-- rank_of_aggregate
SELECT b, s, n FROM (SELECT b, s, ROW_NUMBER() OVER (ORDER BY s DESC, b) AS n FROM (SELECT b, SUM(a) AS s FROM three GROUP BY b)) WHERE n <= 3;

-- rank_of_rank
SELECT b, a FROM (SELECT b, a, ROW_NUMBER() OVER (ORDER BY a DESC) AS m FROM (
    SELECT b, a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC) AS n FROM three) WHERE n = 1) WHERE m <= 2;

-- rank_unchanged_number
SELECT MAX(n), COUNT(*) FROM (SELECT b, a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM three) WHERE n <= 2;

-- first_by_time
SELECT b, a FROM (SELECT b, a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY ts) AS n FROM three) WHERE n = 1;

-- last_by_time
SELECT b, a FROM (SELECT b, a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY ts DESC) AS n FROM three) WHERE n = 1;

-- last_by_time_counted
SELECT COUNT(*), SUM(a) FROM (SELECT b, a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY ts DESC) AS n FROM three) WHERE n = 1;

-- limit_ordered
SELECT a, c FROM three ORDER BY x DESC, a LIMIT 4;

-- limit_offset_ordered
SELECT a FROM three ORDER BY a NULLS LAST LIMIT 3 OFFSET 2;

-- limit_then_join
SELECT a, f FROM (SELECT a FROM three ORDER BY a DESC LIMIT 8) JOIN five ON a = d;

-- fetch_rows
SELECT a FROM three ORDER BY ts OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY;

-- sorted_by_time
SELECT a, ts FROM three ORDER BY ts, a DESC;

-- over_running
SELECT a, SUM(a) OVER (PARTITION BY g ORDER BY ts), COUNT(*) OVER (PARTITION BY g ORDER BY ts) FROM three;

-- over_rows
SELECT a, SUM(a) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), AVG(x) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM three;

-- over_range
SELECT a, COUNT(x) OVER (PARTITION BY g ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) FROM three;

-- over_unbounded_rows
SELECT a, MAX(x) OVER (PARTITION BY g ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM three;

-- over_distinct
SELECT a, COUNT(DISTINCT b) OVER (ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) FROM three;

-- over_distinct_unbounded
SELECT a, COUNT(DISTINCT g) OVER (ORDER BY ts) FROM three;

-- over_lag
SELECT a, LAG(a) OVER (ORDER BY ts), LAG(x, 2) OVER (ORDER BY ts), LAG(a, 2, -1) OVER (ORDER BY ts) FROM three;


-- over_lag_default_partitioned
SELECT a, LAG(a, 1, 0) OVER (PARTITION BY g ORDER BY ts), LAG(c, 3, 'none') OVER (PARTITION BY g ORDER BY ts) FROM three;


-- over_lag_zero
SELECT a, LAG(x, 0) OVER (ORDER BY ts) FROM three;


-- over_lag_of_nulls
SELECT a, LAG(b, 1, CAST(-7 AS BIGINT)) OVER (ORDER BY ts) FROM three;


-- over_first_last
SELECT a, FIRST_VALUE(g) OVER (ORDER BY ts), LAST_VALUE(g) OVER (ORDER BY ts) FROM three;

-- over_first_last_rows
SELECT a, FIRST_VALUE(x) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), LAST_VALUE(x) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM three;

-- over_row_number
SELECT a, ROW_NUMBER() OVER (PARTITION BY g ORDER BY ts) FROM three;

-- over_rank_by_time
SELECT a, RANK() OVER (ORDER BY ts), DENSE_RANK() OVER (ORDER BY ts) FROM three;

-- over_stddev
SELECT a, STDDEV_POP(x) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW), VAR_SAMP(x) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM three;

-- over_named
SELECT a, COUNT(*) OVER w, MIN(x) OVER w FROM three WINDOW w AS (PARTITION BY b ORDER BY ts);

-- over_expressions
SELECT a, SUM(a * 2) OVER (PARTITION BY MOD(a, 2) ORDER BY ts) + 1 FROM three;

-- over_then_filter
SELECT * FROM (SELECT a, SUM(a) OVER (ORDER BY ts) AS s FROM three) WHERE s > 20;

-- over_then_group
SELECT s, COUNT(*) FROM (SELECT COUNT(*) OVER (PARTITION BY b ORDER BY ts) AS s FROM three) GROUP BY s;

-- tumble_counts
SELECT window_start, window_end, COUNT(*), SUM(a), MAX(x), COUNT(DISTINCT g)
FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;

-- tumble_keys
SELECT g, window_start, SUM(a), AVG(x), MIN(c)
FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY g, window_start, window_end;

-- tumble_offset
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)) GROUP BY window_start, window_end;

-- tumble_grouping_sets
SELECT window_start, b, g, COUNT(*), SUM(a)
FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '15' SECOND)) GROUP BY GROUPING SETS ((window_start, window_end, b), (window_start, window_end, g));

-- tumble_cube
SELECT window_start, b, g, COUNT(*) FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end, CUBE (b, g);

-- tumble_rows
SELECT a, window_start, window_end, window_time FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '10' SECOND));

-- tumble_filter_above
SELECT window_start, n FROM (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) WHERE n > 2;

-- tumble_cascaded
SELECT window_start, SUM(n) FROM TABLE(TUMBLE((
    SELECT window_time AS rt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, window_time
), DESCRIPTOR(rt), INTERVAL '15' SECOND)) GROUP BY window_start, window_end;

-- hop_counts
SELECT window_start, window_end, g, COUNT(*), SUM(x) FROM TABLE(HOP(TABLE three, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)) GROUP BY window_start, window_end, g;

-- hop_distinct
SELECT window_start, COUNT(DISTINCT b), COUNT(DISTINCT g) FILTER (WHERE a > 2) FROM TABLE(HOP(TABLE three, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end;

-- cumulate_counts
SELECT window_start, window_end, COUNT(*), MAX(a) FROM TABLE(CUMULATE(TABLE three, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)) GROUP BY window_start, window_end;

-- session_counts
SELECT g, window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE three PARTITION BY g, DESCRIPTOR(ts), INTERVAL '7' SECOND)) GROUP BY g, window_start, window_end;

-- group_window_tumble
SELECT g, TUMBLE_START(ts, INTERVAL '10' SECOND), TUMBLE_END(ts, INTERVAL '10' SECOND), TUMBLE_ROWTIME(ts, INTERVAL '10' SECOND), COUNT(*) FROM three GROUP BY g, TUMBLE(ts, INTERVAL '10' SECOND);

-- group_window_hop
SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), COUNT(*), LISTAGG(g) FROM three GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND);

-- group_window_session
SELECT b, SESSION_START(ts, INTERVAL '4' SECOND), SESSION_END(ts, INTERVAL '4' SECOND), SUM(a) FROM three GROUP BY b, SESSION(ts, INTERVAL '4' SECOND);

-- window_rank
SELECT window_start, a, n FROM (SELECT a, window_start, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY x DESC) AS n
FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '15' SECOND))) WHERE n <= 2;

-- window_join
SELECT l.a, r.f, l.window_start FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '15' SECOND)) AS l
JOIN TABLE(TUMBLE(TABLE five, DESCRIPTOR(`at`), INTERVAL '15' SECOND)) AS r
ON l.a = r.d AND l.window_start = r.window_start AND l.window_end = r.window_end;

-- window_join_full
SELECT l.a, r.f, l.window_start, r.window_end FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '15' SECOND)) AS l
FULL JOIN TABLE(TUMBLE(TABLE five, DESCRIPTOR(`at`), INTERVAL '15' SECOND)) AS r
ON l.a = r.d AND l.window_start = r.window_start AND l.window_end = r.window_end;

-- window_semi
SELECT a FROM (SELECT * FROM TABLE(TUMBLE(TABLE three, DESCRIPTOR(ts), INTERVAL '15' SECOND))) AS l WHERE l.b IN (
    SELECT h FROM TABLE(TUMBLE(TABLE five, DESCRIPTOR(`at`), INTERVAL '15' SECOND)) AS r
    WHERE l.window_start = r.window_start AND l.window_end = r.window_end);

-- calc_case_nulls
SELECT a, CASE b WHEN 1 THEN 'one' WHEN 2 THEN 'two' END, NULLIF(g, 'a'), COALESCE(g, c, '?') FROM three;

-- calc_three_valued
SELECT a, x > 2 OR g = 'a', x > 2 AND g = 'a', NOT (x > 2), (x > 2) IS NOT TRUE, (g = 'a') IS FALSE FROM three;

-- calc_between_symmetric
SELECT a FROM three WHERE a BETWEEN SYMMETRIC 5 AND 3 AND b NOT BETWEEN 4 AND 9;

-- calc_in_nulls
SELECT a, b IN (1, NULL), b NOT IN (1, 2), b NOT IN (1, NULL) FROM three;

-- calc_row_equal
SELECT a FROM three WHERE (a, b) = (3, 2) OR (a, b) <> (1, 1) AND a < 3;

-- calc_division
SELECT a / 2, a / 2.0, MOD(a, -3), -a / 4, x / 0.5, a % 4 FROM three WHERE a BETWEEN 5 AND 8;

-- calc_decimals
SELECT CAST(x AS DECIMAL(5, 1)) * 1.15, CAST(x AS DECIMAL(5, 1)) / 3, CAST(a AS DECIMAL(3, 0)) + 0.5 FROM three WHERE a < 6;

-- calc_casts
SELECT CAST(x AS INT), CAST(x AS STRING), CAST(a AS DOUBLE), CAST(b AS CHAR(3)), CAST('12' AS INT), TRY_CAST(c AS INT), CAST(a > 3 AS STRING) FROM three WHERE a < 5;

-- calc_times
SELECT CAST(ts AS DATE), CAST(ts AS TIME), EXTRACT(SECOND FROM ts), FLOOR(ts TO MINUTE), CEIL(ts TO MINUTE), DATE_FORMAT(ts, 'HH:mm:ss'), ts + INTERVAL '1' DAY FROM three WHERE a < 4;

-- calc_texts
SELECT UPPER(c), SUBSTRING(c FROM 2 FOR 3), POSITION('l' IN c), CHAR_LENGTH(c), TRIM(BOTH 'H' FROM c), REPLACE(c, 'o', '0'), c || g, OVERLAY(c PLACING 'xx' FROM 2) FROM three WHERE a < 6;

-- calc_nested_fields
SELECT id, pairs[1].n, pairs[1].w, numbers[2], counts['u'], CARDINALITY(numbers), CARDINALITY(counts) FROM nested;

-- values_of_types
SELECT * FROM (VALUES (1, 2.5), (CAST(3 AS BIGINT), 4)) AS v (n, m);

-- with_twice
WITH q AS (SELECT b, COUNT(*) AS n FROM three GROUP BY b) SELECT l.b, r.b FROM q AS l JOIN q AS r ON l.n = r.n AND l.b < r.b;

-- with_nested
WITH q AS (SELECT a, b FROM three WHERE a > 2), r AS (SELECT b, SUM(a) AS s FROM q GROUP BY b) SELECT q.a, r.s FROM q JOIN r ON q.b = r.b;

-- json_order
SELECT JSON_OBJECT('b' VALUE a, 'a' VALUE g, 'B' VALUE 1), JSON_STRING(MAP['z', 1, 'y', 2]), JSON_QUERY('{"b": {"z": 1, "y": 2}}', '$.b'), JSON_OBJECT('o' VALUE JSON_OBJECT('q' VALUE 1, 'p' VALUE 2)) FROM three WHERE a < 3;

-- grouping_without_sets
SELECT b, COUNT(*), GROUPING(b), GROUPING_ID(b), GROUP_ID() FROM three GROUP BY b;

-- rollup_group_id
SELECT b, g, COUNT(*), GROUP_ID() FROM three WHERE b < 4 GROUP BY ROLLUP (b, g);

-- collect_rows
SELECT b, n, w FROM (SELECT b, COLLECT(ROW(a, g)) AS s FROM three GROUP BY b) AS q CROSS JOIN UNNEST(s) AS t (n, w);

-- unnest_on
SELECT id, v FROM nested JOIN UNNEST(numbers) AS t (v) ON v > 20;

-- unnest_null_rows
SELECT id, p, q FROM nested LEFT JOIN UNNEST(ARRAY[CAST(NULL AS ROW<p INT, q STRING>), ROW(id, 'x')]) AS t (p, q) ON TRUE;

-- rank_by_constant
SELECT a, n FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY 1 ORDER BY a DESC) AS n FROM three) WHERE n <= 2;

-- rank_up_to_column
SELECT b, a, n FROM (SELECT b, a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC) AS n FROM three) WHERE n <= b;

-- create_first_five
CREATE VIEW first_five AS SELECT d, f, `at` FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY d ORDER BY `at`) AS n FROM five) WHERE n = 1;

-- temporal_first_rows
SELECT a, f FROM three LEFT JOIN first_five FOR SYSTEM_TIME AS OF ts AS v ON a = v.d;

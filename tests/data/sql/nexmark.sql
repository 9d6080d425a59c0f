-- Queries of Nexmark that are not among those of `benchmarks/nexmark/queries`: Flink refuses q6, and cep0 is not of
-- the benchmark. Each has its name above it; `nexmark_types.json` has the columns that Flink 2.3 gives the queries.

-- q6
SELECT Q.seller,
    AVG(Q.final) OVER (PARTITION BY Q.seller ORDER BY Q.`dateTime` ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
FROM (
    SELECT MAX(B.price) AS final, A.seller, B.`dateTime`
    FROM auction AS A, bid AS B
    WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
    GROUP BY A.id, A.seller
) AS Q;

-- cep0
SELECT *
FROM bid MATCH_RECOGNIZE (
    PARTITION BY bidder
    ORDER BY `dateTime`
    MEASURES
        FIRST(A.`dateTime`) AS start_time,
        LAST(B.price) AS last_price,
        AVG(A.price) AS mean_price
    ONE ROW PER MATCH
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A{2,4}? B+ C) WITHIN INTERVAL '10' SECOND
    DEFINE
        A AS A.price < 1000,
        B AS B.price > LAST(A.price, 1) AND B.price > PREV(B.price)
) AS T;

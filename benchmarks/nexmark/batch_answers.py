"""The answers of DuckDB, which computes each query at once over all events: what every stream should come to."""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks.nexmark.answers import Answer, folded
from benchmarks.nexmark.queries import SIDE_INPUT_ROWS, TABLES, Query, table_statements

FUNCTIONS = """
CREATE MACRO DATE_FORMAT(time, format) AS
    strftime(time, CASE format WHEN 'yyyy-MM-dd' THEN '%Y-%m-%d' WHEN 'HH:mm' THEN '%H:%M' END);
CREATE MACRO SPLIT_INDEX(text, separator, place) AS split_part(text, separator, place + 1);
CREATE MACRO CHAR_LENGTH(text) AS length(text);
"""
"""Functions that DuckDB has by other names."""
_TUMBLE = "time_bucket(INTERVAL '10 seconds', dateTime)"
_HOPS = """SELECT *, time_bucket(INTERVAL '2 seconds', dateTime) - INTERVAL '2 seconds' * step AS starttime
    FROM bid, (SELECT unnest(range(5)) AS step)"""
_CHANNEL_ID = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
IN_ITS_WORDS = {
    # An average of whole numbers is one here, without the rest.
    "q4": """SELECT category, CAST(trunc(avg(final)) AS BIGINT) FROM (
        SELECT max(B.price) AS final, A.category FROM auction A, bid B
        WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires GROUP BY A.id, A.category)
        GROUP BY category""",
    "q5": f"""WITH counts AS (SELECT auction, count(*) AS num, starttime FROM ({_HOPS}) GROUP BY auction, starttime)
        SELECT auction, num FROM counts AS c WHERE num = (SELECT max(num) FROM counts AS m
        WHERE m.starttime = c.starttime)""",
    "q7": f"""SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM bid B JOIN (
        SELECT max(price) AS maxprice, {_TUMBLE} + INTERVAL '10 seconds' AS ends FROM bid GROUP BY ends) M
        ON B.price = M.maxprice WHERE B.dateTime BETWEEN M.ends - INTERVAL '10 seconds' AND M.ends""",
    "q8": f"""SELECT DISTINCT P.id, P.name, P.starttime FROM (SELECT *, {_TUMBLE} AS starttime FROM person) P
        JOIN (SELECT *, {_TUMBLE} AS starttime FROM auction) A ON P.id = A.seller AND P.starttime = A.starttime""",
    "q11": """SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL '10 seconds' FROM (
        SELECT *, sum(is_new) OVER (PARTITION BY bidder ORDER BY dateTime) AS number FROM (
        SELECT *, coalesce(dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime)
            >= INTERVAL '10 seconds', TRUE)::INT AS is_new FROM bid)) GROUP BY bidder, number""",
    "q13": """SELECT B.auction, B.bidder, B.price, B.dateTime, S.value FROM bid B
        JOIN side_input S ON B.auction % 10000 = S.key""",
    "q17": """SELECT auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd'), count(*), count(*) FILTER (price < 10000),
        count(*) FILTER (price >= 10000 AND price < 1000000), count(*) FILTER (price >= 1000000), min(price),
        max(price), CAST(trunc(avg(price)) AS BIGINT), CAST(sum(price) AS BIGINT) FROM bid GROUP BY ALL""",
    # No match is an empty text here.
    "q21": f"""SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
        WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END FROM bid
        WHERE {_CHANNEL_ID} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
}
"""Queries that DuckDB has to be asked in other words."""


def batch_answer(files: Path, query: Query) -> Answer:
    """The rows that a query comes to over the events in the files."""
    with duckdb.connect() as connection:
        _add_tables(connection, files)
        rows = connection.execute(_dialect(IN_ITS_WORDS.get(query.name, query.sql))).fetchall()
    return folded((("+I", row) for row in rows), query)


def _add_tables(connection: duckdb.DuckDBPyConnection, files: Path) -> None:
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(FUNCTIONS)
    times = "CASE event_type WHEN 0 THEN person.dateTime WHEN 1 THEN auction.dateTime ELSE bid.dateTime END"
    connection.execute(f"CREATE VIEW events AS SELECT *, {times} AS dateTime FROM '{files}/*.parquet'")
    connection.execute(
        f"CREATE TABLE side_input AS SELECT n AS key, n::VARCHAR AS value FROM range({SIDE_INPUT_ROWS}) AS t(n)"
    )
    statements = table_statements()
    for name in TABLES:
        if name in ("person", "auction", "bid"):
            connection.execute(_dialect(statements[name]))


def _dialect(sql: str) -> str:
    return sql.replace("`", '"')

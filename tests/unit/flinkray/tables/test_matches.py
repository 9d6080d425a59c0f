"""What MATCH_RECOGNIZE is refused for, and where; its plan as text."""

from __future__ import annotations

import pytest

from flinkray.errors import SqlError
from flinkray.tables.binding.binder import bind_query, execute_ddl
from flinkray.tables.catalog import Catalog
from flinkray.tables.plans.explain import explain
from flinkray.tables.plans.rules.order import optimized

TABLE = "CREATE TABLE ticks (symbol STRING, price INT, at_time TIMESTAMP(3), WATERMARK FOR at_time AS at_time)"
ORDER, PATTERN, DEFINE = "ORDER BY at_time", "PATTERN (A B+ C)", "DEFINE B AS B.price > A.price"
MEASURES = "MEASURES A.price AS a"


def query(order: str = ORDER, measures: str = MEASURES, pattern: str = PATTERN, define: str = DEFINE) -> str:
    return f"SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol {order} {measures} {pattern} {define})"


def catalog() -> Catalog:
    found = Catalog()
    execute_ddl(found, TABLE)
    return found


WRONG = [
    (query(pattern="PATTERN (A B+)"), "B+", "a greedy quantifier cannot be the last of a pattern, as in Flink"),
    (query(pattern="PATTERN (A (B | C))"), "B | C", "alternatives (A | B) are not supported, as in Flink"),
    (query(pattern="PATTERN (PERMUTE(A, B))"), "PERMUTE(A, B)", "PERMUTE is not supported, as in Flink"),
    (query(pattern="PATTERN (A {- B -} C)"), "{- B -}", "{- -} is not supported, as in Flink"),
    (query(pattern="PATTERN (^ A B)"), "^", "^ is not supported"),
    (query(pattern="PATTERN ((A B)+ C)"), "(A B)+", "groups of variables are not supported, as in Flink"),
    (query(pattern="PATTERN (A B?? C)"), "B??", "a reluctant optional variable (A??) is not supported, as in Flink"),
    (query(pattern="PATTERN (A B A)"), "A", "each variable stands once in PATTERN"),
    (query(pattern="PATTERN (A B{0} C)"), "B{0}", "at least 0 and at most 0 rows: that is none"),
    (query(pattern="PATTERN (B*?)"), "B*?", "a pattern that no row at all would match is not supported"),
    (query(pattern="PATTERN (A+ B? C)"), "B?", "a variable behind a greedy one cannot be optional, as in Flink"),
    (query(pattern="ALL ROWS PER MATCH PATTERN (A B)"), "ticks MATCH", "ALL ROWS PER MATCH is not supported"),
    (query(define="SUBSET S = (A, B) DEFINE B AS B.price > 1"), "S = (A, B)", "SUBSET is not supported, as in Flink"),
    (query(pattern="AFTER MATCH SKIP TO LAST Z PATTERN (A B)"), "Z", "no variable 'Z' in PATTERN to skip to"),
    (query(pattern="PATTERN (A B) WITHIN INTERVAL '1' MONTH"), "INTERVAL '1' MONTH", "an interval of days to seconds"),
    (query(order=""), "ticks MATCH", "MATCH_RECOGNIZE needs ORDER BY a time attribute, ascending"),
    (query(order="ORDER BY price"), "price", "ORDER BY begins with a time attribute, ascending; this is INT"),
    (query(order="ORDER BY at_time DESC"), "at_time DESC", "ORDER BY begins with a time attribute, ascending"),
    (query(measures=""), None, ""),
    (query(measures="MEASURES PREV(A.price) AS a"), "PREV(A.price)", "PREV is not supported, as in Flink"),
    (query(measures="MEASURES FIRST(A.price + B.price) AS a"), "B.price", "read the rows of one variable"),
    (query(measures="MEASURES FIRST(A.price, -1) AS a"), "-1", "FIRST takes a number of rows, from 0"),
    (query(measures="MEASURES SUM(LAST(A.price)) AS a"), "LAST(A.price)", "takes an expression over the rows"),
    (query(measures="MEASURES COUNT(DISTINCT A.price) AS a"), "COUNT(DISTINCT A.price)", "DISTINCT, FILTER and WITHIN"),
    (
        query(measures="MEASURES SINGLE_VALUE(A.price) AS a"),
        "SINGLE_VALUE(A.price)",
        "is not computed over the rows of",
    ),
    (query(measures="MEASURES A.cost AS a"), "A.cost", "no column 'cost'"),
    (query(define="DEFINE B AS B.price"), "B.price", "DEFINE takes a condition, and this is INT"),
    (query(define="DEFINE D AS D.price > 1"), "D", "no variable 'D' in PATTERN; variables: A, B, C"),
    (query(define="DEFINE B AS MATCH_ROWTIME() > B.at_time"), "MATCH_ROWTIME() > B.at_time", "are for MEASURES"),
    (query(define="DEFINE B AS B.price IN (SELECT 1)"), "SELECT 1", "a query cannot stand in DEFINE"),
]


def test_what_flink_does_not_support_is_refused_where_it_stands() -> None:
    tables = catalog()
    for sql, place, message in WRONG:
        if place is None:
            assert bind_query(tables, sql).row_type.names == ("symbol",)
            continue
        with pytest.raises(SqlError) as raised:
            bind_query(tables, sql)
        assert message in str(raised.value), sql
        assert sql[raised.value.start : raised.value.end].startswith(place), (sql, sql[raised.value.start :])


def test_what_a_row_says_alone_is_computed_below_the_match() -> None:
    sql = query(
        measures="MEASURES SUM(B.price * 2) AS s, MATCH_ROWTIME() AS t, COUNT(*) AS n",
        define="DEFINE A AS A.price > 5, B AS B.price IS NOT NULL AND B.price + 1 > LAST(B.price, 1) + A.price",
    )
    match, below, *_ = explain(optimized(bind_query(catalog(), sql))).splitlines()
    assert match == (
        "Match(partitionBy=[symbol], order=[at_time], "
        "measures=[SUM(B.$m6) AS s, MATCH_ROWTIME() AS t, COUNT(*.*) AS n], skip=[NEXT ROW], "
        "pattern=[A{1,1} B{1,} C{1,1}], define=[A AS $m2, "
        "B AS $m3 AND LAST(*.$m4, 0) > (LAST(B.price, 1) + LAST(A.price, 0))])"
    )
    assert below.startswith("+- Project(symbol, at_time, price > 5 AS $m2, price IS NOT NULL AS $m3, ")


def test_types_of_measures_are_those_of_flink() -> None:
    sql = query(measures="MEASURES A.price AS a, COUNT(B.price) AS n, AVG(B.price) AS m, MATCH_ROWTIME() AS t")
    rows = bind_query(catalog(), sql).row_type
    assert dict(zip(rows.names, map(str, rows.types), strict=True)) == {
        "symbol": "STRING",
        "a": "INT",
        "n": "BIGINT NOT NULL",
        "m": "INT",
        "t": "TIMESTAMP(3) NOT NULL *ROWTIME*",
    }

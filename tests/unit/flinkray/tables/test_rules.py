"""Rules change what a plan costs, and neither its rows nor its columns: DuckDB says which rows those are."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray.tables.binding.binder import bind_query, execute_ddl
from flinkray.tables.catalog import Catalog
from flinkray.tables.plans.explain import explain
from flinkray.tables.plans.expressions import FALSE, TRUE, BoundExpression, Call, Column, Constant, Plan
from flinkray.tables.plans.nodes import (
    Aggregate,
    Deduplicate,
    Distinct,
    Filter,
    Join,
    Project,
    Rank,
    Scan,
    TemporalJoin,
    Values,
    WatermarkAssigner,
)
from flinkray.tables.plans.rules.distinct import distinct_as_aggregates
from flinkray.tables.plans.rules.folding import folded
from flinkray.tables.plans.rules.order import RULES, optimized
from flinkray.tables.plans.rules.predicates import push_predicates_down
from flinkray.tables.plans.rules.projections import merge_projections, prune_columns
from flinkray.tables.plans.window_columns import is_window_aggregate, is_window_join, is_window_rank, window_columns
from flinkray.tables.types.logical import BOOLEAN, DECIMAL, INT
from tests.support.plan_rows import Row, rows_of
from tests.support.sql import nexmark_catalog, nexmark_statements

TABLES = """
CREATE TABLE t (a INT, b INT, c STRING);
CREATE TABLE u (a INT, d INT);
CREATE TABLE v (d INT NOT NULL, e STRING NOT NULL)
"""
QUERIES = """
SELECT a, b + 1 AS x FROM t WHERE a > 1 AND (b = 2 OR b IS NULL)
SELECT x FROM (SELECT a + b AS x, c FROM t) WHERE x > 2 AND c = 'x'
SELECT t.a, u.d FROM t JOIN u ON t.a = u.a AND t.b < u.d WHERE t.c = 'x' AND u.d > 0
SELECT t.a, u.d FROM t, u WHERE t.a + 1 = u.a AND t.b = 1
SELECT t.a, u.d FROM t LEFT JOIN u ON t.a = u.a AND u.d > 1 AND t.b > 0 WHERE t.c = 'x'
SELECT t.a, u.d FROM t LEFT JOIN u ON t.a = u.a WHERE u.d IS NULL OR u.d = 2
SELECT t.a, u.d FROM t RIGHT JOIN u ON t.a = u.a AND t.b = 1 AND u.d = 1 WHERE t.b = 1 OR u.d > 1
SELECT t.a, u.d FROM t FULL JOIN u ON t.a = u.a AND t.b > 0 WHERE t.b = 1 OR u.d = 1
SELECT a, d FROM t JOIN u USING (a) WHERE a > 0
SELECT a, d FROM t FULL JOIN u USING (a)
SELECT * FROM t NATURAL LEFT JOIN u WHERE c = 'y'
SELECT DISTINCT a, c FROM t WHERE b > 0
SELECT a, COUNT(*), SUM(b), COUNT(DISTINCT c) FROM t GROUP BY a HAVING a > 0 AND COUNT(*) > 1
SELECT COUNT(*), MAX(a) FROM t WHERE b = 3 AND b = 4
SELECT a, b, SUM(a) FROM t GROUP BY GROUPING SETS ((a), (b), ()) HAVING SUM(a) > 1
SELECT a FROM (SELECT a, b, SUM(b) AS s FROM t GROUP BY ROLLUP (a, b)) WHERE a = 1
SELECT a FROM t UNION SELECT d FROM u
SELECT x FROM (SELECT a AS x, b FROM t UNION ALL SELECT a, d FROM u) WHERE x > 0
SELECT a FROM t INTERSECT SELECT a FROM u
SELECT a FROM (SELECT a FROM t EXCEPT SELECT a FROM u) WHERE a > 0
SELECT a, c FROM t WHERE a IN (SELECT a FROM u WHERE d > 0)
SELECT a, c FROM t WHERE a NOT IN (SELECT a FROM u)
SELECT a, c FROM t WHERE b NOT IN (SELECT d FROM v)
SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.d > t.b)
SELECT a FROM t WHERE NOT EXISTS (SELECT u.d FROM u WHERE u.a = t.a AND u.d > 0) AND b > 0
SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE u.d = t.b)
SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.d = t.b)
SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND EXISTS (SELECT 1 FROM v WHERE v.d = u.d))
SELECT a, b FROM t WHERE b > (SELECT MIN(d) FROM u) AND a IS NOT NULL
SELECT a, (SELECT MAX(d) FROM u) AS m FROM t
SELECT a FROM t WHERE a = 1 OR EXISTS (SELECT 1 FROM u WHERE u.a = t.a)
SELECT a, s FROM (SELECT a, b, SUM(b) OVER (PARTITION BY a) AS s FROM t) WHERE a > 0 AND b > 0
SELECT a, b FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY c, a, b ORDER BY b) AS n FROM t) WHERE n <= 2 AND a > 0
SELECT a, n FROM (SELECT a, b, c, ROW_NUMBER() OVER (PARTITION BY a, b, c ORDER BY b) AS n FROM t) WHERE n = 1
SELECT n FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM t) WHERE 2 > n AND n > 0
SELECT n FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM t) WHERE n < 1
SELECT CASE WHEN 1 = 1 THEN a ELSE b END AS x, CASE WHEN FALSE THEN a WHEN b > 1 THEN 5 END FROM t WHERE TRUE AND a > 0
SELECT a FROM t WHERE FALSE OR (a > 1 AND NOT FALSE) OR NULL
SELECT t.a, l.d FROM t CROSS JOIN LATERAL (SELECT d FROM u WHERE u.a = t.a) AS l WHERE t.b > 0
SELECT a, b FROM t ORDER BY c, b, a LIMIT 0
SELECT x.a, y.b FROM t AS x JOIN t AS y ON x.a = y.b AND x.b = y.a JOIN u ON u.a = y.a WHERE x.c <> y.c
SELECT v.e FROM (VALUES (1, 'p'), (2, 'q')) AS v (d, e) JOIN u ON u.d = v.d
WITH w AS (SELECT a, COUNT(*) AS n FROM t GROUP BY a) SELECT x.a, y.n FROM w AS x JOIN w AS y ON x.a = y.n
SELECT a, (SELECT MAX(d) FROM u WHERE u.a = t.a), (SELECT COUNT(*) + t.b FROM u WHERE u.a = t.a) FROM t
SELECT a, (SELECT COUNT(d) FROM u WHERE u.a = t.a AND d < b) FROM t WHERE b >= (SELECT MIN(d) FROM u WHERE u.d <> t.a)
SELECT a, b IN (SELECT d FROM u WHERE u.a = t.a), b NOT IN (SELECT a FROM u), (a, b) IN (SELECT a, d FROM u) FROM t
SELECT a, b > ALL (SELECT d FROM u WHERE u.a = t.a), b <= ANY (SELECT d FROM u), b <> ANY (SELECT a FROM u) FROM t
SELECT a, b = ALL (SELECT d FROM u WHERE u.a <> t.a), b < ALL (SELECT d FROM v), b >= ANY (SELECT d FROM v) FROM t
SELECT a FROM t WHERE NOT (b IN (SELECT d FROM u WHERE u.a = t.a) AND a < 2) OR EXISTS (SELECT 1 FROM v WHERE d = t.b)
SELECT c, SUM(a) FROM t GROUP BY c HAVING SUM(a) > (SELECT COUNT(*) FROM v WHERE v.e = 'p' OR t.c = v.e)
SELECT a, SUM((SELECT MAX(d) FROM u WHERE u.a = t.a)), (SELECT MIN(d) FROM u WHERE u.a < t.a) FROM t GROUP BY a
SELECT t.a, l.s FROM t LEFT JOIN LATERAL (SELECT u.d + t.b AS s FROM u WHERE u.a = t.a) AS l ON TRUE
SELECT t.a, l.d FROM t, LATERAL (SELECT d FROM u WHERE u.a = t.a ORDER BY d DESC LIMIT 2) AS l
SELECT t.a, l.m FROM t LEFT JOIN LATERAL (SELECT MAX(a) AS m, d FROM u WHERE u.a >= t.b GROUP BY d) AS l ON TRUE
SELECT t.a, l.m FROM t, LATERAL (SELECT MAX(d) AS m FROM u WHERE u.a = t.b HAVING COUNT(*) > 1) AS l
SELECT a, (SELECT COUNT(*) FROM u WHERE EXISTS (SELECT 1 FROM v WHERE v.d = u.d AND v.d < t.b)) FROM t
SELECT a, (SELECT MAX(d) FROM u WHERE u.a = t.a AND u.d > (SELECT MIN(d) FROM v WHERE v.d <> t.b)) FROM t
SELECT a, (SELECT COUNT(*) FROM u LEFT JOIN v ON u.d = v.d AND v.d > t.a WHERE u.a = t.b) FROM t
SELECT a, (SELECT COUNT(e) FROM u RIGHT JOIN v ON u.d = v.d AND u.a = t.a) FROM t
SELECT a, (SELECT SUM(v.d) FROM u FULL JOIN v ON u.d = v.d AND v.d > t.b) FROM t
SELECT a, (SELECT COUNT(*) FROM (SELECT a FROM u WHERE d = t.b UNION SELECT d FROM v WHERE d <> t.a) AS q) FROM t
SELECT a, (SELECT MAX(x) FROM (VALUES (t.a), (t.b)) AS q(x)), (SELECT t.a + 1) FROM t
SELECT a FROM t WHERE b NOT IN (SELECT MAX(d) FROM u WHERE u.a = t.a) OR EXISTS (SELECT SUM(d) FROM u WHERE u.a < t.a)
SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.d NOT IN (SELECT d FROM v WHERE v.d > t.b))
SELECT a, (SELECT s FROM (SELECT d, SUM(a) OVER (PARTITION BY d) AS s FROM u WHERE a > b) ORDER BY s, d LIMIT 1) FROM t
SELECT t.a, u.d FROM t LEFT JOIN u ON t.a = u.a AND u.d IN (SELECT d FROM v) AND t.b > (SELECT MIN(d) FROM v)
SELECT t.a, u.d FROM t JOIN u ON t.a IS NOT DISTINCT FROM u.a AND t.b < (SELECT COUNT(*) FROM v WHERE v.d <= u.d)
SELECT t.a, u.d FROM t FULL JOIN u ON t.a IS NOT DISTINCT FROM u.a
WITH e AS (SELECT * FROM u WHERE FALSE) SELECT a, (SELECT COUNT(*) FROM e), (SELECT MAX(d) FROM e) FROM t
WITH e AS (SELECT * FROM u WHERE 1 = 2) SELECT a FROM t WHERE b NOT IN (SELECT d FROM e) EXCEPT SELECT a FROM e
SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE FALSE) UNION SELECT MAX(d) FROM u WHERE FALSE GROUP BY a
SELECT e.a, u.d FROM (SELECT a FROM t WHERE FALSE) AS e FULL JOIN u ON e.a = u.a
""".strip().splitlines()
NUMBERS = st.none() | st.integers(0, 3)
T = st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from(["x", "y", None])), max_size=7)
U = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6)
V = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["p", "q"])), max_size=4)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = Catalog()
    for sql in TABLES.split(";"):
        execute_ddl(found, sql)
    return found


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(TABLES)
    return connection


def rows_by_duckdb(oracle: duckdb.DuckDBPyConnection, sql: str, tables: dict[str, list[Row]]) -> Counter[Row]:
    for name, rows in tables.items():
        values = ", ".join(f"({', '.join('NULL' if each is None else repr(each) for each in row)})" for row in rows)
        oracle.execute(f"DELETE FROM {name}; " + (f"INSERT INTO {name} VALUES {values}" if values else ""))
    return Counter(oracle.execute(sql).fetchall())


@pytest.mark.parametrize("sql", QUERIES)
def test_a_plan_and_the_plan_that_rules_make_of_it_have_the_rows_that_duckdb_has(
    catalog: Catalog, oracle: duckdb.DuckDBPyConnection, sql: str
) -> None:
    plan = bind_query(catalog, sql)
    after = optimized(plan)
    assert after.row_type.names == plan.row_type.names

    @settings(deadline=None, max_examples=8)
    @given(T, U, V)
    def check(t: list[Row], u: list[Row], v: list[Row]) -> None:
        tables = {"t": t, "u": u, "v": v}
        expected = rows_by_duckdb(oracle, sql, tables)
        assert Counter(rows_of(plan, tables)) == expected
        assert Counter(rows_of(after, tables)) == expected, explain(after)

    check()


@pytest.mark.parametrize("sql", QUERIES)
def test_each_rule_keeps_names_and_types_and_has_nothing_to_do_the_second_time(catalog: Catalog, sql: str) -> None:
    plan = bind_query(catalog, sql)
    for rule in RULES:
        before, plan = plan, rule(plan)
        assert plan.row_type.names == before.row_type.names
        kinds = zip(plan.row_type.types, before.row_type.types, strict=True)
        assert all(new.as_nullable() == old.as_nullable() for new, old in kinds), rule.__name__
    assert optimized(plan).row_type.names == plan.row_type.names


def plan_of(catalog: Catalog, sql: str) -> Plan:
    return optimized(bind_query(catalog, sql))


def find(plan: Plan, kind: type[Any]) -> list[Any]:
    """The nodes of a kind in a plan, from the top."""
    return ([plan] if isinstance(plan, kind) else []) + [each for below in plan.inputs for each in find(below, kind)]


def nexmark(name: str) -> Plan:
    return optimized(bind_query(nexmark_catalog(), nexmark_statements()[name]))


# -- folding

A, B = Column(BOOLEAN, 0), Column(BOOLEAN, 1)
UNKNOWN = Constant(BOOLEAN, None)
ONE, TWO = Constant(INT.not_null(), 1), Constant(INT.not_null(), 2)
LARGEST = Constant(INT.not_null(), 2**31 - 1)


HALF = Constant(DECIMAL(2, 1).not_null(), Decimal("0.5"))
LONGEST = Constant(DECIMAL(38, 0).not_null(), Decimal("9" * 38))


def call(name: str, *arguments: BoundExpression) -> Call:
    kind = INT.not_null() if name in ("+", "-", "*") else BOOLEAN
    return Call(kind, name, arguments)


@pytest.mark.parametrize(
    ("expression", "known"),
    [
        (call("AND", A, TRUE, B), call("AND", A, B)),
        (call("AND", A, FALSE), FALSE),
        (call("AND", A, UNKNOWN), call("AND", A, UNKNOWN)),
        (call("AND", A, A), A),
        (call("AND", call("AND", A, B), TRUE), call("AND", A, B)),
        (call("OR", A, TRUE), TRUE),
        (call("OR", FALSE, FALSE), FALSE),
        (call("NOT", TRUE), Constant(BOOLEAN, False)),
        (call("NOT", UNKNOWN), UNKNOWN),
        (call("IS NULL", UNKNOWN), TRUE),
        (call("IS NOT NULL", Column(INT.not_null(), 0)), TRUE),
        (call("IS NULL", A), call("IS NULL", A)),
        (call("<", ONE, TWO), TRUE),
        (call("<", ONE, HALF), FALSE),
        (call("<", A, UNKNOWN), UNKNOWN),
        (call("+", ONE, TWO), Constant(INT.not_null(), 3)),
        (call("+", LARGEST, ONE), call("+", LARGEST, ONE)),
        (Call(LONGEST.type, "CAST", (LONGEST,)), LONGEST),
    ],
)
def test_what_is_known_before_rows_come_is_computed(expression: BoundExpression, known: BoundExpression) -> None:
    assert folded(expression) == known


def test_a_filter_that_never_holds_is_no_rows_and_one_that_always_does_is_gone(catalog: Catalog) -> None:
    assert find(plan_of(catalog, "SELECT a FROM t WHERE a > 1 AND 1 > 2"), Values) != []
    assert find(plan_of(catalog, "SELECT a FROM t WHERE 1 < 2 OR a = 3"), Filter) == []


def test_a_join_on_what_always_holds_keeps_its_rows(catalog: Catalog) -> None:
    for condition in ("NOT (t.b = 1 AND FALSE)", "1 < 2 OR t.b = 3", "TRUE"):
        plan = plan_of(catalog, f"SELECT t.b FROM t JOIN u ON {condition}")
        (join,) = find(plan, Join)
        assert (join.condition, find(plan, Values)) == (None, [])


@pytest.mark.parametrize(
    ("condition", "is_rank"),
    [("n <= b", True), ("b >= n", True), ("n = b + 1", True), ("MOD(n, 2) = 1", False), ("n * 10 <= 50", False)],
)
def test_ranks_are_compared_with_columns_and_other_conditions_on_them_are_filters(
    catalog: Catalog, condition: str, is_rank: bool
) -> None:
    numbered = "SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS n FROM t"
    plan = plan_of(catalog, f"SELECT a FROM ({numbered}) WHERE {condition}")
    assert [len(find(plan, Rank)), len(find(plan, Filter))] == [int(is_rank), 1]


@pytest.mark.parametrize(
    ("source", "results"),
    [
        ("t WHERE FALSE", (0, None, None)),
        ("(SELECT * FROM t LIMIT 0)", (0, None, None)),
        ("t JOIN u ON t.a = u.a AND 1.5 > 2.5", (0, None, None)),
        ("t WHERE a IN (SELECT d FROM u WHERE 1 = 2)", (0, None, None)),
        ("(SELECT * FROM t WHERE FALSE UNION ALL SELECT * FROM t WHERE b = NULL)", (0, None, None)),
        ("(SELECT a, b FROM t INTERSECT SELECT * FROM u WHERE FALSE)", (0, None, None)),
        ("(SELECT DISTINCT a, MAX(b) AS b FROM t WHERE FALSE GROUP BY a)", (0, None, None)),
        ("t LEFT JOIN (SELECT d FROM u WHERE FALSE) ON TRUE", None),
        ("(SELECT a, b FROM t EXCEPT SELECT * FROM u WHERE FALSE)", None),
        ("t WHERE a > 5", None),
        ("t WHERE FALSE GROUP BY c", None),
    ],
)
def test_an_aggregate_of_what_is_known_to_have_no_rows_is_a_row(
    catalog: Catalog, source: str, results: tuple[Any, ...] | None
) -> None:
    values = [each.rows for each in find(plan_of(catalog, f"SELECT COUNT(*), SUM(b), MAX(b) FROM {source}"), Values)]
    found = [tuple(each.value for each in row if isinstance(each, Constant)) for rows in values for row in rows]
    assert found == ([] if results is None else [results])


# -- predicates and columns


def test_conditions_come_down_to_the_scan_on_each_side_of_a_join(catalog: Catalog) -> None:
    plan = plan_of(catalog, "SELECT t.b FROM t JOIN u ON t.a = u.a WHERE t.c = 'x' AND u.d + 1 = 3")
    (join,) = find(plan, Join)
    assert [len(find(side, Filter)) for side in join.inputs] == [1, 1]
    assert (join.keys, join.condition) == (((0, 0),), None)


def test_no_condition_comes_below_watermarks_or_what_has_another_value_each_time(catalog: Catalog) -> None:
    for assigner in find(nexmark("q2"), WatermarkAssigner):
        assert find(assigner, Filter) == []
    bound = bind_query(catalog, "SELECT x FROM (SELECT RAND() AS x FROM t) WHERE x < 0.5")
    assert isinstance(push_predicates_down(bound), Project)
    assert isinstance(find(push_predicates_down(bound), Filter)[0].input, Project)


def test_a_scan_reads_the_columns_that_something_above_reads(catalog: Catalog) -> None:
    (scan,) = find(plan_of(catalog, "SELECT a FROM (SELECT * FROM t) WHERE c = 'x'"), Scan)
    assert scan.row_type.names == ("a", "c")
    (counted,) = find(plan_of(catalog, "SELECT COUNT(*) FROM t"), Scan)
    assert len(counted.columns) == 1
    assert [scan.row_type.names for scan in find(nexmark("q13"), Scan)][1] == ("key", "value")


def test_projections_are_merged_unless_something_would_be_computed_twice(catalog: Catalog) -> None:
    once = merge_projections(bind_query(catalog, "SELECT x FROM (SELECT a + 1 AS x, b FROM t)"))
    assert len(find(once, Project)) == 1
    twice = merge_projections(bind_query(catalog, "SELECT x + x FROM (SELECT a * b AS x FROM t)"))
    assert len(find(twice, Project)) == 2
    assert isinstance(merge_projections(bind_query(catalog, "SELECT * FROM t")), Scan)
    pruned = prune_columns(bind_query(catalog, "SELECT b FROM (SELECT b, a FROM t)"))
    assert pruned.row_type.names == ("b",)


def test_a_distinct_is_an_aggregate_without_results(catalog: Catalog) -> None:
    plan = distinct_as_aggregates(bind_query(catalog, "SELECT DISTINCT a FROM t UNION SELECT d FROM u"))
    assert find(plan, Distinct) == []
    assert [each.calls for each in find(plan, Aggregate)] == [(), ()]


# -- ranks, joins of subqueries


def test_a_join_as_of_a_time_reads_the_time_of_its_versions() -> None:
    catalog = Catalog()
    for sql in (
        "CREATE TABLE t (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)",
        "CREATE TABLE v (k INT PRIMARY KEY NOT ENFORCED, n INT, since TIMESTAMP(3), WATERMARK FOR since AS since)",
        "CREATE VIEW w AS SELECT k, since, n + 1 AS m FROM v",
    ):
        execute_ddl(catalog, sql)
    plan = bind_query(catalog, "SELECT m FROM t JOIN w FOR SYSTEM_TIME AS OF t.ts ON t.k = w.k")
    (join,) = optimized(plan).inputs
    assert isinstance(join, TemporalJoin)
    assert join.right.row_type.names == ("k", "since", "m")


def test_a_filter_on_row_numbers_is_a_rank_that_keeps_its_number_where_it_is_read() -> None:
    (with_number,) = find(nexmark("q19"), Rank)
    assert (with_number.first, with_number.last, with_number.has_number) == (1, 10, True)
    (without,) = find(nexmark("q9"), Rank)
    assert (without.last, without.has_number) == (1, False)


def test_the_first_row_by_time_is_a_deduplication() -> None:
    (found,) = find(nexmark("q18"), Deduplicate)
    assert found.keeps_last
    assert [found.row_type.names[each] for each in found.keys] == ["bidder", "auction"]


def test_subqueries_are_semi_and_anti_joins(catalog: Catalog) -> None:
    kinds = {
        "a IN (SELECT a FROM u)": ("SEMI", False),
        "a NOT IN (SELECT a FROM u)": ("ANTI", True),
        "EXISTS (SELECT 1 FROM u WHERE u.a = t.a)": ("SEMI", False),
        "NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)": ("ANTI", False),
        "a <> ALL (SELECT a FROM u)": ("ANTI", True),
        "a = ANY (SELECT a FROM u)": ("SEMI", False),
    }
    for condition, kind in kinds.items():
        (join,) = find(plan_of(catalog, f"SELECT b FROM t WHERE {condition}"), Join)
        assert (join.kind, join.is_null_aware) == kind, condition
        assert len(join.keys) == 1


# -- windows


def test_the_columns_of_windows_are_known_through_projections_aggregates_and_joins() -> None:
    (join,) = find(nexmark("q5"), Join)
    assert is_window_join(join)
    assert [is_window_aggregate(each) for each in find(join, Aggregate)] == [True, True, True]
    found = window_columns(nexmark("q8"))
    assert found is None  # the end of the window is not selected
    assert window_columns(find(nexmark("q8"), Join)[0]) is not None
    assert not any(is_window_join(each) for each in find(nexmark("q7"), Join))


def test_a_rank_within_windows_is_a_window_rank() -> None:
    sql = """
    SELECT auction, window_end FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
    ) WHERE n <= 3"""
    (rank,) = find(optimized(bind_query(nexmark_catalog(), sql)), Rank)
    assert is_window_rank(rank)
    (other,) = find(nexmark("q19"), Rank)
    assert not is_window_rank(other)

"""Statements become plans whose columns have Flink's names and types; what is wrong says where, and what is near."""

from __future__ import annotations

import json

import pytest

from flinkray.errors import InvalidProgramError, SqlValidationError
from flinkray.tables.binding.binder import Binder, bind_expression, bind_query, execute_ddl
from flinkray.tables.catalog import Catalog, Database, UserFunction, View
from flinkray.tables.plans.explain import explain
from flinkray.tables.plans.expressions import Call, Column, Constant
from flinkray.tables.plans.nodes import Insert, Project, Scan
from flinkray.tables.plans.tables import ColumnKind, Table
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.types.logical import BIGINT, INT, ROW, STRING, RowType
from tests.support.flink_statements import DATA, named_statements
from tests.support.sql import assert_stored_message, nexmark_catalog, nexmark_statements, wrong_statements

NEXMARK = nexmark_statements()
NEXMARK_TYPES: dict[str, list[list[str]]] = json.loads((DATA / "nexmark_types.json").read_text())
SCHEMAS = named_statements("schemas.sql")
FLINK: dict[str, list[list[str]] | None] = json.loads((DATA / "schemas.json").read_text())
# Where the types are meant to be others than Flink's, by query and column.
OURS = {
    # Flink shows what is computed of a time attribute as one until it plans the query, which makes it none.
    "group": {8: "TIMESTAMP(3)"},
    "times": {1: "TIMESTAMP(3)", 2: "TIMESTAMP(3)"},
    # The sum of the group of all rows is NULL where there are none.
    "group_cube": {2: "INT"},
    # As the functions are declared.
    "dynamic": {5: "STRING NOT NULL"},
}


@pytest.fixture(scope="module")
def shop() -> Catalog:
    """Tables of `schemas.sql`, and functions of the user's."""
    catalog = Catalog()
    for sql in SCHEMAS.values():
        if sql.startswith("CREATE"):
            execute_ddl(catalog, sql)
    catalog.add_function(UserFunction("half", INT, (INT,)))
    catalog.add_function(UserFunction("split", ROW(("word", STRING), ("length", INT)), (STRING,), kind="table"))
    catalog.add_function(UserFunction("median", BIGINT, (BIGINT,), kind="aggregate"))
    return catalog


def described(rows: RowType) -> list[list[str]]:
    return [[name, str(kind)] for name, kind in zip(rows.names, rows.types, strict=True)]


def bind(catalog: Catalog, sql: str) -> object:
    statement = parse_statement(sql)
    binder = Binder(catalog, sql)
    if isinstance(statement, syntax.CreateTable):
        return binder.table(statement)[0]
    return binder.insert(statement) if isinstance(statement, syntax.Insert) else bind_query(catalog, sql)


def table(catalog: Catalog, sql: str) -> Table:
    found = bind(catalog, sql)
    assert isinstance(found, Table)
    return found


@pytest.mark.parametrize("name", NEXMARK_TYPES)
def test_a_query_of_nexmark_has_the_columns_that_flink_gives_it(name: str) -> None:
    assert described(bind_query(nexmark_catalog(), NEXMARK[name]).row_type) == NEXMARK_TYPES[name]


def test_the_query_of_nexmark_that_flink_refuses_is_refused() -> None:
    with pytest.raises(SqlValidationError, match=r"'B\.dateTime' is neither in GROUP BY nor in an aggregate"):
        bind_query(nexmark_catalog(), NEXMARK["q6"])


@pytest.mark.parametrize("name", FLINK)
def test_a_query_has_the_columns_that_flink_gives_it(shop: Catalog, name: str) -> None:
    expected = FLINK[name]
    if expected is None:
        with pytest.raises(SqlValidationError):
            bind_query(shop, SCHEMAS[name])
        return
    wanted = [[column, OURS.get(name, {}).get(place, kind)] for place, (column, kind) in enumerate(expected)]
    assert described(bind_query(shop, SCHEMAS[name]).row_type) == wanted


@pytest.mark.parametrize("name", wrong_statements("names"))
def test_a_statement_whose_names_or_types_do_not_fit_keeps_its_message(shop: Catalog, name: str) -> None:
    assert_stored_message("names", name, lambda sql: bind(shop, sql))


def test_a_difference_of_times_is_an_interval_of_its_unit(shop: Catalog) -> None:
    plan = bind_query(
        shop, "SELECT (TIME '12:00:00' - TIME '10:30:00') DAY TO HOUR, (CURRENT_DATE - DATE '2024-01-31') MONTH"
    )
    assert [str(kind) for kind in plan.row_type.types] == ["INTERVAL SECOND(3) NOT NULL", "INTERVAL MONTH NOT NULL"]


# -- functions of the user's


def test_a_star_behind_a_row_is_its_fields(shop: Catalog) -> None:
    rows = "(SELECT CAST(ROW(1, ROW('x')) AS ROW<a INT NOT NULL, b ROW<c STRING>>) AS r, 2 AS n) AS t"
    for star, columns in (("r.*, n", ["a", "b", "n"]), ("t.r.*", ["a", "b"]), ("r.b.*, t.*", ["c", "r", "n"])):
        assert list(bind_query(shop, f"SELECT {star} FROM {rows}").row_type.names) == columns
    wrong = {"n.*": "'n' is INT NOT NULL, and only a ROW", "s.*": "no table 's'", "r.z.*": "no field 'z'"}
    for star, problem in wrong.items():
        with pytest.raises(SqlValidationError, match=problem):
            bind(shop, f"SELECT {star} FROM {rows}")


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT a FROM (SELECT 1 AS a, 2 AS a)", "'a' may be several columns"),
        ("SELECT q.a FROM (SELECT 1 AS a, 2 AS a) AS q", "'a' may be several columns: q.a"),
        ("SELECT a FROM (SELECT v.a, w.a FROM (VALUES (1)) AS v (a), (VALUES (2)) AS w (a))", "'a' may be several"),
        ("SELECT a0 FROM (SELECT 1 AS a, 2 AS a UNION ALL SELECT 3, 4)", "no column 'a0'"),
        ("SELECT * FROM (SELECT 1 AS a, 2 AS a) AS q", "q has several columns 'a'"),
        ("SELECT * FROM (SELECT 1 AS a, 2 AS a), (SELECT 3 AS b)", "a query in FROM has several columns 'a'"),
        ("SELECT q.* FROM (VALUES (1)), LATERAL (SELECT 1 AS a, 2 AS a) AS q", "q has several columns 'a'"),
        ("WITH q AS (SELECT 1 AS a, 2 AS a) SELECT 1 FROM q", "several columns the name 'a'"),
        ("SELECT 1 AS a, 2 AS a ORDER BY a", "several selected columns are 'a'"),
    ],
)
def test_a_name_that_a_query_gives_several_columns_means_none_of_them(shop: Catalog, sql: str, problem: str) -> None:
    with pytest.raises(SqlValidationError, match=problem):
        bind(shop, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT b FROM (SELECT 1 AS a, 2 AS b, 3 AS a)",
        "SELECT a, b FROM (SELECT 1 AS a, 2 AS a) AS q (a, b)",
        "SELECT a, a0 FROM (SELECT * FROM (VALUES (1)) AS v (a), (VALUES (2)) AS w (a))",
        "SELECT 1 AS a, 2 AS a ORDER BY 2",
    ],
)
def test_a_query_may_give_several_columns_one_name_that_nobody_reads(shop: Catalog, sql: str) -> None:
    bind(shop, sql)


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ("INT", "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("FLOAT", "DECIMAL(5, 2)", "DOUBLE"),
        ("CHAR(3)", "CHAR(5)", "VARCHAR(5)"),
        ("TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"),
    ],
)
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "FULL JOIN"])
def test_a_column_of_using_has_the_type_that_both_sides_meet_in(join: str, left: str, right: str, kind: str) -> None:
    catalog = Catalog()
    for name, column in (("l", left), ("r", right)):
        catalog.add(table(catalog, f"CREATE TABLE {name} (k {column}) WITH ('connector' = 'x')"))
    (found,) = bind_query(catalog, f"SELECT k FROM l {join} r USING (k)").row_type.types
    assert str(found) == (kind if join == "JOIN" else kind.removesuffix(" NOT NULL"))


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT f FROM t UNION ALL SELECT d FROM t", "FLOAT"),
        ("SELECT l FROM t INTERSECT SELECT s FROM t", "TIMESTAMP_LTZ(3)"),
        ("SELECT c FROM t, LATERAL (VALUES (s), (l)) AS v (c)", "TIMESTAMP(3)"),
    ],
)
def test_rows_of_several_queries_meet_in_the_types_of_flink(sql: str, kind: str) -> None:
    catalog = Catalog()
    columns = "f FLOAT, d DOUBLE, s TIMESTAMP(3), l TIMESTAMP_LTZ(3)"
    catalog.add(table(catalog, f"CREATE TABLE t ({columns}) WITH ('connector' = 'x')"))
    assert [str(each) for each in bind_query(catalog, sql).row_type.types] == [kind]


def test_group_id_is_zero_where_no_set_is_there_twice(shop: Catalog) -> None:
    rows = "(VALUES (1, 2)) AS t (a, b)"
    bind(shop, f"SELECT GROUP_ID() FROM {rows} GROUP BY ROLLUP (a, b)")
    with pytest.raises(SqlValidationError, match="sets that are there twice"):
        bind(shop, f"SELECT GROUP_ID() FROM {rows} GROUP BY GROUPING SETS (a, (), ())")
    with pytest.raises(SqlValidationError, match="GROUP_ID takes no arguments"):
        bind(shop, f"SELECT GROUP_ID(a) FROM {rows} GROUP BY a")


def test_a_users_function_has_its_type_and_takes_its_arguments_cast(shop: Catalog) -> None:
    plan = bind_query(shop, "SELECT HALF(amount), half(CAST(1 AS TINYINT)) FROM orders")
    assert described(plan.row_type) == [["EXPR$0", "INT"], ["EXPR$1", "INT"]]
    with pytest.raises(SqlValidationError, match="argument 1 of half is STRING, where it takes INT"):
        bind_query(shop, "SELECT half(name) FROM orders")
    with pytest.raises(SqlValidationError, match=r"half takes 1 arguments \(INT\), not 2"):
        bind_query(shop, "SELECT half(1, 2)")


def test_a_table_function_gives_rows_beside_those_it_is_called_for(shop: Catalog) -> None:
    sql = "SELECT id, word, l FROM orders LEFT JOIN LATERAL TABLE(split(name)) AS t (word, l) ON TRUE"
    assert described(bind_query(shop, sql).row_type) == [["id", "BIGINT NOT NULL"], ["word", "STRING"], ["l", "INT"]]
    with pytest.raises(SqlValidationError, match="split gives rows"):
        bind_query(shop, "SELECT split(name) FROM orders")
    with pytest.raises(SqlValidationError, match="half gives one value, not rows"):
        bind_query(shop, "SELECT * FROM orders, LATERAL TABLE(half(amount))")


def test_a_users_aggregate_groups_as_a_built_in_one_does(shop: Catalog) -> None:
    plan = bind_query(shop, "SELECT customer, median(id) AS m FROM orders GROUP BY customer")
    assert described(plan.row_type) == [["customer", "INT"], ["m", "BIGINT"]]


# -- tables, views, inserts


def test_a_table_has_its_columns_in_order_with_their_kinds() -> None:
    sql = """CREATE TABLE t (
        a INT NOT NULL, b AS a + m, m BIGINT METADATA FROM 'k' VIRTUAL, n STRING METADATA, ts AS TO_TIMESTAMP(c),
        c STRING, d AS UPPER(c), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND, PRIMARY KEY (c) NOT ENFORCED
    ) COMMENT 'x' PARTITIONED BY (a) WITH ('k' = 'v')"""
    found = table(Catalog(), sql)
    assert [(each.name, each.kind, str(each.type)) for each in found.columns] == [
        ("a", ColumnKind.PHYSICAL, "INT NOT NULL"),
        ("b", ColumnKind.COMPUTED, "BIGINT"),
        ("m", ColumnKind.METADATA, "BIGINT"),
        ("n", ColumnKind.METADATA, "STRING"),
        ("ts", ColumnKind.COMPUTED, "TIMESTAMP(3)"),
        ("c", ColumnKind.PHYSICAL, "STRING NOT NULL"),
        ("d", ColumnKind.COMPUTED, "STRING NOT NULL"),
    ]
    assert str(found.row_type.types[4]) == "TIMESTAMP(3) *ROWTIME*"
    assert found.written_row_type.names == ("a", "n", "c")
    assert (found.primary_key, found.partitioned_by, found.options) == (("c",), ("a",), (("k", "v"),))


def test_a_table_like_another_has_what_its_options_leave(shop: Catalog) -> None:
    whole = table(shop, "CREATE TABLE t (extra INT) WITH ('connector' = 'x', 'a' = 'b') LIKE orders")
    assert whole.row_type.names[-1] == "extra"
    assert (whole.watermark is not None, whole.options) == (True, (("connector", "x"), ("a", "b")))
    bare = table(shop, "CREATE TABLE t LIKE orders (EXCLUDING ALL)")
    assert (bare.watermark, bare.primary_key, bare.options) == (None, (), ())
    assert "total" not in bare.row_type.names
    kept = table(shop, "CREATE TABLE t LIKE orders (EXCLUDING ALL INCLUDING GENERATED)")
    assert "total" in kept.row_type.names


def test_a_key_of_a_table_like_another_is_of_columns_that_are_not_null_there() -> None:
    catalog = Catalog()
    catalog.add(table(catalog, "CREATE TABLE base (a INT, b INT NOT NULL, c AS a + 1) WITH ('connector' = 'x')"))
    keyed = table(catalog, "CREATE TABLE t (d INT, PRIMARY KEY (b, d) NOT ENFORCED) LIKE base")
    assert (keyed.primary_key, str(keyed.row_type.types[-1])) == (("b", "d"), "INT NOT NULL")
    with pytest.raises(SqlValidationError, match="column 'a' of base may be NULL"):
        bind(catalog, "CREATE TABLE t (PRIMARY KEY (a) NOT ENFORCED) LIKE base")


def test_a_table_as_a_query_has_its_columns_without_time_attributes(shop: Catalog) -> None:
    found = table(shop, "CREATE TABLE t WITH ('a' = 'b') AS SELECT id, ts FROM orders")
    assert described(found.row_type) == [["id", "BIGINT NOT NULL"], ["ts", "TIMESTAMP(3)"]]
    turned = table(shop, "CREATE TABLE t (ts, id) AS SELECT id, ts FROM orders")
    assert turned.row_type.names == ("ts", "id")


def test_a_table_as_a_query_has_more_columns_before_those_of_the_query_which_may_get_other_types(shop: Catalog) -> None:
    made = "CREATE TABLE t (z INT, y AS id + 1, id DECIMAL(20, 0), m INT METADATA VIRTUAL) AS SELECT ts, id FROM orders"
    assert described(table(shop, made).row_type) == [
        ["z", "INT"],
        ["y", "DECIMAL(21, 0)"],
        ["m", "INT"],
        ["ts", "TIMESTAMP(3)"],
        ["id", "DECIMAL(20, 0)"],
    ]
    with pytest.raises(SqlValidationError, match="there are several columns 'id'"):
        table(shop, "CREATE TABLE t (id AS 3) AS SELECT id FROM orders")


def test_a_view_is_bound_where_it_is_read_and_shows_its_own_text_when_wrong() -> None:
    catalog = Catalog()
    execute_ddl(catalog, "CREATE TABLE t (a INT, b INT)")
    execute_ddl(catalog, "CREATE VIEW v (x) AS SELECT a + b FROM t")
    assert bind_query(catalog, "SELECT x FROM v").row_type.names == ("x",)
    assert isinstance(catalog.get(("v",)), View)
    sql = "CREATE TABLE t (a INT)"
    statement = parse_statement(sql)
    assert isinstance(statement, syntax.CreateTable)
    catalog.add(Binder(catalog, sql).table(statement)[0], replaces=True)
    with pytest.raises(SqlValidationError, match=r"no column 'b'[^$]*\n  SELECT `t`\.`a` \+ `t`\.`b`\n"):
        bind_query(catalog, "SELECT x FROM v")


def test_an_insert_casts_the_querys_columns_in_their_order(shop: Catalog) -> None:
    found = bind(shop, "INSERT INTO customers (name, id) SELECT name, amount FROM orders")
    assert isinstance(found, Insert)
    assert isinstance(found.input, Project)
    assert found.input.names == ("id", "name", "rating", "since", "region")
    first, second, third, *_ = found.input.expressions
    assert (first, second) == (Column(INT.not_null(), 1), Column(STRING, 0))
    assert isinstance(third, Constant)
    assert third.value is None
    wider = bind(shop, "INSERT INTO customers (id, name, rating) SELECT amount, 'x', price FROM orders")
    assert isinstance(wider, Insert)
    assert isinstance(wider.input, Project)
    cast = wider.input.expressions[2]
    assert isinstance(cast, Call)
    assert (cast.function, str(cast.type)) == ("CAST", "DOUBLE")
    with pytest.raises(SqlValidationError, match="column 'id' is INT NOT NULL, and the query gives BIGINT NOT NULL"):
        bind(shop, "INSERT INTO customers (id, name) SELECT id, 'x' FROM orders")


def test_a_table_that_is_there_is_not_made_again() -> None:
    catalog = Catalog()
    execute_ddl(catalog, "CREATE TABLE t (a INT)")
    with pytest.raises(InvalidProgramError, match="there is a table 't' already"):
        execute_ddl(catalog, "CREATE TABLE t (a INT)")
    execute_ddl(catalog, "CREATE OR REPLACE TABLE t AS SELECT 1 AS b")
    assert catalog.remove(("default_catalog", "default_database", "t"))
    assert catalog.tables() == ()


def test_a_name_is_looked_up_by_its_full_path_or_in_the_current_database() -> None:
    catalog = Catalog()
    catalog.add_database("default_catalog", Database("d"))
    execute_ddl(catalog, "CREATE TABLE d.t (a INT)")
    for sql in ("SELECT a FROM d.t", "SELECT t.a FROM default_catalog.d.t", "SELECT d.t.a FROM d.t"):
        assert bind_query(catalog, sql).row_type.names == ("a",)
    with pytest.raises(SqlValidationError, match="no table 't'"):
        bind_query(catalog, "SELECT a FROM t")
    catalog.current_database = "d"
    assert isinstance(bind_query(catalog, "TABLE t"), Scan)


def test_an_expression_is_bound_over_the_columns_of_rows() -> None:
    found = bind_expression(Catalog(), "a + 1", ROW(("a", INT)))
    assert isinstance(found, Call)
    assert (found.function, str(found.type)) == ("+", "INT")


def test_a_plan_as_text_takes_no_longer_the_deeper_an_expression_is(shop: Catalog) -> None:
    deep = "(" * 50 + "amount" + " + 1)" * 50
    text = explain(bind_query(shop, f"SELECT {deep} AS x FROM orders"))
    assert text.count("+ 1") == 50


def test_a_plan_as_text_shows_nodes_and_columns_by_name(shop: Catalog) -> None:
    where = "amount > 1 AND name = 'x'"
    sql = f"SELECT customer, COUNT(*) AS n FROM orders WHERE {where} GROUP BY customer ORDER BY n DESC LIMIT 3"
    assert explain(bind_query(shop, sql)).splitlines()[:6] == [
        "Limit(3)",
        "+- Sort(n DESC)",
        "   +- Project(customer, agg$0 AS n)",
        "      +- Aggregate(keys=[customer], calls=[COUNT(*) AS agg$0])",
        "         +- Project(customer)",
        "            +- Filter((amount > 1) AND (name = CAST('x' AS STRING)))",
    ]

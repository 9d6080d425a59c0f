"""Views keep their query with every name written out, as Flink 2.3 does, so that they stay what they were."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flinkray import StreamExecutionEnvironment
from flinkray.errors import SqlValidationError
from flinkray.tables.binding.binder import Binder, bind_query
from flinkray.tables.catalog import Catalog, View
from flinkray.tables.environment.environment import TableEnvironment
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.statements import CreateView
from tests.support.flink_statements import ANSWERS, flink_statements, is_insert, is_query
from tests.support.sql import DATA

TABLES = """
CREATE TABLE t (a INT, b STRING, c DECIMAL(10, 2), r ROW<x INT, y STRING>, arr ARRAY<INT>, m MAP<STRING, INT>,
  ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE u (a INT PRIMARY KEY NOT ENFORCED, name STRING, `select` INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'datagen');
CREATE DATABASE d2;
CREATE TABLE d2.w (k INT, v BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE d2.t (a INT, z INT) WITH ('connector' = 'datagen')
"""


@pytest.fixture
def tables() -> TableEnvironment:
    found = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    for statement in TABLES.split(";"):
        found.execute_sql(statement)
    return found


def view_of(catalog: Catalog, query: str, columns: str = "") -> View:
    sql = f"CREATE VIEW a_view {columns} AS {query}"
    statement = parse_statement(sql)
    assert isinstance(statement, CreateView)
    return Binder(catalog, sql).view(statement)


def meaning(plan: Plan) -> str:
    """A plan without the places of its parts in the text."""
    return re.sub(r"Span\(.*?\)", "", repr(plan))


def test_the_queries_of_views_are_written_as_flink_does(tables: TableEnvironment) -> None:
    found = {}
    _, *parts = (DATA / "flink_views.txt").read_text().split("\n-- ")
    expected = dict(part.strip().split("\n\n", 1) for part in parts)
    for query in expected:
        found[query] = view_of(tables.catalog, query).sql
    assert found == expected
    assert len(found) > 45


@pytest.mark.parametrize("file", ANSWERS)
def test_a_query_means_the_same_with_its_names_written_out(tmp_path: Path, file: str) -> None:
    tables = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    count = 0
    for name, sql in flink_statements(tmp_path, file).items():
        if is_query(sql) and not name.endswith("_read"):
            plan = bind_query(tables.catalog, sql)
            names = ", ".join(f"`{each}`" for each in plan.row_type.names)
            view = view_of(tables.catalog, sql.rstrip("; \n"), f"({names})")
            assert meaning(bind_query(tables.catalog, view.sql)) == meaning(plan), name
            count += 1
        elif not is_query(sql) and not is_insert(sql):
            tables.execute_sql(sql)
    assert count > 50


def test_a_view_has_the_columns_that_it_had_whatever_its_tables_get(tables: TableEnvironment) -> None:
    tables.execute_sql("CREATE VIEW v AS SELECT * FROM u")
    tables.execute_sql("CREATE VIEW beside AS SELECT * FROM t, d2.t, (SELECT * FROM u) WHERE t.b = 'x'")
    names = [tables.sql_query(f"SELECT * FROM {view}").row_type.names for view in ("v", "beside")]
    assert names == [
        ("a", "name", "select", "ts"),
        ("a", "b", "c", "r", "arr", "m", "ts", "pt", "a0", "z", "a1", "name", "select", "ts0"),
    ]
    tables.execute_sql("ALTER TABLE u ADD (first STRING FIRST, `last` INT)")
    assert [tables.sql_query(f"SELECT * FROM {view}").row_type.names for view in ("v", "beside")] == names
    tables.execute_sql("USE d2")
    assert tables.sql_query("SELECT name FROM default_catalog.default_database.v").row_type.names == ("name",)
    tables.execute_sql("ALTER TABLE default_catalog.default_database.u DROP name")
    with pytest.raises(SqlValidationError, match=r"no column 'name' in u.*\n.*`u`.`name`"):
        tables.sql_query("SELECT * FROM default_catalog.default_database.v")


SHADOWED = {
    "fields": "SELECT a FROM u WHERE EXISTS (SELECT 1 FROM d2.cust WHERE k = a AND name = 'x')",
    "table before field": "SELECT a FROM u WHERE EXISTS (SELECT 1 FROM d2.cust WHERE k > u.a)",
    "one name at two levels": "SELECT b FROM t WHERE EXISTS (SELECT 1 FROM d2.t WHERE z = default_database.t.a)",
    "one alias at three": (
        "SELECT x.b FROM t x WHERE a IN (SELECT x.a FROM u x WHERE name = b AND EXISTS (SELECT 1 FROM d2.cust x "
        "WHERE `select` = c AND x.k = 1))"
    ),
    "a table of WITH": "WITH t AS (SELECT a, b FROM t) SELECT * FROM t, d2.t",
    "no names": "SELECT * FROM t, UNNEST(arr), UNNEST(arr)",
    "a name that others get": "SELECT * FROM (SELECT a FROM t) AS EXPR$0, (SELECT a FROM u)",
}


@pytest.mark.parametrize("query", SHADOWED.values(), ids=SHADOWED)
def test_names_that_mean_something_else_further_in_are_written_out_so_that_they_do_not(
    tables: TableEnvironment, query: str
) -> None:
    tables.execute_sql(
        "CREATE TABLE d2.cust (k INT, u ROW<a INT, name STRING>, x ROW<b STRING>) WITH ('connector' = 'datagen')"
    )
    plan = tables.sql_query(query)._plan
    tables.execute_sql(f"CREATE VIEW v AS {query}")
    assert meaning(bind_query(tables.catalog, view_of(tables.catalog, query).sql)) == meaning(plan)
    assert tables.sql_query("SELECT * FROM v").row_type == plan.row_type


def test_a_path_of_a_table_goes_before_a_field_of_a_nearer_column(tables: TableEnvironment) -> None:
    tables.execute_sql("CREATE TABLE d2.cust (k INT, u ROW<a STRING>) WITH ('connector' = 'datagen')")
    plan = tables.sql_query("SELECT * FROM u WHERE EXISTS (SELECT 1 FROM d2.cust WHERE k > u.a)")._plan
    assert "OuterColumn" in repr(plan)
    assert "FieldAccess" not in repr(plan)


def test_a_star_gives_columns_names_of_their_own_by_which_they_are_ordered(tables: TableEnvironment) -> None:
    for query in (
        "SELECT * FROM t JOIN u ON t.a = u.a ORDER BY a",
        "SELECT * FROM t JOIN u ON t.a = u.a ORDER BY a0, ts0",
        "SELECT t.*, u.* FROM t JOIN u ON t.a = u.a ORDER BY a",
        "SELECT u.a, t.* FROM t JOIN u ON t.a = u.a ORDER BY a",
    ):
        plan = tables.sql_query(query)._plan
        assert bind_query(tables.catalog, view_of(tables.catalog, query).sql).row_type == plan.row_type
    for query in ("SELECT *, a FROM u ORDER BY a", "SELECT t.a, u.a FROM t, u ORDER BY a"):
        with pytest.raises(SqlValidationError, match="several selected columns are 'a'"):
            tables.sql_query(query)


def test_a_hint_of_a_view_that_has_no_effect_is_told_of_once(
    tables: TableEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    tables.execute_sql("CREATE VIEW v AS SELECT /*+ BROADCAST(u) */ t.a FROM t JOIN u ON t.a = u.a")
    told = "the hint BROADCAST has no effect: tables are joined in one way"
    assert caplog.messages == [told]
    tables.execute_sql("CREATE VIEW w AS SELECT a FROM v")
    assert caplog.messages == [told] * 2

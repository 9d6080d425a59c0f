"""Fields of rows are taken out of them as far down as a plan allows; and a plan says which of them it reads."""

from __future__ import annotations

import pytest

from flinkray.tables.binding.binder import bind_query, execute_ddl
from flinkray.tables.catalog import Catalog
from flinkray.tables.plans.explain import explain
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.rules.row_fields import fields_read, take_fields_early
from tests.support.sql import nexmark_catalog, nexmark_statements

TABLES = """
CREATE TABLE t (a INT, r ROW<x INT, y ROW<z INT, w STRING>>, q ROW<r INT>);
CREATE TABLE timed (
    r ROW<x INT, y INT>, s ROW<y INT>, ts TIMESTAMP(3), late INT,
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
)
"""
SCAN = "Scan(default_catalog.default_database."


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = Catalog()
    for sql in TABLES.split(";"):
        execute_ddl(found, sql)
    return found


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        (
            "SELECT r.x + 1, a FROM t WHERE r.y.z > 1",
            "Project(r.x + 1 AS EXPR$0, a) Filter(r.y.z > 1) Project(r.x, a, r.y.z)",
        ),
        # Of what is read as a whole too, no field is taken out.
        ("SELECT r, q.r FROM t WHERE r.x > 1", "Project(r, q.r AS r0) Filter(r.x > 1) Project(r, q.r)"),
        ("SELECT r.y FROM t WHERE r.x > 1", "Project(r.y AS y) Filter(r.x > 1) Project(r.y, r.x)"),
        # Nothing stands between the row and the field.
        ("SELECT r.x FROM t", "Project(r.x AS x)"),
        ("SELECT r.x FROM timed", "Project(r.x AS x) WatermarkAssigner(ts AS ts - 1 s) Project(r.x, ts)"),
        (
            "SELECT r.y, s.y, ts FROM timed WHERE r.y > 1",
            "Project(r.y AS y, s.y AS y0, ts) Filter(r.y > 1) WatermarkAssigner(ts AS ts - 1 s) Project(r.y, s.y, ts)",
        ),
        # A row that is computed would be computed for each of its fields.
        (
            "SELECT p.x FROM (SELECT COALESCE(r, r) AS p, RAND() AS u FROM t) WHERE u > 0",
            "Project(p.x AS x) Filter(u > 0.0) Project(COALESCE(r, r) AS p, RAND() AS u)",
        ),
    ],
)
def test_fields_are_taken_out_of_rows_below_filters_and_watermarks(catalog: Catalog, query: str, steps: str) -> None:
    plan = optimized(bind_query(catalog, query))
    text = [line.lstrip(" +-") for line in explain(plan).splitlines()]
    found = " ".join(line for line in text if line and not line.startswith(SCAN))
    assert found == steps
    assert take_fields_early(plan) == plan


def test_a_plan_says_which_columns_and_fields_it_reads() -> None:
    query = bind_query(nexmark_catalog(), nexmark_statements()["q13"])
    read = {path[2]: names for path, names in fields_read(optimized(query)).items()}
    times = {"person.dateTime", "auction.dateTime", "bid.dateTime"}
    assert read == {
        "events": {"event_type", "bid.auction", "bid.bidder", "bid.price", *times},
        "side_input": {"key", "value"},
    }


def test_what_is_read_in_several_places_is_read_and_a_table_as_it_is_as_a_whole(catalog: Catalog) -> None:
    both = "SELECT r.x FROM t WHERE a > 1 UNION ALL SELECT q.r FROM t"
    assert [*fields_read(optimized(bind_query(catalog, both))).values()] == [{"a", "r.x", "q.r"}]
    assert [*fields_read(optimized(bind_query(catalog, "SELECT * FROM t"))).values()] == [{"a", "r", "q"}]

"""What becomes of orders, first rows and changes by key: which operators, with which settings."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from flinkray.tables.binding.binder import Binder
from flinkray.tables.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalog
from flinkray.tables.lowering.contract import SinkOptions, TableOptions, Unexecutable
from flinkray.tables.lowering.lowering import PlanLowering
from flinkray.tables.lowering.sinks import by_key, for_upserts
from flinkray.tables.plans.explain import explain
from flinkray.tables.plans.expressions import Column, Constant, Plan
from flinkray.tables.plans.nodes import Scan
from flinkray.tables.plans.rules.order import optimized
from flinkray.tables.plans.rules.ranks import UNBOUNDED
from flinkray.tables.plans.tables import Table, TableColumn
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.statements import QueryStatement
from flinkray.tables.types.logical import ARRAY, BIGINT, STRING, TIMESTAMP, TIMESTAMP_LTZ, TimeAttribute
from flinkray.transformations.operator_factories import DropFactory
from flinkray.transformations.table_factories import (
    DeduplicateFactory,
    GroupAggregateFactory,
    NormalizeFactory,
    OverFactory,
    RankFactory,
    SortFactory,
)
from flinkray.transformations.transformation import PhysicalTransformation, Transformation, upstream_of
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.records import Millis

ROWTIME = TIMESTAMP(3).as_attribute(TimeAttribute.ROWTIME)
PROCTIME = TIMESTAMP_LTZ(3).as_attribute(TimeAttribute.PROCTIME)
COLUMNS = (
    TableColumn("id", BIGINT.not_null()),
    TableColumn("name", STRING),
    TableColumn("ts", ROWTIME),
    TableColumn("now", PROCTIME),
    TableColumn("list", ARRAY(BIGINT)),
)
ALL = Changes(updates=True, deletes=True)
UPSERTS = Changes(updates=True, deletes=True, before=False)
TABLES = {
    "t": Table((DEFAULT_CATALOG, DEFAULT_DATABASE, "t"), COLUMNS),
    "c": Table((DEFAULT_CATALOG, DEFAULT_DATABASE, "c"), COLUMNS, primary_key=("id",), changes=ALL),
    "u": Table((DEFAULT_CATALOG, DEFAULT_DATABASE, "u"), COLUMNS, primary_key=("id",), changes=UPSERTS),
}

SINK = Table((DEFAULT_CATALOG, DEFAULT_DATABASE, "sink"), ())
"""A table that demands nothing of its columns."""


def plan_of(sql: str) -> Plan:
    catalog = Catalog()
    for table in TABLES.values():
        catalog.add(table)
    statement = parse_statement(sql)
    assert isinstance(statement, QueryStatement)
    return optimized(Binder(catalog, sql).query(statement))


def lowering(**options: Any) -> PlanLowering:
    streams: dict[Any, Transformation] = {
        table.path: PhysicalTransformation(name=name, factory=DropFactory(("x",))) for name, table in TABLES.items()
    }
    return PlanLowering(streams, TableOptions(state_ttl_ms=Millis(7), **options))


def factories(transformation: Transformation, kind: type[Any]) -> list[Any]:
    physical = [each for each in upstream_of(transformation) if isinstance(each, PhysicalTransformation)]
    return [each.factory for each in physical if isinstance(each.factory, kind)]


FIRST = "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY {}) AS r FROM {}) WHERE r = 1"


def test_deduplication_of_a_changelog_ranks_rows_so_that_the_next_one_takes_the_place_of_one_that_is_deleted() -> None:
    (of_inserts,) = factories(lowering().of(plan_of(FIRST.format("ts DESC", "t"))), DeduplicateFactory)
    assert (of_inserts.keeps_last, of_inserts.gives.deletes) == (True, False)
    (last,) = factories(lowering().of(plan_of(FIRST.format("ts DESC", "c"))), RankFactory)
    assert (last.first, last.last, last.latest_first, last.takes, last.gives) == (1, 1, True, (ALL,), ALL)
    assert [(key.descending, key.nulls_first) for key in last.order] == [(True, False)]
    (first,) = factories(lowering().of(plan_of(FIRST.format("now", "c"))), RankFactory)
    assert (first.order, first.latest_first, first.state_ttl_ms) == ((), False, 7)


def test_rows_in_the_order_of_their_processing_time_are_in_that_of_their_arrival() -> None:
    sql = FIRST.replace("r = 1", "r <= 3").format("id DESC, now DESC, name", "t")
    (made,) = factories(lowering().of(plan_of(sql)), RankFactory)
    assert (len(made.order), made.latest_first) == (1, True)


def test_null_is_the_last_time_where_the_order_says_so() -> None:
    assert factories(lowering().of(plan_of(FIRST.format("ts NULLS LAST", "t"))), DeduplicateFactory) == []


@pytest.mark.parametrize(
    ("order", "is_batch", "sorts"),
    [
        ("ts, id DESC", False, (2, 0)),
        ("now, id", False, (1, None)),
        ("id", True, (1, None)),
        ("ts", True, (1, None)),
    ],
)
def test_rows_are_sorted_by_time_first_or_in_batch_mode(order: str, is_batch: bool, sorts: Any) -> None:
    transformation = lowering(is_batch=is_batch).of(plan_of(f"SELECT ts, now, id FROM t ORDER BY {order}"))
    (made,) = factories(transformation, SortFactory)
    assert (len(made.order), made.time) == sorts


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT id FROM t ORDER BY id", "a stream has no end.*time attribute first, ascending, add LIMIT"),
        ("SELECT id, ts FROM t ORDER BY ts DESC", "a stream has no end"),
        ("SELECT id, ts FROM c ORDER BY ts", "a stream has no end"),
        ("SELECT id FROM t ORDER BY ARRAY[MAP[id, 1]] LIMIT 3", "values of ARRAY<MAP<.* are not ordered"),
    ],
)
def test_an_order_that_cannot_be_is_refused_with_the_reason(sql: str, reason: str) -> None:
    with pytest.raises(Unexecutable) as caught:
        lowering().of(plan_of(sql))
    assert re.search(reason, caught.value.reason)


def test_changes_without_the_rows_as_they_were_become_a_whole_changelog() -> None:
    transformation = lowering().of(plan_of("SELECT name FROM u WHERE id > 3"))
    (made,) = factories(transformation, NormalizeFactory)
    assert made.rows.names == ("id", "name")
    assert (made.takes, made.gives) == ((UPSERTS,), ALL)
    assert factories(lowering().of(plan_of("SELECT name FROM c")), NormalizeFactory) == []
    (made,) = factories(lowering(is_batch=True).of(plan_of("SELECT name FROM u")), NormalizeFactory)
    assert (made.takes, made.gives) == ((UPSERTS,), ALL)
    assert factories(lowering(is_batch=True).of(plan_of("SELECT name FROM c")), NormalizeFactory) == []


@pytest.mark.parametrize(
    ("sql", "key", "materializes", "gives"),
    [
        ("SELECT id, name FROM t", [0], False, INSERTS),
        ("SELECT id, name FROM u", [0], False, UPSERTS),
        ("SELECT id, name FROM u", [0, 1], True, UPSERTS),  # the row of the old name has to go
        ("SELECT id, name FROM u", [1], True, UPSERTS),
    ],
)
def test_rows_of_a_sink_are_kept_where_several_may_have_its_key(
    sql: str, key: list[int], materializes: bool, gives: Changes
) -> None:
    plan, used = plan_of(sql), lowering()
    transformation = for_upserts(plan, key, SINK, used)
    found = factories(transformation, RankFactory)
    assert bool(found) == materializes
    if materializes:
        assert (found[0].latest_first, found[0].order, found[0].first, found[0].last) == (True, (), 1, 1)
        assert (transformation.name, found[0].takes, found[0].gives) == ("SinkUpsertMaterializer", (ALL,), gives)
    elif gives is not INSERTS:
        (normalized,) = factories(transformation, NormalizeFactory)
        assert normalized.gives == gives


@pytest.mark.parametrize("is_batch", [False, True])
def test_changes_that_may_come_again_are_compared_with_the_row_that_is_known(is_batch: bool) -> None:
    used = lowering(has_duplicates=True, is_batch=is_batch)
    with_connector = {name: replace(table, options=(("connector", "x"),)) for name, table in TABLES.items()}
    (made,) = factories(used.of(Scan(with_connector["c"], (0, 1))), NormalizeFactory)
    assert (made.takes, made.gives) == ((ALL,), ALL)
    assert factories(used.of(Scan(with_connector["t"], (0, 1))), NormalizeFactory) == []
    with pytest.raises(Unexecutable) as caught:
        used.of(Scan(replace(with_connector["c"], primary_key=()), (0, 1)))
    assert "PRIMARY KEY" in caught.value.reason


def test_mini_batches_are_for_what_gives_fewer_changes_then_and_single_rows_for_all() -> None:
    plan = plan_of(f"SELECT COUNT(*) FROM ({FIRST.format('name', 'u')})")
    found = {}
    for rows in (0, 50, 1):
        transformation = lowering(least_rows=rows, wait_ms=Millis(9)).of(plan)
        kinds = (GroupAggregateFactory, NormalizeFactory, RankFactory)
        made = [factories(transformation, kind)[0] for kind in kinds]
        found[rows] = [(each.least_rows, each.wait_ms) for each in made]
    assert found == {0: [(0, 0)] * 3, 50: [(50, 9), (50, 9), (0, 0)], 1: [(1, 9)] * 3}
    batch = lowering(least_rows=50, is_batch=True).of(plan)
    assert factories(batch, GroupAggregateFactory)[0].least_rows == 0


def test_options_say_where_rows_of_a_sink_are_kept() -> None:
    plan = plan_of("SELECT id, name FROM u")
    for materialize, key, materializes in (("NONE", [1], False), ("FORCE", [0], True), ("AUTO", [0], False)):
        used = lowering(sinks=SinkOptions(materialize=materialize))
        assert bool(factories(for_upserts(plan, key, SINK, used), RankFactory)) == materializes, materialize
    used = lowering(sinks=SinkOptions(materialize="FORCE"))
    inserts = for_upserts(plan_of("SELECT id, name FROM t"), [0], SINK, used)
    assert factories(inserts, RankFactory) == []
    refusing = lowering(sinks=SinkOptions(refuses_conflicts=True))
    for_upserts(plan, [0], SINK, refusing)
    with pytest.raises(Unexecutable) as caught:
        for_upserts(plan, [1], SINK, refusing)
    assert "require-on-conflict" in caught.value.reason


def test_rows_go_to_subtasks_of_a_sink_by_their_primary_key() -> None:
    rows = lowering().of(plan_of("SELECT id, name FROM t"))
    keyed = Table(SINK.path, (), primary_key=("id",))
    cases = [
        (keyed, None, "AUTO", False),
        (keyed, 3, "AUTO", True),
        (keyed, 1, "AUTO", False),
        (keyed, 3, "NONE", False),
        (keyed, None, "FORCE", True),
        (SINK, 3, "FORCE", False),
    ]
    assert [by_key(rows, table, parallelism, how) is not rows for table, parallelism, how, _ in cases] == [
        is_keyed for *_, is_keyed in cases
    ]


def over(call: str, order: str = "ORDER BY ts") -> str:
    return f"SELECT id, {call} OVER (PARTITION BY name {order}) FROM t"


@pytest.mark.parametrize(
    ("sql", "time", "functions"),
    [
        (over("COUNT(*)"), 2, [["COUNT"]]),
        (over("LAG(id, 2)", "ORDER BY now"), None, [["LAG"]]),
        (over("SUM(id + 1)", "ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"), 2, [["SUM"]]),
        (
            "SELECT COUNT(*) OVER w, MAX(id) OVER w FROM t WINDOW w AS (PARTITION BY UPPER(name) ORDER BY ts)",
            2,
            [["COUNT", "MAX"]],
        ),
        # The last window comes first: what is below it is made when it is.
        (
            "SELECT COUNT(*) OVER (PARTITION BY name ORDER BY ts), MAX(id) OVER (PARTITION BY id ORDER BY ts) FROM t",
            2,
            [["MAX"], ["COUNT"]],
        ),
    ],
)
def test_calls_over_one_window_are_one_operator(sql: str, time: int | None, functions: list[list[str]]) -> None:
    made = factories(lowering().of(plan_of(sql)), OverFactory)
    assert [[call.function for call in each.calls] for each in made] == functions
    for each in made:
        name = None if each.time is None else each.input_rows[0].names[each.time]
        assert name == (None if time is None else "ts")
        for call in each.calls:
            assert not call.partition_by
            assert all(isinstance(argument, Column | Constant) for argument in call.arguments)


@pytest.mark.parametrize("condition", ["r <= id", "r < id + 1", "id = r", "list[1] >= r AND r > 1"])
def test_ranks_up_to_a_column_are_ranks_without_end_and_a_filter(condition: str) -> None:
    plan = plan_of(FIRST.replace("r = 1", condition).format("name DESC", "t"))
    (found,) = factories(lowering().of(plan), RankFactory)
    assert (found.first, found.last, found.has_number) == (1 + ("> 1" in condition), UNBOUNDED, True)
    assert "Filter(" in explain(plan)


def test_a_constant_parts_no_rows_from_others() -> None:
    of_constant, of_none = (
        explain(plan_of(FIRST.replace("PARTITION BY name", by).format("id", "t"))) for by in ("PARTITION BY 'x'", "")
    )
    assert "Rank(" in of_none
    assert of_constant == of_none


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (over("COUNT(*)", "ORDER BY id"), "on a stream a window is ordered by a time attribute.*WHERE row_num <= 3"),
        (over("COUNT(*)", "ORDER BY ts DESC"), "a time attribute"),
        (over("COUNT(*)", ""), "a time attribute"),
        (over("LEAD(id)"), "LEAD needs rows that come later, and so batch mode"),
        (over("NTILE(4)"), "NTILE needs rows that come later"),
        (over("COUNT(*)", "ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"), "ends with the CURRENT ROW"),
        (over("FIRST_VALUE(id) RESPECT NULLS"), "ignore NULLs, as in Flink"),
        (over("LAG(id) IGNORE NULLS"), "ignore NULLs, as in Flink"),
        (over("LAG(id, -1)"), "LAG takes a number of rows, from 0"),
        (over("NTILE(0)"), "NTILE takes a number of parts, from 1"),
        (over("SINGLE_VALUE(id)"), "SINGLE_VALUE has no operator yet"),
        (over("LAG(id, 1, id)"), "LAG takes what follows its first argument as constants"),
        (over("COUNT(*)").replace("FROM t", "FROM c"), "takes rows that are only added"),
        (FIRST.replace("r = 1", "r >= id").format("id", "t"), "for the first rows of each key, compare ROW_NUMBER"),
    ],
)
def test_a_window_that_a_stream_cannot_have_is_refused_with_the_reason(sql: str, reason: str) -> None:
    with pytest.raises(Unexecutable) as caught:
        lowering().of(plan_of(sql))
    assert re.search(reason, caught.value.reason)


@pytest.mark.parametrize(
    "window",
    [
        "ORDER BY ts RANGE INTERVAL '1' MONTH PRECEDING",
        "ORDER BY ts RANGE 5 PRECEDING",
        "ORDER BY id RANGE INTERVAL '1' SECOND PRECEDING",
        "ORDER BY id, ts RANGE 5 PRECEDING",
        "ORDER BY CAST(id AS DECIMAL(19, 2)) RANGE 5 PRECEDING",
    ],
)
def test_a_range_counts_numbers_or_with_days_to_seconds_times(window: str) -> None:
    with pytest.raises(Unexecutable) as caught:
        lowering(is_batch=True).of(plan_of(over("COUNT(*)", window)))
    assert "a RANGE of so much is over one column of numbers" in caught.value.reason


def test_in_batch_mode_windows_have_any_order() -> None:
    used = lowering(is_batch=True)
    for order in ("ORDER BY id", "", "ORDER BY ts DESC, id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING"):
        (made,) = factories(used.of(plan_of(over("COUNT(*)", order))), OverFactory)
        assert made.time is None
    with pytest.raises(Unexecutable, match="Window"):
        used.of(plan_of(over("COUNT(*)", "ORDER BY name RANGE BETWEEN 1 PRECEDING AND CURRENT ROW")))

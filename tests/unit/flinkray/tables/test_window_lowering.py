"""Windows of plans: with which operators they run, over which times, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from flinkray import WatermarkStrategy, col
from flinkray.connectors.collection.source import ArrowSource
from flinkray.errors import SqlUnsupportedError
from flinkray.tables.lowering.queries import Stream, planned
from flinkray.tables.lowering.queries import _bound as bound
from flinkray.tables.plans.changelogs import changes_of
from flinkray.transformations.operator_factories import (
    AsChangelogFactory,
    DropFactory,
    OperatorFactory,
    RowtimeFactory,
    SourceFactory,
    TimestampsAndWatermarksFactory,
    WhereFactory,
    WindowFactory,
)
from flinkray.transformations.transformation import PhysicalTransformation, Transformation, UnionTransformation
from flinkray.types.records import Kind, RecordType
from flinkray.windows.assigners import (
    CumulativeEventTimeWindows,
    CumulativeProcessingTimeWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)

SCHEMA = pa.schema({"k": pa.string(), "v": pa.int32(), "ms": pa.int64(), "ts": pa.timestamp("us")})
STRATEGY = WatermarkStrategy.for_monotonous_timestamps()
BOTH = "window_start, window_end"
TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
BY_CLOCK = "TABLE(TUMBLE(TABLE (SELECT *, PROCTIME() AS p FROM t), DESCRIPTOR(p), INTERVAL '10' SECOND))"
BY_CLOCK_CUMULATIVE = CumulativeProcessingTimeWindows(10_000, 5000)


def added(factory: OperatorFactory, *inputs: Transformation) -> Transformation:
    return PhysicalTransformation(name=type(factory).__name__, factory=factory, input_transformations=inputs)


ROWS = added(DropFactory(("x",)))
TIMED = added(TimestampsAndWatermarksFactory(STRATEGY.with_timestamp_assigner("ts")), ROWS)


def stream(transformation: Transformation = TIMED) -> Stream:
    return transformation, RecordType(Kind.ROW, SCHEMA)


def upstream(transformation: Transformation) -> Iterator[Transformation]:
    yield transformation
    for each in transformation.inputs:
        yield from upstream(each)


def assigner_of(sql: str) -> WindowAssigner:
    transformation, _ = planned(sql, {"t": stream()})
    factories = [each.factory for each in upstream(transformation) if isinstance(each, PhysicalTransformation)]
    (found,) = (each for each in factories if isinstance(each, WindowFactory))
    return found.assigner


def test_an_aggregate_of_a_streams_windows_is_its_window_operator_between_two_calcs() -> None:
    # Event times are those of the column already, and the operator itself says which windows there are.
    transformation, _ = planned(f"SELECT k, SUM(v) FROM {TUMBLE} WHERE v > 0 GROUP BY k, {BOTH}", {"t": stream()})
    operators = [each for each in upstream(transformation) if isinstance(each, PhysicalTransformation)]
    assert [each.name for each in operators[:4]] == ["Calc", "Calc", "WindowAggregate", "Calc"]
    assert operators[4] is TIMED


def test_a_column_of_event_times_is_only_made_where_it_is_read() -> None:
    with_times = added(RowtimeFactory("ts", is_added=True), ROWS)
    for sql, source in ((f"SELECT COUNT(*) FROM {TUMBLE} GROUP BY {BOTH}", ROWS), ("SELECT ts FROM t", with_times)):
        transformation, _ = planned(sql, {"t": stream(with_times)})
        assert next(each for each in upstream(transformation) if each in (ROWS, with_times)) is source


@pytest.mark.parametrize(
    ("windows", "assigner"),
    [
        ("TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))", TumblingEventTimeWindows(5000)),
        (
            "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '7' SECOND))",
            TumblingEventTimeWindows(5000, 2000),
        ),
        (
            "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '1' MINUTE))",
            SlidingEventTimeWindows(60_000, 5000),
        ),
        (
            "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '1' MINUTE, INTERVAL '67' SECOND))",
            CumulativeEventTimeWindows(60_000, 5000, 7000),
        ),
        (
            "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '5' SECOND))",
            TumblingEventTimeWindows(5000),
        ),
        (BY_CLOCK.replace("TUMBLE(", "CUMULATE(").replace("p), ", "p), INTERVAL '5' SECOND, "), BY_CLOCK_CUMULATIVE),
        # Windows that are columns each end in another stretch of the step.
        (
            "(SELECT *, window_end AS e FROM "
            "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '1' MINUTE))) "
            "WHERE e > TIMESTAMP '2024-01-01 00:00:00'",
            TumblingEventTimeWindows(5000),
        ),
        (
            "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND))",
            EventTimeSessionWindows(5000),
        ),
        (BY_CLOCK, TumblingProcessingTimeWindows(10_000)),
        (
            f"(SELECT * FROM {TUMBLE}) WHERE window_start > TIMESTAMP '2024-01-01 00:00:00'",
            TumblingEventTimeWindows(10_000),
        ),
    ],
)
def test_windows_as_columns_are_windows_of_operators(windows: str, assigner: WindowAssigner) -> None:
    assert assigner_of(f"SELECT k, {BOTH}, COUNT(*) FROM {windows} GROUP BY k, {BOTH}") == assigner


def test_windows_in_group_by_are_windows_of_operators() -> None:
    assert assigner_of("SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)") == TumblingEventTimeWindows(
        5000
    )
    by_clock = "SELECT COUNT(*) FROM (SELECT k, PROCTIME() AS p FROM t) GROUP BY SESSION(p, INTERVAL '5' SECOND)"
    assert assigner_of(by_clock) == ProcessingTimeSessionWindows(5000)


@pytest.mark.parametrize(
    ("transformation", "column"),
    [
        (TIMED, "ts"),
        (added(SourceFactory(ArrowSource(pa.table({"k": [1]})), STRATEGY.with_timestamp_assigner(col("ts")))), "ts"),
        (added(RowtimeFactory("ts"), ROWS), "ts"),
        (added(WhereFactory(col("v") > 1), TIMED), "ts"),
        (UnionTransformation(name="Union", union_inputs=(TIMED, added(RowtimeFactory("ts"), ROWS))), "ts"),
        (added(TimestampsAndWatermarksFactory(STRATEGY), TIMED), "ts"),
        # Numbers are no timestamps; and what else happens to rows may change the column.
        (added(TimestampsAndWatermarksFactory(STRATEGY.with_timestamp_assigner("ms")), ROWS), None),
        (added(TimestampsAndWatermarksFactory(STRATEGY.with_timestamp_assigner(lambda _, time: time)), ROWS), None),
        (UnionTransformation(name="Union", union_inputs=(TIMED, ROWS)), None),
        (added(DropFactory(("x",)), TIMED), None),
    ],
)
def test_the_column_of_event_times_is_the_rowtime_attribute(transformation: Transformation, column: str | None) -> None:
    sql = f"SELECT * FROM {TUMBLE}"
    if column is None:
        with pytest.raises(Exception, match="TUMBLE is over a time attribute, and 'ts' is"):
            planned(sql, {"t": stream(transformation)})
    else:
        planned(sql, {"t": stream(transformation)})


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT k, COUNT(*) FROM {TUMBLE} GROUP BY k, {BOTH}",
        f"SELECT k, COUNT(*) FROM {TUMBLE} GROUP BY {BOTH}, ROLLUP (k)",
        f"SELECT COUNT(*), {BOTH} FROM (SELECT k, COUNT(*), {BOTH} FROM {TUMBLE} GROUP BY {BOTH}, CUBE (k)) "
        f"GROUP BY {BOTH}",
        f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {BOTH} ORDER BY v) AS r FROM {TUMBLE}) WHERE r < 3",
    ],
)
def test_windows_give_inserts_alone_but_for_ranks_of_changes(sql: str) -> None:
    changelog = added(RowtimeFactory("ts"), added(AsChangelogFactory("op"), ROWS))
    for transformation, is_insert_only in ((TIMED, True), (changelog, "COUNT" in sql)):
        _, plan = bound(sql, {"t": stream(transformation)})
        assert changes_of(plan).is_insert_only is is_insert_only


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            f"SELECT ARRAY_AGG(v ORDER BY v) FROM {TUMBLE} GROUP BY {BOTH}",
            "the aggregate ARRAY_AGG cannot be executed yet",
        ),
        (
            "SELECT k, COUNT(*) FROM (SELECT k, PROCTIME() AS p FROM t) "
            "GROUP BY TUMBLE(p, INTERVAL '5' SECOND), ROLLUP (k)",
            "GROUP BY: windows of processing time have no grouping sets",
        ),
        (
            "SELECT k, COUNT(*) FROM t GROUP BY SESSION(ts, INTERVAL '5' SECOND), ROLLUP (k)",
            "GROUP BY: sessions are those of the rows of all keys, which a grouping set has not",
        ),
        (
            f"SELECT SUM(DISTINCT v) FROM {BY_CLOCK} GROUP BY {BOTH}",
            "GROUP BY: in windows of processing time",
        ),
        (
            f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {BOTH} ORDER BY v) AS r FROM {BY_CLOCK}) "
            "WHERE r < 3",
            "a call OVER a window: windows of processing time are for aggregates of their rows alone",
        ),
    ],
)
def test_what_windows_cannot_do_is_refused_with_the_reason(sql: str, message: str) -> None:
    with pytest.raises(SqlUnsupportedError) as caught:
        planned(sql, {"t": stream()})
    assert caught.value.message.startswith(message)

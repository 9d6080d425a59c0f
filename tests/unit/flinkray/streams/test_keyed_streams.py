"""Keyed, windowed, connected and joined streams: what their calls record."""

# ruff: noqa: ARG005  (functions that are never called here)

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from flinkray import (
    Count,
    DataStream,
    InvalidProgramError,
    KeyedProcessFunction,
    Max,
    OutputTag,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    col,
)
from flinkray.transformations.operator_factories import (
    ProcessFactory,
    ReduceFactory,
    RunningAggregateFactory,
    RunningColumnFactory,
    WindowCoGroupFactory,
    WindowFactory,
)
from flinkray.transformations.transformation import (
    SideOutputTransformation,
    UnionTransformation,
)
from flinkray.types.keys import ColumnKey
from tests.support.api import columns, factory, operator
from tests.support.functions import Both, KeyedBoth, Mean, Plain

WINDOW = TumblingEventTimeWindows.of("10 s")


# -- operations of keyed streams


def test_running_operations(rows: DataStream) -> None:
    keyed = rows.key_by("word")
    assert factory(keyed.max_by("n")) == RunningColumnFactory("max_by", "n")
    assert factory(keyed.min(1)) == RunningColumnFactory("min", "n")
    assert factory(rows.map(lambda r: r).key_by("f0").sum(1)) == RunningColumnFactory("sum", 1)
    aggregated = keyed.aggregate(n=Count(), top=Max("price"))
    assert factory(aggregated) == RunningAggregateFactory((("n", Count()), ("top", Max("price"))))
    assert columns(aggregated) == ("word", "n", "top")
    reduced = factory(keyed.reduce(max))
    assert isinstance(reduced, ReduceFactory)
    assert reduced.output_type == rows.record_type


def test_what_columns_a_key_of_a_declared_row_type_has_is_not_known_before_it_runs(rows: DataStream) -> None:
    class Pair(NamedTuple):
        word: str
        n: int

    counts = rows.key_by(lambda row: Pair(row.word, row.n), key_type=Pair).aggregate(rows=Count())
    assert columns(counts.select("key_0", "rows")) == ("key_0", "rows")


def test_map_with_state_is_a_keyed_process_function(rows: DataStream) -> None:
    stream = rows.key_by("word").map_with_state(lambda value, state: (state, (state or 0) + 1), output_type=int)
    made = factory(stream)
    assert isinstance(made, ProcessFactory)
    assert isinstance(made.function, KeyedProcessFunction)
    states = []

    class State:
        current: Any = None

        def value(self) -> Any:
            return self.current

        def update(self, value: Any) -> None:
            self.current = value

        def clear(self) -> None:
            self.current = None
            states.append("cleared")

    class Context:
        def get_state(self, descriptor: Any) -> State:
            return State()

    made.function.open(Context())  # type: ignore[arg-type]
    results = [made.function.process_element(value, None) for value in "abc"]  # type: ignore[arg-type]
    assert results == [[None], [1], [2]]


def test_window_settings_and_operations(rows: DataStream) -> None:
    late = OutputTag("late")
    windowed = rows.key_by("word").window(WINDOW).allowed_lateness("1 s").side_output_late_data(late)
    counted = windowed.aggregate(count=Count())
    made = factory(counted)
    assert isinstance(made, WindowFactory)
    assert (made.allowed_lateness_ms, made.late_tag, made.aggregates) == (1000, late, (("count", Count()),))
    assert columns(counted) == ("word", "window_start", "window_end", "count")
    assert operator(counted).keys == (ColumnKey(("word",)),)
    mean = windowed.aggregate(Mean())
    assert mean.record_type == rows.map(float).record_type
    assert columns(windowed.sum("n")) == ("word", "window_start", "window_end", "n")
    reduced = windowed.reduce(lambda a, b: a, window_function=lambda key, context, rows: rows)
    made = factory(reduced)
    assert isinstance(made, WindowFactory)
    assert None not in (made.reduce, made.process)
    assert reduced.record_type is None
    assert windowed.reduce(lambda a, b: a).record_type == rows.record_type


def test_apply_of_a_window_gets_key_window_and_rows(rows: DataStream) -> None:
    made = factory(rows.key_by("word").window(WINDOW).apply(lambda key, window, values: [(key, window, values)]))
    assert isinstance(made, WindowFactory)

    class Context:
        def window(self) -> str:
            return "w"

    assert made.process.process("k", Context(), [1, 2]) == [("k", "w", [1, 2])]  # type: ignore[union-attr]


# -- several streams


def test_union_keeps_the_order_of_its_inputs(rows: DataStream) -> None:
    other = rows.map(lambda row: row)
    united = rows.union(other, rows)
    assert isinstance(united._transformation, UnionTransformation)
    assert united._transformation.inputs == (rows._transformation, other._transformation, rows._transformation)
    assert united.record_type == rows.record_type


def test_union_of_different_types_is_an_error(env: StreamExecutionEnvironment, rows: DataStream) -> None:
    with pytest.raises(
        InvalidProgramError, match=r"different types: stream 1 has row<.*stream 2 has scalar<value: int64>"
    ):
        rows.union(env.from_sequence(0, 1))
    with pytest.raises(InvalidProgramError, match="stream 3 has columns x"):
        rows.union(rows.map(lambda row: row), rows.select(x=col("n") + 1))


def test_streams_of_two_environments_do_not_meet(rows: DataStream) -> None:
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    for call in (rows.union, rows.connect, rows.join, rows.co_group):
        with pytest.raises(InvalidProgramError, match="different environments"):
            call(other)


def test_connected_streams_are_keyed_before_or_here(rows: DataStream) -> None:
    key = ColumnKey(("word",))
    before = rows.key_by("word").connect(rows.key_by("word")).map(Both())
    here = rows.connect(rows).key_by("word", "word").process(KeyedBoth())
    neither = rows.connect(rows.key_by("word")).map(Both())
    assert operator(before).keys == operator(here).keys == (key, key)
    assert operator(neither).keys == ()
    assert len(operator(neither).inputs) == 2


def test_a_join_without_function_is_columnar(rows: DataStream) -> None:
    other = rows.rename(price="cost")
    joined = rows.join(other).where("word").equal_to("word").window(WINDOW).apply()
    made = factory(joined)
    assert isinstance(made, WindowCoGroupFactory)
    assert made.is_join
    assert made.function is None
    assert columns(joined) == ("word", "n", "price", "n_right", "cost")
    assert joined.record_type is not None


def test_joins_and_co_groups_with_functions(rows: DataStream) -> None:
    joined = rows.join(rows).where(lambda row: row.word).equal_to("word").window(WINDOW)
    assert columns(joined.apply(lambda a, b: 1, output_type=int)) == ("value",)
    grouped = rows.co_group(rows).where("word").equal_to("word").window(WINDOW).allowed_lateness(5)
    made = factory(grouped.apply(lambda a, b: [], output_type=int))
    assert isinstance(made, WindowCoGroupFactory)
    assert (made.is_join, made.allowed_lateness_ms) == (False, 5)


def test_a_side_output_is_read_from_an_operator(rows: DataStream) -> None:
    side = rows.process(Plain()).get_side_output(OutputTag("late", int))
    assert isinstance(side._transformation, SideOutputTransformation)
    assert columns(side) == ("value",)
    with pytest.raises(InvalidProgramError, match="get_side_output"):
        rows.union(rows).get_side_output(OutputTag("late"))

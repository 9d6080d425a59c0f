"""The rules of event-time windows, each on columnar and on row windows."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.windows.aligned import dense_index, sparse_index
from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.operators.windows.aligned.dense_index import DenseIndex
from actors.operators.windows.aligned.process_operator import ProcessWindowOperator
from actors.operators.windows.base.times import AlignedWindowTimes
from actors.operators.windows.choice import create_window_operator
from actors.operators.windows.user_functions.calls import WindowCalls
from actors.state.keyed.backend import NO_GROUP
from flinkray.errors import (
    InvalidProgramError,
    NullTimestampError,
    TypeMismatchError,
    UnknownColumnError,
    UserFunctionError,
)
from flinkray.functions.interfaces import AggregateFunction, ProcessWindowFunction, WindowContext
from flinkray.time.windows import Window
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Millis, OutputTag
from flinkray.windows.aggregates import CollectList, Count, Sum
from flinkray.windows.assigners import (
    AlignedWindows,
    CumulativeEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.support.operators import FakeContext, OperatorHarness, code
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from

TUMBLING = TumblingEventTimeWindows.of(10)
SLIDING = SlidingEventTimeWindows.of(10, 5)
KEY = (ColumnKey(("key",)),)


def listed(key: Any, context: WindowContext, elements: Iterable[Any]) -> list[tuple[Any, int, list[Any]]]:
    return [(key, context.window().start, [element.value for element in elements])]


class Windows:
    """Either kind of operator; results read as (key, window start, values in order)."""

    def __init__(
        self,
        is_columnar: bool,
        assigner: WindowAssigner,
        restored: Any = None,
        batch_rows: int = 65_536,
        **settings: Any,
    ) -> None:
        self.is_columnar = is_columnar
        settings["allowed_lateness_ms"] = Millis(settings.pop("lateness", 0))
        if is_columnar:
            factory = WindowFactory(assigner, aggregates=(("values", CollectList("value")),), **settings)
        else:
            factory = WindowFactory(assigner, process=listed, **settings)
        operator = create_window_operator(code(factory, "key"))
        self.harness = OperatorHarness(operator, keys=KEY, restored=restored, batch_rows=batch_rows)

    def push(self, *rows: tuple[str, int, int]) -> None:
        """(key, time, value)"""
        keys, times, values = zip(*rows, strict=True)
        self.harness.push({"key": list(keys), "value": list(values)}, list(times))

    def take(self) -> list[tuple[Any, int, list[Any]]]:
        """What came out since the last time."""
        output = self.harness.output
        if self.is_columnar:
            rows = [(row["key"], row["window_start"], row["values"]) for row in output.dicts]
        else:
            rows = list(output.rows)
        output.clear()
        return rows


@pytest.fixture(params=["columnar", "rows"])
def is_columnar(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "columnar")


def test_a_window_fires_when_the_watermark_reaches_its_last_millisecond(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    windows.push(("a", 0, 1), ("a", 9, 2), ("a", 10, 3))
    windows.harness.watermark(8)
    assert windows.take() == []
    windows.harness.watermark(9)
    assert windows.take() == [("a", 0, [1, 2])]
    windows.harness.watermark(18)
    assert windows.take() == []


def test_results_carry_the_last_millisecond_of_the_window_and_come_before_the_watermark(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    windows.push(("a", 3, 1))
    windows.harness.watermark(12)
    assert windows.harness.output.timestamps == [9]
    batch, watermark = windows.harness.output.elements
    assert batch.num_rows == 1
    assert watermark.timestamp == 12


def test_all_due_windows_fire_as_one_batch_by_window_then_by_first_arrival_of_the_key(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    windows.push(("b", 12, 1), ("b", 3, 2), ("a", 4, 3), ("a", 15, 4), ("c", 11, 5), ("b", 1, 6))
    windows.harness.watermark(30)
    assert len(windows.harness.output.batches) == 1
    assert windows.take() == [("b", 0, [2, 6]), ("a", 0, [3]), ("b", 10, [1]), ("a", 10, [4]), ("c", 10, [5])]


def test_results_are_cut_at_the_batch_size(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING, batch_rows=4)
    windows.push(*[(f"k{number}", 1, number) for number in range(10)])
    windows.harness.watermark(9)
    assert [batch.num_rows for batch in windows.harness.output.batches] == [4, 4, 2]
    assert len(windows.take()) == 10


def test_times_before_the_epoch_are_rounded_down_not_towards_zero(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    windows.push(("a", -1, 1), ("a", -10, 2), ("a", -11, 3), ("a", 0, 4))
    windows.harness.watermark(MAX_TIMESTAMP)
    assert windows.take() == [("a", -20, [3]), ("a", -10, [1, 2]), ("a", 0, [4])]


def test_the_offset_shifts_the_windows(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TumblingEventTimeWindows.of(10, 3))
    windows.push(("a", 2, 1), ("a", 3, 2))
    windows.harness.watermark(MAX_TIMESTAMP)
    assert windows.take() == [("a", -7, [1]), ("a", 3, [2])]


def test_an_element_belongs_to_all_sliding_windows_over_its_time(is_columnar: bool) -> None:
    windows = Windows(is_columnar, SLIDING)
    windows.push(("a", 3, 1), ("a", 7, 2))
    windows.harness.watermark(MAX_TIMESTAMP)
    assert windows.take() == [("a", -5, [1]), ("a", 0, [1, 2]), ("a", 5, [2])]


def test_a_late_element_is_dropped_and_counted(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    windows.harness.watermark(9)
    windows.push(("a", 9, 1), ("a", 3, 2), ("a", 10, 3))
    windows.harness.watermark(MAX_TIMESTAMP)
    assert windows.take() == [("a", 10, [3])]
    assert windows.harness.context.metrics.counters == {"late_records_dropped": 2}


def test_a_late_element_goes_to_the_late_output_instead_with_its_time(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING, late_tag=OutputTag("late"))
    windows.harness.watermark(9)
    windows.push(("a", 3, 2), ("b", 10, 3))
    (tag, batch) = windows.harness.output.elements[-1]
    assert (tag.name, batch.data.to_pylist(), batch.timestamps.to_pylist()) == ("late", [{"key": "a", "value": 2}], [3])
    assert windows.harness.context.metrics.counters == {}


def test_a_partly_late_element_is_left_out_of_only_the_windows_that_it_is_late_for(is_columnar: bool) -> None:
    windows = Windows(is_columnar, SLIDING, late_tag=OutputTag("late"))
    windows.push(("a", 4, 1))
    windows.harness.watermark(9)  # [-5, 5) and [0, 10) are over, [5, 15) is not
    assert windows.take() == [("a", -5, [1]), ("a", 0, [1])]
    windows.push(("a", 7, 2))
    windows.harness.watermark(MAX_TIMESTAMP)
    assert windows.take() == [("a", 5, [2])]
    assert windows.harness.output.side("late") == []


def test_an_element_that_is_late_for_all_its_sliding_windows_goes_to_the_late_output(is_columnar: bool) -> None:
    windows = Windows(is_columnar, SLIDING, late_tag=OutputTag("late"))
    windows.harness.watermark(9)
    windows.push(("a", 4, 1))
    assert [row.value for row in windows.harness.output.side("late")] == [1]


def test_an_allowed_late_element_makes_its_window_fire_again_with_everything_so_far(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING, lateness=20)
    windows.push(("a", 1, 1), ("b", 2, 2))
    windows.harness.watermark(28)
    assert windows.take() == [("a", 0, [1]), ("b", 0, [2])]
    windows.push(("a", 3, 3))
    windows.push(("a", 4, 4), ("a", 5, 5))
    assert windows.take() == [("a", 0, [1, 3]), ("a", 0, [1, 3, 4]), ("a", 0, [1, 3, 4, 5])]
    windows.harness.watermark(29)  # end - 1 + lateness
    windows.push(("a", 6, 6))
    assert windows.take() == []
    assert windows.harness.context.metrics.counters == {"late_records_dropped": 1}


def test_an_allowed_late_element_of_a_new_key_fires_at_once_and_not_again(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING, lateness=20)
    windows.harness.watermark(15)
    windows.push(("a", 1, 1))
    assert windows.take() == [("a", 0, [1])]
    windows.harness.watermark(25)
    assert windows.take() == []


def test_a_late_element_makes_only_due_sliding_windows_fire_again(is_columnar: bool) -> None:
    windows = Windows(is_columnar, SLIDING, lateness=100)
    windows.push(("a", 7, 1))
    windows.harness.watermark(9)
    assert windows.take() == [("a", 0, [1])]
    windows.push(("a", 8, 2))
    assert windows.take() == [("a", 0, [1, 2])]
    windows.harness.watermark(14)
    assert windows.take() == [("a", 5, [1, 2])]


def test_end_plus_lateness_saturates_instead_of_overflowing(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING, lateness=MAX_TIMESTAMP - 5)
    windows.push(("a", 50, 1))
    windows.harness.watermark(MAX_TIMESTAMP - 1)
    assert windows.take() == [("a", 50, [1])]
    windows.push(("a", 51, 2))  # still allowed: nothing is late before the last watermark
    assert windows.take() == [("a", 50, [1, 2])]
    windows.harness.watermark(MAX_TIMESTAMP)
    windows.push(("a", 52, 3))
    assert windows.harness.context.metrics.counters == {"late_records_dropped": 1}


def test_a_row_without_event_time_is_an_error_that_says_how_to_assign_it(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    with pytest.raises(NullTimestampError, match=r"op \(1/1\).*assign_timestamps_and_watermarks"):
        windows.harness.push({"key": ["a"], "value": [1]})
    with pytest.raises(NullTimestampError):
        windows.harness.push({"key": ["a"], "value": [1]}, [MIN_TIMESTAMP])


def test_a_key_column_that_is_missing_is_an_error(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    with pytest.raises(UnknownColumnError, match="key"):
        windows.harness.push({"kee": ["a"], "value": [1]}, [1])


def test_a_watermark_passes_on_also_where_nothing_fires(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    windows.harness.watermark(5)
    assert windows.harness.output.watermarks == [5]


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING])
def test_a_restored_operator_goes_on_where_the_snapshot_was_taken(is_columnar: bool, assigner: WindowAssigner) -> None:
    def run(*, fails: bool) -> list[Any]:
        windows = Windows(is_columnar, assigner, lateness=5)
        windows.push(("a", 1, 1), ("b", 3, 2), ("a", 12, 3))
        windows.harness.watermark(11)
        results = windows.take()
        if fails:
            saved = windows.harness.snapshot()
            windows.push(("a", 13, 99))
            windows = Windows(is_columnar, assigner, restored_from([saved], range(128)), lateness=5)
        windows.push(("b", 8, 4), ("c", 13, 5), ("a", 11, 6), ("b", 2, 7))
        results += windows.take()
        windows.harness.watermark(MAX_TIMESTAMP)
        return results + windows.take()

    assert run(fails=True) == run(fails=False)


# -- columnar windows


def aggregate_operator(restored: Any = None, assigner: WindowAssigner = TUMBLING, **aggregates: Any) -> OperatorHarness:
    factory = WindowFactory(assigner, aggregates=tuple(aggregates.items()))
    return OperatorHarness(create_window_operator(code(factory, "key")), keys=KEY, restored=restored)


def test_result_columns_are_the_key_the_window_and_the_aggregates() -> None:
    harness = aggregate_operator(total=Sum("value"), rows=Count())
    harness.push({"value": [1, 2], "key": ["a", "a"]}, [1, 2])
    harness.watermark(9)
    (batch,) = harness.output.batches
    assert batch.data.schema.equals(
        pa.schema(
            {"key": pa.string(), "window_start": pa.int64(), "window_end": pa.int64(), "total": pa.int64()}
            | {"rows": pa.int64()}
        )
    )
    assert batch.data.to_pylist() == [{"key": "a", "window_start": 0, "window_end": 10, "total": 3, "rows": 2}]


def test_a_key_of_several_columns_and_one_of_a_function_come_back_as_columns() -> None:
    factory = WindowFactory(TUMBLING, aggregates=(("rows", Count()),))
    for selector, names in (
        (ColumnKey(("a", "b")), ["a", "b"]),
        (FunctionKey(lambda row: (row.a, row.b)), ["key_0", "key_1"]),
    ):
        harness = OperatorHarness(create_window_operator(code(factory)), keys=(selector,))
        harness.push({"a": [1, 1, 2], "b": ["x", "x", "x"]}, [1, 2, 3])
        harness.watermark(9)
        assert [[row[name] for name in (*names, "rows")] for row in harness.output.dicts] == [[1, "x", 2], [2, "x", 1]]


def test_without_a_key_all_rows_of_a_window_are_one_group() -> None:
    factory = WindowFactory(TUMBLING, aggregates=(("rows", Count()),))
    harness = OperatorHarness(create_window_operator(code(factory)), keys=(None,))
    harness.push({"value": [1, 2, 3]}, [1, 2, 13])
    harness.watermark(MAX_TIMESTAMP)
    assert harness.output.dicts == [
        {"window_start": 0, "window_end": 10, "rows": 2},
        {"window_start": 10, "window_end": 20, "rows": 1},
    ]


def test_a_result_column_that_is_there_already_is_an_error() -> None:
    harness = aggregate_operator(window_start=Count())
    harness.push({"key": ["a"]}, [1])
    with pytest.raises(InvalidProgramError, match="two columns named 'window_start'"):
        harness.watermark(9)


def test_state_of_windows_that_are_over_is_given_back() -> None:
    harness = aggregate_operator(total=Sum("value"))
    operator = harness.operator
    assert isinstance(operator, ColumnarWindowOperator)
    for start in range(0, 1000, 10):
        keys = list(range(start * 100, start * 100 + 1000))  # ever new keys
        harness.push({"key": keys, "value": [1] * 1000}, [start] * 1000)
        harness.watermark(start + 9)
    store = operator._store
    store.check()
    assert store.accumulator_count == 0
    assert len(store._keys) < 20_000
    assert store._index.size < 20_000
    assert len(harness.output.rows) == 100_000


def test_compacting_keeps_what_is_still_open() -> None:
    harness = aggregate_operator(assigner=SLIDING, total=Sum("value"), every=CollectList("value"))
    operator = harness.operator
    assert isinstance(operator, ColumnarWindowOperator)
    harness.push({"key": list(range(9000)), "value": list(range(9000))}, [1] * 9000)
    harness.push({"key": [8999, 3, 20_000], "value": [5, 6, 7]}, [13, 13, 13])
    harness.watermark(9)
    assert operator._store.accumulator_count == 3
    assert operator._store._index.size <= 2 * 16_384
    harness.output.clear()
    harness.push({"key": [3], "value": [1]}, [14])
    harness.watermark(14)
    assert [(row["key"], row["total"], row["every"]) for row in harness.output.dicts] == [
        (3, 7, [6, 1]),
        (8999, 5, [5]),
        (20_000, 7, [7]),
    ]
    assert len(operator._store._keys) == 9001, "they may come again"
    harness.push({"key": list(range(30_000, 33_000)), "value": [1] * 3000}, [33] * 3000)
    harness.watermark(60)
    assert operator._store.accumulator_count == 0
    assert operator._store._index.size <= 32_768
    assert len(operator._store._keys) == 3003, "the others did not come again"


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places of accumulators are computed, and used again, after few rows."""
    monkeypatch.setattr(sparse_index, "_FEWEST_JUDGED", 3)
    monkeypatch.setattr(dense_index, "_FEWEST_BITS", 2)


def is_placed(harness: OperatorHarness) -> bool:
    assert isinstance(harness.operator, ColumnarWindowOperator)
    return isinstance(harness.operator._store._index, DenseIndex)


@pytest.mark.usefixtures("placed")
def test_a_window_whose_accumulators_are_used_again_keeps_them_while_it_may_fire_again() -> None:
    windows = Windows(True, TUMBLING, lateness=20)
    for value in (1, 2):
        windows.push(*((key, 1, value) for key in "abcdefgh"))
    assert is_placed(windows.harness)
    windows.harness.watermark(9)
    assert windows.take() == [(key, 0, [1, 2]) for key in "abcdefgh"]
    windows.push(("c", 3, 3))
    assert windows.take() == [("c", 0, [1, 2, 3])]


@pytest.mark.usefixtures("placed")
def test_a_window_that_had_fired_for_some_keys_leaves_nothing_to_the_next_one() -> None:
    factory = WindowFactory(TUMBLING, aggregates=(("total", Sum("value")),), allowed_lateness_ms=Millis(50))
    keys = list(range(40))
    before = Subtasks(lambda: create_window_operator(code(factory, "key")), KEY, 2)
    before.push({"key": keys, "value": [1] * 40}, [1] * 40)
    before.harnesses[0].watermark(15)
    after = before.rescaled(1)
    (harness,) = after.harnesses
    after.push({"key": keys, "value": [1] * 40}, [61] * 40)
    assert is_placed(harness)
    harness.watermark(60)
    assert 0 < len(harness.output.dicts) < 40, "the keys of the other subtask had fired"
    harness.output.clear()
    after.push({"key": keys, "value": [1] * 40}, [71] * 40)
    harness.watermark(200)
    assert [row["total"] for row in harness.output.dicts] == [1] * 80


def test_many_slices_in_one_batch_are_kept_apart() -> None:
    harness = aggregate_operator(assigner=TumblingEventTimeWindows.of(1), rows=Count())
    times = [number * 1000 % 7919 for number in range(5000)]
    harness.push({"key": [1] * 5000}, times)
    harness.watermark(MAX_TIMESTAMP)
    starts = [row["window_start"] for row in harness.output.dicts]
    assert starts == sorted(set(times))
    assert sum(row["rows"] for row in harness.output.dicts) == 5000


# -- row windows


class MeanOfValues(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value.value, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


def run_rows(factory: WindowFactory, **settings: Any) -> OperatorHarness:
    context = FakeContext(keys=KEY, **settings)
    harness = OperatorHarness(create_window_operator(code(factory, "key")), context=context)
    harness.push({"key": ["a", "b", "a"], "value": [1, 5, 3]}, [1, 2, 3])
    harness.watermark(12)
    return harness


def test_reduce_gives_the_reduced_row() -> None:
    def larger(left: Any, right: Any) -> Any:
        return left if left.value > right.value else right

    assert [(row.key, row.value) for row in run_rows(WindowFactory(TUMBLING, reduce=larger)).output.rows] == [
        ("a", 3),
        ("b", 5),
    ]


def test_what_reduce_returns_comes_back_to_it_as_the_stream_would_give_it() -> None:
    factory = WindowFactory(TUMBLING, reduce=lambda left, right: {"key": left.key, "value": left.value + right.value})
    harness = OperatorHarness(create_window_operator(code(factory, "key")), keys=KEY)
    harness.push({"key": ["a", "a", "a"], "value": [1, 2, 4]}, [1, 2, 3])
    harness.watermark(9)
    assert harness.output.dicts == [{"key": "a", "value": 7}]


def test_an_aggregate_function_gives_its_result() -> None:
    assert run_rows(WindowFactory(TUMBLING, aggregate=MeanOfValues())).output.rows == [2.0, 5.0]


def test_a_window_function_after_reduce_or_aggregate_gets_the_one_result() -> None:
    def tell(key: Any, context: WindowContext, elements: Iterable[Any]) -> list[Any]:
        (element,) = elements
        return [(key, context.window().end, element)]

    assert run_rows(WindowFactory(TUMBLING, aggregate=MeanOfValues(), process=tell)).output.rows == [
        ("a", 10, 2.0),
        ("b", 10, 5.0),
    ]
    reduced = WindowFactory(
        TUMBLING, reduce=lambda _left, right: right, process=lambda k, _c, e: [(k, next(iter(e)).value)]
    )
    assert run_rows(reduced).output.rows == [("a", 3), ("b", 5)]


class ClearingFold(ProcessWindowFunction):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        self.calls.append((key, context.window(), context.current_watermark(), context.current_processing_time()))
        yield len(list(elements))
        yield OutputTag("side"), key

    def clear(self, context: WindowContext) -> None:
        self.calls.append(("clear", context.window()))


def test_a_process_window_function_sees_its_window_and_the_times_and_is_told_when_it_is_over() -> None:
    function = ClearingFold()
    factory = WindowFactory(TUMBLING, process=function, allowed_lateness_ms=Millis(5))
    harness = run_rows(factory)
    assert harness.output.rows == [2, 1]
    assert harness.output.side("side") == ["a", "b"]
    window = Window(0, 10)
    assert function.calls == [("a", window, 12, 0), ("b", window, 12, 0)]
    harness.watermark(14)
    assert function.calls[2:] == [("clear", window), ("clear", window)]


class Silent(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        yield len(list(elements))


def test_a_clear_that_an_instance_was_given_is_told_too() -> None:
    function, calls = Silent(), []
    function.clear = lambda context: calls.append(context.window())  # type: ignore[method-assign]
    run_rows(WindowFactory(TUMBLING, process=function))
    assert calls == [Window(0, 10)] * 2


@pytest.mark.parametrize(("function", "calls"), [(Silent(), 1), (ClearingFold(), 2)])
def test_a_key_is_made_current_to_clear_only_what_has_a_clear_and_none_is_current_afterwards(
    function: ProcessWindowFunction, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    current: list[Any] = []
    made_current = WindowCalls._set_current

    def counted(self: WindowCalls, key: Any, group: int, window: Window) -> None:
        current.append((key, window.start))
        made_current(self, key, group, window)

    monkeypatch.setattr(WindowCalls, "_set_current", counted)
    harness = run_rows(WindowFactory(TUMBLING, process=function))
    assert current == [("a", 0), ("b", 0)] * calls
    assert isinstance(harness.operator, ProcessWindowOperator)
    for backend in harness.operator._calls._backends:
        assert backend.current.group == NO_GROUP


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_an_error_of_the_users_function_names_operator_and_subtask(error: type[BaseException]) -> None:
    def fail(*_: Any) -> list[Any]:
        raise error("no")

    with pytest.raises(UserFunctionError, match=rf"'mine' \(subtask 1 of 1\): {error.__name__}: no"):
        run_rows(WindowFactory(TUMBLING, process=fail), operator_name="mine")


@pytest.mark.parametrize(
    "factory",
    [
        WindowFactory(TUMBLING),
        WindowFactory(TUMBLING, aggregates=(("n", Count()),), reduce=max),
        WindowFactory(TUMBLING, reduce=max, aggregate=MeanOfValues()),
        WindowFactory(TUMBLING, aggregates=(("n", Count()),), process=listed),
    ],
)
def test_a_window_computes_exactly_one_thing(factory: WindowFactory) -> None:
    with pytest.raises(InvalidProgramError, match="window"):
        create_window_operator(code(factory, "key"))


# -- arithmetic


def test_windows_over_a_time_are_found_by_floor_arithmetic() -> None:
    times = AlignedWindowTimes(SlidingEventTimeWindows.of(10, 4, -1), 0)
    for timestamp in range(-30, 30):
        expected = [start for start in range(-101, 101, 4) if start <= timestamp < start + 10]
        assert times.starts(times.last_start(timestamp), timestamp) == expected


def test_cumulative_windows_begin_together_and_end_a_step_after_one_another() -> None:
    assigner = CumulativeEventTimeWindows(12, 4, -3)
    times = AlignedWindowTimes(assigner, 0)
    every = [Window(begin, begin + size) for begin in range(-99, 99, 12) for size in (4, 8, 12)]
    for timestamp in range(-30, 30):
        expected = [window for window in every if window.start <= timestamp < window.end]
        assert assigner.assign_windows(None, timestamp, FakeContext()) == expected  # type: ignore[arg-type]
        starts = np.array(times.starts(times.last_start(timestamp), timestamp))
        bounds = zip(times.begins(starts).tolist(), (starts + 12).tolist(), strict=True)
        assert [Window(*each) for each in bounds] == expected
    with pytest.raises(ValueError, match="CumulativeEventTimeWindows: 5 ms do not divide the size of 12 ms"):
        CumulativeEventTimeWindows(12, 5)


def test_the_offset_of_sliding_windows_must_be_smaller_than_the_slide_not_the_size() -> None:
    with pytest.raises(ValueError, match=r"smaller than the slide \(5 ms\)"):
        SlidingEventTimeWindows.of(10, 5, 5)
    assert SlidingEventTimeWindows.of(10, 5, 4).offset_ms == 4


EDGES = [
    (TUMBLING, MIN_TIMESTAMP + 1),
    (TUMBLING, MAX_TIMESTAMP),
    (TumblingEventTimeWindows.of(10, 3), MIN_TIMESTAMP + 1),
    (TumblingEventTimeWindows.of(10, 3), MAX_TIMESTAMP),
    (SLIDING, MIN_TIMESTAMP + 1),
    (SLIDING, MAX_TIMESTAMP),
    (SlidingEventTimeWindows.of(4, 90), MIN_TIMESTAMP + 1),
]


@pytest.mark.parametrize(("assigner", "time"), EDGES)
def test_windows_that_reach_beyond_64_bits_are_an_error_that_names_the_time(
    is_columnar: bool, assigner: WindowAssigner, time: int
) -> None:
    windows = Windows(is_columnar, assigner)
    with pytest.raises(TypeMismatchError, match=rf"operator 'op .*with the event time {time} reach beyond"):
        windows.push(("a", 6, 1), ("a", time, 2))


def test_the_outermost_windows_within_64_bits_fire(is_columnar: bool) -> None:
    windows = Windows(is_columnar, TUMBLING)
    windows.push(("a", MIN_TIMESTAMP + 18, 1), ("a", MAX_TIMESTAMP - 17, 2))
    windows.harness.watermark(MAX_TIMESTAMP)
    assert windows.take() == [("a", MIN_TIMESTAMP + 18, [1]), ("a", MAX_TIMESTAMP - 17, [2])]


@pytest.mark.parametrize(
    "assigner",
    [
        *(SlidingEventTimeWindows(*each) for each in ((10, 10), (25, 10, 3), (60, 2, -1), (5, 8, -2), (7, 7, 6))),
        CumulativeEventTimeWindows(60, 4, 33),
    ],
    ids=str,
)
def test_windows_over_many_slices_are_those_over_each(assigner: AlignedWindows) -> None:
    times = AlignedWindowTimes(assigner, 20)
    chance = random.Random(int(assigner.size_ms))
    for _ in range(20):
        moments = [chance.randrange(-200, 200) for _ in range(chance.choice((1, 30)))]
        slices = sorted({times.slice_start(moment) for moment in moments})
        each = {start: times.starts_over_slice(start) for start in slices}
        watermark = chance.choice((int(MIN_TIMESTAMP), -50, 0, 70, int(MAX_TIMESTAMP)))
        later = sorted({window for over in each.values() for window in over if not times.is_due(window, watermark)})
        assert times.due_later(slices, watermark) == later
        after, until = times.over_limit(watermark), times.due_limit(watermark)
        starts, indices = times.windows_of_slices(np.array(slices), after, until)
        pairs = [(window, start) for start, over in each.items() for window in over]
        again = [(w, s) for w, s in pairs if times.is_due(w, watermark) and not times.is_over(w, watermark)]
        assert list(zip(starts.tolist(), [slices[index] for index in indices], strict=True)) == again
        for window, start in pairs:
            assert (window <= after) == times.is_over(window, watermark)
            assert (start <= times.released_limit(watermark)) == times.is_over(times.last_start(start), watermark)

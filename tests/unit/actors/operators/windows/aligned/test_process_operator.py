"""Windows whose function gets all rows: which values it gets, when, and what is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.joins.window_operator import create_co_group_operator
from actors.operators.windows.aligned.function_operator import RowWindowOperator
from actors.operators.windows.aligned.process_operator import ProcessWindowOperator
from actors.operators.windows.buffers import buffering_operator
from actors.operators.windows.choice import create_window_operator
from actors.operators.windows.general.operator import GeneralWindowOperator
from flinkray.functions.interfaces import ProcessWindowFunction, WindowContext
from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.time.windows import Window
from flinkray.transformations.operator_factories import WindowCoGroupFactory, WindowFactory
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from flinkray.types.rows import row_class
from flinkray.windows.assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tests.support.operators import FakeContext, ManualClock, OperatorHarness, code
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from

KEY = ColumnKey(("key",))
TEN = TumblingEventTimeWindows.of(10)


def shown(key: Any, context: WindowContext, rows: Iterable[Any]) -> list[str]:
    window = context.window()
    return [repr((key, window.start, window.end, list(rows)))]


def process(assigner: WindowAssigner = TEN, function: Any = shown, key: Any = KEY, **more: Any) -> OperatorHarness:
    factory = WindowFactory(assigner, process=function, allowed_lateness_ms=Millis(more.pop("lateness", 0)))
    operator = create_window_operator(code(factory))
    assert type(operator) is ProcessWindowOperator
    return OperatorHarness(operator, keys=(key,), **more)


def fired(harness: OperatorHarness, watermark: int) -> list[Any]:
    harness.output.clear()
    harness.watermark(watermark)
    return harness.output.rows


@pytest.mark.parametrize("most", [1, 3, 1 << 14])
def test_values_have_the_types_and_columns_that_they_came_with(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffering_operator.BufferingWindowOperator, "_VALUES_AT_ONCE", most)
    with process(function=lambda _key, _context, rows: [repr(list(rows))]) as harness:
        harness.push({"key": ["a", "b", "a"], "value": [1, 2, 3]}, [1, 1, 1])
        harness.push({"key": ["a", "b"], "value": [0.5, 4.0]}, [2, 2])
        harness.push({"key": ["a"]}, [3])
        harness.push({"key": ["b", "a"], "value": [6, 7]}, [4, 4])
        assert fired(harness, 9) == [
            "[Row(key='a', value=1), Row(key='a', value=3), Row(key='a', value=0.5), Row(key='a'), "
            "Row(key='a', value=7)]",
            "[Row(key='b', value=2), Row(key='b', value=4.0), Row(key='b', value=6)]",
        ]


def mixed(harness: OperatorHarness, input_index: int = 0) -> None:
    """Columns that no type holds the values of, and dictionaries that have too many for one."""
    harness.push({"key": ["a"], "value": [2**60 + 1]}, [1], input_index)
    harness.push({"key": ["a"], "value": [0.5]}, [1], input_index)
    harness.push({"key": ["a"], "value": ["x"]}, [1], input_index)
    harness.push({"key": ["a"]}, [1], input_index)
    for first in range(0, 300, 60):
        texts = pa.array([str(number) for number in range(first, first + 60)])
        values = texts.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
        harness.push({"key": pa.array(["b"] * 60), "value": values}, [1] * 60, input_index)


def test_rows_of_columns_that_cannot_be_put_together_fire_and_are_restored_as_they_came() -> None:
    expected = [
        f"[Row(key='a', value={2**60 + 1}), Row(key='a', value=0.5), Row(key='a', value='x'), Row(key='a')]",
        repr([row_class(("key", "value"))("b", str(number)) for number in range(300)]),
    ]
    function = lambda _key, _context, rows: [repr(rows)]  # noqa: E731
    with process(function=function) as harness:
        mixed(harness)
        restored = restored_from([harness.snapshot()], range(128))
        assert fired(harness, 9) == expected
    with process(function=function, restored=restored) as harness:
        assert fired(harness, 9) == expected


def test_rows_of_joins_that_do_not_meet_need_no_type_that_holds_all() -> None:
    factory = WindowCoGroupFactory(TEN, False, lambda left, right: [repr((left, right))])
    restored = None
    for _ in range(2):
        with OperatorHarness(create_co_group_operator(code(factory)), keys=(KEY, KEY), restored=restored) as harness:
            if restored is None:
                for time, value in ((1, 1), (11, "x")):
                    harness.push({"key": ["a"], "value": [value]}, [time])
                restored = restored_from([harness.snapshot()], range(128))
            for index in range(2):
                harness.watermark(30, index)
            assert harness.output.rows == ["([Row(key='a', value=1)], [])", "([Row(key='a', value='x')], [])"]


def test_dictionaries_of_a_join_that_have_too_many_values_for_one_come_as_text() -> None:
    factory = WindowCoGroupFactory(TEN, False, lambda left, right: [f"{len(left)} {len(right)} {right[299].value}"])
    with OperatorHarness(create_co_group_operator(code(factory)), keys=(KEY, KEY)) as harness:
        harness.push({"key": ["b"]}, [1])
        for first in range(0, 300, 60):
            texts = pa.array([str(number) for number in range(first, first + 60)])
            values = texts.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
            harness.push({"key": pa.array(["b"] * 60), "value": values}, [1] * 60, 1)
        for index in range(2):
            harness.watermark(30, index)
        assert harness.output.rows == ["1 300 299"]


@pytest.mark.parametrize("values", [[1, None, 3], [(1, "x"), (2, "y")], [[1], [2, 3]], [{1, 2}, "text"]])
def test_values_of_all_kinds_come_back_as_they_were(values: list[Any]) -> None:
    with process(key=FunctionKey(lambda _value: "k"), function=lambda _k, _c, rows: [repr(rows)]) as harness:
        harness.push(values, [1] * len(values))
        harness.push(values[:1], [2])
        assert fired(harness, 9) == [repr([*values, values[0]])]


def test_what_a_function_does_to_its_rows_no_later_firing_sees() -> None:
    def spoil(_key: Any, context: WindowContext, rows: Any) -> list[Any]:
        found = [list(row["values"]) for row in rows]
        for row in rows:
            row["values"].append(-1)
        rows.clear()
        return [repr((context.window().start, found))]

    with process(SlidingEventTimeWindows.of(20, 10), spoil, lateness=100) as harness:
        harness.push({"key": ["a"], "values": [[1]]}, [12])
        assert fired(harness, 29) == ["(0, [[1]])", "(10, [[1]])"]
        harness.output.clear()
        harness.push({"key": ["a"], "values": [[2]]}, [13])
        assert harness.output.rows == ["(0, [[1], [2]])", "(10, [[1], [2]])"]


def test_windows_fire_in_order_and_keys_by_their_first_rows_there() -> None:
    with process(SlidingEventTimeWindows.of(20, 10), lambda key, context, _rows: [(context.window().start, key)]) as h:
        h.push({"key": ["c", "b", "a", "c"]}, [15, 25, 5, 25])
        h.push({"key": ["a", "b"]}, [25, 5])
        assert fired(h, MAX_TIMESTAMP) == [
            *((-10, key) for key in "ab"),
            *((0, key) for key in "cab"),
            *((10, key) for key in "cba"),
            *((20, key) for key in "bca"),
        ]


def test_all_rows_of_a_stream_without_keys_are_of_one() -> None:
    with process(key=None) as harness:
        harness.push({"value": [1, 2]}, [1, 12])
        assert fired(harness, 30) == ["(None, 0, 10, [Row(value=1)])", "(None, 10, 20, [Row(value=2)])"]


def test_a_late_row_makes_its_window_look_at_the_rows_of_its_key_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    ordered_by_window = buffering_operator.ordered_by_window

    def counted(found: Any, *more: Any) -> Any:
        looked_at.append(sum(int(each.counts.sum()) for each in found))
        return ordered_by_window(found, *more)

    monkeypatch.setattr(buffering_operator, "ordered_by_window", counted)
    with process(function=lambda key, _context, rows: [(key, len(rows))], lateness=100) as harness:
        for _ in range(3):
            harness.push({"key": list(range(1000))}, [1] * 1000)
        assert len(fired(harness, 20)) == 1000
        looked_at.clear()
        harness.output.clear()
        harness.push({"key": [7, 3, 5]}, [2, 2, 25])
        assert harness.output.rows == [(3, 4), (7, 4)]
        assert looked_at == [8]


class ClearingProcess(ProcessWindowFunction):
    def __init__(self) -> None:
        self.cleared: list[Any] = []

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        firings = context.window_state().get_state(ValueStateDescriptor("firings"))
        firings.update((firings.value() or 0) + 1)
        return []

    def clear(self, context: WindowContext) -> None:
        firings = context.window_state().get_state(ValueStateDescriptor("firings"))
        self.cleared.append((context.window().start, firings.value()))
        firings.clear()


def test_a_function_is_told_once_when_a_window_is_over_and_nothing_is_kept_of_it() -> None:
    function = ClearingProcess()
    with process(SlidingEventTimeWindows.of(20, 10), function, lateness=5) as harness:
        harness.push({"key": ["a", "b"]}, [12, 25])
        fired(harness, 19)
        harness.push({"key": ["a"]}, [13])
        assert function.cleared == []
        fired(harness, 24)
        assert function.cleared == [(0, 2)]
        fired(harness, 60)
        assert function.cleared == [(0, 2), (10, 1), (10, 1), (20, 1)]
        assert harness.operator._buffers[0].earliest() is None  # type: ignore[attr-defined]


def test_a_function_is_told_of_an_end_once_also_where_another_subtask_was_ahead() -> None:
    function = ClearingProcess()
    factory = WindowFactory(SlidingEventTimeWindows.of(20, 10), process=function)
    former = Subtasks(lambda: create_window_operator(code(factory)), [KEY], 2)
    former.push({"key": [f"key {number}" for number in range(8)]}, [12] * 8)
    for harness, mark in zip(former.harnesses, (25, 5), strict=True):
        harness.watermark(mark)
    after = former.rescaled(1)
    after.watermark(100)
    assert sorted(start for start, _ in function.cleared) == [0] * 8 + [10] * 8


@pytest.mark.parametrize("make", [ProcessWindowOperator, RowWindowOperator, GeneralWindowOperator])
@pytest.mark.parametrize("lateness", [0, 25])
def test_windows_are_over_before_later_ones_fire(make: Any, lateness: int) -> None:
    calls: list[Any] = []

    class Restarting(ProcessWindowFunction):
        def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
            calls.append((key, context.window().start))
            return []

        def clear(self, context: WindowContext) -> None:
            calls.append(("over", context.window().start))

    more = {"reduce": lambda one, _other: one} if make is RowWindowOperator else {}
    factory = WindowFactory(TEN, process=Restarting(), allowed_lateness_ms=Millis(lateness), **more)
    with OperatorHarness(make(factory), keys=(KEY,)) as harness:
        harness.push({"key": ["a"] * 4}, [1, 11, 31, 61])
        fired(harness, 100)
    late = [("a", 0), ("a", 10), ("over", 0), ("a", 30), ("over", 10), ("over", 30), ("a", 60), ("over", 60)]
    assert calls == {0: [(name, at) for at in (0, 10, 30, 60) for name in ("a", "over")], 25: late}[lateness]


def test_batch_mode_ends_the_windows_of_each_key() -> None:
    function = ClearingProcess()
    with process(function=function) as harness:
        for _ in range(2):
            harness.push({"key": ["a", "a"]}, [12, 25])
            harness.operator.end_keys()
        assert function.cleared == [(10, 1), (20, 1)] * 2


@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        (TumblingProcessingTimeWindows.of(10), [(9, (0, 10, "ab")), (29, (20, 30, "c"))]),
        (
            SlidingProcessingTimeWindows.of(20, 10),
            [(9, (-10, 10, "ab")), (19, (0, 20, "ab")), (29, (10, 30, "c")), (39, (20, 40, "c"))],
        ),
    ],
)
def test_windows_of_the_clock_fire_when_their_last_millisecond_has_passed(
    assigner: WindowAssigner, expected: list[Any]
) -> None:
    def text(_key: Any, context: WindowContext, rows: Any) -> list[Any]:
        window: Window = context.window()
        return [(window.start, window.end, "".join(row.value for row in rows))]

    context = FakeContext(keys=(KEY,), clock=ManualClock(0))
    with process(assigner, text, context=context) as harness:
        harness.push({"key": [1], "value": ["a"]})
        harness.advance(9)
        harness.push({"key": [1], "value": ["b"]})
        harness.advance(12)
        harness.push({"key": [1], "value": ["c"]})
        harness.advance(50)
        assert list(zip(harness.output.timestamps, harness.output.rows, strict=True)) == expected
        assert not context.timers, "nothing waits"

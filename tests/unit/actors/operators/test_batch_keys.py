"""The end of keys in batch mode: last timers, last results, and nothing left for the keys that come next."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from actors.operators.registry import create_operator
from actors.protocol.elements import Watermark
from actors.state.backends import create_keyed_state
from actors.state.keyed.options import StateOptions
from actors.testing.context import HarnessContext
from flinkray import KeyedProcessFunction, ListStateDescriptor, RuntimeContext, Types, ValueStateDescriptor
from flinkray.transformations.operator_factories import (
    ProcessFactory,
    ReduceFactory,
    RunningAggregateFactory,
    WindowFactory,
)
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP
from flinkray.windows.aggregates import Count, Sum
from flinkray.windows.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.support.operators import OperatorHarness, code


def batch_harness(factory: Any) -> OperatorHarness:
    described = code(factory, "key")
    return OperatorHarness(create_operator([described], ["op"]), keys=described.keys, is_batch=True)


class Timed(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        assert ctx.timer_service().current_watermark() == MIN_TIMESTAMP
        self._count.update((self._count.value() or 0) + 1)
        ctx.timer_service().register_processing_time_timer(5)
        ctx.timer_service().register_event_time_timer(1_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        assert ctx.timer_service().current_watermark() == MAX_TIMESTAMP
        ctx.timer_service().register_event_time_timer(timestamp)
        ctx.timer_service().register_processing_time_timer(timestamp)
        yield {"key": ctx.get_current_key(), "at": timestamp, "count": self._count.value()}


def test_timers_of_event_time_then_of_the_clock_fire_once_at_the_end_of_their_keys_and_their_state_goes() -> None:
    with batch_harness(ProcessFactory(Timed())) as harness:
        for _ in range(2):
            harness.push({"key": ["a", "b", "a"]}, [3, 4, 5])
            harness.advance(60_000)
            assert harness.output.dicts == [], "the clock fires nothing"
            harness.operator.end_keys()
            assert harness.output.dicts == [
                {"key": "a", "at": 1_000, "count": 2},
                {"key": "b", "at": 1_000, "count": 1},
                {"key": "a", "at": 5, "count": 2},
                {"key": "b", "at": 5, "count": 1},
            ]
            harness.output.clear()
        harness.watermark(MAX_TIMESTAMP)
        assert harness.output.dicts == []
        assert harness.output.watermarks == [MAX_TIMESTAMP]


def test_without_sorted_inputs_all_of_it_comes_with_the_last_watermark() -> None:
    with batch_harness(ProcessFactory(Timed())) as harness:
        harness.push({"key": ["a"]}, [3])
        harness.watermark(MAX_TIMESTAMP)
        assert [row["at"] for row in harness.output.dicts] == [1_000, 5]


@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_running_aggregate_gives_the_last_result_of_each_key_with_its_time(is_sorted: bool) -> None:
    factory = RunningAggregateFactory((("total", Sum("value")), ("n", Count())))
    with batch_harness(factory) as harness:
        harness.push({"key": ["a", "b", "a"], "value": [1, 2, 3]}, [1, 2, 3])
        harness.push({"key": ["a", "c"], "value": [5, 7]}, [4, 5])
        assert harness.output.dicts == []
        if is_sorted:
            harness.operator.end_keys()
        harness.watermark(MAX_TIMESTAMP)
        assert harness.output.dicts == [
            {"key": "b", "total": 2, "n": 1},
            {"key": "a", "total": 9, "n": 3},
            {"key": "c", "total": 7, "n": 1},
        ]
        assert harness.output.timestamps == [2, 4, 5]


def test_a_reduce_gives_the_last_result_of_each_key_and_begins_anew() -> None:
    factory = ReduceFactory(lambda left, right: {"key": left["key"], "value": left["value"] + right["value"]})
    with batch_harness(factory) as harness:
        for _ in range(2):
            harness.push({"key": ["a", "b", "a"], "value": [1, 2, 3]}, [1, 2, 3])
            harness.operator.end_keys()
            assert harness.output.dicts == [{"key": "a", "value": 4}, {"key": "b", "value": 2}]
            assert harness.output.timestamps == [3, 2]
            harness.output.clear()


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(10),
        EventTimeSessionWindows.with_gap(10),
        TumblingProcessingTimeWindows.of(10),
    ],
)
@pytest.mark.parametrize("is_columnar", [True, False])
def test_windows_fire_at_the_end_of_their_keys_and_nothing_is_late_for_the_next(
    assigner: Any, is_columnar: bool
) -> None:
    how = {"aggregates": (("n", Count()),)} if is_columnar else {"reduce": _first}
    with batch_harness(WindowFactory(assigner, **how)) as harness:
        for key in ("a", "b", "c"):
            harness.push({"key": [key] * 3}, [1, 2, 100])
            harness.operator.end_keys()
            windows = 1 if isinstance(assigner, TumblingProcessingTimeWindows) else 2
            assert [row["key"] for row in harness.output.dicts] == [key] * windows
            harness.output.clear()
        harness.watermark(MAX_TIMESTAMP)
        assert harness.output.dicts == []
        assert harness.context.metrics.counters == {}


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingProcessingTimeWindows.of(10),
        SlidingProcessingTimeWindows.of(20, 10),
        ProcessingTimeSessionWindows.with_gap(10),
    ],
)
def test_without_sorted_inputs_windows_of_the_clock_fire_with_the_last_watermark(assigner: Any) -> None:
    with batch_harness(WindowFactory(assigner, aggregates=(("n", Count()),))) as harness:
        harness.push({"key": ["a", "b", "a"]})
        harness.watermark(MAX_TIMESTAMP)
        windows = 2 if isinstance(assigner, SlidingProcessingTimeWindows) else 1
        assert [(row["key"], row["n"]) for row in harness.output.dicts] == [("a", 2), ("b", 1)] * windows
        assert isinstance(harness.output.elements[-1], Watermark)
        harness.output.clear()
        harness.advance(1_000)
        assert harness.output.elements == []


NOTE = ValueStateDescriptor("note")


def _counting(_key: Any, context: Any, _elements: Any) -> Iterable[int]:
    """How often a window of the key has fired."""
    note = context.global_state().get_state(NOTE)
    note.update((note.value() or 0) + 1)
    yield note.value()


@pytest.mark.parametrize(
    "factory",
    [
        WindowFactory(TumblingEventTimeWindows.of(10), process=_counting),
        WindowFactory(EventTimeSessionWindows.with_gap(10), process=_counting),
        WindowFactory(CountTumblingWindowAssigner.of(2), process=_counting),
        WindowFactory(CountTumblingWindowAssigner.of(2), aggregates=(("n", Count()),)),
    ],
)
def test_windows_keep_nothing_of_a_key_that_has_ended(factory: WindowFactory) -> None:
    def parts_of_state() -> int:
        snapshot = harness.snapshot()
        assert snapshot is not None
        return len(snapshot.parts)

    with batch_harness(factory) as harness:
        at_first = parts_of_state()
        for _ in range(2):
            harness.push({"key": ["a", "a", "a"]}, [1, 2, 3])
            assert parts_of_state() > at_first
            harness.operator.end_keys()
            assert parts_of_state() == at_first
            (result,) = harness.output.rows
            assert result == 1 if factory.process else result.n == 2
            harness.output.clear()


def _first(left: Any, _right: Any) -> Any:
    return left


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_state_of_all_keys_can_be_dropped_at_once(backend: str, tmp_path: Path) -> None:
    options = StateOptions(backend=backend, local_directory=str(tmp_path))
    state = create_keyed_state(HarnessContext(state_options=options))
    counts = state.get_state(ValueStateDescriptor("count", Types.LONG()))
    seen = state.get_list_state(ListStateDescriptor("seen", Types.LONG()))
    for round_number in (1, 2):
        for key in ("a", "b"):
            state.set_current_key(key, 7)
            assert (counts.value(), list(seen.get())) == (None, []), f"round {round_number}"
            counts.update(1)
            seen.add(2)
        state.drop_all()
    state.close()

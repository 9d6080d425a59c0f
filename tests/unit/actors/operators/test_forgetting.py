"""What an operator holds goes when it forgets it, at once: its state is in no circle of references."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

import numpy as np
import pytest

from actors.operators.contract.cancellation import Cancellation
from actors.operators.contract.chunking import ChunkLimit
from actors.operators.registry import create_operator
from flinkray.transformations.operator_factories import (
    LocalWindowAggregateFactory,
    ReduceFactory,
    RunningAggregateFactory,
    WindowCoGroupFactory,
    WindowFactory,
)
from flinkray.types.keys import ColumnKey
from flinkray.windows.aggregates import Avg, Count, Max, Sum
from flinkray.windows.assigners import (
    CountSlidingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.support.operators import OperatorHarness, as_batch, code

KEY = ColumnKey(("key",))
AGGREGATES = (("rows", Count()), ("total", Sum("value")), ("mean", Avg("value")), ("high", Max("value")))


def window(assigner: WindowAssigner) -> WindowFactory:
    return WindowFactory(assigner, AGGREGATES)


FACTORIES: dict[str, tuple[Any, int]] = {
    "tumbling": (window(TumblingEventTimeWindows.of(10)), 1),
    "sliding": (window(SlidingEventTimeWindows.of(20, 5)), 1),
    "sessions": (window(EventTimeSessionWindows.with_gap(5)), 1),
    "counts": (window(CountSlidingWindowAssigner.of(5, 3)), 1),
    "local": (LocalWindowAggregateFactory(window(TumblingEventTimeWindows.of(10)), KEY), 1),
    "running": (RunningAggregateFactory(AGGREGATES), 1),
    "reduce": (ReduceFactory(lambda one, _other: one), 1),
    "join": (WindowCoGroupFactory(TumblingEventTimeWindows.of(10), True, None), 2),
}


def held(operator: Any) -> list[weakref.ref[Any]]:
    """The arrays, and the objects of ours, that it leads to, but for what is around it."""
    seen: dict[int, Any] = {}
    left = [value for name, value in vars(operator).items() if name not in ("context", "output")]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type | types.ModuleType | types.FunctionType) or each is operator:
            continue
        is_ours = type(each).__module__.startswith("actors.")
        if is_ours or isinstance(each, np.ndarray | list | dict | tuple | set | types.MethodType):
            seen[id(each)] = each
            left += gc.get_referents(each)
    return [weakref.ref(each) for each in seen.values() if isinstance(each, np.ndarray) or _is_owned(each)]


def _is_owned(each: Any) -> bool:
    is_of_task = isinstance(each, ChunkLimit | Cancellation)
    is_of_operator = type(each).__module__.startswith("actors.operators") and not is_of_task
    return is_of_operator and type(each).__weakrefoffset__ != 0


@pytest.mark.parametrize("name", FACTORIES)
def test_no_state_waits_for_a_garbage_collection(name: str) -> None:
    factory, inputs = FACTORIES[name]
    keys = [KEY] * inputs
    harness = OperatorHarness(create_operator([code(factory, *keys)], [name]), keys=keys)
    for first in range(0, 40, 8):
        for number in range(inputs):
            rows = {"key": list(range(100)), "value": list(range(100))}
            harness.push(as_batch(rows, [first + row % 8 for row in range(100)]), input_index=number)
        for number in range(inputs):
            harness.watermark(first, input_index=number)
    operator = harness.operator
    operator.close()
    found = held(operator)
    assert len(found) > 3
    gc.collect()
    gc.disable()
    try:
        operator.forget()
        assert [each() for each in found if each() is not None] == []
    finally:
        gc.enable()

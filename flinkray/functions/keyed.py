"""Functions of other kinds as keyed process functions, so that they have state of the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkray.functions.interfaces import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    MapFunction,
    ProcessContext,
    RuntimeContext,
    WrappedFunction,
)
from flinkray.state.descriptors import ValueState, ValueStateDescriptor


def may_have_state(function: object) -> bool:
    """Whether it is a Function object with an `open` of its own, the only place where it can get at state."""
    return isinstance(function, Function) and type(function).open is not Function.open


class KeyedMap(WrappedFunction[MapFunction], KeyedProcessFunction):
    """A MapFunction with state of the key."""

    def process_element(self, value: Any, ctx: ProcessContext) -> tuple[Any]:
        return (self.wrapped.map(value),)


class KeyedFlatMap(WrappedFunction[FlatMapFunction], KeyedProcessFunction):
    """A FlatMapFunction with state of the key."""

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        return self.wrapped.flat_map(value)


class KeyedFilter(WrappedFunction[FilterFunction], KeyedProcessFunction):
    """A FilterFunction with state of the key."""

    def process_element(self, value: Any, ctx: ProcessContext) -> tuple[Any, ...]:
        return (value,) if self.wrapped.filter(value) else ()


class MapWithState(KeyedProcessFunction):
    """A function `(value, state) -> (result, new state)` with one state per key; None as new state drops it."""

    def __init__(self, function: Callable[[Any, Any], tuple[Any, Any]], state_type: Any) -> None:
        self._function = function
        self._descriptor = ValueStateDescriptor("state", state_type)
        self._state: ValueState[Any] | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(self._descriptor)

    def process_element(self, value: Any, ctx: ProcessContext) -> list[Any]:
        assert self._state is not None, "open comes first"
        result, new = self._function(value, self._state.value())
        if new is None:
            self._state.clear()
        else:
            self._state.update(new)
        return [result]

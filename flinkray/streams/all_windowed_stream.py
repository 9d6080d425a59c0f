"""AllWindowedStream: all rows of a stream, cut into windows in one subtask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any

from flinkray.functions.interfaces import (
    AllWindowFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowContext,
    WrappedFunction,
    as_callable,
)
from flinkray.streams.checks.columns import WINDOW_COLUMNS, result_columns
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.streams.window_operations import WindowOperations
from flinkray.time.windows import AnyWindow
from flinkray.windows.aggregates import Aggregate
from flinkray.windows.assigners import WindowAssigner

ProcessAllCallable = ProcessAllWindowFunction | Callable[[WindowContext, Iterable[Any]], Any]


class AllWindowedStream(WindowOperations):
    """Made by `DataStream.window_all` and `count_window_all`; as a WindowedStream with one key for all rows.

    Its operator has one subtask, and cannot have more.
    """

    _function_parameters = MappingProxyType({"process": ("context", "elements"), "apply": ("window", "inputs")})

    def __init__(self, stream: DataStream, assigner: WindowAssigner) -> None:
        super().__init__(stream._without_key, assigner)

    def process(self, function: ProcessAllCallable, output_type: Any = None) -> DataStream:
        """All rows of each window at once: `function(context, rows)` yields results."""
        declared = self._declared(function, "process", output_type)
        return self._windowed(KnownType.of(declared), process=_ProcessAll(function), output_type=declared)

    def apply(
        self, function: AllWindowFunction | Callable[[AnyWindow, Iterable[Any]], Any], output_type: Any = None
    ) -> DataStream:
        """All rows of each window at once: `function(window, rows)` yields results."""
        declared = self._declared(function, "apply", output_type)
        return self._windowed(KnownType.of(declared), process=_ApplyAll(function), output_type=declared)

    def _result_columns(self, aggregates: tuple[tuple[str, Aggregate], ...]) -> tuple[str, ...] | None:
        return result_columns(None, aggregates, WINDOW_COLUMNS)

    def _as_process(self, function: Any) -> ProcessWindowFunction | Callable[..., Any]:
        return _ApplyAll(function) if isinstance(function, AllWindowFunction) else _ProcessAll(function)

    def _windowed(self, known: KnownType, **operation: Any) -> DataStream:
        # A task of its own also where its input has one subtask: else the number of key groups that its state is
        # kept by would be its input's there, and one where that has several.
        return super()._windowed(known, **operation).force_non_parallel().start_new_chain()


class _ApplyAll(WrappedFunction[Function | Callable[..., Any]], ProcessWindowFunction):
    """A function of (window, rows) as one of (key, context, rows)."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = as_callable(self.wrapped, "apply")(context.window(), elements)
        return results


class _ProcessAll(WrappedFunction[Function | Callable[..., Any]], ProcessWindowFunction):
    """A function of (context, rows) as one of (key, context, rows)."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = as_callable(self.wrapped, "process")(context, elements)
        return results

    def clear(self, context: WindowContext) -> None:
        if isinstance(self.wrapped, ProcessAllWindowFunction):
            self.wrapped.clear(context)

"""WindowedStream: the rows of each key, cut into windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkray.functions.interfaces import ProcessWindowFunction, WindowContext, WindowFunction
from flinkray.streams.checks.columns import WINDOW_COLUMNS, result_columns
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.streams.keyed_stream import KeyedStream
from flinkray.streams.window_operations import Applied, WindowOperations, keyed_window_function
from flinkray.time.windows import AnyWindow
from flinkray.windows.aggregates import Aggregate
from flinkray.windows.assigners import WindowAssigner

ProcessCallable = ProcessWindowFunction | Callable[[Any, WindowContext, Iterable[Any]], Any]


class WindowedStream(WindowOperations):
    """Made by `KeyedStream.window` and `count_window`. Settings first, then one of the operations."""

    def __init__(self, stream: KeyedStream, assigner: WindowAssigner) -> None:
        super().__init__(stream, assigner)
        self._key = stream._key_selector_of_stream

    def process(self, function: ProcessCallable, output_type: Any = None) -> DataStream:
        """All rows of each window at once: `function(key, context, rows)` yields results."""
        declared = self._declared(function, "process", output_type)
        return self._windowed(KnownType.of(declared), process=function, output_type=declared)

    def apply(
        self, function: WindowFunction | Callable[[Any, AnyWindow, Iterable[Any]], Any], output_type: Any = None
    ) -> DataStream:
        """All rows of each window at once: `function(key, window, rows)` yields results."""
        declared = self._declared(function, "apply", output_type)
        return self._windowed(KnownType.of(declared), process=Applied(function), output_type=declared)

    def _result_columns(self, aggregates: tuple[tuple[str, Aggregate], ...]) -> tuple[str, ...] | None:
        return result_columns(self._key, aggregates, WINDOW_COLUMNS)

    def _as_process(self, function: Any) -> ProcessWindowFunction | Callable[..., Any]:
        return keyed_window_function(function)

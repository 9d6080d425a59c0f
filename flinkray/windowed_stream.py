"""WindowedStream: the rows of each key, cut into windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from flinkray.aggregates import Aggregate, Max, Min, Sum
from flinkray.datastream import DataStream, check_function, declared_type
from flinkray.durations import Duration, to_millis
from flinkray.errors import InvalidProgramError
from flinkray.functions import (
    AggregateFunction,
    Function,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    WindowContext,
    WindowFunction,
    as_callable,
)
from flinkray.keyed_stream import KeyedStream, check_aggregates, column_name, result_columns
from flinkray.known_types import KnownType
from flinkray.operator_factories import WindowFactory
from flinkray.type_hints import from_annotation, record_type
from flinkray.types import OutputTag, RecordType, tuple_columns
from flinkray.windowing import Window, WindowAssigner

ProcessCallable = ProcessWindowFunction | Callable[[Any, WindowContext, Iterable[Any]], Any]
WINDOW_COLUMNS = ("window_start", "window_end")


class WindowedStream:
    """Made by `KeyedStream.window`. Settings first, then one of the operations, which gives the stream of results.

    A window's result is emitted when the watermark passes its end, and has the event time `window_end - 1`.
    """

    def __init__(self, stream: KeyedStream, assigner: WindowAssigner) -> None:
        self._stream = stream
        self._settings = WindowFactory(assigner)

    # -- settings

    def allowed_lateness(self, lateness: Duration) -> WindowedStream:
        """Windows stay this long after their end: a row that comes later fires its window once more. Default: 0."""
        self._settings = dataclasses.replace(
            self._settings, allowed_lateness_ms=to_millis(lateness, "allowed_lateness")
        )
        return self

    def side_output_late_data(self, tag: OutputTag) -> WindowedStream:
        """Rows too late for all their windows go to this side output of the result, and are dropped otherwise."""
        self._settings = dataclasses.replace(self._settings, late_tag=tag)
        return self

    # -- operations

    def aggregate(
        self,
        aggregate_function: AggregateFunction | None = None,
        window_function: ProcessCallable | None = None,
        accumulator_type: Any = None,
        output_type: Any = None,
        **aggregates: Aggregate,
    ) -> DataStream:
        """One result per key and window, computed as rows arrive.

        With named built-in aggregates (columnar), `aggregate(flights=Count(), worst=Max("delay"))`: rows of the key
        columns, `window_start`, `window_end` (epoch milliseconds), then the aggregates. With an AggregateFunction: what
        its `get_result` gives, or what `window_function(key, context, [result])` yields for it.

        Args:
            accumulator_type: taken for PyFlink's programs; accumulators need no type here.
        """
        if aggregates:
            if aggregate_function is not None or window_function is not None:
                raise InvalidProgramError(
                    "aggregate takes either named aggregates or an AggregateFunction (perhaps with a window_function)"
                )
            return self._built_in(aggregates)
        if not isinstance(aggregate_function, AggregateFunction):
            raise InvalidProgramError(
                f"aggregate takes an AggregateFunction, or aggregates such as n=Count(), not {aggregate_function!r}"
            )
        declared = self._result_type(window_function or aggregate_function, window_function is not None, output_type)
        return self._windowed(
            KnownType.of(declared), aggregate=aggregate_function, process=window_function, output_type=declared
        )

    def reduce(
        self,
        function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: ProcessCallable | None = None,
        output_type: Any = None,
    ) -> DataStream:
        """The rows of each window reduced to one; `window_function(key, context, [result])` then sees that one."""
        check_function(function, "reduce")
        if window_function is None:
            known = self._stream._known if output_type is None else KnownType.of(record_type(output_type))
            return self._windowed(known, reduce=function, output_type=known.record_type)
        declared = self._result_type(window_function, True, output_type)
        return self._windowed(KnownType.of(declared), reduce=function, process=window_function, output_type=declared)

    def process(self, function: ProcessCallable, output_type: Any = None) -> DataStream:
        """All rows of each window at once: `function(key, context, rows)` yields results."""
        declared = self._result_type(function, True, output_type)
        return self._windowed(KnownType.of(declared), process=function, output_type=declared)

    def apply(
        self, function: WindowFunction | Callable[[Any, Window, Iterable[Any]], Any], output_type: Any = None
    ) -> DataStream:
        """All rows of each window at once: `function(key, window, rows)` yields results."""
        declared = declared_type(function, "apply", output_type, of_items=True)
        return self._windowed(KnownType.of(declared), process=_Apply(function), output_type=declared)

    def sum(self, column: str | int = 0) -> DataStream:
        """The same as `aggregate(column=Sum(column))`; a position counts a tuple's fields."""
        name = self._column(column, "sum")
        return self._built_in({name: Sum(name)})

    def min(self, column: str | int = 0) -> DataStream:
        """The same as `aggregate(column=Min(column))`."""
        name = self._column(column, "min")
        return self._built_in({name: Min(name)})

    def max(self, column: str | int = 0) -> DataStream:
        """The same as `aggregate(column=Max(column))`."""
        name = self._column(column, "max")
        return self._built_in({name: Max(name)})

    def _built_in(self, aggregates: dict[str, Aggregate]) -> DataStream:
        checked = check_aggregates(aggregates, self._stream._known)
        known = KnownType.of_columns(result_columns(self._key, checked, WINDOW_COLUMNS))
        return self._windowed(known, aggregates=checked)

    @property
    def _key(self) -> Any:
        return self._stream._key

    def _column(self, column: str | int, where: str) -> str:
        name = column_name(column, self._stream._known, where)
        return name if isinstance(name, str) else tuple_columns(name + 1)[name]

    def _result_type(self, function: object, is_process: bool, output_type: Any) -> RecordType | None:
        if is_process:
            return declared_type(function, "process", output_type, of_items=True)
        return record_type(output_type) if output_type is not None else from_annotation(function)

    def _windowed(self, known: KnownType, **operation: Any) -> DataStream:
        factory = dataclasses.replace(self._settings, **operation)
        return self._stream._one_input(type(self._settings.assigner).__name__, factory, known)


class _Apply(ProcessWindowFunction):
    """A function of (key, window, rows) as one of (key, context, rows)."""

    def __init__(self, function: WindowFunction | Callable[[Any, Window, Iterable[Any]], Any]) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = as_callable(self._function, "apply")(key, context.window(), elements)
        return results

    def close(self) -> None:
        if isinstance(self._function, Function):
            self._function.close()

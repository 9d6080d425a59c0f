"""What streams in windows have in common: settings first, then one of the operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from msgspec import structs

from flinkray.errors import InvalidProgramError
from flinkray.functions.checks import check_function, check_returns, checked_tag
from flinkray.functions.closures import check_serializable
from flinkray.functions.interfaces import (
    AggregateFunction,
    Function,
    ProcessWindowFunction,
    ReduceFunction,
    WindowContext,
    WindowFunction,
    WrappedFunction,
    as_callable,
)
from flinkray.functions.type_hints import from_annotation, record_type
from flinkray.streams.checks.columns import check_aggregates, column_name
from flinkray.streams.checks.functions import declared_type
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream
from flinkray.time.durations import Duration, to_millis
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.records import OutputTag, RecordType, tuple_columns
from flinkray.types.rows import Row
from flinkray.windows.aggregates import Aggregate, Max, Min, Sum
from flinkray.windows.assigners import MergingWindowAssigner, WindowAssigner, is_of_users
from flinkray.windows.evictors import Evictor
from flinkray.windows.triggers import Trigger


class WindowOperations(ABC):
    """Base of WindowedStream and AllWindowedStream: settings first, then one operation, which gives the stream of
    results.

    A window's result is emitted when its trigger fires: by default when the watermark (or the clock) passes its end. It
    has the event time `window_end - 1`.
    """

    _function_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {"process": ("key", "context", "elements"), "apply": ("key", "window", "inputs")}
    )

    def __init__(self, stream: DataStream, assigner: WindowAssigner) -> None:
        self._stream = stream
        self._settings = WindowFactory(assigner)
        self._name = type(assigner).__name__
        check_serializable(assigner, self._name)

    # -- settings

    def trigger(self, trigger: Trigger) -> Self:
        """What fires the windows, in place of the assigner's default.

        Raises:
            InvalidProgramError: the windows merge, and the trigger cannot.
        """
        if not isinstance(trigger, Trigger):
            raise InvalidProgramError(f"trigger takes a Trigger such as CountTrigger.of(10), not {trigger!r}")
        if isinstance(self._settings.assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise InvalidProgramError(
                f"{self._name} merges windows, and {type(trigger).__name__} cannot (its can_merge gives False); use "
                "another trigger, or give it can_merge and on_merge"
            )
        check_serializable(trigger, self._name)
        return self._set(trigger=trigger)

    def evictor(self, evictor: Evictor) -> Self:
        """Which rows a firing leaves out. All rows of a window are buffered then, also for reduce and aggregate."""
        if not isinstance(evictor, Evictor):
            raise InvalidProgramError(f"evictor takes an Evictor such as CountEvictor.of(10), not {evictor!r}")
        check_serializable(evictor, self._name)
        return self._set(evictor=evictor)

    def allowed_lateness(self, lateness: Duration) -> Self:
        """Windows stay this long after their end: a row that comes later fires its window once more. Default: 0.

        Of no effect on windows of processing time or of numbers of rows, where nothing is late (as in Flink).
        """
        return self._set(allowed_lateness_ms=to_millis(lateness, "allowed_lateness"))

    def side_output_late_data(self, tag: OutputTag) -> Self:
        """Rows that are too late for all their windows go to this side output of the result; without it they are
        dropped."""
        return self._set(late_tag=checked_tag(tag, "side_output_late_data"))

    def bounds_as_timestamps(self, zone: str | None = None) -> Self:
        """`window_start` and `window_end` of built-in aggregates are timestamps, in place of numbers of milliseconds.

        Args:
            zone: the time zone that they are shown in, such as "Europe/Paris"; without one they are in UTC and name no
                zone, as event times that are timestamps without one.
        Raises:
            InvalidProgramError: there is no such time zone.
        """
        return self._set(bounds_type=pa.timestamp("ms", None if zone is None else _checked_zone(zone)))

    def _set(self, **settings: Any) -> Self:
        self._settings = structs.replace(self._settings, **settings)
        return self

    # -- operations

    def aggregate(
        self,
        aggregate_function: AggregateFunction | None = None,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
        **aggregates: Aggregate,
    ) -> DataStream:
        """One result per key and window, computed as rows arrive.

        With named built-in aggregates (columnar), `aggregate(flights=Count(), worst=Max("delay"))`: rows of the key
        columns, `window_start`, `window_end` (epoch milliseconds, or what `bounds_as_timestamps` says; null for windows
        that are not of time), then the aggregates. With an AggregateFunction: what its `get_result` gives, or what the
        window function, called with `[result]`, yields for it.

        Args:
            window_function: as `process` takes it, or a function object as `apply` takes it.
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
        check_returns(aggregate_function, "get_result")
        self._check_merge(aggregate_function)
        if window_function is None:
            declared = record_type(output_type) if output_type is not None else from_annotation(aggregate_function)
            return self._windowed(KnownType.of(declared), aggregate=aggregate_function, output_type=declared)
        return self._processed(window_function, output_type, aggregate=aggregate_function)

    def reduce(
        self,
        function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: Any = None,
        output_type: Any = None,
    ) -> DataStream:
        """The rows of each window reduced to one; the window function, called with `[result]`, then sees that one.

        Args:
            window_function: as `process` takes it, or a function object as `apply` takes it.
        """
        check_function(function, "reduce")
        if window_function is None:
            known = self._stream._known if output_type is None else KnownType.of(record_type(output_type))
            return self._windowed(known, reduce=function, output_type=known.record_type)
        return self._processed(window_function, output_type, reduce=function)

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

    def min_by(self, column: str | int = 0) -> DataStream:
        """The row with the smallest value of `column`, of equal ones the first; nulls and NaN count last."""
        return self.reduce(_ExtremeRow(self._known_column(column, "min_by"), False))

    def max_by(self, column: str | int = 0) -> DataStream:
        """The row with the largest value of `column`, of equal ones the first; nulls and NaN count last."""
        return self.reduce(_ExtremeRow(self._known_column(column, "max_by"), True))

    # -- what subclasses say

    @abstractmethod
    def _result_columns(self, aggregates: tuple[tuple[str, Aggregate], ...]) -> tuple[str, ...] | None:
        """The columns of the rows of built-in aggregates; None where they are not known."""

    @abstractmethod
    def _as_process(self, function: Any) -> ProcessWindowFunction | Callable[..., Any]:
        """The user's window function as one of (key, context, rows)."""

    def _windowed(self, known: KnownType, **operation: Any) -> DataStream:
        settings = structs.replace(self._settings, trigger=self._trigger(), **operation)
        return self._stream._one_input(self._name, settings, known)

    # -- parts of the operations

    def _built_in(self, aggregates: dict[str, Aggregate]) -> DataStream:
        checked = check_aggregates(aggregates, self._stream._known)
        return self._windowed(KnownType.of_columns(self._result_columns(checked)), aggregates=checked)

    def _processed(self, window_function: Any, output_type: Any, **operation: Any) -> DataStream:
        method = "apply" if _has_apply(window_function) else "process"
        declared = self._declared(window_function, method, output_type)
        process = self._as_process(window_function)
        return self._windowed(KnownType.of(declared), process=process, output_type=declared, **operation)

    def _trigger(self) -> Trigger | None:
        """The trigger of the program, or of an assigner of the user's, which may ask the environment; None: that of an
        assigner of ours.

        Raises:
            InvalidProgramError: nothing would say when windows fire.
        """
        assigner, trigger = self._settings.assigner, self._settings.trigger
        if trigger is not None:
            return trigger
        default = assigner.get_default_trigger(self._stream._environment)
        if not isinstance(default, Trigger):
            raise InvalidProgramError(
                f"get_default_trigger of {self._name} must return a Trigger such as EventTimeTrigger.create(), not "
                f"{default!r}; or set one with trigger(...)"
            )
        return default if is_of_users(assigner) else None

    def _check_merge(self, function: AggregateFunction) -> None:
        if isinstance(self._settings.assigner, MergingWindowAssigner) and (
            type(function).merge is AggregateFunction.merge
        ):
            raise InvalidProgramError(
                f"{self._name} merges windows, so {type(function).__name__} needs a merge(accumulator_a, accumulator_b)"
            )

    def _known_column(self, column: str | int, where: str) -> str | int:
        name = column_name(column, self._stream._known, where)
        if isinstance(name, str):
            self._stream._known.require([name], where)
        return name

    def _column(self, column: str | int, where: str) -> str:
        name = column_name(column, self._stream._known, where)
        return name if isinstance(name, str) else tuple_columns(name + 1)[name]

    def _declared(self, function: object, method: str, output_type: Any) -> RecordType | None:
        parameters = self._function_parameters[method]
        return declared_type(function, method, output_type, of_items=True, parameters=parameters)


def _checked_zone(zone: object) -> str:
    try:
        return ZoneInfo(zone).key  # type: ignore[arg-type]
    except (ZoneInfoNotFoundError, TypeError, ValueError):
        raise InvalidProgramError(
            f"bounds_as_timestamps takes the name of a time zone, such as 'UTC' or 'Europe/Paris', not {zone!r}"
        ) from None


def _has_apply(function: object) -> bool:
    return isinstance(function, Function) and hasattr(function, "apply") and not hasattr(function, "process")


class Applied(WrappedFunction[Function | Callable[..., Any]], ProcessWindowFunction):
    """A function of (key, window, rows) as one of (key, context, rows)."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = as_callable(self.wrapped, "apply")(key, context.window(), elements)
        return results


def keyed_window_function(function: Any) -> ProcessWindowFunction | Callable[..., Any]:
    """A window function of a keyed stream as one of (key, context, rows)."""
    return Applied(function) if isinstance(function, WindowFunction) else function


class _ExtremeRow(ReduceFunction):
    """Reduces two rows to the one with the smaller, or larger, value of a column."""

    def __init__(self, column: str | int, is_max: bool) -> None:
        self._column = column
        self._is_max = is_max

    def reduce(self, value1: Any, value2: Any) -> Any:
        first, second = self._value(value1), self._value(value2)
        lacks = _missing(first), _missing(second)
        if lacks[0] != lacks[1]:
            return value1 if lacks[0] < lacks[1] else value2
        return value2 if not lacks[0] and self._is_better(second, first) else value1

    def _is_better(self, new: Any, old: Any) -> bool:
        return bool(new > old if self._is_max else new < old)

    def _value(self, row: Any) -> Any:
        if isinstance(row, Row):
            return row[self._column]
        if isinstance(row, tuple):
            return row[self._column if isinstance(self._column, int) else int(self._column.removeprefix("f"))]
        return row


def _missing(value: Any) -> int:
    """Orders what cannot be compared behind all values: 2 for null, 1 for NaN, 0 for a value."""
    return 2 if value is None else int(value != value)

"""KeyedStream: a stream partitioned by key, whose functions have state and timers per key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flinkray.errors import InvalidProgramError
from flinkray.expressions.tree import Expression
from flinkray.functions.checks import check_function
from flinkray.functions.interfaces import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from flinkray.functions.keyed import KeyedFilter, KeyedFlatMap, KeyedMap, MapWithState, may_have_state
from flinkray.functions.type_hints import record_type
from flinkray.streams.data_stream import DataStream, declared_type
from flinkray.streams.settings.known_types import KnownType
from flinkray.transformations.operator_factories import (
    ProcessFactory,
    ReduceFactory,
    RunningAggregateFactory,
    RunningColumnFactory,
)
from flinkray.transformations.partitioning import KeyGroupPartitioner, Partitioner
from flinkray.transformations.transformation import PartitionTransformation
from flinkray.types.keys import ColumnKey, KeySelector
from flinkray.types.records import Kind, tuple_columns
from flinkray.windows.aggregates import Aggregate
from flinkray.windows.assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, WindowAssigner

if TYPE_CHECKING:
    from flinkray.streams.interval_join import IntervalJoin
    from flinkray.streams.windowed_stream import WindowedStream


class KeyedStream(DataStream):
    """Made by `key_by`. All records of a key pass through one subtask, in the order in which each sender sent them."""

    def __init__(self, stream: DataStream, key: KeySelector) -> None:
        partition = PartitionTransformation(
            name=f"Key By {key}", input=stream._transformation, partitioner=KeyGroupPartitioner(key)
        )
        super().__init__(stream._environment, partition, stream._known)
        self._key_selector_of_stream = key
        self._before_key = stream

    # -- functions

    def map(self, function: MapFunction | Callable[[Any], Any], output_type: Any = None) -> DataStream:
        """One value out for each value in. A MapFunction may have state of the key, from its `open`."""
        if not may_have_state(function):
            return super().map(function, output_type)
        declared = declared_type(function, "map", output_type)
        assert isinstance(function, MapFunction)
        return self._stateful("Map", KeyedMap(function), KnownType.of(declared))

    def flat_map(
        self, function: FlatMapFunction | Callable[[Any], Iterable[Any] | None], output_type: Any = None
    ) -> DataStream:
        """Any number of values out for each value in. A FlatMapFunction may have state of the key, from its `open`."""
        if not may_have_state(function):
            return super().flat_map(function, output_type)
        declared = declared_type(function, "flat_map", output_type, of_items=True)
        assert isinstance(function, FlatMapFunction)
        return self._stateful("Flat Map", KeyedFlatMap(function), KnownType.of(declared))

    def filter(self, function: FilterFunction | Callable[[Any], bool]) -> DataStream:
        """The values for which the function is true. A FilterFunction may have state of the key, from its `open`."""
        if not may_have_state(function):
            return super().filter(function)
        check_function(function, "filter")
        assert isinstance(function, FilterFunction)
        return self._stateful("Filter", KeyedFilter(function), self._known)

    def reduce(self, function: ReduceFunction | Callable[[Any, Any], Any], output_type: Any = None) -> DataStream:
        """Per key, each value reduced with all before it: one result per value (the first value as it is).

        Args:
            output_type: by default the stream's own type, which results have too.
        """
        check_function(function, "reduce")
        known = self._known if output_type is None else KnownType.of(record_type(output_type))
        return self._one_input("Keyed Reduce", ReduceFactory(function, known.record_type), known)

    def map_with_state(
        self,
        function: Callable[[Any, Any], tuple[Any, Any]],
        state_type: Any = None,
        output_type: Any = None,
    ) -> DataStream:
        """One value out for each value in, with one state per key: `function(value, state) -> (result, new state)`.

        The state is None for a new key; None as the new state drops it.
        """
        if not callable(function):
            raise InvalidProgramError(f"map_with_state takes a function (value, state), not {function!r}")
        return self.process(MapWithState(function, state_type), output_type)

    def aggregate(self, **aggregates: Aggregate) -> DataStream:
        """Running aggregates per key: for each row its key columns, and the aggregates over the rows so far.

        `.key_by("origin").aggregate(flights=Count(), worst=Max("delay"))`
        """
        checked = check_aggregates(aggregates, self._known)
        known = KnownType.of_columns(result_columns(self._key_selector_of_stream, checked))
        return self._one_input("Keyed Aggregation", RunningAggregateFactory(checked), known)

    def sum(self, column: str | int = 0) -> DataStream:
        """Each row with `column` (a name, or a position) replaced by the key's sum so far; the other columns stay as
        they were in the key's first row."""
        return self._running("sum", column)

    def min(self, column: str | int = 0) -> DataStream:
        """As `sum`, with the smallest value so far. `min_by` gives the whole row."""
        return self._running("min", column)

    def max(self, column: str | int = 0) -> DataStream:
        """As `sum`, with the largest value so far. `max_by` gives the whole row."""
        return self._running("max", column)

    def min_by(self, column: str | int = 0) -> DataStream:
        """For each row the row of its key with the smallest value of `column` so far; of equal ones the first."""
        return self._running("min_by", column)

    def max_by(self, column: str | int = 0) -> DataStream:
        """For each row the row of its key with the largest value of `column` so far; of equal ones the first."""
        return self._running("max_by", column)

    def window(self, assigner: WindowAssigner) -> WindowedStream:
        """The key's rows in windows: `.window(TumblingEventTimeWindows.of("1 h")).aggregate(n=Count())`."""
        from flinkray.streams.windowed_stream import WindowedStream  # which itself needs KeyedStream

        return WindowedStream(self, check_assigner(assigner))

    def count_window(self, size: int, slide: int | None = None) -> WindowedStream:
        """The key's rows in windows of `size` of them: one after another, or one beginning every `slide` rows.

        A window fires when it is full. One that is not full at the end of the data does not fire, as in Flink.
        """
        from flinkray.streams.windowed_stream import WindowedStream

        return WindowedStream(self, count_assigner(size, slide))

    def interval_join(self, other: KeyedStream) -> IntervalJoin:
        """Pairs of this stream's rows (left) and the other's (right) with the same key, that are near each other in
        event time: `.interval_join(other.key_by("id")).between("-5 s", "10 s").process(function)`."""
        from flinkray.streams.interval_join import IntervalJoin  # which itself needs KeyedStream

        return IntervalJoin(self, other)

    # -- what DataStream builds on

    @property
    def _key(self) -> KeySelector | None:
        return self._key_selector_of_stream

    @property
    def _without_key(self) -> DataStream:
        return self._before_key

    @property
    def _process_name(self) -> str:
        return "KeyedProcess"

    def _stateful(self, name: str, function: KeyedProcessFunction, known: KnownType) -> DataStream:
        return self._one_input(name, ProcessFactory(function, known.record_type), known)

    def _partitioned(self, partitioner: Partitioner) -> DataStream:
        raise InvalidProgramError(
            f"cannot partition a keyed stream by {partitioner}: it is partitioned by its key. "
            "Call it on the stream before key_by, or after the next operator"
        )

    def _running(self, mode: str, column: str | int) -> DataStream:
        name = column_name(column, self._known, mode)
        if isinstance(name, str):
            self._known.require([name], mode)
        # A sum may be wider than what it adds up (int32 to int64); the others keep the column's type.
        known = self._known if mode != "sum" else KnownType.of_columns(self._known.columns)
        return self._one_input("Keyed Aggregation", RunningColumnFactory(mode, name), known)


def column_name(column: object, known: KnownType, where: str) -> str | int:
    """The name that a column name or position means; a position stays one where the columns are not known.

    Raises:
        InvalidProgramError: neither, or a position outside the known columns.
    """
    if isinstance(column, str):
        return column
    if isinstance(column, bool) or not isinstance(column, int) or column < 0:
        raise InvalidProgramError(f"{where} takes a column name, or a position from 0, not {column!r}")
    if known.columns is None:
        return column
    if column >= len(known.columns):
        raise InvalidProgramError(f"{where}: no column at position {column}; columns: {', '.join(known.columns)}")
    return known.columns[column]


def check_aggregates(aggregates: Mapping[str, object], known: KnownType) -> tuple[tuple[str, Aggregate], ...]:
    """The aggregates as pairs, after checking that each is one and that its columns exist."""
    if not aggregates:
        raise InvalidProgramError("aggregate needs at least one aggregate, for example aggregate(n=Count())")
    checked = []
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise InvalidProgramError(f"aggregate: {name} is no aggregate such as Count() or Sum('x'): {aggregate!r}")
        for column in (aggregate.column, getattr(aggregate, "by", None)):
            if isinstance(column, str):
                known.require([column], f"aggregate {name}")
            elif isinstance(column, Expression):
                known.require(sorted(column.columns()), f"aggregate {name}")
        checked.append((name, aggregate))
    return tuple(checked)


def result_columns(
    key: KeySelector | None, aggregates: tuple[tuple[str, Aggregate], ...], between: tuple[str, ...] = ()
) -> tuple[str, ...] | None:
    """The columns of a result row: the key's, `between`, the aggregates'; None where the key's are not known.

    Raises:
        InvalidProgramError: two of them have the same name.
    """
    keys = key_column_names(key)
    names = (*(keys or ()), *between, *(name for name, _ in aggregates))
    for name, _ in aggregates:
        if names.count(name) > 1:
            raise InvalidProgramError(f"aggregate {name!r} has the name of a key or window column; choose another")
    return None if keys is None else names


def key_column_names(key: KeySelector | None) -> tuple[str, ...] | None:
    """The columns that hold the key (if any) in result rows; None where a function's key decides when it runs."""
    if key is None:
        return ()
    if isinstance(key, ColumnKey):
        return key.columns
    if key.key_type is None or key.key_type.kind is Kind.ROW:
        return None
    if key.key_type.kind is Kind.TUPLE:
        return tuple(name.replace("f", "key_") for name in tuple_columns(len(key.key_type.schema)))
    return ("key",)


def count_assigner(size: int, slide: int | None) -> WindowAssigner:
    """The assigner of windows of so many rows.

    Args:
        slide: None or 0: one window after another.
    """
    for name, value in (("size", size), ("slide", slide or 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0 or (name == "size" and value == 0):
            raise InvalidProgramError(f"count_window: {name} is a number of rows, not {value!r}")
    return CountSlidingWindowAssigner.of(size, slide) if slide else CountTumblingWindowAssigner.of(size)


def check_assigner(assigner: object) -> WindowAssigner:
    """The assigner, where it is one."""
    if not isinstance(assigner, WindowAssigner):
        raise InvalidProgramError(
            f"window takes an assigner such as TumblingEventTimeWindows.of('1 h'), not {assigner!r}"
        )
    return assigner

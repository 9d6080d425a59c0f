"""KeyedStream: a stream partitioned by key, whose functions have state and timers per key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flinkray.errors import InvalidProgramError
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
from flinkray.streams.checks.columns import check_aggregates, column_name, result_columns
from flinkray.streams.checks.functions import declared_type
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.checks.windows import check_assigner, count_assigner
from flinkray.streams.data_stream import DataStream
from flinkray.transformations.operator_factories import (
    ProcessFactory,
    ReduceFactory,
    RunningAggregateFactory,
    RunningColumnFactory,
)
from flinkray.transformations.partitioning import KeyGroupPartitioner, Partitioner
from flinkray.transformations.transformation import PartitionTransformation
from flinkray.types.keys import KeySelector
from flinkray.windows.aggregates import Aggregate
from flinkray.windows.assigners import WindowAssigner

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
        """One value out for each value in, as `DataStream.map`. A MapFunction may have state of the key, from its
        `open`."""
        if not may_have_state(function):
            return super().map(function, output_type)
        declared = declared_type(function, "map", output_type)
        assert isinstance(function, MapFunction)
        return self._stateful("Map", KeyedMap(function), KnownType.of(declared))

    def flat_map(
        self, function: FlatMapFunction | Callable[[Any], Iterable[Any] | None], output_type: Any = None
    ) -> DataStream:
        """Any number of values out for each value in, as `DataStream.flat_map`. A FlatMapFunction may have state of the
        key, from its `open`."""
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
        """For each value, what all values of its key so far are reduced to; for the first one the value itself.

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
        """Each row with `column` replaced by the key's smallest value so far, as `sum`. `min_by` gives the whole
        row."""
        return self._running("min", column)

    def max(self, column: str | int = 0) -> DataStream:
        """Each row with `column` replaced by the key's largest value so far, as `sum`. `max_by` gives the whole row."""
        return self._running("max", column)

    def min_by(self, column: str | int = 0) -> DataStream:
        """For each row, the row of its key with the smallest value of `column` so far; of equal ones the first."""
        return self._running("min_by", column)

    def max_by(self, column: str | int = 0) -> DataStream:
        """For each row, the row of its key with the largest value of `column` so far; of equal ones the first."""
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

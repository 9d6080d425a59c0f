"""`pyflink.datastream.data_stream`: flinkray's streams, with PyFlink's argument names and its rule for types.

In PyFlink the type of a stream is what `output_type=` says, and without it any Python object, pickled: annotations and
the first values say nothing. So a function may give values of any and of changing types, and what reads them sees them
as they were. What has a declared type travels as columns.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NoReturn, Self

from flinkray.collected_rows import CollectedRows as CloseableIterator
from flinkray.connectors.print.sink import PrintSink
from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import KeyedProcessFunction
from flinkray.functions.type_hints import record_type
from flinkray.pyflink.common.typeinfo import TypeInformation, type_information
from flinkray.pyflink.datastream.accumulation import Accumulation
from flinkray.pyflink.datastream.connector_functions import StandsForSink
from flinkray.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from flinkray.pyflink.datastream.timestamp_assigners import in_whole_millis
from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.texts import printed_texts
from flinkray.pyflink.unavailable import unavailable
from flinkray.state.descriptors import MapStateDescriptor
from flinkray.streams import connected_streams, keyed_stream
from flinkray.streams import data_stream as datastream
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.checks.windows import check_assigner, count_assigner
from flinkray.streams.connected_streams import BroadcastStream
from flinkray.streams.settings.data_stream_sink import DataStreamSink
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import OperatorFactory, SinkFactory, SourceFactory
from flinkray.transformations.partitioning import Partitioner
from flinkray.types.keys import FunctionKey, KeySelector
from flinkray.types.records import Kind, OutputTag

if TYPE_CHECKING:
    from flinkray.pyflink.common.execution_config import ExecutionConfig
    from flinkray.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flinkray.pyflink.datastream.windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
]


def declared(output_type: Any) -> Any:
    """What flinkray takes for PyFlink's `output_type=`."""
    return object if output_type is None else output_type


class DataStream(datastream.DataStream):
    """flinkray's stream; what PyFlink has no name for (`select`, `where`, `to_arrow` ...) is there as well."""

    @classmethod
    def of(cls, stream: datastream.DataStream) -> Self:
        """The same stream as one of this class."""
        return cls(stream._environment, stream._transformation, stream._known)

    def get_name(self) -> str:
        """As the program named it, also where plans put "Source: " before that."""
        operator = self._operator("get_name")
        return operator.name.removeprefix("Source: " if isinstance(operator.factory, SourceFactory) else "")

    def get_type(self) -> TypeInformation:
        return type_information(self._known.record_type)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._environment  # type: ignore[return-value]  # only that one makes streams of this class

    def get_execution_config(self) -> ExecutionConfig:
        return self.get_execution_environment().get_config()

    def set_buffer_timeout(self, timeout_millis: Any) -> Self:
        return super().set_buffer_timeout(timeout_millis)

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        resources = self.get_execution_environment()._claim_resources(slot_sharing_group)
        if resources is not None:
            self.set_resources(resources)
        return super().slot_sharing_group(str(getattr(slot_sharing_group, "name", slot_sharing_group)))

    # -- functions

    def map(self, func: Any, output_type: Any = None) -> DataStream:
        return _as_pyflink(super().map(func, declared(output_type)))

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        return _as_pyflink(super().flat_map(func, declared(output_type)))

    def filter(self, func: Any) -> DataStream:
        return _as_pyflink(super().filter(func))

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        return _as_pyflink(super().process(func, declared(output_type)))

    def project(self, *field_indexes: int) -> DataStream:
        """Tuples of some of the fields, in that order.

        Raises:
            InvalidProgramError: these are no tuples of a declared type, or one has no such field.
        """
        known = self._known.record_type
        if known is None or known.kind is not Kind.TUPLE:
            raise InvalidProgramError("project needs tuples of a declared type: output_type=Types.TUPLE([...])")
        width = len(known.schema)
        wrong = [index for index in field_indexes if not 0 <= index < width]
        if wrong or not field_indexes:
            raise InvalidProgramError(f"project: tuples of {width} fields have the positions 0 to {width - 1}: {wrong}")
        types = [known.schema.field(index).type for index in field_indexes]
        return self.map(lambda value: tuple([value[index] for index in field_indexes]), types).name("Projection")

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        return _as_pyflink(super().assign_timestamps_and_watermarks(in_whole_millis(watermark_strategy)))

    # -- several streams

    def union(self, *streams: datastream.DataStream) -> DataStream:
        return DataStream.of(super().union(*streams))

    def connect(self, ds: Any) -> Any:
        """Gives ConnectedStreams for another stream, and a BroadcastConnectedStream for a broadcast stream."""
        super().connect(ds)  # which checks it
        return BroadcastConnectedStream(self, ds) if isinstance(ds, BroadcastStream) else ConnectedStreams(self, ds)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        side = DataStream.of(super().get_side_output(output_tag))
        side._known = KnownType.of(record_type(declared(output_tag.output_type)))
        return side

    # -- partitioning

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> Any:
        """Gives a BroadcastStream where there are descriptors, and else a stream that goes to every subtask."""
        first = () if broadcast_state_descriptor is None else (broadcast_state_descriptor,)
        return super().broadcast(*first, *other_broadcast_state_descriptors)

    def key_by(self, key_selector: Any, key_type: Any = None) -> KeyedStream:  # type: ignore[override]
        return KeyedStream(self, self._key_selector("key_by", (key_selector,), key_type))

    def _key_selector(self, where: str, keys: tuple[Any, ...], key_type: Any) -> KeySelector:
        return super()._key_selector(where, keys, declared(key_type))

    def window_all(self, window_assigner: Any) -> AllWindowedStream:
        from flinkray.pyflink.datastream.windowed_stream import AllWindowedStream  # which itself needs DataStream

        return AllWindowedStream(self, check_assigner(window_assigner))

    # -- sinks

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        if isinstance(sink_func, StandsForSink):
            return self.sink_to(sink_func.to_sink())
        return super().add_sink(sink_func)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Writes each value to the workers' standard output, as PyFlink shows it."""
        return self._sink(SinkFactory(PrintSink(sink_identifier or "", texts=printed_texts)), "Sink: Print to Std. Out")

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Runs the program: a CloseableIterator of the values, or with `limit` a list of the first so many."""
        return super().execute_and_collect(job_execution_name, limit)

    def cache(self) -> NoReturn:
        raise InvalidProgramError(
            "cache: results are not kept between jobs; write them with FileSink, or take them with to_arrow() and go "
            "on with from_arrow()"
        )

    # -- what flinkray's operations build on

    def _one_input(self, name: str, factory: OperatorFactory, known: KnownType) -> DataStream:
        return DataStream.of(super()._one_input(name, factory, known))

    def _partitioned(self, partitioner: Partitioner) -> DataStream:
        return DataStream.of(super()._partitioned(partitioner))


class KeyedStream(DataStream, keyed_stream.KeyedStream):
    """Made by `key_by`."""

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        if not isinstance(func, KeyedProcessFunction):
            raise InvalidProgramError(f"process of a keyed stream takes a KeyedProcessFunction, not {func!r}")
        return super().process(func, output_type)

    def reduce(self, func: Any) -> DataStream:  # type: ignore[override]
        return _as_pyflink(keyed_stream.KeyedStream.reduce(self, func))

    def aggregate(self, **aggregates: Any) -> DataStream:
        """flinkray's running aggregates, which PyFlink does not have; the keys in their rows are as flinkray's."""
        return DataStream.of(keyed_stream.KeyedStream.aggregate(self._with_inferred_keys(), **aggregates))

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        return self._accumulated("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        return self._accumulated("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        return self._accumulated("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        return self._accumulated("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        return self._accumulated("max_by", position_to_max_by)

    def window(self, window_assigner: Any) -> WindowedStream:
        from flinkray.pyflink.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, check_assigner(window_assigner))

    def count_window(self, size: int, slide: int | None = 0) -> WindowedStream:
        from flinkray.pyflink.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, count_assigner(size, slide or None))

    def _with_inferred_keys(self) -> KeyedStream:
        """This stream, for results that have the keys as columns: an undeclared type of keys is the type they have."""
        key = self._key_selector_of_stream
        if isinstance(key, FunctionKey) and key.key_type is not None and key.key_type.kind is Kind.OBJECT:
            return KeyedStream(self._before_key, FunctionKey(key.function))
        return self

    def _accumulated(self, mode: str, position: int | str) -> DataStream:
        """Aggregates by columns where there are some. The type stays the stream's own, as in PyFlink."""
        known = self._known
        if known.record_type is None or known.record_type.kind is Kind.OBJECT:
            return self.reduce(Accumulation(mode, position)).name("Reduce")
        accumulated = DataStream.of(self._running(mode, position))
        accumulated._known = known
        return accumulated


class ConnectedStreams(connected_streams.ConnectedStreams):
    """Made by `connect`."""

    def key_by(self, key_selector1: Any, key_selector2: Any, key_type: Any = None) -> ConnectedStreams:
        return ConnectedStreams(
            self._first.key_by(key_selector1, key_type=key_type), self._second.key_by(key_selector2, key_type=key_type)
        )

    def map(self, func: Any, output_type: Any = None) -> DataStream:
        return DataStream.of(super().map(func, declared(output_type)))

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        return DataStream.of(super().flat_map(func, declared(output_type)))

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        return DataStream.of(super().process(func, declared(output_type)))


class BroadcastConnectedStream(connected_streams.BroadcastConnectedStream):
    """Made by `connect` of a broadcast stream."""

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        return DataStream.of(super().process(func, declared(output_type)))


def _as_pyflink(stream: datastream.DataStream) -> DataStream:
    """What `_one_input` made."""
    assert isinstance(stream, DataStream)
    return stream


def __getattr__(name: str) -> Any:
    # Windows need streams, which need windows.
    if name in ("AllWindowedStream", "WindowedStream"):
        return getattr(importlib.import_module("flinkray.pyflink.datastream.windowed_stream"), name)
    return _missing(name)


_missing = imported(
    __name__,
    unavailable(
        __name__,
        "CachedDataStream",
        "results are not kept between jobs; write them with FileSink, or take them with to_arrow()",
    ),
)

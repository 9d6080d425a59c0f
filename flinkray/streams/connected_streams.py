"""Two streams into one operator: connected streams, and a stream that meets a broadcast one (broadcast state)."""

from __future__ import annotations

from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flinkray.functions.interfaces import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from flinkray.functions.type_hints import record_type
from flinkray.state.descriptors import MapStateDescriptor
from flinkray.streams.checks.joins import check_same_keys
from flinkray.streams.checks.known_types import KnownType
from flinkray.streams.data_stream import DataStream, KeyFunction
from flinkray.streams.keyed_stream import KeyedStream
from flinkray.transformations.operator_factories import (
    BroadcastProcessFactory,
    CoFlatMapFactory,
    CoMapFactory,
    CoProcessFactory,
    OperatorFactory,
)
from flinkray.transformations.partitioning import BroadcastPartitioner
from flinkray.types.keys import KeySelector
from flinkray.types.records import RecordType


class ConnectedStreams:
    """Two streams for one operator. Made by `connect`.

    With both streams keyed (before, or by `key_by` here) the function has state per key, which both inputs share.
    """

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second
        if isinstance(first, KeyedStream) and isinstance(second, KeyedStream):
            check_same_keys((first._key, second._key), (first._known, second._known), "connect")

    def key_by(self, key1: str | KeyFunction, key2: str | KeyFunction, key_type: Any = None) -> ConnectedStreams:
        """Partitions both streams, each by a column or a function; equal keys meet in one subtask."""
        return ConnectedStreams(
            self._first.key_by(key1, key_type=key_type), self._second.key_by(key2, key_type=key_type)
        )

    def map(self, function: CoMapFunction, output_type: Any = None) -> DataStream:
        """One result per value: of `map1` for the first stream's values, of `map2` for the second's. In no particular
        order of the streams."""
        _require(function, CoMapFunction, "map")
        declared = _declared(output_type)
        return self._two_input("Co-Map", CoMapFactory(function, declared), declared)

    def flat_map(self, function: CoFlatMapFunction, output_type: Any = None) -> DataStream:
        """Any number of results per value: of `flat_map1` for the first stream's values, of `flat_map2` for the
        second's."""
        _require(function, CoFlatMapFunction, "flat_map")
        declared = _declared(output_type)
        return self._two_input("Co-Flat Map", CoFlatMapFactory(function, declared), declared)

    def process(self, function: CoProcessFunction, output_type: Any = None) -> DataStream:
        """What `process_element1` and `process_element2` yield for each value and its context: results, and `tag,
        value` for side outputs. There are timers and state where both streams are keyed."""
        _require(function, CoProcessFunction, "process")
        is_keyed = self._keys() != ()
        if isinstance(function, KeyedCoProcessFunction) and not is_keyed:
            raise InvalidProgramError(
                f"{type(function).__name__} is a KeyedCoProcessFunction: key both streams, "
                "first.connect(second).key_by(key1, key2).process(...)"
            )
        declared = _declared(output_type)
        name = "KeyedCoProcess" if is_keyed else "Co-Process"
        return self._two_input(name, CoProcessFactory(function, declared), declared)

    def _keys(self) -> tuple[KeySelector | None, ...]:
        keys = (self._first._key, self._second._key)
        return () if None in keys else keys

    def _two_input(self, name: str, factory: OperatorFactory, declared: RecordType | None) -> DataStream:
        return self._first._two_inputs(self._second, name, factory, self._keys(), KnownType.of(declared))


def _require(function: object, expected: type, where: str) -> None:
    if not isinstance(function, expected):
        raise InvalidProgramError(
            f"{where} of connected streams takes a {expected.__name__} object, one method per stream, not {function!r}"
        )


def _declared(output_type: Any) -> RecordType | None:
    return None if output_type is None else record_type(output_type)


class BroadcastStream:
    """A stream of which every subtask makes broadcast state. Made by `stream.broadcast(descriptors)`; another stream
    connects to it."""

    def __init__(self, input_stream: DataStream, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        """
        Raises:
            InvalidProgramError: one is no MapStateDescriptor, two have the same name, or one has a time to live.
        """
        names: set[str] = set()
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise InvalidProgramError(f"broadcast takes MapStateDescriptors, not {descriptor!r}")
            if descriptor.name in names:
                raise InvalidProgramError(
                    f"broadcast: two states are named {descriptor.name!r}; give one of them another name"
                )
            if descriptor.ttl is not None:
                raise InvalidProgramError(
                    f"broadcast state {descriptor.name!r} has a time to live, which only keyed state can have; remove "
                    "entries in process_broadcast_element, or leave it out"
                )
            names.add(descriptor.name)
        self._stream = input_stream._partitioned(BroadcastPartitioner())
        self._descriptors = descriptors

    def __repr__(self) -> str:
        return f"<BroadcastStream of {', '.join(descriptor.name for descriptor in self._descriptors)}>"


class BroadcastConnectedStream:
    """A stream whose records meet the broadcast state that another one has made so far. Made by
    `stream.connect(broadcast_stream)`."""

    def __init__(self, non_broadcast_stream: DataStream, broadcast_stream: BroadcastStream) -> None:
        self._stream = non_broadcast_stream
        self._broadcast = broadcast_stream

    def process(
        self, function: BroadcastProcessFunction | KeyedBroadcastProcessFunction, output_type: Any = None
    ) -> DataStream:
        """Records of the first stream into `process_element`, those of the broadcast one into
        `process_broadcast_element` of every subtask; a KeyedBroadcastProcessFunction exactly where the first stream
        is keyed."""
        key = self._stream._key
        if not isinstance(function, BroadcastProcessFunction | KeyedBroadcastProcessFunction):
            raise InvalidProgramError(
                "process of a stream connected to a broadcast one takes a BroadcastProcessFunction or "
                f"KeyedBroadcastProcessFunction object, not {function!r}"
            )
        if isinstance(function, KeyedBroadcastProcessFunction) and key is None:
            raise InvalidProgramError(
                f"{type(function).__name__} is a KeyedBroadcastProcessFunction: key the first stream, "
                "stream.key_by(...).connect(broadcast).process(...)"
            )
        if isinstance(function, BroadcastProcessFunction) and key is not None:
            raise InvalidProgramError(
                f"{type(function).__name__} is a BroadcastProcessFunction, and the first stream is keyed; write a "
                "KeyedBroadcastProcessFunction, or connect before key_by"
            )
        declared = None if output_type is None else record_type(output_type)
        name = "Co-Process-Broadcast" if key is None else "Co-Process-Broadcast-Keyed"
        factory = BroadcastProcessFactory(function, self._broadcast._descriptors, declared)
        keys = () if key is None else (key, None)
        return self._stream._two_inputs(self._broadcast._stream, name, factory, keys, KnownType.of(declared))

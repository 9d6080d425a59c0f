"""Two streams into one operator: connected streams, and a stream that meets a broadcast one (broadcast state)."""

from __future__ import annotations

from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.functions.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flinkray.functions.closures import check_serializable
from flinkray.functions.interfaces import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from flinkray.functions.type_hints import record_type
from flinkray.state.descriptors import MapStateDescriptor
from flinkray.streams.data_stream import DataStream, KeyFunction
from flinkray.streams.keyed_stream import KeyedStream
from flinkray.streams.settings.known_types import KnownType
from flinkray.transformations.operator_factories import (
    BroadcastProcessFactory,
    CoFlatMapFactory,
    CoMapFactory,
    CoProcessFactory,
    OperatorFactory,
)
from flinkray.transformations.partitioning import BroadcastPartitioner
from flinkray.transformations.transformation import PhysicalTransformation
from flinkray.types.keys import ColumnKey, KeySelector
from flinkray.types.records import RecordType


class ConnectedStreams:
    """Made by `connect`. With both streams keyed (before, or by `key_by` here) the function has state per key, which
    both inputs share."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second
        if isinstance(first, KeyedStream) and isinstance(second, KeyedStream):
            check_same_keys(first, second, "connect")

    def key_by(self, key1: str | KeyFunction, key2: str | KeyFunction, key_type: Any = None) -> ConnectedStreams:
        """Partitions both streams, each by a column or a function; equal keys meet in one subtask."""
        return ConnectedStreams(
            self._first.key_by(key1, key_type=key_type), self._second.key_by(key2, key_type=key_type)
        )

    def map(self, function: CoMapFunction, output_type: Any = None) -> DataStream:
        """One result per value: of `map1` for the first stream's values, of `map2` for the second's."""
        _require(function, CoMapFunction, "map")
        declared = _declared(output_type)
        return self._two_input("Co-Map", CoMapFactory(function, declared), declared)

    def flat_map(self, function: CoFlatMapFunction, output_type: Any = None) -> DataStream:
        """Any number of results per value: of `flat_map1` and `flat_map2`."""
        _require(function, CoFlatMapFunction, "flat_map")
        declared = _declared(output_type)
        return self._two_input("Co-Flat Map", CoFlatMapFactory(function, declared), declared)

    def process(self, function: CoProcessFunction, output_type: Any = None) -> DataStream:
        """Each value with its context into `process_element1` or `process_element2`; side outputs, and timers and
        state where both streams are keyed."""
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
        return two_input(self._first, self._second, name, factory, self._keys(), KnownType.of(declared))


def two_input(
    first: DataStream,
    second: DataStream,
    name: str,
    factory: OperatorFactory,
    keys: tuple[KeySelector | None, ...],
    known: KnownType,
) -> DataStream:
    """The stream of a new operator on two streams."""
    for function in factory.user_functions:
        check_serializable(function, name)
    transformation = PhysicalTransformation(
        name=name,
        factory=factory,
        input_transformations=(first._transformation, second._transformation),
        keys=keys,
    )
    first._environment._register(transformation)
    return DataStream(first._environment, transformation, known)


def check_same_keys(first: KeyedStream, second: KeyedStream, where: str) -> None:
    """Checks, as far as that is known, that the keys of the two streams have the same types.

    Raises:
        InvalidProgramError: they have a different number of columns, or columns of different types.
    """
    left, right = first._key, second._key
    if not isinstance(left, ColumnKey) or not isinstance(right, ColumnKey):
        return  # what a function gives is known when it runs
    if len(left.columns) != len(right.columns):
        raise InvalidProgramError(
            f"{where}: the keys have {len(left.columns)} and {len(right.columns)} columns: ({left}) and ({right})"
        )
    types = first._known.record_type, second._known.record_type
    if types[0] is None or types[1] is None:
        return
    for name, other in zip(left.columns, right.columns, strict=True):
        left_type, right_type = types[0].schema.field(name).type, types[1].schema.field(other).type
        if left_type != right_type:
            raise InvalidProgramError(
                f"{where}: key {name!r} is {left_type} and key {other!r} is {right_type}: the keys of both streams "
                f"must have one type; cast one of them, with_columns({other}=col({other!r}).cast({str(left_type)!r}))"
            )


def _require(function: object, expected: type, where: str) -> None:
    if not isinstance(function, expected):
        raise InvalidProgramError(
            f"{where} of connected streams takes a {expected.__name__} object, one method per stream, not {function!r}"
        )


def _declared(output_type: Any) -> RecordType | None:
    return None if output_type is None else record_type(output_type)


class BroadcastStream:
    """Made by `stream.broadcast(descriptors)`; another stream connects to it."""

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
    """Made by `stream.connect(broadcast_stream)`: every record of the one, with what the other has left in the
    broadcast state so far."""

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
        return two_input(self._stream, self._broadcast._stream, name, factory, keys, KnownType.of(declared))

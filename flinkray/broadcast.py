"""Broadcast state: a stream whose records reach every subtask of another one, and the state that is made of them."""

from __future__ import annotations

from typing import Any

from flinkray.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flinkray.connected_streams import two_input
from flinkray.datastream import DataStream
from flinkray.errors import InvalidProgramError
from flinkray.known_types import KnownType
from flinkray.operator_factories import BroadcastProcessFactory
from flinkray.partitioning import BroadcastPartitioner
from flinkray.state import MapStateDescriptor
from flinkray.type_hints import record_type


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

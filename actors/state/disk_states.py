"""The kinds of keyed state over an ordered store of bytes (RocksDB), for state larger than memory.

Keys of the store: key group (2 bytes), number of the state (2 bytes), pickled key, and of a list the sequence number of
the element (8 bytes), of a map the pickled key of the entry. Values: with a time to live the expiry (8 bytes); of a map
a byte that says whether the entry's key follows, as it may be lost in the pickled one (1 stands for 1.0 and True);
then the pickled value. All numbers are big-endian, so that the order of bytes is the order of key groups.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from actors.ports import Clock
from actors.state.disk_store import DiskStore, Items
from actors.state.keyed_parts import Row
from actors.state.keyed_state import NO_GROUP, CurrentKey
from actors.state.pickling import KeyPickler, dumps, load_key, loads
from actors.state.state_kinds import (
    AggregatingKind,
    KeyedState,
    ListKind,
    MapKind,
    ReducingKind,
    SingleValue,
    ValueKind,
)
from flinkray.state import StateDescriptor, TtlUpdateType
from flinkray.types import MAX_TIMESTAMP

_EXPIRY = struct.Struct(">q")
SEQUENCE = struct.Struct(">Q")
PREFIX = struct.Struct(">HH")
"""Key group and number of the state."""

_KEY_IS_CANONICAL = b"\0"
_KEY_FOLLOWS = b"\1"

_WRITES_BETWEEN_SWEEPS = 64
_ENTRIES_PER_SWEEP = 256
"""More than are written in between, so that a sweep passes over all entries faster than writes add new ones."""
_GROUPS_PER_SWEEP = 64


class DiskKey(CurrentKey):
    """The current key, and its bytes once they are asked for."""

    __slots__ = ("_bytes", "pickler")

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.pickler = KeyPickler()
        self._bytes: bytes | None = None

    def set(self, key: Any, group: int) -> None:
        self.key = key
        self.group = group
        self._bytes = None

    def prefix(self, number: int) -> bytes:
        """What the entries of the current key begin with, in the state of that number."""
        if self._bytes is None:
            if self.group == NO_GROUP:
                raise self.missing()
            self._bytes = self.pickler.dumps(self.key)
        return PREFIX.pack(self.group, number) + self._bytes


class Codec:
    """What is stored for one value, list element or map entry."""

    def __init__(self, kind: str, has_ttl: bool) -> None:
        self._has_ttl = has_ttl
        self._is_map = kind == "map"

    def encode(self, pickled: bytes, expiry: int | None, map_key: bytes | None = None) -> bytes:
        """`map_key`: the pickled key of a map's entry, where the store's key does not give it back as it is."""
        if self._is_map:
            pickled = (
                _KEY_IS_CANONICAL + pickled
                if map_key is None
                else _KEY_FOLLOWS + struct.pack(">I", len(map_key)) + map_key + pickled
            )
        return _EXPIRY.pack(expiry) + pickled if self._has_ttl else pickled

    def expiry(self, stored: bytes) -> int | None:
        expiry: int | None = _EXPIRY.unpack_from(stored)[0] if self._has_ttl else None
        return expiry

    def pickled(self, stored: bytes) -> bytes:
        """The value's own bytes."""
        start = _EXPIRY.size if self._has_ttl else 0
        if self._is_map:
            start += 1 if stored[start : start + 1] == _KEY_IS_CANONICAL else 5 + self._key_length(stored, start)
        return stored[start:] if start else stored

    def map_key(self, stored: bytes) -> bytes | None:
        """The pickled key of a map's entry, where it had to be stored."""
        start = _EXPIRY.size if self._has_ttl else 0
        if stored[start : start + 1] == _KEY_IS_CANONICAL:
            return None
        return stored[start + 5 : start + 5 + self._key_length(stored, start)]

    def _key_length(self, stored: bytes, start: int) -> int:
        length: int = struct.unpack_from(">I", stored, start + 1)[0]
        return length


class DiskState(KeyedState):
    """Base: keys, expiry, and rows for snapshots."""

    def __init__(
        self, descriptor: StateDescriptor, number: int, current: DiskKey, store: DiskStore, clock: Clock, owned: range
    ) -> None:
        self._number = number
        self._current = current
        self._store = store
        self._clock = clock
        self._ttl = descriptor.ttl
        self._renews_on_read = self._ttl is not None and self._ttl.update_type is TtlUpdateType.ON_READ_AND_WRITE
        self._codec = Codec(self.kind, self._ttl is not None)
        self._owned = owned
        self._writes = 0
        self._swept = PREFIX.pack(owned.start, number)

    def _fresh_expiry(self) -> int | None:
        if self._ttl is None:
            return None
        return min(MAX_TIMESTAMP, self._clock.now_ms() + self._ttl.ttl_ms)

    def _is_expired(self, stored: bytes) -> bool:
        expiry = self._codec.expiry(stored)
        return expiry is not None and expiry <= self._clock.now_ms()

    def _sweep(self) -> None:
        """Deletes expired entries of keys that may never come back, a few at a time."""
        if self._ttl is None:
            return
        self._writes += 1
        if self._writes < _WRITES_BETWEEN_SWEEPS:
            return
        self._writes = 0
        entries = 0
        for _ in range(_GROUPS_PER_SWEEP):
            region = self._swept[: PREFIX.size]
            for key, stored in self._store.items(self._swept, region):
                entries += 1
                if entries > _ENTRIES_PER_SWEEP:
                    self._swept = key
                    return
                if self._is_expired(stored):
                    self._store.delete(key)
            group = PREFIX.unpack(region)[0] + 1
            self._swept = PREFIX.pack(group if group in self._owned else self._owned.start, self._number)

    def _clear_prefix(self) -> None:
        prefix = self._current.prefix(self._number)
        for key, _ in self._store.items(prefix, prefix):
            self._store.delete(key)


def rows_in_groups(items: Items, owned: range, number: int, kind: str, has_ttl: bool, now_ms: int) -> Iterator[Row]:
    """The rows of one state that have not expired, by key group; values and keys are pickled.

    Args:
        items: `items(first, prefix)` gives the entries from the key `first` on that begin with `prefix`.
    """
    codec, loader = Codec(kind, has_ttl), _KeyReader()
    for group in owned:
        region = PREFIX.pack(group, number)
        for stored_key, stored in items(region, region):
            expiry = codec.expiry(stored)
            if expiry is not None and expiry <= now_ms:
                continue
            rest = stored_key[PREFIX.size :]
            map_key: bytes | None = None
            if kind == "list":
                rest = rest[: -SEQUENCE.size]
            elif kind == "map":
                length = loader.length(rest)
                map_key = codec.map_key(stored) or rest[length:]
                rest = rest[:length]
            yield group, rest, map_key, codec.pickled(stored), expiry


class _KeyReader:
    """Finds where the pickled key ends; entries of one key come one after another."""

    def __init__(self) -> None:
        self._last = b"\0"

    def length(self, data: bytes) -> int:
        if not data.startswith(self._last):
            self._last = data[: pickled_length(data)]
        return len(self._last)


def pickled_length(data: bytes) -> int:
    """How many of the bytes are the pickle that they begin with."""
    stream = io.BytesIO(data)
    pickle.load(stream)
    return stream.tell()


class _DiskSingle(DiskState, SingleValue):
    def _read(self) -> Any:
        key = self._current.prefix(self._number)
        stored = self._store.get(key)
        if stored is None:
            return None
        if self._ttl is None:
            return loads(stored)
        if self._is_expired(stored):
            self._store.delete(key)
            return None
        pickled = self._codec.pickled(stored)
        if self._renews_on_read:
            self._store.put(key, self._codec.encode(pickled, self._fresh_expiry()))
        return loads(pickled)

    def _write(self, value: Any) -> None:
        encoded = self._codec.encode(dumps(value), self._fresh_expiry())
        self._store.put(self._current.prefix(self._number), encoded)
        self._sweep()

    def clear(self) -> None:
        self._store.delete(self._current.prefix(self._number))


class DiskValueState(_DiskSingle, ValueKind):
    """Of the rocksdb backend."""


class DiskReducingState(_DiskSingle, ReducingKind):
    """Of the rocksdb backend."""


class DiskAggregatingState(_DiskSingle, AggregatingKind):
    """Of the rocksdb backend."""


class DiskListState(DiskState, ListKind):
    """Of the rocksdb backend: adding writes the new elements only."""

    def get(self) -> list[Any]:
        prefix = self._current.prefix(self._number)
        values = []
        for key, stored in self._store.items(prefix, prefix):
            if self._is_expired(stored):
                self._store.delete(key)
                continue
            pickled = self._codec.pickled(stored)
            values.append(loads(pickled))
            if self._renews_on_read:
                self._store.put(key, self._codec.encode(pickled, self._fresh_expiry()))
        return values

    def add_all(self, values: Iterable[Any]) -> None:
        prefix, expiry = self._current.prefix(self._number), self._fresh_expiry()
        for encoded in [self._codec.encode(dumps(value), expiry) for value in values]:
            self._store.put(prefix + SEQUENCE.pack(self._store.next_sequence()), encoded)
        self._sweep()

    def clear(self) -> None:
        self._clear_prefix()


class DiskMapState(DiskState, MapKind):
    """Of the rocksdb backend: each entry is read and written on its own."""

    def get(self, key: Any) -> Any:
        stored_key = self._entry(key)
        stored = self._live(stored_key)
        if stored is None:
            return None
        pickled = self._codec.pickled(stored)
        if self._renews_on_read:
            self._store.put(stored_key, self._renewed(stored))
        return loads(pickled)

    def contains(self, key: Any) -> bool:
        stored_key = self._entry(key)
        stored = self._live(stored_key)
        if stored is not None and self._renews_on_read:
            self._store.put(stored_key, self._renewed(stored))
        return stored is not None

    def put(self, key: Any, value: Any) -> None:
        pickler = self._current.pickler
        original = None if pickler.canonical(key) is key else dumps(key)
        encoded = self._codec.encode(dumps(value), self._fresh_expiry(), original)
        self._store.put(self._entry(key), encoded)
        self._sweep()

    def remove(self, key: Any) -> None:
        self._store.delete(self._entry(key))

    def items(self) -> Iterator[tuple[Any, Any]]:
        prefix = self._current.prefix(self._number)
        entries = self._decoded(self._store.items(prefix, prefix), len(prefix))
        # Expiry deletes and renews, which must not happen when the program may have written the entry again.
        return entries if self._ttl is None else iter(list(entries))

    def is_empty(self) -> bool:
        prefix = self._current.prefix(self._number)
        return all(self._is_expired(stored) for _, stored in self._store.items(prefix, prefix))

    def clear(self) -> None:
        self._clear_prefix()

    def _decoded(self, entries: Iterator[tuple[bytes, bytes]], start: int) -> Iterator[tuple[Any, Any]]:
        for stored_key, stored in entries:
            if self._is_expired(stored):
                self._store.delete(stored_key)
                continue
            if self._renews_on_read:
                self._store.put(stored_key, self._renewed(stored))
            yield load_key(self._codec.map_key(stored) or stored_key[start:]), loads(self._codec.pickled(stored))

    def _entry(self, key: Any) -> bytes:
        return self._current.prefix(self._number) + self._current.pickler.dumps(key)

    def _live(self, stored_key: bytes) -> bytes | None:
        stored = self._store.get(stored_key)
        if stored is not None and self._is_expired(stored):
            self._store.delete(stored_key)
            return None
        return stored

    def _renewed(self, stored: bytes) -> bytes:
        return self._codec.encode(self._codec.pickled(stored), self._fresh_expiry(), self._codec.map_key(stored))

"""The kinds of keyed state over an ordered store of bytes (RocksDB), for state larger than memory.

Keys of the store: key group (2 bytes), number of the state (2 bytes), pickled key, and of a list the sequence number of
the element (8 bytes), of a map the pickled key of the entry. Values: with a time to live the time of the last renewal
(8 bytes, epoch milliseconds); in a map a byte that says whether the original key of the entry follows, which the
store's key may not give back (there, 1 stands for 1.0 and True as well); then the value
(`actors.state.snapshots.values`). All numbers are big-endian, so that the order of bytes is the order of key groups.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from actors.protocol.ports import Clock
from actors.state.keyed.backend import NO_GROUP, CurrentKey
from actors.state.keyed.kinds import (
    AggregatingKind,
    KeyedState,
    ListKind,
    MapKind,
    ReducingKind,
    SingleValue,
    ValueKind,
)
from actors.state.rocksdb.store import Items, RocksDbStore
from actors.state.snapshots.keyed_parts import StateRow
from actors.state.snapshots.pickling import KeyPickler, dumps, load_key
from actors.state.snapshots.values import value_of_bytes, value_to_bytes
from flinkray.persistence import load
from flinkray.state.descriptors import StateDescriptor

_RENEWED = struct.Struct(">q")
SEQUENCE = struct.Struct(">Q")
PREFIX = struct.Struct(">HH")
"""Key group and number of the state."""

_KEY_IS_CANONICAL = b"\0"
_KEY_FOLLOWS = b"\1"

_WRITES_BETWEEN_SWEEPS = 64
_ENTRIES_PER_SWEEP = 256
"""More than are written in between, so that a sweep passes over all entries faster than writes add new ones."""
_GROUPS_PER_SWEEP = 64


class PickledCurrentKey(CurrentKey):
    """The current key, pickled when its bytes are first asked for."""

    __slots__ = ("_bytes", "_prefix", "_prefix_of", "pickler")

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.pickler = KeyPickler()
        self._bytes: bytes | None = None
        self._prefix = b""
        self._prefix_of: int | None = None
        """The number of the state that `_prefix` belongs to: the one that was read or written last."""

    def set(self, key: Any, group: int) -> None:
        self.key = key
        self.group = group
        self._bytes = self._prefix_of = None

    def prefix(self, number: int) -> bytes:
        """The bytes with which the store's keys begin for the current key in the state of that number."""
        if number != self._prefix_of:
            if self._bytes is None:
                if self.group == NO_GROUP:
                    raise self.missing()
                self._bytes = self.pickler.dumps(self.key)
            self._prefix = PREFIX.pack(self.group, number) + self._bytes
            self._prefix_of = number
        return self._prefix


class Codec:
    """Encodes the bytes that are stored for one value, list element or map entry."""

    def __init__(self, kind: str, has_ttl: bool) -> None:
        self._has_ttl = has_ttl
        self._is_map = kind == "map"

    def encode(self, value: bytes, renewed: int | None, map_key: bytes | None = None) -> bytes:
        """
        Args:
            map_key: the pickled key of a map's entry, where the store's key does not give it back as it is.
        """
        if self._is_map:
            value = (
                _KEY_IS_CANONICAL + value
                if map_key is None
                else _KEY_FOLLOWS + struct.pack(">I", len(map_key)) + map_key + value
            )
        return _RENEWED.pack(renewed) + value if self._has_ttl else value

    def renewed(self, stored: bytes) -> int | None:
        """When the value was last renewed, epoch milliseconds; None without a time to live."""
        renewed: int | None = _RENEWED.unpack_from(stored)[0] if self._has_ttl else None
        return renewed

    def value(self, stored: bytes) -> bytes:
        """The bytes of the value alone."""
        start = _RENEWED.size if self._has_ttl else 0
        if self._is_map:
            start += 1 if stored[start : start + 1] == _KEY_IS_CANONICAL else 5 + self._key_length(stored, start)
        return stored[start:] if start else stored

    def map_key(self, stored: bytes) -> bytes | None:
        """The pickled key of a map's entry; None where the store's key gives it back."""
        start = _RENEWED.size if self._has_ttl else 0
        if stored[start : start + 1] == _KEY_IS_CANONICAL:
            return None
        return stored[start + 5 : start + 5 + self._key_length(stored, start)]

    def _key_length(self, stored: bytes, start: int) -> int:
        length: int = struct.unpack_from(">I", stored, start + 1)[0]
        return length


class RocksDbState(KeyedState):
    """Base of all kinds of state in the rocksdb backend: keys, and time to live."""

    def __init__(
        self,
        descriptor: StateDescriptor,
        number: int,
        current: PickledCurrentKey,
        store: RocksDbStore,
        clock: Clock,
        owned: range,
    ) -> None:
        super().__init__(descriptor, clock)
        self._number = number
        self._current = current
        self._store = store
        ttl = self._ttl
        self._cleanup = None if ttl is None else ttl.cleanup_strategies.get_rocksdb_compact_filter_cleanup_strategy()
        self._codec = Codec(self.kind, ttl is not None)
        self._owned = owned
        self._writes = 0
        self._swept = PREFIX.pack(owned.start, number)
        """The key of the store at which the next sweep begins."""

    def _now(self) -> int | None:
        """The time of a renewal now; None without a time to live."""
        return None if self._ttl is None else self._clock.now_ms()

    def _is_expired(self, stored: bytes) -> bool:
        return self._ttl is not None and self._was_renewed_by(stored, self._clock.now_ms() - self._ttl.ttl_ms)

    def _was_renewed_by(self, stored: bytes, newest_expired: int) -> bool:
        """Whether the value was last renewed at `newest_expired` or before."""
        renewed = self._codec.renewed(stored)
        return renewed is not None and renewed <= newest_expired

    def all_keys(self) -> Iterator[tuple[Any, int]]:
        for group in self._owned:
            last = None
            for key, _, _ in _keys_in_group(self._store.items, group, self._number, self.kind):
                if key != last:
                    yield load_key(key), group
                last = key

    def _sweep(self) -> None:
        """Deletes expired entries of keys that may never come back, a few at a time."""
        if self._ttl is None or self._cleanup is None:
            return
        self._writes += 1
        if self._writes < _WRITES_BETWEEN_SWEEPS:
            return
        self._writes = 0
        entries, newest_expired = 0, 0
        for _ in range(_GROUPS_PER_SWEEP):
            region = self._swept[: PREFIX.size]
            for key, stored in self._store.items(self._swept, region):
                if entries % self._cleanup.query_time_after_num_entries == 0:
                    newest_expired = self._clock.now_ms() - self._ttl.ttl_ms
                entries += 1
                if entries > _ENTRIES_PER_SWEEP:
                    self._swept = key
                    return
                if self._was_renewed_by(stored, newest_expired):
                    self._store.delete(key)
            group = PREFIX.unpack(region)[0] + 1
            self._swept = PREFIX.pack(group if group in self._owned else self._owned.start, self._number)

    def _clear_prefix(self) -> None:
        self._store.clear(self._current.prefix(self._number))


def rows_in_groups(
    items: Items, owned: range, number: int, kind: str, has_ttl: bool, newest_expired: int
) -> Iterator[StateRow]:
    """The rows of one state, in the order of key groups; keys are pickled, and values are bytes.

    Args:
        items: the entries of the store, or of a snapshot of it.
        number: the state's number in the keys of the store.
        newest_expired: values that were last renewed at this time or before are left out.
    """
    codec = Codec(kind, has_ttl)
    for group in owned:
        for key, map_key, stored in _keys_in_group(items, group, number, kind):
            renewed = codec.renewed(stored)
            if renewed is not None and renewed <= newest_expired:
                continue
            if map_key is not None:
                map_key = codec.map_key(stored) or map_key
            yield group, key, map_key, codec.value(stored), renewed


def _keys_in_group(items: Items, group: int, number: int, kind: str) -> Iterator[tuple[bytes, bytes | None, bytes]]:
    """Everything stored for a state in one key group: the pickled key, in a map that of the entry, and the stored
    bytes."""
    loader = _KeyReader()
    region = PREFIX.pack(group, number)
    for stored_key, stored in items(region, region):
        rest = stored_key[PREFIX.size :]
        map_key: bytes | None = None
        if kind == "list":
            rest = rest[: -SEQUENCE.size]
        elif kind == "map":
            length = loader.length(rest)
            rest, map_key = rest[:length], rest[length:]
        yield rest, map_key, stored


class _KeyReader:
    """Finds where the pickled key ends in a key of the store, quickly where entries of one key follow each other."""

    def __init__(self) -> None:
        self._last = b"\0"

    def length(self, data: bytes) -> int:
        if not data.startswith(self._last):
            self._last = data[: pickled_length(data)]
        return len(self._last)


def pickled_length(data: bytes) -> int:
    """The length of the pickle with which the bytes begin."""
    stream = io.BytesIO(data)
    load(stream)
    return stream.tell()


class _RocksDbSingleValue(RocksDbState, SingleValue):
    def _read(self) -> Any:
        key = self._current.prefix(self._number)
        stored = self._store.get(key)
        if stored is None:
            return None
        if self._ttl is None:
            return value_of_bytes(stored)
        value = self._codec.value(stored)
        if self._is_expired(stored):
            self._store.delete(key)
            return value_of_bytes(value) if self._returns_expired else None
        if self._renews_on_read:
            self._store.put(key, self._codec.encode(value, self._now()))
        return value_of_bytes(value)

    def _write(self, value: Any) -> None:
        encoded = self._codec.encode(value_to_bytes(value), self._now())
        self._store.put(self._current.prefix(self._number), encoded)
        self._sweep()

    def clear(self) -> None:
        self._store.delete(self._current.prefix(self._number))


class RocksDbValueState(_RocksDbSingleValue, ValueKind):
    """A value per key."""


class RocksDbReducingState(_RocksDbSingleValue, ReducingKind):
    """A reduced value per key."""


class RocksDbAggregatingState(_RocksDbSingleValue, AggregatingKind):
    """An accumulator per key."""


class RocksDbListState(RocksDbState, ListKind):
    """A list per key, of which each element is an entry of the store, so that adding writes the new elements only."""

    def get(self) -> list[Any]:
        prefix = self._current.prefix(self._number)
        values = []
        for key, stored in self._store.all_of(prefix):
            value = self._codec.value(stored)
            if self._is_expired(stored):
                self._store.delete(key)
                if self._returns_expired:
                    values.append(value_of_bytes(value))
                continue
            values.append(value_of_bytes(value))
            if self._renews_on_read:
                self._store.put(key, self._codec.encode(value, self._now()))
        return values

    def add_all(self, values: Iterable[Any]) -> None:
        values = list(values)
        if self._check is not None:
            for value in values:
                self._check(value)
        prefix, now = self._current.prefix(self._number), self._now()
        for encoded in [self._codec.encode(value_to_bytes(value), now) for value in values]:
            self._store.add(prefix, prefix + SEQUENCE.pack(self._store.next_sequence()), encoded)
        self._sweep()

    def clear(self) -> None:
        self._clear_prefix()


class RocksDbMapState(RocksDbState, MapKind):
    """A map per key, of which each entry is one of the store, read and written on its own."""

    def get(self, key: Any) -> Any:
        stored = self._read(self._entry(key))
        return None if stored is None else value_of_bytes(self._codec.value(stored))

    def contains(self, key: Any) -> bool:
        return self._read(self._entry(key)) is not None

    def put(self, key: Any, value: Any) -> None:
        if self._check is not None:
            self._check(value)
        pickler = self._current.pickler
        original = None if pickler.canonical(key) is key else dumps(key)
        encoded = self._codec.encode(value_to_bytes(value), self._now(), original)
        prefix = self._current.prefix(self._number)
        self._store.add(prefix, prefix + pickler.dumps(key), encoded)
        self._sweep()

    def remove(self, key: Any) -> None:
        self._store.delete(self._entry(key))

    def items(self) -> Iterator[tuple[Any, Any]]:
        prefix = self._current.prefix(self._number)
        entries = self._decoded(self._store.all_of(prefix, stay=True), len(prefix))
        # Reading deletes and renews entries, which must be over before the program can write one of them again.
        return entries if self._ttl is None else iter(list(entries))

    def is_empty(self) -> bool:
        entries = self._store.all_of(self._current.prefix(self._number))
        return all(self._is_expired(stored) and not self._returns_expired for _, stored in entries)

    def clear(self) -> None:
        self._clear_prefix()

    def _decoded(self, entries: Iterator[tuple[bytes, bytes]], start: int) -> Iterator[tuple[Any, Any]]:
        for stored_key, stored in entries:
            if self._may_be_read(stored_key, stored):
                yield (
                    load_key(self._codec.map_key(stored) or stored_key[start:]),
                    value_of_bytes(self._codec.value(stored)),
                )

    def _entry(self, key: Any) -> bytes:
        return self._current.prefix(self._number) + self._current.pickler.dumps(key)

    def _read(self, stored_key: bytes) -> bytes | None:
        stored = self._store.get(stored_key)
        return stored if stored is not None and self._may_be_read(stored_key, stored) else None

    def _may_be_read(self, stored_key: bytes, stored: bytes) -> bool:
        """Whether the entry is given to the program; what has expired is deleted, what has not may be renewed."""
        if self._ttl is None:
            return True
        if self._is_expired(stored):
            self._store.delete(stored_key)
            return self._returns_expired
        if self._renews_on_read:
            codec = self._codec
            self._store.put(stored_key, codec.encode(codec.value(stored), self._now(), codec.map_key(stored)))
        return True

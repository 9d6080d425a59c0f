"""The kinds of keyed state over Python dicts, one per key group, with a time to live where one is asked for.

With a time to live, each value (of a list: each element; of a map: each entry) is stored as (value, expiry in epoch
milliseconds). Reading an expired one drops it and never renews it; besides, each write looks at a few other keys, so
that expired state of keys that never come back goes too.

A snapshot copies the dicts, not what is in them. As long as it is being written, whatever both hold is copied the
first time that it is read or written, so that the user's code changes the copy (Flink's copy-on-write state map). What
user code keeps of a value from before the snapshot, and changes without asking for it again, is not protected.
"""

from __future__ import annotations

import copy
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from actors.ports import Clock
from actors.state.keyed_parts import Row, StateFacts, rows_of
from actors.state.keyed_state import NO_GROUP, CurrentKey
from actors.state.pickling import dumps, is_immutable, load_key, with_one_nan
from actors.state.state_kinds import (
    AggregatingKind,
    KeyedState,
    ListKind,
    MapKind,
    ReducingKind,
    SingleValue,
    ValueKind,
)
from flinkray.errors import InvalidProgramError
from flinkray.state import StateDescriptor, TtlUpdateType
from flinkray.types import MAX_TIMESTAMP

# Two are enough to pass over all keys faster than writes add new ones.
_KEYS_SWEPT_PER_WRITE = 2

Table = dict[Any, Any]
FrozenTables = dict[int, Table]
"""The tables of a state as they were at a snapshot, by key group."""

_NO_TABLE: Table = {}


class _GroupTables(dict[int, Table]):
    """A table for each key group that has one; made when it is first asked for."""

    def __init__(self, owned: range, current: CurrentKey, where: str) -> None:
        super().__init__()
        self._owned = owned
        self._current = current
        self._where = where

    def __missing__(self, group: int) -> Table:
        if group == NO_GROUP:
            raise self._current.missing()
        if group not in self._owned:
            raise InvalidProgramError(
                f"{self._where}: key group {group} is not one of this subtask's ({self._owned.start} to "
                f"{self._owned.stop - 1}); a key must be the same, and hash the same, in every process"
            )
        table: Table = {}
        self[group] = table
        return table


class MemoryState(KeyedState):
    """Base: the tables, expiry, and snapshots."""

    def __init__(
        self, descriptor: StateDescriptor, current: CurrentKey, owned: range, clock: Clock, where: str
    ) -> None:
        self._current = current
        self._clock = clock
        self._ttl = descriptor.ttl
        self._renews_on_read = self._ttl is not None and self._ttl.update_type is TtlUpdateType.ON_READ_AND_WRITE
        self._tables = _GroupTables(owned, current, where)
        self._frozen: tuple[FrozenTables, ...] = ()
        self._frozen_lock = threading.Lock()
        self._to_sweep: Iterator[tuple[int, Any]] = iter(())

    def clear(self) -> None:
        self._tables[self._current.group].pop(self._current.key, None)

    # -- what is stored

    def _stored(self) -> Any:
        """What is stored for the current key, not shared with any snapshot; None where there is nothing."""
        current = self._current
        stored = self._tables[current.group].get(current.key)
        return self._unshared(current.group, current.key, stored) if self._frozen and stored is not None else stored

    def _unshared(self, group: int, key: Any, stored: Any) -> Any:
        for frozen in self._frozen:
            if frozen.get(group, _NO_TABLE).get(key) is stored:
                copied = self._copy(stored)
                self._tables[group][key] = copied
                return copied
        return stored

    @abstractmethod
    def _copy(self, stored: Any) -> Any:
        """A copy of which no part that can change is shared."""

    def _copy_item(self, item: Any) -> Any:
        if self._ttl is not None:
            value, expiry = item
            return item if is_immutable(value) else (copy.deepcopy(value), expiry)
        return item if is_immutable(item) else copy.deepcopy(item)

    # -- expiry

    def _wrap(self, value: Any) -> Any:
        """What is stored for a value that is written now."""
        return value if self._ttl is None else (value, self._fresh_expiry())

    def _fresh_expiry(self) -> int:
        assert self._ttl is not None
        return min(MAX_TIMESTAMP, self._clock.now_ms() + self._ttl.ttl_ms)

    def _is_expired(self, item: Any) -> bool:
        return self._ttl is not None and bool(item[1] <= self._clock.now_ms())

    def _sweep(self) -> None:
        if self._ttl is None:
            return
        for _ in range(_KEYS_SWEPT_PER_WRITE):
            following = next(self._to_sweep, None)
            if following is None:
                self._to_sweep = self._all_keys()
                return
            group, key = following
            if key in self._tables[group]:
                self._drop_expired(group, key)

    def _all_keys(self) -> Iterator[tuple[int, Any]]:
        for group in list(self._tables):
            for key in list(self._tables[group]):
                yield group, key

    @abstractmethod
    def _drop_expired(self, group: int, key: Any) -> None:
        """Removes what has expired of a key that is in the table."""

    # -- snapshots

    @property
    def is_empty_everywhere(self) -> bool:
        return not any(self._tables.values())

    def freeze(self) -> FrozenTables:
        """A copy of the dicts. Until `release`, what is in them is copied before it is handed out."""
        frozen = {group: self._tables[group].copy() for group in sorted(self._tables)}
        with self._frozen_lock:
            self._frozen = (frozen, *self._frozen)
        return frozen

    def release(self, frozen: FrozenTables) -> None:
        """The snapshot is written or given up. Any thread."""
        with self._frozen_lock:
            self._frozen = tuple(other for other in self._frozen if other is not frozen)

    def rows(self, frozen: FrozenTables, now_ms: int) -> Iterator[Row]:
        """What the snapshot holds and had not expired by then; for another thread."""
        has_ttl = self._ttl is not None
        for group, table in frozen.items():
            for key, stored in table.items():
                pickled = dumps(key)
                for map_key, item in self._items(stored):
                    value, expiry = item if has_ttl else (item, None)
                    if expiry is None or expiry > now_ms:
                        yield group, pickled, map_key, value, expiry

    @abstractmethod
    def _items(self, stored: Any) -> Iterable[tuple[bytes | None, Any]]:
        """What is stored for one key, one by one, with pickled keys of a map."""

    def load(self, piece: Any, saved: StateFacts) -> None:
        """Adds the rows of a restored table; values saved without a time to live get a fresh one."""
        now = self._clock.now_ms()
        for group, key, map_key, value, expiry in rows_of(piece, saved):
            if expiry is not None and expiry <= now:
                continue
            item = value
            if self._ttl is not None:
                item = value, self._fresh_expiry() if expiry is None else expiry
            self._load(self._tables[group], load_key(key), map_key, item)

    @abstractmethod
    def _load(self, table: Table, key: Any, map_key: bytes | None, item: Any) -> None: ...


class _MemorySingle(MemoryState, SingleValue):
    def _read(self) -> Any:
        item = self._stored()
        if item is None or self._ttl is None:
            return item
        current = self._current
        if self._is_expired(item):
            del self._tables[current.group][current.key]
            return None
        if self._renews_on_read:
            self._tables[current.group][current.key] = self._wrap(item[0])
        return item[0]

    def _write(self, value: Any) -> None:
        current = self._current
        self._tables[current.group][current.key] = self._wrap(value)
        self._sweep()

    def _copy(self, stored: Any) -> Any:
        return self._copy_item(stored)

    def _drop_expired(self, group: int, key: Any) -> None:
        if self._is_expired(self._tables[group][key]):
            del self._tables[group][key]

    def _items(self, stored: Any) -> Iterable[tuple[bytes | None, Any]]:
        return ((None, stored),)

    def _load(self, table: Table, key: Any, map_key: bytes | None, item: Any) -> None:
        table[key] = item


class MemoryValueState(_MemorySingle, ValueKind):
    """Of the hashmap backend."""


class MemoryReducingState(_MemorySingle, ReducingKind):
    """Of the hashmap backend."""


class MemoryAggregatingState(_MemorySingle, AggregatingKind):
    """Of the hashmap backend."""


class MemoryListState(MemoryState, ListKind):
    """Of the hashmap backend."""

    def get(self) -> list[Any]:
        items = self._stored()
        if items is None or self._ttl is None:
            return list(items or ())
        current = self._current
        self._drop_expired(current.group, current.key)
        table = self._tables[current.group]
        values = [item[0] for item in table.get(current.key, ())]
        if self._renews_on_read and values:
            table[current.key] = [self._wrap(value) for value in values]
        return values

    def add_all(self, values: Iterable[Any]) -> None:
        added = [self._wrap(value) for value in values]
        if added:
            stored = self._stored()
            if stored is None:
                self._tables[self._current.group][self._current.key] = added
            else:
                stored.extend(added)
        self._sweep()

    def _copy(self, stored: Any) -> Any:
        return [self._copy_item(item) for item in stored]

    def _drop_expired(self, group: int, key: Any) -> None:
        table = self._tables[group]
        live = [item for item in self._unshared(group, key, table[key]) if not self._is_expired(item)]
        if live:
            table[key] = live
        else:
            del table[key]

    def _items(self, stored: Any) -> Iterable[tuple[bytes | None, Any]]:
        return ((None, item) for item in stored)

    def _load(self, table: Table, key: Any, map_key: bytes | None, item: Any) -> None:
        table.setdefault(key, []).append(item)


class MemoryMapState(MemoryState, MapKind):
    """Of the hashmap backend."""

    def get(self, key: Any) -> Any:
        key = with_one_nan(key)
        return self._live_entries(key).get(key)

    def contains(self, key: Any) -> bool:
        key = with_one_nan(key)
        return key in self._live_entries(key)

    def put(self, key: Any, value: Any) -> None:
        stored = self._stored()
        if stored is None:
            stored = self._tables[self._current.group][self._current.key] = {}
        stored[with_one_nan(key)] = self._wrap(value)
        self._sweep()

    def remove(self, key: Any) -> None:
        stored = self._stored()
        if stored is not None:
            stored.pop(with_one_nan(key), None)
            if not stored:
                self.clear()

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(list(self._all_live().items()))

    def is_empty(self) -> bool:
        current = self._current
        table = self._tables[current.group]
        if self._ttl is not None and current.key in table:
            self._drop_expired(current.group, current.key)
        return current.key not in table

    def _live_entries(self, key: Any) -> dict[Any, Any]:
        """A dict that holds the value of `key` if it is live; renews only that entry."""
        stored: dict[Any, Any] = self._stored() or {}
        if self._ttl is None or key not in stored:
            return stored
        if self._is_expired(stored[key]):
            self.remove(key)
            return {}
        value = stored[key][0]
        if self._renews_on_read:
            stored[key] = self._wrap(value)
        return {key: value}

    def _all_live(self) -> dict[Any, Any]:
        stored = self._stored()
        if stored is None or self._ttl is None:
            return stored or {}
        current = self._current
        self._drop_expired(current.group, current.key)
        table = self._tables[current.group]
        values = {key: item[0] for key, item in table.get(current.key, {}).items()}
        if self._renews_on_read and values:
            table[current.key] = {key: self._wrap(value) for key, value in values.items()}
        return values

    def _copy(self, stored: Any) -> Any:
        return {key: self._copy_item(item) for key, item in stored.items()}

    def _drop_expired(self, group: int, key: Any) -> None:
        table = self._tables[group]
        stored = self._unshared(group, key, table[key])
        live = {entry: item for entry, item in stored.items() if not self._is_expired(item)}
        if live:
            table[key] = live
        else:
            del table[key]

    def _items(self, stored: Any) -> Iterable[tuple[bytes | None, Any]]:
        return ((dumps(key), item) for key, item in stored.items())

    def _load(self, table: Table, key: Any, map_key: bytes | None, item: Any) -> None:
        assert map_key is not None
        table.setdefault(key, {})[load_key(map_key)] = item

"""The kinds of keyed state over Python dicts, one per key group, with a time to live where one is asked for.

With a time to live, each value (of a list: each element; of a map: each entry) is stored as (value, time of its last
renewal). Reading an expired one drops it and never renews it; besides, each access looks at a few other keys, so that
expired state of keys that never come back goes too (Flink's incremental cleanup).

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
from actors.state.snapshots.evolution import Evolution
from actors.state.snapshots.keyed_parts import StateFacts, StateRow, rows_of
from actors.state.snapshots.pickling import dumps, is_immutable, load_key, with_one_nan
from flinkray.errors import InvalidProgramError
from flinkray.state.descriptors import StateDescriptor

KeyTable = dict[Any, Any]
"""What is stored for each key of one key group."""
FrozenTables = dict[int, KeyTable]
"""The tables of a state as they were at a snapshot, by key group."""

_NO_TABLE: KeyTable = {}
_MISSING = object()
"""Stands for a map entry that does not exist."""


class _GroupTables(dict[int, KeyTable]):
    """A table for each key group that has one; made when it is first asked for."""

    def __init__(self, owned: range, current: CurrentKey, where: str) -> None:
        super().__init__()
        self._owned = owned
        self._current = current
        self._where = where

    def __missing__(self, group: int) -> KeyTable:
        if group == NO_GROUP:
            raise self._current.missing()
        if group not in self._owned:
            raise InvalidProgramError(
                f"{self._where}: key group {group} is not one of this subtask's ({self._owned.start} to "
                f"{self._owned.stop - 1}); a key must be the same, and hash the same, in every process"
            )
        table: KeyTable = {}
        self[group] = table
        return table


class HashMapState(KeyedState):
    """Base of all kinds of state in the hashmap backend: the tables, expiry, and snapshots."""

    def __init__(
        self, descriptor: StateDescriptor, current: CurrentKey, owned: range, clock: Clock, where: str
    ) -> None:
        super().__init__(descriptor, clock)
        self._current = current
        ttl = self._ttl
        self._ttl_ms: int = 0 if ttl is None else ttl.ttl_ms
        cleanup = None if ttl is None else ttl.cleanup_strategies.get_incremental_cleanup_strategy()
        self._cleanup_size = 0 if cleanup is None else cleanup.cleanup_size
        self.is_cleaned_for_every_record = cleanup is not None and cleanup.runs_for_every_record
        self._tables = _GroupTables(owned, current, where)
        self._frozen: tuple[FrozenTables, ...] = ()
        self._frozen_lock = threading.Lock()
        self._to_sweep: Iterator[tuple[Any, int]] = iter(())

    def clear(self) -> None:
        self._tables[self._current.group].pop(self._current.key, None)

    def drop_all(self) -> None:
        """Drops what is stored for any key."""
        self._tables.clear()

    # -- what is stored

    def _stored(self) -> Any:
        """What is stored for the current key, copied first if a snapshot shares it; None where there is nothing."""
        current = self._current
        stored = self._tables[current.group].get(current.key)
        return self._unshared(current.group, current.key, stored) if self._frozen and stored is not None else stored

    def _unshared(self, group: int, key: Any, stored: Any) -> Any:
        """What is stored for a key, replaced by a copy if a snapshot that is being written shares it."""
        for frozen in self._frozen:
            if frozen.get(group, _NO_TABLE).get(key) is stored:
                copied = self._copy(stored)
                self._tables[group][key] = copied
                return copied
        return stored

    @abstractmethod
    def _copy(self, stored: Any) -> Any:
        """A copy that shares nothing that can change with the original."""

    def _copy_item(self, item: Any) -> Any:
        if self._ttl is not None:
            value, expiry = item
            return item if is_immutable(value) else (copy.deepcopy(value), expiry)
        return item if is_immutable(item) else copy.deepcopy(item)

    # -- expiry

    def _wrap(self, value: Any) -> Any:
        """The item to store for a value that is written now."""
        return value if self._ttl is None else (value, self._clock.now_ms())

    def _is_expired(self, item: Any) -> bool:
        return bool(item[1] + self._ttl_ms <= self._clock.now_ms())

    def _live(self, items: Iterable[Any]) -> list[Any]:
        """The items that have not expired, renewed if reading renews them."""
        newest_expired = self._clock.now_ms() - self._ttl_ms
        live = [item for item in items if item[1] > newest_expired]
        return [self._wrap(value) for value, _ in live] if self._renews_on_read else live

    def clean_up(self) -> None:
        """Looks at a few keys, others each time, and drops what has expired of them."""
        for _ in range(self._cleanup_size):
            following = next(self._to_sweep, None)
            if following is None:
                self._to_sweep = self.all_keys()
                return
            key, group = following
            if key in self._tables[group]:
                self._drop_expired(group, key)

    def all_keys(self) -> Iterator[tuple[Any, int]]:
        for group in list(self._tables):
            for key in list(self._tables[group]):
                yield key, group

    @abstractmethod
    def _drop_expired(self, group: int, key: Any) -> None:
        """Removes what has expired of a key that has something in this state."""

    # -- snapshots

    @property
    def is_empty_everywhere(self) -> bool:
        return not any(self._tables.values())

    def freeze(self) -> FrozenTables:
        """Copies the dicts for a snapshot. Until `release`, what both hold is copied before it is handed out."""
        frozen = {group: self._tables[group].copy() for group in sorted(self._tables)}
        with self._frozen_lock:
            self._frozen = (frozen, *self._frozen)
        return frozen

    def release(self, frozen: FrozenTables) -> None:
        """Ends the sharing with a snapshot that has been written or given up. Any thread."""
        with self._frozen_lock:
            self._frozen = tuple(other for other in self._frozen if other is not frozen)

    def rows(self, frozen: FrozenTables, now_ms: int) -> Iterator[StateRow]:
        """The rows of a snapshot taken at `now_ms`, without expired ones that can never be read again. Any thread."""
        ttl, newest_expired = self._ttl, self.newest_expired_in_snapshots(now_ms)
        for group, table in frozen.items():
            for key, stored in table.items():
                pickled = dumps(key)
                for map_key, item in self._items(stored):
                    value, renewed = (item, None) if ttl is None else item
                    if renewed is None or renewed > newest_expired:
                        yield group, pickled, map_key, value, renewed

    @abstractmethod
    def _items(self, stored: Any) -> Iterable[tuple[bytes | None, Any]]:
        """The items stored for one key, each with the pickled key of the entry in a map, else None."""

    def load(self, table: Any, saved: StateFacts, evolution: Evolution | None) -> None:
        """Adds the rows of a restored table; values saved without a time to live count as written now.

        Args:
            evolution: makes values of the declared type of them; None: they are.
        """
        now = self._clock.now_ms()
        for group, key, map_key, value, renewed in rows_of(table, saved, evolution=evolution):
            item = value
            if self._ttl is not None:
                item = value, now if renewed is None else renewed
                if not self._returns_expired and self._is_expired(item):
                    continue
            self._load(self._tables[group], load_key(key), map_key, item)

    @abstractmethod
    def _load(self, table: KeyTable, key: Any, map_key: bytes | None, item: Any) -> None:
        """Adds a restored item to the table of its key group."""


class _HashMapSingleValue(HashMapState, SingleValue):
    def _read(self) -> Any:
        if self._ttl is None:
            return self._stored()
        self.clean_up()
        item = self._stored()
        if item is None:
            return None
        current = self._current
        if self._is_expired(item):
            del self._tables[current.group][current.key]
            return item[0] if self._returns_expired else None
        if self._renews_on_read:
            self._tables[current.group][current.key] = self._wrap(item[0])
        return item[0]

    def _write(self, value: Any) -> None:
        current = self._current
        if self._ttl is None:
            self._tables[current.group][current.key] = value
            return
        self._tables[current.group][current.key] = self._wrap(value)
        self.clean_up()

    def _copy(self, stored: Any) -> Any:
        return self._copy_item(stored)

    def _drop_expired(self, group: int, key: Any) -> None:
        if self._is_expired(self._tables[group][key]):
            del self._tables[group][key]

    def _items(self, stored: Any) -> Iterable[tuple[bytes | None, Any]]:
        return ((None, stored),)

    def _load(self, table: KeyTable, key: Any, map_key: bytes | None, item: Any) -> None:
        table[key] = item


class HashMapValueState(_HashMapSingleValue, ValueKind):
    """A value per key."""

    def value(self) -> Any:
        # Does what `_read` does, without its calls where nothing expires and no snapshot is being written: programs
        # call this for every row.
        if self._ttl is not None or self._frozen:
            return self._read()
        current = self._current
        return self._tables[current.group].get(current.key)


class HashMapReducingState(_HashMapSingleValue, ReducingKind):
    """A reduced value per key."""


class HashMapAggregatingState(_HashMapSingleValue, AggregatingKind):
    """An accumulator per key."""


class HashMapListState(HashMapState, ListKind):
    """A list, stored as a Python list per key."""

    def get(self) -> list[Any]:
        if self._ttl is None:
            return list(self._stored() or ())
        self.clean_up()
        items = self._stored()
        if items is None:
            return []
        live = self._live(items)
        current = self._current
        self._keep(current.group, current.key, live)
        return [value for value, _ in (items if self._returns_expired else live)]

    def add_all(self, values: Iterable[Any]) -> None:
        values = list(values)
        if self._check is not None:
            for value in values:
                self._check(value)
        added = [self._wrap(value) for value in values]
        if added:
            stored = self._stored()
            if stored is None:
                self._tables[self._current.group][self._current.key] = added
            else:
                stored.extend(added)
        if self._ttl is not None:
            self.clean_up()

    def _copy(self, stored: Any) -> Any:
        return [self._copy_item(item) for item in stored]

    def _drop_expired(self, group: int, key: Any) -> None:
        items = self._tables[group][key]
        if any(map(self._is_expired, items)):
            items = self._unshared(group, key, items)
            self._keep(group, key, [item for item in items if not self._is_expired(item)])

    def _keep(self, group: int, key: Any, items: list[Any]) -> None:
        if items:
            self._tables[group][key] = items
        else:
            del self._tables[group][key]

    def _items(self, stored: Any) -> Iterable[tuple[bytes | None, Any]]:
        return ((None, item) for item in stored)

    def _load(self, table: KeyTable, key: Any, map_key: bytes | None, item: Any) -> None:
        table.setdefault(key, []).append(item)


class HashMapMapState(HashMapState, MapKind):
    """A map, stored as a Python dict per key."""

    def get(self, key: Any) -> Any:
        found = self._find(with_one_nan(key))
        return None if found is _MISSING else found

    def contains(self, key: Any) -> bool:
        return self._find(with_one_nan(key)) is not _MISSING

    def put(self, key: Any, value: Any) -> None:
        if self._check is not None:
            self._check(value)
        stored = self._stored()
        if stored is None:
            stored = self._tables[self._current.group][self._current.key] = {}
        stored[with_one_nan(key)] = self._wrap(value)
        if self._ttl is not None:
            self.clean_up()

    def remove(self, key: Any) -> None:
        stored = self._stored()
        if stored is not None:
            self._remove(stored, with_one_nan(key))

    def items(self) -> Iterator[tuple[Any, Any]]:
        if self._ttl is None:
            return iter(list((self._stored() or {}).items()))
        self.clean_up()
        stored = self._stored()
        if stored is None:
            return iter(())
        live = self._live_entries(stored)
        current = self._current
        self._keep(current.group, current.key, live)
        return iter([(key, item[0]) for key, item in (stored if self._returns_expired else live).items()])

    def is_empty(self) -> bool:
        current = self._current
        table = self._tables[current.group]
        if self._ttl is not None and not self._returns_expired and current.key in table:
            self._drop_expired(current.group, current.key)
        return current.key not in table

    def _find(self, key: Any) -> Any:
        """The value of an entry that has not expired, or _MISSING."""
        if self._ttl is not None:
            self.clean_up()
        stored = self._stored()
        if stored is None or key not in stored:
            return _MISSING
        item = stored[key]
        if self._ttl is None:
            return item
        if self._is_expired(item):
            self._remove(stored, key)
            return item[0] if self._returns_expired else _MISSING
        if self._renews_on_read:
            stored[key] = self._wrap(item[0])
        return item[0]

    def _remove(self, stored: dict[Any, Any], key: Any) -> None:
        stored.pop(key, None)
        if not stored:
            self.clear()

    def _live_entries(self, stored: dict[Any, Any]) -> dict[Any, Any]:
        live = {key: item for key, item in stored.items() if not self._is_expired(item)}
        return {key: self._wrap(value) for key, (value, _) in live.items()} if self._renews_on_read else live

    def _copy(self, stored: Any) -> Any:
        return {key: self._copy_item(item) for key, item in stored.items()}

    def _drop_expired(self, group: int, key: Any) -> None:
        stored = self._tables[group][key]
        if any(map(self._is_expired, stored.values())):
            stored = self._unshared(group, key, stored)
            self._keep(group, key, {entry: item for entry, item in stored.items() if not self._is_expired(item)})

    def _keep(self, group: int, key: Any, entries: dict[Any, Any]) -> None:
        if entries:
            self._tables[group][key] = entries
        else:
            del self._tables[group][key]

    def _items(self, stored: Any) -> Iterable[tuple[bytes | None, Any]]:
        return ((dumps(key), item) for key, item in stored.items())

    def _load(self, table: KeyTable, key: Any, map_key: bytes | None, item: Any) -> None:
        assert map_key is not None
        table.setdefault(key, {})[load_key(map_key)] = item

"""The kinds of keyed state over a Python dict from key to what is stored, with a time to live where one is asked for.

With a time to live, each value (of a list: each element; of a map: each entry) is stored as (value, expiry in epoch
milliseconds). Reading an expired one drops it and never renews it; besides, each write looks at a few other keys, so
that expired state of keys that never come back goes too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from actors.ports import Clock
from flinkray.functions import as_callable
from flinkray.state import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor, TtlUpdateType
from flinkray.types import MAX_TIMESTAMP

# Two are enough to pass over all keys faster than writes add new ones.
_KEYS_SWEPT_PER_WRITE = 2


class MemoryState(ABC):
    """Base: the table, expiry, and snapshots."""

    kind: ClassVar[str]

    def __init__(self, descriptor: StateDescriptor, current_key: Callable[[], Any], clock: Clock) -> None:
        self._current_key = current_key
        self._clock = clock
        self._ttl = descriptor.ttl
        self._renews_on_read = self._ttl is not None and self._ttl.update_type is TtlUpdateType.ON_READ_AND_WRITE
        self._table: dict[Any, Any] = {}
        self._to_sweep: Iterator[Any] = iter(())

    def clear(self) -> None:
        self._table.pop(self._current_key(), None)

    def snapshot(self) -> dict[str, Any]:
        """Every key with what is stored for it; containers are copies, the values in them are shared."""
        entries = [(key, self._copy(stored)) for key, stored in self._table.items()]
        return {"kind": self.kind, "has_ttl": self._ttl is not None, "entries": entries}

    def restore(self, part: dict[str, Any]) -> None:
        """Adds a snapshot's entries; values saved without a time to live get a fresh one."""
        for key, stored in part["entries"]:
            values = self._mapped(stored, lambda item: item[0]) if part["has_ttl"] and self._ttl is None else stored
            if self._ttl is not None and not part["has_ttl"]:
                values = self._mapped(stored, self._wrap)
            self._table[key] = self._copy(values)

    @abstractmethod
    def _mapped(self, stored: Any, change: Callable[[Any], Any]) -> Any:
        """`stored` with each of its values changed."""

    def _copy(self, stored: Any) -> Any:
        return stored

    # -- expiry

    def _wrap(self, value: Any) -> Any:
        """What is stored for a value that is written now."""
        if self._ttl is None:
            return value
        return value, min(MAX_TIMESTAMP, self._clock.now_ms() + self._ttl.ttl_ms)

    def _is_expired(self, item: Any) -> bool:
        return self._ttl is not None and bool(item[1] <= self._clock.now_ms())

    def _sweep(self) -> None:
        if self._ttl is None:
            return
        for _ in range(_KEYS_SWEPT_PER_WRITE):
            key = next(self._to_sweep, None)
            if key is None:
                self._to_sweep = iter(list(self._table))
                return
            if key in self._table:
                self._drop_expired(key)

    @abstractmethod
    def _drop_expired(self, key: Any) -> None:
        """Removes what has expired of a key that is in the table."""


class _SingleValueState(MemoryState):
    """One stored value per key."""

    def _read(self) -> Any:
        key = self._current_key()
        item = self._table.get(key)
        if item is None or self._ttl is None:
            return item
        if self._is_expired(item):
            del self._table[key]
            return None
        if self._renews_on_read:
            self._table[key] = self._wrap(item[0])
        return item[0]

    def _write(self, value: Any) -> None:
        self._table[self._current_key()] = self._wrap(value)
        self._sweep()

    def _mapped(self, stored: Any, change: Callable[[Any], Any]) -> Any:
        return change(stored)

    def _drop_expired(self, key: Any) -> None:
        if self._is_expired(self._table[key]):
            del self._table[key]


class MemoryValueState(_SingleValueState):
    kind = "value"

    def value(self) -> Any:
        return self._read()

    def update(self, value: Any) -> None:
        """None clears it, as in Flink."""
        if value is None:
            self.clear()
        else:
            self._write(value)


class MemoryReducingState(_SingleValueState):
    kind = "reducing"

    def __init__(self, descriptor: StateDescriptor, current_key: Callable[[], Any], clock: Clock) -> None:
        super().__init__(descriptor, current_key, clock)
        assert isinstance(descriptor, ReducingStateDescriptor)
        self._reduce = as_callable(descriptor.function, "reduce")

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        so_far = self._read()
        self._write(value if so_far is None else self._reduce(so_far, value))


class MemoryAggregatingState(_SingleValueState):
    kind = "aggregating"

    def __init__(self, descriptor: StateDescriptor, current_key: Callable[[], Any], clock: Clock) -> None:
        super().__init__(descriptor, current_key, clock)
        assert isinstance(descriptor, AggregatingStateDescriptor)
        self._function = descriptor.function

    def get(self) -> Any:
        accumulator = self._read()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        accumulator = self._read()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._write(self._function.add(value, accumulator))


class MemoryListState(MemoryState):
    kind = "list"

    def get(self) -> list[Any]:
        """The elements, oldest first; changing the list changes nothing."""
        key = self._current_key()
        items = self._table.get(key)
        if items is None or self._ttl is None:
            return list(items or ())
        self._drop_expired(key)
        values = [item[0] for item in self._table.get(key, ())]
        if self._renews_on_read and values:
            self._table[key] = [self._wrap(value) for value in values]
        return values

    def add(self, value: Any) -> None:
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        added = [self._wrap(value) for value in values]
        if added:
            self._table.setdefault(self._current_key(), []).extend(added)
        self._sweep()

    def update(self, values: Iterable[Any]) -> None:
        """Replaces the list; nothing clears it."""
        replacement = list(values)
        self.clear()
        self.add_all(replacement)

    def _mapped(self, stored: Any, change: Callable[[Any], Any]) -> Any:
        return [change(item) for item in stored]

    def _copy(self, stored: Any) -> Any:
        return list(stored)

    def _drop_expired(self, key: Any) -> None:
        live = [item for item in self._table[key] if not self._is_expired(item)]
        if live:
            self._table[key] = live
        else:
            del self._table[key]


class MemoryMapState(MemoryState):
    kind = "map"

    def get(self, key: Any) -> Any:
        return self._live_entries(key).get(key)

    def contains(self, key: Any) -> bool:
        return key in self._live_entries(key)

    def put(self, key: Any, value: Any) -> None:
        self._table.setdefault(self._current_key(), {})[key] = self._wrap(value)
        self._sweep()

    def put_all(self, entries: Iterable[tuple[Any, Any]] | dict[Any, Any]) -> None:
        for key, value in entries.items() if isinstance(entries, dict) else entries:
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Without effect where there is no such entry."""
        current = self._current_key()
        stored = self._table.get(current)
        if stored is not None:
            stored.pop(key, None)
            if not stored:
                del self._table[current]

    def items(self) -> Iterator[tuple[Any, Any]]:
        """The entries as they are now: what happens to the map while iterating does not show."""
        return iter(list(self._all_live().items()))

    def keys(self) -> Iterator[Any]:
        return iter(list(self._all_live()))

    def values(self) -> Iterator[Any]:
        return iter(list(self._all_live().values()))

    def is_empty(self) -> bool:
        current = self._current_key()
        if self._ttl is not None and current in self._table:
            self._drop_expired(current)
        return current not in self._table

    def _live_entries(self, key: Any) -> dict[Any, Any]:
        """A dict that holds the value of `key` if it is live; renews only that entry."""
        stored: dict[Any, Any] = self._table.get(self._current_key(), {})
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
        current = self._current_key()
        if self._ttl is None or current not in self._table:
            return dict(self._table.get(current, {}))
        self._drop_expired(current)
        values = {key: item[0] for key, item in self._table.get(current, {}).items()}
        if self._renews_on_read and values:
            self._table[current] = {key: self._wrap(value) for key, value in values.items()}
        return values

    def _mapped(self, stored: Any, change: Callable[[Any], Any]) -> Any:
        return {key: change(item) for key, item in stored.items()}

    def _copy(self, stored: Any) -> Any:
        return dict(stored)

    def _drop_expired(self, key: Any) -> None:
        live = {entry: item for entry, item in self._table[key].items() if not self._is_expired(item)}
        if live:
            self._table[key] = live
        else:
            del self._table[key]

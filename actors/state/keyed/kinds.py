"""The kinds of keyed state as user functions call them: value, list, map, reducing and aggregating state.

A backend mixes each kind into a class of its own, which reads and writes what the kind needs; what a time to live means
is the same for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from actors.protocol.ports import Clock
from actors.state.keyed.declared_values import Check
from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import as_callable
from flinkray.state.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    TtlUpdateType,
)
from flinkray.types.records import MIN_TIMESTAMP


class KeyedState(ABC):
    """One state of a backend, with the values of all keys."""

    kind: ClassVar[str]

    def __init__(self, descriptor: StateDescriptor, clock: Clock) -> None:
        self._clock = clock
        self._ttl = ttl = descriptor.active_ttl
        self._renews_on_read = ttl is not None and ttl.update_type is TtlUpdateType.ON_READ_AND_WRITE
        self._returns_expired = ttl is not None and ttl.returns_expired
        self._check: Check | None = None

    def check_values(self, check: Check | None) -> None:
        """Has every value that is put checked from now on; what is there already is not."""
        self._check = check

    def use(self, descriptor: StateDescriptor) -> None:
        """Takes the function out of the descriptor, where the kind has one."""

    @abstractmethod
    def clear(self) -> None:
        """Removes what the current key has."""

    @abstractmethod
    def all_keys(self) -> Iterator[tuple[Any, int]]:
        """The keys that have a value in this state, with their key groups; state may be changed while iterating."""

    def newest_expired_in_snapshots(self, now_ms: int) -> int:
        """Values that were renewed at this time or before are left out of a full snapshot."""
        ttl = self._ttl
        return MIN_TIMESTAMP if ttl is None or ttl.keeps_expired_in_snapshots else now_ms - ttl.ttl_ms

    def take_out(self) -> Any:
        """Removes what the current key has, and returns it for `merge_in` under another key; None for nothing.

        Raises:
            InvalidProgramError: states of this kind cannot be merged.
        """
        raise InvalidProgramError(
            f"a {self.kind} state cannot be merged with that of another window; use a list, reducing or aggregating "
            "state for what has to survive when windows merge"
        )

    def merge_in(self, other: Any) -> None:
        """Adds what `take_out` returned for another key to what the current key has."""
        raise TypeError(f"a {self.kind} state has nothing to merge")


class SingleValue(KeyedState):
    """One value of the current key; None is no value."""

    @abstractmethod
    def _read(self) -> Any:
        """The value of the current key, unless it has expired; the caller may change it and write it again."""

    @abstractmethod
    def _write(self, value: Any) -> None: ...


class ValueKind(SingleValue):
    """A value (`flinkray.state.descriptors.ValueState`)."""

    kind = "value"

    def value(self) -> Any:
        return self._read()

    def update(self, value: Any) -> None:
        """Replaces the value; None clears it, as in Flink."""
        if value is None:
            self.clear()
            return
        if self._check is not None:
            self._check(value)
        self._write(value)


class ReducingKind(SingleValue):
    """A value folded with a reduce function."""

    kind = "reducing"

    def use(self, descriptor: StateDescriptor) -> None:
        assert isinstance(descriptor, ReducingStateDescriptor)
        self._reduce = as_callable(descriptor.function, "reduce")

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        if self._check is not None:
            self._check(value)
        so_far = self._read()
        self._write(value if so_far is None else self._reduce(so_far, value))

    def take_out(self) -> Any:
        value = self._read()
        self.clear()
        return value

    def merge_in(self, other: Any) -> None:
        self.add(other)


class AggregatingKind(SingleValue):
    """The accumulator of an aggregate function, read as its result."""

    kind = "aggregating"

    def use(self, descriptor: StateDescriptor) -> None:
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

    def take_out(self) -> Any:
        value = self._read()
        self.clear()
        return value

    def merge_in(self, other: Any) -> None:
        so_far = self._read()
        self._write(other if so_far is None else self._function.merge(so_far, other))


class ListKind(KeyedState):
    """A list of elements, oldest first."""

    kind = "list"

    @abstractmethod
    def get(self) -> list[Any]:
        """The elements, oldest first; changing the list changes nothing."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    @abstractmethod
    def add_all(self, values: Iterable[Any]) -> None: ...

    def add(self, value: Any) -> None:
        self.add_all((value,))

    def update(self, values: Iterable[Any]) -> None:
        """Replaces the list; an empty one clears the state."""
        replacement = list(values)
        if self._check is not None:
            for value in replacement:
                self._check(value)
        self.clear()
        self.add_all(replacement)

    def take_out(self) -> Any:
        value = self.get()
        self.clear()
        return value or None

    def merge_in(self, other: Any) -> None:
        self.add_all(other)


class ReadableMap(ABC):
    """The reading half of a dict, as PyFlink's read-only broadcast state offers it."""

    @abstractmethod
    def get(self, key: Any) -> Any: ...

    @abstractmethod
    def contains(self, key: Any) -> bool: ...

    @abstractmethod
    def items(self) -> Iterator[tuple[Any, Any]]:
        """The entries as they are now, in no certain order; changes made while iterating do not show."""

    @abstractmethod
    def is_empty(self) -> bool: ...

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())

    def __getitem__(self, key: Any) -> Any:
        """None where there is no such entry, as in PyFlink."""
        return self.get(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return self.keys()


class WritableMap(ReadableMap):
    """A dict as PyFlink's MapState and BroadcastState offer it."""

    @abstractmethod
    def put(self, key: Any, value: Any) -> None: ...

    @abstractmethod
    def remove(self, key: Any) -> None:
        """Without effect where there is no such entry."""

    def put_all(self, dict_value: Iterable[tuple[Any, Any]] | dict[Any, Any]) -> None:
        for key, value in dict_value.items() if isinstance(dict_value, dict) else dict_value:
            self.put(key, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)


class MapKind(KeyedState, WritableMap):
    """A dict of entries."""

    kind = "map"

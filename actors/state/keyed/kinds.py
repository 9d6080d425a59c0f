"""The kinds of keyed state as user functions call them, over whatever a backend reads and writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import as_callable
from flinkray.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor


class KeyedState(ABC):
    """Any state of a backend."""

    kind: ClassVar[str]

    def use(self, descriptor: StateDescriptor) -> None:
        """Takes the function out of the descriptor, where the kind has one."""

    @abstractmethod
    def clear(self) -> None:
        """Of the current key."""

    def take_out(self) -> Any:
        """What the current key has, for `merge_in` under another key; None where it has nothing. It is gone then.

        Raises:
            InvalidProgramError: states of this kind cannot be merged.
        """
        raise InvalidProgramError(
            f"a {self.kind} state cannot be merged with that of another window; use a list, reducing or aggregating "
            "state for what has to survive when windows merge"
        )

    def merge_in(self, taken: Any) -> None:
        """Adds what `take_out` gave of the same state to what the current key has."""
        raise TypeError(f"a {self.kind} state has nothing to merge")


class SingleValue(KeyedState):
    """One value of the current key; None is no value."""

    @abstractmethod
    def _read(self) -> Any:
        """The live value, which the caller may change and write again."""

    @abstractmethod
    def _write(self, value: Any) -> None: ...


class ValueKind(SingleValue):
    kind = "value"

    def value(self) -> Any:
        return self._read()

    def update(self, value: Any) -> None:
        """None clears it, as in Flink."""
        if value is None:
            self.clear()
        else:
            self._write(value)


class ReducingKind(SingleValue):
    kind = "reducing"

    def use(self, descriptor: StateDescriptor) -> None:
        assert isinstance(descriptor, ReducingStateDescriptor)
        self._reduce = as_callable(descriptor.function, "reduce")

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        so_far = self._read()
        self._write(value if so_far is None else self._reduce(so_far, value))

    def take_out(self) -> Any:
        taken = self._read()
        self.clear()
        return taken

    def merge_in(self, taken: Any) -> None:
        self.add(taken)


class AggregatingKind(SingleValue):
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
        taken = self._read()
        self.clear()
        return taken

    def merge_in(self, taken: Any) -> None:
        so_far = self._read()
        self._write(taken if so_far is None else self._function.merge(so_far, taken))


class ListKind(KeyedState):
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
        """Replaces the list; nothing clears it."""
        replacement = list(values)
        self.clear()
        self.add_all(replacement)

    def take_out(self) -> Any:
        taken = self.get()
        self.clear()
        return taken or None

    def merge_in(self, taken: Any) -> None:
        self.add_all(taken)


class ReadableMap(ABC):
    """A dict that is read, as PyFlink's read-only broadcast state."""

    @abstractmethod
    def get(self, key: Any) -> Any: ...

    @abstractmethod
    def contains(self, key: Any) -> bool: ...

    @abstractmethod
    def items(self) -> Iterator[tuple[Any, Any]]:
        """The entries as they are now: what happens to the map while iterating does not show. In no certain order."""

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
    """A dict as PyFlink's MapState and BroadcastState."""

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
    kind = "map"

"""ListView and MapView: lists and maps in the accumulators of the user's aggregates, by PyFlink's methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DataView:
    """Base of both. What is in a view is part of its accumulator, and in memory."""

    def clear(self) -> None:
        """Takes all out."""
        raise NotImplementedError


class ListView(DataView, Generic[T]):
    """A list in an accumulator."""

    def __init__(self) -> None:
        self._values: list[T] = []

    def get(self) -> Iterable[T]:
        """The values in their order."""
        return self._values

    def add(self, value: T) -> None:
        self._values.append(value)

    def add_all(self, values: Iterable[T]) -> None:
        self._values.extend(values)

    def clear(self) -> None:
        self._values = []

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListView) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]


class MapView(DataView, Generic[K, V]):
    """A map in an accumulator. Its keys may be taken out while they are iterated over."""

    def __init__(self) -> None:
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V:
        """The value of a key.

        Raises:
            KeyError: there is none.
        """
        return self._values[key]

    def put(self, key: K, value: V) -> None:
        self._values[key] = value

    def put_all(self, dict_value: Mapping[K, V]) -> None:
        self._values.update(dict_value)

    def remove(self, key: K) -> None:
        """Takes a key out.

        Raises:
            KeyError: it is not there.
        """
        del self._values[key]

    def contains(self, key: K) -> bool:
        return key in self._values

    def is_empty(self) -> bool:
        return not self._values

    def items(self) -> Iterable[tuple[K, V]]:
        return list(self._values.items())

    def keys(self) -> Iterable[K]:
        return list(self._values)

    def values(self) -> Iterable[V]:
        return list(self._values.values())

    def clear(self) -> None:
        self._values = {}

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapView) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

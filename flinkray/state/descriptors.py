"""Keyed state as user functions see it: descriptors, and the interfaces behind them (Flink's State API)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from flinkray.state.time_to_live import StateTtlConfig as StateTtlConfig
from flinkray.state.time_to_live import TtlUpdateType as TtlUpdateType
from flinkray.types.records import MaybeNone

T = TypeVar("T")
IN = TypeVar("IN", contravariant=True)
OUT = TypeVar("OUT", covariant=True)
K = TypeVar("K")
V = TypeVar("V")
V_OUT = TypeVar("V_OUT", covariant=True)


@dataclass(frozen=True, slots=True)
class StateDescriptor:
    """Base: a state's name, unique within its operator, and the type of its values (Arrow, or None: pickled)."""

    name: str
    value_type: object = None
    ttl: StateTtlConfig | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a state descriptor needs a non-empty name")
        if self.ttl is not None and not isinstance(self.ttl, StateTtlConfig):
            raise TypeError(
                f"state {self.name!r}: ttl takes a StateTtlConfig, not {self.ttl!r}; name what comes after the value "
                "type, such as key_type=..."
            )

    @property
    def active_ttl(self) -> StateTtlConfig | None:
        """The time to live; None where there is none, or it is disabled."""
        return self.ttl if self.ttl is not None and self.ttl.is_enabled() else None


@dataclass(frozen=True, slots=True)
class ValueStateDescriptor(StateDescriptor):
    """One value per key."""


class ValueState(Protocol[T]):  # type: ignore[misc]  # mypy does not see that T is in a union with Any
    """One value for the current key. Only the task's own thread may call it, inside a keyed function."""

    def value(self) -> T | MaybeNone:
        """The value, or None where none was set."""

    def update(self, value: T) -> None:
        """Sets the value."""

    def clear(self) -> None:
        """Drops the value, and with it the space that it takes."""


class ListState(Protocol[T]):
    """A list for the current key."""

    def get(self) -> Iterable[T]:
        """The elements in order; empty where there are none."""

    def __iter__(self) -> Iterator[T]: ...

    def add(self, value: T) -> None:
        """Adds an element at the end."""

    def add_all(self, values: Iterable[T]) -> None:
        """Adds elements at the end, in order."""

    def update(self, values: Iterable[T]) -> None:
        """Sets these elements in place of those that there are."""

    def clear(self) -> None:
        """Drops all elements."""


class ReadOnlyMap(Protocol[K, V_OUT]):
    """A dict that is read. A value that was read must not be changed in place; put the changed one."""

    def get(self, key: K) -> V_OUT | MaybeNone:
        """The value of an entry; None where there is no such entry."""

    def contains(self, key: K) -> bool:
        """Whether there is such an entry."""

    def items(self) -> Iterator[tuple[K, V_OUT]]:
        """The entries as they are now, in no certain order: they may be changed meanwhile."""

    def keys(self) -> Iterator[K]:
        """The keys of the entries, in the order of `items`."""

    def values(self) -> Iterator[V_OUT]:
        """The values of the entries, in the order of `items`."""

    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def __getitem__(self, key: K) -> V_OUT | MaybeNone:
        """The value of an entry; None where there is no such entry."""

    def __contains__(self, key: K) -> bool: ...

    def __iter__(self) -> Iterator[K]: ...


class MapState(ReadOnlyMap[K, V], Protocol[K, V]):
    """A dict for the current key."""

    def put(self, key: K, value: V) -> None:
        """Adds an entry, or sets its value."""

    def put_all(self, dict_value: dict[K, V]) -> None:
        """Adds entries, or sets their values."""

    def remove(self, key: K) -> None:
        """Drops an entry; does nothing where there is no such entry."""

    def clear(self) -> None:
        """Drops all entries."""

    def __setitem__(self, key: K, value: V) -> None: ...

    def __delitem__(self, key: K) -> None:
        """Drops an entry; does nothing where there is no such entry."""


class ReadOnlyBroadcastState(ReadOnlyMap[K, V_OUT], Protocol[K, V_OUT]):
    """Broadcast state as `process_element` sees it: writing is an error."""


class BroadcastState(MapState[K, V], Protocol[K, V]):
    """A dict that belongs to no key: each subtask has its own, which the program keeps the same everywhere."""


class ReducingState(Protocol[T]):  # type: ignore[misc]  # as ValueState
    """A value folded with a reduce function for the current key."""

    def get(self) -> T | MaybeNone:
        """What all values were reduced to; None before the first."""

    def add(self, value: T) -> None:
        """Reduces the value with what is there."""

    def clear(self) -> None:
        """Drops what is there: the next value is the first again."""


class AggregatingState(Protocol[IN, OUT]):
    """An accumulator fed with IN, read as OUT, for the current key."""

    def get(self) -> OUT | MaybeNone:
        """The result of the accumulator; None before the first value."""

    def add(self, value: IN) -> None:
        """Adds a value to the accumulator."""

    def clear(self) -> None:
        """Drops the accumulator: the next value is the first again."""


@dataclass(frozen=True, slots=True)
class ListStateDescriptor(StateDescriptor):
    """A list per key; `value_type` is the elements' type."""


@dataclass(frozen=True, slots=True)
class MapStateDescriptor(StateDescriptor):
    """A dict per key; `key_type` and `value_type` are those of its entries."""

    key_type: object = None


@dataclass(frozen=True, slots=True)
class ReducingStateDescriptor(StateDescriptor):
    """A reduced value per key."""

    function: Any = None


@dataclass(frozen=True, slots=True)
class AggregatingStateDescriptor(StateDescriptor):
    """An accumulator per key."""

    function: Any = None


class KeyedStateStore(Protocol):
    """Where a keyed function gets its state, by descriptor, in `open` or later. Belongs to the task's thread."""

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """The operator's state of that name: one value per key."""

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """The operator's state of that name: a list per key."""

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """The operator's state of that name: a dict per key."""

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """The operator's state of that name: a reduced value per key."""

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """The operator's state of that name: an accumulator per key."""

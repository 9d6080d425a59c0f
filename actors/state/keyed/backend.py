"""Keyed state of one operator: the interface of a backend, and what all backends have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from typing import Any, Protocol, TypeVar

from actors.protocol.elements import CheckpointOptions
from actors.state.keyed.kinds import KeyedState, MapKind
from actors.state.snapshots.keyed_parts import StateFacts
from actors.state.snapshots.snapshot import PendingPart, RestoredState
from flinkray.errors import IncompatibleStateError, InvalidProgramError
from flinkray.state.descriptors import (
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

_State = TypeVar("_State", bound=KeyedState)

_DESCRIPTORS: dict[str, type[StateDescriptor]] = {
    "value": ValueStateDescriptor,
    "list": ListStateDescriptor,
    "map": MapStateDescriptor,
    "reducing": ReducingStateDescriptor,
    "aggregating": AggregatingStateDescriptor,
}

NO_GROUP = -1
"""The key group while there is no current key."""


class KeyedStateBackend(KeyedStateStore, Protocol):
    """Where a keyed operator keeps its state; user functions see it as a KeyedStateStore.

    The operator sets the key before it calls user code, and clears it afterwards. One thread, the task's, calls it;
    only the parts of a snapshot are written by another. Made with `actors.state.backends.create_keyed_state`.
    """

    @property
    def current(self) -> CurrentKey:
        """The current key, the same object always."""

    def set_current_key(self, key: Hashable, key_group: int) -> None:
        """
        Args:
            key: as `actors.keys.hashes.key_values` gives it (one NaN).
            key_group: the key's, one of the subtask's; NO_GROUP: there is no current key.
        """

    def clear_current_key(self) -> None: ...

    def current_key(self) -> Any:
        """Raises InvalidProgramError where there is none (in `open`, for example)."""

    def current_key_group(self) -> int:
        """Raises as `current_key` does."""

    def state_of(self, descriptor: StateDescriptor) -> Any:
        """The state of whatever kind the descriptor says."""

    def keys_of(self, descriptor: StateDescriptor) -> Iterator[tuple[Any, int]]:
        """The keys that have something in that state, with their key groups; they may be changed meanwhile."""

    def snapshot(self, options: CheckpointOptions, checkpoint_id: int | None = None) -> list[PendingPart]:
        """All state as it is now; quick. What `write` of the parts reads does not change any more.

        Args:
            checkpoint_id: later incremental checkpoints build on this one only if they know it, and that it is
                complete.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """It covers all earlier ones."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None: ...

    def restore(self, restored: RestoredState) -> None:
        """Takes over the state of a snapshot; once, before any state is used.

        Raises:
            CheckpointError: it cannot be read, or is in the format of another backend.
        """

    def drop_all(self) -> None:
        """Drops the state of all keys. Only without checkpoints."""

    def close(self) -> None:
        """Gives everything back that the backend holds; parts that are being written are not disturbed."""


class CurrentKey:
    """The key that state is read and written for: one object per backend, known to its states."""

    __slots__ = ("_where", "group", "key")

    def __init__(self, where: str) -> None:
        self._where = where
        self.key: Any = None
        self.group = NO_GROUP

    def set(self, key: Hashable, group: int) -> None:
        self.key = key
        self.group = group

    def missing(self) -> InvalidProgramError:
        """What to raise where there is none."""
        return InvalidProgramError(
            f"{self._where}: there is no current key here, so keyed state cannot be read or written; use it in "
            "process_element or on_timer of a function on a keyed stream, not in open, close or "
            "process_broadcast_element"
        )


class BaseKeyedState(ABC):
    """Descriptors, kinds and types: the same in every backend. Subclasses keep the state itself.

    Args:
        where: names operator and subtask in errors.
        prefix: begins the names of this backend's parts in a snapshot.
    """

    def __init__(self, where: str, owned: range, prefix: str, current: CurrentKey) -> None:
        self._where = where
        self._owned = owned
        self._part_prefix = f"{prefix}keyed/"
        self._current = current
        self._states: dict[str, KeyedState] = {}
        self._facts: dict[str, StateFacts] = {}
        self._descriptors: dict[str, StateDescriptor] = {}
        """By which the states were made."""

    # -- the current key

    @property
    def current(self) -> CurrentKey:
        return self._current

    def set_current_key(self, key: Hashable, key_group: int) -> None:
        self._current.set(key, key_group)

    def clear_current_key(self) -> None:
        self._current.set(None, NO_GROUP)

    def current_key(self) -> Any:
        if self._current.group == NO_GROUP:
            raise self._current.missing()
        return self._current.key

    def current_key_group(self) -> int:
        if self._current.group == NO_GROUP:
            raise self._current.missing()
        return self._current.group

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """For backends whose checkpoints build on each other."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """For backends whose checkpoints build on each other."""

    # -- states by descriptor

    @abstractmethod
    def get_state(self, descriptor: ValueStateDescriptor) -> Any: ...

    @abstractmethod
    def get_list_state(self, descriptor: ListStateDescriptor) -> Any: ...

    @abstractmethod
    def get_map_state(self, descriptor: MapStateDescriptor) -> MapKind: ...

    @abstractmethod
    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> Any: ...

    @abstractmethod
    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> Any: ...

    def state_of(self, descriptor: StateDescriptor) -> Any:
        match descriptor:
            case ValueStateDescriptor():
                return self.get_state(descriptor)
            case ListStateDescriptor():
                return self.get_list_state(descriptor)
            case MapStateDescriptor():
                return self.get_map_state(descriptor)
            case ReducingStateDescriptor():
                return self.get_reducing_state(descriptor)
            case AggregatingStateDescriptor():
                return self.get_aggregating_state(descriptor)
        raise InvalidProgramError(f"{self._where}: a state descriptor is needed, not {descriptor!r}")

    @abstractmethod
    def keys_of(self, descriptor: StateDescriptor) -> Iterator[tuple[Any, int]]: ...

    @abstractmethod
    def _make(self, descriptor: StateDescriptor, state_type: type[_State], facts: StateFacts) -> _State:
        """A new state, with what was restored for it."""

    def _state(self, descriptor: StateDescriptor, state_type: type[_State]) -> _State:
        if not isinstance(descriptor, _DESCRIPTORS[state_type.kind]):
            raise InvalidProgramError(
                f"{self._where}: a {state_type.kind} state takes a {_DESCRIPTORS[state_type.kind].__name__}, not "
                f"{descriptor!r}"
            )
        found = self._states.get(descriptor.name)
        if self._descriptors.get(descriptor.name) is descriptor and isinstance(found, state_type):
            return found  # triggers ask for every row
        facts = StateFacts.of(descriptor, state_type.kind)
        if found is None:
            made = self._make(descriptor, state_type, facts)
            self._states[descriptor.name] = made
            self._facts[descriptor.name] = facts
            self._descriptors[descriptor.name] = descriptor
            return made
        if not isinstance(found, state_type):
            raise InvalidProgramError(
                f"{self._where}: state {descriptor.name!r} is a {found.kind} state and cannot be used as a "
                f"{state_type.kind} state too; give one of the two another name"
            )
        for field, old, new in self._facts[descriptor.name].differences(facts):
            raise InvalidProgramError(
                f"{self._where}: state {descriptor.name!r} was declared with {field}={old} and is now declared with "
                f"{field}={new}; use the same descriptor, or another name"
            )
        return found

    def _check_restored(self, saved: StateFacts, declared: StateFacts) -> None:
        """Raises IncompatibleStateError where the program wants something else than was saved."""
        if saved.kind != declared.kind:
            raise IncompatibleStateError(
                f"{self._where}: state {saved.name!r} was saved as a {saved.kind} state, and this program declares it "
                f"as a {declared.kind} state; give the new one another name"
            )
        for field, old, new in saved.differences(declared):
            raise IncompatibleStateError(
                f"{self._where}: state {saved.name!r} was saved with {field}={old}, and this program declares it with "
                f"{field}={new}; keep the old type, or give the new state another name"
            )

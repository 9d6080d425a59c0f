"""What a backend of keyed state is, and what all backends do alike (Flink's AbstractKeyedStateBackend).

A backend keeps the state of one operator subtask, by key group and key. The operator sets the current key before it
calls the user's code, which then reads and writes states by their descriptors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from actors.protocol.elements import CheckpointOptions
from actors.protocol.ports import Clock
from actors.state.keyed.declared_values import check_of
from actors.state.keyed.kinds import KeyedState
from actors.state.keyed.options import StateOptions
from actors.state.snapshots.evolution import Evolution, TypeChangeError
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

_DESCRIPTORS: dict[str, type[StateDescriptor]] = {
    "value": ValueStateDescriptor,
    "list": ListStateDescriptor,
    "map": MapStateDescriptor,
    "reducing": ReducingStateDescriptor,
    "aggregating": AggregatingStateDescriptor,
}

NO_GROUP = -1
"""The key group while there is no current key."""

NATIVE_PART = "rocksdb"
"""Name, behind the backend's prefix, of the part of a snapshot that the rocksdb backend writes in its own format."""


class KeyedStateBackend(KeyedStateStore, Protocol):
    """Where a keyed operator keeps its state; user functions see it as a KeyedStateStore.

    The operator sets the key before it calls user code, and clears it afterwards. One thread, the task's, calls it;
    only the parts of a snapshot are written by another. Made with `actors.state.backends.create_keyed_state`.
    """

    @property
    def current(self) -> CurrentKey:
        """The current key: one object for the life of the backend, which `set_current_key` changes."""

    def set_current_key(self, key: Hashable, key_group: int) -> None:
        """
        Args:
            key: as `actors.keys.hashes.key_values` gives it, in which all NaNs are one.
            key_group: the key group of the key, one of the subtask's.
        """

    def clear_current_key(self) -> None: ...

    def current_key(self) -> Any:
        """
        Raises:
            InvalidProgramError: there is no current key, as in `open`.
        """

    def current_key_group(self) -> int:
        """The key group of the current key; raises what `current_key` does."""

    def state_of(self, descriptor: StateDescriptor) -> Any:
        """The state that a descriptor of any kind stands for."""

    def keys_of(self, descriptor: StateDescriptor) -> Iterator[tuple[Any, int]]:
        """The keys that have a value in that state, with their key groups; state may be changed while iterating."""

    def snapshot(self, options: CheckpointOptions, checkpoint_id: int | None = None) -> list[PendingPart]:
        """All state as it is now, as parts that another thread writes. Quick; later changes do not show in the parts.

        Args:
            checkpoint_id: under which the backend is told whether the checkpoint was completed; None: later incremental
                checkpoints do not build on this one.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, and with it all earlier ones."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None: ...

    def restore(self, restored: RestoredState) -> None:
        """Takes over the state of a snapshot; once, before any state is used.

        Raises:
            CheckpointError: it cannot be read, or is in the format of another backend.
        """

    def drop_all(self) -> None:
        """Drops the state of all keys. Only without checkpoints."""

    def close(self) -> None:
        """Frees memory and files of the backend; parts of snapshots that are being written are not disturbed."""


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
        """The error for reading or writing state while there is no current key."""
        return InvalidProgramError(
            f"{self._where}: there is no current key here, so keyed state cannot be read or written; use it in "
            "process_element or on_timer of a function on a keyed stream, not in open, close or "
            "process_broadcast_element"
        )


class AbstractKeyedStateBackend(ABC):
    """Implements what a KeyedStateBackend does with descriptors, kinds and types. Subclasses keep the state itself.

    Args:
        where: names operator and subtask in errors.
        owned: the key groups of the subtask.
        prefix: begins the names of this backend's parts in a snapshot.
    """

    def __init__(
        self, where: str, owned: range, prefix: str, current: CurrentKey, clock: Clock, options: StateOptions
    ) -> None:
        self._where = where
        self._options = options
        self._owned = owned
        self._part_prefix = f"{prefix}keyed/"
        self._native_name = prefix + NATIVE_PART
        self._current = current
        self._clock = clock
        self._states: dict[str, KeyedState] = {}
        self._facts: dict[str, StateFacts] = {}
        self._descriptors: dict[str, StateDescriptor] = {}
        """The descriptor with which each state was first asked for."""

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
        """Nothing to do, unless checkpoints of the backend build on each other."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Nothing to do, unless checkpoints of the backend build on each other."""

    # -- states by descriptor

    def get_state(self, state_descriptor: ValueStateDescriptor) -> Any:
        return self._state(state_descriptor, "value")

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        return self._state(state_descriptor, "list")

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> Any:
        return self._state(state_descriptor, "map")

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> Any:
        return self._state(state_descriptor, "reducing")

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> Any:
        return self._state(state_descriptor, "aggregating")

    def state_of(self, descriptor: StateDescriptor) -> Any:
        kind = next((kind for kind, declared in _DESCRIPTORS.items() if isinstance(descriptor, declared)), None)
        if kind is None:
            raise InvalidProgramError(f"{self._where}: a state descriptor is needed, not {descriptor!r}")
        return self._state(descriptor, kind)

    def keys_of(self, descriptor: StateDescriptor) -> Iterator[tuple[Any, int]]:
        state: KeyedState = self.state_of(descriptor)
        return state.all_keys()

    @abstractmethod
    def _make(self, descriptor: StateDescriptor, facts: StateFacts) -> KeyedState:
        """A new state, with what was restored for it."""

    def _state(self, descriptor: StateDescriptor, kind: str) -> KeyedState:
        """The state of that name, which is made when it is asked for first."""
        if not isinstance(descriptor, _DESCRIPTORS[kind]):
            raise InvalidProgramError(
                f"{self._where}: a {kind} state takes a {_DESCRIPTORS[kind].__name__}, not {descriptor!r}"
            )
        found = self._states.get(descriptor.name)
        if found is not None and self._descriptors[descriptor.name] is descriptor and found.kind == kind:
            return found  # without further checks, as triggers ask for every row
        facts = StateFacts.of(descriptor, kind)
        if found is None:
            made = self._make(descriptor, facts)
            made.check_values(check_of(descriptor.name, facts.column))
            self._states[descriptor.name] = made
            self._facts[descriptor.name] = facts
            self._descriptors[descriptor.name] = descriptor
            return made
        if found.kind != kind:
            raise InvalidProgramError(
                f"{self._where}: state {descriptor.name!r} is a {found.kind} state and cannot be used as a "
                f"{kind} state too; give one of the two another name"
            )
        for field, old, new in self._facts[descriptor.name].differences(facts):
            raise InvalidProgramError(
                f"{self._where}: state {descriptor.name!r} was declared with {field}={old} and is now declared with "
                f"{field}={new}; use the same descriptor, or another name"
            )
        return found

    def _evolution(self, saved: StateFacts, declared: StateFacts, descriptor: StateDescriptor) -> Evolution | None:
        """What makes restored values such of the declared type; None: they are.

        Raises:
            IncompatibleStateError: the program declares another kind, or a type that their own cannot become.
        """
        if saved.kind != declared.kind:
            raise IncompatibleStateError(
                f"{self._where}: state {saved.name!r} was saved as a {saved.kind} state, and this program declares it "
                f"as a {declared.kind} state; give the new one another name"
            )
        for field, old, new in saved.differences(declared):
            if field == "value_type" and saved.declared and saved.key_type == declared.key_type:
                with self._type_changes(saved, declared):
                    is_unsure = saved.kind == "aggregating"  # the type may be that of the result
                    return Evolution(saved.declared, descriptor.value_type, self._options.may_drop_fields, is_unsure)
            raise self._changed(saved, field, old, new, "keep the old type, or give the new state another name")
        return None

    @contextmanager
    def _type_changes(self, saved: StateFacts, declared: StateFacts) -> Iterator[None]:
        """Raises IncompatibleStateError in place of TypeChangeError."""
        try:
            yield
        except TypeChangeError as error:
            raise self._changed(saved, "value_type", saved.value_type, declared.value_type, str(error)) from None

    def _changed(self, saved: StateFacts, field: str, old: str, new: str, way_out: str) -> IncompatibleStateError:
        return IncompatibleStateError(
            f"{self._where}: state {saved.name!r} was saved with {field}={old}, and this program declares it with "
            f"{field}={new}; {way_out}"
        )

    def _check_one_type(self, one: StateFacts | None, other: StateFacts) -> None:
        """Raises IncompatibleStateError where former subtasks have written a state in two types."""
        if one is not None and (one.value_type, one.column) != (other.value_type, other.column):
            raise IncompatibleStateError(
                f"{self._where}: state {other.name!r} was saved with value_type={one.value_type} and with "
                f"value_type={other.value_type}, as some subtasks had not asked for it since the type changed; ask for "
                "it in open, and start from the savepoint before"
            )

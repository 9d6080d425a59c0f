"""Keyed state of one operator: the interface of a backend, and the one that keeps everything in memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, TypeVar

from actors.ports import Clock
from actors.state.memory_states import (
    MemoryAggregatingState,
    MemoryListState,
    MemoryMapState,
    MemoryReducingState,
    MemoryState,
    MemoryValueState,
)
from flinkray.errors import InvalidProgramError
from flinkray.state import (
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

_State = TypeVar("_State", bound=MemoryState)


class KeyedStateBackend(KeyedStateStore, Protocol):
    """Where a keyed operator keeps its state; user functions see it as a KeyedStateStore.

    The operator sets the key before it calls user code, and clears it afterwards. One thread, the task's, calls it.
    """

    def set_current_key(self, key: Hashable) -> None: ...

    def clear_current_key(self) -> None: ...

    def current_key(self) -> Any:
        """Raises InvalidProgramError where there is none (in `open`, for example)."""

    def snapshot(self) -> dict[str, Any]:
        """State name -> {"kind", "has_ttl", "entries": [(key, stored), ...]}; shares values with the live state, so
        it must be pickled before the next row."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Adds the entries of a snapshot, before any state is used; may be called with several parts."""


class _NoKey:
    def __repr__(self) -> str:
        return "no key"


_NO_KEY = _NoKey()


class MemoryKeyedState:
    """A KeyedStateBackend of Python dicts (Flink's hashmap backend): values are kept as they are, not copied."""

    def __init__(self, operator: str, subtask: str, clock: Clock) -> None:
        self._where = f"operator {operator!r} (subtask {subtask})"
        self._clock = clock
        self._key: Any = _NO_KEY
        self._states: dict[str, MemoryState] = {}
        self._descriptors: dict[str, StateDescriptor] = {}
        self._restored: dict[str, list[dict[str, Any]]] = {}

    # -- the current key

    def set_current_key(self, key: Hashable) -> None:
        self._key = key

    def clear_current_key(self) -> None:
        self._key = _NO_KEY

    def current_key(self) -> Any:
        if self._key is _NO_KEY:
            raise InvalidProgramError(
                f"{self._where}: there is no current key here, so keyed state cannot be read or written; use it in "
                "process_element or on_timer of a function on a keyed stream, not in open or close"
            )
        return self._key

    # -- states by descriptor

    def get_state(self, descriptor: ValueStateDescriptor) -> MemoryValueState:
        return self._state(descriptor, MemoryValueState)

    def get_list_state(self, descriptor: ListStateDescriptor) -> MemoryListState:
        return self._state(descriptor, MemoryListState)

    def get_map_state(self, descriptor: MapStateDescriptor) -> MemoryMapState:
        return self._state(descriptor, MemoryMapState)

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> MemoryReducingState:
        return self._state(descriptor, MemoryReducingState)

    def get_aggregating_state(self, descriptor: AggregatingStateDescriptor) -> MemoryAggregatingState:
        return self._state(descriptor, MemoryAggregatingState)

    def _state(self, descriptor: StateDescriptor, state_type: type[_State]) -> _State:
        found = self._states.get(descriptor.name)
        if found is None:
            return self._make_state(descriptor, state_type)
        if not isinstance(found, state_type):
            raise InvalidProgramError(
                f"{self._where}: state {descriptor.name!r} is a {found.kind} state and cannot be used as a "
                f"{state_type.kind} state too; give one of the two another name"
            )
        self._check_same_type(self._descriptors[descriptor.name], descriptor)
        return found

    def _make_state(self, descriptor: StateDescriptor, state_type: type[_State]) -> _State:
        state = state_type(descriptor, self.current_key, self._clock)
        for part in self._restored.get(descriptor.name, []):
            if part["kind"] != state_type.kind:
                raise InvalidProgramError(
                    f"{self._where}: state {descriptor.name!r} was saved as a {part['kind']} state, and this program "
                    f"declares it as a {state_type.kind} state; give the new one another name"
                )
            state.restore(part)
        self._restored.pop(descriptor.name, None)
        self._states[descriptor.name] = state
        self._descriptors[descriptor.name] = descriptor
        return state

    def _check_same_type(self, first: StateDescriptor, second: StateDescriptor) -> None:
        for field in ("value_type", "key_type"):
            old, new = getattr(first, field, None), getattr(second, field, None)
            if old is not None and new is not None and old != new:
                raise InvalidProgramError(
                    f"{self._where}: state {first.name!r} was declared with {field}={old} and is now declared with "
                    f"{field}={new}; use the same descriptor, or another name"
                )

    # -- snapshots

    def snapshot(self) -> dict[str, Any]:
        saved = {name: state.snapshot() for name, state in self._states.items()}
        for name, parts in self._restored.items():  # not asked for since the restore: kept all the same
            saved[name] = {**parts[0], "entries": [entry for part in parts for entry in part["entries"]]}
        return saved

    def restore(self, snapshot: dict[str, Any]) -> None:
        for name, part in snapshot.items():
            self._restored.setdefault(name, []).append(part)

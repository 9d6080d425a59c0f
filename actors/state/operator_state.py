"""Operator state: state of a function that belongs to no key (Flink's DefaultOperatorStateBackend).

Lists are distributed among the subtasks when the parallelism changes; broadcast state is a map, the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from msgspec import Struct

from actors.state.keyed.kinds import ReadableMap, WritableMap
from actors.state.snapshots.pickling import with_one_nan
from actors.state.snapshots.snapshot import ListMode, OperatorSnapshot, RestoredState
from flinkray.errors import IncompatibleStateError, InvalidProgramError
from flinkray.state.descriptors import ListStateDescriptor, MapStateDescriptor

_KINDS = {
    ListMode.SPLIT: "list state (get_list_state)",
    ListMode.UNION: "union list state (get_union_list_state)",
    ListMode.BROADCAST: "broadcast state (get_broadcast_state)",
}


class OperatorListState:
    """A ListState without a key."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items = list(items)

    def get(self) -> list[Any]:
        """The elements; changing the list changes nothing."""
        return list(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def add(self, value: Any) -> None:
        self._items.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        self._items.extend(values)

    def update(self, values: Iterable[Any]) -> None:
        """Replaces the list."""
        self._items = list(values)

    def clear(self) -> None:
        self._items = []


class HeapBroadcastState(WritableMap):
    """A MapState without a key, which the program keeps the same at every subtask."""

    def __init__(self, items: Iterable[tuple[Any, Any]] = ()) -> None:
        self.entries: dict[Any, Any] = {}
        self.put_all(items)

    def get(self, key: Any) -> Any:
        return self.entries.get(with_one_nan(key))

    def put(self, key: Any, value: Any) -> None:
        self.entries[with_one_nan(key)] = value

    def remove(self, key: Any) -> None:
        self.entries.pop(with_one_nan(key), None)

    def contains(self, key: Any) -> bool:
        return with_one_nan(key) in self.entries

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(list(self.entries.items()))

    def is_empty(self) -> bool:
        return not self.entries

    def clear(self) -> None:
        self.entries.clear()


class ReadOnlyBroadcastView(ReadableMap):
    """Broadcast state as the rows of the other stream see it: to be read only.

    Args:
        where: names operator and subtask in errors.
    """

    def __init__(self, state: HeapBroadcastState, name: str, where: str) -> None:
        self._state = state
        self._name = name
        self._where = where

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._state.entries.items())  # nobody can change it while a row is processed

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def _refuse(self, *_args: object) -> NoReturn:
        raise InvalidProgramError(
            f"{self._where}: broadcast state {self._name!r} can only be read here, so that it is the same in every "
            "subtask; write it in process_broadcast_element"
        )

    put = put_all = remove = clear = __setitem__ = __delitem__ = _refuse


class _UnreadState(Struct, frozen=True):
    """A state of the checkpoint that the program has not asked for yet."""

    mode: ListMode
    items: list[Any]


class OperatorStateBackend:
    """The states of one function, by descriptor; an OperatorStateStore for user code. The task's thread calls it.

    Args:
        where: names operator and subtask in errors.
        scope: keeps the function's parts of a snapshot apart from those of others in the same operator.
    """

    def __init__(self, where: str, scope: str, subtask_index: int) -> None:
        self.where = where
        self._prefix = f"function state/{scope}/"
        self._subtask_index = subtask_index
        self._states: dict[str, tuple[ListMode, OperatorListState | HeapBroadcastState]] = {}
        self._unread: dict[str, _UnreadState] = {}

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """A list whose elements are dealt out to all subtasks when their number changes."""
        return self._list(state_descriptor, ListMode.SPLIT)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """A list of which every restored subtask gets the elements of all subtasks."""
        return self._list(state_descriptor, ListMode.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> HeapBroadcastState:
        """A map of which every restored subtask gets the entries of one former subtask."""
        state = self._declared(state_descriptor.name, ListMode.BROADCAST)
        if state is None:
            state = HeapBroadcastState(self._take(state_descriptor.name, ListMode.BROADCAST))
            self._states[state_descriptor.name] = ListMode.BROADCAST, state
        assert isinstance(state, HeapBroadcastState)
        return state

    def _list(self, descriptor: ListStateDescriptor, mode: ListMode) -> OperatorListState:
        state = self._declared(descriptor.name, mode)
        if state is None:
            state = OperatorListState(self._take(descriptor.name, mode))
            self._states[descriptor.name] = mode, state
        assert isinstance(state, OperatorListState)
        return state

    def _declared(self, name: str, mode: ListMode) -> OperatorListState | HeapBroadcastState | None:
        declared, state = self._states.get(name, (mode, None))
        if declared is not mode:
            raise InvalidProgramError(
                f"{self.where}: state {name!r} is a {_KINDS[declared]} and cannot be used as a {_KINDS[mode]} too; "
                "give one of the two another name"
            )
        return state

    def _take(self, name: str, mode: ListMode) -> list[Any]:
        saved = self._unread.get(name)
        if saved is None:
            return []
        if saved.mode is not mode:
            raise IncompatibleStateError(
                f"{self.where}: state {name!r} was saved as a {_KINDS[saved.mode]}, and this program declares it as a "
                f"{_KINDS[mode]}; give the new one another name"
            )
        return self._unread.pop(name).items

    # -- snapshots

    def restore(self, restored: RestoredState) -> None:
        """Takes over the states of a checkpoint; called before the program asks for any."""
        for mode in ListMode:
            prefix = self._part_name(mode, "")
            for part in sorted(restored.names()):
                if part.startswith(prefix):
                    self._unread[part.removeprefix(prefix)] = _UnreadState(mode, restored.items(part))

    def add_to(self, snapshot: OperatorSnapshot) -> None:
        """Adds all states as they are now, and those that the program has not asked for as they were restored."""
        for name, (mode, state) in self._states.items():
            items = state.items() if isinstance(state, HeapBroadcastState) else state.get()
            snapshot.add_list(self._part_name(mode, name), items, mode)
        for name, saved in self._unread.items():
            # Every subtask has the elements of all subtasks here; if each wrote them, each restore would multiply them.
            is_owner = saved.mode is not ListMode.UNION or self._subtask_index == 0
            snapshot.add_list(self._part_name(saved.mode, name), saved.items if is_owner else (), saved.mode)

    def _part_name(self, mode: ListMode, name: str) -> str:
        return f"{self._prefix}{mode.name.lower()}/{name}"


class FunctionInitialization:
    """What `CheckpointedFunction.initialize_state` gets."""

    def __init__(self, store: OperatorStateBackend, is_restored: bool) -> None:
        self._is_restored = is_restored
        self.get_list_state = store.get_list_state
        self.get_union_list_state = store.get_union_list_state
        self.get_broadcast_state = store.get_broadcast_state

    @property
    def is_restored(self) -> bool:
        return self._is_restored


class FunctionSnapshot(FunctionInitialization):
    """What `CheckpointedFunction.snapshot_state` gets."""

    def __init__(self, store: OperatorStateBackend, is_restored: bool, checkpoint_id: int) -> None:
        super().__init__(store, is_restored)
        self._checkpoint_id = checkpoint_id

    @property
    def checkpoint_id(self) -> int:
        return self._checkpoint_id

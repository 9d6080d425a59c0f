"""The hashmap backend: keyed state in Python dicts, as it is, for state that fits into memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from actors.protocol.elements import CheckpointOptions
from actors.protocol.ports import Clock
from actors.state.hashmap.states import (
    MemoryAggregatingState,
    MemoryListState,
    MemoryMapState,
    MemoryReducingState,
    MemoryState,
    MemoryValueState,
)
from actors.state.keyed.backend import BaseKeyedState, CurrentKey
from actors.state.keyed.kinds import KeyedState
from actors.state.snapshots.keyed_parts import StateFacts, TablePart, pieces_of
from actors.state.snapshots.snapshot import KeyedTable, PendingPart, RestoredState
from flinkray.errors import IncompatibleStateError
from flinkray.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

_State = TypeVar("_State", bound=KeyedState)

NATIVE_PART = "rocksdb"
"""Name, after the backend's prefix, of what the rocksdb backend writes in its own format."""


class HashMapKeyedState(BaseKeyedState):
    """A KeyedStateBackend. Values are kept as they are, not copied, so reading and writing cost next to nothing."""

    def __init__(self, where: str, owned: range, prefix: str, clock: Clock) -> None:
        super().__init__(where, owned, prefix, CurrentKey(where))
        self._native_name = prefix + NATIVE_PART
        self._clock = clock
        self._restored: dict[str, tuple[StateFacts, list[pa.Table]]] = {}
        """What the program has not asked for yet."""
        self._cleaned_for_every_record: list[MemoryState] = []

    def set_current_key(self, key: Hashable, key_group: int) -> None:
        self._current.set(key, key_group)
        for state in self._cleaned_for_every_record:
            state.clean_up()

    def keys_of(self, descriptor: StateDescriptor) -> Iterator[tuple[Any, int]]:
        state = self.state_of(descriptor)
        assert isinstance(state, MemoryState)
        return ((key, group) for group, key in state.all_keys())

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

    def _make(self, descriptor: StateDescriptor, state_type: type[_State], facts: StateFacts) -> _State:
        assert issubclass(state_type, MemoryState)
        saved, pieces = self._restored.get(descriptor.name, (facts, []))
        self._check_restored(saved, facts)
        state = state_type(descriptor, self._current, self._owned, self._clock, self._where)
        state.use(descriptor)
        if state.is_cleaned_for_every_record:
            self._cleaned_for_every_record.append(state)
        for piece in pieces:
            state.load(piece, saved)
        self._restored.pop(descriptor.name, None)
        return cast(_State, state)

    # -- snapshots

    def snapshot(self, options: CheckpointOptions, checkpoint_id: int | None = None) -> list[PendingPart]:
        now = self._clock.now_ms()
        parts = [self._part(name, state, now) for name, state in self._states.items()]
        kept = [self._kept_part(facts, pieces) for facts, pieces in self._restored.values()]
        return [part for part in parts if part is not None] + kept

    def _part(self, name: str, state: KeyedState, now: int) -> PendingPart | None:
        assert isinstance(state, MemoryState)
        if state.is_empty_everywhere:
            return None
        facts, where = self._facts[name], self._where
        frozen = state.freeze()
        return TablePart(
            self._part_prefix + name,
            facts.schema(),
            lambda: pieces_of(facts, where, state.rows(frozen, now)),
            self._owned,
            partial(state.release, frozen),
        )

    def _kept_part(self, facts: StateFacts, pieces: list[pa.Table]) -> PendingPart:
        whole = pa.concat_tables(pieces)
        groups = whole.column("group").to_numpy().astype(np.int32)
        return TablePart(
            self._part_prefix + facts.name,
            whole.schema,
            lambda: iter([KeyedTable.of(groups, whole)]),
            self._owned,
        )

    def restore(self, restored: RestoredState) -> None:
        names = restored.names()
        if self._native_name in names:
            raise IncompatibleStateError(
                f"{self._where}: checkpoint {restored.checkpoint_id} was written by the rocksdb backend in its own "
                "format, which the hashmap backend cannot read; start with state.backend.type: rocksdb, or from a "
                "savepoint, which every backend reads"
            )
        for name in sorted(names):
            pieces = list(restored.keyed(name)) if name.startswith(self._part_prefix) else []
            if pieces:
                facts = StateFacts.of_schema(pieces[0].schema)
                self._restored[facts.name] = (facts, pieces)

    def drop_all(self) -> None:
        for state in self._states.values():
            assert isinstance(state, MemoryState)
            state.drop_all()

    def close(self) -> None:
        self._states.clear()
        self._cleaned_for_every_record.clear()
        self._restored.clear()

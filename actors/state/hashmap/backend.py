"""The hashmap backend: keyed state as Python values in dicts, for state that fits into memory."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np
import pyarrow as pa

from actors.protocol.elements import CheckpointOptions
from actors.protocol.ports import Clock
from actors.state.hashmap.states import (
    HashMapAggregatingState,
    HashMapListState,
    HashMapMapState,
    HashMapReducingState,
    HashMapState,
    HashMapValueState,
)
from actors.state.keyed.backend import AbstractKeyedStateBackend, CurrentKey
from actors.state.keyed.kinds import KeyedState
from actors.state.keyed.options import StateOptions
from actors.state.snapshots.keyed_parts import StateFacts, TablePart, state_tables
from actors.state.snapshots.snapshot import KeyedTable, PendingPart, RestoredState
from flinkray.errors import IncompatibleStateError
from flinkray.state.descriptors import StateDescriptor

_STATE_TYPES: dict[str, type[HashMapState]] = {
    state_type.kind: state_type
    for state_type in (
        HashMapValueState,
        HashMapListState,
        HashMapMapState,
        HashMapReducingState,
        HashMapAggregatingState,
    )
}


class HashMapKeyedStateBackend(AbstractKeyedStateBackend):
    """A KeyedStateBackend. Values are kept as they are, not copied, so reading and writing cost next to nothing."""

    def __init__(self, where: str, owned: range, prefix: str, clock: Clock, options: StateOptions) -> None:
        super().__init__(where, owned, prefix, CurrentKey(where), clock, options)
        self._restored: dict[str, tuple[StateFacts, list[pa.Table]]] = {}
        """States of the checkpoint that the program has not asked for yet, by name, with their tables."""
        self._cleaned_for_every_record: list[HashMapState] = []

    def set_current_key(self, key: Hashable, key_group: int) -> None:
        self._current.set(key, key_group)
        for state in self._cleaned_for_every_record:
            state.clean_up()

    def _make(self, descriptor: StateDescriptor, facts: StateFacts) -> KeyedState:
        saved, tables = self._restored.get(descriptor.name, (facts, []))
        evolution = self._evolution(saved, facts, descriptor)
        state = _STATE_TYPES[facts.kind](descriptor, self._current, self._owned, self._clock, self._where)
        state.use(descriptor)
        if state.is_cleaned_for_every_record:
            self._cleaned_for_every_record.append(state)
        with self._type_changes(saved, facts):
            for table in tables:
                state.load(table, saved, evolution)
        self._restored.pop(descriptor.name, None)
        return state

    # -- snapshots

    def snapshot(self, options: CheckpointOptions, checkpoint_id: int | None = None) -> list[PendingPart]:
        now = self._clock.now_ms()
        parts = [self._part(name, state, now) for name, state in self._states.items()]
        unread = [self._unread_part(facts, tables) for facts, tables in self._restored.values()]
        return [part for part in parts if part is not None] + unread

    def _part(self, name: str, state: KeyedState, now: int) -> PendingPart | None:
        assert isinstance(state, HashMapState)
        if state.is_empty_everywhere:
            return None
        facts, where = self._facts[name], self._where
        frozen = state.freeze()
        return TablePart(
            self._part_prefix + name,
            facts.schema(),
            lambda: state_tables(facts, where, state.rows(frozen, now)),
            self._owned,
            partial(state.release, frozen),
        )

    def _unread_part(self, facts: StateFacts, tables: list[pa.Table]) -> PendingPart:
        """A state that the program has not asked for goes on as it was restored."""
        whole = pa.concat_tables(tables)
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
            tables = list(restored.keyed(name)) if name.startswith(self._part_prefix) else []
            if tables:
                facts = StateFacts.of_schema(tables[0].schema)
                for table in tables[1:]:
                    self._check_one_type(facts, StateFacts.of_schema(table.schema))
                self._restored[facts.name] = (facts, tables)

    def drop_all(self) -> None:
        for state in self._states.values():
            assert isinstance(state, HashMapState)
            state.drop_all()

    def close(self) -> None:
        self._states.clear()
        self._cleaned_for_every_record.clear()
        self._restored.clear()

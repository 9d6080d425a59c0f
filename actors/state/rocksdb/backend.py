"""The rocksdb backend: keyed state on the local disk, for state larger than memory, with incremental checkpoints."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from actors.protocol.elements import CheckpointOptions
from actors.protocol.ports import Clock
from actors.state.keyed.backend import AbstractKeyedStateBackend
from actors.state.keyed.kinds import KeyedState
from actors.state.keyed.options import StateOptions
from actors.state.rocksdb.checkpoint_files import NativePart, StoreDescription, UploadedFiles, fetch
from actors.state.rocksdb.states import (
    PREFIX,
    SEQUENCE,
    Codec,
    PickledCurrentKey,
    RocksDbAggregatingState,
    RocksDbListState,
    RocksDbMapState,
    RocksDbReducingState,
    RocksDbState,
    RocksDbValueState,
    rows_in_groups,
)
from actors.state.rocksdb.store import Items, RocksDbStore, read_directory
from actors.state.snapshots.evolution import Evolution
from actors.state.snapshots.keyed_parts import StateFacts, StateRow, TablePart, rows_of, state_tables
from actors.state.snapshots.snapshot import KeyedTable, NativeState, PendingPart, RestoredState
from actors.state.snapshots.values import is_pickled, value_of_bytes, value_to_bytes
from flinkray.persistence import has_modules, loads
from flinkray.state.descriptors import StateDescriptor
from flinkray.types.records import MIN_TIMESTAMP

_STATE_TYPES: dict[str, type[RocksDbState]] = {
    state_type.kind: state_type
    for state_type in (
        RocksDbValueState,
        RocksDbListState,
        RocksDbMapState,
        RocksDbReducingState,
        RocksDbAggregatingState,
    )
}


class RocksDbKeyedStateBackend(AbstractKeyedStateBackend):
    """A KeyedStateBackend. What is read is a copy, so a value that is changed must be written again."""

    def __init__(self, where: str, owned: range, prefix: str, clock: Clock, options: StateOptions) -> None:
        self._key = PickledCurrentKey(where)
        super().__init__(where, owned, prefix, self._key, clock, options)
        self._created_directory = ""
        """The backend's own directory; empty until there is something to store."""
        self._removal: weakref.finalize[..., RocksDbKeyedStateBackend] | None = None
        """Removes the directory of a backend that nobody closes."""
        self._closing: weakref.finalize[..., RocksDbKeyedStateBackend] | None = None
        """Closes the store before that: without its files it would try to flush for a second."""
        self._opened: RocksDbStore | None = None
        self._numbers: dict[str, int] = {}
        """The number that stands for each state in keys of the store, by the state's name."""
        self._saved: dict[str, StateFacts] = {}
        """The states in the store, by name, with those that the program has not asked for yet."""
        self._uploaded = UploadedFiles()
        self._checkpoints = 0

    @property
    def _directory(self) -> str:
        """The backend's own directory, which is created when it is asked for first."""
        if not self._created_directory:
            parent = self._options.local_directory
            if parent:
                os.makedirs(parent, exist_ok=True)
            self._created_directory = tempfile.mkdtemp(prefix="flinkray-state-", dir=parent or None)
            self._removal = weakref.finalize(self, shutil.rmtree, self._created_directory, ignore_errors=True)
        return self._created_directory

    @property
    def _store_directory(self) -> str:
        return os.path.join(self._directory, "db")

    @property
    def _store(self) -> RocksDbStore:
        if self._opened is None:
            self._opened = RocksDbStore(
                self._store_directory, self._options.memory_bytes, self._options.has_partitioned_index_filters
            )
            # At exit this runs before `_removal`, which is older.
            self._closing = weakref.finalize(self, self._opened.close)
        return self._opened

    def _make(self, descriptor: StateDescriptor, facts: StateFacts) -> KeyedState:
        saved = self._saved.get(descriptor.name)
        if saved is not None:
            evolution = self._evolution(saved, facts, descriptor)
            if saved.has_ttl != facts.has_ttl or (evolution is not None and evolution.changes_values):
                with self._type_changes(saved, facts):
                    self._rewrite(saved, facts.has_ttl, evolution)
        number = self._number(facts)
        state = _STATE_TYPES[facts.kind](descriptor, number, self._key, self._store, self._clock, self._owned)
        state.use(descriptor)
        cleanup = None if descriptor.active_ttl is None else descriptor.active_ttl.cleanup_strategies.rocksdb_compaction
        if cleanup is not None:
            self._store.compact_files_after(cleanup.periodic_compaction_time_ms)
        return state

    def _number(self, facts: StateFacts) -> int:
        """The number of a state, which is in the store from now on."""
        self._saved[facts.name] = facts
        return self._numbers.setdefault(facts.name, len(self._numbers))

    def _restored_number(self, facts: StateFacts) -> int:
        """The number of a state of which some is restored."""
        self._check_one_type(self._saved.get(facts.name), facts)
        return self._number(facts)

    def _rewrite(self, saved: StateFacts, has_ttl: bool, evolution: Evolution | None) -> None:
        """Rewrites a state that was saved with a time to live and has none now, or the other way round, or whose values
        are of another type.

        A time to live that is new counts from now.
        """
        store, now = self._store, self._clock.now_ms()
        before, after = Codec(saved.kind, saved.has_ttl), Codec(saved.kind, has_ttl)
        for group in self._owned:
            region = PREFIX.pack(group, self._numbers[saved.name])
            for key, stored in store.items(region, region):
                map_key = before.map_key(stored) if saved.kind == "map" else None
                renewed = before.renewed(stored) if saved.has_ttl else now
                value = before.value(stored)
                if evolution is not None:
                    value = value_to_bytes(evolution.of_bytes(value))
                store.put(key, after.encode(value, renewed, map_key))

    # -- snapshots

    def snapshot(self, options: CheckpointOptions, checkpoint_id: int | None = None) -> list[PendingPart]:
        if not self._numbers:
            return []
        if options.is_savepoint or not self._options.is_incremental or not options.shared_directory:
            return self._tables()
        self._checkpoints += 1
        directory = os.path.join(self._directory, f"checkpoint-{self._checkpoints}")
        self._store.checkpoint(directory)
        uploaded = self._uploaded.begin(checkpoint_id, os.listdir(directory), options.shared_directory)
        describe = partial(StoreDescription, dict(self._numbers), dict(self._saved), self._store.sequence)
        written = partial(self._uploaded.written, checkpoint_id)
        return [NativePart(self._native_name, directory, describe, self._owned, uploaded, written)]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._uploaded.complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._uploaded.abort(checkpoint_id)

    def _tables(self) -> list[PendingPart]:
        owned, where = self._owned, self._where

        def make_tables(items: Items, facts: StateFacts, number: int, newest_expired: int) -> Iterator[KeyedTable]:
            rows = rows_in_groups(items, owned, number, facts.kind, facts.has_ttl, newest_expired)
            if facts.column is None:
                return state_tables(facts, where, rows, is_encoded=True)
            return state_tables(facts, where, ((*row[:3], value_of_bytes(row[3]), row[4]) for row in rows))

        return [
            TablePart(
                self._part_prefix + name,
                facts.schema(),
                partial(make_tables, self._store.frozen(), facts, self._numbers[name], self._newest_expired(name)),
                owned,
            )
            for name, facts in self._saved.items()
        ]

    def _newest_expired(self, name: str) -> int:
        """The limit for a state (`KeyedState.newest_expired_in_snapshots`); all values stay if the program has not
        asked for the state."""
        state = self._states.get(name)
        if state is None:
            return MIN_TIMESTAMP
        assert isinstance(state, RocksDbState)
        return state.newest_expired_in_snapshots(self._clock.now_ms())

    def restore(self, restored: RestoredState) -> None:
        names = restored.names()
        natives = list(restored.native(self._native_name)) if self._native_name in names else []
        descriptions = [StoreDescription.of(native) for native in natives]
        is_same = len(natives) == 1 and natives[0].key_groups == self._owned
        if is_same and not descriptions[0].may_have_paths:
            self._open_files(natives[0], descriptions[0])
        else:
            for native, description in zip(natives, descriptions, strict=True):
                self._import_files(native, description)
        for name in sorted(names):
            if name.startswith(self._part_prefix):
                for table in restored.keyed(name):
                    self._import_table(table)

    def _open_files(self, native: NativeState, description: StoreDescription) -> None:
        """Opens the files of a checkpoint as the store, where the key groups are the same.

        The next incremental checkpoint need not upload them again.
        """
        fetch(native, description, self._store_directory)
        self._store.sequence = description.sequence
        self._numbers = dict(description.numbers)
        self._saved = dict(description.facts)
        self._uploaded.restored(native.shared_files())

    def _import_files(self, native: NativeState, description: StoreDescription) -> None:
        """Copies the entries of this subtask's key groups from the files of a former subtask into the store."""
        directory = os.path.join(self._directory, "import")
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            fetch(native, description, directory)
            items, close = read_directory(directory, self._options.memory_bytes)
            stack.callback(close)
            store = self._store
            # The elements of one list come from one former subtask, so that their sequence numbers stay in order.
            store.sequence = max(store.sequence, description.sequence)
            for name, former in description.numbers.items():
                if description.may_have_paths:
                    facts = description.facts[name]
                    rows = rows_in_groups(items, self._owned, former, facts.kind, facts.has_ttl, MIN_TIMESTAMP)
                    self._import_rows(facts, rows)
                    continue
                number = self._restored_number(description.facts[name])
                for group in self._owned:
                    region, here = PREFIX.pack(group, former), PREFIX.pack(group, number)
                    for key, stored in items(region, region):
                        store.put(here + key[PREFIX.size :], stored)

    def _import_table(self, table: pa.Table) -> None:
        """Writes the rows of a restored table into the store."""
        facts = StateFacts.of_schema(table.schema)
        rows = rows_of(table, facts, decode=False)
        if facts.column is not None:
            rows = ((*row[:3], value_to_bytes(row[3]), row[4]) for row in rows)
        self._import_rows(facts, rows)

    def _import_rows(self, facts: StateFacts, rows: Iterable[StateRow]) -> None:
        """Writes rows whose values are bytes into the store."""
        codec, store = Codec(facts.kind, facts.has_ttl), self._store
        number, pickler = self._restored_number(facts), self._key.pickler
        for group, key, map_key, value, renewed in rows:
            stored_key, original = PREFIX.pack(group, number) + pickler.dumps(loads(key)), None
            if facts.kind == "list":
                stored_key += SEQUENCE.pack(store.next_sequence())
            elif map_key is not None:
                loaded = loads(map_key)
                stored_key += pickler.dumps(loaded)
                original = None if pickler.canonical(loaded) is loaded else map_key
            if is_pickled(value) and has_modules(value):
                value = value_to_bytes(loads(value))
            store.put(stored_key, codec.encode(value, renewed, original))

    def drop_all(self) -> None:
        if self._opened is not None:
            for key, _ in self._opened.items(b"", b""):
                self._opened.delete(key)

    def close(self) -> None:
        """Closes and deletes the store; files of checkpoints that are being written go once those are written."""
        if self._removal is not None:
            self._removal.detach()
        self._opened = None
        if self._closing is not None:
            self._closing()
        elif self._created_directory:
            # A restore that failed may have left files where the store would be.
            shutil.rmtree(self._store_directory, ignore_errors=True)
        if os.path.isdir(self._created_directory) and not os.listdir(self._created_directory):
            os.rmdir(self._created_directory)

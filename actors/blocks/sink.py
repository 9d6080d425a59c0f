"""Sinks whose rows the driver takes: writers put blocks into a store, and checkpoints commit them there.

A block counts only when it was committed, so what a failed attempt wrote is never seen, and committing again changes
nothing. The store belongs to the driver, which is where its rows are wanted: tasks, slots and JobMasters that are
replaced find it as it was, blocks and list of commits. It ends with the driver, and each submission has its own.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec import Struct

from actors.blocks.store import BLOCK_BYTES, BlockStore
from flinkray.batches.batch import Batch
from flinkray.connectors.committer import CommitRequest, Committer
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError, PartitionError
from flinkray.types.records import Kind, RecordType

COMMITTED = "committed/"
CHECKPOINT = "checkpoint/"


class WrittenBlock(Struct, frozen=True):
    """A block that a writer has put into the store."""

    block_id: str
    rows: int
    schema: pa.Schema


class Committable(Struct, frozen=True):
    """What one subtask wrote between two checkpoints; made for each, also where it wrote nothing.

    Attributes:
        store: where its blocks are, and where it is committed.
        writer: names the attempt; a later attempt's name comes later in the alphabet.
        number: counts the writer's committables.
        is_last: the subtask's input has ended; it makes no more.
    """

    store: BlockStore
    subtask: int
    parallelism: int
    writer: str
    number: int
    blocks: tuple[WrittenBlock, ...]
    is_last: bool

    @property
    def key(self) -> str:
        return f"{self.subtask:06d}-{self.writer}-{self.number:09d}"


@dataclass(frozen=True, slots=True)
class BlockSink(Sink):
    """A sink that writes blocks into a store.

    `after_commit(store, is_last)` runs after each commit, and may wait or raise.
    """

    store: BlockStore
    after_commit: Callable[[BlockStore, bool], None] | None = None

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> BlockWriter:
        return BlockWriter(context, self.store)

    def create_committer(self) -> BlockCommitter:
        return BlockCommitter(self.store, self.after_commit)


class BlockWriter(SinkWriter):
    """Coalesces batches into blocks, so that small results of many windows do not become many small objects."""

    def __init__(self, context: SinkWriterContext, store: BlockStore) -> None:
        self._context = context
        self._store = store
        # A new JobMaster counts attempts from 0 again, and no two attempts may write under one name.
        self._name = f"{context.now_ms():013d}-{context.attempt_number:06d}-{uuid.uuid4().hex[:8]}"
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._written: list[WrittenBlock] = []
        self._block_number = 0
        self._committable_number = 0
        self._has_ended = False
        self._unlabelled: list[str] = []
        """Keys of committables whose checkpoint is not known yet."""

    def write(self, batch: Batch) -> None:
        if batch.kind is Kind.OBJECT:
            raise InvalidProgramError(
                f"sink {self._context.operator_name!r} takes columns, and these rows are Python objects: give the "
                f"operator before it an output_type that Arrow has"
            )
        if self._pending and not self._pending[0].schema.equals(batch.data.schema):
            self._write_block()
        self._pending.append(batch.data)
        self._pending_bytes += batch.data.nbytes
        if self._pending_bytes >= BLOCK_BYTES:
            self._write_block()

    def flush(self, end_of_input: bool) -> None:
        self._write_block()
        self._has_ended = self._has_ended or end_of_input

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        self._write_block()
        committable = Committable(
            store=self._store,
            subtask=self._context.subtask_index,
            parallelism=self._context.parallelism,
            writer=self._name,
            number=self._committable_number,
            blocks=tuple(self._written),
            is_last=self._has_ended,
        )
        self._committable_number += 1
        self._written = []
        self._unlabelled.append(committable.key)
        return [committable]

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Notes which checkpoint the committables belong to; the writer itself keeps nothing for a restart."""
        for key in self._unlabelled:
            self._store.record(CHECKPOINT + key, str(checkpoint_id).encode())
        self._unlabelled = []

    def close(self) -> None:
        """Frees what has not been prepared: a restarted task writes it again."""
        self._pending = []
        written, self._written = self._written, []
        with contextlib.suppress(PartitionError):  # the store is gone, and the blocks with it
            self._store.discard([block.block_id for block in written])

    def _write_block(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        block_id = f"{self._context.subtask_index:06d}-{self._name}-{self._block_number:09d}"
        self._block_number += 1
        self._store.put(block_id, rows)
        self._written.append(WrittenBlock(block_id, int(rows.num_rows), rows.schema))


class BlockCommitter(Committer):
    """Marks committables as committed, under a key of their own: a second time changes nothing."""

    def __init__(self, store: BlockStore, after_commit: Callable[[BlockStore, bool], None] | None) -> None:
        self._store = store
        self._after_commit = after_commit

    def commit(self, requests: Sequence[CommitRequest[Committable]]) -> None:
        has_own = has_last = False
        for committable in (request.committable for request in requests):
            if committable.store.store_id == self._store.store_id:
                has_own, has_last = True, has_last or committable.is_last
                self._store.record(COMMITTED + committable.key, pickle.dumps(committable))
            elif committable.blocks and not _is_committed(committable):
                raise InvalidProgramError(
                    f"{sum(block.rows for block in committable.blocks)} rows wait for a commit to the driver of an "
                    f"earlier submission ({committable.store.store_id}), and another cannot get them; start from a "
                    "savepoint that stopped its job, which commits them, or without the state of this sink (give it "
                    "another uid, and allow_non_restored_state)"
                )
        if has_own and self._after_commit is not None:
            self._after_commit(self._store, has_last)

    def abort(self, committables: Sequence[Committable]) -> None:
        for committable in committables:
            committable.store.discard([block.block_id for block in committable.blocks])


def _is_committed(committable: Committable) -> bool:
    """Whether the committable was committed before, as far as its store can be asked."""
    with contextlib.suppress(PartitionError):
        return COMMITTED + committable.key in committable.store.records(COMMITTED + committable.key)
    return False


def committed(store: BlockStore) -> list[Committable]:
    """All that was committed so far and counts, by subtask and in the order it was written there: by checkpoint.

    What a subtask commits at the end of its input, outside any checkpoint, is replaced by what a later attempt commits
    there: without checkpoints a restarted job begins anew, also where a subtask had already ended.
    """
    records = store.records(COMMITTED)
    found: list[Committable] = [pickle.loads(records[key]) for key in sorted(records)]
    in_checkpoint = checkpoints(store)
    newest = {each.subtask: each.writer for each in found if each.key not in in_checkpoint}
    counted = [each for each in found if each.key in in_checkpoint or each.writer == newest[each.subtask]]
    return sorted(counted, key=lambda each: (each.subtask, in_checkpoint.get(each.key, math.inf), each.key))


def checkpoints(store: BlockStore) -> dict[str, int]:
    """The checkpoint of each committable, by its key; those after the last checkpoint are absent."""
    return {key.removeprefix(CHECKPOINT): int(value) for key, value in store.records(CHECKPOINT).items()}


def common_schema(blocks: Sequence[WrittenBlock], declared: RecordType | None) -> pa.Schema:
    """One schema that the rows of all blocks fit, as a stream's type may be widened while it runs."""
    if not blocks:
        return pa.schema([]) if declared is None else declared.schema
    return pa.unify_schemas([block.schema for block in blocks], promote_options="permissive")

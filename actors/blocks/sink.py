"""Sinks whose rows the driver takes: writers put blocks into a store; what a checkpoint completes is committed there.

A block counts only when it was committed, so what a failed attempt wrote is never seen, and committing again changes
nothing. The store belongs to the driver, which is where its rows are wanted: they can be read from it while the
driver lives, and a job that is restored by another driver starts with an empty one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors.blocks.store import BLOCK_BYTES, BlockStore
from flinkray.batch import Batch
from flinkray.connectors.sink import Committer, Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError
from flinkray.types import Kind, RecordType

COMMITTED = "committed/"
CHECKPOINT = "checkpoint/"


@dataclass(frozen=True, slots=True)
class WrittenBlock:
    block_id: str
    rows: int
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Committable:
    """What one subtask wrote between two checkpoints; made for each, also where it wrote nothing.

    Attributes:
        order: (attempt, number): by which a subtask's committables follow each other.
        is_last: the subtask's input has ended; it makes no more.
    """

    store_id: str
    subtask: int
    parallelism: int
    order: tuple[int, int]
    blocks: tuple[WrittenBlock, ...]
    is_last: bool

    @property
    def key(self) -> str:
        return f"{self.subtask:06d}-{self.order[0]:06d}-{self.order[1]:09d}"


@dataclass(frozen=True, slots=True)
class BlockSink(Sink):
    """What is shipped. `after_commit(store, is_last)` runs in the task after each commit, and may wait or raise."""

    store: BlockStore
    after_commit: Callable[[BlockStore, bool], None] | None = field(default=None)

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> BlockWriter:
        return BlockWriter(context, self.store)

    def create_committer(self) -> BlockCommitter:
        return BlockCommitter(self.store, self.after_commit)


class BlockWriter(SinkWriter):
    """Coalesces batches to blocks, so that small results of many windows do not become many small objects."""

    def __init__(self, context: SinkWriterContext, store: BlockStore) -> None:
        self._context = context
        self._store = store
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

    def prepare_commit(self) -> list[Committable]:
        self._write_block()
        committable = Committable(
            store_id=self._store.store_id,
            subtask=self._context.subtask_index,
            parallelism=self._context.parallelism,
            order=(self._context.attempt_number, self._committable_number),
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
        self._pending = []

    def _write_block(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        block_id = f"{self._context.subtask_index:06d}-{self._context.attempt_number:06d}-{self._block_number:09d}"
        self._block_number += 1
        self._store.put(block_id, rows)
        self._written.append(WrittenBlock(block_id, int(rows.num_rows), rows.schema))


class BlockCommitter(Committer):
    """Marks committables as committed, under a key of their own: a second time changes nothing."""

    def __init__(self, store: BlockStore, after_commit: Callable[[BlockStore, bool], None] | None) -> None:
        self._store = store
        self._after_commit = after_commit

    def commit(self, committables: Sequence[Committable]) -> None:
        for committable in committables:
            if committable.store_id != self._store.store_id:
                raise InvalidProgramError(
                    f"rows that an earlier driver prepared for itself ({committable.store_id}) are gone with it: such "
                    f"a sink is exactly-once while its driver lives; restore without this sink's state"
                )
            self._store.record(COMMITTED + committable.key, pickle.dumps(committable))
        if self._after_commit is not None:
            self._after_commit(self._store, any(committable.is_last for committable in committables))

    def abort(self, committables: Sequence[Committable]) -> None:
        self._store.discard([block.block_id for committable in committables for block in committable.blocks])


def committed(store: BlockStore) -> list[Committable]:
    """All that was committed so far and counts, by subtask and in the order it was written there.

    What a subtask commits at the end of its input, outside any checkpoint, is replaced by what a later attempt commits
    there: without checkpoints a restarted job begins anew, also where a subtask had already ended.
    """
    records = store.records(COMMITTED)
    found: list[Committable] = [pickle.loads(records[key]) for key in sorted(records)]
    in_checkpoint = checkpoints(store)
    newest = {each.subtask: each.order[0] for each in found if each.key not in in_checkpoint}
    return [each for each in found if each.key in in_checkpoint or each.order[0] == newest[each.subtask]]


def checkpoints(store: BlockStore) -> dict[str, int]:
    """The checkpoint of each committable, by its key; those after the last checkpoint are absent."""
    return {key.removeprefix(CHECKPOINT): int(value) for key, value in store.records(CHECKPOINT).items()}


def common_schema(blocks: Sequence[WrittenBlock], declared: RecordType | None) -> pa.Schema:
    """One schema that the rows of all blocks fit, as a stream's type may be widened while it runs."""
    if not blocks:
        return pa.schema([]) if declared is None else declared.schema
    return pa.unify_schemas([block.schema for block in blocks], promote_options="permissive")

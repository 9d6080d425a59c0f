"""The reader of files that a streaming query stages, which also removes them. Imports no Spark.

A position is a row of a file. The reader that has read a file removes it, once a completed checkpoint has it as read to
its end. Until then the split stays in the reader's snapshots, so that a reader restored from that checkpoint removes
it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from actors.spark.staging import StagedFile, Staging, StagingError
from flinkray.batches.batch import Batch
from flinkray.connectors.handover import Handover
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceReader, SourceReaderContext
from flinkray.types.records import Kind

log = logging.getLogger(__name__)

_AHEAD_BYTES = 16 << 20
"""Bytes that are read ahead of the task; at least one Arrow batch of a file."""
_SPLITS_AHEAD = 2
"""One split that is being read, and one that follows without waiting for the enumerator."""
_END_SECONDS = 1.0
"""How long closing waits for the file system."""

SplitOrder = tuple[int, int]


class StagedSplit(Struct, frozen=True):
    """One file of a batch, of which the rows before `position` have been read."""

    batch_id: int
    index: int
    file: StagedFile
    position: int = 0

    @property
    def split_id(self) -> str:
        """One id for all splits: a subtask reads its files one after the other as one stream, with one watermark.

        Files are short, so that a split of its own would end before its watermark is emitted.
        """
        return "rows"

    @property
    def order(self) -> SplitOrder:
        return self.batch_id, self.index

    @property
    def is_read(self) -> bool:
        return self.position >= sum(self.file.rows)


class StagedReader(SourceReader):
    """Reads its files in the order of batches, on a thread."""

    def __init__(self, context: SourceReaderContext, staging: Staging, schema: pa.Schema) -> None:
        self._context = context
        self._staging = staging
        self._schema = schema
        self._unread: dict[SplitOrder, StagedSplit] = {}
        """Splits that are yet to be read to their end, in the order of reading."""
        self._read: dict[SplitOrder, StagedSplit] = {}
        """Splits that were read to their end, and whose files may not be removed yet."""
        self._read_by: dict[int, list[SplitOrder]] = {}
        """The orders of splits in `_read` that each checkpoint covers, by its id."""
        self._removals: dict[SplitOrder, Future[None]] = {}
        self._has_asked = False
        self._has_all_splits = False
        self._is_started = False
        self._todo: SimpleQueue[StagedSplit | None] = SimpleQueue()
        self._handover: Handover[tuple[pa.RecordBatch, StagedSplit]] = Handover(_AHEAD_BYTES, context.notify_available)
        name = f"staged-rows-{context.subtask_index}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._remover = ThreadPoolExecutor(1, thread_name_prefix=f"remove-{name}")

    def start(self) -> None:
        self._is_started = True
        self._thread.start()
        self._ask()

    def poll(self) -> SourceBatch | ReaderStatus:
        handed_over = self._handover.take_nowait(1)
        if not handed_over:
            is_end = self._has_all_splits and not self._unread
            return ReaderStatus.END_OF_INPUT if is_end else ReaderStatus.NOTHING_AVAILABLE
        ((rows, split),) = handed_over
        self._unread[split.order] = split
        if split.is_read:
            self._read[split.order] = self._unread.pop(split.order)
            self._ask()
        return SourceBatch(Batch(rows, Kind.ROW), split.split_id)

    def add_splits(self, splits: Sequence[StagedSplit]) -> None:
        self._has_asked = False
        # After rescaling, splits of one subtask may come from several former ones, each in its own order.
        for split in sorted(splits, key=lambda each: each.order):
            if split.is_read:  # restored from a checkpoint, which covers it
                self._read[split.order] = split
                self._remove(split.order)
            else:
                self._unread[split.order] = split
                self._todo.put(split)
        if self._is_started:
            self._ask()

    def notify_no_more_splits(self) -> None:
        self._has_all_splits = True
        self._context.notify_available()

    def snapshot_state(self, checkpoint_id: int) -> list[StagedSplit]:
        self._forget_removed()
        self._read_by[checkpoint_id] = list(self._read)
        return [*self._unread.values(), *self._read.values()]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for order in self._read_by.get(checkpoint_id, ()):
            self._remove(order)
        self._read_by = {each: orders for each, orders in self._read_by.items() if each > checkpoint_id}

    def close(self) -> None:
        self._handover.close()
        self._todo.put(None)
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)
        self._remover.shutdown(wait=False)

    def _ask(self) -> None:
        if not self._has_asked and not self._has_all_splits and len(self._unread) < _SPLITS_AHEAD:
            self._has_asked = True
            self._context.send_split_request()

    # -- removing

    def _remove(self, order: SplitOrder) -> None:
        split = self._read.get(order)
        if split is not None and order not in self._removals:
            self._removals[order] = self._remover.submit(self._staging.remove_file, split.batch_id, split.file.name)

    def _forget_removed(self) -> None:
        for order, removal in list(self._removals.items()):
            if removal.done():
                del self._removals[order]
                error = removal.exception()
                if error is None:
                    del self._read[order]
                else:  # it is tried again after the next checkpoint
                    name = self._read[order].file.name
                    log.warning("cannot remove %s of Spark batch %d: %s", name, order[0], error)

    # -- the reading thread

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            while (split := self._todo.get()) is not None and self._read_split(split):
                pass
        except BaseException as caught:  # whatever ends the thread, the task must learn of it
            error = caught
        self._handover.finish(error)

    def _read_split(self, split: StagedSplit) -> bool:
        """Hands the rows of a split over to the task; False: nobody wants them any more."""
        position, limit = split.position, self._context.batch_rows
        for batch in self._staging.read_file(split.batch_id, split.file, position):
            if not batch.schema.equals(self._schema):
                raise StagingError(
                    f"Spark batch {split.batch_id} in {self._staging.location} was staged with other columns "
                    f"({_text(batch.schema)}) than the DataFrame has now ({_text(self._schema)}): let the former "
                    "program read what is staged before its query is changed"
                )
            for begin in range(0, batch.num_rows, limit):
                rows = batch.slice(begin, limit)
                position += rows.num_rows
                if not self._handover.offer((rows, replace(split, position=position)), rows.nbytes):
                    return False
        return True


def _text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)

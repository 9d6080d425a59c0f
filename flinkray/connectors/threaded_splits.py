"""The base of readers that read splits one after another, each on a thread, since a disk or a network may be slow."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextvars import copy_context
from typing import TypeVar

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.coalescing import coalesced
from flinkray.connectors.handover import Handover
from flinkray.connectors.source import SourceReaderContext, SourceSplit
from flinkray.connectors.split_list import SplitListReader
from flinkray.types.records import Kind

S = TypeVar("S", bound=SourceSplit)

_BATCHES_AHEAD = 2
"""The number of batches that the reading thread may be ahead of the task."""


class ThreadedSplitReader(SplitListReader[S]):
    """Reads each split on a thread of its own; a subclass says how.

    Args:
        kind: of the rows.
    """

    def __init__(self, context: SourceReaderContext, kind: Kind) -> None:
        super().__init__(context)
        self._kind = kind

    @abstractmethod
    def parts(self, split: S) -> Iterator[tuple[pa.RecordBatch, S]]:
        """The rows of a split, each batch with the split as it is after it. Called on the thread, and may block."""

    def batch_of(self, data: pa.RecordBatch) -> Batch:
        """The rows of what `parts` gave."""
        return Batch(data, self._kind)

    def read_split(self, split: S) -> Iterator[tuple[Batch | None, S]]:
        handover: Handover[tuple[pa.RecordBatch, S]] = Handover(_BATCHES_AHEAD, self._context.notify_available)
        thread = threading.Thread(
            target=copy_context().run, args=(self._read, split, handover), name=f"read {split.split_id}", daemon=True
        )
        thread.start()
        try:
            while True:
                # Asked before, since the thread may add its last batch and finish in between.
                is_drained = handover.is_drained
                taken = handover.take_nowait(1)
                if taken:
                    split = taken[0][1]
                    # While the reader waits, its last batch must be nobody's but the consumer's.
                    yield self.batch_of(taken.pop()[0]), split
                elif is_drained:
                    return
                else:
                    yield None, split
        finally:
            handover.close()
            thread.join()

    def _read(self, split: S, handover: Handover[tuple[pa.RecordBatch, S]]) -> None:
        """The thread: offers the split's batches until they end, or nobody wants them."""
        error: BaseException | None = None
        try:
            batches = coalesced(self.parts(split), self._context.batch_rows, self._context.now_ms)
            all(map(handover.offer, batches))  # under no name, which would hold the batch while the next is waited for
        except BaseException as caught:  # also a panic of a library in Rust: the task must learn how the thread ends
            error = caught
        handover.finish(error)

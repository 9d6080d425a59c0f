"""Blocks as a source: they are cut into splits, and a position is a row of a block, so replay is exact."""

from __future__ import annotations

import bisect
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from actors.blocks.store import Block, BlockStore
from flinkray.batches.batch import Batch
from flinkray.connectors.source import (
    Boundedness,
    ReaderStatus,
    Source,
    SourceBatch,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import FlinkrayError
from flinkray.types.records import Kind, RecordType

log = logging.getLogger(__name__)

# An ordered source is handed out in splits of this many rows, so that the subtasks advance through event time side by
# side; in whole blocks, one would be a block ahead of the other and everything between would wait in windows.
ORDERED_SPLIT_ROWS = 65_536

# The most rows of a batch. Slicing one from a block costs next to nothing, and batches in flight take memory beside the
# blocks.
_MOST_ROWS = 65_536

RENEW_LEASE_MS = 15_000


class RowsChangedError(FlinkrayError):
    """A checkpoint or savepoint is restored on rows that are not those it was taken from."""

    origin = "user"


class BlockSplit(Struct, frozen=True):
    """Rows `begin` to `end` of one block, of which those before `position` have been read."""

    block_index: int
    checksum: int
    begin: int
    end: int
    position: int

    @property
    def split_id(self) -> str:
        """The same for all splits: a subtask reads its splits one after the other as one stream, with one watermark.

        A watermark per split would stand still while the next split is assigned and not yet read, that is, always.
        """
        return "rows"

    @property
    def order(self) -> tuple[int, int]:
        return self.block_index, self.begin


class BlockSource(Source):
    """The blocks of one DataFrame or Dataset, as shipped to the cluster; holds no reference to where they came from.

    Args:
        is_ordered: splits are handed out in the blocks' order, so that what a subtask reads only moves forward.
    """

    def __init__(self, store: BlockStore, blocks: Sequence[Block], record_type: RecordType, is_ordered: bool) -> None:
        self.store = store
        self.blocks = tuple(blocks)
        self.is_ordered = is_ordered
        self._record_type = record_type

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType:
        return self._record_type

    def splits(self) -> list[BlockSplit]:
        """All splits of the blocks, in order and unread."""
        found: list[BlockSplit] = []
        for index, block in enumerate(self.blocks):
            step = ORDERED_SPLIT_ROWS if self.is_ordered else block.rows
            found.extend(
                BlockSplit(index, block.checksum, begin, min(begin + step, block.rows), begin)
                for begin in range(0, block.rows, step)
            )
        return found

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> BlockEnumerator:
        return BlockEnumerator(context, self.store, self.splits() if restored is None else restored)

    def create_reader(self, context: SourceReaderContext) -> BlockReader:
        return BlockReader(context, self)


class BlockEnumerator(SplitEnumerator):
    """Gives one split per request, the first in order that no reader has."""

    def __init__(self, context: SplitEnumeratorContext, store: BlockStore, splits: Sequence[BlockSplit]) -> None:
        self._context = context
        self._store = store
        self._free = sorted(splits, key=lambda split: split.order)
        self._returned: dict[int, list[BlockSplit]] = {}
        """Subtask -> splits of its failed attempt, for its next attempt: other subtasks may be further already."""
        self._is_closed = False

    def start(self) -> None:
        self._renew()

    def handle_split_request(self, subtask_index: int) -> None:
        returned = self._returned.get(subtask_index)
        if returned:
            self._context.assign_splits([returned.pop(0)], subtask_index)
        elif self._free:
            self._context.assign_splits([self._free.pop(0)], subtask_index)
        else:
            self._context.signal_no_more_splits(subtask_index)

    def add_reader(self, subtask_index: int) -> None:
        """Does nothing: readers ask for splits."""

    def add_splits_back(self, splits: Sequence[BlockSplit], subtask_index: int) -> None:
        returned = self._returned.setdefault(subtask_index, [])
        for split in splits:
            bisect.insort(returned, split, key=lambda each: each.order)

    def snapshot_state(self, checkpoint_id: int) -> list[BlockSplit]:
        return [*self._free, *(split for splits in self._returned.values() for split in splits)]

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._store.end_lease()

    def _renew(self) -> None:
        if not self._is_closed:
            self._store.renew_lease()
            self._context.call_later(RENEW_LEASE_MS, self._renew)


class BlockReader(SourceReader):
    """Reads one split while a thread fetches the next, so that it never waits and holds two blocks at most."""

    def __init__(self, context: SourceReaderContext, source: BlockSource) -> None:
        self._context = context
        self._source = source
        self._waiting: deque[BlockSplit] = deque()
        self._fetching: tuple[BlockSplit, Future[pa.RecordBatch]] | None = None
        self._current: tuple[BlockSplit, pa.RecordBatch] | None = None
        self._has_all_splits = False
        self._last_block: tuple[int, pa.RecordBatch] | None = None
        """The block that was fetched last, as the next split is often of the same. Only the fetching thread uses it."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"blocks-{context.subtask_index}")

    def start(self) -> None:
        self._context.send_split_request()

    def poll(self) -> SourceBatch | ReaderStatus:
        if self._current is None and not self._begin_next():
            if self._fetching is None and not self._waiting and self._has_all_splits:
                return ReaderStatus.END_OF_INPUT
            return ReaderStatus.NOTHING_AVAILABLE
        assert self._current is not None
        split, rows = self._current
        count = min(self._context.batch_rows, _MOST_ROWS, split.end - split.position)
        batch = Batch(rows.slice(split.position, count), Kind.ROW)
        position = split.position + count
        self._current = None if position == split.end else (replace(split, position=position), rows)
        if self._current is None:
            self._let_go(split)
        return SourceBatch(batch, split.split_id)

    def add_splits(self, splits: Sequence[BlockSplit]) -> None:
        for split in splits:
            self._check_same_rows(split)
        # After rescaling, what one subtask is given may come from several, each with its own order.
        self._waiting = deque(sorted([*self._waiting, *splits], key=lambda split: split.order))
        self._fetch_next()

    def notify_no_more_splits(self) -> None:
        self._has_all_splits = True
        self._context.notify_available()

    def snapshot_state(self, checkpoint_id: int) -> list[BlockSplit]:
        current = [] if self._current is None else [self._current[0]]
        fetching = [] if self._fetching is None else [self._fetching[0]]
        return [*current, *fetching, *self._waiting]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin_next(self) -> bool:
        """Whether there is a split to read now, which it makes the current one."""
        if self._fetching is None or not self._fetching[1].done():
            return False
        split, future = self._fetching
        self._fetching = None
        self._current = split, future.result()
        self._fetch_next()
        if self._fetching is None and not self._has_all_splits:
            self._context.send_split_request()
        return True

    def _fetch_next(self) -> None:
        if self._fetching is None and self._waiting:
            split = self._waiting.popleft()
            future = self._pool.submit(self._fetch, split)
            self._fetching = split, future
            future.add_done_callback(lambda _future: self._context.notify_available())

    def _let_go(self, split: BlockSplit) -> None:
        """The split has been read: frees its block, unless other splits of it may be with other subtasks."""
        block = self._source.blocks[split.block_index]
        is_whole = split.begin == 0 and split.end == block.rows
        if is_whole and not self._context.may_read_again:
            self._pool.submit(self._discard, block.block_id)

    def _discard(self, block_id: str) -> None:
        try:
            self._source.store.discard([block_id])
        except Exception:
            # The block is of no use any more; if the store is gone, whoever reads from it next says so.
            log.debug("block %s was not freed", block_id, exc_info=True)

    def _fetch(self, split: BlockSplit) -> pa.RecordBatch:
        if self._last_block is None or self._last_block[0] != split.block_index:
            self._last_block = None  # frees the block before the next one is fetched
            block = self._source.blocks[split.block_index]
            self._last_block = split.block_index, self._source.store.get(block.block_id)
        return self._last_block[1]

    def _check_same_rows(self, split: BlockSplit) -> None:
        blocks = self._source.blocks
        if split.block_index >= len(blocks) or blocks[split.block_index].checksum != split.checksum:
            raise RowsChangedError(
                f"source {self._context.operator_name!r} cannot go on at row {split.position} of block "
                f"{split.block_index}: its input no longer gives the rows that were there when the state was "
                f"taken. Restore with the same data in the same order, or without the source's state"
            )

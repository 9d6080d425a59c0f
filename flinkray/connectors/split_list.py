"""The base of sources whose splits are a list, or a queue: enumerators that hand them out on request, and a reader that
reads one after another."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from flinkray.batches.batch import Batch
from flinkray.connectors.source import (
    ReaderStatus,
    SourceBatch,
    SourceProgress,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)

S = TypeVar("S", bound=SourceSplit)
_Batches = Iterator[tuple[Batch | SourceProgress | None, S]]
_LARGEST_BATCH = 8 << 20
"""The most bytes of a batch: far larger ones leave every cache between two operators, and their memory goes back to the
system."""


def batch_rows(context: SourceReaderContext, bytes_per_row: float) -> int:
    """How many rows of that size a batch is to have: `context.batch_rows`, fewer where rows are wide, at least one."""
    return max(1, min(context.batch_rows, int(_LARGEST_BATCH / max(1.0, bytes_per_row))))


class SplitQueueEnumerator(SplitEnumerator, Generic[S]):
    """Gives the next of the splits that wait to whichever reader asks. Where none waits, the reader gets the next that
    is found, or hears that there will be none.

    Args:
        waiting: splits that no reader has.
        finds_more: whether `_add` may be called later on.
    """

    def __init__(self, context: SplitEnumeratorContext, waiting: Iterable[S], finds_more: bool) -> None:
        self._context = context
        self._waiting = deque(waiting)
        self._finds_more = finds_more
        self._asking: dict[int, None] = {}
        """Subtasks that wait for a split, in the order in which they asked."""

    def add_reader(self, subtask_index: int) -> None:
        self._asking.pop(subtask_index, None)  # it was a former attempt that asked

    def handle_split_request(self, subtask_index: int) -> None:
        self._asking[subtask_index] = None
        self._assign()

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._waiting.extendleft(reversed(splits))
        self._assign()

    def _add(self, splits: Iterable[S]) -> None:
        """Further splits, which come behind those that wait."""
        self._waiting.extend(splits)
        self._assign()

    def _assign(self) -> None:
        for index in [each for each in self._asking if each in self._context.registered_readers]:
            if self._waiting:
                del self._asking[index]
                self._context.assign_splits([self._waiting.popleft()], index)
            elif not self._finds_more:
                del self._asking[index]
                self._context.signal_no_more_splits(index)


class SplitListEnumerator(SplitQueueEnumerator[S]):
    """Gives the next split of a list to whichever reader asks. Its state is the list of those that are left."""

    def __init__(self, context: SplitEnumeratorContext, splits: Iterable[S]) -> None:
        super().__init__(context, splits, finds_more=False)

    def start(self) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> tuple[S, ...]:
        return tuple(self._waiting)


class SplitListReader(SourceReader, Generic[S]):
    """Reads its splits one after another; a subclass says how one is read.

    It asks for a split only when it has none: one that waited here unread would hold the watermark back. A split that
    is paused is set aside, and read on when it is resumed.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._waiting: deque[tuple[S, _Batches[S] | None]] = deque()
        """Splits to be read, in order; one that has been begun comes with the rest of its batches."""
        self._held: list[tuple[S, _Batches[S] | None]] = []
        """Splits that were paused when it was their turn; once resumed they come first."""
        self._current: S | None = None
        self._batches: _Batches[S] = iter(())
        self._paused: set[str] = set()
        self._has_no_more = False

    @abstractmethod
    def read_split(self, split: S) -> _Batches[S]:
        """Yields batches (never empty), each with the split as a restored reader needs it to go on after that batch.

        Must not block. None in place of a batch: nothing is available now, and `notify_available` will be called. A
        SourceProgress is passed on.
        """

    def start(self) -> None:
        if not self._waiting:  # a restored reader has splits already
            self._context.send_split_request()

    def add_splits(self, splits: Sequence[Any]) -> None:
        self._waiting.extend((split, None) for split in splits)
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        self._has_no_more = True
        self._context.notify_available()

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> bool:
        self._paused = (self._paused | set(to_pause)) - set(to_resume)
        self._waiting.extendleft([each for each in reversed(self._held) if each[0].split_id not in self._paused])
        self._held = [each for each in self._held if each[0].split_id in self._paused]
        if self._current is not None and self._current.split_id in self._paused:
            self._set_current_aside()
        return True

    def poll(self) -> SourceBatch | SourceProgress | ReaderStatus:
        while self._current is not None or self._begin_next():
            batch_and_split = next(self._batches, None)
            if batch_and_split is None:
                self._end_current()
                continue
            batch, self._current = batch_and_split
            if batch is None:
                return ReaderStatus.NOTHING_AVAILABLE
            if isinstance(batch, SourceProgress):
                return batch
            return SourceBatch(batch, self._current.split_id)
        is_at_end = self._has_no_more and not self._held
        return ReaderStatus.END_OF_INPUT if is_at_end else ReaderStatus.NOTHING_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> list[S]:
        current = [] if self._current is None else [self._current]
        return [*current, *(split for split, _ in (*self._held, *self._waiting))]

    def close(self) -> None:
        for batches in (self._batches, *(batches for _, batches in (*self._held, *self._waiting))):
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    def _set_current_aside(self) -> None:
        """Makes the current split the last of those that wait."""
        if self._current is not None:
            self._waiting.append((self._current, self._batches))
            self._current, self._batches = None, iter(())

    def _begin_next(self) -> bool:
        while self._waiting:
            split, batches = self._waiting.popleft()
            if split.split_id not in self._paused:
                self._current = split
                self._batches = self.read_split(split) if batches is None else batches
                return True
            self._held.append((split, batches))
        return False

    def _end_current(self) -> None:
        assert self._current is not None
        self._context.split_finished(self._current.split_id)
        self._paused.discard(self._current.split_id)
        self._current = None
        if not self._waiting and not self._held and not self._has_no_more:
            self._context.send_split_request()

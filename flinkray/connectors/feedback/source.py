"""The head of an iteration: the source that gives what the tail has taken, until nothing comes back any more.

A program with an iteration takes no checkpoints, so nothing here is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flinkray.connectors.feedback.queue import FeedbackKey, open_queue
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
from flinkray.types.records import Millis


@dataclass(frozen=True, slots=True)
class _HeadSplit:
    """The one split of a subtask of the head."""

    split_id: str


@dataclass(frozen=True, slots=True)
class _InputEnded:
    """Reader -> enumerator: nothing enters the loop from outside any more in this subtask."""


@dataclass(frozen=True, slots=True)
class _CountRequested:
    """Enumerator -> reader: say how many batches have come back so far."""

    round: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """Reader -> enumerator: how many batches have come back so far."""

    round: int
    batches: int


class FeedbackSource(Source):
    """Gives what the tail has taken.

    Args:
        max_wait_ms: the loop ends when nothing enters it any more, and nothing has come back to any subtask for that
            long; longer than a row can take through the loop.
    """

    is_stoppable = False

    may_end = True

    def __init__(self, iteration_id: str, max_wait_ms: Millis) -> None:
        self.iteration_id = iteration_id
        self._max_wait_ms = max_wait_ms

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return _HeadEnumerator(context, self._max_wait_ms)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _FeedbackReader(context, self.iteration_id)


class _FeedbackReader(SourceReader):
    """Gives the batches of the queue, and counts them for the enumerator."""

    def __init__(self, context: SourceReaderContext, iteration_id: str) -> None:
        self._context = context
        key = FeedbackKey(context.job_id, iteration_id, context.subtask_index, context.attempt_number)
        self._queue = open_queue(key)
        self._split_id = ""
        self._count = 0
        self._is_end_reported = False
        self._is_over = False

    def start(self) -> None:
        self._queue.subscribe(self._context.notify_available)

    def add_splits(self, splits: Sequence[_HeadSplit]) -> None:
        self._split_id = splits[0].split_id

    def notify_no_more_splits(self) -> None:
        self._is_over = True

    def poll(self) -> SourceBatch | ReaderStatus:
        if self._queue.is_input_ended and not self._is_end_reported:
            self._is_end_reported = True
            self._context.send_source_event(_InputEnded())
        batch = self._queue.take() if self._split_id else None
        if batch is not None:
            self._count += 1
            return SourceBatch(batch, self._split_id)
        return ReaderStatus.END_OF_INPUT if self._is_over else ReaderStatus.NOTHING_AVAILABLE

    def handle_source_event(self, event: Any) -> None:
        self._context.send_source_event(_Counted(event.round, self._count))

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        raise TypeError("a program with an iteration takes no checkpoints")

    def close(self) -> None:
        self._queue.close()


class _HeadEnumerator(SplitEnumerator):
    """Ends all subtasks of the head at once: none may end while a row that another one holds can still come to it.

    When no input is left, it asks all readers for their counts, and again after `max_wait_ms`. Where no count has
    grown in between, the loop is empty.
    """

    def __init__(self, context: SplitEnumeratorContext, max_wait_ms: Millis) -> None:
        self._context = context
        self._max_wait_ms = max_wait_ms
        self._ended: set[int] = set()
        self._round = 0
        self._counts: dict[int, int] = {}
        self._former: dict[int, int] | None = None

    def start(self) -> None:
        """Does nothing: readers register by themselves."""

    def add_reader(self, subtask_index: int) -> None:
        # It may be there for a second time, after a failure: then nothing that was known of it holds any more.
        self._ended.discard(subtask_index)
        self._former = None
        self._round += 1
        self._context.assign_splits([_HeadSplit(f"feedback-{subtask_index}")], subtask_index)

    def handle_split_request(self, subtask_index: int) -> None:
        """Does nothing: a reader has got its only split when it registered."""

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        """Does nothing: the reader that comes after a failure gets the same split when it registers."""

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        if isinstance(event, _InputEnded):
            self._ended.add(subtask_index)
            if len(self._ended) == self._context.parallelism:
                self._ask()
        elif isinstance(event, _Counted) and event.round == self._round:
            self._counts[subtask_index] = event.batches
            if len(self._counts) == self._context.parallelism:
                self._on_counted()

    def _ask(self) -> None:
        self._round += 1
        self._counts = {}
        for subtask_index in self._ended:
            self._context.send_event_to_reader(subtask_index, _CountRequested(self._round))

    def _on_counted(self) -> None:
        if self._counts == self._former:
            for subtask_index in self._counts:
                self._context.signal_no_more_splits(subtask_index)
            return
        self._former = self._counts
        asked = self._round
        self._context.call_later(self._max_wait_ms, lambda: self._ask() if self._round == asked else None)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return ()

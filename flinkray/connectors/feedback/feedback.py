"""The edge of a loop that leads back: a sink and a source that share a queue in one process (Flink's iteration tail and
head)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinkray.batches.batch import Batch
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
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


class FeedbackKey(NamedTuple):
    """Which queue: head, tail and input of one subtask of an iteration run in one slot, and so in one process."""

    job_id: str
    iteration_id: str
    subtask_index: int
    attempt_number: int


class FeedbackQueue:
    """Batches on their way back to the head. Unbounded: a bounded one would let a loop wait for itself for ever.

    Any thread may call it. `open_queue` gives it, and `close` lets it go.
    """

    def __init__(self, key: FeedbackKey) -> None:
        self._key = key
        self._users = 0
        self._batches: deque[Batch] = deque()
        self._notify: Callable[[], None] = _ignore
        self._is_input_ended = False

    def subscribe(self, notify: Callable[[], None]) -> None:
        """`notify` is called, by any thread, when there is something new."""
        self._notify = notify
        notify()

    def put(self, batch: Batch) -> None:
        self._batches.append(batch)
        self._notify()

    def take(self) -> Batch | None:
        """The oldest batch, or None."""
        return self._batches.popleft() if self._batches else None

    def end_input(self) -> None:
        """Nothing enters the loop from outside any more, in this subtask."""
        self._is_input_ended = True
        self._notify()

    @property
    def is_input_ended(self) -> bool:
        return self._is_input_ended

    def close(self) -> None:
        """One of its users is done with it; the last one's call drops it."""
        with _lock:
            self._users -= 1
            if self._users == 0:
                _queues.pop(self._key, None)
                self._batches.clear()


def _ignore() -> None:
    """Before the head subscribes."""


_queues: dict[FeedbackKey, FeedbackQueue] = {}
_lock = threading.Lock()


def open_queue(key: FeedbackKey) -> FeedbackQueue:
    """The queue of that key in this process, made by its first user."""
    with _lock:
        queue = _queues.get(key)
        if queue is None:
            queue = _queues[key] = FeedbackQueue(key)
        queue._users += 1
        return queue


def open_queues() -> int:
    """How many there are in this process: none when no iteration runs."""
    return len(_queues)


# -- the tail


class FeedbackSink(Sink):
    """Takes what goes back into the loop."""

    def __init__(self, iteration_id: str) -> None:
        self.iteration_id = iteration_id

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        key = FeedbackKey(context.job_id, self.iteration_id, context.subtask_index, context.attempt_number)
        return _FeedbackWriter(open_queue(key))


class _FeedbackWriter(SinkWriter):
    def __init__(self, queue: FeedbackQueue) -> None:
        self._queue = queue

    def write(self, batch: Batch) -> None:
        self._queue.put(batch)

    def close(self) -> None:
        self._queue.close()


# -- the head


@dataclass(frozen=True, slots=True)
class _Subtask:
    """The split of a head's subtask."""

    split_id: str


@dataclass(frozen=True, slots=True)
class _InputEnded:
    """Reader -> enumerator."""


@dataclass(frozen=True, slots=True)
class _CountRequested:
    """Enumerator -> reader."""

    round: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """Reader -> enumerator: how many batches have come back so far."""

    round: int
    batches: int


class FeedbackSource(Source):
    """Gives what the tail took.

    Args:
        max_wait_ms: the loop ends when nothing enters it any more, and nothing has come back to any subtask for that
            long; longer than a row can take through the loop.
    """

    is_stoppable = False

    def __init__(self, iteration_id: str, max_wait_ms: Millis) -> None:
        self.iteration_id = iteration_id
        self._max_wait_ms = max_wait_ms

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return _Termination(context, self._max_wait_ms)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _FeedbackReader(context, self.iteration_id)


class _FeedbackReader(SourceReader):
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

    def add_splits(self, splits: Sequence[_Subtask]) -> None:
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


class _Termination(SplitEnumerator):
    """Ends all subtasks of a head together: none may go while a row that another one holds can still come to it."""

    def __init__(self, context: SplitEnumeratorContext, max_wait_ms: Millis) -> None:
        self._context = context
        self._max_wait_ms = max_wait_ms
        self._ended: set[int] = set()
        self._round = 0
        self._counts: dict[int, int] = {}
        self._former: dict[int, int] | None = None

    def start(self) -> None:
        """Readers come by themselves."""

    def add_reader(self, subtask_index: int) -> None:
        # It may be there for a second time, after a failure: then nothing that was known of it holds any more.
        self._ended.discard(subtask_index)
        self._former = None
        self._round += 1
        self._context.assign_splits([_Subtask(f"feedback-{subtask_index}")], subtask_index)

    def handle_split_request(self, subtask_index: int) -> None:
        """It has got the one it will ever have."""

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        """Its successor gets the same."""

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

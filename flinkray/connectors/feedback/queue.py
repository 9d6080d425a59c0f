"""The queue in which batches go back from the tail of an iteration to its head, in one process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from flinkray.batches.batch import Batch


class FeedbackKey(NamedTuple):
    """Names a queue. Head, tail and input of one subtask of an iteration run in one slot, and so in one process."""

    job_id: str
    iteration_id: str
    subtask_index: int
    attempt_number: int


class FeedbackQueue:
    """Batches on their way back to the head. It has no bound: with one, a loop could wait for itself for ever.

    Any thread may call it. `open_queue` gives it, and each of its users calls `close` once.
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
        """Nothing enters the loop from outside any more in this subtask."""
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
    """Is notified before the head subscribes."""


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
    """The number of queues in this process: 0 when no iteration runs."""
    return len(_queues)

"""Requests from when they come until they are answered: which are taken, and when their senders may forget them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from flinkray.batches.batch import Batch

Answer = Callable[[bool], None]
"""Tells the sender: True, the rows are taken for good; False: they may be lost."""

_MOST_BYTES = 64 << 20
"""How many bytes of rows may wait for the task, beside the limit of rows: rows may be large. As many may be in bodies
that are read and decoded."""


class BodyBytes:
    """Counts the bytes of all bodies that are being read or decoded; used by one thread.

    Args:
        most_bytes: how many there may be; more are taken only of one body alone.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._nbytes = 0

    def have_room(self, more: int, own: int = 0) -> bool:
        """Whether so many more may come of a body of which `own` are counted."""
        return self._nbytes == own or self._nbytes + more <= self._most_bytes

    def add(self, nbytes: int) -> None:
        self._nbytes += nbytes

    def remove(self, nbytes: int) -> None:
        self._nbytes -= nbytes


class _Queued(Struct, frozen=True):
    """Rows that the task does not have yet."""

    batch: Batch
    nbytes: int
    answer: Answer


class _Given(Struct, frozen=True):
    """Rows that the task has, whose sender waits."""

    rows: int
    answer: Answer


class Intake:
    """Decides; one thread brings requests, another is the task's. Answers are called by either, and must not block.

    Args:
        most_rows: how many rows may wait, for the task or for a checkpoint; more are taken only if none waits.
        most_bytes: how many bytes of rows may wait for the task; more are taken only if none waits.
        waits_for_checkpoints: whether a request is answered when a checkpoint has its rows that is complete; else when
            it comes.
    """

    def __init__(self, most_rows: int, waits_for_checkpoints: bool, most_bytes: int = _MOST_BYTES) -> None:
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._waits = waits_for_checkpoints
        self._lock = threading.Lock()
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._given: list[_Given] = []
        """Since the last barrier."""
        self._behind_barriers: dict[int, list[_Given]] = {}
        self._rows = 0
        self._is_closed = False

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return self._rows

    @property
    def is_full(self) -> bool:
        """Whether no request would be taken now."""
        return self._is_closed or self._rows >= self._most_rows or self._queued_bytes >= self._most_bytes

    def admit(self, batch: Batch, answer: Answer) -> bool:
        """Takes the rows of a request. False: it should come again later, and `answer` is not called."""
        nbytes = batch.data.nbytes
        with self._lock:
            if self._is_closed or (self._rows and self._rows + batch.num_rows > self._most_rows):
                return False
            if self._queue and self._queued_bytes + nbytes > self._most_bytes:
                return False
            self._rows += batch.num_rows
            self._queued_bytes += nbytes
            self._queue.append(_Queued(batch, nbytes, answer))
        if not self._waits:
            answer(True)
        return True

    def withdraw(self, answer: Answer) -> bool:
        """Takes back the rows of a request, whose sender waits no more. False: the task has them already."""
        with self._lock:
            # Those that have waited longest come first here, and give up first.
            for index, queued in enumerate(self._queue):
                if queued.answer is answer:
                    del self._queue[index]
                    self._rows -= queued.batch.num_rows
                    self._queued_bytes -= queued.nbytes
                    return True
        return False

    def take(self, rows: int) -> list[Batch]:
        """The next requests' rows, about so many; empty: there are none."""
        taken: list[Batch] = []
        count = 0
        with self._lock:
            while self._queue and count < rows:
                queued = self._queue.popleft()
                taken.append(queued.batch)
                count += queued.batch.num_rows
                self._queued_bytes -= queued.nbytes
                if self._waits:
                    self._given.append(_Given(queued.batch.num_rows, queued.answer))
            if not self._waits:
                self._rows -= count
        return taken

    def barrier(self, checkpoint_id: int) -> None:
        """What has been taken until now is in this checkpoint."""
        with self._lock:
            given, self._given = self._given, []
            if given:
                self._behind_barriers[checkpoint_id] = given

    def complete(self, checkpoint_id: int) -> None:
        """That checkpoint is complete, and so is what earlier ones that failed had."""
        with self._lock:
            numbers = [each for each in self._behind_barriers if each <= checkpoint_id]
            done = [given for number in numbers for given in self._behind_barriers.pop(number)]
            self._rows -= sum(given.rows for given in done)
        for given in done:
            given.answer(True)

    def close(self) -> None:
        """Takes nothing any more; whoever waits is told that the rows may be lost."""
        with self._lock:
            self._is_closed = True
            waiting = [*self._given, *(given for each in self._behind_barriers.values() for given in each)]
            answers = [*(given.answer for given in waiting), *(queued.answer for queued in self._queue if self._waits)]
            self._queue.clear()
            self._given = []
            self._behind_barriers = {}
        for answer in answers:
            answer(False)

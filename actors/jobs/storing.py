"""Blocking work on checkpoints: one piece after the other, and what can still be taken back."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.coordination.retained import Deletions
from actors.checkpoints.storage.directories import delete_files, discard, write_metadata
from actors.high_availability.pointers import CheckpointPointers, JobLeadership
from flinkray.errors import CheckpointError

Done = Callable[[Any, BaseException | None], None]
"""Gets the result of some work, or its error."""
RunBlocking = Callable[[Callable[[], Any], Done], None]
"""Runs work on another thread, then Done in the endpoint's own."""


def delete_now(of_job: str, deletions: Deletions) -> None:
    """Blocks. Goes on after a failure, and raises the first one."""
    first: CheckpointError | None = None
    steps: list[Callable[[], None]] = [partial(discard, each) for each in deletions.checkpoints]
    steps.append(partial(delete_files, of_job, [file.path for file in deletions.files]))
    for step in steps:
        try:
            step()
        except CheckpointError as error:
            first = first or error
    if first is not None:
        raise first


class Storing:
    """Makes one checkpoint complete, on a thread of its own; may be given up until the pointer to it is recorded.

    Args:
        leadership: where the pointer is recorded; None: nowhere.
        pointers: with this checkpoint; `before`: without it.
    """

    def __init__(
        self,
        checkpoint: CompletedCheckpoint,
        leadership: JobLeadership | None,
        pointers: CheckpointPointers,
        before: CheckpointPointers,
    ) -> None:
        self.checkpoint = checkpoint
        self._leadership = leadership
        self._pointers = pointers
        self._before = before
        self._lock = threading.Lock()
        self._is_decided = False
        self.is_given_up = False
        self.is_in_doubt = False
        """It could not be found out whether it counts."""

    def run(self) -> None:
        """Blocks. Raises CheckpointError: it is not complete, unless it `is_in_doubt`; or LeadershipLostError."""
        write_metadata(self.checkpoint)
        with self._lock:
            self._is_decided = not self.is_given_up
        if not self._is_decided:
            discard(self.checkpoint)
        elif self._leadership is not None:
            self._record(self._leadership)

    def _record(self, leadership: JobLeadership) -> None:
        try:
            leadership.record(self._pointers)
        except CheckpointError:
            # It may have been recorded all the same, and must not be deleted while somebody may start from it.
            self.is_in_doubt = True
            leadership.record(self._before)
            self.is_in_doubt = False
            raise

    def give_up(self) -> bool:
        """False: it is too late, the checkpoint may be what a job recovers from."""
        with self._lock:
            self.is_given_up = not self._is_decided
            return self.is_given_up


class Lane:
    """Blocking work, one piece after the other."""

    def __init__(self, run_blocking: RunBlocking) -> None:
        self._run_blocking = run_blocking
        self._waiting: deque[tuple[Callable[[], Any], Done]] = deque()
        self._is_busy = False

    def run(self, work: Callable[[], Any], done: Done) -> None:
        self._waiting.append((work, done))
        self._next()

    def _next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        work, done = self._waiting.popleft()

        def finished(result: Any, error: BaseException | None) -> None:
            self._is_busy = False
            done(result, error)
            self._next()

        self._run_blocking(work, finished)

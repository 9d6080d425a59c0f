"""What a JobMaster does about checkpoints on other threads, where it may wait: writing and deleting them, in order."""

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
from actors.protocol.main_thread import Done, MainThread
from flinkray.errors import CheckpointError


def delete_now(of_job: str, deletions: Deletions) -> None:
    """Deletes what is not needed any more; blocks. Goes on after a failure, and raises the first one."""
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


class CheckpointWrite:
    """Makes one checkpoint complete, on another thread; may be given up until the pointer to it is recorded.

    Args:
        leadership: where the pointer is recorded; None: nowhere.
        pointers: those of the job with this checkpoint.
        before: those of the job without it.
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
        """It could not be found out whether the checkpoint counts."""

    def run(self) -> None:
        """Writes the metadata and records the pointer; blocks.          Raises:             CheckpointError: the
        checkpoint is not complete, unless it `is_in_doubt`.             LeadershipLostError: another JobMaster has the
        job."""
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
            # The pointer may have been recorded all the same, and what a job may start from must not be deleted.
            self.is_in_doubt = True
            leadership.record(self._before)
            self.is_in_doubt = False
            raise

    def give_up(self) -> bool:
        """Takes the checkpoint back; False: it is too late, as a job may recover from it."""
        with self._lock:
            self.is_given_up = not self._is_decided
            return self.is_given_up


class SequentialExecutor:
    """Runs blocking work on other threads, one piece of it after the other. For the endpoint's thread."""

    def __init__(self, main_thread: MainThread) -> None:
        self._main_thread = main_thread
        self._waiting: deque[tuple[Callable[[], Any], Done]] = deque()
        self._is_busy = False

    def run(self, work: Callable[[], Any], done: Done) -> None:
        """Runs `work` after all that came before it, and then `done` in the endpoint's thread."""
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

        self._main_thread.run_blocking(work, finished)

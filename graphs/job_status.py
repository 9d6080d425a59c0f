"""The status of a job over time: its moves, who is told of them, and the figures derived from them."""

from __future__ import annotations

from collections.abc import Callable

from flinkray.execution import JobStatus
from graphs.states import check_transition

JobStatusListener = Callable[[JobStatus, JobStatus, int], None]
"""Called with the former status, the new one, and the time of the move in epoch milliseconds."""


class JobStatusHistory:
    """Where a job is and has been. Times are epoch milliseconds given by the caller."""

    def __init__(self, job_name: str, now_ms: int = 0) -> None:
        self._job_name = job_name
        self._states = [JobStatus.INITIALIZING]
        self._timestamps = {JobStatus.INITIALIZING: now_ms}
        self._down_since: int | None = None
        self._listeners: list[JobStatusListener] = []

    @property
    def current(self) -> JobStatus:
        return self._states[-1]

    @property
    def timestamps(self) -> dict[JobStatus, int]:
        """When each status was entered the last time."""
        return dict(self._timestamps)

    @property
    def restarts(self) -> int:
        return self._states.count(JobStatus.RESTARTING)

    def add_listener(self, listener: JobStatusListener) -> None:
        """`listener` is called within `transition`, after the move."""
        self._listeners.append(listener)

    def transition(self, to: JobStatus, now_ms: int) -> None:
        """Moves on and tells the listeners.

        Raises:
            IllegalTransition: the table of job statuses does not have this move.
        """
        former = self.current
        check_transition(f"job {self._job_name!r}", former, to, self._states)
        self._states.append(to)
        self._timestamps[to] = now_ms
        if former is JobStatus.RUNNING:
            self._down_since = now_ms
        if to is JobStatus.RUNNING:
            self._down_since = None
        for listener in self._listeners:
            listener(former, to, now_ms)

    def up_time_ms(self, now_ms: int) -> int:
        """How long the job has been running without interruption; 0 while it is not."""
        return now_ms - self._timestamps[JobStatus.RUNNING] if self.current is JobStatus.RUNNING else 0

    def down_time_ms(self, now_ms: int) -> int:
        """How long a job that did run has been in its current outage; 0 while it runs, and after its end."""
        if self._down_since is None or self.current.is_terminal:
            return 0
        return now_ms - self._down_since

    def restarting_time_ms(self, now_ms: int) -> int:
        """How long the last restart took, or the current one has taken so far; 0 without any."""
        started = self._timestamps.get(JobStatus.RESTARTING)
        if started is None:
            return 0
        if self.current is JobStatus.RESTARTING:
            return now_ms - started
        return max(0, self._timestamps[JobStatus.RUNNING] - started)

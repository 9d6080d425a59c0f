"""A failure of a job as it is reported: what failed, where, and what was done about it."""

from __future__ import annotations

from msgspec import Struct

from actors.protocol.ports import Address
from flinkray.errors import ErrorInfo


class TaskFailure(Struct, frozen=True):
    """One task that failed, or the job as a whole."""

    time_ms: int
    """When it failed, in epoch milliseconds."""
    error: ErrorInfo
    task_name: str | None = None
    """For example `map (1/2)`; None: it was no task, but a coordinator, or something else that all tasks need."""
    location: Address | None = None
    """The TaskExecutor of the task."""


class FailureRecord(Struct, frozen=True):
    """A failure, what was done about it, and what failed before that was done."""

    root: TaskFailure
    decision: str
    """What was done about it, for example `restarts after 1 s: ...` or `fails: ...`."""
    concurrent: tuple[TaskFailure, ...] = ()

"""Whose line of the log it is: each thread knows, and every record says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from msgspec import Struct


class LogContext(Struct, frozen=True):
    """The job and the subtask that a thread works for; empty and None: for none, or for all of the job."""

    job_id: str = ""
    job_name: str = ""
    vertex: str = ""
    subtask: int | None = None
    """Its index."""
    attempt: int | None = None
    task: str = ""
    """What the subtask is called, for example `map (1/2)`."""

    def __str__(self) -> str:
        # As much of the id as anybody types to name the job.
        job = f"{self.job_name} {self.job_id[:8]}".strip()
        return f"{job}: {self.task}#{self.attempt}" if self.task else job

    @property
    def attributes(self) -> dict[str, Any]:
        """What records of the log have of it. The names begin as they do so that a program's own stay free."""
        return {
            "flinkray": str(self),
            "flinkray_job_id": self.job_id,
            "flinkray_job_name": self.job_name,
            "flinkray_vertex": self.vertex,
            "flinkray_subtask": self.subtask,
            "flinkray_attempt": self.attempt,
        }


_NOBODY = LogContext()
_current: ContextVar[LogContext] = ContextVar("whose lines this thread logs")
_of_process = _NOBODY


def current() -> LogContext:
    """Whose lines the calling thread logs."""
    return _current.get(_of_process)


def enter(context: LogContext) -> None:
    """From here on the calling thread logs for it."""
    _current.set(context)


@contextmanager
def log_context(context: LogContext) -> Iterator[None]:
    """Meanwhile the calling thread logs for it; so do threads that start meanwhile in a copy of its context, always."""
    former = _current.set(context)
    try:
        yield
    finally:
        _current.reset(former)


def enter_process(context: LogContext) -> None:
    """Threads of this process for which nothing else is known, such as those that a program has started, log for it."""
    global _of_process
    _of_process = context


class _MarkedRecords:
    """Makes records as before, which say in addition whose they are, so that any formatter of a program can use it."""

    def __init__(self, former: Any) -> None:
        self._former = former

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._former(*args, **kwargs)
        record.__dict__.update(current().attributes)
        return record


def mark_records() -> None:
    """All records of this process say whose they are, from now on."""
    former = logging.getLogRecordFactory()
    if not isinstance(former, _MarkedRecords):
        logging.setLogRecordFactory(_MarkedRecords(former))

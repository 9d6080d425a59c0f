"""Waiting for a job, with one line on a terminal that says how far it is."""

from __future__ import annotations

import atexit
import contextlib
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

from flinkray.execution import JobClient, JobExecutionResult, JobProgress, JobStatus

_LOG = logging.getLogger(__name__)
_RATE_SECONDS = 5.0
"""The rate is that of the last so many seconds: tasks report more rarely than the line is drawn."""
_REFRESH_SECONDS = 0.25
"""How often the line on a terminal is drawn."""
_STATUS_SECONDS = 1.0
"""How often the status is looked at where there is no terminal."""


def wait_for_result(client: JobClient, job_name: str, stream: TextIO | None = None) -> JobExecutionResult:
    """The job's result. While it runs, a terminal shows one progress line; anything else gets a log line per status.

    Raises:
        JobExecutionError: the job failed; `__cause__` is the first failure.
    """
    output = stream or sys.stderr
    pause_s = _REFRESH_SECONDS if output.isatty() else _STATUS_SECONDS
    with _display(job_name, output) as show:
        while True:
            try:
                return client.result(pause_s)
            except TimeoutError:
                show(client.progress())


@contextlib.contextmanager
def _display(job_name: str, stream: TextIO) -> Iterator[Callable[[JobProgress], None]]:
    if not stream.isatty():
        yield _StatusLog(job_name)
        return
    # Slow to import, and only terminals need it.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    line = ProgressLine(job_name, time.monotonic)
    with Live(console=Console(file=stream), transient=True, auto_refresh=False) as live:
        yield lambda progress: live.update(Text(line.text(progress), overflow="ellipsis", no_wrap=True), refresh=True)


class _StatusLog:
    """Logs each change of status once."""

    def __init__(self, job_name: str) -> None:
        self._job_name = job_name
        self._last: JobStatus | None = None

    def __call__(self, progress: JobProgress) -> None:
        if progress.status is not self._last:
            self._last = progress.status
            _LOG.info("job %r is %s", self._job_name, progress.status.value)


class ProgressLine:
    """The text of the line. `seconds` is a clock that never goes back."""

    def __init__(self, job_name: str, seconds: Callable[[], float]) -> None:
        self._job_name = job_name
        self._seconds = seconds
        self._started = seconds()
        self._seen = deque([(self._started, 0)])

    def text(self, progress: JobProgress) -> str:
        """The line, for example `word count  RUNNING  0:07  in 1,200 (160/s)  out 80  watermark 2013-01-01
        12:00:00`."""
        now = self._seconds()
        rate = self._rate(now, progress.records_in)
        minutes, seconds = divmod(int(now - self._started), 60)
        parts = [
            self._job_name,
            progress.status.value,
            f"{minutes}:{seconds:02}",
            f"in {progress.records_in:,} ({rate:,.0f}/s)",
            f"out {progress.records_out:,}",
        ]
        if progress.watermark is not None:
            parts.append(f"watermark {_time(progress.watermark)}")
        return "  ".join(parts)

    def _rate(self, now: float, rows: int) -> float:
        """Rows per second over the last `_RATE_SECONDS`."""
        while len(self._seen) > 1 and now - self._seen[0][0] > _RATE_SECONDS:
            self._seen.popleft()
        then, rows_then = self._seen[0]
        if now > self._seen[-1][0]:
            self._seen.append((now, rows))
        return max(0, rows - rows_then) / (now - then) if now > then else 0.0


def _time(timestamp_ms: int) -> str:
    """A point in time as text; as a number where it is beyond the calendar."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(timestamp_ms // 1000))
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)


class ProgramUse:
    """Whether what the programs of this process record is ever run or looked at; says at its end where it was not."""

    def __init__(self) -> None:
        self._has_recorded = False
        self._is_used = False

    def record(self) -> None:
        """To be called where something becomes part of a program."""
        if not self._has_recorded:
            self._has_recorded = True
            atexit.register(self._at_exit)

    def use(self) -> None:
        """To be called where a program is submitted, or its plan shown."""
        self._is_used = True

    def message(self) -> str | None:
        """What is said at the end of the process; None: nothing."""
        has_failed = hasattr(sys, "last_value")  # the traceback says more
        is_prompt = hasattr(sys, "ps1")
        if not self._has_recorded or self._is_used or has_failed or is_prompt:
            return None
        return (
            "flinkray: nothing ran: the program recorded a job, and ended without env.execute(), execute_and_collect() "
            "or another call that runs it"
        )

    def _at_exit(self) -> None:
        message = self.message()
        if message is not None:
            print(message, file=sys.stderr)


PROGRAM_USE = ProgramUse()
"""That of this process."""

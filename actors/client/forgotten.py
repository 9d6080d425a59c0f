"""Jobs that end with their program though nobody has waited for them: the program's last words name them."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Protocol


class ForgettableJob(Protocol):
    """A job whose cluster ends with this process."""

    def is_forgotten(self) -> bool:
        """Whether it runs, and nobody is about to take its rows."""

    @property
    def name(self) -> str: ...


class OpenJobs:
    """The jobs of this process that end with it, as long as their clients are not closed.

    They are held here: on Ray the masters of a cluster end once nobody holds their handles, and so a job would whose
    client the program has dropped.
    """

    def __init__(self) -> None:
        self.jobs: list[ForgettableJob] = []
        """Oldest first."""
        self._process = os.getpid()

    def add(self, job: ForgettableJob) -> None:
        if not self.jobs:
            atexit.unregister(self._at_exit)
            atexit.register(self._at_exit)  # anew, to be called before what has been registered meanwhile
            self._process = os.getpid()
        self.jobs.append(job)

    def remove(self, job: ForgettableJob) -> None:
        if job in self.jobs:
            self.jobs.remove(job)

    def message(self) -> str:
        """What is said at the end of the process; empty: nothing."""
        names = [repr(job.name) for job in self.jobs if job.is_forgotten()]
        if not names:
            return ""
        one = f"job {names[0]} still runs, and ends"
        what = one if len(names) == 1 else f"jobs {', '.join(names)} still run, and end"
        return (
            f"flinkray: {what} with the program: wait for client.result(), or submit to Ray with "
            "execution.attached=false to leave it running"
        )

    def _at_exit(self) -> None:
        has_failed = hasattr(sys, "last_value")  # the traceback says more
        is_fork = os.getpid() != self._process  # whose jobs do not end with it
        if not has_failed and not is_fork and (message := self.message()):
            print(message, file=sys.stderr)


OPEN_JOBS = OpenJobs()
"""Those of this process."""

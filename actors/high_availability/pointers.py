"""Who is the JobMaster of a job, and which of its checkpoints are complete. Blocks; for threads that may."""

from __future__ import annotations

from dataclasses import dataclass

from flinkray.errors import FlinkrayError
from flinkray.types import JobId


@dataclass(frozen=True, slots=True)
class CheckpointPointers:
    """What a JobMaster hands on to the one that takes its place."""

    generation: int = 0
    """How many JobMasters the job had before this one."""
    next_id: int = 1
    """Above the id of every checkpoint that was ever begun."""
    directories: tuple[str, ...] = ()
    """URIs of the complete checkpoints that the job can go on from, newest first."""
    ended: bytes = b""
    """A pickle of the JobDetails of a job that has ended, and is not to be run again; empty: it has not."""


class LeadershipLostError(FlinkrayError):
    """Another JobMaster has taken the job over; this one must not do anything for it any more."""


class JobLeadership:
    """One JobMaster's claim on its job. One thread at a time.

    Args:
        directory: high-availability.storageDir (URI), the same for all masters.
    """

    def __init__(self, directory: str, job_id: JobId) -> None:
        self._directory = directory
        self._job_id = job_id

    def take(self) -> CheckpointPointers:
        """Makes this the job's only JobMaster: whoever was that before cannot `record` any more.

        Raises:
            CheckpointError: the store cannot be read or written; names the file.
        """
        raise NotImplementedError

    def record(self, pointers: CheckpointPointers) -> None:
        """Replaces the pointers; after this returns, whoever takes the job over finds these.

        Raises:
            LeadershipLostError: another JobMaster has taken the job over; nothing has changed.
            CheckpointError: the store cannot be written; whoever comes next may find either.
        """
        raise NotImplementedError

"""Who is the JobMaster of a job, and which of its checkpoints are complete. All of it blocks, for threads that may."""

from __future__ import annotations

import base64
import json

from msgspec import Struct

from actors.storage.fenced_log import FencedLog, LeadershipLostError
from actors.storage.record_files import record_files
from flinkray.errors import CheckpointError
from flinkray.filesystems import absolute, join
from flinkray.types.records import JobId
from graphs.job_graph import JobVertexId

__all__ = ["CheckpointPointers", "JobLeadership", "LeadershipLostError", "StopSavepoint"]


class StopSavepoint(Struct, frozen=True):
    """A complete savepoint with which the job is to stop. Sinks may have committed it, so the job runs no further."""

    request_id: str
    """As in TriggerSavepoint: who asked for it may not have the answer yet."""
    directory: str


class CheckpointPointers(Struct, frozen=True):
    """What a JobMaster hands on to the one that takes its place."""

    generation: int = 0
    """How many JobMasters the job had before this one."""
    next_id: int = 1
    """A checkpoint id above that of every checkpoint that was ever begun."""
    directories: tuple[str, ...] = ()
    """URIs of the complete checkpoints that the job can go on from, newest first."""
    ended: bytes = b""
    """A pickle of the JobDetails of a job that has ended, and is not to be run again; empty: it has not."""
    stop: StopSavepoint | None = None
    """What is left to do of the job, if anything, is to stop with this."""
    parallelism: dict[JobVertexId, int] = {}
    """Vertex -> number of its subtasks, of those that have another than the program says since the job was rescaled."""


class JobLeadership:
    """One JobMaster's claim on its job. One thread at a time.

    On local disks, NFS and HDFS no two can ever write after each other's claims. Other file systems have no way to
    create a file only if there is none (see `SharedRecordFiles`): there a claim may be overlooked by a `record` that
    is under way in the same moment, and by none that begins after `take` has returned.

    Args:
        directory: what the Dispatcher handed over (URI), the same for all JobMasters of the job.
    """

    def __init__(self, directory: str, job_id: JobId) -> None:
        self._directory = join(absolute(directory), job_id)
        self._what = f"the checkpoints of job {job_id}"
        self._log: FencedLog | None = None

    def take(self) -> CheckpointPointers:
        """Makes this the job's only JobMaster: whoever was that before cannot `record` any more.

        Raises:
            CheckpointError: the store cannot be read or written; names the file.
        """
        if self._log is None:
            self._log = FencedLog(record_files(self._directory), self._what)
        claim = self._log.take()
        if not claim.content:
            return CheckpointPointers(claim.generation - 1)
        return self._decode(claim.generation - 1, claim.content)

    def record(self, pointers: CheckpointPointers) -> None:
        """Replaces the pointers; after this returns, whoever takes the job over finds these, with its own generation.

        Raises:
            LeadershipLostError: another JobMaster has taken the job over; nothing has changed.
            CheckpointError: the store cannot be written; whoever comes next may find either.
        """
        if self._log is None:
            raise LeadershipLostError(f"{self._what}: cannot be changed by one that has not taken over")
        ended = base64.b64encode(pointers.ended).decode()
        content = {"next_id": pointers.next_id, "directories": pointers.directories, "ended": ended}
        if pointers.stop is not None:
            content["stop"] = {"request_id": pointers.stop.request_id, "directory": pointers.stop.directory}
        if pointers.parallelism:
            content["parallelism"] = pointers.parallelism
        self._log.append(json.dumps(content).encode())

    def _decode(self, generation: int, content: bytes) -> CheckpointPointers:
        try:
            fields = json.loads(content)
            ended = base64.b64decode(fields["ended"])
            stop = StopSavepoint(**fields["stop"]) if "stop" in fields else None
            parallelism = {JobVertexId(key): int(number) for key, number in fields.get("parallelism", {}).items()}
            directories = tuple(fields["directories"])
            return CheckpointPointers(generation, int(fields["next_id"]), directories, ended, stop, parallelism)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{self._what}: what is in {self._directory} was not written by flinkray") from error

"""What a Dispatcher leaves to the one that takes its place: jobs, who their JobMasters are, and results.

Blocks; for threads that may. The table of all jobs is one value of a fenced log. What is large stands in files of its
own, which are written before the table says so and removed after it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.high_availability.stored_jobs import StoreCorruptedError, StoredJob
from actors.protocol.control_messages import JobDetails
from actors.protocol.serialized_value import SerializedValue
from actors.storage.fenced_log import FencedLog
from actors.storage.files import (
    read_file,
    reason,
    remove_directory,
    remove_files,
    resolve_for_checkpoint,
    write_atomically,
)
from actors.storage.record_files import record_files
from flinkray.errors import CheckpointError
from flinkray.filesystems import absolute, join
from flinkray.persistence import dumps, loads
from flinkray.types.records import JobId

if TYPE_CHECKING:
    from graphs.job_graph import JobGraph

_DIGEST_BYTES = hashlib.sha256().digest_size


Table = Mapping[JobId, StoredJob]


class JobStore:
    """The jobs of one cluster. One thread at a time.

    Args:
        directory: of the cluster (path or URI), from `high_availability_directory`.

    Every method raises CheckpointError, which names the file, where the store cannot be read or written; whoever
    comes next may find the job as before or after. Those that change something raise LeadershipLostError, and have
    changed nothing that counts, once another Dispatcher has called `take`.
    """

    def __init__(self, directory: str) -> None:
        self._directory = absolute(directory)
        self._own = join(self._directory, "dispatcher")
        self._log: FencedLog | None = None

    def take(self) -> dict[JobId, StoredJob]:
        """Makes this the cluster's only Dispatcher, and gives its jobs, in the order of their submission."""
        if self._log is None:
            self._log = FencedLog(record_files(self._own), f"the jobs of {self._directory}")
        claim = self._log.take()
        if not claim.content:
            return {}
        jobs: dict[JobId, StoredJob] = self._unpickled(claim.content, self._own)
        return jobs

    def add(self, table: Table, job_id: JobId, job_graph: SerializedValue[JobGraph]) -> None:
        """Stores a new job, which the table has already."""
        self._write(self._graph_of(job_id), job_graph.to_bytes())
        self.save(table)

    def graph(self, job_id: JobId) -> SerializedValue[JobGraph]:
        """The JobGraph of a job that has not ended. Raises StoreCorruptedError as well."""
        path = self._graph_of(job_id)
        # Unpickled here, where a graph that cannot be read can still be told from a JobMaster that dies.
        return SerializedValue(self._unpickled(self._read(path), path))

    def save(self, table: Table) -> None:
        """Replaces the table of all jobs."""
        assert self._log is not None, "a store is taken before it is changed"
        self._log.append(dumps(dict(table)))

    def end(self, table: Table, details: JobDetails) -> None:
        """Stores the result of a job that has ended, as the table says already, and removes all else of it."""
        self._write(self._result_of(details.job_id), dumps(details))
        self.save(table)
        self.forget(details.job_id)

    def expire(self, table: Table, job_id: JobId) -> None:
        """Removes the result of a job for which nobody can ask any more, as the table says already."""
        self.save(table)
        self._remove(self._result_of(job_id))

    def forget(self, job_id: JobId) -> None:
        """Removes what an ended job does not need any more; what stays of it goes with the cluster's directory."""
        self._remove(self._graph_of(job_id))
        with contextlib.suppress(CheckpointError):
            remove_directory(*resolve_for_checkpoint(join(self._directory, job_id)))

    def result(self, job_id: JobId) -> JobDetails:
        """The result of a job that has ended. Raises StoreCorruptedError as well."""
        path = self._result_of(job_id)
        details: JobDetails = self._unpickled(self._read(path), path)
        return details

    def remove(self) -> None:
        """Removes the directory of the cluster, which is down for good."""
        remove_directory(*resolve_for_checkpoint(self._directory))

    # -- inside --------------------------------------------------------------------------------------------------

    def _graph_of(self, job_id: JobId) -> str:
        return join(self._own, f"{job_id}.graph")

    def _result_of(self, job_id: JobId) -> str:
        return join(self._own, f"{job_id}.result")

    @staticmethod
    def _remove(uri: str) -> None:
        with contextlib.suppress(CheckpointError):
            system, path = resolve_for_checkpoint(uri)
            remove_files(system, [path])

    def _write(self, uri: str, content: bytes) -> None:
        """Writes the file as a whole or not at all; twice is the same as once."""
        system, path = resolve_for_checkpoint(uri)
        try:
            write_atomically(system, path, hashlib.sha256(content).digest() + content)
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(f"cannot write {path}: {reason(error)}") from error

    def _read(self, uri: str) -> bytes:
        system, path = resolve_for_checkpoint(uri)
        try:
            data = read_file(system, path)
        except FileNotFoundError as error:
            raise StoreCorruptedError(f"{path} is gone") from error
        content = data[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != data[:_DIGEST_BYTES]:
            raise StoreCorruptedError(f"{path} is corrupt: its checksum does not match")
        return content

    @staticmethod
    def _unpickled(content: bytes, path: str) -> Any:
        try:
            return loads(content)
        except Exception as error:
            raise StoreCorruptedError(f"{path} cannot be read in this process: {error}") from error

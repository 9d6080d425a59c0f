"""Jobs that statements name: those that the client has started, and those of the Ray cluster that it works on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from flinkray.errors import InvalidProgramError
from flinkray.execution import JobClient

LOCAL = "local"


class KnownJob(Struct, frozen=True):
    """A line of SHOW JOBS."""

    job_id: str
    name: str
    status: str
    cluster: str


class ClusterJobs(Protocol):
    """The jobs of a running Ray cluster."""

    def all(self) -> Iterable[KnownJob]:
        """All of them, oldest first; those of clusters that do not answer are left out."""

    def find(self, job: str) -> JobClient:
        """The job whose id is, or begins with, that.

        Raises:
            FlinkrayError: there is none, or there are several.
        """


class Jobs:
    """Jobs by their ids, or by how these begin.

    Args:
        cluster: where to look, too; None: there are only those that are started here.
    """

    def __init__(self, cluster: ClusterJobs | None) -> None:
        self._cluster = cluster
        self._started: dict[str, tuple[str, JobClient]] = {}

    def started(self, name: str, client: JobClient) -> None:
        """Remembers a job that this client has started."""
        self._started[client.job_id] = (name, client)

    def all(self) -> list[KnownJob]:
        """All of them, oldest first."""
        found = {} if self._cluster is None else {job.job_id: job for job in self._cluster.all()}
        for job_id, (name, client) in self._started.items():
            if job_id not in found:
                found[job_id] = KnownJob(job_id, name, client.status().value, LOCAL)
        return list(found.values())

    def running(self) -> list[JobClient]:
        """Those that this client has started, and that have not ended. Clusters of those that have are shut down."""
        running = []
        for _, client in self._started.values():
            if client.status().is_terminal:
                client.close()
            else:
                running.append(client)
        return running

    def close(self) -> None:
        """Shuts down the clusters of jobs that this client has started, and that have one of their own; these jobs
        end."""
        for _, client in self._started.values():
            client.close()

    def find(self, job: str) -> JobClient:
        """The job whose id is, or begins with, that.

        Raises:
            InvalidProgramError: there is none, or there are several.
        """
        found = [client for job_id, (_, client) in self._started.items() if job_id.startswith(job)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidProgramError(f"the ids of {len(found)} jobs begin with {job!r}; SHOW JOBS has them whole")
        if self._cluster is not None:
            return self._cluster.find(job)
        raise InvalidProgramError(f"there is no job {job!r}; SHOW JOBS lists those that there are")

"""A job as its Dispatcher knows it, and how that comes from the store. The functions block, for threads that may."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from actors.high_availability.stored_jobs import StoreCorruptedError, StoredJob
from actors.protocol.control_messages import JobDetails
from actors.protocol.job_reports import JobSummary
from actors.protocol.ports import Address, SessionId
from actors.protocol.serialized_value import SerializedValue
from flinkray.errors import CheckpointError, ErrorInfo
from flinkray.execution import JobStatus
from flinkray.types.records import JobId

if TYPE_CHECKING:
    from actors.high_availability.job_store import JobStore
    from graphs.job_graph import JobGraph

log = logging.getLogger(__name__)


class DispatchedJob(Struct):
    """What one Dispatcher knows of one job."""

    job_id: JobId
    name: str
    started_ms: int
    job_master: Address
    session: SessionId
    number: int = 1
    """Number of its JobMaster; counts from 1."""
    status: JobStatus = JobStatus.INITIALIZING
    is_cancelled: bool = False
    is_stored: bool = True
    is_acknowledged: bool = True
    """Whether its submission was answered, so that another one under its id is a mistake."""
    ending: JobDetails | None = None
    """How the job has ended, while that is yet to be stored."""
    has_rows_to_take: bool = False
    archived: JobDetails | None = None
    """How the job has ended, once that is stored."""
    summary: JobSummary | None = None
    """The same as lists show it, once somebody has asked: they are asked for often."""
    silent_deaths: int = 0
    """How many JobMasters in a row died before they said anything."""
    ha_directory: str = ""
    """Where its JobMasters record what the next one has to know; empty: nothing outlives them."""
    job_graph: SerializedValue[JobGraph] | None = None
    """What the next JobMaster has to run, while the job may need one and no store has it."""
    runtime_env: str = ""
    """What its JobMasters' processes have, as in SubmitJob."""

    @property
    def has_ended(self) -> bool:
        """Whether it is known how the job has ended, be that stored already or not."""
        return self.archived is not None or self.ending is not None

    def stored(self) -> StoredJob:
        """What the next Dispatcher has to know."""
        known = self.ending or self.archived
        return StoredJob(
            self.job_id,
            self.name,
            self.started_ms,
            self.number,
            self.job_master,
            self.session,
            self.is_cancelled,
            None if known is None else known.status,
            self.has_rows_to_take,
            self.runtime_env,
        )

    @staticmethod
    def recovered(stored: StoredJob, details: JobDetails | None) -> DispatchedJob:
        """The job as the Dispatcher before left it; `details` if it has ended."""
        return DispatchedJob(
            stored.job_id,
            stored.name,
            stored.started_ms,
            stored.job_master,
            stored.session,
            stored.number,
            JobStatus.INITIALIZING if details is None else details.status,
            stored.is_cancelled,
            is_acknowledged=False,  # the answer may not have reached the client
            has_rows_to_take=stored.has_rows_to_take,
            archived=details,
            runtime_env=stored.runtime_env,
        )


def recover(store: JobStore) -> list[tuple[StoredJob, JobDetails | None]]:
    """Takes the store over; gives its jobs, those that have ended with their results. Raises as `JobStore` does."""
    return [(job, None if job.status is None else _result(store, job, job.status)) for job in store.take().values()]


def _result(store: JobStore, job: StoredJob, status: JobStatus) -> JobDetails:
    """The result as it was stored; as much as is known of it where it cannot be read any more."""
    try:
        return store.result(job.job_id)
    except StoreCorruptedError as error:
        times = ((JobStatus.INITIALIZING, job.started_ms), (status, job.started_ms))
        return JobDetails(job.job_id, job.name, status, times, error=ErrorInfo.of(error))


def prepare_replacement(
    store: JobStore, table: dict[JobId, StoredJob], job_id: JobId
) -> SerializedValue[JobGraph] | StoreCorruptedError:
    """Stores who the job's next JobMaster is; gives what it has to run, or why that cannot be read any more."""
    try:
        job_graph = store.graph(job_id)
    except StoreCorruptedError as error:
        return error
    store.save(table)
    return job_graph


def forget(directory: str, job_id: JobId) -> None:
    """Removes what JobMasters of an ended job have recorded, where that can be done."""
    _store_in(directory).forget(job_id)


def remove(directories: Iterable[str]) -> None:
    """Removes all that the cluster has stored, where that can be done."""
    for directory in directories:
        try:
            _store_in(directory).remove()
        except CheckpointError as error:
            log.warning("what the cluster had stored is left behind: %s", error)


def _store_in(directory: str) -> JobStore:
    from actors.high_availability.job_store import JobStore  # loads Arrow, which most Dispatchers do without

    return JobStore(directory)

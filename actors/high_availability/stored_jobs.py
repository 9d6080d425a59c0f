"""A job as it stands in the store of its Dispatcher."""

from __future__ import annotations

from msgspec import Struct

from actors.protocol.ports import Address, SessionId
from flinkray.errors import CheckpointError
from flinkray.execution import JobStatus
from flinkray.types.records import JobId


class StoredJob(Struct, frozen=True):
    """A job as its Dispatcher knows it."""

    job_id: JobId
    name: str
    started_ms: int
    number: int
    """Number of its JobMaster; counts from 1."""
    job_master: Address
    session: SessionId
    is_cancelled: bool = False
    """Whether the job was asked to end."""
    status: JobStatus | None = None
    """A terminal status; None: the job has not ended."""
    has_rows_to_take: bool = False
    """Whether the driver has not taken all rows of an ended job yet, as in JobEnded."""
    runtime_env: str = ""
    """What its JobMasters' processes have, as in SubmitJob."""


class StoreCorruptedError(CheckpointError):
    """A file of the store is gone, or holds something else than was written: trying again does not help."""

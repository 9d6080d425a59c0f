"""What a JobMaster tells its Dispatcher: the status of its job, how it ended, and when its rows are taken."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from actors.protocol.control_messages import CollectedRowsTaken, JobDetails, JobEnded, JobStatusChanged
from actors.protocol.main_thread import MainThread
from actors.protocol.ports import Address, EndpointContext, SessionId
from flinkray.execution import JobStatus
from flinkray.types.records import JobId

log = logging.getLogger(__name__)

# How long a job goes on whose Dispatcher is gone, and is to be replaced.
DISPATCHER_TIMEOUT_MS = 300_000.0


class DispatcherConnection:
    """Tells the Dispatcher how the job is, and whoever takes that Dispatcher's place. For the JobMaster's thread."""

    def __init__(
        self,
        context: EndpointContext,
        main_thread: MainThread,
        dispatcher: Address,
        job_id: JobId,
        job_name: str,
        job_session: SessionId,
        on_not_replaced: Callable[[], None],
    ) -> None:
        """
        Args:
            on_not_replaced: called when no other Dispatcher has come for so long that none will.
        """
        self.address = dispatcher
        self._context = context
        self._main_thread = main_thread
        self._job_id = job_id
        self._job_name = job_name
        self._job_session = job_session
        self._on_not_replaced = on_not_replaced
        self._status = JobStatus.INITIALIZING
        self._end: JobEnded | None = None
        """What was reported as the end of the job; None: it has not ended."""
        self._is_lost = False
        self._changes = 0
        """How often the Dispatcher was lost, or another one has come."""

    def status_changed(self, status: JobStatus) -> None:
        """The job has a new status. A terminal one is told by `ended`, together with all that belongs to it."""
        self._status = status
        log.info("job %r is %s", self._job_name, status.value)
        self._tell_status()

    def ended(self, details: JobDetails, has_rows_to_take: bool) -> None:
        """The job is over, and nothing of it is left that should not be."""
        self._end = JobEnded(self._job_session, details, has_rows_to_take)
        self._context.tell(self.address, self._end)

    def rows_taken(self) -> None:
        """The driver has all the rows of the job. Without effect before the end of the job, and the second time."""
        if self._end is not None and self._end.has_rows_to_take:
            self._end = replace(self._end, has_rows_to_take=False)
            self._context.tell(self.address, CollectedRowsTaken(self._job_session, self._job_id))

    def on_replaced(self) -> None:
        """A Dispatcher that has taken another's place asks for the job's status, or its end."""
        self._changes += 1
        self._is_lost = False
        self._tell()

    def on_lost(self) -> None:
        """The Dispatcher is dead. Without another one, nobody could learn what becomes of the job, nor stop it."""
        self._changes += 1
        self._is_lost = True
        self._main_thread.run_later(DISPATCHER_TIMEOUT_MS, partial(self._on_overdue, self._changes))

    def repeat(self, _address: Address, lost: JobStatusChanged | JobEnded | CollectedRowsTaken) -> None:
        """The message was lost: says what is true now, unless the Dispatcher is dead, as the next one will ask."""
        if self._is_lost:
            return
        if isinstance(lost, CollectedRowsTaken):
            self._context.tell(self.address, lost)
        else:
            self._tell()

    def _on_overdue(self, changes: int) -> None:
        if changes == self._changes:
            self._on_not_replaced()

    def _tell(self) -> None:
        if self._end is not None:
            self._context.tell(self.address, self._end)
        else:
            self._tell_status()

    def _tell_status(self) -> None:
        if not self._status.is_terminal:
            self._context.tell(self.address, JobStatusChanged(self._job_session, self._job_id, self._status))

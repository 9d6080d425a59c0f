"""What a JobMaster and its ResourceManager say to each other (Flink's ResourceManagerConnection)."""

from __future__ import annotations

from collections.abc import Callable

from actors.protocol.control_messages import (
    DeclareRequirements,
    DisconnectJobMaster,
    JobMasterRegistered,
    RegisterJobMaster,
    RequestOverview,
)
from actors.protocol.main_thread import MainThread
from actors.protocol.ports import Address, EndpointContext, SessionId
from actors.protocol.resources import ClusterOverview, SlotRequest
from actors.scheduling.liveness.registration import RetryingRegistration
from flinkray.types.records import JobId

# How long a job that gets no slots waits for the ResourceManager's figures before it fails without them.
OVERVIEW_TIMEOUT_MS = 2_000.0

# After so long a ResourceManager hangs that does not answer. The cluster's own timeout is what it would answer, and
# that of the job must not count for a session.
REGISTRATION_TIMEOUT_MS = 50_000.0


class ResourceManagerConnection:
    """Registers the job, declares the slots that it needs, and asks what the cluster has. For the JobMaster's thread.

    A ResourceManager that is lost is replaced by one that knows nothing, where the job registers and declares anew. A
    job that has its slots can do without; one that waits for some waits for the successor, or in vain.
    """

    def __init__(
        self,
        context: EndpointContext,
        main_thread: MainThread,
        resource_manager: Address,
        job_id: JobId,
        job_session: SessionId,
        runtime_env: str = "",
    ) -> None:
        self.address = resource_manager
        self._context = context
        self._main_thread = main_thread
        self._job_id = job_id
        self._job_session = job_session
        self._runtime_env = runtime_env
        self._registration = RetryingRegistration(
            context, main_thread, resource_manager, REGISTRATION_TIMEOUT_MS, self._register
        )
        self.requirements: tuple[SlotRequest, ...] = ()
        """The slots that the job needs now."""
        self._on_overview: Callable[[ClusterOverview | None], None] | None = None
        """Who waits for an overview; None: nobody does."""
        self._is_job_over = False

    def start(self) -> None:
        self._context.watch(self.address)
        self._registration.begin()

    def on_registered(self, message: JobMasterRegistered) -> bool:
        """Whether the job has been registered with this; False: it was before, or another JobMaster is meant."""
        if message.job_session != self._job_session or message.session == self._registration.session:
            return False
        self._registration.answer(message.session)
        self._declare()
        return True

    def on_lost(self) -> None:
        """The ResourceManager is dead, or has given this job up, as it could not be heard."""
        self._registration.begin_anew()

    def declare(self, requirements: tuple[SlotRequest, ...]) -> None:
        """The job needs exactly these slots from now on."""
        self.requirements = requirements
        self._declare()

    def ask_for_overview(self, then: Callable[[ClusterOverview | None], None]) -> None:
        """Calls `then` once with what the cluster has; with None if the ResourceManager does not say it in time."""
        self._on_overview = then
        if self._registration.session is not None:
            self._context.tell(self.address, RequestOverview(self._registration.session, self._job_id))
        self._main_thread.run_later(OVERVIEW_TIMEOUT_MS, lambda: self.on_overview(None))

    def on_overview(self, overview: ClusterOverview | None) -> None:
        """The answer has come, or the time for it is over."""
        then, self._on_overview = self._on_overview, None
        if then is not None:
            then(overview)

    def disconnect(self) -> None:
        """The job is over, and needs nothing any more."""
        self._is_job_over = True
        if self._registration.session is not None:
            end = DisconnectJobMaster(self._registration.session, self._job_id, self._job_session)
            self._context.tell(self.address, end)

    def repeat(self, _address: Address, lost: DeclareRequirements | DisconnectJobMaster) -> None:
        """The message was lost: says what is true now, unless the ResourceManager is another one by now."""
        if lost.session != self._registration.session:
            return
        if isinstance(lost, DeclareRequirements):
            self._declare()
        else:
            self._context.tell(self.address, lost)

    def _register(self, _number: int) -> bool:
        if not self._is_job_over:
            registration = RegisterJobMaster(self._job_id, self._job_session, self._context.address, self._runtime_env)
            self._context.tell(self.address, registration)
        return not self._is_job_over

    def _declare(self) -> None:
        session = self._registration.session
        if session is not None:
            declaration = DeclareRequirements(session, self._job_id, self._job_session, self.requirements)
            self._context.tell(self.address, declaration)

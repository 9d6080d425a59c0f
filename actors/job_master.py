"""The JobMaster: everything about one job. Messages go in, the scheduler decides, commands go out.

What it decides is in `actors.scheduling.scheduler`, and about checkpoints in
`actors.checkpoints.coordination.coordinator`; the coordinators of its sources and sinks are in `actors.coordinators`.
"""

from __future__ import annotations

import logging
import math
import pickle
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from actors.high_availability.pointers import JobLeadership
from actors.jobs.recovery import Recovered, recover
from actors.jobs.running_job import Call, RunningJob, blocking
from actors.protocol.control_messages import (
    RESEND_MS,
    CancelExecutionGraph,
    ClusterOverview,
    Collected,
    CollectedReceived,
    CollectedRowsTaken,
    DeclareRequirements,
    DisconnectJobMaster,
    FreeSlot,
    GetCheckpoints,
    GetJobDetails,
    GetJobProgress,
    GetSavepoint,
    HeartbeatAnswered,
    HeartbeatRequested,
    JobDetails,
    JobEnded,
    JobMasterRegistered,
    JobStatusChanged,
    OfferSlots,
    OverviewReported,
    RegisterJobMaster,
    ReportJob,
    RequestOverview,
    ResourcesMissing,
    SlotFailed,
    SlotOffersAnswered,
    SlotRequest,
    TakeCollected,
    TriggerSavepoint,
)
from actors.protocol.data_messages import (
    AcknowledgeCheckpoint,
    AllocationId,
    CancelTask,
    DeclineCheckpoint,
    DeliverOperatorEvent,
    EndOfDataReached,
    MetricsReported,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventSent,
    ReleasePartitions,
    SessionId,
    SubmitTask,
    TaskStateChanged,
    TriggerCheckpoint,
)
from actors.protocol.ports import Address, DeliveryFailed, Endpoint, EndpointContext, EndpointDied, Payloads
from actors.protocol.serialized_value import SerializedValue
from actors.scheduling.commands import (
    CancelAttempt,
    DeclareSlots,
    DeployTask,
    KillSlot,
    ReleaseResultPartitions,
    ReleaseSlot,
    SchedulerCommand,
    SlotsTimedOut,
    StatusChanged,
)
from actors.scheduling.liveness.heartbeats import HeartbeatMonitor
from actors.scheduling.scheduler import Scheduler
from flinkray.config.options import RESTART_STRATEGY, SLOT_REQUEST_TIMEOUT
from flinkray.errors import CheckpointError, DamagedCheckpointError, ErrorInfo, FlinkrayError
from flinkray.execution import JobProgress, JobStatus
from flinkray.filesystems import join
from flinkray.functions.python_path import add_places
from graphs.job_graph import CheckpointSettings, JobGraph

log = logging.getLogger(__name__)

# How often it looks for slots that do not come or are not needed, and for tasks that do not stop.
TICK_MS = 250.0

# How often a component that nobody has answered yet says again that it is there.
REGISTRATION_RETRY_MS = 1_000.0

# How long it waits for the ResourceManager's figures before it fails a job without them.
OVERVIEW_TIMEOUT_MS = 2_000.0

# How long a job goes on whose Dispatcher is gone, and is to be replaced.
DISPATCHER_TIMEOUT_MS = 300_000.0

# How often, and how long after each other, it tries to read what the job is to start from.
RECOVERY_ATTEMPTS = 5
RECOVERY_RETRY_MS = 1_000.0


class _TickDue(Struct, frozen=True):
    """To itself."""


class _HeartbeatDue(Struct, frozen=True):
    """To itself."""


class _RegisterAgain(Struct, frozen=True):
    """To itself."""


class _OverviewOverdue(Struct, frozen=True):
    """To itself."""


class _DispatcherOverdue(Struct, frozen=True):
    """To itself."""

    losses: int
    """How often it had been lost then."""


_TO_TASKS = (
    SubmitTask,
    CancelTask,
    DeliverOperatorEvent,
    TriggerCheckpoint,
    NotifyCheckpointComplete,
    NotifyCheckpointAborted,
)

# Repeated to a peer that lives and did not get it.
_REPEATED = (
    DeclareRequirements,
    DisconnectJobMaster,
    JobStatusChanged,
    JobEnded,
    CollectedRowsTaken,
    FreeSlot,
)


class JobMaster(Endpoint):
    """See the module. It lives until its Dispatcher ends it."""

    def __init__(
        self,
        context: EndpointContext,
        dispatcher: Address,
        resource_manager: Address,
        session: SessionId,
        serialized_graph: SerializedValue[JobGraph],
        ha_directory: str = "",
    ) -> None:
        """
        Args:
            session: fences this JobMaster; given by the Dispatcher, new for each one that it starts.
            ha_directory: where what the job goes on from is recorded, for the next JobMaster; empty: there will be
                none, and the job ends when this one or the Dispatcher does.
        """
        super().__init__(context)
        job_graph = serialized_graph.deserialize()
        self._dispatcher = dispatcher
        self._resource_manager = resource_manager
        self._session = session
        self._job_graph = job_graph
        self._heartbeat_interval_ms = 0.0
        """The cluster's; 0 until the ResourceManager has said so, before which there is nobody to hear from."""
        self._heartbeats = HeartbeatMonitor(math.inf)
        self._ha_directory = ha_directory
        self._leadership = JobLeadership(ha_directory, job_graph.job_id) if ha_directory else None
        self._job: RunningJob | None = None
        """None: it is not set up yet, or could not be."""
        self._is_cancel_wanted = False
        self._rm_session: SessionId | None = None
        self._requirements: tuple[SlotRequest, ...] = ()
        self._is_overview_wanted = False
        self._dispatcher_losses = 0
        self._is_dispatcher_lost = False
        self._dead: set[Address] = set()
        """Who died. It says something of TaskExecutors only, as masters may be started again."""
        self._is_ended = False
        self._end_report: JobEnded | None = None

    def on_start(self) -> None:
        self.context.watch(self._dispatcher)
        self.context.watch(self._resource_manager)
        self.context.tell_self_later(TICK_MS, _TickDue())
        self._register()
        if self._leadership is not None or self._settings.restore_path:
            self._recover(1)
        else:
            self._start_job(Recovered())
        self._go_on()

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case TaskStateChanged():
                if self._job is not None:
                    self._job.on_task_state(message)
            case OperatorEventSent():
                if self._job is not None:
                    self._job.on_operator_event(message)
            case AcknowledgeCheckpoint() | DeclineCheckpoint() | EndOfDataReached():
                if self._job is not None:
                    self._job.on_checkpoint_message(message)
            case MetricsReported():
                if self._job is not None:
                    self._job.on_metrics(message.metrics)
            case JobMasterRegistered():
                self._on_registered(message)
            case ResourcesMissing() | OverviewReported() if message.job_session == self._session:
                self._on_overview(message)
            case HeartbeatRequested():
                self._heartbeats.hear(message.sender, self._monotonic())
                self.context.tell(message.sender, HeartbeatAnswered(message.session, self.context.address))
            case EndpointDied():
                self._dead.add(message.address)
                self._on_peer_lost(message.address, message.cause)
            case DeliveryFailed():
                self._on_delivery_failed(message)
            case _TickDue() | _HeartbeatDue() | _RegisterAgain() | _OverviewOverdue() | _DispatcherOverdue() | Call():
                self._on_own_message(message)
            case CollectedReceived():
                self._on_received(message.collect_id)
            case _ if getattr(message, "session", None) != self._session:
                log.debug("job %r ignored %r of a past session", self._job_graph.name, message)
            case _:
                self._on_fenced_message(message)
        self._go_on()

    def on_request(self, request: Any) -> Any:
        job = self._job
        match request:
            case GetJobProgress():
                return JobProgress(JobStatus.INITIALIZING, 0, 0, None) if job is None else job.progress()
            case GetJobDetails():
                return self._details()
            case TakeCollected():
                return Collected((), is_end=False, positions=request.positions) if job is None else job.take(request)
            case GetCheckpoints():
                return self._details().checkpoints
            case GetSavepoint():
                return None if job is None else job.savepoint(request.request_id)
            case TriggerSavepoint():
                return self._trigger_savepoint(request)
        return super().on_request(request)

    def check(self) -> None:
        """What always holds between two messages."""
        if self._job is not None:
            self._job.check()
            assert self._job.is_over == self._is_ended, "the end of the job was not reported"

    def _on_fenced_message(self, message: Any) -> None:
        """Messages of peers that know this session."""
        match message:
            case OfferSlots():
                self._on_slots_offered(message)
            case SlotFailed():
                self._on_slot_failed(message)
            case HeartbeatAnswered():
                self._heartbeats.hear(message.sender, self._monotonic())
            case CancelExecutionGraph():
                self._is_cancel_wanted = True
                self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))
            case ReportJob():
                self._report()
            case _:
                raise TypeError(f"a JobMaster does not understand {message!r}")

    def _on_own_message(self, message: Any) -> None:
        match message:
            case _TickDue():
                if not self._is_ended:
                    self._with_scheduler(lambda scheduler: scheduler.tick(self._now()))
                    self.context.tell_self_later(TICK_MS, _TickDue())
            case _HeartbeatDue():
                self._on_heartbeat_due()
            case _RegisterAgain():
                self._register()
            case _OverviewOverdue():
                self._fail_for_slots(None)
            case _DispatcherOverdue():
                if message.losses == self._dispatcher_losses:
                    self._end_without_dispatcher()
            case Call():
                message.callback()

    # -- the job -------------------------------------------------------------------------------------------------

    def _recover(self, attempt: int) -> None:
        """Finds out what the job starts from, and makes this its JobMaster, on another thread."""

        def done(recovered: Any, error: BaseException | None) -> None:
            if error is None:
                self._on_recovered(recovered)
            elif isinstance(error, DamagedCheckpointError) or attempt >= RECOVERY_ATTEMPTS:
                self._fail_at_start(error)
            elif isinstance(error, CheckpointError):
                log.warning("job %r: attempt %d to start failed: %s", self._job_graph.name, attempt, error)
                self.context.tell_self_later(RECOVERY_RETRY_MS, Call(lambda: self._recover(attempt + 1)))
            else:
                self.context.fatal(error)

        settings, leadership = self._settings, self._leadership
        blocking(self.context)(lambda: recover(settings, leadership), done)

    def _on_recovered(self, recovered: Recovered) -> None:
        has_restarts = self._settings.is_periodic or self._job_graph.configuration.get(RESTART_STRATEGY) != "default"
        if recovered.ended:
            self._is_ended = True
            self._report_end(pickle.loads(recovered.ended))
        elif recovered.generation and not has_restarts:
            text = "its JobMaster died, and it has neither checkpoints to go on from nor a restart strategy"
            self._fail_at_start(FlinkrayError(text))
        else:
            self._start_job(recovered)

    def _start_job(self, recovered: Recovered) -> None:
        directory = self._settings.directory
        if self._ha_directory and not directory:
            directory = join(self._ha_directory, "checkpoints")  # in its own memory the next one would not find them
        try:
            add_places(self._job_graph.configuration)
            self._job = RunningJob(
                self.context,
                self._session,
                self._job_graph,
                directory,
                self._leadership,
                recovered,
                self._carry_out,
            )
        except Exception as error:
            log.info("job %r cannot be set up", self._job_graph.name, exc_info=True)
            self._fail_at_start(error)
            return
        self._with_scheduler(lambda scheduler: scheduler.start(self._now()))
        if self._is_cancel_wanted:
            self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))

    @property
    def _settings(self) -> CheckpointSettings:
        return self._job_graph.checkpoint_settings

    def _with_scheduler(self, event: Callable[[Scheduler], None]) -> None:
        """Hands an event over; what follows from it comes in `_go_on`. Before the job is set up nothing can happen."""
        if self._job is not None:
            event(self._job.scheduler)

    def _go_on(self) -> None:
        """At the end of each message."""
        job = self._job
        if job is None:
            return
        job.go_on()
        if job.is_over and not self._is_ended:
            self._is_ended = True
            self._disconnect()
            job.end(self._report_end)

    def _fail_at_start(self, error: BaseException) -> None:
        """There is not even an ExecutionGraph that could go through the states."""
        self._is_ended = True
        self._disconnect()
        now = self._now()
        times = ((JobStatus.INITIALIZING, now), (JobStatus.FAILED, now))
        job_id, name = self._job_graph.job_id, self._job_graph.name
        self._report_end(JobDetails(job_id, name, JobStatus.FAILED, times, error=ErrorInfo.of(error)))

    def _report_end(self, details: JobDetails) -> None:
        has_rows = self._job is not None and self._job.has_rows_to_take and details.status is JobStatus.FINISHED
        self._end_report = JobEnded(self._session, details, has_rows)
        self.context.tell(self._dispatcher, self._end_report)

    def _report(self) -> None:
        """To a Dispatcher that has taken another's place."""
        self._dispatcher_losses += 1
        self._is_dispatcher_lost = False
        self._tell_dispatcher()

    def _tell_dispatcher(self) -> None:
        """The status of the job, or its end."""
        status = JobStatus.INITIALIZING if self._job is None else self._job.scheduler.status
        if self._end_report is not None:
            self.context.tell(self._dispatcher, self._end_report)
        elif not status.is_terminal:
            self._on_status(status)

    def _on_status(self, status: JobStatus) -> None:
        log.info("job %r is %s", self._job_graph.name, status.value)
        if not status.is_terminal:
            self.context.tell(self._dispatcher, JobStatusChanged(self._session, self._job_graph.job_id, status))

    def _details(self) -> JobDetails:
        if self._job is not None:
            return self._job.details()
        times = ((JobStatus.INITIALIZING, self._now()),)
        return JobDetails(self._job_graph.job_id, self._job_graph.name, JobStatus.INITIALIZING, times)

    def _trigger_savepoint(self, request: TriggerSavepoint) -> None:
        if self._job is None:
            raise CheckpointError(f"job {self._job_graph.name!r} has not started yet: ask again when it runs")
        if self._job_graph.is_batch:
            raise CheckpointError(
                f"job {self._job_graph.name!r} runs in batch mode, where there are no checkpoints and no savepoints"
            )
        self._job.trigger_savepoint(request)
        self._go_on()

    def _on_received(self, collect_id: str) -> None:
        if self._job is None:
            return
        self._job.received(collect_id)
        report = self._end_report
        if report is not None and report.has_rows_to_take and not self._job.has_rows_to_take:
            self._end_report = replace(report, has_rows_to_take=False)
            self.context.tell(self._dispatcher, CollectedRowsTaken(self._session, self._job_graph.job_id))

    def _now(self) -> int:
        return self.context.clock.now_ms()

    def _monotonic(self) -> float:
        return self.context.clock.monotonic_ms()

    # -- commands of the scheduler -------------------------------------------------------------------------------

    def _carry_out(self, command: SchedulerCommand) -> None:
        match command:
            case DeployTask():
                self.context.tell(command.task_executor, SubmitTask.of(self._session, command.deployment))
            case CancelAttempt():
                cancel = CancelTask(self._session, command.allocation_id, command.attempt_id)
                self.context.tell(command.task_executor, cancel)
            case ReleaseResultPartitions():
                ids = command.partition_ids
                release = ReleasePartitions(self._session, command.allocation_id, ids)
                self.context.tell(command.task_executor, release)
            case ReleaseSlot():
                free = FreeSlot(self._session, command.allocation_id, command.reason)
                self.context.tell(command.task_executor, free)
                self._forget_unused(command.task_executor)
            case KillSlot():
                self.context.kill(command.slot)
            case DeclareSlots():
                self._requirements = command.requests
                self._declare()
            case StatusChanged():
                self._on_status(command.status)
            case SlotsTimedOut():
                self._ask_for_overview()

    # -- the ResourceManager -------------------------------------------------------------------------------------

    def _disconnect(self) -> None:
        if self._rm_session is not None:
            end = DisconnectJobMaster(self._rm_session, self._job_graph.job_id, self._session)
            self.context.tell(self._resource_manager, end)

    def _register(self) -> None:
        if self._rm_session is None and not self._is_ended:
            job_id = self._job_graph.job_id
            self.context.tell(self._resource_manager, RegisterJobMaster(job_id, self._session, self.context.address))
            self.context.tell_self_later(REGISTRATION_RETRY_MS, _RegisterAgain())

    def _on_registered(self, message: JobMasterRegistered) -> None:
        if message.job_session != self._session or message.session == self._rm_session:
            return
        self._rm_session = message.session
        if not self._heartbeat_interval_ms:
            self._heartbeat_interval_ms = message.heartbeat_interval_ms
            self._heartbeats = HeartbeatMonitor(message.heartbeat_timeout_ms)
            self.context.tell_self_later(self._heartbeat_interval_ms, _HeartbeatDue())
        self._heartbeats.add(self._resource_manager, self._monotonic())
        self._declare()

    def _declare(self) -> None:
        if self._rm_session is not None:
            job_id = self._job_graph.job_id
            declaration = DeclareRequirements(self._rm_session, job_id, self._session, self._requirements)
            self.context.tell(self._resource_manager, declaration)

    def _ask_for_overview(self) -> None:
        self._is_overview_wanted = True
        if self._rm_session is not None:
            self.context.tell(self._resource_manager, RequestOverview(self._rm_session, self._job_graph.job_id))
        self.context.tell_self_later(OVERVIEW_TIMEOUT_MS, _OverviewOverdue())

    def _on_overview(self, message: ResourcesMissing | OverviewReported) -> None:
        if isinstance(message, ResourcesMissing):
            reason, overview = message.reason, message.overview
            is_about_starts = message.is_about_starts
            self._with_scheduler(
                lambda each: each.fail_for_slots(overview, reason, self._now(), is_about_starts=is_about_starts)
            )
        else:
            self._fail_for_slots(message.overview)

    def _fail_for_slots(self, overview: ClusterOverview | None) -> None:
        """The time for slots is over."""
        if self._is_overview_wanted:
            self._is_overview_wanted = False
            waited = self._job_graph.configuration.get(SLOT_REQUEST_TIMEOUT) / 1000
            reason = f"they did not come within {waited:g} s ({SLOT_REQUEST_TIMEOUT.key})"
            self._with_scheduler(lambda each: each.fail_for_slots(overview, reason, self._now(), is_timeout=True))

    # -- TaskExecutors and their slots ---------------------------------------------------------------------------

    def _on_slots_offered(self, message: OfferSlots) -> None:
        task_executor = message.task_executor
        accepted: frozenset[AllocationId] = frozenset()

        def offer(scheduler: Scheduler) -> None:
            nonlocal accepted
            accepted = scheduler.offer_slots(task_executor, message.offers, self._now())
            answer = SlotOffersAnswered(self._session, self._job_graph.job_id, message.offer_id, accepted)
            self.context.tell(task_executor, answer)

        if self._job is not None and self._job.scheduler.pool.slots_of(task_executor) == []:
            self.context.watch(task_executor)
            self._heartbeats.add(task_executor, self._monotonic())
        self._with_scheduler(offer)
        self._forget_unused(task_executor)

    def _on_slot_failed(self, message: SlotFailed) -> None:
        self._with_scheduler(lambda scheduler: scheduler.lose_slot(message.allocation_id, message.cause, self._now()))
        self._forget_unused(message.task_executor)

    def _forget_unused(self, task_executor: Address) -> None:
        if self._job is not None and not self._job.scheduler.pool.slots_of(task_executor):
            self._heartbeats.remove(task_executor)

    # -- who is lost ---------------------------------------------------------------------------------------------

    def _on_heartbeat_due(self) -> None:
        if self._is_ended:
            return
        for peer in self._heartbeats.take_silent(self._monotonic()):
            if peer == self._resource_manager:
                self._rm_session = None
                self._register()  # it has given up this job as well, unless it is dead
            else:
                self._on_peer_lost(peer, "its heartbeats stopped")
        for peer in self._heartbeats.peers():
            if peer != self._resource_manager:
                self.context.tell(peer, HeartbeatRequested(self._session, self.context.address))
        self.context.tell_self_later(self._heartbeat_interval_ms, _HeartbeatDue())

    def _on_peer_lost(self, peer: Address, cause: str) -> None:
        self._heartbeats.remove(peer)
        if peer == self._resource_manager:
            # A job that has its slots can do without. One that waits for some waits for its successor, or in vain.
            self._rm_session = None
            self._register()
        elif peer == self._dispatcher:
            self._on_dispatcher_lost()
        else:
            text = f"{peer} is lost: {cause}"
            self._with_scheduler(lambda scheduler: scheduler.lose_task_executor(peer, text, self._now()))

    def _on_dispatcher_lost(self) -> None:
        """Without another one, nobody could learn what becomes of the job, nor stop it."""
        if not self._ha_directory:
            self._is_cancel_wanted = True
            self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))
        self._dispatcher_losses += 1
        self._is_dispatcher_lost = True
        self.context.tell_self_later(DISPATCHER_TIMEOUT_MS, _DispatcherOverdue(self._dispatcher_losses))

    def _end_without_dispatcher(self) -> None:
        """Nobody has come in its place for so long that nobody will. A job that has ended by now is of no use."""
        if self._is_ended:
            self.context.kill(self.context.address)
            return
        self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))
        self._on_dispatcher_lost()

    def _on_delivery_failed(self, message: DeliveryFailed) -> None:
        """What waits for an answer to that message, or for what it leads to, would wait for ever."""
        log.debug("%s did not get %r: %s", message.address, message.message, message.cause)
        lost = message.message
        if isinstance(lost, _TO_TASKS):
            self._give_up_slot(lost.allocation_id, message)
        elif isinstance(lost, _REPEATED):
            self.context.tell_self_later(RESEND_MS, Call(lambda: self._repeat(message.address, lost)))

    def _repeat(self, address: Address, lost: Any) -> None:
        """Says what is true now, to one that lives as far as is known; if it died, another one is told all anew."""
        match lost:
            case DeclareRequirements() if lost.session == self._rm_session:
                self._declare()
            case DisconnectJobMaster() if lost.session == self._rm_session:
                self.context.tell(address, lost)
            case JobStatusChanged() | JobEnded() if not self._is_dispatcher_lost:
                self._tell_dispatcher()
            case CollectedRowsTaken() if not self._is_dispatcher_lost:
                self.context.tell(address, lost)
            case FreeSlot() if address not in self._dead:
                self.context.tell(address, lost)

    def _give_up_slot(self, allocation_id: AllocationId, failed: DeliveryFailed) -> None:
        cause = f"{failed.address} did not get {type(failed.message).__name__}: {failed.cause}"
        self._with_scheduler(lambda scheduler: scheduler.give_up_slot(allocation_id, cause, self._now()))

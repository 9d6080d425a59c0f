"""The JobMaster: everything about one job. Messages go in, the scheduler decides, commands go out.

What it decides is in `actors.scheduling.scheduler`, and about checkpoints in
`actors.checkpoints.coordination.coordinator`; the coordinators of its sources and sinks are in `actors.coordinators`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from actors.checkpoints.coordination.failures import StoppingFailedError
from actors.high_availability.pointers import JobLeadership, StopSavepoint
from actors.jobs.dispatcher_connection import DispatcherConnection
from actors.jobs.recovery import Recovered, recover
from actors.jobs.resource_manager_connection import ResourceManagerConnection
from actors.jobs.running_job import RunningJob
from actors.logs.context import LogContext
from actors.logs.setting_up import LogSettings
from actors.protocol.client_requests import (
    Collected,
    CollectedReceived,
    GetCheckpoints,
    GetJobDetails,
    GetJobProgress,
    GetRescale,
    GetSavepoint,
    GetTriggeredCheckpoint,
    Rescale,
    TakeCollected,
    TriggerPeriodicCheckpoint,
    TriggerSavepoint,
)
from actors.protocol.control_messages import (
    CancelExecutionGraph,
    CollectedRowsTaken,
    DeclareRequirements,
    DisconnectJobMaster,
    FreeSlot,
    HeartbeatAnswered,
    HeartbeatRequested,
    JobDetails,
    JobEnded,
    JobMasterRegistered,
    JobStatusChanged,
    OfferSlots,
    OverviewReported,
    ReportJob,
    ResourcesMissing,
    SavepointResult,
    SlotFailed,
    SlotOffersAnswered,
)
from actors.protocol.job_reports import (
    CheckpointReport,
    GetCheckpointReport,
    GetJobSummary,
    GetPriorAttempts,
    GetRateHistory,
    JobSummary,
)
from actors.protocol.main_thread import MainThread, RunAsync
from actors.protocol.ports import Address, DeliveryFailed, Endpoint, EndpointContext, EndpointDied, Payloads, SessionId
from actors.protocol.resources import AllocationId, ClusterOverview
from actors.protocol.serialized_value import SerializedValue
from actors.protocol.task_messages import (
    AddJobFiles,
    CancelTask,
    DeliverOperatorEvent,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    ReleasePartitions,
    SubmitTask,
    TaskDeployment,
    TaskReport,
    TriggerCheckpoint,
)
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
from actors.scheduling.liveness.heartbeats import HEARTBEATS_STOPPED, Heartbeats
from actors.scheduling.liveness.lost_messages import LostMessages
from actors.scheduling.scheduler import Scheduler
from actors.user_code.job_files import JobFiles, JobFilesError
from flinkray.config.options import RESTART_STRATEGY, SLOT_REQUEST_TIMEOUT
from flinkray.config.python_options import RUNTIME_ENV
from flinkray.errors import (
    CheckpointError,
    DamagedCheckpointError,
    ErrorInfo,
    FlinkrayError,
    RescaleError,
    message_of,
)
from flinkray.execution import JobProgress, JobStatus
from flinkray.filesystems import join
from flinkray.functions.program_files import modules_among
from flinkray.functions.python_path import add_directories
from flinkray.persistence import loads
from graphs.job_graph import CheckpointSettings, JobGraph, JobVertexId, OperatorConfig

log = logging.getLogger(__name__)

# How often it looks for slots that do not come or are not needed, and for tasks that do not stop.
TICK_MS = 250.0

# How often, and how long after each other, it tries to read what the job is to start from.
RECOVERY_ATTEMPTS = 5
RECOVERY_RETRY_MS = 1_000.0


_TO_TASKS = (
    AddJobFiles,
    SubmitTask,
    CancelTask,
    DeliverOperatorEvent,
    TriggerCheckpoint,
    NotifyCheckpointComplete,
    NotifyCheckpointAborted,
)


class JobMaster(Endpoint):
    """Runs one job, and answers for it after its end until the Dispatcher ends this endpoint (Flink's JobMaster)."""

    def __init__(
        self,
        context: EndpointContext,
        dispatcher: Address,
        resource_manager: Address,
        session: SessionId,
        serialized_graph: SerializedValue[JobGraph],
        ha_directory: str = "",
        outlives_dispatcher: bool = True,
    ) -> None:
        """
        Args:
            session: fences this JobMaster; given by the Dispatcher, new for each one that it starts.
            ha_directory: where what the job goes on from is recorded, for the next JobMaster; empty: there will be
                none, and the job ends when this one or the Dispatcher does.
            outlives_dispatcher: a Dispatcher that dies is replaced by one that knows the job, where there is such a
                directory.
        """
        job_graph = serialized_graph.deserialize()
        settings = LogSettings.of(job_graph.configuration)
        super().__init__(context, settings, LogContext(job_graph.job_id, job_graph.name))
        self._session = session
        self._job_graph = job_graph
        self._main_thread = MainThread(context)
        self._resource_manager = ResourceManagerConnection(
            context,
            self._main_thread,
            resource_manager,
            job_graph.job_id,
            session,
            job_graph.configuration.get(RUNTIME_ENV),
        )
        self._dispatcher = DispatcherConnection(
            context,
            self._main_thread,
            dispatcher,
            job_graph.job_id,
            job_graph.name,
            session,
            self._on_dispatcher_not_replaced,
        )
        self._heartbeats = Heartbeats(context, self._main_thread, self._on_silent, session=session)
        self._lost_messages = LostMessages(
            self._main_thread,
            {
                DeclareRequirements: self._resource_manager.repeat,
                DisconnectJobMaster: self._resource_manager.repeat,
                JobStatusChanged: self._dispatcher.repeat,
                JobEnded: self._dispatcher.repeat,
                CollectedRowsTaken: self._dispatcher.repeat,
                FreeSlot: self._repeat_to_task_executor,
            },
        )
        self._ha_directory = ha_directory
        self._outlives_dispatcher = bool(ha_directory) and outlives_dispatcher
        self._leadership = JobLeadership(ha_directory, job_graph.job_id) if ha_directory else None
        self._job: RunningJob | None = None
        """The job once it is set up; None before, and for ever where it could not be."""
        self._is_cancel_wanted = False
        self._is_abandoned = False
        """No Dispatcher is left that could know of the job."""
        self._stop: StopSavepoint | None = None
        """The savepoint with which the JobMaster before was stopping the job."""
        self._is_ended = False
        self._files = JobFiles(modules_among(job_graph.cached_files))
        self._sent: dict[AllocationId, dict[JobVertexId, tuple[OperatorConfig, ...]]] = {}
        """The code that slots have; those that have any have the job's files too."""
        self._dead: set[Address] = set()
        """Endpoints that died. For TaskExecutors alone that is for good: masters may be started again."""

    def on_start(self) -> None:
        self.context.watch(self._dispatcher.address)
        self._resource_manager.start()
        self._ticks = self._main_thread.run_every(TICK_MS, self._tick)
        if self._leadership is not None or self._settings.restore_path or self._files.has_modules:
            self._recover(1)
        else:
            self._start_job(Recovered())
        self._go_on()

    def on_stop(self) -> None:
        self._files.close()

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case _ if isinstance(message, TaskReport):
                if self._job is not None:
                    self._job.on_task_report(message)
            case JobMasterRegistered():
                self._on_registered(message)
            case ResourcesMissing() | OverviewReported() if message.job_session == self._session:
                self._on_overview(message)
            case HeartbeatRequested():
                self._heartbeats.on_message(message)
            case EndpointDied():
                self._dead.add(message.address)
                self._on_peer_lost(message.address, message.cause)
            case DeliveryFailed():
                self._on_delivery_failed(message)
            case RunAsync():
                message.callback()
            case CollectedReceived():
                self._on_rows_received(message.collect_id)
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
            case GetJobSummary():
                return JobSummary() if job is None else job.summary()
            case GetCheckpointReport():
                return CheckpointReport() if job is None else job.checkpoint_report()
            case GetPriorAttempts():
                return () if job is None else job.prior_attempts(request.vertex_id)
            case GetRateHistory():
                return () if job is None else job.rate_history(request.vertex_id)
            case TriggerPeriodicCheckpoint():
                return self._trigger_checkpoint(request.request_id)
            case Rescale():
                return self._rescale(request)
            case GetRescale():
                return None if job is None else job.rescale_result(request.request_id)
            case GetTriggeredCheckpoint():
                return None if job is None else job.triggered_checkpoint(request.request_id)
        return super().on_request(request)

    def check(self) -> None:
        """What always holds between two messages."""
        if self._job is not None:
            self._job.check()
            assert self._job.is_over == self._is_ended, "the end of the job was not reported"

    def _on_fenced_message(self, message: Any) -> None:
        """Acts on messages of peers that know this session."""
        match message:
            case OfferSlots():
                self._on_slots_offered(message)
            case SlotFailed():
                self._on_slot_failed(message)
            case HeartbeatAnswered():
                self._heartbeats.on_message(message)
            case CancelExecutionGraph():
                self._cancel()
            case ReportJob():
                self._dispatcher.on_replaced()
            case _:
                raise TypeError(f"a JobMaster does not understand {message!r}")

    def _tick(self) -> None:
        self._with_scheduler(lambda scheduler: scheduler.tick(self._now()))

    def _cancel(self) -> None:
        self._is_cancel_wanted = True
        self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))

    # -- the job -------------------------------------------------------------------------------------------------

    def _recover(self, attempt: int) -> None:
        """Finds out what the job starts from, and makes this its JobMaster, on another thread."""

        def done(recovered: Any, error: BaseException | None) -> None:
            if error is None:
                self._on_recovered(recovered)
            elif isinstance(error, DamagedCheckpointError | JobFilesError) or attempt >= RECOVERY_ATTEMPTS:
                self._fail_at_start(error)
            elif isinstance(error, CheckpointError):
                log.warning("job %r: attempt %d to start failed: %s", self._job_graph.name, attempt, error)
                self._main_thread.run_later(RECOVERY_RETRY_MS, lambda: self._recover(attempt + 1))
            else:
                self.context.fatal(error)

        settings, leadership, files = self._settings, self._leadership, self._files

        def work() -> Recovered:
            files.prepare()
            return recover(settings, leadership)

        self._main_thread.run_blocking(work, done)

    def _on_recovered(self, recovered: Recovered) -> None:
        self._stop = recovered.stop
        has_restarts = self._settings.is_periodic or self._job_graph.configuration.get(RESTART_STRATEGY) != "default"
        if recovered.ended:
            self._end()
            self._report_end(loads(recovered.ended))
        elif recovered.generation and not has_restarts and recovered.stop is None:
            text = "its JobMaster died, and it has neither checkpoints to go on from nor a restart strategy"
            self._fail_at_start(FlinkrayError(text))
        else:
            self._start_job(recovered)

    def _start_job(self, recovered: Recovered) -> None:
        directory = self._settings.directory
        if self._ha_directory and not directory:
            directory = join(self._ha_directory, "checkpoints")  # another JobMaster is to find them
        try:
            add_directories(self._job_graph.configuration)
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
        """Hands an event over; what follows from it is done in `_go_on`. Without effect before the job is set up."""
        if self._job is not None:
            event(self._job.scheduler)

    def _go_on(self) -> None:
        """Does what a message has led to; called after each."""
        job = self._job
        if job is None:
            return
        job.go_on()
        if job.is_over and not self._is_ended:
            self._end()
            job.end(self._report_end, is_abandoned=self._is_abandoned)

    def _end(self) -> None:
        """There is nothing more to do for the job, but to answer those who ask for it."""
        self._is_ended = True
        self._ticks.cancel()
        self._heartbeats.stop()
        self._resource_manager.disconnect()

    def _fail_at_start(self, error: BaseException) -> None:
        """The job could not even get an ExecutionGraph that could go through the states."""
        self._end()
        now = self._now()
        times = ((JobStatus.INITIALIZING, now), (JobStatus.FAILED, now))
        job_id, name = self._job_graph.job_id, self._job_graph.name
        savepoints: tuple[SavepointResult, ...] = ()
        if self._stop is not None:
            stopped = StoppingFailedError.of(self._stop.directory, message_of(error))
            savepoints = (SavepointResult(self._stop.request_id, None, ErrorInfo.of(stopped)),)
        info = ErrorInfo.of(error)
        self._report_end(JobDetails(job_id, name, JobStatus.FAILED, times, error=info, savepoints=savepoints))

    def _report_end(self, details: JobDetails) -> None:
        has_rows = self._job is not None and self._job.has_rows_to_take and details.status is JobStatus.FINISHED
        self._dispatcher.ended(details, has_rows)

    def _details(self) -> JobDetails:
        if self._job is not None:
            return self._job.details()
        times = ((JobStatus.INITIALIZING, self._now()),)
        return JobDetails(self._job_graph.job_id, self._job_graph.name, JobStatus.INITIALIZING, times)

    def _trigger_savepoint(self, request: TriggerSavepoint) -> None:
        self._job_for(CheckpointError).trigger_savepoint(request)
        self._go_on()

    def _trigger_checkpoint(self, request_id: str) -> None:
        self._job_for(CheckpointError).trigger_checkpoint(request_id)
        self._go_on()

    def _rescale(self, request: Rescale) -> None:
        self._job_for(RescaleError).rescale(request)
        self._go_on()

    def _job_for(self, refusal: type[FlinkrayError]) -> RunningJob:
        """The job, for what needs checkpoints; raises `refusal` where there is none yet, or it can have none."""
        name = self._job_graph.name
        if self._job is None:
            raise refusal(f"job {name!r} has not started yet: ask again when it runs")
        if self._job_graph.is_batch:
            raise refusal(
                f"job {name!r} runs in batch mode, where there are no checkpoints, no savepoints and no rescales"
            )
        return self._job

    def _on_rows_received(self, collect_id: str) -> None:
        """The driver has all the rows that it wants of one sink."""
        if self._job is not None:
            self._job.received(collect_id)
            if not self._job.has_rows_to_take:
                self._dispatcher.rows_taken()

    def _now(self) -> int:
        return self.context.clock.now_ms()

    # -- commands of the scheduler -------------------------------------------------------------------------------

    def _carry_out(self, command: SchedulerCommand) -> None:
        match command:
            case DeployTask():
                self._deploy(command.task_executor, command.deployment)
            case CancelAttempt():
                cancel = CancelTask(self._session, command.allocation_id, command.attempt_id)
                self.context.tell(command.task_executor, cancel)
            case ReleaseResultPartitions():
                ids = command.partition_ids
                release = ReleasePartitions(self._session, command.allocation_id, ids)
                self.context.tell(command.task_executor, release)
            case ReleaseSlot():
                self._sent.pop(command.allocation_id, None)
                free = FreeSlot(self._session, command.allocation_id, command.reason)
                self.context.tell(command.task_executor, free)
                self._forget_unused(command.task_executor)
            case KillSlot():
                self.context.kill(command.slot)
            case DeclareSlots():
                self._resource_manager.declare(command.requests)
            case StatusChanged():
                self._dispatcher.status_changed(command.status)
            case SlotsTimedOut():
                self._resource_manager.ask_for_overview(self._fail_for_slots)

    def _deploy(self, task_executor: Address, deployment: TaskDeployment) -> None:
        """Sends a task with what its slot does not have yet: the slot's process is the job's until it ends, and tasks
        may start in it again and again."""
        session, allocation_id, vertex_id = self._session, deployment.allocation_id, deployment.vertex_id
        sent = self._sent.setdefault(allocation_id, {})
        if not sent and self._job_graph.cached_files:
            files = SerializedValue(self._job_graph.cached_files)
            self.context.tell(task_executor, AddJobFiles(session, allocation_id, files))
        if sent.get(vertex_id) is deployment.operators:
            deployment = replace(deployment, operators=())
        else:
            sent[vertex_id] = deployment.operators
        self.context.tell(task_executor, SubmitTask.of(session, deployment))

    # -- the ResourceManager -------------------------------------------------------------------------------------

    def _on_registered(self, message: JobMasterRegistered) -> None:
        if self._resource_manager.on_registered(message):
            self._heartbeats.start(message.heartbeat_interval_ms, message.heartbeat_timeout_ms)
            self._heartbeats.monitor(self._resource_manager.address, asks_itself=True)

    def _on_overview(self, message: ResourcesMissing | OverviewReported) -> None:
        if isinstance(message, ResourcesMissing):
            reason, overview = message.reason, message.overview
            is_about_starts = message.is_about_starts
            self._with_scheduler(
                lambda each: each.fail_for_slots(overview, reason, self._now(), is_about_starts=is_about_starts)
            )
        else:
            self._resource_manager.on_overview(message.overview)

    def _fail_for_slots(self, overview: ClusterOverview | None) -> None:
        """The time for slots is over, and the ResourceManager has answered or is silent."""
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
            self._heartbeats.monitor(task_executor)
        self._with_scheduler(offer)
        self._forget_unused(task_executor)

    def _on_slot_failed(self, message: SlotFailed) -> None:
        self._sent.pop(message.allocation_id, None)
        self._with_scheduler(lambda scheduler: scheduler.lose_slot(message.allocation_id, message.cause, self._now()))
        self._forget_unused(message.task_executor)

    def _forget_unused(self, task_executor: Address) -> None:
        if self._job is not None and not self._job.scheduler.pool.slots_of(task_executor):
            self._heartbeats.unmonitor(task_executor)

    # -- who is lost ---------------------------------------------------------------------------------------------

    def _on_silent(self, peer: Address) -> None:
        # A ResourceManager that is silent has given up this job as well, unless it is dead.
        self._on_peer_lost(peer, HEARTBEATS_STOPPED)

    def _on_peer_lost(self, peer: Address, cause: str) -> None:
        self._heartbeats.unmonitor(peer)
        if peer == self._resource_manager.address:
            self._resource_manager.on_lost()
        elif peer == self._dispatcher.address:
            if not self._outlives_dispatcher:
                self._abandon()
            self._dispatcher.on_lost()
        else:
            text = f"{peer} is lost: {cause}"
            self._with_scheduler(lambda scheduler: scheduler.lose_task_executor(peer, text, self._now()))

    def _on_dispatcher_not_replaced(self) -> None:
        """No Dispatcher can ask for the job any more: it is cancelled, and this endpoint ends once it has ended."""
        if self._is_ended:
            self.context.kill(self.context.address)
            return
        self._abandon()
        self._dispatcher.on_lost()

    def _abandon(self) -> None:
        self._is_abandoned |= not self._is_cancel_wanted
        self._cancel()

    def _on_delivery_failed(self, failure: DeliveryFailed) -> None:
        """Sees to it that nobody waits for ever for an answer to the message, or for what it would have led to."""
        lost = failure.message
        if isinstance(lost, _TO_TASKS):
            cause = f"{failure.address} did not get {type(lost).__name__}: {failure.cause}"
            allocation_id = lost.allocation_id
            self._with_scheduler(lambda scheduler: scheduler.give_up_slot(allocation_id, cause, self._now()))
        else:
            self._lost_messages.on_delivery_failed(failure)

    def _repeat_to_task_executor(self, task_executor: Address, lost: FreeSlot) -> None:
        if task_executor not in self._dead:
            self.context.tell(task_executor, lost)

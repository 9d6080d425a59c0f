"""The JobMaster: everything about one job. Messages go in, the scheduler decides, commands go out.

What it decides is in `actors.scheduling.scheduler`, and about checkpoints in `actors.checkpoints.coordinator`; the
coordinators of its sources and sinks are in `actors.coordinators`.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from actors.checkpoints.job_checkpoints import JobCheckpoints
from actors.checkpoints.recovery import Recovered, recover
from actors.checkpoints.storage import CheckpointDirectories
from actors.checkpoints.storing import Done, RunBlocking
from actors.control_messages import (
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
    ResourceProfile,
    ResourcesMissing,
    SlotFailed,
    SlotOffersAnswered,
    SlotRequest,
    TakeCollected,
    TriggerSavepoint,
)
from actors.coordinators.base import CoordinatorContext
from actors.coordinators.job_coordinators import JobCoordinators
from actors.high_availability.pointers import JobLeadership
from actors.messages import (
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
    SessionId,
    SubmitTask,
    TaskStateChanged,
    TriggerCheckpoint,
)
from actors.ports import Address, Cancellable, Clock, DeliveryFailed, Endpoint, EndpointContext, EndpointDied, Payloads
from actors.scheduling.failover import failover_strategy_of
from actors.scheduling.heartbeats import HeartbeatMonitor
from actors.scheduling.job_metrics import JobMetrics, job_details
from actors.scheduling.restart_strategies import strategy_of
from actors.scheduling.scheduler import (
    CancelAttempt,
    Command,
    DeclareSlots,
    DeployTask,
    KillSlot,
    ReleaseSlot,
    Scheduler,
    SlotsTimedOut,
    StatusChanged,
    SubtasksReset,
    SubtaskStarted,
)
from flinkray.errors import CheckpointError, DamagedCheckpointError, ErrorInfo, FlinkrayError
from flinkray.execution import JobProgress, JobStatus
from flinkray.filesystems import join
from flinkray.options import (
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    RESTART_STRATEGY,
    SLOT_CPUS,
    SLOT_IDLE_TIMEOUT,
    SLOT_REQUEST_TIMEOUT,
)
from flinkray.types import OperatorId
from graphs.execution_graph import AttemptId, Execution, ExecutionGraph, ExecutionVertexId
from graphs.job_graph import CheckpointSettings, JobGraph, JobVertexId
from graphs.states import ExecutionState

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


@dataclass(frozen=True, slots=True)
class _TickDue:
    """To itself."""


@dataclass(frozen=True, slots=True)
class _HeartbeatDue:
    """To itself."""


@dataclass(frozen=True, slots=True)
class _RegisterAgain:
    """To itself."""


@dataclass(frozen=True, slots=True)
class _OverviewOverdue:
    """To itself."""


@dataclass(frozen=True, slots=True)
class _DispatcherOverdue:
    """To itself."""

    losses: int
    """How often it had been lost then."""


@dataclass(frozen=True, slots=True)
class _Call:
    """To itself: what a part of it wants to run in this thread."""

    callback: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _JobBroken:
    """To itself: a coordinator says that the job cannot go on."""

    error: ErrorInfo


_TO_TASKS = (CancelTask, DeliverOperatorEvent, TriggerCheckpoint, NotifyCheckpointComplete, NotifyCheckpointAborted)


class JobMaster(Endpoint):
    """See the module. It lives until its Dispatcher ends it.

    It implements `actors.checkpoints.job_checkpoints.CheckpointShell`.
    """

    def __init__(
        self,
        context: EndpointContext,
        dispatcher: Address,
        resource_manager: Address,
        session: SessionId,
        job_graph: JobGraph,
        ha_directory: str = "",
    ) -> None:
        """
        Args:
            session: fences this JobMaster; given by the Dispatcher, new for each one that it starts.
            ha_directory: where what the job goes on from is recorded, for the next JobMaster; empty: there will be
                none, and the job ends when this one or the Dispatcher does.
        """
        super().__init__(context)
        self._dispatcher = dispatcher
        self._resource_manager = resource_manager
        self._session = session
        self._job_graph = job_graph
        configuration = job_graph.configuration
        self._slot_profile = ResourceProfile(configuration.get(SLOT_CPUS))
        self._heartbeat_interval_ms = max(1.0, float(configuration.get(HEARTBEAT_INTERVAL)))
        self._heartbeats = HeartbeatMonitor(float(configuration.get(HEARTBEAT_TIMEOUT)))
        self._ha_directory = ha_directory
        self._leadership = JobLeadership(ha_directory, job_graph.job_id) if ha_directory else None
        self._generation = 0
        self._scheduler: Scheduler | None = None
        self._metrics: JobMetrics | None = None
        self._coordinators: JobCoordinators | None = None
        self._checkpoints: JobCheckpoints | None = None
        self._reset: SubtasksReset | None = None
        """Subtasks that are to start again, once it is known what from."""
        self._is_cancel_wanted = False
        self._undrained: set[str] = set()
        """Collect ids whose rows the driver does not all have yet."""
        self._rm_session: SessionId | None = None
        self._requirements: tuple[SlotRequest, ...] = ()
        self._is_overview_wanted = False
        self._dispatcher_losses = 0
        self._is_ended = False
        self._end_report: JobEnded | None = None

    def on_start(self) -> None:
        self.context.watch(self._dispatcher)
        self.context.watch(self._resource_manager)
        self.context.tell_self_later(TICK_MS, _TickDue())
        self.context.tell_self_later(self._heartbeat_interval_ms, _HeartbeatDue())
        self._register()
        if self._leadership is not None or self._settings.restore_path:
            self._recover(1)
        else:
            self._start_job(Recovered())
        self._go_on()

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case TaskStateChanged():
                self._on_task_state(message)
            case OperatorEventSent():
                self._on_operator_event(message)
            case AcknowledgeCheckpoint() | DeclineCheckpoint() | EndOfDataReached():
                if self._checkpoints is not None:
                    self._checkpoints.on_message(message)
            case MetricsReported():
                if self._metrics is not None:
                    self._metrics.report(message.metrics)
            case JobMasterRegistered():
                self._on_registered(message)
            case ResourcesMissing() | OverviewReported() if message.job_session == self._session:
                self._on_overview(message)
            case HeartbeatRequested():
                self._heartbeats.hear(message.sender, self._monotonic())
                self.context.tell(message.sender, HeartbeatAnswered(message.session, self.context.address))
            case EndpointDied():
                self._on_peer_lost(message.address, message.cause)
            case DeliveryFailed():
                self._on_delivery_failed(message)
            case _TickDue() | _HeartbeatDue() | _RegisterAgain() | _OverviewOverdue() | _DispatcherOverdue() | _Call():
                self._on_own_message(message)
            case CollectedReceived():
                self._on_received(message.collect_id)
            case _JobBroken():
                self.fail_job(message.error)
            case _ if getattr(message, "session", None) != self._session:
                log.debug("job %r ignored %r of a past session", self._job_graph.name, message)
            case _:
                self._on_fenced_message(message)
        self._go_on()

    def on_request(self, request: Any) -> Any:
        match request:
            case GetJobProgress():
                return self._progress()
            case GetJobDetails():
                return self._details()
            case TakeCollected():
                return self._take(request)
            case GetCheckpoints():
                return self._details().checkpoints
            case GetSavepoint():
                results = self._details().savepoints
                return next((each for each in results if each.request_id == request.request_id), None)
            case TriggerSavepoint():
                return self._trigger_savepoint(request)
        return super().on_request(request)

    def check(self) -> None:
        """What always holds between two messages."""
        if self._scheduler is not None and self._checkpoints is not None:
            self._scheduler.check()
            self._checkpoints.check()
            is_over = self._scheduler.status.is_terminal
            assert is_over == self._is_ended or self._checkpoints.is_storing, "the end of the job was not reported"
            assert self._reset is None or self._checkpoints.is_storing, "a restart waits for nothing"

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
                    self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))
            case _Call():
                message.callback()

    # -- the job -------------------------------------------------------------------------------------------------

    @property
    def _settings(self) -> CheckpointSettings:
        return self._job_graph.checkpoint_settings

    def _recover(self, attempt: int) -> None:
        """Finds out what the job starts from, and makes this its JobMaster, on another thread."""

        def done(recovered: Any, error: BaseException | None) -> None:
            if error is None:
                self._on_recovered(recovered)
            elif isinstance(error, DamagedCheckpointError) or attempt >= RECOVERY_ATTEMPTS:
                self.fail_job(ErrorInfo.of(error))
            elif isinstance(error, CheckpointError):
                log.warning("job %r: attempt %d to start failed: %s", self._job_graph.name, attempt, error)
                self.call_later(RECOVERY_RETRY_MS, lambda: self._recover(attempt + 1))
            else:
                self.give_up(error)

        settings, leadership = self._settings, self._leadership
        self.run_blocking(lambda: recover(settings, leadership), done)

    def _on_recovered(self, recovered: Recovered) -> None:
        has_restarts = self._settings.is_periodic or self._job_graph.configuration.get(RESTART_STRATEGY) != "default"
        if recovered.ended:
            self._is_ended = True
            self._report_end(pickle.loads(recovered.ended), has_rows=False)
        elif recovered.generation and not has_restarts:
            text = "its JobMaster died, and it has neither checkpoints to go on from nor a restart strategy"
            self.fail_job(ErrorInfo.of(FlinkrayError(text)))
        else:
            self._start_job(recovered)

    def _start_job(self, recovered: Recovered) -> None:
        try:
            self._set_up(recovered)
        except Exception as error:
            log.info("job %r cannot be set up", self._job_graph.name, exc_info=True)
            self._scheduler = None
            self.fail_job(ErrorInfo.of(error))
            return
        self._with_scheduler(lambda scheduler: scheduler.start(self._now()))
        if self._is_cancel_wanted:
            self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))

    def _set_up(self, recovered: Recovered) -> None:
        job_graph, settings = self._job_graph, self._settings
        configuration = job_graph.configuration
        self._generation = recovered.generation
        graph = ExecutionGraph.from_job_graph(job_graph, generation=recovered.generation, now_ms=self._now())
        self._coordinators = coordinators = JobCoordinators(graph, self._context_of, settings.is_periodic)
        checkpoint_directory = settings.directory or (
            join(self._ha_directory, "checkpoints") if self._ha_directory else ""
        )
        directories = CheckpointDirectories(
            job_graph.job_id, checkpoint_directory, settings.savepoint_directory, self.context.random("savepoints")
        )
        self._checkpoints = checkpoints = JobCheckpoints(
            self, graph, settings, directories, coordinators, self._leadership, recovered
        )
        self._metrics = JobMetrics(graph)
        self._scheduler = Scheduler(
            graph,
            self._slot_profile,
            configuration.get(SLOT_REQUEST_TIMEOUT),
            configuration.get(SLOT_IDLE_TIMEOUT),
            restart_strategy=strategy_of(configuration, settings.is_periodic, self.context.random("restarts")),
            failover_strategy=failover_strategy_of(configuration),
            restore_of=checkpoints.restore_of,
        )
        assignment = checkpoints.restore()
        coordinators.start({} if assignment is None else assignment.coordinators)
        self._undrained = {each.collect_id for each in coordinators.collectors}

    def _with_scheduler(self, event: Callable[[Scheduler], None]) -> None:
        """Hands an event over; what follows from it comes in `_go_on`. Before the job is set up nothing can happen."""
        if self._scheduler is not None:
            event(self._scheduler)

    def _go_on(self) -> None:
        """At the end of each message: does what has been decided, by the scheduler first, then about checkpoints."""
        scheduler, checkpoints = self._scheduler, self._checkpoints
        if scheduler is None or checkpoints is None:
            return
        commands = scheduler.take_commands()
        while True:
            for command in commands:
                self._run(command)
            checkpoints.go_on()
            self._restart_subtasks(scheduler, checkpoints)
            commands = scheduler.take_commands()
            if not commands:
                break
        if scheduler.status.is_terminal and not self._is_ended and not checkpoints.is_storing:
            self._end(checkpoints)

    def _restart_subtasks(self, scheduler: Scheduler, checkpoints: JobCheckpoints) -> None:
        """Says what subtasks start again from, as soon as that can be told."""
        reset = self._reset
        if reset is None or checkpoints.is_storing:
            return
        self._reset = None
        assert self._coordinators is not None
        try:
            assignment = checkpoints.restore()
            if reset.is_global:
                states = {} if assignment is None else assignment.coordinators
                self._coordinators.restart(states, checkpoints.restored_id)
            else:
                self._coordinators.subtasks_failed(reset.vertices, checkpoints.restored_id)
        except Exception as error:
            scheduler.fail(ErrorInfo.of(error), self._now())
        else:
            scheduler.deploy_restarted(reset.restart, self._now())

    def _on_status(self, status: JobStatus) -> None:
        log.info("job %r is %s", self._job_graph.name, status.value)
        if not status.is_terminal:
            self.context.tell(self._dispatcher, JobStatusChanged(self._session, self._job_graph.job_id, status))

    def _end(self, checkpoints: JobCheckpoints) -> None:
        """The job is in a terminal status. Its JobMaster says so when it has deleted what is not to be left behind."""
        self._is_ended = True
        if self._coordinators is not None:
            self._coordinators.close()
        self._disconnect()
        details = self._details()
        has_rows = details.status is JobStatus.FINISHED and bool(self._undrained)
        checkpoints.end(details.status, pickle.dumps(details), lambda: self._report_end(details, has_rows))

    def _disconnect(self) -> None:
        if self._rm_session is not None:
            end = DisconnectJobMaster(self._rm_session, self._job_graph.job_id, self._session)
            self.context.tell(self._resource_manager, end)

    def _report_end(self, details: JobDetails, has_rows: bool) -> None:
        self._end_report = JobEnded(self._session, details, has_rows and bool(self._undrained))
        self.context.tell(self._dispatcher, self._end_report)

    def _report(self) -> None:
        """To a Dispatcher that has taken another's place."""
        self._dispatcher_losses += 1
        if self._end_report is not None:
            self.context.tell(self._dispatcher, self._end_report)
        else:
            status = JobStatus.INITIALIZING if self._scheduler is None else self._scheduler.status
            if not status.is_terminal:
                self._on_status(status)

    def _details(self) -> JobDetails:
        if self._scheduler is None or self._metrics is None or self._checkpoints is None:
            times = ((JobStatus.INITIALIZING, self._now()),)
            return JobDetails(self._job_graph.job_id, self._job_graph.name, JobStatus.INITIALIZING, times)
        details = job_details(self._scheduler, self._metrics)
        overview = self._checkpoints.coordinator.overview()
        return replace(details, checkpoints=overview, savepoints=self._checkpoints.savepoints)

    def _progress(self) -> JobProgress:
        if self._metrics is None:
            return JobProgress(JobStatus.INITIALIZING, 0, 0, None)
        return self._metrics.progress()

    def _now(self) -> int:
        return self.context.clock.now_ms()

    def _monotonic(self) -> float:
        return self.context.clock.monotonic_ms()

    # -- for its checkpoints and coordinators --------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        return self.context.clock

    def tell_task(self, attempt_id: AttemptId, message: Callable[[SessionId, AllocationId], Any]) -> None:
        """Sends what `message` gives to the attempt, unless it has ended or has no slot."""
        execution = self._execution(attempt_id)
        if execution is not None and not execution.state.is_terminal and execution.location is not None:
            allocation_id = AllocationId(execution.allocation_id or "")
            self.context.tell(Address(execution.location), message(self._session, allocation_id))

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Runs `callback` in this endpoint's thread."""
        return self.context.tell_self_later(delay_ms, _Call(callback))

    @property
    def run_blocking(self) -> RunBlocking:
        def run(work: Callable[[], Any], done: Done) -> None:
            self.context.run_blocking(work, lambda result, error: _Call(lambda: done(result, error)))

        return run

    def fail_job(self, error: ErrorInfo) -> None:
        """The job as a whole has failed: it is restarted, or ends."""
        if self._scheduler is not None:
            self._scheduler.fail(error, self._now())
        elif not self._is_ended:
            # There is not even an ExecutionGraph that could go through the states.
            self._is_ended = True
            self._disconnect()
            now = self._now()
            times = ((JobStatus.INITIALIZING, now), (JobStatus.FAILED, now))
            job_id, name = self._job_graph.job_id, self._job_graph.name
            self._report_end(JobDetails(job_id, name, JobStatus.FAILED, times, error=error), has_rows=False)

    def give_up(self, error: BaseException) -> None:
        """This process ends; another JobMaster has the job, or will."""
        self.context.fatal(error)

    def break_job(self, error: BaseException) -> None:
        """A coordinator cannot go on. Comes back as a message, since the scheduler may be in the middle of a move."""
        self.context.tell_self(_JobBroken(ErrorInfo.of(error)))

    def send_event(self, vertex: ExecutionVertexId, operator_id: OperatorId, event: Any) -> None:
        """A coordinator's event, to the current attempt of a subtask; dropped where none runs."""
        if self._scheduler is None:
            return
        execution = self._scheduler.graph.vertices[vertex].current
        if execution.state not in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING):
            log.debug("job %r dropped an event for %s", self._job_graph.name, execution)
            return
        attempt_id = execution.attempt_id
        self.tell_task(
            attempt_id, lambda session, slot: DeliverOperatorEvent(session, slot, attempt_id, operator_id, event)
        )

    def _context_of(self, operator_id: OperatorId, vertex: JobVertexId, parallelism: int) -> CoordinatorContext:
        return _CoordinatorContext(self, operator_id, vertex, parallelism)

    def _trigger_savepoint(self, request: TriggerSavepoint) -> None:
        if self._checkpoints is None:
            raise CheckpointError(
                f"job {self._job_graph.name!r} has not started yet: ask for the savepoint when it runs"
            )
        self._checkpoints.trigger_savepoint(request)
        self._go_on()

    # -- commands of the scheduler -------------------------------------------------------------------------------

    def _run(self, command: Command) -> None:
        match command:
            case DeployTask():
                self.context.tell(command.task_executor, SubmitTask(self._session, command.deployment))
            case CancelAttempt():
                cancel = CancelTask(self._session, command.allocation_id, command.attempt_id)
                self.context.tell(command.task_executor, cancel)
            case ReleaseSlot():
                free = FreeSlot(self._session, command.allocation_id, command.reason)
                self.context.tell(command.task_executor, free)
                self._forget_unused(command.task_executor)
            case KillSlot():
                self.context.kill(command.slot)
            case DeclareSlots():
                self._requirements = command.requests
                self._declare()
            case SubtaskStarted():
                assert self._coordinators is not None
                self._coordinators.subtask_started(command.vertex_id, command.subtask_index)
            case SubtasksReset():
                self._reset = command
            case StatusChanged():
                self._on_status(command.status)
            case SlotsTimedOut():
                self._ask_for_overview()

    # -- the ResourceManager -------------------------------------------------------------------------------------

    def _register(self) -> None:
        if self._rm_session is None and not self._is_ended:
            job_id = self._job_graph.job_id
            self.context.tell(self._resource_manager, RegisterJobMaster(job_id, self._session, self.context.address))
            self.context.tell_self_later(REGISTRATION_RETRY_MS, _RegisterAgain())

    def _on_registered(self, message: JobMasterRegistered) -> None:
        if message.job_session != self._session or message.session == self._rm_session:
            return
        self._rm_session = message.session
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
            self._with_scheduler(lambda scheduler: scheduler.fail_for_slots(overview, reason, self._now()))
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

        if self._scheduler is not None and self._scheduler.pool.slots_of(task_executor) == []:
            self.context.watch(task_executor)
            self._heartbeats.add(task_executor, self._monotonic())
        self._with_scheduler(offer)
        self._forget_unused(task_executor)

    def _on_slot_failed(self, message: SlotFailed) -> None:
        self._with_scheduler(lambda scheduler: scheduler.lose_slot(message.allocation_id, message.cause, self._now()))
        self._forget_unused(message.task_executor)

    def _forget_unused(self, task_executor: Address) -> None:
        if self._scheduler is not None and not self._scheduler.pool.slots_of(task_executor):
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
            return
        self._dispatcher_losses += 1
        self.context.tell_self_later(DISPATCHER_TIMEOUT_MS, _DispatcherOverdue(self._dispatcher_losses))

    def _on_delivery_failed(self, message: DeliveryFailed) -> None:
        """What waits for a task's answer to that message would wait for ever."""
        log.debug("%s did not get %r: %s", message.address, message.message, message.cause)
        lost = message.message
        if isinstance(lost, SubmitTask):
            self._give_up_slot(lost.deployment.allocation_id, message)
        elif isinstance(lost, _TO_TASKS):
            self._give_up_slot(lost.allocation_id, message)

    def _give_up_slot(self, allocation_id: AllocationId, failed: DeliveryFailed) -> None:
        cause = f"{failed.address} did not get {type(failed.message).__name__}: {failed.cause}"
        self._with_scheduler(lambda scheduler: scheduler.give_up_slot(allocation_id, cause, self._now()))

    # -- tasks ---------------------------------------------------------------------------------------------------

    def _on_task_state(self, message: TaskStateChanged) -> None:
        scheduler = self._scheduler
        if scheduler is None:
            return
        message = self._without_damaged_checkpoint(message)
        if not scheduler.change_task_state(message, self._now()):
            log.debug("job %r ignored %s of %s", self._job_graph.name, message.state, message.attempt_id)

    def _without_damaged_checkpoint(self, message: TaskStateChanged) -> TaskStateChanged:
        """A task cannot be restored, and will not be the next time either, unless there is another checkpoint."""
        execution, error = self._execution(message.attempt_id), message.error
        if execution is None or error is None or error.type_name != DamagedCheckpointError.__name__:
            return message
        is_starting = execution.state in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING)
        if not is_starting or self._checkpoints is None or self._checkpoints.on_damaged(error):
            return message
        return replace(message, error=replace(error, is_recoverable=False))

    def _on_operator_event(self, message: OperatorEventSent) -> None:
        execution = self._execution(message.attempt_id)
        if execution is None or execution.state.is_terminal or self._coordinators is None or self._is_ended:
            log.debug("job %r ignored an event of %s", self._job_graph.name, message.attempt_id)
            return
        try:
            self._coordinators.handle_event(message.operator_id, execution.vertex.subtask_index, message.event)
        except Exception as error:
            self.fail_job(ErrorInfo.of(error))

    def _execution(self, attempt_id: AttemptId) -> Execution | None:
        scheduler = self._scheduler
        return None if scheduler is None else scheduler.graph.executions.get(attempt_id)

    # -- collected rows ------------------------------------------------------------------------------------------

    def _take(self, request: TakeCollected) -> Collected:
        if self._coordinators is None:
            return Collected((), is_end=False, positions=request.positions)
        coordinator = self._coordinators.collector(request.collect_id)
        if self._generation and not self._settings.is_periodic and any(request.positions):
            raise FlinkrayError(
                f"job {self._job_graph.name!r} began again with a new JobMaster after some of its rows had been handed "
                "to the driver, which would now get them twice; run it again, with checkpoints "
                "(execution.checkpointing.interval)"
            )
        batches, is_end = coordinator.take(request.max_batches, request.positions)
        return Collected(tuple(batches), is_end, coordinator.positions)

    def _on_received(self, collect_id: str) -> None:
        self._undrained.discard(collect_id)
        if self._end_report is not None and self._end_report.has_rows_to_take and not self._undrained:
            self.context.tell(self._dispatcher, CollectedRowsTaken(self._session, self._job_graph.job_id))


class _CoordinatorContext:
    """Implements `actors.coordinators.base.CoordinatorContext`."""

    def __init__(self, job_master: JobMaster, operator_id: OperatorId, vertex: JobVertexId, parallelism: int) -> None:
        self._job_master = job_master
        self._operator_id = operator_id
        self._vertex = vertex
        self._parallelism = parallelism

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def now_ms(self) -> int:
        return self._job_master.context.clock.now_ms()

    def send_event(self, subtask_index: int, event: Any) -> None:
        self._job_master.send_event(ExecutionVertexId(self._vertex, subtask_index), self._operator_id, event)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        return self._job_master.call_later(delay_ms, callback)

    def fail_job(self, error: BaseException) -> None:
        self._job_master.break_job(error)

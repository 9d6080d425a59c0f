"""The JobMaster: everything about one job. Messages go in, the scheduler decides, commands go out.

What it decides is in `actors.scheduling.scheduler`; its coordinators are in `actors.coordinators`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.control_messages import (
    CancelExecutionGraph,
    ClusterOverview,
    Collected,
    CollectedReceived,
    CollectedRowsTaken,
    DeclareRequirements,
    DisconnectJobMaster,
    FreeSlot,
    GetJobDetails,
    GetJobProgress,
    HeartbeatAnswered,
    HeartbeatRequested,
    JobDetails,
    JobEnded,
    JobMasterRegistered,
    JobStatusChanged,
    OfferSlots,
    OverviewReported,
    RegisterJobMaster,
    RequestOverview,
    ResourceProfile,
    ResourcesMissing,
    SlotFailed,
    SlotOffersAnswered,
    SlotRequest,
    TakeCollected,
)
from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.base import OperatorCoordinator
from actors.coordinators.collect_coordinator import CollectCoordinator
from actors.coordinators.factory import create_coordinator
from actors.messages import (
    AllocationId,
    CancelTask,
    DeliverOperatorEvent,
    MetricsReported,
    OperatorEventSent,
    SessionId,
    SubmitTask,
    TaskStateChanged,
)
from actors.ports import Address, Cancellable, DeliveryFailed, Endpoint, EndpointContext, EndpointDied, Payloads
from actors.scheduling.heartbeats import HeartbeatMonitor
from actors.scheduling.job_metrics import JobMetrics, job_details
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
    SubtaskStarted,
)
from flinkray.errors import ErrorInfo, FlinkrayError
from flinkray.execution import JobProgress, JobStatus
from flinkray.options import (
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    SLOT_CPUS,
    SLOT_IDLE_TIMEOUT,
    SLOT_REQUEST_TIMEOUT,
)
from flinkray.types import OperatorId
from graphs.execution_graph import AttemptId, Execution, ExecutionGraph, ExecutionVertexId
from graphs.job_graph import JobGraph, JobVertexId
from graphs.states import ExecutionState

log = logging.getLogger(__name__)

# How often it looks for slots that do not come or are not needed, and for tasks that do not stop.
TICK_MS = 250.0

# How often a component that nobody has answered yet says again that it is there.
REGISTRATION_RETRY_MS = 1_000.0

# How long it waits for the ResourceManager's figures before it fails a job without them.
OVERVIEW_TIMEOUT_MS = 2_000.0


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
class _CoordinatorCall:
    """To itself: what a coordinator wants to run in this thread."""

    callback: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _JobBroken:
    """To itself: a coordinator says that the job cannot go on."""

    error: ErrorInfo


class JobMaster(Endpoint):
    """See the module. It lives until its Dispatcher ends it."""

    def __init__(
        self,
        context: EndpointContext,
        dispatcher: Address,
        resource_manager: Address,
        session: SessionId,
        job_graph: JobGraph,
    ) -> None:
        """
        Args:
            session: fences this JobMaster; given by the Dispatcher, new for each one that it starts.
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
        self._scheduler: Scheduler | None = None
        self._metrics: JobMetrics | None = None
        self._coordinators: dict[OperatorId, OperatorCoordinator] = {}
        self._coordinated: dict[JobVertexId, list[OperatorCoordinator]] = {}
        self._undrained: set[str] = set()
        """Collect ids whose rows the driver does not all have yet."""
        self._rm_session: SessionId | None = None
        self._requirements: tuple[SlotRequest, ...] = ()
        self._is_overview_wanted = False
        self._is_ended = False

    def on_start(self) -> None:
        self.context.watch(self._dispatcher)
        self.context.watch(self._resource_manager)
        self.context.tell_self_later(TICK_MS, _TickDue())
        self.context.tell_self_later(self._heartbeat_interval_ms, _HeartbeatDue())
        self._register()
        try:
            self._start_job()
        except Exception as error:
            log.info("job %r cannot be set up", self._job_graph.name, exc_info=True)
            self._fail(error)

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case TaskStateChanged():
                self._on_task_state(message)
            case OperatorEventSent():
                self._on_operator_event(message)
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
                log.debug("%s did not get %r: %s", message.address, message.message, message.cause)
            case _TickDue() | _HeartbeatDue() | _RegisterAgain() | _OverviewOverdue() | _CoordinatorCall():
                self._on_own_message(message)
            case CollectedReceived():
                self._on_received(message.collect_id)
            case _JobBroken():
                self._fail_with(message.error)
            case _ if getattr(message, "session", None) != self._session:
                log.debug("job %r ignored %r of a past session", self._job_graph.name, message)
            case _:
                self._on_fenced_message(message)

    def on_request(self, request: Any) -> Any:
        match request:
            case GetJobProgress():
                return self._progress()
            case GetJobDetails():
                return self._details()
            case TakeCollected():
                return self._take(request)
        return super().on_request(request)

    def check(self) -> None:
        """What always holds between two messages."""
        if self._scheduler is not None:
            self._scheduler.check()
            assert self._scheduler.status.is_terminal == self._is_ended, "the end of the job was not reported"

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
                self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))
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
            case _CoordinatorCall():
                message.callback()

    # -- the job -------------------------------------------------------------------------------------------------

    def _start_job(self) -> None:
        configuration = self._job_graph.configuration
        graph = ExecutionGraph.from_job_graph(self._job_graph, now_ms=self._now())
        self._metrics = JobMetrics(graph)
        self._scheduler = Scheduler(
            graph,
            self._slot_profile,
            configuration.get(SLOT_REQUEST_TIMEOUT),
            configuration.get(SLOT_IDLE_TIMEOUT),
        )
        self._create_coordinators(graph)
        self._with_scheduler(lambda scheduler: scheduler.start(self._now()))

    def _create_coordinators(self, graph: ExecutionGraph) -> None:
        alignment = WatermarkAlignment()
        for vertex in graph.job_vertices.values():
            coordinated = self._coordinated.setdefault(vertex.id, [])
            for config in vertex.coordinators:
                context = _CoordinatorContext(self, config.operator_id, vertex.id, vertex.parallelism)
                coordinator = create_coordinator(config, context, alignment)
                self._coordinators[config.operator_id] = coordinator
                coordinated.append(coordinator)
                if isinstance(coordinator, CollectCoordinator):
                    self._undrained.add(coordinator.collect_id)
        for coordinator in self._coordinators.values():
            coordinator.start()

    def _with_scheduler(self, event: Callable[[Scheduler], None]) -> None:
        """Hands an event over and does what follows from it. Before the job is set up nothing can happen to it."""
        if self._scheduler is not None:
            event(self._scheduler)
            for command in self._scheduler.take_commands():
                self._run(command)

    def _fail(self, error: BaseException) -> None:
        self._fail_with(ErrorInfo.of(error))

    def _fail_with(self, error: ErrorInfo) -> None:
        if self._scheduler is not None:
            self._with_scheduler(lambda scheduler: scheduler.fail(error, self._now()))
        elif not self._is_ended:
            # There is not even an ExecutionGraph that could go through the states.
            now = self._now()
            times = ((JobStatus.INITIALIZING, now), (JobStatus.FAILED, now))
            self._end(JobDetails(self._job_graph.job_id, self._job_graph.name, JobStatus.FAILED, times, error=error))

    def _on_status(self, status: JobStatus) -> None:
        log.info("job %r is %s", self._job_graph.name, status.value)
        if status.is_terminal:
            self._end(self._details())
        else:
            self.context.tell(self._dispatcher, JobStatusChanged(self._session, self._job_graph.job_id, status))

    def _end(self, details: JobDetails) -> None:
        self._is_ended = True
        for coordinator in self._coordinators.values():
            coordinator.close()
        if self._rm_session is not None:
            end = DisconnectJobMaster(self._rm_session, self._job_graph.job_id, self._session)
            self.context.tell(self._resource_manager, end)
        has_rows = details.status is JobStatus.FINISHED and bool(self._undrained)
        self.context.tell(self._dispatcher, JobEnded(self._session, details, has_rows))

    def _details(self) -> JobDetails:
        if self._scheduler is None or self._metrics is None:
            now = self._now()
            times = ((JobStatus.INITIALIZING, now),)
            return JobDetails(self._job_graph.job_id, self._job_graph.name, JobStatus.INITIALIZING, times)
        return job_details(self._scheduler, self._metrics)

    def _progress(self) -> JobProgress:
        if self._metrics is None:
            return JobProgress(JobStatus.INITIALIZING, 0, 0, None)
        return self._metrics.progress()

    def _now(self) -> int:
        return self.context.clock.now_ms()

    def _monotonic(self) -> float:
        return self.context.clock.monotonic_ms()

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
                for coordinator in self._coordinated[command.vertex_id]:
                    coordinator.subtask_started(command.subtask_index)
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
            self._with_scheduler(lambda scheduler: scheduler.fail_for_slots(overview, reason, self._now()))

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
            self._on_resource_manager_lost(cause)
        elif peer == self._dispatcher:
            # Nobody could learn what becomes of the job, nor stop it.
            self._with_scheduler(lambda scheduler: scheduler.cancel(self._now()))
        else:
            text = f"{peer} is lost: {cause}"
            self._with_scheduler(lambda scheduler: scheduler.lose_task_executor(peer, text, self._now()))

    def _on_resource_manager_lost(self, cause: str) -> None:
        """A job that has its slots can do without."""
        self._rm_session = None
        if self._scheduler is not None and self._scheduler.is_waiting_for_slots:
            self._fail(FlinkrayError(f"the ResourceManager is lost while the job waits for its slots: {cause}"))

    # -- tasks and coordinators ----------------------------------------------------------------------------------

    def _on_task_state(self, message: TaskStateChanged) -> None:
        def change(scheduler: Scheduler) -> None:
            if not scheduler.change_task_state(message, self._now()):
                log.debug("job %r ignored %s of %s", self._job_graph.name, message.state, message.attempt_id)

        self._with_scheduler(change)

    def _on_operator_event(self, message: OperatorEventSent) -> None:
        execution = self._execution(message.attempt_id)
        coordinator = self._coordinators.get(message.operator_id)
        if execution is None or execution.state.is_terminal or coordinator is None or self._is_ended:
            log.debug("job %r ignored an event of %s", self._job_graph.name, message.attempt_id)
            return
        try:
            coordinator.handle_event(execution.vertex.subtask_index, message.event)
        except Exception as error:
            self._fail(error)

    def _execution(self, attempt_id: AttemptId) -> Execution | None:
        scheduler = self._scheduler
        return None if scheduler is None else scheduler.graph.executions.get(attempt_id)

    def send_event(self, vertex: ExecutionVertexId, operator_id: OperatorId, event: Any) -> None:
        """A coordinator's event, to the current attempt of a subtask; dropped where none runs."""
        if self._scheduler is None:
            return
        execution = self._scheduler.graph.vertices[vertex].current
        if execution.state not in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING):
            log.debug("job %r dropped an event for %s", self._job_graph.name, execution)
            return
        allocation_id = AllocationId(execution.allocation_id or "")
        deliver = DeliverOperatorEvent(self._session, allocation_id, execution.attempt_id, operator_id, event)
        self.context.tell(Address(execution.location or ""), deliver)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Runs `callback` in this endpoint's thread, for a coordinator."""
        return self.context.tell_self_later(delay_ms, _CoordinatorCall(callback))

    def break_job(self, error: BaseException) -> None:
        """A coordinator cannot go on. Comes back as a message, since the scheduler may be in the middle of a move."""
        self.context.tell_self(_JobBroken(ErrorInfo.of(error)))

    def _take(self, request: TakeCollected) -> Collected:
        coordinator = next(
            (
                coordinator
                for coordinator in self._coordinators.values()
                if isinstance(coordinator, CollectCoordinator) and coordinator.collect_id == request.collect_id
            ),
            None,
        )
        if coordinator is None:
            raise FlinkrayError(f"job {self._job_graph.name!r} has no sink that collects {request.collect_id!r}")
        batches, is_end = coordinator.take(request.max_batches)
        return Collected(tuple(batches), is_end)

    def _on_received(self, collect_id: str) -> None:
        self._undrained.discard(collect_id)
        if self._is_ended and not self._undrained:
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

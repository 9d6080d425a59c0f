"""The ResourceManager: starts TaskExecutors, and has their slots given to the jobs that need them.

What it decides is in `actors.scheduling.slots.slot_manager`; here messages go in and commands out. It keeps nothing
that outlives it: one that takes its place learns what there is from TaskExecutors and JobMasters, as they register.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from actors.high_availability.directories import high_availability_directory
from actors.logs.setting_up import LogSettings
from actors.protocol.client_requests import (
    ClusterGrowth,
    ClusterResources,
    GetClusterOverview,
    GetTaskExecutors,
    TaskExecutorDetails,
)
from actors.protocol.control_messages import (
    AllTaskExecutorsReleased,
    DeclareRequirements,
    DisconnectJobMaster,
    HeartbeatAnswered,
    JobMasterRegistered,
    OverviewReported,
    RegisterJobMaster,
    RegisterTaskExecutor,
    ReleaseAllTaskExecutors,
    RequestOverview,
    RequestSlot,
    ResourcesMissing,
    SlotFreed,
    SlotRequestRefused,
    StopTaskExecutor,
    TaskExecutorRegistered,
    TaskExecutorStopped,
)
from actors.protocol.main_thread import MainThread, RunAsync
from actors.protocol.ports import (
    Address,
    DeliveryFailed,
    Endpoint,
    EndpointContext,
    EndpointDied,
    EndpointSpec,
    Payloads,
    SessionId,
)
from actors.protocol.resources import ResourceProfile
from actors.scheduling.liveness.heartbeats import HEARTBEATS_STOPPED, Heartbeats
from actors.scheduling.liveness.lost_messages import LostMessages
from actors.scheduling.slots.slot_manager import (
    AllocateSlot,
    JobTarget,
    ReleaseTaskExecutor,
    ReportShortage,
    SlotManager,
    SlotManagerCommand,
    StartTaskExecutor,
)
from flinkray.config.configuration import Configuration
from flinkray.config.options import (
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    SLOT_CPUS,
    SLOTS_PER_TASK_MANAGER,
    TASK_MANAGER_IDLE_TIMEOUT,
)
from flinkray.types.records import JobId

log = logging.getLogger(__name__)

# How often it looks for TaskExecutors that are idle and for jobs that can never fit.
TICK_MS = 500.0

# How long it stays without jobs when the Dispatcher is silent: a Dispatcher that is replaced is back long before.
DISPATCHER_TIMEOUT_MS = 300_000.0

# How long a TaskExecutor that is asked to stop may take to end its slots before it is ended itself.
STOP_TIMEOUT_MS = 5_000.0


class ResourceManager(Endpoint):
    """Owns the TaskExecutors of the cluster, and knows what each job needs (Flink's ResourceManager)."""

    def __init__(
        self,
        context: EndpointContext,
        cluster_id: str,
        configuration: Configuration,
        is_per_job: bool,
        dispatcher: Address,
    ) -> None:
        """
        Args:
            cluster_id: the first part of every address of the cluster.
            is_per_job: the cluster is for one job, so that nothing is kept when that has ended.
            dispatcher: when that has been silent for long and no JobMaster is left, the ResourceManager ends, and with
                it the TaskExecutors.
        """
        super().__init__(context, LogSettings.of(configuration))
        self._configuration = configuration
        self._session = SessionId(f"{context.random('session').getrandbits(64):016x}")
        profile = ResourceProfile(configuration.get(SLOT_CPUS))
        idle_timeout_ms = float(configuration.get(TASK_MANAGER_IDLE_TIMEOUT))
        self._manager = SlotManager(
            cluster_id,
            configuration.get(SLOTS_PER_TASK_MANAGER) if configuration.is_set(SLOTS_PER_TASK_MANAGER) else None,
            profile,
            idle_timeout_ms,
            is_per_job,
            life=self._session[:4],
        )
        self._tick_ms = max(1.0, min(TICK_MS, idle_timeout_ms / 2))
        self._is_highly_available = bool(high_availability_directory(configuration, cluster_id))
        """Whether a Dispatcher or JobMaster that is lost is replaced."""
        self._jobs: dict[JobId, JobTarget] = {}
        self._stopping: set[Address] = set()
        """TaskExecutors that were asked to stop because the cluster is shut down."""
        self._released_for: Address | None = None
        """The Dispatcher that shuts the cluster down."""
        self._heartbeat_interval_ms = max(1.0, float(configuration.get(HEARTBEAT_INTERVAL)))
        self._heartbeat_timeout_ms = float(configuration.get(HEARTBEAT_TIMEOUT))
        self._main_thread = MainThread(context)
        self._heartbeats = Heartbeats(
            context,
            self._main_thread,
            self._on_silent,
            session=self._session,
            also_asked=() if self._is_highly_available else (dispatcher,),
        )
        self._lost_messages = LostMessages(
            self._main_thread,
            {
                RequestSlot: self._repeat_request,
                AllTaskExecutorsReleased: lambda _dispatcher, _lost: self._report_if_released(),
            },
        )
        self._dispatcher = dispatcher
        self._dispatcher_heard_at = context.clock.monotonic_ms()

    def on_start(self) -> None:
        self._main_thread.run_every(self._tick_ms, self._tick)
        self._heartbeats.start(self._heartbeat_interval_ms, self._heartbeat_timeout_ms)
        if self._is_highly_available:
            self._heartbeats.monitor(self._dispatcher, is_starting=True)

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case RegisterTaskExecutor():
                self._on_register_task_executor(message)
            case RegisterJobMaster():
                self._on_register_job_master(message)
            case ClusterResources():
                self._manager.set_room(message.free_cpus)
                total = (message.total_cpus, message.is_autoscaled, self._now(), message.total_memory_bytes)
                self._run(self._manager.set_total(*total))
                self._run(self._manager.expect(message.expected, self._now()))
            case ClusterGrowth():
                self._run(self._manager.set_growth(message.is_autoscaled, self._now()))
            case ReleaseAllTaskExecutors():
                self._on_release_all(message.dispatcher)
            case EndpointDied():
                self._on_lost(message.address, message.cause)
            case DeliveryFailed(message=TaskExecutorRegistered() as lost):
                self._manager.doubt_registration(message.address, lost.registration)
            case DeliveryFailed():
                self._lost_messages.on_delivery_failed(message)
            case RunAsync():
                message.callback()
            case _ if getattr(message, "session", None) != self._session:
                log.debug("the ResourceManager ignored %r of a past session", message)
            case _:
                self._on_fenced_message(message)

    def on_request(self, request: Any) -> Any:
        if isinstance(request, GetClusterOverview):
            return self._manager.overview()
        if isinstance(request, GetTaskExecutors):
            return self._task_executors()
        return super().on_request(request)

    def check(self) -> None:
        """What always holds between two messages."""
        self._manager.check()

    def _on_fenced_message(self, message: Any) -> None:
        """Acts on messages of peers that know this session."""
        match message:
            case DeclareRequirements():
                self._on_requirements(message)
            case RequestOverview():
                self._on_request_overview(message)
            case DisconnectJobMaster():
                self._on_disconnect(message)
            case SlotFreed():
                freed = (message.task_executor, message.slot_index, message.allocation_id)
                self._run(self._manager.free_slot(*freed, self._now()))
            case SlotRequestRefused():
                refused = (message.task_executor, message.allocation_id, message.slot)
                self._run(self._manager.refuse_allocation(*refused, self._now()))
            case HeartbeatAnswered():
                if message.sender == self._dispatcher:
                    self._dispatcher_heard_at = self._now()
                self._heartbeats.on_message(message)
            case TaskExecutorStopped():
                self._on_stopped(message.task_executor)
            case _:
                raise TypeError(f"the ResourceManager does not understand {message!r}")

    def _tick(self) -> None:
        self._run(self._manager.tick(self._now()))
        if self._now() - self._dispatcher_heard_at >= DISPATCHER_TIMEOUT_MS and not self._jobs:
            self._end_without_dispatcher()

    def _now(self) -> float:
        return self.context.clock.monotonic_ms()

    # -- TaskExecutors -------------------------------------------------------------------------------------------

    def _task_executors(self) -> tuple[TaskExecutorDetails, ...]:
        ahead = self.context.clock.now_ms() - self._now()
        return tuple(
            TaskExecutorDetails(address, slots, round(self._heartbeats.heard_at(address) + ahead))
            for address, slots in self._manager.reports().items()
        )

    def _on_register_task_executor(self, message: RegisterTaskExecutor) -> None:
        address = message.task_executor
        if address in self._stopping:
            return
        if self._manager.is_given_up(address) or self._released_for is not None:
            log.debug("the ResourceManager ends %s, which nobody needs", address)
            self.context.kill(address)
            return
        if not self._manager.is_registered(address) and not self._manager.is_expected(address):
            self.context.watch(address)  # it was started by a ResourceManager before this one
        self._heartbeats.monitor(address)
        self.context.tell(address, TaskExecutorRegistered(self._session, message.registration))
        self._run(self._manager.register(address, message.slots, self._now(), message.registration))

    def _on_lost(self, address: Address, cause: str) -> None:
        self._heartbeats.unmonitor(address)
        for job in [job for job in self._jobs.values() if job.job_master == address]:
            log.info("%s is lost: %s", address, cause)
            self._remove_job(job.job_id, is_lost=self._is_highly_available)
        self._run(self._manager.remove_task_executor(address, cause, self._now()))
        self._on_stopped(address)

    def _repeat_request(self, task_executor: Address, lost: RequestSlot) -> None:
        again = (task_executor, lost.slot_index, lost.allocation_id)
        self._run(self._manager.repeat_allocation(*again, self._now()))

    # -- jobs ----------------------------------------------------------------------------------------------------

    def _on_register_job_master(self, message: RegisterJobMaster) -> None:
        known = self._jobs.get(message.job_id)
        if known is not None and known.session > message.job_session:
            log.debug("the ResourceManager ignored %s, whose place %s has taken", message.job_master, known.job_master)
            return
        if known is not None and known.job_master != message.job_master:
            self._heartbeats.unmonitor(known.job_master)
        self._jobs[message.job_id] = JobTarget(
            message.job_id, message.job_master, message.job_session, message.runtime_env
        )
        self.context.watch(message.job_master)
        self._heartbeats.monitor(message.job_master)
        heartbeat = (self._heartbeat_interval_ms, self._heartbeat_timeout_ms)
        self.context.tell(message.job_master, JobMasterRegistered(self._session, message.job_session, *heartbeat))

    def _on_requirements(self, message: DeclareRequirements) -> None:
        job = self._jobs.get(message.job_id)
        if job is None or job.session != message.job_session or self._released_for is not None:
            log.debug("the ResourceManager ignored requirements of a job that it does not serve: %s", message.job_id)
            return
        self._run(self._manager.declare(job, message.requests, self._now()))

    def _on_request_overview(self, message: RequestOverview) -> None:
        job = self._jobs.get(message.job_id)
        if job is not None:
            self.context.tell(job.job_master, OverviewReported(job.session, self._manager.overview()))

    def _on_disconnect(self, message: DisconnectJobMaster) -> None:
        job = self._jobs.get(message.job_id)
        if job is not None and job.session == message.job_session:
            self._heartbeats.unmonitor(job.job_master)
            self._remove_job(message.job_id)

    def _remove_job(self, job_id: JobId, *, is_lost: bool = False) -> None:
        del self._jobs[job_id]
        self._run(self._manager.remove_job(job_id, self._now(), is_lost=is_lost))

    # -- heartbeats ----------------------------------------------------------------------------------------------

    def _on_silent(self, peer: Address) -> None:
        if peer == self._dispatcher:
            log.warning("%s is silent, and is started again", peer)
            self.context.restart(peer)
            self._heartbeats.monitor(peer, is_starting=True)
            return
        if self._manager.is_registered(peer):
            # The TaskExecutor may hang rather than be dead; the room that it takes is to be free for another one.
            self.context.kill(peer)
        self._on_lost(peer, HEARTBEATS_STOPPED)

    def _end_without_dispatcher(self) -> None:
        log.warning("%s ends, as %s is lost and no job is left", self.context.address, self._dispatcher)
        registered, pending = self._manager.release_all()
        for address in (*registered, *pending):
            self.context.kill(address)
        self.context.kill(self.context.address)

    # -- commands ------------------------------------------------------------------------------------------------

    def _run(self, commands: Iterable[SlotManagerCommand]) -> None:
        for command in commands:
            match command:
                case StartTaskExecutor():
                    self._start(command)
                case ReleaseTaskExecutor():
                    log.info("%s is released: %s", command.task_executor, command.reason)
                    self._heartbeats.unmonitor(command.task_executor)
                    self.context.kill(command.task_executor)
                case AllocateSlot():
                    self._request_slot(command)
                case ReportShortage():
                    overview, is_about_starts = self._manager.overview(), command.is_about_starts
                    missing = ResourcesMissing(command.job.session, command.reason, overview, is_about_starts)
                    self.context.tell(command.job.job_master, missing)

    def _start(self, command: StartTaskExecutor) -> None:
        self.context.spawn(
            EndpointSpec(
                command.task_executor,
                "actors.task_executor:TaskExecutor",
                (self.context.address, command.slots, command.profile, self._configuration),
                display_name=f"TaskExecutor(te-{command.number})",
                cpus=command.slots * command.profile.cpus,
                memory_bytes=command.slots * command.profile.memory_bytes,
            )
        )

    def _request_slot(self, command: AllocateSlot) -> None:
        job = command.job
        self.context.tell(
            command.task_executor,
            RequestSlot(
                self._session,
                command.slot_index,
                command.allocation_id,
                job.job_id,
                job.job_master,
                job.session,
                command.label,
                job.runtime_env,
            ),
        )

    # -- the end of the cluster ----------------------------------------------------------------------------------

    def _on_release_all(self, dispatcher: Address) -> None:
        self._released_for = dispatcher
        registered, pending = self._manager.release_all()
        for address in pending:
            self.context.kill(address)
        self._stopping.update(registered)  # a Dispatcher that is in doubt asks again
        for address in registered:
            self.context.tell(address, StopTaskExecutor(self._session))
        self._main_thread.run_later(STOP_TIMEOUT_MS, self._on_stop_expired)
        self._report_if_released()

    def _on_stopped(self, task_executor: Address) -> None:
        if task_executor in self._stopping:
            self._stopping.discard(task_executor)
            self._heartbeats.unmonitor(task_executor)
            self.context.kill(task_executor)
            self._report_if_released()

    def _on_stop_expired(self) -> None:
        for address in sorted(self._stopping):
            log.warning("%s did not stop within %.0f s", address, STOP_TIMEOUT_MS / 1000)
            self._on_stopped(address)

    def _report_if_released(self) -> None:
        if self._released_for is not None and not self._stopping:
            self.context.tell(self._released_for, AllTaskExecutorsReleased())

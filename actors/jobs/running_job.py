"""A job that has been set up: its scheduler, coordinators and checkpoints, and how they act together."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from actors.checkpoints.storage.directories import CheckpointDirectories
from actors.coordinators.job_coordinators import JobCoordinators
from actors.coordinators.threaded import CLOSE_TIMEOUT_MS
from actors.high_availability.pointers import JobLeadership
from actors.jobs.job_autoscaling import JobAutoscaling
from actors.jobs.job_checkpoints import JobCheckpoints, Once
from actors.jobs.job_description import describe
from actors.jobs.job_export import JobExporter
from actors.jobs.job_metrics import JobMetrics, job_details, job_summary, prior_attempts
from actors.jobs.job_rescales import JobRescales
from actors.jobs.recovery import Recovered
from actors.jobs.services import JobCoordinatorContext, JobServices, TaskGateway
from actors.protocol.checkpoint_handles import TaskRestore
from actors.protocol.client_requests import Collected, Rescale, TakeCollected, TriggeredCheckpoint, TriggerSavepoint
from actors.protocol.control_messages import JobDetails, RescaleResult, SavepointResult
from actors.protocol.failure_records import TaskFailure
from actors.protocol.job_reports import AttemptDetails, CheckpointReport, JobArchive, JobSummary, RateSample
from actors.protocol.main_thread import MainThread
from actors.protocol.ports import Cancellable, EndpointContext, SessionId
from actors.protocol.resources import ResourceProfile
from actors.protocol.task_messages import MetricsReported, OperatorEventSent, TaskReport, TaskStateChanged
from actors.scheduling.commands import SchedulerCommand, SubtasksReset, SubtaskStarted
from actors.scheduling.failover.failover_strategies import failover_strategy_of
from actors.scheduling.failover.restart_strategies import strategy_of
from actors.scheduling.scheduler import Scheduler
from flinkray.config.options import SLOT_CPUS, SLOT_IDLE_TIMEOUT, SLOT_REQUEST_TIMEOUT
from flinkray.errors import DamagedCheckpointError, ErrorInfo, FlinkrayError
from flinkray.execution import JobProgress, JobStatus
from flinkray.persistence import dumps
from graphs.execution_graph import AttemptId, Execution, ExecutionGraph, ExecutionVertex
from graphs.job_graph import JobGraph, JobVertexId
from graphs.states import ExecutionState

log = logging.getLogger(__name__)


class RunningJob:
    """A job that has an ExecutionGraph, from its first schedule to its end.

    For the JobMaster's thread, which calls `go_on` after everything that happens.
    """

    def __init__(
        self,
        context: EndpointContext,
        session: SessionId,
        job_graph: JobGraph,
        checkpoint_directory: str,
        leadership: JobLeadership | None,
        recovered: Recovered,
        carry_out: Callable[[SchedulerCommand], None],
    ) -> None:
        """
        Args:
            context: the JobMaster's; every `RunAsync` that it tells itself is to be run.
            checkpoint_directory: of the checkpoints of all jobs; empty: they are kept in memory.
            recovered: what the job starts from.
            carry_out: does what the scheduler wants of others.

        Raises:
            FlinkrayError: the job cannot be set up, or not start from that.
        """
        settings = job_graph.checkpoint_settings
        self._carry_out = carry_out
        self._has_checkpoints = settings.is_periodic
        self._generation = recovered.generation
        self._reset: SubtasksReset | None = None
        """Subtasks that are to start again, once it is known what from."""
        graph = ExecutionGraph.from_job_graph(
            job_graph,
            parallelism=recovered.parallelism,
            generation=recovered.generation,
            now_ms=context.clock.now_ms(),
        )
        self._services = JobServices(
            context.clock,
            context.start_loop,
            MainThread(context),
            TaskGateway(context, session, graph),
            self._fail_job,
            context.fatal,
        )
        context_of = partial(JobCoordinatorContext, self._services)
        self._coordinators = JobCoordinators(graph, context_of, settings.is_periodic, settings.retained)
        directories = CheckpointDirectories(
            job_graph.job_id, checkpoint_directory, settings.savepoint_directory, context.random("savepoints")
        )
        self._checkpoints = JobCheckpoints(
            self._services, graph, settings, directories, self._coordinators, leadership, recovered
        )
        self._metrics = JobMetrics(graph)
        self._exporter = JobExporter(job_graph.name, context.metrics, context.clock)
        self._description = describe(job_graph, graph)
        has_run = recovered.generation > 0
        self.scheduler = _create_scheduler(graph, context, self._checkpoints.restore_of, has_run)
        self._rescales = JobRescales(self.scheduler, self._checkpoints)
        assignment = self._checkpoints.restore()
        states = {} if assignment is None else assignment.coordinators
        self._coordinators.start(states, self._checkpoints.restored_id)
        self._looks = self._autoscale(job_graph)
        self._undrained = {each.collect_id for each in self._coordinators.collectors}
        """Collect ids whose rows the driver does not all have yet."""
        self._job_name = job_graph.name
        self._logged_failure: TaskFailure | None = None
        """The last failure that is in the log."""

    def _autoscale(self, job_graph: JobGraph) -> Cancellable | None:
        """Has the load looked at now and then, if the job is to follow it."""
        interval_ms = JobAutoscaling.interval_ms(job_graph)
        if interval_ms is None:
            return None
        autoscaling = JobAutoscaling(job_graph.configuration, self.scheduler, self._metrics, self._rescales)
        return self._services.main_thread.run_every(interval_ms, lambda: autoscaling.look(self._now()))

    # -- the life of the job -------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Does what has been decided, by the scheduler first, then about checkpoints."""
        commands = self.scheduler.take_commands()
        while True:
            for command in commands:
                self._run(command)
            self._checkpoints.go_on()
            self._restart_subtasks()
            has_stepped = self._rescales.go_on(self._now())
            commands = self.scheduler.take_commands()
            if not commands and not has_stepped:
                break
        self._log_failures()

    def _log_failures(self) -> None:
        """Writes failures that the job survives to the log. What ends the job, its clients get as an error."""
        logged, failures = self._logged_failure, self.scheduler.failures
        if not failures or failures[-1].root is logged:
            return
        self._logged_failure = failures[-1].root
        if self.scheduler.status not in (JobStatus.RUNNING, JobStatus.RESTARTING):
            return
        new = list(itertools.takewhile(lambda record: record.root is not logged, reversed(failures)))
        for record in reversed(new):
            root = record.root
            what = "" if root.task_name is None else f"; {root.task_name} failed"
            log.warning("job %r %s%s: %s", self._job_name, record.decision, what, root.error)

    @property
    def is_over(self) -> bool:
        """The job is in a terminal status, and nothing of it is in doubt."""
        return self.scheduler.status.is_terminal and not self._checkpoints.is_storing

    def end(self, then: Callable[[JobDetails], None], *, is_abandoned: bool = False) -> None:
        """The job is over: closes what it has, and calls `then` when nothing is left that should not be.

        Args:
            is_abandoned: it was cancelled, and not because somebody wanted it to end.
        """
        if self._looks is not None:
            self._looks.cancel()
        details = replace(self.details(), archive=self._archive())
        could_go_on = is_abandoned or (details.error is not None and is_cause_outside(details.error))

        def end_checkpoints() -> None:
            self._checkpoints.end(details.status, dumps(details), lambda: then(details), could_go_on=could_go_on)

        once = Once(end_checkpoints)
        self._services.main_thread.run_later(CLOSE_TIMEOUT_MS, once)
        self._coordinators.close(once)

    def check(self) -> None:
        """What always holds between two messages."""
        self.scheduler.check()
        self._checkpoints.check()
        assert self._reset is None or self._checkpoints.is_storing, "a restart waits for nothing"

    def _run(self, command: SchedulerCommand) -> None:
        match command:
            case SubtaskStarted():
                self._coordinators.subtask_started(command.vertex_id, command.subtask_index)
            case SubtasksReset():
                self._reset = command
            case _:
                self._carry_out(command)

    def _restart_subtasks(self) -> None:
        """Starts subtasks again, as soon as it is known what checkpoint they start from."""
        reset = self._reset
        if reset is None or self._checkpoints.is_storing:
            return
        self._reset = None
        rescaled = self._rescales.take() if reset.is_global else None
        if rescaled is not None:
            self.scheduler.rescale(rescaled, self._now())
            self._checkpoints.rescaled()
        try:
            assignment = self._checkpoints.restore()
            if reset.is_global:
                states = {} if assignment is None else assignment.coordinators
                self._coordinators.restart(states, self._checkpoints.restored_id)
            else:
                self._coordinators.subtasks_failed(reset.vertices, self._checkpoints.restored_id)
        except Exception as error:
            self._fail_job(ErrorInfo.of(error))
        else:
            self.scheduler.deploy_restarted(reset.restart, self._now())

    # -- tasks ---------------------------------------------------------------------------------------------------

    def on_task_report(self, message: TaskReport) -> None:
        """A task reports; what past attempts say is ignored."""
        match message:
            case TaskStateChanged():
                self._on_task_state(message)
            case OperatorEventSent():
                self._on_operator_event(message)
            case MetricsReported():
                self._metrics.report(message.metrics, self._now())
                overview = self._checkpoints.coordinator.overview
                self._exporter.export(self.scheduler.status, self.scheduler.restarts, overview)
            case _:
                self._checkpoints.on_message(message)

    def _on_task_state(self, message: TaskStateChanged) -> None:
        error = message.error
        is_damaged = error is not None and self._has_found_damage(message.attempt_id, error)
        if error is not None and is_damaged and not self._checkpoints.on_damaged(error):
            # The task could not be restored the next time either.
            message = replace(message, error=dataclasses.replace(error, is_recoverable=False))
        # Coordinators have forgotten what they gave out before the damaged checkpoint, and go back as well.
        if not self.scheduler.change_task_state(message, self._now(), fails_job=is_damaged):
            log.debug("ignored %s of %s", message.state, message.attempt_id)

    def _has_found_damage(self, attempt_id: AttemptId, error: ErrorInfo) -> bool:
        """Whether the task cannot be restored as the checkpoint is damaged that it was to start from."""
        execution = self._execution(attempt_id)
        if execution is None or error.type_name != DamagedCheckpointError.__name__:
            return False
        return execution.state in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING)

    def _on_operator_event(self, message: OperatorEventSent) -> None:
        """Hands an event to its operator's coordinator; those of past attempts are ignored."""
        execution = self._execution(message.attempt_id)
        if execution is None or execution.state.is_terminal or self.scheduler.status.is_terminal:
            log.debug("ignored an event of %s", message.attempt_id)
            return
        try:
            self._coordinators.handle_event(message.operator_id, execution.vertex.subtask_index, message.event)
        except Exception as error:
            self._fail_job(ErrorInfo.of(error))

    def _execution(self, attempt_id: AttemptId) -> Execution | None:
        return self.scheduler.graph.executions.get(attempt_id)

    # -- for clients ---------------------------------------------------------------------------------------------

    def progress(self) -> JobProgress:
        return self._metrics.progress()

    def details(self) -> JobDetails:
        """The job as it is now, as a value that can leave the JobMaster."""
        details = job_details(self.scheduler, self._metrics)
        checkpoints = self._checkpoints
        return replace(
            details,
            checkpoints=checkpoints.coordinator.overview(),
            savepoints=checkpoints.savepoints,
            pending_savepoints=checkpoints.pending_savepoints,
            description=self._description,
        )

    def _archive(self) -> JobArchive:
        report = self.checkpoint_report()
        attempts = {vertex: self.prior_attempts(vertex) for vertex in self.scheduler.graph.job_vertices}
        return JobArchive(report.summary, report.vertices, {vertex: each for vertex, each in attempts.items() if each})

    def summary(self) -> JobSummary:
        return job_summary(self.scheduler, self._description.is_batch)

    def prior_attempts(self, vertex_id: str) -> tuple[AttemptDetails, ...]:
        vertex = self.scheduler.graph.job_vertices.get(JobVertexId(vertex_id))
        return () if vertex is None else prior_attempts(vertex)

    def rate_history(self, vertex_id: str) -> tuple[tuple[RateSample, ...], ...]:
        vertex = self.scheduler.graph.job_vertices.get(JobVertexId(vertex_id))
        return () if vertex is None else tuple(map(self._metrics.history.samples, (s.id for s in vertex.subtasks)))

    def checkpoint_report(self) -> CheckpointReport:
        return self._checkpoints.coordinator.report()

    def trigger_checkpoint(self, request_id: str) -> None:
        self._checkpoints.trigger_periodic(request_id)

    def triggered_checkpoint(self, request_id: str) -> TriggeredCheckpoint | None:
        return self._checkpoints.triggered(request_id)

    def trigger_savepoint(self, request: TriggerSavepoint) -> None:
        self._checkpoints.trigger_savepoint(request)

    def rescale(self, request: Rescale) -> None:
        self._rescales.request(request.request_id, request.parallelism, self._now())

    def rescale_result(self, request_id: str) -> RescaleResult | None:
        """What became of the request; None: it was never made."""
        return self._rescales.result(request_id)

    def savepoint(self, request_id: str) -> SavepointResult | None:
        """What became of the request; None: it is under way, or was never made."""
        return next((each for each in self._checkpoints.savepoints if each.request_id == request_id), None)

    def take(self, request: TakeCollected) -> Collected:
        """
        Raises:
            FlinkrayError: there is no such sink, or the driver would get rows twice.
        """
        coordinator = self._coordinators.collector(request.collect_id)
        if self._generation and not self._has_checkpoints and any(request.positions):
            raise FlinkrayError(
                f"job {self.scheduler.graph.name!r} began again with a new JobMaster after some of its rows had been "
                "handed to the driver, which would now get them twice; run it again, with checkpoints "
                "(execution.checkpointing.interval)"
            )
        batches, is_end = coordinator.take(request.max_batches, request.positions)
        return Collected(tuple(batches), is_end, coordinator.positions)

    def received(self, collect_id: str) -> None:
        """The driver has all the rows of that sink that it wants."""
        self._undrained.discard(collect_id)

    @property
    def has_rows_to_take(self) -> bool:
        return bool(self._undrained)

    # -- inside --------------------------------------------------------------------------------------------------

    def _fail_job(self, error: ErrorInfo) -> None:
        self.scheduler.fail(error, self._now())

    def _now(self) -> int:
        return self._services.clock.now_ms()


def is_cause_outside(error: ErrorInfo) -> bool:
    """Whether the job has not failed for its program or its data, but for slots, processes or storage."""
    cause = error.exception()
    return not (isinstance(cause, FlinkrayError) and cause.origin == "user")


def _create_scheduler(
    graph: ExecutionGraph,
    context: EndpointContext,
    restore_of: Callable[[ExecutionVertex], TaskRestore | None],
    has_run: bool,
) -> Scheduler:
    """The scheduler of a job, with what its configuration says of slots and failures."""
    configuration = graph.information.configuration
    has_checkpoints = graph.information.checkpoint_settings.is_periodic
    return Scheduler(
        graph,
        ResourceProfile(configuration.get(SLOT_CPUS)),
        configuration.get(SLOT_REQUEST_TIMEOUT),
        configuration.get(SLOT_IDLE_TIMEOUT),
        restart_strategy=strategy_of(configuration, has_checkpoints, context.random("restarts")),
        failover_strategy=failover_strategy_of(configuration),
        restore_of=restore_of,
        has_run=has_run,
    )

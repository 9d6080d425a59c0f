"""The TaskSlot: the endpoint that runs tasks, and through which their data goes (a process of its own on Ray)."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from actors.checkpoints.storage.state_writers import create_writer
from actors.logs.context import LogContext, log_context
from actors.logs.setting_up import LogSettings, set_up
from actors.network.connections.environment import NetworkEnvironment
from actors.operators.registry import create_operator
from actors.protocol.control_messages import HeartbeatAnswered, HeartbeatRequested
from actors.protocol.data_messages import DataMessage
from actors.protocol.main_thread import MainThread, RunAsync
from actors.protocol.ports import Address, DeliveryFailed, Endpoint, EndpointContext, EndpointDied, Payloads
from actors.protocol.serialized_value import SerializedValue
from actors.protocol.task_messages import (
    AcknowledgeCheckpoint,
    AddJobFiles,
    CancelTask,
    DeclineCheckpoint,
    DeliverOperatorEvent,
    EndOfDataReached,
    MetricsReported,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventSent,
    ReleasePartitions,
    SubmitTask,
    TaskDeployment,
    TaskMetrics,
    TaskStateChanged,
    TriggerCheckpoint,
)
from actors.tasks.chain.task_services import TaskServices
from actors.tasks.checkpoints.restoring import RestoredTaskReader
from actors.tasks.metrics.export import MetricsExporter
from actors.tasks.stream_task import StreamTask
from actors.user_code.job_files import JobFiles
from flinkray.config import options
from flinkray.config.configuration import Configuration
from flinkray.errors import ErrorInfo, FlinkrayError
from flinkray.types.records import JobId, OperatorId
from graphs.execution_graph import AttemptId
from graphs.job_graph import JobVertexId, OperatorConfig
from graphs.states import ExecutionState

log = logging.getLogger(__name__)

_DATA_MESSAGES = get_args(DataMessage)


class GetNetworkStatistics(Struct, frozen=True):
    """Asked of a slot; the answer is an `actors.network.connections.environment.NetworkStatistics`."""


def log_context_of(deployment: TaskDeployment) -> LogContext:
    """Whose lines a task's threads log."""
    return LogContext(
        deployment.job_id,
        deployment.job_name,
        deployment.vertex_name,
        deployment.subtask_index,
        deployment.attempt_number,
        deployment.task_name,
    )


class _RunningTask(Struct, frozen=True):
    task: StreamTask
    exporter: MetricsExporter


class TaskSlot(Endpoint):
    """Runs the subtasks that its slot-sharing group puts here, each on a loop of its own.

    Nothing on the endpoint's own thread waits: loading a task's code happens in the task's loop.
    """

    def __init__(self, context: EndpointContext, task_executor: Address, configuration: Configuration) -> None:
        super().__init__(context, LogSettings.of(configuration))
        self._task_executor = task_executor
        self._metrics_interval_ms = configuration.get(options.METRICS_INTERVAL)
        self._network = NetworkEnvironment(context, configuration)
        self._running: dict[AttemptId, _RunningTask] = {}
        self._files = JobFiles({})
        self._operators: dict[JobVertexId, tuple[OperatorConfig, ...]] = {}
        self._main_thread = MainThread(context)

    def on_start(self) -> None:
        self._network.start()
        if self._metrics_interval_ms > 0:
            self._main_thread.run_every(self._metrics_interval_ms, self._report_metrics)

    def on_stop(self) -> None:
        for running in self._running.values():
            running.task.cancel()
        self._network.shutdown()
        self._files.close()

    def on_arrival(self, message: Any, payloads: Payloads) -> bool:
        """Hands data to the network at once, on the thread that brings it."""
        if not isinstance(message, _DATA_MESSAGES):
            return False
        self._network.on_message(message, payloads)
        return True

    def after_arrival(self) -> None:
        self._network.after_message()

    def on_message(self, message: Any, payloads: Payloads) -> None:
        if self.on_arrival(message, payloads):
            self.after_arrival()
            return
        match message:
            case AddJobFiles():
                self._files = JobFiles(message.files.deserialize(), owns_process=not self.context.shares_process)
            case SubmitTask():
                self._submit(self._with_operators(message.deployment))
            case CancelTask():
                self._cancel(message.attempt_id)
            case DeliverOperatorEvent():
                self._deliver(message)
            case ReleasePartitions():
                for partition_id in message.partition_ids:
                    self._network.release_partition(partition_id)
            case TriggerCheckpoint() | NotifyCheckpointComplete() | NotifyCheckpointAborted():
                self._forward_to_task(message)
            case HeartbeatRequested():
                self.context.tell(message.sender, HeartbeatAnswered(message.session, self.context.address))
            case RunAsync():
                message.callback()
            case EndpointDied():
                self._network.on_endpoint_died(message.address, message.cause)
            case DeliveryFailed():
                self._on_delivery_failed(message)
            case _:
                raise TypeError(f"a task slot does not understand {message!r}")

    def on_request(self, request: Any) -> Any:
        if isinstance(request, GetNetworkStatistics):
            return self._network.statistics()
        return super().on_request(request)

    def _on_delivery_failed(self, failure: DeliveryFailed) -> None:
        """The network knows what to do about its own messages. Nobody misses figures, or one heartbeat; but rows,
        events and states that do not get through must not leave a job that waits for them, or ends without them."""
        match failure.message:
            case (
                TaskStateChanged()
                | OperatorEventSent()
                | AcknowledgeCheckpoint()
                | DeclineCheckpoint()
                | EndOfDataReached() as lost
            ):
                what = f"a {type(lost).__name__} of {lost.attempt_id} did not reach {failure.address}: {failure.cause}"
                self.context.fatal(FlinkrayError(what))
            case MetricsReported() | HeartbeatAnswered():
                log.debug("%s did not get %r: %s", failure.address, failure.message, failure.cause)
            case _:
                self._network.on_delivery_failed(failure)

    # -- commands ------------------------------------------------------------------------------------------------

    def _with_operators(self, deployment: TaskDeployment) -> TaskDeployment:
        if not deployment.operators:
            return replace(deployment, operators=self._operators[deployment.vertex_id])
        self._operators[deployment.vertex_id] = deployment.operators
        return deployment

    def _submit(self, deployment: TaskDeployment) -> None:
        if deployment.attempt_id in self._running:
            log.debug("%s runs already", deployment.attempt_id)
            return
        context = log_context_of(deployment)
        set_up(LogSettings.of(deployment.configuration), LogContext(context.job_id, context.job_name))
        task = StreamTask(deployment, self._services_for(deployment), partial(self._report_state, deployment))
        exporter = MetricsExporter(deployment, self.context.metrics, self.context.clock)
        self._running[deployment.attempt_id] = _RunningTask(task, exporter)
        with log_context(context):
            self.context.start_loop(deployment.task_name, task, takes_turns=True)

    def _cancel(self, attempt_id: AttemptId) -> None:
        running = self._running.get(attempt_id)
        if running is None:
            log.debug("%s is not here (any more), there is nothing to cancel", attempt_id)
            return
        running.task.cancel()

    def _deliver(self, message: DeliverOperatorEvent) -> None:
        running = self._running.get(message.attempt_id)
        if running is None:
            log.debug("%s is not here (any more), %r is dropped", message.attempt_id, message.event)
            return
        running.task.deliver_event(message.operator_id, message.event)

    def _forward_to_task(self, message: TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted) -> None:
        running = self._running.get(message.attempt_id)
        if running is None:
            log.debug("%s is not here (any more), %r is dropped", message.attempt_id, message)
            return
        match message:
            case TriggerCheckpoint():
                running.task.trigger_checkpoint(message.checkpoint_id, message.timestamp_ms, message.options)
            case NotifyCheckpointComplete():
                running.task.notify_checkpoint_complete(message.checkpoint_id)
            case NotifyCheckpointAborted():
                running.task.notify_checkpoint_aborted(message.checkpoint_id)

    def _remove(self, attempt_id: AttemptId) -> None:
        running = self._running.pop(attempt_id, None)
        if running is not None:
            running.exporter.export(running.task.metrics())

    # -- for tasks; called on their threads ----------------------------------------------------------------------

    def _services_for(self, deployment: TaskDeployment) -> TaskServices:
        def send_event(operator_id: OperatorId, event: Any) -> None:
            sent = OperatorEventSent(deployment.job_id, deployment.attempt_id, operator_id, SerializedValue(event))
            self.context.tell(self._task_executor, sent)

        return TaskServices(
            network=self._network,
            create_operator=create_operator,
            clock=self.context.clock,
            timers=self.context.timers,
            random=self.context.random,
            send_event=send_event,
            run_blocking=self._main_thread.run_blocking,
            start_loop=self.context.start_loop,
            answer_checkpoint=partial(self.context.tell, self._task_executor),
            create_writer=create_writer,
            create_reader=RestoredTaskReader,
            files=self._files,
        )

    def _report_state(
        self, deployment: TaskDeployment, state: ExecutionState, error: BaseException | None, metrics: TaskMetrics
    ) -> None:
        """Tells the TaskExecutor, on the task's thread. The last figures of a task go before its terminal state."""
        if state.is_terminal:
            self._tell_metrics(deployment.job_id, {deployment.attempt_id: metrics})
        self.context.tell(
            self._task_executor,
            TaskStateChanged(
                deployment.job_id,
                deployment.attempt_id,
                state.value,
                None if error is None else ErrorInfo.of(error),
                dict(metrics.accumulators),
            ),
        )
        if state.is_terminal:
            self._main_thread.run(partial(self._remove, deployment.attempt_id))

    # -- metrics -------------------------------------------------------------------------------------------------

    def _report_metrics(self) -> None:
        by_job: dict[JobId, dict[AttemptId, TaskMetrics]] = {}
        for attempt_id, running in self._running.items():
            if running.task.is_done:
                continue  # the task has sent its last figures itself
            metrics = running.task.metrics()
            running.exporter.export(metrics)
            by_job.setdefault(running.task.deployment.job_id, {})[attempt_id] = metrics
        for job_id, of_job in by_job.items():
            self._tell_metrics(job_id, of_job)

    def _tell_metrics(self, job_id: JobId, metrics: dict[AttemptId, TaskMetrics]) -> None:
        self.context.tell(self._task_executor, MetricsReported(job_id, metrics))

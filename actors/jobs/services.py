"""What the checkpoints and the operator coordinators of a job may use of its JobMaster, and nothing else of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from actors.protocol.main_thread import MainThread
from actors.protocol.ports import Cancellable, Clock, EndpointContext, Loop, SessionId
from actors.protocol.resources import AllocationId
from actors.protocol.serialized_value import SerializedValue
from actors.protocol.task_messages import DeliverOperatorEvent
from actors.scheduling.deployment import allocation_of, task_executor_of
from flinkray.errors import ErrorInfo
from flinkray.types.records import OperatorId
from graphs.execution_graph import AttemptId, ExecutionGraph, ExecutionVertexId
from graphs.job_graph import JobVertexId

log = logging.getLogger(__name__)


class TaskGateway:
    """How a job reaches its tasks: through the TaskExecutors of their slots (Flink's TaskManagerGateway).

    For the JobMaster's thread.
    """

    def __init__(self, context: EndpointContext, session: SessionId, graph: ExecutionGraph) -> None:
        """
        Args:
            session: the JobMaster's.
        """
        self._context = context
        self._session = session
        self._graph = graph

    def tell(self, attempt_id: AttemptId, message: Callable[[SessionId, AllocationId], Any]) -> None:
        """Sends what `message` gives to the attempt, unless it has ended or has no slot."""
        execution = self._graph.executions.get(attempt_id)
        if execution is not None and not execution.state.is_terminal and execution.location is not None:
            self._context.tell(task_executor_of(execution), message(self._session, allocation_of(execution)))

    def send_event(self, vertex: ExecutionVertexId, operator_id: OperatorId, event: Any) -> None:
        """A coordinator's event, to the current attempt of a subtask; dropped where none runs."""
        execution = self._graph.vertices[vertex].current
        if not execution.state.is_deployed:
            log.debug("dropped an event for %s", execution)
            return
        attempt_id = execution.attempt_id
        serialized = SerializedValue(event)
        self.tell(
            attempt_id, lambda session, slot: DeliverOperatorEvent(session, slot, attempt_id, operator_id, serialized)
        )


class JobServices(Struct, frozen=True):
    """What the JobMaster does for the parts of its job, all in its own thread."""

    clock: Clock
    start_loop: Callable[[str, Loop], None]
    """Gives a loop of that name a thread until it is done."""
    main_thread: MainThread
    """The JobMaster's. `RunningJob.go_on` follows everything that it runs."""
    tasks: TaskGateway
    fail_job: Callable[[ErrorInfo], None]
    """The job as a whole has failed: it is restarted, or ends."""
    give_up: Callable[[BaseException], None]
    """This JobMaster must not do anything more: its process ends, and another one has the job, or will."""


class JobCoordinatorContext:
    """What one operator coordinator may use; implements `actors.coordinators.base.JobMasterContext`."""

    def __init__(self, services: JobServices, operator_id: OperatorId, vertex: JobVertexId, parallelism: int) -> None:
        self._services = services
        self._operator_id = operator_id
        self._vertex = vertex
        self._parallelism = parallelism

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def now_ms(self) -> int:
        return self._services.clock.now_ms()

    def send_event(self, subtask_index: int, event: Any) -> None:
        self._services.tasks.send_event(ExecutionVertexId(self._vertex, subtask_index), self._operator_id, event)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        return self._services.main_thread.run_later(delay_ms, callback)

    def run(self, callback: Callable[[], None]) -> None:
        self._services.main_thread.run(callback)

    def start_loop(self, name: str, loop: Loop) -> None:
        self._services.start_loop(name, loop)

    def fail_job(self, error: BaseException) -> None:
        """Fails the job a moment later, since the scheduler may be in the middle of a move."""
        info = ErrorInfo.of(error)
        self._services.main_thread.run(lambda: self._services.fail_job(info))

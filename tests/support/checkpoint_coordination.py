"""A checkpoint coordinator on a graph whose tasks are moved by hand."""

from __future__ import annotations

import re
import zlib
from typing import Any, TypeVar

from actors.checkpoints.coordination.commands import CheckpointCommand, SnapshotCoordinators, StoreCheckpoint
from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.coordination.coordinator import CheckpointCoordinator
from actors.high_availability.pointers import StopSavepoint
from actors.protocol.checkpoint_handles import (
    CheckpointMetrics,
    InlineState,
    OperatorSubtaskState,
    PartKind,
    StatePart,
    TaskSnapshot,
)
from actors.protocol.elements import StopMode
from actors.protocol.task_messages import AcknowledgeCheckpoint, DeclineCheckpoint, EndOfDataReached
from flinkray.errors import CheckpointError, ErrorInfo
from flinkray.execution import JobStatus
from flinkray.types.records import JobId, Millis, OperatorId
from graphs.execution_graph import AttemptId, Execution, ExecutionGraph
from graphs.job_graph import CheckpointSettings, JobGraph
from graphs.states import ExecutionState
from tests.support.control import QuietSource
from tests.support.graphs import Program

JOB = JobId("job")
C = TypeVar("C")
ROAD = (
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)


def three_vertices() -> JobGraph:
    """source -> count -> sink; two subtasks each, in vertices of their own."""
    program = Program({"parallelism.default": 2}, name="three")
    source = program.source(source=QuietSource())
    count = program.map(program.key_by(source, "k"), "count", uid="counter")
    program.sink(program.key_by(count, "k"))
    graph = program.job_graph()
    assert len(graph.vertices) == 3
    return graph


def directories(checkpoint_id: int, is_savepoint: bool, target: str) -> tuple[str, str]:
    if is_savepoint:
        if target == "nowhere":
            raise CheckpointError("no directory for the savepoint")
        return f"{target or 'savepoints'}/savepoint-{checkpoint_id}", ""
    return f"job/chk-{checkpoint_id}", "job/shared"


def settings(**changes: Any) -> CheckpointSettings:
    chosen: dict[str, Any] = {"interval_ms": Millis(1_000), "timeout_ms": Millis(5_000)}
    return CheckpointSettings(**{**chosen, **changes})


def snapshot_of(
    text: str,
    operator: OperatorId,
    kind: PartKind = PartKind.SPLIT,
    is_finished: bool = False,
    is_at_end: bool = False,
) -> TaskSnapshot:
    data = text.encode()
    part = StatePart("state", kind, InlineState(data, zlib.crc32(data)), 1)
    return TaskSnapshot({operator: OperatorSubtaskState((part,))}, is_finished, is_at_end)


class Job:
    """JobMaster, scheduler and tasks in one; `now` is the time of all events."""

    def __init__(
        self,
        configuration: CheckpointSettings | None = None,
        first_id: int = 1,
        starts: bool = True,
        stop: StopSavepoint | None = None,
    ) -> None:
        self.job_graph = three_vertices()
        self.graph = ExecutionGraph.from_job_graph(self.job_graph)
        self.coordinator = CheckpointCoordinator(self.graph, configuration or settings(), directories, first_id, stop)
        self.now = 0
        self.taken: list[CheckpointCommand] = []
        """What was commanded and not looked at yet."""
        self.answers_snapshots = True
        self.graph.transition_job(JobStatus.CREATED, 0)
        self.graph.transition_job(JobStatus.RUNNING, 0)
        if starts:
            self.run_all()

    # -- tasks ---------------------------------------------------------------------------------------------------

    @property
    def executions(self) -> list[Execution]:
        return [vertex.current for vertex in self.graph.vertices.values()]

    def task(self, name: str) -> Execution:
        """For example `count 1`: the current attempt of a subtask, counted from 0."""
        vertex, index = name.rsplit(" ", 1)
        found = next(each for each in self.graph.job_vertices.values() if vertex in each.name)
        return found.subtasks[int(index)].current

    def names(self, attempts: list[AttemptId]) -> list[str]:
        vertices = [self.graph.executions[attempt].vertex for attempt in attempts]
        return [f"{re.split('[: ]', vertex.name)[0]} {vertex.subtask_index}" for vertex in vertices]

    def run_all(self) -> None:
        for execution in self.executions:
            for state in ROAD:
                if execution.state is not ExecutionState.FINISHED and state not in execution.history:
                    execution.transition(state, self.now)
        self.settle()

    def move(self, name: str, *states: str) -> None:
        for state in states:
            self.task(name).transition(ExecutionState[state], self.now)
        self.settle()

    def restart(self) -> None:
        """Every task runs again, in a new attempt."""
        self.graph.transition_job(JobStatus.RESTARTING, self.now)
        for execution in self.executions:
            if not execution.state.is_terminal:
                execution.transition(ExecutionState.CANCELING, self.now)
                execution.transition(ExecutionState.CANCELED, self.now)
            execution.vertex.new_attempt(self.now)
        self.graph.transition_job(JobStatus.RUNNING, self.now)
        self.run_all()

    # -- events --------------------------------------------------------------------------------------------------

    def advance(self, delay_ms: int) -> None:
        """Time passes; the coordinator is called exactly when it wants to be."""
        end = self.now + delay_ms
        while (due := self.coordinator.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.coordinator.tick(self.now)
            self.settle()
            assert self.coordinator.next_due() != due, "the same thing is due for ever"
        self.now = end

    def savepoint(self, stop: StopMode = StopMode.GO_ON, request: str = "r", target: str = "") -> None:
        self.coordinator.trigger_savepoint(request, target, stop, self.now)
        self.settle()

    def acknowledge(self, checkpoint_id: int, *names: str, **how: Any) -> None:
        """The named tasks, or all that run."""
        executions = [self.task(name) for name in names] or [
            execution for execution in self.executions if execution.state is ExecutionState.RUNNING
        ]
        for execution in executions:
            operator = execution.vertex.job_vertex.job_vertex.head.operator_id
            state = snapshot_of(f"{checkpoint_id} {execution.attempt_id}", operator, **how)
            metrics = CheckpointMetrics(1.0, 2.0, 3.0, 4.0, 5)
            message = AcknowledgeCheckpoint(JOB, execution.attempt_id, checkpoint_id, state, metrics)
            self.coordinator.acknowledged(message, self.now)
        self.settle()

    def decline(self, checkpoint_id: int, name: str, error: BaseException | None = None) -> None:
        info = None if error is None else ErrorInfo.of(error)
        message = DeclineCheckpoint(JOB, self.task(name).attempt_id, checkpoint_id, "cannot", info)
        self.coordinator.declined(message, self.now)
        self.settle()

    def end_data(self, *names: str, gives_rows_first: bool = False) -> None:
        for name in names:
            message = EndOfDataReached(JOB, self.task(name).attempt_id, gives_rows_first)
            self.coordinator.end_of_data(message, self.now)
        self.settle()

    def stored(self, checkpoint_id: int, error: BaseException | None = None) -> None:
        info = None if error is None else ErrorInfo.of(error)
        self.coordinator.stored(checkpoint_id, info, self.now)
        self.settle()

    def complete(self, checkpoint_id: int) -> None:
        self.acknowledge(checkpoint_id)
        self.stored(checkpoint_id)

    # -- commands ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Takes the commands, and answers for the operator coordinators."""
        while commands := self.coordinator.take_commands():
            for command in commands:
                self.taken.append(command)
                if isinstance(command, SnapshotCoordinators) and self.answers_snapshots:
                    (vertex, *_others) = self.job_graph.vertices
                    states = {config.operator_id: b"enumerator" for config in vertex.coordinators}
                    self.coordinator.coordinators_snapshotted(command.checkpoint_id, states, self.now)
        self.coordinator.check()

    def commands(self, kind: type[C]) -> list[C]:
        """Those of a kind, since the last call for that kind."""
        found = [command for command in self.taken if isinstance(command, kind)]
        self.taken = [command for command in self.taken if not isinstance(command, kind)]
        return found

    def being_stored(self) -> CompletedCheckpoint:
        (command,) = self.commands(StoreCheckpoint)
        return command.checkpoint


ALL = ("Source 0", "Source 1", "count 0", "count 1", "Sink 0", "Sink 1")

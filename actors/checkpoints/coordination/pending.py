"""A checkpoint that is under way: who takes part in it, and who has acknowledged."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from msgspec import Struct, field

from actors.checkpoints.coordination.completed import CompletedCheckpoint, OperatorState
from actors.protocol.checkpoint_handles import OperatorSubtaskState, PartKind, TaskSnapshot
from actors.protocol.elements import CheckpointOptions, StopMode
from flinkray.types.records import OperatorId
from graphs.execution_graph import (
    AttemptId,
    ConsumedPartitionGroup,
    Execution,
    ExecutionGraph,
    ExecutionJobVertex,
    ExecutionVertex,
    ExecutionVertexId,
)
from graphs.states import ExecutionState


class CheckpointPlan(Struct, frozen=True):
    """Who takes part (Flink's CheckpointPlan)."""

    to_trigger: tuple[AttemptId, ...]
    """Attempts that get no barrier from others on some input: it has ended, is a chained source, or there is none."""
    to_acknowledge: Mapping[AttemptId, ExecutionVertexId]
    """Every attempt that runs."""
    finished: frozenset[ExecutionVertexId]
    """Subtasks that are part of the checkpoint as finished ones."""


def first_not_running(graph: ExecutionGraph) -> Execution | None:
    """A task that is neither running nor finished: while there is one, no checkpoint is possible."""
    fit = (ExecutionState.RUNNING, ExecutionState.FINISHED)
    return next((execution for execution in graph.executions.values() if execution.state not in fit), None)


def is_starting(graph: ExecutionGraph) -> bool:
    """A task is on its way to running."""
    on_their_way = (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, ExecutionState.INITIALIZING)
    return any(execution.state in on_their_way for execution in graph.executions.values())


def plan_checkpoint(graph: ExecutionGraph) -> CheckpointPlan:
    """For a graph of which every task is running or finished."""
    running = {
        execution.attempt_id: execution.vertex.id
        for execution in graph.executions.values()
        if execution.state is ExecutionState.RUNNING
    }
    finished = frozenset(graph.vertices.keys() - running.values())
    ended_groups: dict[ConsumedPartitionGroup, bool] = {}

    def has_ended(group: ConsumedPartitionGroup) -> bool:
        # Groups are shared by many consumers, and each is looked at once.
        if group not in ended_groups:
            ended_groups[group] = all(graph.partitions[key].producer.id in finished for key in group)
        return ended_groups[group]

    def is_triggered(vertex: ExecutionVertex) -> bool:
        # Chained sources have no barrier but the trigger, also beside inputs that go on.
        return vertex.job_vertex.job_vertex.has_chained_sources or all(map(has_ended, vertex.consumed))

    to_trigger = tuple(attempt for attempt, vertex in running.items() if is_triggered(graph.vertices[vertex]))
    return CheckpointPlan(to_trigger, running, finished)


class Acknowledgement(enum.Enum):
    """What an acknowledgement was."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The attempt had acknowledged before."""
    UNKNOWN = "unknown"
    """The attempt takes no part."""


class PendingCheckpoint(Struct):
    """See the module."""

    checkpoint_id: int
    plan: CheckpointPlan
    options: CheckpointOptions
    triggered_ms: int
    request_id: str | None = None
    """Of a savepoint: who asked for it."""
    at_end: frozenset[AttemptId] = frozenset()
    """Attempts that had processed all their rows when it was triggered: once it is complete, they finish."""
    are_triggers_sent: bool = False
    coordinators: Mapping[OperatorId, bytes] = field(default_factory=dict)
    _snapshots: dict[AttemptId, TaskSnapshot] = field(default_factory=dict)

    @property
    def is_savepoint(self) -> bool:
        return self.options.is_savepoint

    @property
    def stops_job(self) -> bool:
        return self.options.stop is not StopMode.GO_ON

    @property
    def is_acknowledged(self) -> bool:
        """By all."""
        return len(self._snapshots) == len(self.plan.to_acknowledge)

    @property
    def finishing(self) -> set[AttemptId]:
        """Attempts that finish once it is complete; some of them had not said that they were at their end before it
        was triggered."""
        return {*self.at_end, *(attempt for attempt, snapshot in self._snapshots.items() if snapshot.is_at_end)}

    @property
    def snapshots(self) -> tuple[TaskSnapshot, ...]:
        return tuple(self._snapshots.values())

    def waits_for(self, attempt_id: AttemptId) -> bool:
        return attempt_id in self.plan.to_acknowledge and attempt_id not in self._snapshots

    def acknowledge(self, attempt_id: AttemptId, snapshot: TaskSnapshot) -> Acknowledgement:
        if attempt_id not in self.plan.to_acknowledge:
            return Acknowledgement.UNKNOWN
        if attempt_id in self._snapshots:
            return Acknowledgement.DUPLICATE
        self._snapshots[attempt_id] = snapshot
        return Acknowledgement.ACCEPTED

    def partly_finished_union(self, graph: ExecutionGraph) -> str | None:
        """An operator with union state some of whose subtasks have finished: theirs is lost to the others.

        Such a checkpoint cannot be restored from (Flink's PartialFinishingNotSupportedByStateException).
        """
        finished = self._finished()
        for vertex in graph.job_vertices.values():
            own = {subtask.id for subtask in vertex.subtasks}
            if not own & finished or own <= finished:
                continue
            for attempt, snapshot in self._snapshots.items():
                if self.plan.to_acknowledge[attempt] not in own:
                    continue
                for operator_id, state in snapshot.operators.items():
                    if any(part.kind is PartKind.UNION for part in state.parts):
                        return next(o.name for o in vertex.job_vertex.operators if o.operator_id == operator_id)
        return None

    def complete(self, graph: ExecutionGraph, now: int) -> CompletedCheckpoint:
        """The whole of it; every task has acknowledged."""
        assert self.is_acknowledged
        by_vertex = {self.plan.to_acknowledge[attempt]: each for attempt, each in self._snapshots.items()}
        finished = self._finished()
        operators: dict[OperatorId, OperatorState] = {}
        for vertex in graph.job_vertices.values():
            operators.update(self._operators_of(vertex, by_vertex, finished))
        return CompletedCheckpoint(
            graph.job_id,
            graph.name,
            self.checkpoint_id,
            self.triggered_ms,
            now,
            self.is_savepoint,
            self.options.directory,
            operators,
        )

    def _finished(self) -> frozenset[ExecutionVertexId]:
        acknowledged = self._snapshots.items()
        return self.plan.finished.union(
            self.plan.to_acknowledge[attempt] for attempt, snapshot in acknowledged if snapshot.is_finished
        )

    def _operators_of(
        self,
        vertex: ExecutionJobVertex,
        snapshots: Mapping[ExecutionVertexId, TaskSnapshot],
        finished: frozenset[ExecutionVertexId],
    ) -> dict[OperatorId, OperatorState]:
        indices = frozenset(subtask.subtask_index for subtask in vertex.subtasks if subtask.id in finished)
        states: dict[OperatorId, OperatorState] = {}
        for operator in vertex.job_vertex.operators:
            subtasks: dict[int, OperatorSubtaskState] = {}
            for subtask in vertex.subtasks:
                snapshot = snapshots.get(subtask.id)
                state = None if snapshot is None else snapshot.operators.get(operator.operator_id)
                if state is not None and state.parts:
                    subtasks[subtask.subtask_index] = state
            states[operator.operator_id] = OperatorState(
                operator.operator_id,
                operator.name,
                operator.uid,
                vertex.parallelism,
                vertex.max_parallelism,
                subtasks,
                indices,
                self.coordinators.get(operator.operator_id),
            )
        return states

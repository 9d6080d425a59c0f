"""A checkpoint that is under way (Flink's PendingCheckpoint): who takes part in it, and who has acknowledged."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Set

from msgspec import Struct, field
from msgspec.structs import replace

from actors.checkpoints.coordination.completed import CompletedCheckpoint, OperatorState
from actors.protocol.checkpoint_handles import OperatorSubtaskState, PartKind, TaskSnapshot
from actors.protocol.elements import CheckpointOptions, StopMode
from flinkray.state.checkpoint_statistics import CheckpointKind, CheckpointStatistics, CheckpointStatus
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
from graphs.job_graph import JobVertexId
from graphs.states import ExecutionState


class CheckpointPlan(Struct, frozen=True):
    """Which tasks take part in a checkpoint (Flink's CheckpointPlan)."""

    to_trigger: tuple[AttemptId, ...]
    """Attempts that get a trigger, as no task sends them a barrier on some input: it is a chained source or has ended,
    or there is no input at all."""
    to_acknowledge: Mapping[AttemptId, ExecutionVertexId]
    """Every attempt that runs."""
    finished: frozenset[ExecutionVertexId]
    """Subtasks that are part of the checkpoint as finished ones."""


def first_not_running(graph: ExecutionGraph) -> Execution | None:
    """A task that is neither running nor finished; while there is one, no checkpoint is possible."""
    fit = (ExecutionState.RUNNING, ExecutionState.FINISHED)
    return next((execution for execution in graph.executions.values() if execution.state not in fit), None)


def is_starting(graph: ExecutionGraph) -> bool:
    """Whether a task is being started."""
    on_their_way = (ExecutionState.SCHEDULED, ExecutionState.DEPLOYING, ExecutionState.INITIALIZING)
    return any(execution.state in on_their_way for execution in graph.executions.values())


def is_ending(graph: ExecutionGraph, at_end: Set[AttemptId], giving: Set[AttemptId]) -> bool:
    """Whether all tasks have processed all their rows, but for those that the next checkpoint brings about.

    Args:
        at_end: the attempts that have processed all their rows, and have not finished.
        giving: those among them that give rows when a checkpoint is complete, and only then tell others of the end.
    """
    before = {graph.executions[each].vertex.job_vertex.id for each in giving}
    waiting: set[JobVertexId] = set()
    for vertex in graph.job_vertices.values() if before else ():  # producers come before consumers
        if any(edge.source_vertex in before or edge.source_vertex in waiting for edge in vertex.job_vertex.inputs):
            waiting.add(vertex.id)
    return bool(at_end) and all(
        each.attempt_id in at_end or each.state is ExecutionState.FINISHED or each.vertex.job_vertex.id in waiting
        for each in graph.executions.values()
    )


def plan_checkpoint(graph: ExecutionGraph) -> CheckpointPlan:
    """Which tasks take part in a checkpoint that is triggered now; each task is running or finished."""
    running = {
        execution.attempt_id: execution.vertex.id
        for execution in graph.executions.values()
        if execution.state is ExecutionState.RUNNING
    }
    finished = frozenset(graph.vertices.keys() - running.values())
    ended_groups: dict[ConsumedPartitionGroup, bool] = {}

    def has_ended(group: ConsumedPartitionGroup) -> bool:
        # Many consumers share a group of partitions, and each group is looked at once.
        if group not in ended_groups:
            ended_groups[group] = all(graph.partitions[key].producer.id in finished for key in group)
        return ended_groups[group]

    def is_triggered(vertex: ExecutionVertex) -> bool:
        # A chained source takes its barrier from the trigger, even if other inputs of the task get theirs from
        # upstream.
        return vertex.job_vertex.job_vertex.has_chained_sources or all(map(has_ended, vertex.consumed))

    to_trigger = tuple(attempt for attempt, vertex in running.items() if is_triggered(graph.vertices[vertex]))
    return CheckpointPlan(to_trigger, running, finished)


class Acknowledgement(enum.Enum):
    """What became of an acknowledgement."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The attempt has acknowledged before."""
    UNKNOWN = "unknown"
    """The attempt does not take part."""


class PendingCheckpoint(Struct):
    """A checkpoint or savepoint between its trigger and its completion, or its abortion."""

    checkpoint_id: int
    plan: CheckpointPlan
    options: CheckpointOptions
    triggered_ms: int
    request_id: str | None = None
    """The request that a savepoint answers; None for a checkpoint."""
    at_end: frozenset[AttemptId] = frozenset()
    """Attempts that had processed all their rows at the trigger, so that they finish once the checkpoint is
    complete."""
    are_triggers_sent: bool = False
    coordinators: Mapping[OperatorId, bytes] = field(default_factory=dict)
    """The snapshots of operator coordinators."""
    _snapshots: dict[AttemptId, TaskSnapshot] = field(default_factory=dict)

    @property
    def is_savepoint(self) -> bool:
        return self.options.is_savepoint

    @property
    def stops_job(self) -> bool:
        return self.options.stop is not StopMode.GO_ON

    @property
    def is_acknowledged(self) -> bool:
        """Whether every task has acknowledged."""
        return len(self._snapshots) == len(self.plan.to_acknowledge)

    @property
    def finishing(self) -> set[AttemptId]:
        """Attempts that finish once the checkpoint is complete, with those that reached their end after the trigger."""
        return {*self.at_end, *(attempt for attempt, snapshot in self._snapshots.items() if snapshot.is_at_end)}

    @property
    def snapshots(self) -> tuple[TaskSnapshot, ...]:
        return tuple(self._snapshots.values())

    @property
    def lets_tasks_finish(self) -> bool:
        """Whether some tasks finish once this checkpoint is complete."""
        return not self.is_savepoint and bool(self.finishing)

    def statistics(self) -> CheckpointStatistics:
        """The statistics of a checkpoint that has just been triggered."""
        kind = CheckpointKind.SAVEPOINT if self.is_savepoint else CheckpointKind.CHECKPOINT
        return CheckpointStatistics(
            self.checkpoint_id,
            CheckpointKind.STOP if self.stops_job else kind,
            CheckpointStatus.IN_PROGRESS,
            self.triggered_ms,
            len(self.plan.to_acknowledge),
            self.options.directory,
        )

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
        """The name of an operator with union state of which some subtasks have finished; None if there is none.

        The state of those subtasks would be missing in the others, so that a job cannot start from such a checkpoint
        (Flink's PartialFinishingNotSupportedByStateException).
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
        """The completed checkpoint; every task must have acknowledged."""
        assert self.is_acknowledged
        by_vertex = {self.plan.to_acknowledge[attempt]: each for attempt, each in self._snapshots.items()}
        finished = self._finished()
        operators: dict[OperatorId, OperatorState] = {}
        for vertex in graph.job_vertices.values():
            states = self._operators_of(vertex, by_vertex, finished)
            head = vertex.job_vertex.head.operator_id  # which has all rows in flight of its task
            if states[head].has(PartKind.IN_FLIGHT):
                states[head] = _with_exchanges(states[head], vertex)
            operators.update(states)
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
        """Subtasks that have finished, or had processed all their rows at their snapshot."""
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
                operator.computes,
            )
        return states


def _with_exchanges(state: OperatorState, vertex: ExecutionJobVertex) -> OperatorState:
    """The state of the head of a task, with whom the task reads from and feeds."""
    gates = sorted(vertex.job_vertex.inputs, key=lambda edge: edge.gate_index)
    results = [edge for result in vertex.results for edge in result.consumer_edges]
    heads = {id: each.job_vertex.head.operator_id for id, each in vertex.graph.job_vertices.items()}
    return replace(
        state,
        gates=tuple(edge.input_index for edge in gates),
        results=tuple((heads[edge.target], edge.input_index) for edge in results),
    )

"""Finds the state of each operator of a program in a checkpoint, or says why the program cannot start from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from actors.checkpoints.coordination.completed import CompletedCheckpoint, OperatorState
from actors.protocol.checkpoint_handles import PartKind
from flinkray.errors import CheckpointError, operator_label
from flinkray.transformations.operator_factories import LocalWindowAggregateFactory
from flinkray.types.records import OperatorId
from graphs.execution_graph import ExecutionGraph, ExecutionJobVertex
from graphs.job_graph import JobVertexId, OperatorConfig

_ADDED_BY_COMPILER = (LocalWindowAggregateFactory.__name__,)
"""Operators without state that the compiler adds to a program, or leaves out, depending on parallelism and options."""

_IGNORE = "set execution.state-recovery.ignore-unclaimed-state (allow_non_restored_state) to leave it behind"


class MatchedVertex(Struct, frozen=True):
    """A vertex of the program with the state of its operators in the checkpoint."""

    vertex: ExecutionJobVertex
    states: Mapping[OperatorId, OperatorState]
    """The state of each operator that the checkpoint knows, by the id that the operator has now."""
    is_finished: bool
    """Whether all subtasks of all its operators had finished."""


def match(
    checkpoint: CompletedCheckpoint, graph: ExecutionGraph, *, allow_non_restored_state: bool
) -> dict[JobVertexId, MatchedVertex]:
    """Matches every vertex of the program, in topological order.

    The state of an operator is found by its id, else by one of the ids that it would have had before (without a uid
    hash). An operator that is known to compute something else is another one. Vertices whose max parallelism the
    program does not set take over that of their state.

    Raises:
        CheckpointError: the program cannot start from the checkpoint; names the operator, and the way out.
    """
    what = _name_of(checkpoint)
    by_current_id = _states(checkpoint, graph)
    claimed = {state.operator_id for state in by_current_id.values()}
    if checkpoint.operators and not claimed:
        raise CheckpointError(
            f"{what} is of job {checkpoint.job_name!r} ({checkpoint.job_id}), and none of its operators is in this "
            "program: start from one of this job's own, or give operators the uids that they had"
        )
    if not allow_non_restored_state:
        _refuse_unclaimed(what, [state for id, state in checkpoint.operators.items() if id not in claimed])
    vertices: dict[JobVertexId, MatchedVertex] = {}
    for vertex in graph.job_vertices.values():
        ids = [operator.operator_id for operator in vertex.job_vertex.operators]
        states = {each: by_current_id[each] for each in ids if each in by_current_id}
        _take_over_max_parallelism(vertex, states.values())
        _check_parallelism(what, vertex, states)
        vertices[vertex.id] = MatchedVertex(vertex, states, _is_finished(what, vertex, states))
    _check_finished(what, vertices)
    return vertices


def has_state(state: OperatorState) -> bool:
    return state.coordinator is not None or any(subtask.parts for subtask in state.subtasks.values())


def _states(checkpoint: CompletedCheckpoint, graph: ExecutionGraph) -> dict[OperatorId, OperatorState]:
    """The state of each operator, by its present id. A present id is preferred to former ones, so that no state goes to
    two operators."""
    operators = [each for vertex in graph.job_vertices.values() for each in vertex.job_vertex.operators]
    current = {each.operator_id for each in operators}
    found: dict[OperatorId, OperatorState] = {}
    claimed: set[OperatorId] = set()
    for operator in operators:
        former = (each for each in operator.alternative_ids if each not in current)
        for candidate in (operator.operator_id, *former):
            state = checkpoint.operators.get(candidate)
            if state is not None and candidate not in claimed and _is_of(operator, state):
                claimed.add(candidate)
                found[operator.operator_id] = state
                break
    return found


def _is_of(operator: OperatorConfig, state: OperatorState) -> bool:
    """Whether state is that of an operator, or of one of which nobody knows that it computed something else."""
    return not (operator.computes and state.computes) or operator.computes == state.computes


def _refuse_unclaimed(what: str, states: list[OperatorState]) -> None:
    unclaimed = [state for state in states if has_state(state)]
    if not unclaimed:
        return
    first = unclaimed[0]
    identity = f"uid {first.uid!r}" if first.uid is not None else f"id {first.operator_id}"
    computed = f", which computed {first.computes}," if first.computes else ""
    more = f", and of {len(unclaimed) - 1} more operators," if len(unclaimed) > 1 else ""
    raise CheckpointError(
        f"{what} has state of operator {first.name!r} ({identity}){computed}{more} that is not in this program: give "
        f"the operator that has taken its place that uid, as uid_hash where it is an id, or {_IGNORE}"
    )


def _take_over_max_parallelism(vertex: ExecutionJobVertex, states: Iterable[OperatorState]) -> None:
    """Where the program sets none, that of the checkpoint holds: one that is made of the parallelism would change with
    it, and keys would belong to other key groups."""
    if vertex.job_vertex.has_own_max_parallelism:
        return
    for state in states:
        # Rows in flight were given out by key groups, too; without keyed state these may become others.
        if _is_keyed(state) or (state.has(PartKind.IN_FLIGHT) and vertex.parallelism <= state.max_parallelism):
            vertex.max_parallelism = state.max_parallelism


def _is_keyed(state: OperatorState) -> bool:
    return state.has(PartKind.KEYED, PartKind.NATIVE)


def _check_parallelism(what: str, vertex: ExecutionJobVertex, states: Mapping[OperatorId, OperatorState]) -> None:
    if vertex.parallelism > vertex.max_parallelism:
        raise CheckpointError(
            f"{vertex.name!r} cannot start from {what}: its parallelism, {vertex.parallelism}, is above its max "
            f"parallelism, {vertex.max_parallelism}; lower it"
        )
    for state in states.values():
        if _is_keyed(state) and state.max_parallelism != vertex.max_parallelism:
            raise CheckpointError(
                f"{operator_label(state.name)} cannot start from {what}: its state was taken at max parallelism "
                f"{state.max_parallelism}, the program has {vertex.max_parallelism}, and keys would belong to other "
                f"key groups; set_max_parallelism({state.max_parallelism})"
            )


def _is_finished(what: str, vertex: ExecutionJobVertex, states: Mapping[OperatorId, OperatorState]) -> bool:
    finished = {each for each, state in states.items() if state.is_finished}
    unfinished = [
        each.name
        for each in vertex.job_vertex.operators
        if each.operator_id not in finished and each.factory_name not in _ADDED_BY_COMPILER
    ]
    if finished and unfinished:
        names = ", ".join(repr(states[each].name) for each in sorted(finished))
        raise CheckpointError(
            f"{vertex.name!r} cannot start from {what}: {names} had finished there, but {unfinished[0]!r}, which "
            "shares a task with it, had not; do not chain what has finished with what has not, or is new"
        )
    return bool(finished)


def _check_finished(what: str, vertices: Mapping[JobVertexId, MatchedVertex]) -> None:
    for matched in vertices.values():
        for edge in matched.vertex.job_vertex.inputs if matched.is_finished else ():
            producer = vertices[edge.source_vertex]
            if not producer.is_finished:
                raise CheckpointError(
                    f"{matched.vertex.name!r} had finished in {what}, and would drop what now comes to it from "
                    f"{producer.vertex.name!r}, which had not; give one of them another uid"
                )


def _name_of(checkpoint: CompletedCheckpoint) -> str:
    kind = "savepoint" if checkpoint.is_savepoint else "checkpoint"
    return f"{kind} {checkpoint.directory or checkpoint.checkpoint_id}"

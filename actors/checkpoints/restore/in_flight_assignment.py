"""Which subtask processes the rows that an unaligned barrier overtook, when the job is restored. Pure.

A task saves the rows that waited at its gates ("gate <gate index>") and those on their way out ("result <result
index>/<subpartition>"). All of them go to the consumers of the exchange: each subtask starts with the rows that waited
at its gates, and then processes those that were to come after them (`actors.tasks.checkpoints.restoring`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from actors.checkpoints.coordination.completed import CompletedCheckpoint, OperatorState
from actors.checkpoints.restore.matching import MatchedVertex
from actors.protocol.checkpoint_handles import PartKind, RestoredPart, StatePart
from flinkray.errors import CheckpointError
from flinkray.transformations.partitioning import SubtaskStateMapper
from flinkray.types.records import OperatorId
from graphs.edge_manager import spread
from graphs.execution_graph import ExecutionVertexId
from graphs.job_graph import JobEdge, JobVertexId
from graphs.key_groups import key_group_range, subtask_for_key_group


class _OvertakenRows(Struct, frozen=True):
    """Rows that a barrier overtook on their way to one consumer."""

    part: StatePart
    consumer: int
    """The former subtask that was to process them."""


def assign_in_flight(
    checkpoint: CompletedCheckpoint, vertices: Mapping[JobVertexId, MatchedVertex]
) -> dict[ExecutionVertexId, list[RestoredPart]]:
    """The parts that each subtask's head operator starts with, named "gate <gate index>", by gate and then oldest
    first.

    Where the exchange says which subtask a row belongs to (by key, or by the user's partitioner), and was rescaled, a
    part goes to every subtask that may own some of its rows, and each keeps those.

    Raises:
        CheckpointError: rows were in flight on an exchange that the program does not have any more, or that cannot be
            rescaled with rows in flight.
    """
    assigned: dict[ExecutionVertexId, list[RestoredPart]] = defaultdict(list)
    rows = _rows_by_gate(checkpoint, vertices)
    for vertex_id, gate_index in sorted(rows):
        matched = vertices[vertex_id]
        edge = _edge_of(matched, gate_index)
        former = _parallelism(matched)
        if former != matched.vertex.parallelism and edge.downstream_mapper is SubtaskStateMapper.UNSUPPORTED:
            raise _not_rescalable(checkpoint, matched, edge, former)
        for each in rows[vertex_id, gate_index]:
            receivers = _receivers(each.consumer, former, edge, matched)
            part = RestoredPart(replace(each.part, name=f"gate {gate_index}"), is_shared=len(receivers) > 1)
            for index in receivers:
                assigned[ExecutionVertexId(vertex_id, index)].append(part)
    return assigned


def _receivers(consumer: int, former: int, edge: JobEdge, matched: MatchedVertex) -> range:
    """The subtasks that get the rows which were on their way to a former subtask."""
    now, groups = matched.vertex.parallelism, matched.vertex.max_parallelism
    has_same_groups = groups == _max_parallelism(matched)
    if now == former and (has_same_groups or edge.downstream_mapper is not SubtaskStateMapper.RANGE):
        return range(consumer, consumer + 1)
    match edge.downstream_mapper:
        case SubtaskStateMapper.RANGE if has_same_groups:
            owned = key_group_range(consumer, former, groups)
            first, last = (subtask_for_key_group(each, now, groups) for each in (owned[0], owned[-1]))
            return range(first, last + 1)
        case SubtaskStateMapper.RANGE | SubtaskStateMapper.FULL:
            return range(now)
        case SubtaskStateMapper.FIRST:
            return range(1)
        case _:
            return range(consumer % now, consumer % now + 1)


def _rows_by_gate(
    checkpoint: CompletedCheckpoint, vertices: Mapping[JobVertexId, MatchedVertex]
) -> dict[tuple[JobVertexId, int], list[_OvertakenRows]]:
    """The overtaken rows by consumer and gate index, oldest first.

    Those that waited at gates come first, as producers had sent them before the rows that they still had.
    """
    rows: dict[tuple[JobVertexId, int], list[_OvertakenRows]] = defaultdict(list)
    for matched in vertices.values():
        for operator_id, subtask, part in _parts(matched, "gate "):
            if operator_id != matched.vertex.job_vertex.head.operator_id:
                raise _changed(checkpoint, matched)
            edge = _edge_of_gate(matched, int(part.name.removeprefix("gate ")))
            if edge is None:
                raise _changed(checkpoint, matched)
            rows[matched.vertex.id, edge.gate_index].append(_OvertakenRows(part, subtask))
    for matched in vertices.values():
        for operator_id, subtask, part in _parts(matched, "result "):
            result_index, subpartition = map(int, part.name.removeprefix("result ").split("/"))
            edge = _edge_of_result(vertices, matched, matched.states[operator_id], result_index)
            if edge is None:
                raise _changed(checkpoint, matched)
            consumers = _parallelism(vertices[edge.target])
            consumer = _first_consumer(edge, subtask, _parallelism(matched), consumers) + subpartition
            if consumer >= consumers:  # the exchange is of another kind now
                raise _changed(checkpoint, matched)
            rows[edge.target, edge.gate_index].append(_OvertakenRows(part, consumer))
    return rows


def _edge_of_gate(matched: MatchedVertex, gate_index: int) -> JobEdge | None:
    """What now brings rows of a former gate: into the same input, and by the gate of that index if there is one."""
    edges = matched.vertex.job_vertex.inputs
    if gates := matched.states[matched.vertex.job_vertex.head.operator_id].gates:
        edges = tuple(edge for edge in edges if edge.input_index == gates[gate_index])
        return min(edges, key=lambda edge: edge.gate_index != gate_index, default=None)
    return next((edge for edge in edges if edge.gate_index == gate_index), None)


def _edge_of_result(
    vertices: Mapping[JobVertexId, MatchedVertex], producer: MatchedVertex, state: OperatorState, result_index: int
) -> JobEdge | None:
    """What now brings rows of a former result: into the same input of the same operator, and from the same task if that
    still feeds it; of several such results of a task, as where a stream is united with itself, the one of that rank."""
    if not state.results:  # an earlier version wrote none
        results = producer.vertex.results
        edges = results[result_index].consumer_edges if result_index < len(results) else ()
        return edges[0] if edges else None
    reader, input_index = state.results[result_index]
    edges = [
        edge
        for consumer in vertices.values()
        for edge in consumer.vertex.job_vertex.inputs
        if edge.input_index == input_index and _former_head(consumer) == reader
    ]
    places = {result.id: place for place, result in enumerate(producer.vertex.results)}
    own = sorted((edge for edge in edges if edge.source in places), key=lambda edge: places[edge.source])
    rank = state.results[:result_index].count((reader, input_index))
    return own[min(rank, len(own) - 1)] if own else next(iter(edges), None)


def _former_head(matched: MatchedVertex) -> OperatorId | None:
    """The id that the head of a task had in the checkpoint; None: it was not there."""
    state = matched.states.get(matched.vertex.job_vertex.head.operator_id)
    return None if state is None else state.operator_id


def _parts(matched: MatchedVertex, prefix: str) -> Iterator[tuple[OperatorId, int, StatePart]]:
    """The parts of a vertex with rows in flight whose names begin so: (operator, former subtask, part)."""
    for operator_id, state in matched.states.items():
        for subtask in sorted(state.subtasks):
            for part in state.subtasks[subtask].parts:
                if part.kind is PartKind.IN_FLIGHT and part.name.startswith(prefix):
                    yield operator_id, subtask, part


def _parallelism(matched: MatchedVertex) -> int:
    """The vertex's parallelism in the checkpoint; its present one if the checkpoint does not know the vertex."""
    states: Iterator[OperatorState] = iter(matched.states.values())
    return next((state.parallelism for state in states), matched.vertex.parallelism)


def _max_parallelism(matched: MatchedVertex) -> int:
    """The vertex's max parallelism in the checkpoint; its present one if the checkpoint does not know the vertex."""
    states: Iterator[OperatorState] = iter(matched.states.values())
    return next((state.max_parallelism for state in states), matched.vertex.max_parallelism)


def _edge_of(matched: MatchedVertex, gate_index: int) -> JobEdge:
    return next(edge for edge in matched.vertex.job_vertex.inputs if edge.gate_index == gate_index)


def _first_consumer(edge: JobEdge, producer: int, producers: int, consumers: int) -> int:
    """The former subtask of the consumer to which subpartition 0 of a producer's subtask went."""
    for first, end, first_consumer, _ in spread(producers, consumers, edge.pattern):
        if first <= producer < end:
            return first_consumer
    raise AssertionError(f"producer {producer} of {producers} feeds nobody")


def _changed(checkpoint: CompletedCheckpoint, matched: MatchedVertex) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {checkpoint.directory or checkpoint.checkpoint_id} has rows in flight from or to "
        f"{matched.vertex.name!r} on an exchange that this program does not have: a program that was changed, or whose "
        "operators share a task at another parallelism, starts from a savepoint, which has no rows in flight"
    )


def _not_rescalable(
    checkpoint: CompletedCheckpoint, matched: MatchedVertex, edge: JobEdge, former: int
) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {checkpoint.directory or checkpoint.checkpoint_id} has rows in flight to {matched.vertex.name!r} "
        f"on a {edge.ship_strategy} exchange, and nothing says to which of {matched.vertex.parallelism} subtasks they "
        f"belong: start it with the parallelism that it had, {former}, or from a savepoint, which has no rows in flight"
    )

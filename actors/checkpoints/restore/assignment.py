"""Which subtask starts from which parts of a checkpoint, whatever parallelism it was taken at. Pure.

After Flink's StateAssignmentOperation. Keyed state goes by key group, lists as their kind says, and rows that were in
flight to the subtasks that have to process them (`actors.checkpoints.restore.in_flight_assignment`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from actors.checkpoints.coordination.completed import CompletedCheckpoint, OperatorState
from actors.checkpoints.restore.in_flight_assignment import assign_in_flight
from actors.checkpoints.restore.matching import match
from actors.protocol.checkpoint_handles import PartKind, RestoredPart, StatePart, TaskRestore
from flinkray.types.records import OperatorId
from graphs.execution_graph import ExecutionGraph, ExecutionVertexId
from graphs.key_groups import key_group_range

Parts = list[RestoredPart]


class Assignment(Struct, frozen=True):
    """What a job starts from."""

    tasks: Mapping[ExecutionVertexId, TaskRestore]
    """Of every subtask, also where it gets no state."""
    coordinators: Mapping[OperatorId, bytes]
    """By the id that the operator has now."""


def assign(
    checkpoint: CompletedCheckpoint, graph: ExecutionGraph, *, allow_non_restored_state: bool = False
) -> Assignment:
    """
    Args:
        allow_non_restored_state: whether state of operators that the program does not have is left behind.

    Raises:
        CheckpointError: the program cannot start from it; names the operator, and the way out.
    """
    vertices = match(checkpoint, graph, allow_non_restored_state=allow_non_restored_state)
    in_flight = assign_in_flight(checkpoint, vertices)
    tasks: dict[ExecutionVertexId, TaskRestore] = {}
    coordinators: dict[OperatorId, bytes] = {}
    for matched in vertices.values():
        vertex = matched.vertex
        shares: list[dict[OperatorId, Parts]] = [{} for _ in range(vertex.parallelism)]
        for operator_id, state in matched.states.items():
            if state.coordinator is not None:
                coordinators[operator_id] = state.coordinator
            given = share_out(state, vertex.parallelism, vertex.max_parallelism)
            for share, parts in zip(shares, given, strict=True):
                share[operator_id] = parts
        head = vertex.job_vertex.head.operator_id
        rescaled = frozenset(each for each, state in matched.states.items() if state.parallelism != vertex.parallelism)
        for index, share in enumerate(shares):
            subtask = ExecutionVertexId(vertex.id, index)
            share[head] = [*share.get(head, ()), *in_flight.get(subtask, ())]
            tasks[subtask] = TaskRestore(
                checkpoint_id=checkpoint.checkpoint_id,
                directory=checkpoint.directory,
                operators={operator_id: tuple(parts) for operator_id, parts in share.items() if parts},
                is_finished=matched.is_finished,
                rescaled=rescaled,
            )
    return Assignment(tasks, coordinators)


def share_out(state: OperatorState, parallelism: int, max_parallelism: int) -> list[Parts]:
    """What each of `parallelism` subtasks gets of an operator's state, but for rows in flight; in the order of the
    former subtasks."""
    shares: list[Parts] = [[] for _ in range(parallelism)]
    split: dict[str, list[StatePart]] = defaultdict(list)
    broadcast: dict[str, dict[int, StatePart]] = defaultdict(dict)
    owned = [key_group_range(index, parallelism, max_parallelism) for index in range(parallelism)]
    for former in sorted(state.subtasks):
        for part in state.subtasks[former].parts:
            if part.kind in (PartKind.KEYED, PartKind.NATIVE):
                for share, groups in zip(shares, owned, strict=True):
                    if _intersects(part, groups):
                        share.append(RestoredPart(part))
            elif part.kind is PartKind.UNION:
                for share in shares:
                    share.append(RestoredPart(part))
            elif part.kind is PartKind.BROADCAST:
                broadcast[part.name][former] = part
            elif part.kind is PartKind.SPLIT:
                if state.parallelism == parallelism:
                    shares[former].append(RestoredPart(part))
                else:
                    split[part.name].append(part)
    for copies in broadcast.values():
        for index, share in enumerate(shares):
            share.append(RestoredPart(_copy_for(index, copies, state.parallelism)))
    first = 0
    for parts in split.values():
        first = _deal(parts, shares, first)
    return shares


def _intersects(part: StatePart, groups: range) -> bool:
    assert part.key_groups is not None, f"part {part.name!r} is keyed and names no key groups"
    first, end = part.key_groups
    return max(first, groups.start) < min(end, groups.stop)


def _copy_for(index: int, copies: Mapping[int, StatePart], former_parallelism: int) -> StatePart:
    """The one of the former subtask that the index points at; of another one where that had ended, or had none."""
    wanted = copies.get(index % former_parallelism)
    return wanted if wanted is not None else copies[sorted(copies)[index % len(copies)]]


def _deal(parts: Sequence[StatePart], shares: list[Parts], first: int) -> int:
    """Deals all items out in order, so that numbers differ by one at most. Those that get one more come first from
    subtask `first` on; gives the subtask after them, so that short lists do not all go to the same subtask."""
    fewest, extra = divmod(sum(part.items for part in parts), len(shares))
    counts = [fewest + ((index - first) % len(shares) < extra) for index in range(len(shares))]
    position = 0  # within the part
    remaining = iter(part for part in parts if part.items)
    part = next(remaining, None)
    for share, count in zip(shares, counts, strict=True):
        while count and part is not None:
            taken = min(count, part.items - position)
            share.append(RestoredPart(part, position, position + taken))
            position += taken
            count -= taken
            if position == part.items:
                part, position = next(remaining, None), 0
    return (first + extra) % len(shares)

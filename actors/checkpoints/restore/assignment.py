"""Which subtask starts from which parts of a checkpoint, whatever parallelism it was taken at. Pure.

After Flink's StateAssignmentOperation. Keyed state is distributed by key group and lists as their kind says; rows that
were in flight go to the subtasks that have to process them (`in_flight_assignment.py`).
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

PartsOfSubtask = list[RestoredPart]
"""The parts that one subtask reads of an operator's state."""


class Assignment(Struct, frozen=True):
    """What each task and each operator coordinator of a job starts from."""

    tasks: Mapping[ExecutionVertexId, TaskRestore]
    """What every subtask starts from, with those that get no state."""
    coordinators: Mapping[OperatorId, bytes]
    """The state of operator coordinators, by the id that the operator has now."""


def assign(
    checkpoint: CompletedCheckpoint, graph: ExecutionGraph, *, allow_non_restored_state: bool = False
) -> Assignment:
    """Assigns the state of a checkpoint to the subtasks of a program.

    Args:
        allow_non_restored_state: whether state of operators that the program does not have is left behind.

    Raises:
        CheckpointError: the program cannot start from the checkpoint; names the operator, and the way out.
    """
    vertices = match(checkpoint, graph, allow_non_restored_state=allow_non_restored_state)
    in_flight = assign_in_flight(checkpoint, vertices)
    tasks: dict[ExecutionVertexId, TaskRestore] = {}
    coordinators: dict[OperatorId, bytes] = {}
    for matched in vertices.values():
        vertex = matched.vertex
        shares: list[dict[OperatorId, PartsOfSubtask]] = [{} for _ in range(vertex.parallelism)]
        for operator_id, state in matched.states.items():
            if state.coordinator is not None:
                coordinators[operator_id] = state.coordinator
            assigned = distribute(state, vertex.parallelism, vertex.max_parallelism)
            for share, parts in zip(shares, assigned, strict=True):
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


def distribute(state: OperatorState, parallelism: int, max_parallelism: int) -> list[PartsOfSubtask]:
    """Distributes an operator's state among `parallelism` subtasks, except rows in flight.

    Each subtask gets its parts in the order of the former subtasks.
    """
    shares: list[PartsOfSubtask] = [[] for _ in range(parallelism)]
    split: dict[str, list[StatePart]] = defaultdict(list)
    broadcast: dict[str, dict[int, StatePart]] = defaultdict(dict)
    owned = [key_group_range(index, parallelism, max_parallelism) for index in range(parallelism)]
    for former in sorted(state.subtasks):
        for part in state.subtasks[former].parts:
            if part.kind in (PartKind.KEYED, PartKind.NATIVE):
                for share, groups in zip(shares, owned, strict=True):
                    if _intersects(part, groups):
                        share.append(RestoredPart(part))
            elif part.kind in (PartKind.UNION, PartKind.GATHERED):
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
    """The copy of broadcast state that a subtask gets: that of the former subtask with its index, if there is one."""
    wanted = copies.get(index % former_parallelism)
    return wanted if wanted is not None else copies[sorted(copies)[index % len(copies)]]


def _deal(parts: Sequence[StatePart], shares: list[PartsOfSubtask], first: int) -> int:
    """Deals the items of lists out in order, so that the numbers of items per subtask differ by one at most.

    The subtasks from `first` on get one item more, as far as there are that many. Returns the subtask after them, so
    that short lists do not all go to the same subtask.
    """
    fewest, extra = divmod(sum(part.items for part in parts), len(shares))
    counts = [fewest + ((index - first) % len(shares) < extra) for index in range(len(shares))]
    position = 0  # index of the next item within the part
    remaining = iter(part for part in parts if part.items)
    part = next(remaining, None)
    for share, count in zip(shares, counts, strict=True):
        while count and part is not None:
            dealt = min(count, part.items - position)
            share.append(RestoredPart(part, position, position + dealt))
            position += dealt
            count -= dealt
            if position == part.items:
                part, position = next(remaining, None), 0
    return (first + extra) % len(shares)

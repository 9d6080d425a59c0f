"""Which subtasks share a slot: at most one subtask of each vertex, all of one slot sharing group.

After Flink's LocalInputPreferredSlotSharingStrategy: a subtask goes where one of its producers is if it reads from few
of them, and otherwise beside the subtasks of its own index. Every group takes as many slots as its widest vertex has
subtasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from actors.protocol.resources import ResourceProfile, SlotRequest
from graphs.execution_graph import ExecutionGraph, ExecutionJobVertex, ExecutionVertex, ExecutionVertexId
from graphs.job_graph import DistributionPattern, JobVertexId

# A slot reads by its label in dashboards and logs; a chain of fifty operators should not fill the screen there.
MAX_LABEL_LENGTH = 160


class SharedSlot(Struct, frozen=True):
    """Subtasks that run in one slot (Flink's ExecutionSlotSharingGroup)."""

    request: SlotRequest
    vertices: tuple[ExecutionVertexId, ...]
    """The subtasks, in topological order."""

    @property
    def label(self) -> str:
        return self.request.label


class _SharedSlotBuilder(Struct, eq=False):
    subtasks: list[ExecutionVertex] = field(default_factory=list)
    members: set[JobVertexId] = field(default_factory=set)

    def add(self, subtask: ExecutionVertex) -> None:
        self.subtasks.append(subtask)
        self.members.add(subtask.id.vertex_id)


def share_slots(graph: ExecutionGraph, slot_profile: ResourceProfile) -> tuple[SharedSlot, ...]:
    """Every subtask of the graph in exactly one shared slot.

    Args:
        slot_profile: what any slot has; what a subtask asks for beside it is added.
    """
    groups: dict[str, list[ExecutionJobVertex]] = {}
    for vertex in graph.job_vertices.values():
        groups.setdefault(vertex.slot_sharing_group, []).append(vertex)
    slots = [slot for vertices in groups.values() for slot in _share_group(vertices)]
    labels = _unique(_label(graph.name, slot.subtasks) for slot in slots)
    return tuple(
        SharedSlot(
            SlotRequest(_profile(slot.subtasks, slot_profile), label), tuple(subtask.id for subtask in slot.subtasks)
        )
        for slot, label in zip(slots, labels, strict=True)
    )


def _share_group(vertices: list[ExecutionJobVertex]) -> list[_SharedSlotBuilder]:
    slots = [_SharedSlotBuilder() for _ in range(max(vertex.parallelism for vertex in vertices))]
    slot_of: dict[ExecutionVertexId, _SharedSlotBuilder] = {}
    co_located: dict[tuple[str, int], _SharedSlotBuilder] = {}

    def place(subtask: ExecutionVertex, slot: _SharedSlotBuilder) -> None:
        slot.add(subtask)
        slot_of[subtask.id] = slot
        if subtask.co_location_constraint is not None:
            co_located.setdefault(subtask.co_location_constraint, slot)

    for vertex in vertices:
        rest = []
        for subtask in vertex.subtasks:
            constraint = subtask.co_location_constraint
            if constraint is not None and constraint in co_located:
                place(subtask, co_located[constraint])
            elif (near := _slot_of_producer(subtask, slot_of)) is not None:
                place(subtask, near)
            else:
                rest.append(subtask)
        for subtask in rest:
            place(subtask, _nearest_free(slots, subtask))
    return slots


def _slot_of_producer(
    subtask: ExecutionVertex, slot_of: dict[ExecutionVertexId, _SharedSlotBuilder]
) -> _SharedSlotBuilder | None:
    """The slot of a producer that it reads pointwise from, if this vertex has no subtask there yet."""
    edges = sorted(subtask.job_vertex.job_vertex.inputs, key=lambda edge: edge.gate_index)
    for group, edge in zip(subtask.consumed, edges, strict=True):
        if edge.pattern is DistributionPattern.ALL_TO_ALL:
            continue
        for partition in group:
            producer = subtask.graph.partitions[partition].producer
            slot = slot_of.get(producer.id)
            if slot is not None and subtask.id.vertex_id not in slot.members:
                return slot
    return None


def _nearest_free(slots: list[_SharedSlotBuilder], subtask: ExecutionVertex) -> _SharedSlotBuilder:
    """The slot of the same index, else the first one where this vertex has no subtask yet."""
    same_index = slots[subtask.subtask_index]
    if subtask.id.vertex_id not in same_index.members:
        return same_index
    return next(slot for slot in slots if subtask.id.vertex_id not in slot.members)


def _profile(subtasks: Iterable[ExecutionVertex], slot_profile: ResourceProfile) -> ResourceProfile:
    asked = [subtask.job_vertex.resources for subtask in subtasks]
    return ResourceProfile(
        slot_profile.cpus + sum(resources.cpus for resources in asked),
        slot_profile.memory_bytes + sum(resources.memory_bytes for resources in asked),
    )


def _label(job_name: str, subtasks: list[ExecutionVertex]) -> str:
    """How the slot reads, for example `word-count: Source → map (1/2), window (1/2)`."""
    text = ", ".join(subtask.name.replace(" -> ", " → ") for subtask in subtasks)
    label = f"{job_name}: {text}"
    return label if len(label) <= MAX_LABEL_LENGTH else label[: MAX_LABEL_LENGTH - 1] + "…"


def _unique(labels: Iterable[str]) -> Iterator[str]:
    """Labels in the same order, each repetition numbered."""
    seen: set[str] = set()
    numbers: dict[str, int] = {}
    for label in labels:
        candidate, number = label, numbers.get(label, 1)
        while candidate in seen:
            number += 1
            candidate = f"{label} #{number}"
        numbers[label] = number
        seen.add(candidate)
        yield candidate

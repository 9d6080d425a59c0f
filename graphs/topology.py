"""The order in which a job's vertices can be built: producers before consumers."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.errors import InvalidProgramError
from graphs.job_graph import JobVertex, JobVertexId


def sort_topologically(vertices: Sequence[JobVertex]) -> tuple[JobVertex, ...]:
    """Vertices without inputs first, in the given order, then each as soon as its last producer is placed, depth first.

    Raises:
        InvalidProgramError: the vertices form a cycle, or one reads from a vertex that is not among them.
    """
    known = {vertex.id for vertex in vertices}
    consumers: dict[JobVertexId, list[JobVertex]] = {}
    waits_for: dict[JobVertexId, int] = {}
    for vertex in vertices:
        waits_for[vertex.id] = len(vertex.inputs)
        for producer in (edge.source_vertex for edge in vertex.inputs):
            if producer not in known:
                raise InvalidProgramError(f"vertex {vertex.name!r} reads from {producer}, which is not part of the job")
            consumers.setdefault(producer, []).append(vertex)

    placed: list[JobVertex] = []
    # A stack, so that a vertex is followed by what it makes ready, before the next source's consumers.
    ready = [vertex for vertex in vertices if waits_for[vertex.id] == 0]
    placed.extend(ready)
    stack = list(reversed(ready))
    while stack:
        newly_ready = []
        for consumer in consumers.get(stack.pop().id, ()):
            waits_for[consumer.id] -= 1
            if waits_for[consumer.id] == 0:
                newly_ready.append(consumer)
        placed.extend(newly_ready)
        stack.extend(reversed(newly_ready))
    if len(placed) < len(vertices):
        names = ", ".join(repr(vertex.name) for vertex in vertices if waits_for[vertex.id] > 0)
        raise InvalidProgramError(f"the job's vertices form a cycle: {names}")
    return tuple(placed)

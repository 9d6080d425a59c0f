"""Which vertices of a job that runs get another parallelism, and which have to come along. Pure.

Vertices that exchange rows subtask by subtask (forward edges, co-location groups) keep equal numbers of subtasks, so
that they are rescaled together or not at all. After Flink's VertexParallelismStore and its check of requirements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flinkray.errors import RescaleError
from flinkray.transformations.partitioning import ForwardPartitioner
from graphs.execution_graph import ExecutionGraph, ExecutionJobVertex
from graphs.job_graph import JobVertexId

Parallelisms = dict[JobVertexId, int]
"""Vertex -> number of its subtasks."""


def parallelisms_for(graph: ExecutionGraph, wanted: int | Mapping[str, int]) -> Parallelisms:
    """The vertices that change, those included that have to come along.

    Args:
        wanted: the parallelism of the job, which all vertices get that can have another, and for which the program sets
            none of their own; one with a max parallelism of its own below that gets as many subtasks as that allows.
            Or that of vertices, by their id, or their name where it is the only one.

    Raises:
        RescaleError: there is no such vertex, or it cannot have so many subtasks, or two that belong together are to
            have different numbers; names them.
    """
    resolved = _of_job(graph, wanted) if isinstance(wanted, int) else _of_vertices(graph, wanted)
    return {vertex: number for vertex, number in resolved.items() if graph.job_vertices[vertex].parallelism != number}


def _of_job(graph: ExecutionGraph, parallelism: int) -> Parallelisms:
    resolved: Parallelisms = {}
    for group in bound_groups(graph):
        is_fixed = any(vertex.job_vertex.fixed_because for vertex in group)
        if is_fixed or any(vertex.job_vertex.has_own_parallelism for vertex in group):
            continue
        own = [vertex.max_parallelism for vertex in group if vertex.job_vertex.has_own_max_parallelism]
        resolved.update(_checked(group, min(parallelism, *own) if own else parallelism))
    if not resolved:
        reasons = sorted({vertex.job_vertex.fixed_because or _OWN for vertex in graph.job_vertices.values()})
        raise RescaleError(f"nothing of job {graph.name!r} can be given another parallelism: {'; '.join(reasons)}")
    if parallelism > max(resolved.values()):
        most = max(resolved.values())
        raise RescaleError(f"no vertex of job {graph.name!r} may have {parallelism} subtasks: at most {most}")
    return resolved


def _of_vertices(graph: ExecutionGraph, wanted: Mapping[str, int]) -> Parallelisms:
    asked = {_vertex(graph, key).id: number for key, number in wanted.items()}
    resolved: Parallelisms = {}
    for group in bound_groups(graph):
        numbers = {asked[vertex.id]: vertex for vertex in group if vertex.id in asked}
        if len(numbers) > 1:
            numbers.pop(group[0].parallelism, None)  # whoever names all vertices may name some as they are
        if len(numbers) > 1:
            (number, vertex), (other_number, other) = list(numbers.items())[:2]
            raise RescaleError(
                f"{vertex.name!r} and {other.name!r} exchange rows subtask by subtask, so they have the same "
                f"parallelism, and cannot have {number} and {other_number}"
            )
        for number in numbers:
            resolved.update(_checked(group, number))
    return resolved


_OWN = "the program sets a parallelism of its own for each operator, so name the vertices to change"


def bound_groups(graph: ExecutionGraph) -> list[list[ExecutionJobVertex]]:
    """The vertices that have to have equal parallelisms, each vertex in exactly one group."""
    group_of: dict[JobVertexId, list[ExecutionJobVertex]] = {}
    first_of_location: dict[str, JobVertexId] = {}
    for vertex in graph.job_vertices.values():
        group_of[vertex.id] = [vertex]
        bound = [e.source_vertex for e in vertex.job_vertex.inputs if e.ship_strategy == ForwardPartitioner.name]
        if vertex.co_location_group is not None:
            bound.append(first_of_location.setdefault(vertex.co_location_group, vertex.id))
        for other in bound:
            group, joined = group_of[vertex.id], group_of[other]
            if group is not joined:
                joined.extend(group)
                group_of.update((each.id, joined) for each in group)
    return list({id(group): group for group in group_of.values()}.values())


def _vertex(graph: ExecutionGraph, key: str) -> ExecutionJobVertex:
    vertices = graph.job_vertices
    if key in vertices:
        return vertices[JobVertexId(key)]
    named = [vertex for vertex in vertices.values() if vertex.name == key]
    if len(named) == 1:
        return named[0]
    if named:
        ids = ", ".join(vertex.id for vertex in named)
        raise RescaleError(f"job {graph.name!r} has {len(named)} vertices called {key!r}; name one by its id: {ids}")
    names = ", ".join(repr(vertex.name) for vertex in vertices.values())
    raise RescaleError(f"job {graph.name!r} has no vertex {key!r}; it has {names}")


def _checked(group: Iterable[ExecutionJobVertex], number: int) -> Parallelisms:
    for vertex in group:
        if number != vertex.parallelism and vertex.job_vertex.fixed_because:
            raise RescaleError(f"{vertex.name!r} keeps its parallelism: {vertex.job_vertex.fixed_because}")
        if not 1 <= number <= vertex.max_parallelism:
            raise RescaleError(
                f"the parallelism of {vertex.name!r} may be 1 to {vertex.max_parallelism}, which is its max "
                f"parallelism, and not {number}"
            )
    return {vertex.id: number for vertex in group}

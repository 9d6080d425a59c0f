"""Pipelined regions: the tasks that have to run at the same time, and so are scheduled and restarted together.

After Flink's PipelinedRegionComputeUtil. Pure functions of an ExecutionGraph's structure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from graphs.edge_manager import ConsumedPartitionGroup, ExecutionVertexId, ResultPartitionKey
from graphs.execution_graph import ExecutionGraph


@dataclass(frozen=True, eq=False)
class PipelinedRegion:
    """Subtasks that are joined by pipelined exchanges. Compared by identity."""

    index: int
    """Position among the graph's regions."""
    vertices: tuple[ExecutionVertexId, ...]
    """The subtasks, in the topological order of the graph."""
    consumed: tuple[ConsumedPartitionGroup, ...]
    """What the region reads from other regions: it can start once all of these can be read."""

    @cached_property
    def members(self) -> frozenset[ExecutionVertexId]:
        return frozenset(self.vertices)

    def __contains__(self, vertex: ExecutionVertexId) -> bool:
        return vertex in self.members

    def __repr__(self) -> str:
        return f"<PipelinedRegion {self.index} of {len(self.vertices)} subtasks>"


def pipelined_regions(graph: ExecutionGraph) -> tuple[PipelinedRegion, ...]:
    """The regions, in topological order; every subtask is in exactly one.

    Subtasks joined by a pipelined exchange are in one region. A blocking exchange parts regions, except where that
    would make two regions wait for each other: those are one region then.
    """
    order = {vertex: position for position, vertex in enumerate(graph.vertices)}
    sets = _UnionFind(order)
    for group in graph.edges.groups:
        if group.result_type.is_pipelined:
            first, *others = (*_producers(graph, group), *group.consumers)
            for other in others:
                sets.join(first, other)
    members: dict[ExecutionVertexId, list[ExecutionVertexId]] = {}
    for vertex in graph.vertices:
        members.setdefault(sets.find(vertex), []).append(vertex)
    regions: list[PipelinedRegion] = []
    for component in _topological_components(_links(graph, sets)):
        vertices = [each for node in component if isinstance(node, ExecutionVertexId) for each in members[node]]
        if vertices:
            vertices.sort(key=order.__getitem__)
            regions.append(PipelinedRegion(len(regions), tuple(vertices), _read_from_others(graph, vertices)))
    return tuple(regions)


def _producers(graph: ExecutionGraph, group: ConsumedPartitionGroup) -> Iterable[ExecutionVertexId]:
    producer = graph.results[group.data_set_id].producer.id
    return (ExecutionVertexId(producer, partition.partition_index) for partition in group)


def _read_from_others(
    graph: ExecutionGraph, vertices: Sequence[ExecutionVertexId]
) -> tuple[ConsumedPartitionGroup, ...]:
    own = set(vertices)
    groups = dict.fromkeys(group for vertex in vertices for group in graph.edges.consumed_by(vertex))
    return tuple(group for group in groups if any(each not in own for each in _producers(graph, group)))


_Node = ExecutionVertexId | ConsumedPartitionGroup
"""A set of subtasks, by its representative, or a blocking exchange."""


def _links(graph: ExecutionGraph, sets: _UnionFind) -> dict[_Node, list[_Node]]:
    """What waits for what: a blocking exchange for its producers, its consumers for the exchange.

    With the exchanges as nodes of their own, an all-to-all costs as many links as it has subtasks.
    """
    links: dict[_Node, list[_Node]] = {sets.find(vertex): [] for vertex in graph.vertices}
    for group in graph.edges.groups:
        if not group.result_type.is_pipelined:
            for producer in dict.fromkeys(sets.find(each) for each in _producers(graph, group)):
                links[producer].append(group)
            links[group] = list(dict.fromkeys(sets.find(each) for each in group.consumers))
    return links


def _topological_components(links: dict[_Node, list[_Node]]) -> list[list[_Node]]:
    """The strongly connected components, each before those that it links to.

    Tarjan's algorithm, with a stack of its own in place of recursion. It finds components from the back, so it is
    led through the nodes from the back: then unrelated ones come out in the order of the program.
    """
    index: dict[_Node, int] = {}
    lowest: dict[_Node, int] = {}
    open_nodes: list[_Node] = []
    is_open: set[_Node] = set()
    components: list[list[_Node]] = []
    for root in reversed(links):
        path = [(root, reversed(links[root]))] if root not in index else []
        while path:
            node, targets = path[-1]
            if node not in index:
                index[node] = lowest[node] = len(index)
                open_nodes.append(node)
                is_open.add(node)
            target = next(targets, None)
            if target is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == index[node]:
                    component = [open_nodes.pop()]
                    while component[-1] != node:
                        component.append(open_nodes.pop())
                    is_open.difference_update(component)
                    components.append(component)
            elif target not in index:
                path.append((target, reversed(links[target])))
            elif target in is_open:
                lowest[node] = min(lowest[node], index[target])
    components.reverse()
    return components


class _UnionFind:
    """Disjoint sets; a set is represented by its first member in the order given."""

    def __init__(self, order: Mapping[ExecutionVertexId, int]) -> None:
        self._order = order
        self._parent = {vertex: vertex for vertex in order}

    def find(self, vertex: ExecutionVertexId) -> ExecutionVertexId:
        root = vertex
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[vertex] != root:
            self._parent[vertex], vertex = root, self._parent[vertex]
        return root

    def join(self, one: ExecutionVertexId, other: ExecutionVertexId) -> None:
        first, second = sorted((self.find(one), self.find(other)), key=self._order.__getitem__)
        self._parent[second] = first


class RegionTopology:
    """The regions of a graph and how they depend on each other. Read-only."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self.regions: Sequence[PipelinedRegion] = pipelined_regions(graph)
        self._region_of = {vertex: region for region in self.regions for vertex in region.vertices}

    def region_of(self, vertex: ExecutionVertexId) -> PipelinedRegion:
        return self._region_of[vertex]

    def producer_of(self, partition: ResultPartitionKey) -> PipelinedRegion:
        """The region that makes the partition."""
        return self._region_of[self._graph.partitions[partition].producer.id]

    def source_regions(self) -> tuple[PipelinedRegion, ...]:
        """The regions that read nothing from others: where scheduling begins."""
        return tuple(region for region in self.regions if not region.consumed)

    def producers_of(self, region: PipelinedRegion) -> tuple[PipelinedRegion, ...]:
        """The other regions whose results this one reads."""
        found = {
            self._region_of[producer].index for group in region.consumed for producer in _producers(self._graph, group)
        }
        return tuple(self.regions[index] for index in sorted(found - {region.index}))

    def consumers_of(self, region: PipelinedRegion) -> tuple[PipelinedRegion, ...]:
        """The other regions that read the results of this one."""
        # Partitions share their groups: an all-to-all has one group, and not one for each of its partitions.
        groups = {
            group
            for vertex in region.vertices
            for partition in self._graph.vertices[vertex].results
            for group in partition.consumer_groups
        }
        found = {self._region_of[consumer].index for group in groups for consumer in group}
        return tuple(self.regions[index] for index in sorted(found - {region.index}))


class PartitionReleaseStrategy:
    """Says which results no region will read again, once the regions that read them have finished.

    After Flink's RegionPartitionGroupReleaseStrategy. Kept by the scheduler, in the JobMaster's thread.
    """

    def __init__(self, topology: RegionTopology) -> None:
        self._topology = topology
        self._unfinished = {region: set(region.vertices) for region in topology.regions}
        # Counted by group, as subtasks and partitions share groups: an all-to-all has a reader for each pair of them.
        self._readers = Counter(group for region in topology.regions for group in region.consumed)
        """How many regions are still to read the group to its end."""
        self._groups: dict[ResultPartitionKey, list[ConsumedPartitionGroup]] = {}
        for group in self._readers:
            for partition in group:
                self._groups.setdefault(partition, []).append(group)

    def vertex_finished(self, vertex: ExecutionVertexId) -> tuple[ResultPartitionKey, ...]:
        """The partitions that may be released now."""
        region = self._topology.region_of(vertex)
        unfinished = self._unfinished[region]
        if vertex not in unfinished:
            return ()
        unfinished.remove(vertex)
        if unfinished:
            return ()
        self._readers.subtract(region.consumed)
        partitions = dict.fromkeys(key for group in region.consumed if not self._readers[group] for key in group)
        return tuple(key for key in partitions if not any(self._readers[group] for group in self._groups[key]))

    def vertex_unfinished(self, vertex: ExecutionVertexId) -> None:
        """The subtask is to run again, so what its region reads is needed again."""
        region = self._topology.region_of(vertex)
        if not self._unfinished[region]:
            self._readers.update(region.consumed)
        self._unfinished[region].add(vertex)

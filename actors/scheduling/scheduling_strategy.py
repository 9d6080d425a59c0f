"""Which regions can run now, and which slots they need no more (Flink's PipelinedRegionSchedulingStrategy)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from actors.scheduling.slots.slot_sharing import SharedSlot
from graphs.execution_graph import (
    ConsumedPartitionGroup,
    ConsumerVertexGroup,
    ExecutionGraph,
    ExecutionVertex,
    ExecutionVertexId,
)
from graphs.regions import PipelinedRegion, RegionTopology
from graphs.states import ExecutionState


class PipelinedRegionSchedulingStrategy:
    """Schedules a region once: when all that it reads from others has been written to its end. Not thread-safe."""

    def __init__(
        self, graph: ExecutionGraph, topology: RegionTopology, is_pending: Callable[[ExecutionVertexId], bool]
    ) -> None:
        """
        Args:
            is_pending: whether the subtask is to run again, as soon as what it restarts with has ended.
        """
        self._graph = graph
        self._topology = topology
        self._is_pending = is_pending
        self._scheduled: set[PipelinedRegion] = set()

    def take_consumable(self) -> Iterator[PipelinedRegion]:
        """The regions that can be scheduled; each counts as scheduled once it is given."""
        unwritten: dict[ConsumedPartitionGroup, list[ExecutionVertexId]] = {}
        for region in self._topology.regions:
            is_free = region not in self._scheduled and not self._is_pending(region.vertices[0])
            if is_free and self._is_consumable(region, unwritten):
                self._scheduled.add(region)
                yield region

    def reset(self, vertices: Iterable[ExecutionVertexId]) -> None:
        """The regions of these subtasks are to be scheduled again; all subtasks of each region are among them."""
        self._scheduled.difference_update(map(self._topology.region_of, vertices))

    def was_last_reader(self, vertex: ExecutionVertex) -> bool:
        """Whether all readers of some result that this subtask has read have finished."""
        readers = (partition.consumers for partition in vertex.consumed)
        return any(all(map(self._has_finished, group)) for group in readers)

    def unneeded(self, slots: Iterable[SharedSlot]) -> Iterator[SharedSlot]:
        """The slots whose tasks have finished, once nobody has to read from those any more."""
        read: dict[ConsumerVertexGroup, bool] = {}
        return (shared for shared in slots if self._is_over(shared, read))

    # -- inside --------------------------------------------------------------------------------------------------

    def _is_consumable(
        self, region: PipelinedRegion, unwritten: dict[ConsumedPartitionGroup, list[ExecutionVertexId]]
    ) -> bool:
        """Whether everything that the region reads from others has been written to its end.

        Args:
            unwritten: groups of results -> producers that have not finished; filled here, since most regions share
                what they read.
        """
        for group in region.consumed:
            if group not in unwritten:
                producers = (self._graph.partitions[key].producer.id for key in group)
                unwritten[group] = [each for each in producers if not self._has_finished(each)]
            if not all(each in region for each in unwritten[group]):
                return False
        return True

    def _is_over(self, shared: SharedSlot, read: dict[ConsumerVertexGroup, bool]) -> bool:
        """Whether all that was scheduled for the slot has finished, and so have those that read it while it was made.

        A later stage asks for the slot anew.

        Args:
            read: groups of readers -> whether all have finished; filled here, since most slots share their readers.
        """
        # From the back, where tasks finish last: most calls end at the first.
        if any(self._is_scheduled(each) and not self._has_finished(each) for each in reversed(shared.vertices)):
            return False
        for vertex in filter(self._is_scheduled, shared.vertices):
            results = self._graph.vertices[vertex].results
            for partition in (each for each in results if each.result.result_type.is_pipelined):
                for group in partition.consumer_groups:
                    if group not in read:
                        read[group] = all(map(self._has_finished, group))
                    if not read[group]:
                        return False
        return True

    def _is_scheduled(self, vertex: ExecutionVertexId) -> bool:
        """Whether the subtask was scheduled, or is to run again as soon as what it restarts with has ended."""
        return self._is_pending(vertex) or self._topology.region_of(vertex) in self._scheduled

    def _has_finished(self, vertex: ExecutionVertexId) -> bool:
        return self._graph.vertices[vertex].current.state is ExecutionState.FINISHED

"""Which subtasks a failure takes along, to run again with what failed (Flink's FailoverStrategy).

Pure functions of the graph's structure and of which results can still be read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable

from flinkray.config.configuration import Configuration
from flinkray.config.options import FAILOVER_STRATEGY
from flinkray.errors import ErrorInfo
from graphs.execution_graph import ExecutionGraph, ExecutionVertexId, ResultPartitionKey
from graphs.regions import PipelinedRegion, RegionTopology

IsAvailable = Callable[[ResultPartitionKey], bool]
"""Whether a result is there, or is still being made, as far as its type lets it be read again at all."""


class FailoverStrategy(ABC):
    """Decides which subtasks of one job run again after a failure."""

    def __init__(self, topology: RegionTopology) -> None:
        self._topology = topology

    @abstractmethod
    def vertices_to_restart(
        self, failed: Iterable[ExecutionVertexId], is_available: IsAvailable
    ) -> frozenset[ExecutionVertexId]:
        """`failed`, and all that has to run again with them."""


class RestartAll(FailoverStrategy):
    """Restarts all subtasks of the job (`full`)."""

    def vertices_to_restart(
        self, failed: Iterable[ExecutionVertexId], is_available: IsAvailable
    ) -> frozenset[ExecutionVertexId]:
        return frozenset(vertex for region in self._topology.regions for vertex in region.vertices)


class RestartRegions(FailoverStrategy):
    """Restarts regions (`region`), after Flink's RestartPipelinedRegionFailoverStrategy.

    These are the regions of what failed; with every region those that read from it, and those that it reads from
    where their result is not available or cannot be read a second time.
    """

    def vertices_to_restart(
        self, failed: Iterable[ExecutionVertexId], is_available: IsAvailable
    ) -> frozenset[ExecutionVertexId]:
        involved = dict.fromkeys(self._topology.region_of(vertex) for vertex in failed)
        unvisited = deque(involved)
        while unvisited:
            region = unvisited.popleft()
            for other in (*self._topology.consumers_of(region), *self._unavailable_producers(region, is_available)):
                if other not in involved:
                    involved[other] = None
                    unvisited.append(other)
        return frozenset(vertex for region in involved for vertex in region.vertices)

    def _unavailable_producers(self, region: PipelinedRegion, is_available: IsAvailable) -> Iterable[PipelinedRegion]:
        for group in region.consumed:
            for partition in group:
                if not (group.result_type.is_reconnectable and is_available(partition)):
                    yield self._topology.producer_of(partition)


def failover_strategy_of(configuration: Configuration) -> type[FailoverStrategy]:
    """The strategy that the configuration names."""
    return RestartAll if configuration.get(FAILOVER_STRATEGY) == "full" else RestartRegions


def unreadable_partition(error: ErrorInfo, graph: ExecutionGraph) -> ResultPartitionKey | None:
    """The result that a consumer's error says it cannot read; None where it says something else.

    Also None for what a past attempt of the producer has made: its consumers run again already.
    """
    if error.partition_id is None:
        return None
    found = (key for key, each in graph.partitions.items() if each.current_id == error.partition_id)
    return next(found, None)

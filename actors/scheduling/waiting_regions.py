"""Regions that wait for their slots: each is deployed as a whole, once all of them are there.

After Flink's PhysicalSlotRequestBulkChecker and ExecutionVertexVersioner. All times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from graphs.execution_graph import ExecutionVertexId


class WaitingRegion(Struct, frozen=True):
    """A region whose slots have been requested. It is deployed only if no subtask of it was outdated meanwhile."""

    vertices: tuple[ExecutionVertexId, ...]
    labels: frozenset[str]
    """Labels of the slot requests that the region needs to be served."""
    versions: dict[ExecutionVertexId, int]
    since: int


class WaitingRegions:
    """The regions of one job that wait for slots, in the order in which they were scheduled. Not thread-safe."""

    def __init__(self, vertices: Iterable[ExecutionVertexId], timeout_ms: int) -> None:
        """
        Args:
            vertices: all subtasks of the job.
            timeout_ms: after this a region has waited for too long.
        """
        self._timeout_ms = timeout_ms
        self._versions = dict.fromkeys(vertices, 0)
        self._waiting: list[WaitingRegion] = []
        self._not_before = 0

    def __bool__(self) -> bool:
        """Whether any region waits."""
        return bool(self._waiting)

    @property
    def regions(self) -> tuple[WaitingRegion, ...]:
        return tuple(self._waiting)

    @property
    def vertices(self) -> list[ExecutionVertexId]:
        """All subtasks of the regions that wait."""
        return [vertex for region in self._waiting for vertex in region.vertices]

    def add(self, vertices: tuple[ExecutionVertexId, ...], labels: frozenset[str], now: int) -> None:
        """The region of these subtasks waits from now on."""
        for vertex in vertices:
            self.outdate(vertex)
        versions = {vertex: self._versions[vertex] for vertex in vertices}
        self._waiting.append(WaitingRegion(vertices, labels, versions, now))

    def outdate(self, vertex: ExecutionVertexId) -> None:
        """The subtask is cancelled or scheduled anew: what was scheduled with it so far is not to be deployed."""
        self._versions[vertex] += 1

    def drop_outdated(self) -> None:
        self._waiting = [region for region in self._waiting if self._is_current(region)]

    def take_ready(self, has_slot: Callable[[str], bool]) -> list[WaitingRegion]:
        """Removes the regions all of whose slots are there; gives those of them that are to be deployed.

        Args:
            has_slot: whether a slot serves the request of this label.
        """
        ready = [region for region in self._waiting if all(map(has_slot, region.labels))]
        for region in ready:
            self._waiting.remove(region)
        return [region for region in ready if self._is_current(region)]

    def count_from(self, now: int) -> None:
        """Time before this does not count as waiting: tasks have run by then whose slots the regions may get."""
        self._not_before = now

    def are_late(self, now: int) -> bool:
        """Whether a region has waited for too long."""
        return any(now - max(region.since, self._not_before) >= self._timeout_ms for region in self._waiting)

    def _is_current(self, region: WaitingRegion) -> bool:
        return all(self._versions[vertex] == version for vertex, version in region.versions.items())

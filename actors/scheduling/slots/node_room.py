"""How large a TaskExecutor may be: what is free on each node, as far as is known."""

from __future__ import annotations

import math
from collections.abc import Iterable

from actors.protocol.ports import Address
from actors.protocol.resources import ResourceProfile


class NodeRoom:
    """What was free on each node when that was last reported, without what TaskExecutors have been given since.

    It binds no TaskExecutor to a node: the host places it where it fits. What it believes may be out of date, so
    somebody has to look after TaskExecutors that find no room.
    """

    def __init__(self) -> None:
        self._free: list[float] = []
        """Free CPUs of each node; empty: nothing is known."""
        self._given: dict[Address, tuple[int, float]] = {}

    def update(self, free_cpus: Iterable[float]) -> None:
        """Takes what is free on each node now, in any order; nothing: that is not known."""
        self._free = list(free_cpus)
        self._given.clear()

    def take(self, task_executor: Address, profile: ResourceProfile, wanted: int) -> int:
        """How many slots of that profile a TaskExecutor gets: as many as are wanted and fit into one node, and 1 at
        least."""
        if not self._free or profile.cpus <= 0 or profile.memory_bytes:
            return 1
        node = max(range(len(self._free)), key=self._free.__getitem__)
        slots = max(1, min(wanted, math.floor(self._free[node] / profile.cpus)))
        self._given[task_executor] = node, slots * profile.cpus
        self._free[node] -= slots * profile.cpus
        return slots

    def give_back(self, task_executor: Address) -> None:
        """The TaskExecutor was ended, and its room is free again."""
        if task_executor in self._given:
            node, cpus = self._given.pop(task_executor)
            self._free[node] += cpus

    def lose(self, task_executor: Address) -> None:
        """The TaskExecutor died, perhaps with its node: its room is not counted on any more."""
        self._given.pop(task_executor, None)

    def holders(self) -> frozenset[Address]:
        return frozenset(self._given)

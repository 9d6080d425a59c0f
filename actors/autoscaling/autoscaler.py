"""When a running job gets which parallelism: more at once, fewer after a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from actors.autoscaling.evaluation import Demand, ScalableVertex, evaluate
from actors.autoscaling.load import LoadWindow, Samples
from actors.autoscaling.settings import AutoscalerSettings
from graphs.job_graph import JobVertexId


class Change(Struct, frozen=True):
    """Another number of subtasks for a vertex, and why."""

    vertex: ScalableVertex
    parallelism: int
    demand: Demand

    def __str__(self) -> str:
        return (
            f"{self.vertex.name!r} {self.vertex.parallelism} -> {self.parallelism} "
            f"({self.demand.rate:,.0f} rows/s come, {self.demand.capacity:,.0f} rows/s are possible)"
        )


class Autoscaler:
    """Decides for one job. Not thread-safe; times are epoch milliseconds."""

    def __init__(self, settings: AutoscalerSettings) -> None:
        self._settings = settings
        self._window = LoadWindow(settings.window_ms)
        self._quiet_until = 0
        self._fewer: dict[JobVertexId, list[tuple[int, int]]] = {}
        """First vertex of a group -> (time, how many subtasks are enough), since it has needed fewer than it has."""

    def reset(self, now: int) -> None:
        """The job starts, restarts or is rescaled: what is known of its load does not hold any more."""
        self._window.clear()
        self._fewer.clear()
        self._quiet_until = now + self._settings.stabilization_ms

    def observe(self, samples: Samples, now: int) -> None:
        """To be called now and then while all tasks run."""
        if now >= self._quiet_until:
            self._window.add(now, samples)

    def decide(
        self, vertices: Sequence[ScalableVertex], groups: Sequence[Sequence[JobVertexId]], now: int
    ) -> tuple[Change, ...]:
        """The vertices that are to change now.

        Args:
            vertices: all, producers before consumers.
            groups: those that may change; the vertices of each have equal parallelisms.
        """
        loads = self._window.loads() if self._window.is_full else {}
        if any(vertex.id not in loads for vertex in vertices):
            return ()
        demands = evaluate(vertices, loads, self._settings)
        by_id = {vertex.id: vertex for vertex in vertices}
        changes: list[Change] = []
        for group in groups:
            members = [by_id[each] for each in group]
            if not any({member.id, member.name} & self._settings.excluded for member in members):
                number = self._number(members, demands, now)
                changes += [Change(each, number, demands[each.id]) for each in members if number != each.parallelism]
        return tuple(changes)

    def _number(self, members: Sequence[ScalableVertex], demands: Mapping[JobVertexId, Demand], now: int) -> int:
        """How many subtasks the vertices of a group are to have now."""
        first, has = members[0].id, members[0].parallelism
        wanted = max(demands[each.id].parallelism for each in members)
        wanted = min(wanted, *(each.max_parallelism for each in members))
        if wanted >= has:
            self._fewer.pop(first, None)
            return wanted
        fewer = self._fewer.setdefault(first, [])
        fewer.append((now, wanted))
        if now - fewer[0][0] < self._settings.scale_down_interval_ms:
            return has
        return max(number for _, number in fewer)

"""When a running job gets which parallelism: more at once, fewer after a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

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


# A rescale that is refused is asked for again after the first pause, which doubles with each time up to the longest.
FIRST_PAUSE_MS = 60_000
LONGEST_PAUSE_MS = 3_600_000

# More subtasks that have not brought this part of what they should have are not followed by more still, as where all
# rows have one key (Flink: job.autoscaler.scaling.effectiveness.threshold).
LEAST_EFFECT = 0.1


class _Growth(Struct, frozen=True):
    """That a vertex has got more subtasks, and how many rows per second it could take before."""

    before: int
    after: int
    capacity: float

    def has_helped(self, capacity: float) -> bool:
        """Whether it can take so much more now that more still may help."""
        hoped = self.after / self.before - 1
        return capacity >= self.capacity * (1 + LEAST_EFFECT * hoped)


class _Fewer(Struct):
    """That a group needs fewer subtasks than it has: since when, and how many were enough at which time."""

    since: int
    enough: deque[tuple[int, int]] = field(default_factory=deque)


class _Pause(Struct):
    """For which nothing is asked for that was refused; longer each time."""

    length_ms: int = 0
    until: int = 0

    def begin(self, now: int) -> None:
        self.length_ms = min(max(FIRST_PAUSE_MS, 2 * self.length_ms), LONGEST_PAUSE_MS)
        self.until = now + self.length_ms


class Autoscaler:
    """Decides for one job. Not thread-safe; times are epoch milliseconds."""

    def __init__(self, settings: AutoscalerSettings) -> None:
        self._settings = settings
        self._window = LoadWindow(settings.window_ms)
        self._quiet_until = 0
        self._fewer: dict[JobVertexId, _Fewer] = {}
        """By the first vertex of a group."""
        self._grown: dict[JobVertexId, _Growth] = {}
        """Vertex -> how it got more subtasks the last time; forgotten when it gets fewer."""
        self._no_more, self._no_fewer = _Pause(), _Pause()

    def reset(self, now: int) -> None:
        """The job starts, restarts or is rescaled: what is known of its load does not hold any more."""
        self._window.clear()
        self._fewer.clear()
        self._quiet_until = now + self._settings.stabilization_ms

    def changed(self, changes: Iterable[Change]) -> None:
        """The job has got what was decided."""
        self._no_more.length_ms = self._no_fewer.length_ms = 0
        for change in changes:
            if change.parallelism > change.vertex.parallelism:
                growth = _Growth(change.vertex.parallelism, change.parallelism, change.demand.capacity)
                self._grown[change.vertex.id] = growth
            else:
                self._grown.pop(change.vertex.id, None)

    def refused(self, changes: Iterable[Change], now: int) -> None:
        """The job goes on as it was: for a while it is not to have more, or, where that was none of it, fewer."""
        is_more = any(change.parallelism > change.vertex.parallelism for change in changes)
        (self._no_more if is_more else self._no_fewer).begin(now)

    def observe(self, samples: Samples, now: int) -> None:
        """To be called now and then while all tasks run."""
        if now >= self._quiet_until:
            self._window.add(now, samples)

    def decide(
        self, vertices: Sequence[ScalableVertex], groups: Sequence[Sequence[JobVertexId]], now: int
    ) -> tuple[Change, ...]:
        """The vertices that are to change now.

        Args:
            vertices: all that run, producers before consumers.
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
        wishes = [wish for each in members if (wish := demands[each.id].parallelism) is not None]
        wanted = min(max(wishes, default=has), *(each.max_parallelism for each in members))
        if wanted < has:
            return self._after_a_while(first, has, wanted, now)
        self._fewer.pop(first, None)
        may_have_more = now >= self._no_more.until and all(
            growth.has_helped(demands[each.id].capacity)
            for each in members
            if (growth := self._grown.get(each.id)) is not None and growth.after == has
        )
        return wanted if may_have_more else has

    def _after_a_while(self, first: JobVertexId, has: int, wanted: int, now: int) -> int:
        """As many as were needed at most meanwhile, once fewer were enough for long."""
        interval_ms = self._settings.scale_down_interval_ms
        fewer = self._fewer.setdefault(first, _Fewer(now))
        fewer.enough.append((now, wanted))
        while fewer.enough[0][0] < now - interval_ms:
            fewer.enough.popleft()
        is_early = now - fewer.since < interval_ms or now < self._no_fewer.until
        return has if is_early else max(number for _, number in fewer.enough)

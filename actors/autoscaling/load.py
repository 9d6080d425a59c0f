"""What a vertex does, and what would be asked of it: seen at one moment, and as the mean of a time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from graphs.job_graph import JobVertexId


class VertexSample(Struct, frozen=True):
    """A vertex at one moment, over all its subtasks. Rates are rows per second."""

    records_in: float
    """Of a source, what it reads."""
    records_out: float
    busy: float
    """The part of its time for which the busiest subtask was busy; from 0 to 1."""
    backpressured: float
    """The part of their time for which its subtasks were held up in the mean; from 0 to 1."""
    pending: int | None = None
    """Rows that wait for a source; None: it does not know, or the vertex is none."""


class VertexLoad(Struct, frozen=True):
    """The mean of samples."""

    records_in: float
    records_out: float
    busy: float
    backpressured: float
    pending: int | None = None
    """As it was last."""
    pending_growth: float = 0.0
    """By how many rows per second `pending` grew."""

    @property
    def capacity(self) -> float:
        """How many rows per second it could take if it was busy for all of its time; infinite: nobody knows."""
        return self.records_in / self.busy if self.busy > 0 and self.records_in > 0 else math.inf


Samples = Mapping[JobVertexId, VertexSample]


class _Moment(Struct, frozen=True):
    time_ms: int
    vertices: Samples


class LoadWindow(Struct, eq=False):
    """The samples of the last time, of all vertices of a job."""

    length_ms: int
    moments: deque[_Moment] = field(default_factory=deque)

    def add(self, now: int, vertices: Samples) -> None:
        self.moments.append(_Moment(now, vertices))
        while len(self.moments) > 1 and self.moments[1].time_ms <= now - self.length_ms:
            self.moments.popleft()

    def clear(self) -> None:
        self.moments.clear()

    @property
    def is_full(self) -> bool:
        return bool(self.moments) and self.moments[-1].time_ms - self.moments[0].time_ms >= self.length_ms

    def loads(self) -> dict[JobVertexId, VertexLoad]:
        """The means, of the vertices that are in all samples."""
        first, last = self.moments[0], self.moments[-1]
        seconds = (last.time_ms - first.time_ms) / 1000
        vertices = [each for each in last.vertices if all(each in moment.vertices for moment in self.moments)]
        return {each: _mean([moment.vertices[each] for moment in self.moments], seconds) for each in vertices}


def _mean(samples: Sequence[VertexSample], seconds: float) -> VertexLoad:
    first, last, count = samples[0].pending, samples[-1].pending, len(samples)
    growth = (last - first) / seconds if first is not None and last is not None and seconds > 0 else 0.0
    return VertexLoad(
        sum(each.records_in for each in samples) / count,
        sum(each.records_out for each in samples) / count,
        sum(each.busy for each in samples) / count,
        sum(each.backpressured for each in samples) / count,
        last,
        growth,
    )

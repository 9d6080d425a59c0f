"""How many subtasks each vertex needs: rates are followed from the sources through the graph.

After Flink's ScalingMetricEvaluator and JobVertexScaler, which have the idea from "Three steps is all you need"
(Kalavri and others, OSDI 2018): what a vertex could process, were it busy all the time, is what it does process divided
by the part of the time for which it is busy. Where outputs of a vertex go is not measured per edge, so that each vertex
counts as growing with those that it reads from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from actors.autoscaling.load import VertexLoad
from actors.autoscaling.settings import AutoscalerSettings
from graphs.job_graph import JobVertexId

# A source that does not know what waits for it, and is held up, counts as reading more if it was not, and at most twice
# as much: one that gives so many rows per second is held up nearly all the time when it is behind by a few.
_MOST_HELD_UP = 0.5


class ScalableVertex(Struct, frozen=True):
    """What of a vertex does not depend on its load."""

    id: JobVertexId
    name: str
    parallelism: int
    max_parallelism: int
    inputs: tuple[JobVertexId, ...] = ()


class Demand(Struct, frozen=True):
    """What a vertex needs."""

    parallelism: int | None
    """As it is where it has what it needs; None: it gets no rows, so that nobody knows."""
    rate: float
    """Rows per second that will come."""
    capacity: float
    """Rows per second that it can take with the subtasks that it has; infinite: nobody knows."""


class _Growth(Struct, frozen=True):
    """What will come to a vertex, in multiples of what comes now."""

    rate: float = 1.0
    catch_up: float = 0.0
    """What has to be caught up with, in addition."""


def evaluate(
    vertices: Sequence[ScalableVertex], loads: Mapping[JobVertexId, VertexLoad], settings: AutoscalerSettings
) -> dict[JobVertexId, Demand]:
    """
    Args:
        vertices: of the job, producers before consumers.
        loads: of all of them.
    """
    sources = [loads[vertex.id] for vertex in vertices if not vertex.inputs]
    has_backlog = any(_backlog_ms(load) > settings.backlog_ms for load in sources)
    growths: dict[JobVertexId, _Growth] = {}
    demands: dict[JobVertexId, Demand] = {}
    for vertex in vertices:
        load = loads[vertex.id]
        growth = _growth(vertex, loads, growths) if vertex.inputs else _growth_of_source(load, settings)
        growths[vertex.id] = growth
        number = _parallelism(vertex, load, growth, settings, has_backlog)
        demands[vertex.id] = Demand(number, load.records_in * (growth.rate + growth.catch_up), load.capacity)
    return demands


def _backlog_ms(load: VertexLoad) -> float:
    """How long it would take to read what waits, as fast as it is read now."""
    if not load.pending:
        return 0.0
    return load.pending / load.records_in * 1000 if load.records_in > 0 else math.inf


def _growth_of_source(load: VertexLoad, settings: AutoscalerSettings) -> _Growth:
    if load.records_in <= 0:
        return _Growth()
    if load.pending is None:
        return _Growth(1 / (1 - min(load.backpressured, _MOST_HELD_UP)))
    rate = max(0.0, load.records_in + load.pending_growth)
    catch_up = load.pending / (settings.catch_up_ms / 1000)
    return _Growth(rate / load.records_in, catch_up / load.records_in)


def _growth(
    vertex: ScalableVertex, loads: Mapping[JobVertexId, VertexLoad], growths: Mapping[JobVertexId, _Growth]
) -> _Growth:
    """The mean over those that it reads from, by what they give."""
    weights = [loads[each].records_out for each in vertex.inputs]
    total = sum(weights)
    if total <= 0:
        return _Growth()
    given = [(growths[each], weight / total) for each, weight in zip(vertex.inputs, weights, strict=True)]
    return _Growth(sum(each.rate * part for each, part in given), sum(each.catch_up * part for each, part in given))


def _parallelism(
    vertex: ScalableVertex, load: VertexLoad, growth: _Growth, settings: AutoscalerSettings, has_backlog: bool
) -> int | None:
    now, capacity = vertex.parallelism, load.capacity
    if load.records_in <= 0:
        return None
    of_restart = settings.restart_ms / settings.catch_up_ms

    def needed(utilization: float, *, with_restart: bool) -> float:
        parts = growth.catch_up + growth.rate / utilization + (of_restart if with_restart else 0.0)
        return load.records_in * parts

    highest, lowest = (1.0, 0.0) if has_backlog else (settings.highest, settings.lowest)
    wants_more = capacity < needed(highest, with_restart=False)
    wants_fewer = lowest > 0 and capacity > needed(lowest, with_restart=True)
    if not wants_more and not wants_fewer:
        return now
    factor = needed(settings.target, with_restart=True) / capacity
    factor = min(max(factor, 1 - settings.most_lost), 1 + settings.most_gained)
    number = math.ceil(now * factor - 1e-9)
    number = min(max(number, settings.fewest), settings.most, vertex.max_parallelism)
    return max(now, number) if wants_more else min(now, number)

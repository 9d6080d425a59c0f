"""Statistics of latency markers from sources to operators, as a job's client shows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyStatistics:
    """The last latencies (`metrics.latency.history-size` of them) from a source to one subtask of an operator.

    A marker waits and travels like rows, but passes functions by: it measures queues and transport. Milliseconds, by
    the clocks of both machines.
    """

    source_id: str
    """Operator id of the source; empty with `metrics.latency.granularity` = single."""
    source_subtask_index: int | None
    """The subtask of the source; None unless `metrics.latency.granularity` is subtask."""
    operator_id: str
    operator_name: str
    subtask_index: int
    count: int
    """The number of markers since the task began, also of those that are no longer among the last ones."""
    min: float
    max: float
    mean: float
    p50: float
    p75: float
    p95: float
    p98: float
    p99: float
    p999: float

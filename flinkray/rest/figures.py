"""Figures over several subtasks or checkpoints, as Flink sums them up."""

from __future__ import annotations

from msgspec import Struct

Quantile = float | str
"""A quantile, or "NaN" where there are no values: JSON has no such number."""


class AggregatedFigure(Struct, frozen=True, kw_only=True):
    """A figure over the subtasks of a vertex."""

    min: int
    max: int
    avg: int
    sum: int
    median: int
    p25: int
    p75: int
    p95: int


class Statistics(Struct, frozen=True, kw_only=True):
    """A figure over checkpoints, or over the subtasks of one. Times are in milliseconds, sizes in bytes."""

    min: int
    max: int
    avg: int
    p50: Quantile
    p90: Quantile
    p95: Quantile
    p99: Quantile
    p999: Quantile


class IoMetrics(Struct, frozen=True, kw_only=True, rename="kebab"):
    """What tasks have read and written, and where their time went (milliseconds)."""

    read_bytes: int
    read_bytes_complete: bool
    write_bytes: int
    write_bytes_complete: bool
    read_records: int
    read_records_complete: bool
    write_records: int
    write_records_complete: bool
    accumulated_backpressured_time: int
    accumulated_idle_time: int
    accumulated_busy_time: float


class AggregatedIo(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The figures of `IoMetrics` over subtasks."""

    read_bytes: AggregatedFigure
    write_bytes: AggregatedFigure
    read_records: AggregatedFigure
    write_records: AggregatedFigure
    accumulated_backpressured_time: AggregatedFigure
    accumulated_idle_time: AggregatedFigure
    accumulated_busy_time: AggregatedFigure


class AggregatedTaskDetails(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Figures, and times in each execution state, over subtasks."""

    metrics: AggregatedIo
    status_duration: dict[str, AggregatedFigure]

"""Metrics by name. All values are text, as in Flink."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType


class Metric(Struct, frozen=True, kw_only=True):
    """A metric, and its value where it was asked for with `get`."""

    id: str
    value: str | UnsetType = UNSET


class AggregatedMetric(Struct, frozen=True, kw_only=True):
    """A metric over several subtasks, jobs or TaskExecutors, with the aggregates that were asked for.

    `skew` says how unevenly a sum is spread: the mean distance from the average, in percent of it.
    """

    id: str
    min: float | UnsetType = UNSET
    max: float | UnsetType = UNSET
    avg: float | UnsetType = UNSET
    sum: float | UnsetType = UNSET
    skew: float | UnsetType = UNSET

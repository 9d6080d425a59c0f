"""`pyflink.metrics.metricbase`."""

from __future__ import annotations

from flinkray.functions.metrics import Counter, Distribution, Meter, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]


class Metric:
    """Base of all metrics, for annotations."""

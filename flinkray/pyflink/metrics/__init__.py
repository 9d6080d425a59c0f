"""`pyflink.metrics`."""

from __future__ import annotations

from flinkray.pyflink.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

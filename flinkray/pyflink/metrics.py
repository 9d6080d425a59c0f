"""`pyflink.metrics`."""

from __future__ import annotations

from flinkray.metrics import Counter, Distribution, Meter, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "MetricGroup"]

"""`pyflink.metrics`."""

from __future__ import annotations

from flinkray.functions.metrics import Counter, Distribution, Meter, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "MetricGroup"]

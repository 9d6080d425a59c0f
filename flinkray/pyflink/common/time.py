"""`pyflink.common.time`."""

from __future__ import annotations

from flinkray.time.time_units import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]

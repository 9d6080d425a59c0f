"""`pyflink.datastream.timerservice`."""

from __future__ import annotations

from flinkray.functions import TimerService

__all__ = ["TimerService"]

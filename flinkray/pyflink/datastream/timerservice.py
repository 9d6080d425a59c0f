"""`pyflink.datastream.timerservice`."""

from __future__ import annotations

from flinkray.functions.interfaces import TimerService

__all__ = ["TimerService"]

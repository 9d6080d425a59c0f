"""`pyflink.datastream.window`."""

from __future__ import annotations

from flinkray.windowing import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from flinkray.windowing import Window as TimeWindow

__all__ = ["SlidingEventTimeWindows", "TimeWindow", "TumblingEventTimeWindows", "WindowAssigner"]

"""Triggers that fire again and again while a window is open: early results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flinkray.state.descriptors import ReducingStateDescriptor
from flinkray.time.durations import Duration
from flinkray.types.records import MAX_TIMESTAMP, Millis
from flinkray.windows.triggers import OnMergeContext, QuietTrigger, TriggerContext, TriggerResult, positive_interval

_FIRE_TIME = ReducingStateDescriptor("fire-time", pa.int64(), function=min)
"""The time of the next firing; of windows that merge, the earliest."""


@dataclass(frozen=True, slots=True, init=False)
class ContinuousEventTimeTrigger(QuietTrigger):
    """Fires each time the watermark has passed another multiple of the interval, and at the window's end."""

    interval_ms: Millis

    def __init__(self, interval: Duration) -> None:
        """Fires at every multiple of `interval` (milliseconds, timedelta or text such as "10 s")."""
        object.__setattr__(self, "interval_ms", positive_interval(interval, "interval"))

    @staticmethod
    def of(interval: Duration) -> ContinuousEventTimeTrigger:
        """Fires at every multiple of `interval` (milliseconds, timedelta or text such as "10 s")."""
        return ContinuousEventTimeTrigger(interval)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        if ctx.get_partitioned_state(_FIRE_TIME).get() is None:
            self._fire_after(timestamp - timestamp % self.interval_ms, window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        self._fire_after(time, window, ctx)
        return TriggerResult.FIRE

    def _fire_after(self, time: int, window: Any, ctx: TriggerContext) -> None:
        following = min(time + self.interval_ms, window.max_timestamp())
        if following <= ctx.get_current_watermark() == MAX_TIMESTAMP == window.max_timestamp():
            following = MAX_TIMESTAMP  # at the end of the data, else a window without an end would fire for ever
        ctx.get_partitioned_state(_FIRE_TIME).add(following)
        ctx.register_event_time_timer(following)

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(_FIRE_TIME)
        earliest = ctx.get_partitioned_state(_FIRE_TIME).get()
        if earliest is not None:
            ctx.register_event_time_timer(earliest)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() is not None:
            ctx.delete_event_time_timer(fire_time.get())
            fire_time.clear()
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True, slots=True, init=False)
class ContinuousProcessingTimeTrigger(QuietTrigger):
    """Fires each time the clock has passed another multiple of the interval, for windows that have rows."""

    interval_ms: Millis

    def __init__(self, interval: Duration) -> None:
        """Fires at every multiple of `interval` (milliseconds, timedelta or text such as "10 s")."""
        object.__setattr__(self, "interval_ms", positive_interval(interval, "interval"))

    @staticmethod
    def of(interval: Duration) -> ContinuousProcessingTimeTrigger:
        """Fires at every multiple of `interval` (milliseconds, timedelta or text such as "10 s")."""
        return ContinuousProcessingTimeTrigger(interval)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        if ctx.get_partitioned_state(_FIRE_TIME).get() is None:
            now = ctx.get_current_processing_time()
            self._fire_at(min(now - now % self.interval_ms + self.interval_ms, window.max_timestamp()), ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        following = min(time + self.interval_ms, window.max_timestamp())
        if following > time:  # else it would fire for the window's end for ever; the next row sets a timer again
            self._fire_at(following, ctx)
        return TriggerResult.FIRE

    def _fire_at(self, time: int, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(_FIRE_TIME).add(time)
        ctx.register_processing_time_timer(time)

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(_FIRE_TIME)
        earliest = ctx.get_partitioned_state(_FIRE_TIME).get()
        if earliest is not None:
            ctx.register_processing_time_timer(earliest)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        fire_time = ctx.get_partitioned_state(_FIRE_TIME)
        if fire_time.get() is not None:
            ctx.delete_processing_time_timer(fire_time.get())
            fire_time.clear()

"""Triggers: when a window's contents become a result (after Flink's Trigger)."""

from __future__ import annotations

import enum
import numbers
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from flinkray.functions.metrics import MetricGroup
from flinkray.state.descriptors import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import Millis


class TriggerResult(enum.Enum):
    """What a trigger decides: `FIRE` computes a result, `PURGE` drops the contents (never the window itself)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether a result is to be computed."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the contents are to be dropped."""
        return self.value[1]


class TriggerContext(Protocol):
    """What a trigger may use, for the current key and window. Its timers and state belong to that pair."""

    def get_current_processing_time(self) -> int:
        """Epoch milliseconds."""

    def get_current_watermark(self) -> int:
        """Epoch milliseconds; MIN_TIMESTAMP before the first watermark."""

    def register_processing_time_timer(self, time: int) -> None:
        """Has `on_processing_time` called when the clock reaches `time` (epoch milliseconds)."""

    def register_event_time_timer(self, time: int) -> None:
        """Has `on_event_time` called when the watermark reaches `time` (epoch milliseconds)."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Takes back the timer at `time`; does nothing where there is none."""

    def delete_event_time_timer(self, time: int) -> None:
        """Takes back the timer at `time`; does nothing where there is none."""

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """State of the current key and window."""

    def get_metric_group(self) -> MetricGroup:
        """A group for figures of the trigger's own, reported beside those of its operator."""


class OnMergeContext(TriggerContext, Protocol):
    """What `on_merge` may use: the context of the window that several have become."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """The states of the windows that merge become that of the new one (list, reducing or aggregating state)."""


class Trigger(ABC):
    """Called for each row that a window gets and for each of its timers, with that key and window current."""

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """A row has come into the window; `timestamp` is its event time (epoch milliseconds)."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """A timer of processing time that it has set is due; `time` is when it was set for."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """A timer of event time that it has set is due; `time` is when it was set for."""

    def can_merge(self) -> bool:
        """Whether it can be used with windows that merge."""
        return False

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        """Several windows have become `window`: set the timers and state that it needs."""
        raise TypeError(f"{type(self).__name__} says that it can merge, and has no on_merge")

    @abstractmethod
    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """The window is over, or was merged into another: delete its timers and state."""


@dataclass(frozen=True, slots=True)
class EventTimeTrigger(Trigger):
    """Fires when the watermark reaches the window's last millisecond, and at once for each late row after that."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """PyFlink's way to make one."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        # A window that is late already fires with the row that merged it, and needs no timer.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True, slots=True)
class ProcessingTimeTrigger(Trigger):
    """Fires when the clock reaches the window's last millisecond."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """PyFlink's way to make one."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        # A window whose end has passed fires by the timer of one of those that merged.
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class QuietTrigger(Trigger):
    """Base: goes on whatever happens, until a subclass says otherwise."""

    __slots__ = ()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Does nothing: it keeps no timers and no state."""


@dataclass(frozen=True, slots=True)
class NeverTrigger(QuietTrigger):
    """Never fires: the default of GlobalWindows."""

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        """Does nothing: it keeps no timers and no state."""


def positive_interval(interval: Duration, name: str) -> Millis:
    """The interval in milliseconds; `name` is what an error calls it.

    Raises:
        ValueError: it is not positive.
    """
    interval_ms = to_millis(interval, name)
    if interval_ms <= 0:
        raise ValueError(f"the {name} of a trigger must be positive, got {interval!r}")
    return interval_ms


# -- by the rows themselves

_COUNT = ReducingStateDescriptor("count", pa.int64(), function=operator.add)
"""The number of rows since the last firing; those of windows that merge add up."""


@dataclass(frozen=True, slots=True, init=False)
class CountTrigger(QuietTrigger):
    """Fires with every `max_count`th row of a window."""

    max_count: int

    def __init__(self, window_size: int) -> None:
        """Fires with every `window_size`th row."""
        if not isinstance(window_size, int) or window_size <= 0:
            raise ValueError(f"a count trigger needs a positive number of rows, got {window_size!r}")
        object.__setattr__(self, "max_count", window_size)  # a frozen dataclass says no to a plain assignment

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """Fires with every `window_size`th row."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(_COUNT)
        count.add(1)
        if count.get() < self.max_count:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(_COUNT)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(_COUNT).clear()


def check_delta(threshold: object, delta_function: object) -> None:
    """Checks the arguments of a trigger or evictor by difference.

    Raises:
        TypeError: the threshold is no number, or the delta function cannot be called.
    """
    if not isinstance(threshold, numbers.Real):
        raise TypeError(f"the threshold is a number, not {threshold!r}")
    if not callable(delta_function):
        raise TypeError(
            f"the delta function is a function of two rows that gives how much they differ, not {delta_function!r}"
        )


_LAST_ELEMENT = ValueStateDescriptor("last-element")


@dataclass(frozen=True, slots=True)
class DeltaTrigger(QuietTrigger):
    """Fires when a row differs by more than the threshold from the one that fired last (at first: the first row)."""

    threshold: float
    delta_function: Callable[[Any, Any], float]
    """`(old row, new row) -> how much they differ`"""

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float]) -> DeltaTrigger:
        """Fires when `delta_function(row that fired last, row)` is above `threshold`."""
        check_delta(threshold, delta_function)
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        last = ctx.get_partitioned_state(_LAST_ELEMENT)
        if last.value() is None:
            last.update((element,))  # in a tuple, since None may be a row
            return TriggerResult.CONTINUE
        if self.delta_function(last.value()[0], element) <= self.threshold:
            return TriggerResult.CONTINUE
        last.update((element,))
        return TriggerResult.FIRE

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(_LAST_ELEMENT).clear()


# -- around another trigger


@dataclass(frozen=True, slots=True)
class PurgingTrigger(Trigger):
    """Another trigger whose firings also drop the window's contents."""

    nested_trigger: Trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Fires as `nested_trigger` does."""
        return PurgingTrigger(_checked_nested(nested_trigger, "PurgingTrigger"))

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


def _checked_nested(trigger: object, around: str) -> Trigger:
    if not isinstance(trigger, Trigger):
        raise TypeError(f"{around}.of takes a Trigger such as CountTrigger.of(10), not {trigger!r}")
    return trigger


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


_TIMEOUT = ValueStateDescriptor("timeout", pa.int64())


@dataclass(frozen=True, slots=True)
class ProcessingTimeoutTrigger(Trigger):
    """Fires with another trigger, and some processing time after the first row (or the last one) if that has not."""

    nested_trigger: Trigger
    timeout_ms: Millis
    reset_timer_on_new_record: bool = False
    """Each row starts the timeout anew."""
    should_clear_on_timeout: bool = True
    """What the other trigger keeps is cleared when a timer fires."""

    @staticmethod
    def of(
        nested_trigger: Trigger,
        timeout: Duration,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """Fires as `nested_trigger` does, and after `timeout` (milliseconds, timedelta or text such as "10 s") if
        that has not."""
        _checked_nested(nested_trigger, "ProcessingTimeoutTrigger")
        timeout_ms = positive_interval(timeout, "timeout")
        return ProcessingTimeoutTrigger(nested_trigger, timeout_ms, reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        timeout = ctx.get_partitioned_state(_TIMEOUT)
        pending = timeout.value()
        if pending is not None and self.reset_timer_on_new_record:
            ctx.delete_processing_time_timer(pending)
            pending = None
        if pending is None:
            when = ctx.get_current_processing_time() + self.timeout_ms
            timeout.update(when)
            ctx.register_processing_time_timer(when)
        return result

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return self._fire(self.nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return self._fire(self.nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def _fire(self, result: TriggerResult, window: Any, ctx: TriggerContext) -> TriggerResult:
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        timeout = ctx.get_partitioned_state(_TIMEOUT)
        if timeout.value() is not None:
            ctx.delete_processing_time_timer(timeout.value())
            timeout.clear()
        self.nested_trigger.clear(window, ctx)

"""Evictors: which of a window's rows a firing leaves out (after Flink's Evictor)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from flinkray.functions.metrics import MetricGroup
from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import Millis
from flinkray.windows.triggers import check_delta


class EvictorContext(Protocol):
    """What an evictor may ask for."""

    def get_current_processing_time(self) -> int:
        """Epoch milliseconds."""

    def get_current_watermark(self) -> int:
        """Epoch milliseconds; MIN_TIMESTAMP before the first watermark."""

    def get_metric_group(self) -> MetricGroup:
        """A group for figures of the evictor's own, reported beside those of its operator."""


class TimestampedValue(Protocol):
    """A row in a window, with its event time in epoch milliseconds, or None."""

    value: Any
    timestamp: int | None


class Evictor(ABC):
    """Removes rows from a window before and after its function sees them; what it removes is gone for good."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        """The rows that stay, of those that the window has, in order of arrival."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        """The rows that stay for the next firing."""


class _OnceEvictor(Evictor):
    """Base of those that evict either before or after the function."""

    __slots__ = ()
    do_evict_after: bool

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        return elements if self.do_evict_after else self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> list[TimestampedValue]:
        return self._evict(elements) if self.do_evict_after else elements

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        """The rows that stay."""


@dataclass(frozen=True, slots=True)
class CountEvictor(_OnceEvictor):
    """Keeps the last `max_count` rows."""

    max_count: int
    do_evict_after: bool = False

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Keeps the last `max_count` rows, before the function sees them or (`do_evict_after`) after it."""
        if not isinstance(max_count, int) or max_count < 0:
            raise ValueError(f"a count evictor keeps a number of rows, got {max_count!r}")
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        return elements[max(0, len(elements) - self.max_count) :]


@dataclass(frozen=True, slots=True)
class TimeEvictor(_OnceEvictor):
    """Keeps the rows of the last `window_size_ms` before the highest event time among them."""

    window_size_ms: Millis
    do_evict_after: bool = False

    @staticmethod
    def of(window_size: Duration, do_evict_after: bool = False) -> TimeEvictor:
        """Keeps the rows of the last `window_size` (milliseconds, timedelta or text such as "10 s"), before the
        function sees them or (`do_evict_after`) after it."""
        return TimeEvictor(to_millis(window_size, "window_size"), do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        times = [element.timestamp for element in elements if element.timestamp is not None]
        if not times:
            return elements
        limit = max(times) - self.window_size_ms
        return [element for element in elements if element.timestamp is None or element.timestamp > limit]


@dataclass(frozen=True, slots=True)
class DeltaEvictor(_OnceEvictor):
    """Keeps the rows that differ by less than the threshold from the last one."""

    threshold: float
    delta_function: Callable[[Any, Any], float]
    """`(row, last row) -> how much they differ`"""
    do_evict_after: bool = False

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False) -> DeltaEvictor:
        """Keeps the rows with `delta_function(row, last row) < threshold`, before the function sees them or
        (`do_evict_after`) after it."""
        check_delta(threshold, delta_function)
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        if not elements:
            return elements
        last = elements[-1].value
        return [each for each in elements if self.delta_function(each.value, last) < self.threshold]

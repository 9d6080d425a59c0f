"""Windows and how rows are assigned to them (descriptions; the kernels are in actors/operators/)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flinkray.durations import Duration, to_millis
from flinkray.types import Millis


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """[start, end) in epoch milliseconds: the end is excluded (Flink's TimeWindow)."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """The last millisecond that belongs to the window; results carry it as event time."""
        return self.end - 1


@dataclass(frozen=True, slots=True)
class WindowAssigner:
    """Base of all. `size_ms`, `slide_ms` and `offset_ms` describe the window starts: offset + n * slide."""

    size_ms: Millis
    slide_ms: Millis
    offset_ms: Millis = Millis(0)
    is_event_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.size_ms <= 0 or self.slide_ms <= 0:
            raise ValueError(f"{name}: size and slide must be positive, got {self.size_ms} ms and {self.slide_ms} ms")
        # The offset shifts the starts within one slide, so it must be smaller than the slide, not the size.
        if abs(self.offset_ms) >= self.slide_ms:
            raise ValueError(
                f"{name}: the offset ({self.offset_ms} ms) must be smaller than the "
                f"{'slide' if self.slide_ms != self.size_ms else 'size'} ({self.slide_ms} ms)"
            )


def _offset(offset: Duration) -> Millis:
    return Millis(offset) if isinstance(offset, int) and offset < 0 else to_millis(offset, "offset")


@dataclass(frozen=True, slots=True)
class TumblingEventTimeWindows(WindowAssigner):
    @staticmethod
    def of(size: Duration, offset: Duration = 0) -> TumblingEventTimeWindows:
        """Windows of `size`, one after another, aligned to the epoch plus `offset` (may be negative as an int)."""
        size_ms = to_millis(size, "size")
        return TumblingEventTimeWindows(size_ms, size_ms, _offset(offset))


@dataclass(frozen=True, slots=True)
class SlidingEventTimeWindows(WindowAssigner):
    @staticmethod
    def of(size: Duration, slide: Duration, offset: Duration = 0) -> SlidingEventTimeWindows:
        """Windows of `size`, one starting every `slide`."""
        return SlidingEventTimeWindows(to_millis(size, "size"), to_millis(slide, "slide"), _offset(offset))

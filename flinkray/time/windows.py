"""Windows as values: an interval of time, a number of rows, or everything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from flinkray.types.records import MAX_TIMESTAMP


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """[start, end) in epoch milliseconds: the end is excluded (Flink's TimeWindow)."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """The last millisecond that belongs to the window; results carry it as event time."""
        return self.end - 1

    def intersects(self, other: Window) -> bool:
        """Whether the two overlap, or touch each other."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: Window) -> Window:
        """The smallest window that contains both."""
        return Window(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the tumbling window that contains the time, also before the epoch."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[Window], callback: Callable[[Collection[Window], Window], None]) -> None:
        """Merges windows that overlap or touch, as `MergingWindowAssigner.merge_windows` of sessions does.

        Args:
            callback: called as `callback(windows that merge, their merged window)` for each set of two or more.
        """
        merging: list[Window] = []
        covered: Window | None = None
        for window in sorted(set(windows)):
            if covered is not None and covered.intersects(window):
                merging.append(window)
                covered = covered.cover(window)
                continue
            if covered is not None and len(merging) > 1:
                callback(merging, covered)
            merging, covered = [window], window
        if covered is not None and len(merging) > 1:
            callback(merging, covered)


@dataclass(frozen=True, slots=True, order=True)
class GlobalWindow:
    """The one window of `GlobalWindows`: it has no end."""

    @staticmethod
    def get() -> GlobalWindow:
        """PyFlink's way to make one; all are equal."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """The end of event time: it never ends before the data does."""
        return MAX_TIMESTAMP


@dataclass(frozen=True, slots=True, order=True)
class CountWindow:
    """A number of consecutive rows of a key; `id` counts such windows from 0."""

    id: int

    def max_timestamp(self) -> int:
        """The end of event time, since the window ends at no certain time."""
        return MAX_TIMESTAMP


AnyWindow = Window | GlobalWindow | CountWindow

"""Arithmetic of count windows: which row of a key is in which window and pane; and which programs have such windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from flinkray.transformations.operator_factories import WindowFactory
from flinkray.windows.assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, GlobalWindows
from flinkray.windows.evictors import CountEvictor
from flinkray.windows.triggers import CountTrigger, PurgingTrigger, Trigger

Numbers = npt.NDArray[np.int64]
"""Numbers of rows of a key, in order of arrival."""

Panes = npt.NDArray[np.int64]

# Far from where sums of such numbers are no longer 64 bits wide.
_MOST_ROWS = 1 << 60


class CountWindowPanes(Struct, frozen=True):
    """Window n has the rows n * slide ... n * slide + size - 1 of its key, of those that there are.

    Between two neighbouring begins or ends of windows lies a *pane*: rows that are in the same windows. Panes are
    numbered as they come, and a window has `panes_per_window` neighbouring ones. Where windows do not overlap, a pane
    has a window's rows, and then those that are in none.

    Attributes:
        first: the number of a key's first row.
    """

    size: int
    slide: int
    first: int = 0

    @property
    def has_gaps(self) -> bool:
        """Whether some rows are in no window."""
        return self.slide > self.size

    @property
    def panes_per_window(self) -> int:
        whole, rest = divmod(max(self.size, self.slide), self.slide)
        return 2 * whole + 1 if rest else whole

    def panes(self, numbers: Numbers) -> Panes:
        """The pane of each row."""
        rest = max(self.size, self.slide) % self.slide
        slides, rows_in_slide = np.divmod(numbers, self.slide)
        return 2 * slides + (rows_in_slide >= rest) if rest else slides

    def are_in_window(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Which rows are in a window at all."""
        return numbers % self.slide < self.size

    def are_last(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Which rows are the last one of a window."""
        behind = numbers - (self.size - 1)
        is_last: npt.NDArray[np.bool_] = (behind >= 0) & (behind % self.slide == 0)
        return is_last

    def oldest_needed(self, coming: Numbers) -> Panes:
        """The first pane of the next window that gets full, given the number of the key's next row. Where windows do
        not overlap, the pane of that row.

        Args:
            coming: for each key the number of its next row.
        """
        last = max(self.size, self.slide) - 1
        windows = np.maximum(-((last - coming) // self.slide), 0)
        return self.panes(last + windows * self.slide) - (self.panes_per_window - 1)

    def encode(self) -> str:
        """Text that is equal where all windows are."""
        return f"counts of {self.size} rows every {self.slide} rows from {self.first}"


def count_windows_of(factory: WindowFactory) -> CountWindowPanes | None:
    """The count windows of a program; None: its windows are others, or more than that.

    With `CountEvictor.of(size)`, every so-manieth row of a key fires, from the beginning: its first windows have fewer
    rows than `size`.
    """
    assigner, evictor = factory.assigner, factory.evictor
    trigger = factory.trigger or assigner.get_default_trigger(None)
    if type(assigner) in (CountTumblingWindowAssigner, CountSlidingWindowAssigner):
        assert isinstance(assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner)
        is_plain = evictor is None and trigger == assigner.get_default_trigger()
        return _of(assigner.size, assigner.slide) if is_plain else None
    if type(assigner) is not GlobalWindows:
        return None
    if evictor is None:
        rows = _counted(trigger.nested_trigger) if type(trigger) is PurgingTrigger else None
        return _of(rows, rows)
    slide = _counted(trigger)
    if slide is None or type(evictor) is not CountEvictor or evictor.do_evict_after or evictor.max_count < slide:
        return None
    return _of(evictor.max_count, slide, evictor.max_count - slide)


def _counted(trigger: Trigger) -> int | None:
    return trigger.max_count if type(trigger) is CountTrigger else None


def _of(size: Any, slide: Any, first: int = 0) -> CountWindowPanes | None:
    """The windows; None where these are no numbers of rows that 64 bits count: who makes a trigger need not have used
    `of`."""
    are_counts = all(isinstance(rows, int) and 0 < rows <= _MOST_ROWS for rows in (size, slide))
    return CountWindowPanes(size, slide, first) if are_counts else None

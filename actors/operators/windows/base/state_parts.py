"""The parts of snapshots in which windows' contents are: the part tells how the windows buffer or aggregate.

The names are in snapshots that exist. An operator says which part is its own, so that state which windows of another
operator wrote is found and not lost (`TimedOperator`).
"""

from __future__ import annotations

from flinkray.windows.assigners import (
    AlignedWindows,
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    CumulativeWindows,
    GlobalWindows,
    SessionWindows,
    WindowAssigner,
)

ACCUMULATORS = "cells"
"""Accumulators of built-in aggregates, of aligned windows and of count windows."""

FOLDED = "panes"
"""What functions have made of the rows of aligned windows."""

ROWS = "rows"
"""All rows of aligned windows, for functions that get them."""

SESSIONS = "sessions"
"""Sessions, whatever is in them."""

GENERAL = "own"
"""Begins the names of the parts of the general window operator."""

FIRST_INPUT, SECOND_INPUT = "first", "second"
"""The rows of both inputs of a window join."""

LEFT, RIGHT = "left", "right"
"""The rows of both inputs of an interval join."""

CONTENTS = frozenset({ACCUMULATORS, FOLDED, ROWS, SESSIONS, GENERAL, FIRST_INPUT, SECOND_INPUT, LEFT, RIGHT})
"""All of these parts."""


Windows = tuple[str, int]
"""A text that says what windows there are, with {} for their size, and that size. In snapshots."""

UNKNOWN_WINDOWS: Windows = ("", 0)
"""Those of an assigner of the user's, and those that are compared in another way."""


def windows_of(assigner: WindowAssigner) -> Windows:
    """What windows an assigner makes, for comparison with those of a snapshot.

    Sessions are the same whatever their gap: those that are open keep the ends that they have, as in Flink.
    """
    time = "event time" if assigner.is_event_time() else "processing time"
    if isinstance(assigner, AlignedWindows):
        slides = f"every {assigner.slide_ms} ms from {assigner.offset_ms} in {time}"
        windows = "cumulative windows" if isinstance(assigner, CumulativeWindows) else "windows"
        return f"{windows} of {{}} ms {slides}", int(assigner.size_ms)
    if isinstance(assigner, SessionWindows):
        return f"sessions in {time}", 0
    if isinstance(assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner):
        return f"windows of {{}} rows every {assigner.slide} rows", assigner.size
    return ("one window for all rows", 0) if isinstance(assigner, GlobalWindows) else UNKNOWN_WINDOWS


def text_of(windows: Windows) -> str:
    text, size = windows
    return text.format(size)

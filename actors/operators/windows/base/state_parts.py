"""The parts of snapshots in which windows' contents are: the part tells how the windows buffer or aggregate.

The names are in snapshots that exist. An operator says which part is its own, so that state which windows of another
operator wrote is found and not lost (`TimedOperator`).
"""

from __future__ import annotations

from flinkray.windows.assigners import (
    AlignedWindows,
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
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


def windows_text(assigner: WindowAssigner) -> str:
    """What windows an assigner makes, for comparison with those of a snapshot; empty where only the user knows.

    Sessions are the same whatever their gap: those that are open keep the ends that they have, as in Flink.
    """
    time = "event time" if assigner.is_event_time() else "processing time"
    if isinstance(assigner, AlignedWindows):
        return f"windows of {assigner.size_ms} ms every {assigner.slide_ms} ms from {assigner.offset_ms} in {time}"
    if isinstance(assigner, SessionWindows):
        return f"sessions in {time}"
    if isinstance(assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner):
        return f"windows of {assigner.size} rows every {assigner.slide} rows"
    return "one window for all rows" if isinstance(assigner, GlobalWindows) else ""

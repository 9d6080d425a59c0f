"""The parts of snapshots in which windows' contents are: the part tells how the windows buffer or aggregate.

The names are in snapshots that exist. An operator says which part is its own, so that state which windows of another
operator wrote is found and not lost (`TimedOperator`).
"""

from __future__ import annotations

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

CONTENTS = frozenset({ACCUMULATORS, FOLDED, ROWS, SESSIONS, GENERAL, FIRST_INPUT, SECOND_INPUT})
"""All of these parts."""

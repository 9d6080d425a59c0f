"""How many rows of a batch a source gives on at a time, so that its task has a look at its mailbox soon."""

from __future__ import annotations

TARGET_MS = 100.0
"""In which rows should pass through the source's chain: so long, or for one row, barriers and cancelling wait."""
FIRST_ROWS = 64
"""While nothing is known: a call of a model may take seconds per row."""
LARGEST_GROWTH = 16
"""From one piece to the next; the first rows may be the quickest."""


class SourcePace:
    """Learns how quickly rows pass through the operators that are chained to a source. Pure; belongs to one thread."""

    def __init__(self) -> None:
        self.rows = FIRST_ROWS
        """To be given on at a time."""

    def passed(self, rows: int, took_ms: float) -> None:
        """So many rows took so long."""
        most = LARGEST_GROWTH * max(rows, self.rows)
        self.rows = max(1, min(most, int(rows * TARGET_MS / took_ms))) if took_ms > 0 else most

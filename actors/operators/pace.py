"""How many rows of a batch go through a chain of operators at a time, so that its task soon looks at its mailbox."""

from __future__ import annotations

TARGET_MS = 100.0
"""In which rows should pass: so long, or for one row, timers, barriers and cancelling wait."""
FIRST_ROWS = 64
"""While nothing is known: a call of a model may take seconds per row."""
LARGEST_GROWTH = 16
"""From one piece to the next; the first rows may be the quickest."""


class Pace:
    """Learns how quickly rows pass. Pure; belongs to one thread."""

    def __init__(self) -> None:
        self.rows = FIRST_ROWS
        """To be given on at a time."""

    def passed(self, rows: int, took_ms: float) -> None:
        """So many rows took so long."""
        most = LARGEST_GROWTH * max(rows, self.rows)
        self.rows = max(1, min(most, int(rows * TARGET_MS / took_ms))) if took_ms > 0 else most

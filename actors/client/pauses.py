"""How long clients wait between two questions."""

from __future__ import annotations

import threading
import time

# Between two questions: short at first, so that a small job ends without delay, then longer: each takes some 8 ms of
# CPU time in all processes together.
FIRST_PAUSE_S = 0.02
# Where the cluster is in this process a question is a call, and a job may be over in less.
FIRST_LOCAL_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.1
PAUSE_GROWTH = 1.25
# By which part of its time the end of a long job may be noticed too late, and by how many seconds at most.
PATIENT_SHARE = 0.02
MOST_PATIENT_S = 0.5


class Pause:
    """Waits between two questions, a little longer every time; any thread of its own.

    Args:
        first_s: how long at first; None: FIRST_PAUSE_S.

    Attributes:
        is_patient: also longer than LONGEST_PAUSE_S, when it has waited for long.
    """

    def __init__(self, first_s: float | None = None) -> None:
        self.is_patient = False
        self._event = threading.Event()
        self._first_s = self._next_s = FIRST_PAUSE_S if first_s is None else first_s
        self._waited_s = 0.0

    def wait(self, deadline: float | None = None) -> None:
        """Waits, but not beyond `deadline` (of time.monotonic)."""
        left = self._next_s if deadline is None else min(self._next_s, deadline - time.monotonic())
        self._event.wait(max(0.0, left))
        self._waited_s += max(0.0, left)
        patience_s = min(MOST_PATIENT_S, PATIENT_SHARE * self._waited_s) if self.is_patient else 0.0
        self._next_s = min(max(LONGEST_PAUSE_S, patience_s), self._next_s * PAUSE_GROWTH)

    def reset(self) -> None:
        self._next_s = self._first_s

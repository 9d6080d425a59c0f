"""Watermarks and markers that tests put between values, and find between results."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Watermark:
    """No more rows with an event time at or below `timestamp` (epoch milliseconds) will come."""

    timestamp: int


class Marker(enum.Enum):
    """`Idle`: nothing will come for a while, and nobody is to wait. `Active`: that is over. `Crash`: the source
    raises, once, and the job starts again from its last checkpoint as its restart strategy says."""

    IDLE = "Idle"
    ACTIVE = "Active"
    CRASH = "Crash"

    def __repr__(self) -> str:
        return self.value


Idle = Marker.IDLE
Active = Marker.ACTIVE
Crash = Marker.CRASH

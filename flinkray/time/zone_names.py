"""Which names are those of time zones; apart from what is done with them, as options are checked without Arrow."""

from __future__ import annotations

import re
import zoneinfo

_CUSTOM = re.compile(r"GMT[+-](0\d|1[0-7]):[0-5]\d|GMT[+-]18:00")
_SHORT = ("EST", "MST", "HST", "ROC")
"""Names that are no zones of Java."""


def is_time_zone(name: str) -> bool:
    """Whether it is a time zone as Flink takes them: a full name such as America/New_York, or one such as GMT-08:00."""
    if _CUSTOM.fullmatch(name):
        return True
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return name not in _SHORT

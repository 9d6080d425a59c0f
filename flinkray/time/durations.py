"""Lengths of time as users write them."""

from __future__ import annotations

import re
from datetime import timedelta

from flinkray.types.records import MAX_TIMESTAMP, Millis

Duration = int | timedelta | str
"""Milliseconds as an int, a timedelta, or text such as "10 s", "5 min", "1 h"."""

_UNITS_MS = {
    "ms": 1,
    "milli": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
NEVER_MS = 365 * _UNITS_MS["day"]
"""Stands for "no timeout": longer than any task waits for rows."""
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def to_millis(duration: Duration, name: str = "duration") -> Millis:
    """The duration in whole milliseconds; `name` is what an error calls it.

    Raises:
        ValueError: it is negative, beyond 64 bits, no whole number of milliseconds, or text that is not `number unit`.
        TypeError: it is neither int, timedelta nor text.
    """
    if isinstance(duration, bool):
        raise TypeError(f"{name} is a duration (milliseconds, timedelta or text like '10 s'), not {duration!r}")
    if isinstance(duration, int):
        millis: float = duration
    elif isinstance(duration, timedelta):
        micros = duration // timedelta(microseconds=1)
        millis = micros / 1000
    elif isinstance(duration, str):
        millis = _parse(duration, name)
    else:
        raise TypeError(f"{name} is a duration (milliseconds, timedelta or text like '10 s'), not {duration!r}")
    if millis < 0:
        raise ValueError(f"{name} must not be negative, got {duration!r}")
    if millis > MAX_TIMESTAMP:
        raise ValueError(f"{name} must be at most {MAX_TIMESTAMP} ms, got {duration!r}")
    if millis != int(millis):
        raise ValueError(f"{name} must be a whole number of milliseconds, got {duration!r}")
    return Millis(int(millis))


def without_minus_one(timeout: Duration) -> Duration:
    """The same duration, but for -1, Flink's "no timeout": then one that is longer than any wait."""
    return NEVER_MS if timeout == -1 else timeout


def _parse(text: str, name: str) -> float:
    match = _TEXT.fullmatch(text.lower())
    if match is None:
        raise ValueError(
            f"{name}: cannot read {text!r} as a duration; write for example '500 ms', '10 s', '5 min', '1 h'"
        )
    unit = match.group(2) or "ms"
    factor = _UNITS_MS.get(unit) or _UNITS_MS.get(unit.removesuffix("s"))
    if factor is None:
        raise ValueError(f"{name}: unknown unit {unit!r} in {text!r}; known: ms, s, min, h, d")
    return float(match.group(1)) * factor

"""Instants as dates and times of day in a time zone, and back, as Java resolves them."""

from __future__ import annotations

import re
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?")
_UTC = ("UTC", "GMT", "Z", "Etc/UTC")
_DAY_MS = 86_400_000
_YEAR_MS = 365 * _DAY_MS
_SEEN_FROM_MS = 56 * _YEAR_MS
"""The end of 2025, as clocks of a zone that gave summer time up before are moved no more."""


def to_local(instants: pa.Array, time_zone: str) -> pa.Array:
    """Timestamps without a zone: what clocks in the time zone showed."""
    unit = instants.type.unit
    offset = _offset_of(time_zone, unit)
    if offset is not None:
        return pc.add(instants.cast(pa.timestamp(unit)), offset)
    return pc.local_timestamp(instants.cast(pa.timestamp(unit, time_zone)))


def to_instant(local: pa.Array, time_zone: str, ambiguous: Literal["earliest", "latest"] = "earliest") -> pa.Array:
    """Instants at which clocks in the time zone show this, after a gap as much later.

    Args:
        ambiguous: which of two; Java's old formats take the latest.
    """
    unit = local.type.unit
    offset = _offset_of(time_zone, unit)
    if offset is not None:
        return pc.subtract(local, offset).cast(pa.timestamp(unit, "UTC"))
    try:
        found = pc.assume_timezone(local, time_zone, ambiguous=ambiguous, nonexistent="raise")
    except pa.ArrowInvalid:
        # In a gap Java goes on by the offset before it: the time a day earlier, and a day more.
        found = pc.assume_timezone(local, time_zone, ambiguous=ambiguous, nonexistent="earliest")
        is_gap = pc.not_equal(pc.local_timestamp(found), local)
        day = pa.scalar(86_400, pa.duration("s")).cast(pa.duration(unit))
        before = pc.add(
            pc.assume_timezone(pc.subtract(local, day), time_zone, ambiguous="earliest", nonexistent="earliest"), day
        )
        found = pc.if_else(is_gap, before, found)
    return found.cast(pa.timestamp(unit, "UTC"))


def to_local_millis(instant: int, time_zone: str) -> int:
    """What clocks show at an instant that event time has come to, so that they show nothing as early any more.

    Both are milliseconds. Where clocks go back, it stays just before the time that they go back to.
    """
    local = _local(instant, time_zone)
    last = to_instant_millis(local, time_zone)
    if last == instant:
        return local
    # Clocks show the same again at `last`: they go back after `instant`, at `high`, and no later than that.
    low, high = instant, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _local(middle, time_zone) - middle == local - instant else (low, middle)
    return min(local, _local(high, time_zone) - 1)


def millis_ahead(time_zone: str, step: int) -> int | None:
    """How far clocks in the time zone are ahead of UTC, apart from whole steps; None where summer time changes that.

    The step is milliseconds. Whatever lasts so long begins on clocks there when it does in UTC, and so much earlier.
    """
    instants = pa.array(range(0, 40 * _YEAR_MS, 10 * _DAY_MS), pa.int64())  # some zones change for a month only
    local = to_local(pc.add(instants, _SEEN_FROM_MS).cast(pa.timestamp("ms", "UTC")), time_zone).cast(pa.int64())
    ahead = {each % step for each in pc.unique(pc.subtract(pc.subtract(local, instants), _SEEN_FROM_MS)).to_pylist()}
    return ahead.pop() if len(ahead) == 1 else None


def to_instant_millis(local: int, time_zone: str) -> int:
    """The last instant at which clocks show this; the end of a gap where they never do. Both are milliseconds."""
    offset = _offset_of(time_zone, "ms")
    if offset is not None:
        return local - int(offset.value)
    times = pa.array([local], pa.timestamp("ms"))
    found = pc.assume_timezone(times, time_zone, ambiguous="latest", nonexistent="latest")
    return int(found[0].value)


def _local(instant: int, time_zone: str) -> int:
    return int(to_local(pa.array([instant], pa.timestamp("ms", "UTC")), time_zone)[0].value)


def _offset_of(time_zone: str, unit: str) -> pa.Scalar | None:
    """How far clocks are ahead of UTC where that is always the same, as in UTC, +08:00 and Java's GMT+8; else None."""
    offset = _OFFSET.fullmatch(time_zone)
    if offset is None:
        return pa.scalar(0, pa.duration(unit)) if time_zone in _UTC else None
    sign, hours, minutes = offset.groups()
    seconds = int(hours) * 3_600 + int(minutes or 0) * 60
    return pa.scalar(-seconds if sign == "-" else seconds, pa.duration("s")).cast(pa.duration(unit))

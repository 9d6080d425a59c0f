"""Instants as dates and times of day in a time zone, and back, as Java resolves them."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?")
_UTC = ("UTC", "GMT", "Z", "Etc/UTC")


def to_local(instants: pa.Array, time_zone: str) -> pa.Array:
    """Timestamps without a zone: what clocks in the time zone showed."""
    unit = instants.type.unit
    offset = _offset_of(time_zone, unit)
    if offset is not None:
        return pc.add(instants.cast(pa.timestamp(unit)), offset)
    return pc.local_timestamp(instants.cast(pa.timestamp(unit, time_zone)))


def to_instant(local: pa.Array, time_zone: str) -> pa.Array:
    """Instants at which clocks in the time zone show this: the earlier of two, and after a gap as much later."""
    unit = local.type.unit
    offset = _offset_of(time_zone, unit)
    if offset is not None:
        return pc.subtract(local, offset).cast(pa.timestamp(unit, "UTC"))
    try:
        found = pc.assume_timezone(local, time_zone, ambiguous="earliest", nonexistent="raise")
    except pa.ArrowInvalid:
        # In a gap Java goes on by the offset before it: the time a day earlier, and a day more.
        found = pc.assume_timezone(local, time_zone, ambiguous="earliest", nonexistent="earliest")
        is_gap = pc.not_equal(pc.local_timestamp(found), local)
        day = pa.scalar(86_400, pa.duration("s")).cast(pa.duration(unit))
        before = pc.add(
            pc.assume_timezone(pc.subtract(local, day), time_zone, ambiguous="earliest", nonexistent="earliest"), day
        )
        found = pc.if_else(is_gap, before, found)
    return found.cast(pa.timestamp(unit, "UTC"))


def _offset_of(time_zone: str, unit: str) -> pa.Scalar | None:
    """How far clocks are ahead of UTC where that is always the same, as in UTC, +08:00 and Java's GMT+8; else None."""
    offset = _OFFSET.fullmatch(time_zone)
    if offset is None:
        return pa.scalar(0, pa.duration(unit)) if time_zone in _UTC else None
    sign, hours, minutes = offset.groups()
    seconds = int(hours) * 3_600 + int(minutes or 0) * 60
    return pa.scalar(-seconds if sign == "-" else seconds, pa.duration("s")).cast(pa.duration(unit))

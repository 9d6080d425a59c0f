"""Intervals beside times: sums, differences and products; times rounded to a unit; TIMESTAMPADD and TIMESTAMPDIFF."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.values import calendar
from actors.operators.calc.values.calendar import SECONDS_OF_DAY, Numbers, add_months, first_day, month_of
from actors.operators.calc.values.evaluation import Datum, KernelCall, as_array, nulls_where
from flinkray.tables.types.logical import INTERVAL, INTERVALS, NUMBERS, IntervalType, LogicalType, TypeRoot
from flinkray.time.zones import to_instant, to_local

MONTHS_OF = {"YEAR": 12, "QUARTER": 3, "MONTH": 1, "DECADE": 120, "CENTURY": 1_200, "MILLENNIUM": 12_000}
NANOS_OF = {
    "WEEK": 7 * SECONDS_OF_DAY * 10**9,
    "DAY": SECONDS_OF_DAY * 10**9,
    "HOUR": 3_600 * 10**9,
    "MINUTE": 60 * 10**9,
    "SECOND": 10**9,
    "MILLISECOND": 10**6,
    "MICROSECOND": 10**3,
    "NANOSECOND": 1,
}
_MONTHS, _MILLIS = INTERVAL("MONTH"), INTERVAL("SECOND", fraction=3)
_MILLIS_OF_DAY = SECONDS_OF_DAY * 1_000


def combined(call: KernelCall, left: Datum, right: Datum) -> Datum:
    """A sum, difference or product whose result is a time or an interval."""
    first, second = call.types
    if call.name == "*":
        span, factor = (right, left) if first.root in NUMBERS else (left, right)
        return _multiplied(as_array(span, call.rows), factor, call)
    if first.root in INTERVALS and second.root in INTERVALS:
        sides = (as_array(side, call.rows).view(_storage(first)) for side in (left, right))
        return (pc.add if call.name == "+" else pc.subtract)(*sides).view(call.arrow_type)
    if call.result_type.root in INTERVALS:
        return _apart(call, as_array(left, call.rows), as_array(right, call.rows))
    if first.root in INTERVALS:
        left, right, second = right, left, first
    sign = -1 if call.name == "-" else 1
    return shifted(as_array(left, call.rows), as_array(right, call.rows), second, sign)


def _storage(interval: LogicalType) -> pa.DataType:
    return pa.int32() if interval.root is TypeRoot.INTERVAL_YEAR_MONTH else pa.int64()


def _multiplied(span: pa.Array, factor: Datum, call: KernelCall) -> pa.Array:
    storage = span.type if pa.types.is_integer(span.type) else pa.int64()
    return pc.multiply(span.view(storage), factor.cast(storage, safe=False)).view(call.arrow_type)


def shifted(times: pa.Array, spans: pa.Array, span: LogicalType, sign: int) -> pa.Array:
    """Times moved by intervals. Instants move by months on the calendar of UTC, as in Flink."""
    nulls = nulls_where(spans.is_null(), times) if spans.null_count else times
    amounts = sign * calendar.counts(spans)
    if span.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return _by_months(nulls, amounts)
    return by_millis(nulls, amounts)


def _by_months(times: pa.Array, months: Numbers) -> pa.Array:
    days, rest, scale = calendar.split(times)
    moved = add_months(days, months)
    if not pa.types.is_date32(times.type):
        moved = moved * (SECONDS_OF_DAY * scale) + rest
    return calendar.with_nulls_of(moved, times, times.type)


def by_millis(times: pa.Array, millis: Numbers) -> pa.Array:
    """Times so many milliseconds later: dates by whole days, times of day within the day."""
    numbers = calendar.counts(times)
    if pa.types.is_date32(times.type):
        return calendar.with_nulls_of(numbers + np.trunc(millis / _MILLIS_OF_DAY).astype(np.int64), times, times.type)
    scale = calendar.per_second(times.type)
    moved = numbers + millis * (scale // 1000) if scale >= 1000 else (numbers * 1000 + millis) // 1000
    if pa.types.is_time(times.type):
        moved = np.mod(moved, SECONDS_OF_DAY * scale)
    return calendar.with_nulls_of(moved, times, times.type)


def _apart(call: KernelCall, left: pa.Array, right: pa.Array) -> pa.Array:
    """`(left - right) DAY`: milliseconds, or whole months where the interval is one of these."""
    assert isinstance(call.result_type, IntervalType)
    if call.result_type.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return difference(right, left, "MONTH").cast(pa.int32())
    return difference(right, left, "MILLISECOND").cast(pa.int64()).view(call.arrow_type)


def difference(begin: pa.Array, end: pa.Array, unit: str) -> pa.Array:
    """Whole units from one time to the other, towards zero."""
    nulls = nulls_where(begin.is_null(), end) if begin.null_count else end
    (begin_days, begin_rest, scale), (end_days, end_rest, end_scale) = calendar.split(begin), calendar.split(end)
    finest = max(scale, end_scale)
    begin_rest, end_rest = begin_rest * (finest // scale), end_rest * (finest // end_scale)
    if unit in MONTHS_OF:
        months = _months_between(begin_days, begin_rest, end_days, end_rest)
        whole = np.trunc(months / MONTHS_OF[unit]).astype(np.int64)
    else:
        apart = (end_days - begin_days) * (SECONDS_OF_DAY * finest) + end_rest - begin_rest
        nanos, per_unit = NANOS_OF[unit], 10**9 // finest
        whole = (
            np.sign(apart) * (np.abs(apart) // (nanos // per_unit))
            if nanos >= per_unit
            else apart * (per_unit // nanos)
        )
    return calendar.with_nulls_of(whole, nulls, pa.int64())


def _months_between(begin_days: Numbers, begin_rest: Numbers, end_days: Numbers, end_rest: Numbers) -> Numbers:
    """Months between days, and one less where the time of day is not reached: also if it goes backwards, as in
    Flink."""
    sign = np.where(end_days >= begin_days, 1, -1)
    early, late = np.minimum(begin_days, end_days), np.maximum(begin_days, end_days)
    months = month_of(late) - month_of(early)
    months = sign * (months - (add_months(early, months) > late))
    is_on_day = add_months(begin_days, months) == end_days
    found: Numbers = months - (is_on_day & (end_rest < begin_rest))
    return found


def added(call: KernelCall, unit: str, amount: Datum, value: pa.Array) -> pa.Array:
    """TIMESTAMPADD."""
    value = as_array(value, call.rows)
    if not value.type.equals(call.arrow_type):
        value = value.cast(call.arrow_type)
    amounts = as_array(amount, call.rows)
    if unit in MONTHS_OF:
        months = pc.multiply(amounts.cast(pa.int32()), pa.scalar(MONTHS_OF[unit], pa.int32()))
        return shifted(value, months, _MONTHS, 1)
    nanos = NANOS_OF[unit]
    if nanos < 10**6:
        raise ValueError(f"intervals have milliseconds, and no {unit.lower()}s")
    millis = pc.multiply(amounts.cast(pa.int64()), nanos // 10**6)
    return shifted(value, millis, _MILLIS, 1)


def subtracted(call: KernelCall, unit: str, begin: Datum, end: Datum) -> pa.Array:
    """TIMESTAMPDIFF, of instants in UTC as in Flink."""
    apart = difference(as_array(begin, call.rows), as_array(end, call.rows), unit)
    return apart.cast(pa.int32(), safe=False)


# -- rounding to a unit --------------------------------------------------------------------------------------------


def rounded_to_unit(call: KernelCall, value: Datum, unit: str, direction: str) -> pa.Array:
    """FLOOR or CEIL of a time; weeks begin on Sunday, centuries in the year 1."""
    zone = call.context.time_zone
    is_instant = call.types[0].root is TypeRoot.TIMESTAMP_LTZ
    local = to_local(value, zone) if is_instant else value
    rounded = _rounded(local, unit.upper(), direction == "ceil")
    if not is_instant:
        return rounded
    if unit.upper() in NANOS_OF and NANOS_OF[unit.upper()] <= NANOS_OF["HOUR"]:
        # Where clocks go back there are two such hours.
        return pc.add(value, pc.subtract(rounded, local))
    return to_instant(rounded, zone)


def _rounded(times: pa.Array, unit: str, up: bool) -> pa.Array:
    days, rest, scale = calendar.split(times)
    of_day = SECONDS_OF_DAY * scale
    is_date = pa.types.is_date32(times.type)
    if unit in NANOS_OF and unit != "WEEK":
        if is_date:
            return times
        step = NANOS_OF[unit] * scale // 10**9
        if step <= 1:
            return times
        numbers = calendar.counts(times)
        low = numbers // step * step
        return calendar.with_nulls_of(np.where(up & (low < numbers), low + step, low), times, times.type)
    if pa.types.is_time(times.type):
        raise ValueError(f"a time of day has no {unit.lower()}")
    low_days, high_days = _borders(days, unit)
    is_on_it = (low_days == days) & (rest == 0)
    result = np.where(is_on_it, low_days, high_days) if up else low_days
    return calendar.with_nulls_of(result if is_date else result * of_day, times, times.type)


def _borders(days: Numbers, unit: str) -> tuple[Numbers, Numbers]:
    """The first day of the unit that each day is in, and that of the next."""
    if unit == "WEEK":
        low = days - (days + 4) % 7
        return low, low + 7
    if unit not in MONTHS_OF:
        raise ValueError(f"{unit!r} is no unit to round to")
    step = MONTHS_OF[unit]
    # Months are counted from January of the year 0, or of the year 1 for units that begin there.
    shift = 1970 * 12 - (12 if unit in ("CENTURY", "MILLENNIUM") else 0)
    first = (month_of(days) + shift) // step * step - shift
    return first_day(first), first_day(first + step)

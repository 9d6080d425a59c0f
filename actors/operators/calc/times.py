"""Functions of dates, times and timestamps; the times of a query and of its batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc import shifts
from actors.operators.calc.values import calendar
from actors.operators.calc.values.calendar import Numbers
from actors.operators.calc.values.evaluation import Datum, Kernel, KernelCall, as_array, kept_where, plain, with_call
from actors.operators.calc.values.time_texts import (
    DEFAULT_PATTERN,
    parsed_dates,
    parsed_timestamps,
    read_by,
    read_leniently,
)
from actors.operators.calc.values.written_times import written_by
from flinkray.tables.functions.times import PARTS_BY_NAME, SOURCE_WATERMARK
from flinkray.tables.types.logical import APPROXIMATE, INTERVALS, NUMBERS, TEXTS, TypeRoot
from flinkray.time.zones import to_instant, to_local

_NO_TIME = -(2**63)
"""What UNIX_TIMESTAMP gives for a text that is no time."""
_FIRST, _END = -62_135_596_800, 253_402_300_800
"""The years 1 to 9999 in seconds since 1970, of which TO_TIMESTAMP_LTZ makes instants."""
_YEAR_MICROS = 31_556_952 * 10**6
_NEAR_YEAR = 2026
_CLOCK = {"HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
_FRACTIONS = {"MILLISECOND": 10**3, "MICROSECOND": 10**6, "NANOSECOND": 10**9}


# -- parts ---------------------------------------------------------------------------------------------------------


def _extract(call: KernelCall, unit: str, value: Datum) -> pa.Array:
    kind = call.types[-1]
    if kind.root in INTERVALS:
        return _of_interval(value, unit)
    if kind.root is TypeRoot.TIMESTAMP_LTZ:  # EPOCH, too, counts the seconds that clocks show
        value = to_local(value, call.context.time_zone)
    days, rest, scale = calendar.split(value)
    return calendar.with_nulls_of(_part(days, rest, scale, unit), value, pa.int64())


def _part(days: Numbers, rest: Numbers, scale: int, unit: str) -> Numbers:
    if unit in _CLOCK:
        seconds = rest // (scale * _CLOCK[unit])
        return seconds if unit == "HOUR" else seconds % 60
    if unit in _FRACTIONS:
        within = rest % scale
        return within * _FRACTIONS[unit] // scale
    match unit:
        case "EPOCH":
            return days * calendar.SECONDS_OF_DAY + rest // scale
        case "DOW":
            return (days + 4) % 7 + 1
        case "ISODOW":
            return (days + 3) % 7 + 1
        case "DAY":
            return days - calendar.first_day(calendar.month_of(days)) + 1
        case "DOY":
            return calendar.day_of_year(days)
        case "WEEK":
            return (calendar.day_of_year(_thursday(days)) - 1) // 7 + 1
        case "ISOYEAR":
            return calendar.year_of(_thursday(days))
        case "MONTH":
            return calendar.month_of(days) % 12 + 1
        case "QUARTER":
            return calendar.month_of(days) % 12 // 3 + 1
    year = calendar.year_of(days)
    span = {"DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1_000}.get(unit)
    if span is None:
        return year
    return year // span if unit == "DECADE" else (year + span - 1) // span


def _thursday(days: Numbers) -> Numbers:
    """The Thursday of the ISO week, which decides what year it is of."""
    return days - (days + 3) % 7 + 3


def _of_interval(value: pa.Array, unit: str) -> pa.Array:
    numbers = calendar.counts(value)
    size = np.abs(numbers)
    if value.type == pa.int32():
        parts = {"YEAR": size // 12, "MONTH": size % 12}
    else:
        seconds = size // 1_000
        parts = {
            "DAY": seconds // 86_400,
            "HOUR": seconds // 3_600 % 24,
            "MINUTE": seconds // 60 % 60,
            "SECOND": seconds % 60,
            "MILLISECOND": size % 1_000,
        }
    if unit not in parts:
        raise ValueError(f"the interval has no {unit.lower()}")
    return calendar.with_nulls_of(np.sign(numbers) * parts[unit], value, pa.int64())


def _by_name(unit: str) -> Kernel:
    return with_call(lambda call, value: _extract(call, unit, value))


def _overlaps(call: KernelCall, *arguments: Datum) -> pa.Array:
    """Whether two periods meet; each has a begin and an end or a length."""
    first, second = (_period(call, arguments, place) for place in (0, 2))
    return pc.and_(pc.less_equal(first[0], second[1]), pc.less_equal(second[0], first[1]))


def _period(call: KernelCall, arguments: tuple[Datum, ...], place: int) -> tuple[pa.Array, pa.Array]:
    begin, end = (as_array(arguments[place + more], call.rows) for more in (0, 1))
    if call.types[place + 1].root in INTERVALS:
        end = shifts.shifted(begin, end, call.types[place + 1], 1)
    if call.types[place].root is TypeRoot.TIMESTAMP_LTZ:  # of which Arrow finds no lowest
        begin, end = (each.cast(pa.timestamp(each.type.unit)) for each in (begin, end))
    return pc.min_element_wise(begin, end, skip_nulls=False), pc.max_element_wise(begin, end, skip_nulls=False)


# -- texts ---------------------------------------------------------------------------------------------------------


def _date_format(call: KernelCall, value: pa.Array, pattern: str) -> pa.Array:
    root, offsets = call.types[0].root, None
    if root in TEXTS:  # they are of UTC
        value, offsets = read_leniently(value, DEFAULT_PATTERN), np.zeros(len(value), np.int64)
    elif root is TypeRoot.DATE:
        value = value.cast(pa.timestamp("s"))
    elif root is TypeRoot.TIMESTAMP_LTZ:
        value = to_local(value, call.context.time_zone)
    return written_by(value, pattern, offsets, is_simple=root in TEXTS)


def _to_timestamp(value: pa.Array, pattern: str | None = None) -> pa.Array:
    return parsed_timestamps(value, 3, "ms") if pattern is None else read_by(value, pattern)


def _to_date(call: KernelCall, value: pa.Array, pattern: str | None = None) -> pa.Array:
    if pattern is None:
        return parsed_dates(value)
    return read_leniently(value, pattern, _this_year(call)).cast(pa.date32(), safe=False)


def _this_year(call: KernelCall) -> int:
    """The year of the batch; of constants, which are computed before there is a clock, one that is near."""
    return max(1970 + call.context.now_micros // _YEAR_MICROS, _NEAR_YEAR)


def _to_timestamp_ltz(
    call: KernelCall, value: pa.Array, precision: int | str | None = None, zone: str | None = None
) -> pa.Array:
    if call.types[0].root in NUMBERS:
        return _instants(call, value, 3 if precision is None else int(precision))
    pattern = None if precision is None else str(precision)
    return to_instant(_to_timestamp(value, pattern), zone or "UTC")


def _instants(call: KernelCall, value: pa.Array, digits: int) -> pa.Array:
    """The instants that numbers count in units of so many digits of a second; NULL outside the years 1 to 9999."""
    if not 0 <= digits <= 9:
        raise ValueError(f"the precision is from 0 for seconds to 9 for nanoseconds, and not {digits}")
    target = pa.timestamp(call.arrow_type.unit, "UTC")
    if call.types[0].root in APPROXIMATE:  # of decimals, as in Flink, only the whole units count
        value, digits = pc.floor(pc.multiply(value.cast(pa.float64()), 10.0 ** (3 - digits))), 3
        value = pc.if_else(pc.less(pc.abs(value), 1e15), value, None)
    counts = value.cast(pa.int64(), safe=False)
    given, wanted = 10**digits, calendar.PER_SECOND[target.unit]
    limit = (2**63 - 1) // max(wanted // given, 1)  # of what the unit of the result can count
    first, last = max(_FIRST * given, -limit), min(_END * given - 1, limit)
    counts = kept_where(pc.and_(pc.greater_equal(counts, first), pc.less_equal(counts, last)), counts)
    if wanted >= given:
        return pc.multiply(counts, wanted // given).cast(target)
    return calendar.with_nulls_of(calendar.counts(counts) // (given // wanted), counts, target)


def _from_unixtime(call: KernelCall, value: pa.Array, pattern: str = DEFAULT_PATTERN) -> pa.Array:
    instants = value.cast(pa.timestamp("s", "UTC"))
    local = to_local(instants, call.context.time_zone)
    offsets = calendar.counts(local.cast(pa.int64())) - calendar.counts(instants.cast(pa.int64()))
    return written_by(local, pattern, offsets, is_simple=True)


def _unix_timestamp(call: KernelCall, value: Datum = None, pattern: str = DEFAULT_PATTERN) -> Datum:
    if value is None:
        return pa.scalar(call.context.now_micros // 1_000_000, pa.int64())
    read = read_leniently(value, pattern, _this_year(call))
    is_local = read.type.tz is None
    instants = to_instant(read, call.context.time_zone, ambiguous="latest") if is_local else read
    seconds = instants.cast(pa.int64())
    return pc.if_else(pc.and_(value.is_valid(), read.is_null()), _NO_TIME, seconds)


def _convert_tz(value: pa.Array, source: str, target: str) -> pa.Array:
    instants = to_instant(read_leniently(value, DEFAULT_PATTERN), source, ambiguous="latest")
    return written_by(to_local(instants, target), DEFAULT_PATTERN)


# -- now -----------------------------------------------------------------------------------------------------------


def _now(is_row: bool = False) -> Kernel:
    """The time of the statement or, where a stream has no end, of the batch, in the type of the result."""

    def kernel(call: KernelCall) -> pa.Scalar:
        context = call.context
        micros = context.now_micros if is_row or context.query_start_micros is None else context.query_start_micros
        instant = pa.array([micros // 1000], pa.timestamp("ms", "UTC"))
        if call.result_type.root is TypeRoot.TIMESTAMP_LTZ:
            return instant[0]
        local = to_local(instant, context.time_zone)
        if call.result_type.root is TypeRoot.TIME:
            return local.cast(pa.time32("ms")).cast(call.arrow_type, safe=False)[0]
        return local.cast(call.arrow_type, safe=False)[0]

    return with_call(kernel)


def _watermark(call: KernelCall, *_: Datum) -> pa.Array:
    """The watermark, which no row of the batch has come after: NULL before the first."""
    return pa.repeat(pa.scalar(call.context.watermark, pa.int64()), call.rows).cast(call.arrow_type)


def _source_watermark(_: KernelCall) -> pa.Array:
    raise ValueError("it stands for the watermarks of a source, in WATERMARK FOR only")


TIME_KERNELS = {
    "EXTRACT": with_call(_extract, 0),
    **{name: _by_name(unit) for name, unit in PARTS_BY_NAME.items()},
    "TIMESTAMPADD": with_call(shifts.added, 0),
    "TIMESTAMPDIFF": with_call(shifts.subtracted, 0),
    "OVERLAPS": with_call(_overlaps),
    "DATE_FORMAT": with_call(_date_format, 1),
    "TO_DATE": with_call(_to_date, 1),
    "TO_TIMESTAMP": plain(_to_timestamp, 1),
    "TO_TIMESTAMP_LTZ": with_call(_to_timestamp_ltz, 1, 2),
    "FROM_UNIXTIME": with_call(_from_unixtime, 1),
    "UNIX_TIMESTAMP": with_call(_unix_timestamp, 1),
    "CONVERT_TZ": plain(_convert_tz, 1, 2),
    "CURRENT_TIMESTAMP": _now(),
    "CURRENT_ROW_TIMESTAMP": _now(is_row=True),
    "LOCALTIMESTAMP": _now(),
    "CURRENT_DATE": _now(),
    "CURRENT_TIME": _now(),
    "PROCTIME": _now(is_row=True),
    "CURRENT_DATABASE": with_call(lambda call: pa.scalar(call.context.database)),
    "CURRENT_WATERMARK": with_call(_watermark),
    SOURCE_WATERMARK: with_call(_source_watermark),
}

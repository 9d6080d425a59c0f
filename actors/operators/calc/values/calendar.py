"""Days, months and times of day of Arrow's times, as numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
SECONDS_OF_DAY = 86_400


def counts(values: pa.Array) -> Numbers:
    """Dates in days, times and timestamps in their units; any number for NULL."""
    width = pa.int32() if values.type.bit_width == 32 else pa.int64()
    numbers: Numbers = values.view(width).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def with_nulls_of(numbers: npt.NDArray[Any], like: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """The numbers as a column of that type, NULL where `like` is."""
    mask = like.is_null().to_numpy(zero_copy_only=False) if like.null_count else None
    storage = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
    made = pa.array(numbers.astype(storage.to_pandas_dtype(), copy=False), storage, mask=mask)
    return made if made.type.equals(arrow_type) else made.view(arrow_type)


def per_second(arrow_type: pa.DataType) -> int:
    """Units of the type in a second."""
    return PER_SECOND[arrow_type.unit]


def split(values: pa.Array) -> tuple[Numbers, Numbers, int]:
    """Days since 1970, what is over of the day in units, and how many of these a second has."""
    numbers = counts(values)
    if pa.types.is_date32(values.type):
        return numbers, np.zeros_like(numbers), 1
    scale = per_second(values.type)
    if pa.types.is_time(values.type):
        return np.zeros_like(numbers), numbers, scale
    days = np.floor_divide(numbers, SECONDS_OF_DAY * scale)
    return days, numbers - days * (SECONDS_OF_DAY * scale), scale


def month_of(days: Numbers) -> Numbers:
    """Months since January 1970."""
    months: Numbers = days.view("M8[D]").astype("M8[M]").astype(np.int64)
    return months


def first_day(months: Numbers) -> Numbers:
    """The first day of each month, in days since 1970."""
    days: Numbers = np.ascontiguousarray(months).view("M8[M]").astype("M8[D]").astype(np.int64)
    return days


def year_of(days: Numbers) -> Numbers:
    """The year of each day."""
    return month_of(days) // 12 + 1970


def day_of_year(days: Numbers) -> Numbers:
    """1 for the first of January."""
    return days - first_day(month_of(days) // 12 * 12) + 1


def add_months(days: Numbers, months: Numbers | int) -> Numbers:
    """The same day so many months later, or the month's last where it has no such day."""
    old = month_of(days)
    new = old + months
    begins = first_day(new)
    moved: Numbers = begins + np.minimum(days - first_day(old), first_day(new + 1) - begins - 1)
    return moved


def days_from(year: Numbers, month: Numbers, day: Numbers, clamps: bool) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Days since 1970, and whether there is such a day.

    Args:
        clamps: whether a day of up to 31 that the month does not have is its last one.
    """
    months = (year - 1970) * 12 + month - 1
    begins = first_day(months)
    length = first_day(months + 1) - begins
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= (31 if clamps else length))
    return begins + np.minimum(day, length) - 1, valid

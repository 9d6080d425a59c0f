"""What PyFlink makes of values that are not of their declared type: programs of `flinkray.pyflink` have it, too.

Types that such a program declares bear a mark. Values that fit are encoded as ever; only where one does not fit is it
brought into the type, if PyFlink does so without an error.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from flinkray.types.records import RecordType

_MARK = {b"flinkray": b"converts"}


def converting(declared: RecordType) -> RecordType:
    """The type with the mark."""
    return RecordType(declared.kind, declared.schema.with_metadata(_MARK))


def converts(declared: RecordType) -> bool:
    """Whether the type has the mark."""
    return bool(declared.schema.metadata == _MARK)


def converted(value: Any, target: pa.DataType) -> Any:
    """The value as PyFlink would make it; itself where it makes nothing of it."""
    if value is None:
        return None
    types = pa.types
    if types.is_struct(target):
        return _converted_struct(value, target)
    if types.is_map(target):
        items = value.items() if isinstance(value, dict) else ()
        pairs = {converted(key, target.key_type): converted(item, target.item_type) for key, item in items}
        return pairs if isinstance(value, dict) else value
    if types.is_list(target):
        is_collection = isinstance(value, list | tuple | set | frozenset | range)
        return [converted(item, target.value_type) for item in value] if is_collection else value
    for holds, accepted, convert in _CONVERSIONS:
        if holds(target):
            return convert(value) if isinstance(value, accepted) else value
    return value


def _converted_struct(value: Any, target: pa.DataType) -> Any:
    if type(value) is list:
        value = tuple(value)
    if type(value) is not tuple or len(value) != target.num_fields:
        return value
    return tuple([converted(item, field.type) for item, field in zip(value, target, strict=True)])


def _whole(value: Any) -> Any:
    try:
        return int(value)
    except (ValueError, OverflowError):
        return value  # neither infinity nor NaN is a whole number


def _is_whole_decimal(target: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(target)) and target.scale == 0


def _exact(value: float) -> Decimal:
    return Decimal(str(value))


def _day(value: datetime.date) -> datetime.date:
    return value.date() if isinstance(value, datetime.datetime) else value


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Any, Callable[[Any], Any]], ...] = (
    (pa.types.is_integer, bool | float | Decimal, _whole),
    (_is_whole_decimal, bool | float | Decimal, _whole),
    (pa.types.is_boolean, int, bool),
    (pa.types.is_floating, bool | Decimal, float),
    (pa.types.is_decimal, float, _exact),
    (pa.types.is_date, datetime.date, _day),
)
"""For kinds of types: the classes of values that are converted, and how."""

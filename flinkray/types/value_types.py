"""Which Arrow type holds Python values exactly, and which type holds what either of two types holds.

Each Python type has a family, each family the Arrow types that hold it without change. A tuple inside a value is a
struct of f0, f1, ..., a dict with text keys a struct, any other dict a map. An empty dict is a struct without fields,
which unifies with either.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import itertools
import uuid
from collections import namedtuple
from collections.abc import Callable, Sequence
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.types.nested import contains, with_items
from flinkray.types.records import tuple_columns
from flinkray.types.type_info import ROW_METADATA


class Misfit(Exception):
    """A value that the column's type cannot hold; `field` is its path within the value, empty for the value itself."""

    def __init__(self, value: Any, expected: str, field: str = "") -> None:
        self.value = value
        self.expected = expected
        self.field = field
        super().__init__(value, expected, field)


class Unholdable(Exception):
    """No Arrow type holds a value of this Python type."""


_FAMILIES: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    np.bool_: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bytes",
    bytearray: "bytes",
    decimal.Decimal: "decimal",
    datetime.datetime: "datetime",
    np.datetime64: "datetime",
    datetime.date: "date",
    datetime.time: "time",
    datetime.timedelta: "timedelta",
    np.timedelta64: "timedelta",
    uuid.UUID: "uuid",
    list: "list",
    np.ndarray: "list",
    tuple: "tuple",
    dict: "dict",
}
_BASES: tuple[tuple[type, str], ...] = (
    (np.integer, "int"),
    (np.floating, "float"),
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "str"),
    (bytes, "bytes"),
    (decimal.Decimal, "decimal"),
    (datetime.datetime, "datetime"),
    (datetime.date, "date"),
    (datetime.timedelta, "timedelta"),
    (dict, "dict"),
)
_FIXED_TYPES = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "uuid": pa.uuid(),
}
TIME_UNITS = ("s", "ms", "us", "ns")
"""Arrow's units of time, each finer than the one before."""


def family(python_type: type) -> str:
    """The family of a Python class, which says what Arrow types hold its values; "other" where none does."""
    found = _FAMILIES.get(python_type)
    if found is None:
        is_record = named_fields(python_type) is not None
        inherited = next((name for base, name in _BASES if issubclass(python_type, base)), "other")
        found = _FAMILIES[python_type] = "record" if is_record else inherited
    return found


def named_fields(python_type: type) -> tuple[str, ...] | None:
    """Field names of a Row, NamedTuple or dataclass class; None for any other class."""
    if python_type not in _NAMED_FIELDS:
        _NAMED_FIELDS[python_type] = _find_named_fields(python_type)
    return _NAMED_FIELDS[python_type]


def _find_named_fields(python_type: type) -> tuple[str, ...] | None:
    if issubclass(python_type, tuple):
        names = getattr(python_type, "_fields", None)
        return tuple(names) if isinstance(names, tuple) else None
    if dataclasses.is_dataclass(python_type):
        return tuple(field.name for field in dataclasses.fields(python_type))
    return None


_NAMED_FIELDS: dict[type, tuple[str, ...] | None] = {}
"""A cache, like `_FAMILIES`: both are asked for each column of each batch."""


def infer_type(values: Sequence[Any]) -> pa.DataType:
    """The Arrow type that holds all values; pa.null() where all are None.

    Raises:
        Misfit: no one type holds them all (a number and text).
        Unholdable: a value that Arrow does not know, or cannot hold for what is in it.
    """
    families = {family(python_type) for python_type in set(map(type, values))}
    families.discard("null")
    if not families:
        return pa.null()
    if len(families) > 1:
        return _mixed_type(values, families)
    name = families.pop()
    if name == "other":
        raise Unholdable(next(value for value in values if value is not None and family(type(value)) == "other"))
    if name == "int" and not _fits_int64(values):
        raise Unholdable(max((value for value in values if value is not None), key=abs))
    fixed = _FIXED_TYPES.get(name)
    if fixed is not None:
        return fixed
    try:
        return _INFERENCES[name]([value for value in values if value is not None])
    except Misfit as misfit:
        if name == "datetime":
            raise
        raise Unholdable(misfit.value) from misfit  # [1, "x"]: values of one type, within which types are mixed


def _mixed_type(values: Sequence[Any], families: set[str]) -> pa.DataType:
    if "other" in families:
        raise Unholdable(next(value for value in values if value is not None and family(type(value)) == "other"))
    if families == {"int", "float"}:
        return pa.float64()
    if families == {"int", "decimal"}:
        return _decimal_type([value for value in values if isinstance(value, decimal.Decimal)])
    first = next(value for value in values if value is not None)
    other = next(value for value in values if value is not None and family(type(value)) != family(type(first)))
    raise Misfit(other, f"{type(first).__name__}, as the first value is")


def _fits_int64(values: Sequence[Any]) -> bool:
    numbers = [value for value in values if value is not None]
    return bool(min(numbers) >= -(2**63) and max(numbers) < 2**63)


def _decimal_type(values: list[Any]) -> pa.DataType:
    scale = 0
    for value in values:
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int):
            raise Unholdable(value)  # NaN and infinity
        scale = max(scale, -exponent)
    # The widest precision, so that a later, larger value does not change the stream's type.
    return pa.decimal128(38, scale) if scale <= 38 else pa.decimal256(76, scale)


def _datetime_type(values: list[Any]) -> pa.DataType:
    naive = [getattr(value, "tzinfo", None) is None for value in values]  # numpy's have no such thing
    if len(set(naive)) > 1:
        raise Misfit(values[naive.index(not naive[0])], "times that all have a zone, or all have none")
    own = [value for value in values if not isinstance(value, np.datetime64)]
    units = set(map(_numpy_unit, values)) if len(own) < len(values) else set()
    try:
        zone = pa.array(own).type.tz if own else None
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise Unholdable(own[0]) from error
    if own:
        units.add("ns" if has_nanoseconds(own) else "us")
    return pa.timestamp(max(units - {None}, key=TIME_UNITS.index, default="us"), zone)


def _numpy_unit(value: Any) -> str | None:
    """The unit of a datetime64; None for Python's datetimes, and for one without a unit, which is NaT."""
    if not isinstance(value, np.datetime64):
        return None
    unit = np.datetime_data(value.dtype)[0]
    if unit not in TIME_UNITS and unit != "generic":
        raise Unholdable(value)  # numpy's days
    return None if unit == "generic" else unit


def _timedelta_type(values: list[Any]) -> pa.DataType:
    return pa.duration("ns" if has_nanoseconds(values) else "us")


def has_nanoseconds(values: Sequence[Any]) -> bool:
    """Whether one of these datetimes or timedeltas has nanoseconds, as pandas' and numpy's may."""
    return not set(map(type, values)) <= _MICROSECOND_TYPES and any(map(_needs_nanoseconds, values))


_MICROSECOND_TYPES = {datetime.datetime, datetime.timedelta, type(None)}


def _needs_nanoseconds(value: Any) -> bool:
    if isinstance(value, np.timedelta64):
        return in_unit(value, "us") is None and in_unit(value, "ns") is not None
    nanoseconds = getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)
    return bool(nanoseconds > 0)  # NaT has not a number of them


def in_unit(value: Any, unit: str) -> Any:
    """A datetime64 or timedelta64 in another of numpy's units; None where that is not exactly the same time."""
    own, count = np.datetime_data(value.dtype)
    if own == unit and count == 1:
        return value
    if np.isnat(value):
        return type(value)("NaT", unit)
    if own == "generic" or (own in ("Y", "M") and isinstance(value, np.timedelta64)):
        return None  # no unit, or one of varying length
    try:
        converted = value.astype(f"{value.dtype.kind}8[{unit}]")
    except OverflowError:
        return None
    # What overflows in silence comes back as another time, too.
    return converted if converted.astype(value.dtype) == value else None


def _time_type(values: list[Any]) -> pa.DataType:
    for value in values:
        if value.tzinfo is not None:
            raise Unholdable(value)  # Arrow's times have no zone
    return pa.time64("us")


def _list_type(values: list[Any]) -> pa.DataType:
    numbers = _type_of_arrays(values)
    if numbers is not None:
        return numbers
    try:
        items = list(itertools.chain.from_iterable(values))
    except TypeError as error:
        raise Unholdable(values[0]) from error  # an array of numpy's without dimensions
    return pa.list_(infer_type(items))


def _type_of_arrays(values: list[Any]) -> pa.DataType | None:
    """The type of numpy's arrays of numbers, found without a look at each number; None for anything else.

    None, too, where there is no number at all (the type then has the dimensions up to the first that is empty), and
    where an unsigned number may be too large.
    """
    layout = array_layout(values)
    if layout is None or not any(value.size for value in values):
        return None
    dtype, dimensions = layout
    if dtype == np.uint64 and any(value.max(initial=0) >= 2**63 for value in values):
        return None
    found = _FIXED_TYPES[family(dtype.type)]
    for _ in range(dimensions):
        found = pa.list_(found)
    return found


def array_layout(values: Sequence[Any]) -> tuple[np.dtype[Any], int] | None:
    """The data type and number of dimensions that all values have; None where they are not all numpy arrays, differ, or
    hold something else than numbers or booleans."""
    if set(map(type, values)) != {np.ndarray}:
        return None
    layouts = {(value.dtype, value.ndim) for value in values}
    dtype, dimensions = next(iter(layouts))
    is_known = dtype.isnative and dtype.char in _NUMBER_CODES and dimensions > 0
    return (dtype, dimensions) if is_known and len(layouts) == 1 else None


_NUMBER_CODES = frozenset("?efd" + np.typecodes["AllInteger"])


def _tuple_type(values: list[Any]) -> pa.DataType:
    if len({len(value) for value in values}) > 1:
        raise Unholdable(values[0])  # tuples of different lengths are no struct
    if not values[0]:
        raise Unholdable(values[0])  # a struct without fields comes back as an empty dict
    columns = list(zip(*values, strict=True))
    return pa.struct(
        [(name, infer_type(column)) for name, column in zip(tuple_columns(len(columns)), columns, strict=True)]
    )


def _dict_type(values: list[Any]) -> pa.DataType:
    keys = list(dict.fromkeys(itertools.chain.from_iterable(values)))
    if all(isinstance(key, str) for key in keys):
        if names_a_tuple(keys):
            raise Unholdable(values[0])  # it would come back as a tuple
        return pa.struct([(key, infer_type([value.get(key) for value in values])) for key in keys])
    if None in keys:
        raise Unholdable(next(value for value in values if None in value))  # no map has a null as a key
    items = list(itertools.chain.from_iterable(value.items() for value in values))
    return pa.map_(infer_type([key for key, _ in items]), infer_type([item for _, item in items]))


def _record_type(values: list[Any]) -> pa.DataType:
    names = list(dict.fromkeys(itertools.chain.from_iterable(named_fields(type(value)) or () for value in values)))
    return pa.struct([(name, infer_type(field_values(values, name))) for name in names])


_INFERENCES: dict[str, Callable[[list[Any]], pa.DataType]] = {
    "decimal": _decimal_type,
    "datetime": _datetime_type,
    "timedelta": _timedelta_type,
    "time": _time_type,
    "list": _list_type,
    "tuple": _tuple_type,
    "dict": _dict_type,
    "record": _record_type,
}


def unify_types(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The narrowest type that holds what either holds, or None.

    int64 and double give double, uint64 and int64 give int64, a decimal of full width (see `_unify_decimals`) stays as
    wide: whether the numbers fit exactly shows when they are converted.
    """
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if _is_number(left) and _is_number(right):
        has_float = pa.types.is_floating(left) or pa.types.is_floating(right)
        return pa.float64() if has_float else _wider_integer(left, right)
    if _is_text(left) and _is_text(right):
        return pa.large_string()
    if all(pa.types.is_integer(side) or pa.types.is_decimal(side) for side in (left, right)):
        return _unify_decimals(left, right)
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right) and (left.tz is None) == (right.tz is None):
        return pa.timestamp(_finer(left, right), left.tz)
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return pa.duration(_finer(left, right))
    if pa.types.is_list(left) and pa.types.is_list(right):
        child = unify_types(left.value_type, right.value_type)
        return None if child is None else pa.list_(child)
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = unify_types(left.key_type, right.key_type), unify_types(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return _unify_structs(left, right)
    for empty, other in ((left, right), (right, left)):
        if pa.types.is_struct(empty) and not empty.num_fields and pa.types.is_map(other):
            return other  # an empty dict is an empty map, too
    return None


def _finer(left: pa.DataType, right: pa.DataType) -> str:
    return TIME_UNITS[max(TIME_UNITS.index(left.unit), TIME_UNITS.index(right.unit))]


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type))


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


def _wider_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return left if left.bit_width >= right.bit_width else right
    return pa.int64()


_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_FULL_DIGITS = {128: 38, 256: 76}


def _unify_decimals(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds two decimals, or a decimal and an integer: it has the digits of both around the point.

    A decimal of full width, 38 or 76 digits, keeps it and loses digits before the point: Python's decimals come with
    that type whatever they are, and Spark and Parquet have no more than 38 digits.
    """
    (left_whole, left_scale), (right_whole, right_scale) = _digits(left), _digits(right)
    whole, scale = max(left_whole, right_whole), max(left_scale, right_scale)
    decimals = [side for side in (left, right) if pa.types.is_decimal(side)]
    for known in decimals:
        if _digits(known) == (whole, scale):
            return known
    width = max(128, *(known.bit_width for known in decimals))
    digits = whole + scale
    if any(known.precision == _FULL_DIGITS.get(known.bit_width) for known in decimals):
        digits = min(digits, _FULL_DIGITS[width])
    if width == 128 and digits <= _FULL_DIGITS[128]:
        return pa.decimal128(digits, scale)
    return pa.decimal256(digits, scale) if digits <= _FULL_DIGITS[256] else None


def _digits(number: pa.DataType) -> tuple[int, int]:
    """The number of digits before and after the point."""
    if pa.types.is_decimal(number):
        return number.precision - number.scale, number.scale
    return 20 if pa.types.is_uint64(number) else _INTEGER_DIGITS[number.bit_width], 0


def _unify_structs(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if is_tuple_struct(left) != is_tuple_struct(right) or (
        is_tuple_struct(left) and left.num_fields != right.num_fields
    ):
        return None
    types = {field.name: field.type for field in left}
    for field in right:
        merged = unify_types(types.get(field.name, pa.null()), field.type)
        if merged is None:
            return None
        types[field.name] = merged
    return pa.struct(list(types.items()))


def field_values(values: Sequence[Any], name: str) -> list[Any]:
    """The field of that name of each Row, NamedTuple, dataclass or dict; None where one lacks it."""
    return map_by_type(values, lambda python_type: field_getter(python_type, name))


def map_by_type(values: Sequence[Any], getter_of: Callable[[type], Callable[[Any], Any]]) -> list[Any]:
    """What `getter_of(its type)` makes of each value."""
    getters = {python_type: getter_of(python_type) for python_type in set(map(type, values))}
    if len(getters) == 1:
        return list(map(next(iter(getters.values())), values))
    return [getters[type(value)](value) for value in values]


def field_getter(python_type: type, name: str) -> Callable[[Any], Any]:
    """Gets that field of Rows, NamedTuples, dataclasses or dicts of that class; None where there is no such field.

    Something else that the class has under the name, such as tuple's own method `count`, is no field.
    """
    if issubclass(python_type, dict):
        return methodcaller("get", name)
    if issubclass(python_type, tuple) and python_type.__getitem__ is not tuple.__getitem__:
        descriptor: Any = vars(python_type).get(name)
        if type(descriptor) is _TUPLE_FIELD:
            field: Callable[[Any], Any] = descriptor.__get__  # several times as fast as a Row's own __getitem__
            return field
    names = named_fields(python_type) or ()
    if name not in names:
        return nothing
    if not issubclass(python_type, tuple):
        return lambda value: getattr(value, name, None)
    return itemgetter(names.index(name))


_TUPLE_FIELD = type(vars(namedtuple("_Example", "field"))["field"])


def nothing(_value: Any) -> None:
    """The getter of a field that is not there."""


def record_values(record: Any) -> Sequence[Any]:
    """The values of a Row, NamedTuple or dataclass, in the order of its fields."""
    if isinstance(record, tuple):
        return record
    return [getattr(record, name, None) for name in named_fields(type(record)) or ()]


def is_row_struct(struct: pa.DataType) -> bool:
    """Whether it was declared as rows."""
    return bool(struct.num_fields > 0 and struct.field(0).metadata == ROW_METADATA)


def has_rows(arrow_type: pa.DataType) -> bool:
    """Whether rows were declared somewhere in it."""
    return contains(arrow_type, lambda each: bool(pa.types.is_struct(each) and is_row_struct(each)))


def with_rows(arrow_type: pa.DataType) -> pa.DataType:
    """The type, of which structs with names come back as rows."""
    changed = with_items(arrow_type, with_rows)
    if not pa.types.is_struct(changed) or not changed.num_fields or is_tuple_struct(changed):
        return changed
    first, *others = changed
    return pa.struct([first.with_metadata(ROW_METADATA), *others])


def is_tuple_struct(struct: pa.DataType) -> bool:
    """Whether it holds what were tuples: its fields are f0, f1, ..."""
    return names_a_tuple([field.name for field in struct])


def names_a_tuple(names: Sequence[Any]) -> bool:
    """Whether a struct of these fields comes back as a tuple."""
    return len(names) > 0 and names[0] == "f0" and names == tuple_columns(len(names))

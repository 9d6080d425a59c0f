"""Which Arrow type holds Python values exactly.

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
        if python_type.__name__ in _NULLS_OF_PANDAS and python_type.__module__.startswith("pandas."):
            found = "null"
        elif named_fields(python_type) is not None:
            found = "record"
        else:
            found = next((name for base, name in _BASES if issubclass(python_type, base)), "other")
        _FAMILIES[python_type] = found
    return found


_NULLS_OF_PANDAS = ("NaTType", "NAType")
"""The classes of `pd.NaT` and `pd.NA`, by name, as pandas need not be there. NaT calls itself a datetime."""


def with_nulls(values: Sequence[Any], python_types: set[type]) -> Sequence[Any]:
    """The values, of which the classes are known, with None for each that is null as pandas has it."""
    nulls = {each for each in python_types if family(each) == "null"} - {type(None)}
    return [None if type(value) in nulls else value for value in values] if nulls else values


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
    python_types = set(map(type, values))
    values = with_nulls(values, python_types)
    families = {family(python_type) for python_type in python_types}
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

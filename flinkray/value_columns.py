"""Python values to one Arrow column and back, without loss.

Arrow's own conversion is faster to write but silently changes values (1.5 to 1 in an int64 column, a set to a list, a
tuple to a list, a datetime to a date). Here each Python type has a family, each family the Arrow types that hold it
exactly, and whatever does not fit raises Misfit. All work on whole columns; nested values recurse per level, not per
row. A tuple inside a value becomes a struct of f0, f1, ... and comes back as a tuple; a dict with text keys becomes a
struct (keys that a row lacks come back as None), any other dict a map.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.types import tuple_columns


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
    "time": pa.time64("us"),
    "timedelta": pa.duration("us"),
}


def family(python_type: type) -> str:
    """What Arrow types hold values of that class; "other" where none does."""
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


# -- values to columns -------------------------------------------------------------------------------------------


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
    try:
        pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        return False
    return True


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
    naive = {getattr(value, "tzinfo", None) is None for value in values}
    if len(naive) > 1:
        odd = next(value for value in values if value.tzinfo is not values[0].tzinfo)
        raise Misfit(odd, "times that all have a zone, or all have none")
    try:
        return pa.array(values).type
    except (pa.ArrowException, ValueError) as error:
        raise Unholdable(values[0]) from error


def _list_type(values: list[Any]) -> pa.DataType:
    return pa.list_(infer_type(list(itertools.chain.from_iterable(values))))


def _tuple_type(values: list[Any]) -> pa.DataType:
    if len({len(value) for value in values}) > 1:
        raise Unholdable(values[0])  # tuples of different lengths are no struct
    columns = list(zip(*values, strict=True))
    return pa.struct(
        [(name, infer_type(column)) for name, column in zip(tuple_columns(len(columns)), columns, strict=True)]
    )


def _dict_type(values: list[Any]) -> pa.DataType:
    keys = list(dict.fromkeys(itertools.chain.from_iterable(values)))
    if all(isinstance(key, str) for key in keys):
        return pa.struct([(key, infer_type([value.get(key) for value in values])) for key in keys])
    items = list(itertools.chain.from_iterable(value.items() for value in values))
    return pa.map_(infer_type([key for key, _ in items]), infer_type([item for _, item in items]))


def _record_type(values: list[Any]) -> pa.DataType:
    names = list(dict.fromkeys(itertools.chain.from_iterable(named_fields(type(value)) or () for value in values)))
    return pa.struct([(name, infer_type(field_values(values, name))) for name in names])


_INFERENCES: dict[str, Callable[[list[Any]], pa.DataType]] = {
    "decimal": _decimal_type,
    "datetime": _datetime_type,
    "list": _list_type,
    "tuple": _tuple_type,
    "dict": _dict_type,
    "record": _record_type,
}


def merge_types(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The narrowest type that holds what either holds, or None.

    int64 and double give double, uint64 and int64 give int64: whether the numbers fit it exactly shows when they are
    converted.
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
    if pa.types.is_decimal(left) and (pa.types.is_integer(right) or pa.types.is_decimal(right)):
        return left if pa.types.is_integer(right) or left.scale >= right.scale else right
    if pa.types.is_decimal(right) and pa.types.is_integer(left):
        return right
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right) and (left.tz is None) == (right.tz is None):
        finest = max(left.unit, right.unit, key=("s", "ms", "us", "ns").index)
        return pa.timestamp(finest, left.tz)
    if pa.types.is_list(left) and pa.types.is_list(right):
        child = merge_types(left.value_type, right.value_type)
        return None if child is None else pa.list_(child)
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = merge_types(left.key_type, right.key_type), merge_types(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return _merge_structs(left, right)
    return None


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type))


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


def _wider_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return left if left.bit_width >= right.bit_width else right
    return pa.int64()


def _merge_structs(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if _is_tuple(left) != _is_tuple(right) or (_is_tuple(left) and left.num_fields != right.num_fields):
        return None
    types = {field.name: field.type for field in left}
    for field in right:
        merged = merge_types(types.get(field.name, pa.null()), field.type)
        if merged is None:
            return None
        types[field.name] = merged
    return pa.struct(list(types.items()))


def to_array(values: Sequence[Any], target: pa.DataType, python_types: set[type] | None = None) -> pa.Array:
    """The values as a column of that type; `python_types` are theirs, where the caller knows them.

    Raises:
        Misfit: a value that the type does not hold exactly.
    """
    python_types = set(map(type, values)) if python_types is None else python_types
    if python_types == {int} and target == pa.int64():
        try:
            return pa.array(np.fromiter(values, np.int64, len(values)))
        except OverflowError:
            raise Misfit(max(values, key=abs), str(target)) from None
    if python_types == {float} and target == pa.float64():
        return pa.array(np.fromiter(values, np.float64, len(values)))
    if pa.types.is_nested(target) and not isinstance(target, pa.BaseExtensionType):
        return _nested_array(values, target)
    families = {family(python_type) for python_type in python_types}
    _check_families(values, families, target)
    try:
        if pa.types.is_dictionary(target):
            return pa.array(values, target.value_type).cast(target)
        exact = _EXACT_TYPES.get("float" if "float" in families else next(iter(families - {"null"}), "null"))
        if exact is not None and not target.equals(exact) and _truncates(families, target):
            return pa.array(values, exact).cast(target, safe=True)
        return pa.array(values, target)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise _culprit(values, target) from error


_EXACT_TYPES = {"float": pa.float64(), "timedelta": pa.duration("us"), "time": pa.time64("us")}
"""Where Arrow would cut a value short while it reads it, it is read as this type and cast with a check."""


def _truncates(families: set[str], target: pa.DataType) -> bool:
    if "float" in families:
        return bool(pa.types.is_integer(target))
    return target in (pa.duration("s"), pa.duration("ms"), pa.time32("s"), pa.time32("ms"))


def _accepted(target: pa.DataType) -> frozenset[str] | None:
    """The families whose values the type holds; None: whatever Arrow makes of it."""
    for test, families in _ACCEPTED:
        if test(target):
            return families
    return None


_ACCEPTED: tuple[tuple[Callable[[pa.DataType], bool], frozenset[str]], ...] = (
    (pa.types.is_null, frozenset()),
    (pa.types.is_boolean, frozenset({"bool"})),
    (pa.types.is_integer, frozenset({"int", "float"})),
    (pa.types.is_floating, frozenset({"int", "float"})),
    (pa.types.is_decimal, frozenset({"int", "decimal"})),
    (pa.types.is_string, frozenset({"str"})),
    (pa.types.is_large_string, frozenset({"str"})),
    (pa.types.is_string_view, frozenset({"str"})),
    (pa.types.is_binary, frozenset({"bytes"})),
    (pa.types.is_large_binary, frozenset({"bytes"})),
    (pa.types.is_date, frozenset({"date"})),
    (pa.types.is_timestamp, frozenset({"datetime"})),
    (pa.types.is_time, frozenset({"time"})),
    (pa.types.is_duration, frozenset({"timedelta"})),
)


def _check_families(values: Sequence[Any], families: set[str], target: pa.DataType) -> None:
    accepted = _accepted(target.value_type if pa.types.is_dictionary(target) else target)
    if accepted is None or families <= accepted | {"null"}:
        return
    for value in values:
        if value is not None and family(type(value)) not in accepted:
            raise Misfit(value, str(target))


def _culprit(values: Sequence[Any], target: pa.DataType) -> Misfit:
    """Which of the values it was; runs only once something has failed."""
    for value in values:
        if value is not None and len(values) > 1:
            try:
                to_array([value], target)
            except Misfit as misfit:
                return misfit
    return Misfit(next((value for value in values if value is not None), None), str(target))


def _nested_array(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    if pa.types.is_struct(target):
        return _struct_array(values, target, missing)
    if pa.types.is_map(target):
        items = [() if value is None else value.items() for value in _checked(values, {"dict"}, target)]
        flat = list(itertools.chain.from_iterable(items))
        keys = to_array([key for key, _ in flat], target.key_type)
        return pa.MapArray.from_arrays(
            _offsets(items, missing), keys, to_array([item for _, item in flat], target.item_type), type=target
        )
    if not hasattr(target, "value_type") or pa.types.is_run_end_encoded(target):
        return pa.array(values, target)
    parts = [() if value is None else value for value in _checked(values, {"list", "tuple"}, target)]
    try:
        child = to_array(list(itertools.chain.from_iterable(parts)), target.value_type)
    except Misfit as misfit:
        raise Misfit(misfit.value, misfit.expected, f"[]{misfit.field}") from misfit
    array = pa.ListArray.from_arrays(_offsets(parts, missing), child)
    return array if array.type.equals(target) else array.cast(target)


def _struct_array(values: Sequence[Any], target: pa.DataType, missing: np.ndarray[Any, Any]) -> pa.Array:
    columns = []
    _checked(values, {"tuple", "dict", "record"}, target)
    for position, field in enumerate(target):
        column = [None if value is None else _field(value, position, field.name) for value in values]
        try:
            columns.append(to_array(column, field.type))
        except Misfit as misfit:
            raise Misfit(misfit.value, misfit.expected, f".{field.name}{misfit.field}") from misfit
    mask = pa.array(missing) if missing.any() else None
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _field(value: Any, position: int, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    if type(value) is tuple:
        return value[position] if position < len(value) else None
    return getattr(value, name, None)


def _checked(values: Sequence[Any], accepted: set[str], target: pa.DataType) -> Sequence[Any]:
    for value in values:
        if value is not None and family(type(value)) not in accepted:
            raise Misfit(value, str(target))
        if type(value) is tuple and pa.types.is_struct(target) and len(value) != target.num_fields:
            raise Misfit(value, str(target))
        if type(value) is dict and pa.types.is_struct(target) and any(target.get_field_index(k) < 0 for k in value):
            raise Misfit(value, str(target))
    return values


def _offsets(parts: Sequence[Any], missing: np.ndarray[Any, Any]) -> pa.Array:
    offsets = np.zeros(len(parts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, parts), np.int32, len(parts)), out=offsets[1:])
    # Arrow reads a null offset as "this list is null".
    return pa.array(offsets, mask=np.append(missing, False)) if missing.any() else pa.array(offsets)


def field_values(values: Iterable[Any], name: str) -> list[Any]:
    """That field of each Row, NamedTuple or dataclass; None where it has none."""
    return [getattr(value, name, None) for value in values]


def decoded_form(value: Any) -> Any:
    """The value as it comes back from a column of its own kind, without the trip: numpy's scalars as Python's,
    records within values as dicts, sequences as lists. A value that Arrow cannot hold stays as it is."""
    try:
        return _decoded_form(value)
    except Unholdable:
        return value


def _decoded_form(value: Any) -> Any:
    name = family(type(value))
    if name == "other":
        raise Unholdable(value)
    if name == "list":
        return [_decoded_form(item) for item in value]
    if name == "tuple":
        return tuple(_decoded_form(item) for item in value)
    if name == "dict":
        return {key: _decoded_form(item) for key, item in value.items()}
    if name == "record":
        return {field: _decoded_form(getattr(value, field)) for field in named_fields(type(value)) or ()}
    if isinstance(value, np.generic | bytearray):
        return bytes(value) if isinstance(value, bytearray) else value.item()
    return value


# -- columns to values -------------------------------------------------------------------------------------------


def to_values(array: pa.Array) -> list[Any]:
    """The column's values as Python objects; nulls are None."""
    arrow_type = array.type
    if array.null_count == 0 and (
        pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or _is_python_time(arrow_type)
    ):
        # Measured: timestamps 25 times faster than to_pylist, numbers about the same or slightly faster.
        values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
        return values
    if _comes_back_changed(arrow_type):
        return _nested_values(array)
    listed: list[Any] = array.to_pylist()
    return listed


def _is_python_time(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow_type)) and arrow_type.tz is None and arrow_type.unit in ("s", "ms", "us")


@functools.lru_cache(maxsize=1024)
def _comes_back_changed(arrow_type: pa.DataType) -> bool:
    """Whether Arrow's own conversion would give a dict for what was a tuple, or pairs for what was a dict."""
    if pa.types.is_map(arrow_type) or (pa.types.is_struct(arrow_type) and _is_tuple(arrow_type)):
        return True
    return any(_comes_back_changed(arrow_type.field(index).type) for index in range(arrow_type.num_fields))


def _is_tuple(struct: pa.DataType) -> bool:
    return struct.num_fields > 0 and [field.name for field in struct] == tuple_columns(struct.num_fields)


def _nested_values(array: pa.Array) -> list[Any]:
    arrow_type = array.type
    valid = array.is_valid().to_numpy(zero_copy_only=False).tolist() if array.null_count else None
    if pa.types.is_struct(arrow_type):
        columns = [to_values(array.field(index)) for index in range(arrow_type.num_fields)]
        rows: list[Any] = list(zip(*columns, strict=True))
        if not _is_tuple(arrow_type):
            names = [field.name for field in arrow_type]
            rows = [dict(zip(names, row, strict=True)) for row in rows]
    elif pa.types.is_map(arrow_type):
        pairs = list(zip(to_values(array.keys), to_values(array.items), strict=True))
        rows = [dict(pairs[start:stop]) for start, stop in itertools.pairwise(array.offsets.to_pylist())]
    elif pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        child = to_values(array.values)
        rows = [child[start:stop] for start, stop in itertools.pairwise(array.offsets.to_pylist())]
    else:
        listed: list[Any] = array.to_pylist()
        return listed
    return rows if valid is None else [row if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]

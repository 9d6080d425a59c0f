"""Python values to one Arrow column and back, without loss.

Arrow's own conversion is faster to write but silently changes values (1.5 to 1 in an int64 column, a set to a list, a
tuple to a list, a datetime to a date). Here each Python type has a family, each family the Arrow types that hold it
exactly, and whatever does not fit raises Misfit. All work on whole columns; nested values recurse per level, not per
row. A tuple inside a value becomes a struct of f0, f1, ... and comes back as a tuple; a dict with text keys becomes a
struct (keys that a row lacks come back as None), any other dict a map. What is declared as `Types.ROW` comes back as
rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from operator import countOf, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.fixed_width import as_numpy, from_numpy
from flinkray.rows import Row, row_class
from flinkray.value_types import (
    Misfit,
    Unholdable,
    family,
    field_getter,
    is_row_struct,
    is_tuple_struct,
    map_by_type,
    named_fields,
    names_a_tuple,
    nothing,
    record_values,
)


def types_of(values: Sequence[Any]) -> set[type]:
    """The Python types that occur."""
    first = {type(value) for value in values[:1]}
    # Comparing types is quicker than hashing them, and most columns have one.
    return first if first and countOf(map(type, values), *first) == len(values) else set(map(type, values))


def to_array(values: Sequence[Any], target: pa.DataType, python_types: set[type] | None = None) -> pa.Array:
    """The values as a column of that type; `python_types` are theirs, where the caller knows them.

    Raises:
        Misfit: a value that the type does not hold exactly.
    """
    python_types = types_of(values) if python_types is None else python_types
    if python_types == {int} and target == pa.int64():
        try:
            return from_numpy(np.fromiter(values, np.int64, len(values)))
        except OverflowError:
            raise Misfit(max(values, key=abs), str(target)) from None
    if python_types == {float} and target == pa.float64():
        return from_numpy(np.fromiter(values, np.float64, len(values)))
    if pa.types.is_nested(target) and not isinstance(target, pa.BaseExtensionType):
        return _nested_array(values, target)
    families = {family(python_type) for python_type in python_types}
    _check_families(values, families, target)
    if "time" in families or ("datetime" in families and pa.types.is_timestamp(target) and target.tz is None):
        _refuse_zones(values, target)
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


def _refuse_zones(values: Sequence[Any], target: pa.DataType) -> None:
    """Arrow drops the zone of Python's times, and of its datetimes where the type has none."""
    way_out = "; declare pa.timestamp('us', 'UTC') or another zone" if pa.types.is_timestamp(target) else ""
    for value in values:
        if getattr(value, "tzinfo", None) is not None:  # numpy's have no such thing
            raise Misfit(value, f"{target} (without a time zone{way_out})")


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
        if keys.null_count:
            raise Misfit(next(value for value in values if value is not None and None in value), str(target))
        return pa.MapArray.from_arrays(
            _offsets(items, missing), keys, to_array([item for _, item in flat], target.item_type), type=target
        )
    if not hasattr(target, "value_type") or pa.types.is_run_end_encoded(target):
        return pa.array(values, target)
    parts = [() if value is None else value for value in _checked(values, {"list", "tuple"}, target)]
    try:
        items = list(itertools.chain.from_iterable(parts))
    except TypeError:  # an array of numpy's without dimensions
        raise _culprit(values, target) from None
    try:
        child = to_array(items, target.value_type)
    except Misfit as misfit:
        raise Misfit(misfit.value, misfit.expected, f"[]{misfit.field}") from misfit
    array = pa.ListArray.from_arrays(_offsets(parts, missing), child)
    return array if array.type.equals(target) else array.cast(target)


def _struct_array(values: Sequence[Any], target: pa.DataType, missing: np.ndarray[Any, Any]) -> pa.Array:
    columns = []
    _checked(values, {"tuple", "dict", "record"}, target)
    for position, field in enumerate(target):
        column = map_by_type(values, partial(_struct_getter, position=position, name=field.name))
        try:
            columns.append(to_array(column, field.type))
        except Misfit as misfit:
            raise Misfit(misfit.value, misfit.expected, f".{field.name}{misfit.field}") from misfit
    # Without fields, only the mask says how many values there are.
    mask = pa.array(missing) if missing.any() or not columns else None
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _struct_getter(python_type: type, position: int, name: str) -> Callable[[Any], Any]:
    """Gets a struct's field of values of that class: by position where they have no names."""
    if python_type is tuple:
        return itemgetter(position)
    if issubclass(python_type, Row) and not python_type._is_named:
        return itemgetter(position) if position < len(python_type._fields) else nothing
    return field_getter(python_type, name)


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
    return from_numpy(offsets, is_null=np.append(missing, False)) if missing.any() else from_numpy(offsets)


def decoded_form(value: Any) -> Any:
    """The value as it comes back from a column of its own kind, without the trip: numpy's scalars as Python's,
    records within values as dicts, sequences as lists. A value that Arrow cannot hold stays as it is."""
    try:
        return _decoded_form(value)
    except Unholdable:
        return value


def _decoded_form(value: Any) -> Any:
    name = family(type(value))
    check = _UNHOLDABLE.get(name)
    if name == "other" or (check is not None and check(value)):
        raise Unholdable(value)
    if name == "list":
        return [_decoded_form(item) for item in value]
    if name == "tuple":
        return tuple(_decoded_form(item) for item in value)
    if name == "dict":
        return {key: _decoded_form(item) for key, item in value.items()}
    if name == "record":
        fields = zip(named_fields(type(value)) or (), record_values(value), strict=True)
        return {field: _decoded_form(item) for field, item in fields}
    if isinstance(value, np.generic | bytearray):
        return bytes(value) if isinstance(value, bytearray) else value.item()
    return value


_UNHOLDABLE: dict[str, Callable[[Any], bool]] = {
    "tuple": lambda value: not value,
    "dict": lambda value: None in value or names_a_tuple(list(value)),
    "list": lambda value: isinstance(value, np.ndarray) and not value.ndim,
    "time": lambda value: value.tzinfo is not None,
}
"""What of these families `infer_type` finds no type for, whatever is in it."""


# -- columns to values -------------------------------------------------------------------------------------------


def to_values(array: pa.Array) -> list[Any]:
    """The column's values as Python objects; nulls are None."""
    arrow_type = array.type
    if array.null_count == 0 and (
        pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or _is_python_time(arrow_type)
    ):
        # Measured: timestamps 25 times faster than to_pylist, numbers about the same or slightly faster.
        values: list[Any] = as_numpy(array).tolist()
        return values
    if _comes_back_changed(arrow_type):
        return _nested_values(array)
    listed: list[Any] = array.to_pylist()
    return listed


def _is_python_time(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow_type)) and arrow_type.tz is None and arrow_type.unit in ("s", "ms", "us")


def _comes_back_changed(arrow_type: pa.DataType) -> bool:
    """Whether Arrow's own conversion would give a dict for what was a tuple or row, or pairs for what was a dict."""
    if not pa.types.is_nested(arrow_type):
        return False
    if pa.types.is_map(arrow_type):
        return True
    if pa.types.is_struct(arrow_type) and (is_row_struct(arrow_type) or is_tuple_struct(arrow_type)):
        return True
    return any(_comes_back_changed(arrow_type.field(index).type) for index in range(arrow_type.num_fields))


def _nested_values(array: pa.Array) -> list[Any]:
    arrow_type = array.type
    valid = as_numpy(array.is_valid()).tolist() if array.null_count else None
    if pa.types.is_struct(arrow_type):
        columns = [to_values(array.field(index)) for index in range(arrow_type.num_fields)]
        rows: list[Any] = list(zip(*columns, strict=True))
        names = [field.name for field in arrow_type]
        if is_row_struct(arrow_type):
            rows = list(map(row_class(tuple(names))._maker(), rows))
        elif not is_tuple_struct(arrow_type):
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

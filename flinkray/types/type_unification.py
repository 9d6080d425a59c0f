"""Which Arrow type holds what either of two types holds: wider numbers, finer units of time, larger offsets."""

from __future__ import annotations

import pyarrow as pa

from flinkray.types.arrow_types import is_text
from flinkray.types.value_types import TIME_UNITS, is_tuple_struct


def unify_types(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The narrowest type that holds what either holds, or None. Equal values stay equal, others different.

    int64 and double give double, uint64 and int64 give int64, a decimal of full width (see `_unify_decimals`) stays as
    wide: whether the numbers fit exactly shows when they are converted. A dictionary and plain values give plain ones.
    """
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if _is_number(left) and _is_number(right):
        has_float = pa.types.is_floating(left) or pa.types.is_floating(right)
        return pa.float64() if has_float else _wider_integer(left, right)
    if pa.types.is_dictionary(left) or pa.types.is_dictionary(right):
        return _unify_dictionaries(left, right)
    for of_one_kind in (_unify_variable_width, _unify_times, _unify_lists):
        unified = of_one_kind(left, right)
        if unified is not None:
            return unified
    if all(pa.types.is_integer(side) or pa.types.is_decimal(side) for side in (left, right)):
        return _unify_decimals(left, right)
    if pa.types.is_map(left) and pa.types.is_map(right):
        key, item = unify_types(left.key_type, right.key_type), unify_types(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return _unify_structs(left, right)
    for empty, other in ((left, right), (right, left)):
        if pa.types.is_struct(empty) and not empty.num_fields and pa.types.is_map(other):
            return other  # an empty dict is an empty map, too
    return None


def _unify_dictionaries(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of two dictionaries, or of a dictionary and plain values, which the result then has, too."""
    sides = [side for side in (left, right) if pa.types.is_dictionary(side)]
    values = unify_types(*(side.value_type if pa.types.is_dictionary(side) else side for side in (left, right)))
    if values is None or len(sides) < 2:
        return values
    index = max((side.index_type for side in sides), key=lambda index: int(index.bit_width))
    return pa.dictionary(index, values, all(side.ordered for side in sides))


def _unify_variable_width(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of two texts, or of two byte strings."""
    types = pa.types
    if all(is_text(side) for side in (left, right)):
        return pa.large_string()
    small = (types.is_binary, types.is_fixed_size_binary)
    if all(types.is_large_binary(side) or any(is_small(side) for is_small in small) for side in (left, right)):
        return pa.large_binary() if any(types.is_large_binary(side) for side in (left, right)) else pa.binary()
    return None


def _unify_times(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of two dates, times, durations or timestamps, of which both have a zone, or neither."""
    types, sides = pa.types, (left, right)
    if all(map(types.is_date, sides)):
        return pa.date64()
    if all(map(types.is_timestamp, sides)):
        return pa.timestamp(_finer(left, right), left.tz) if (left.tz is None) == (right.tz is None) else None
    if all(map(types.is_duration, sides)):
        return pa.duration(_finer(left, right))
    if all(map(types.is_time, sides)):
        unit = _finer(left, right)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return None


def have_same_fields(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether structs that are in both at the same place have the same names in the same order, which keys need."""
    types = pa.types
    if types.is_struct(left) and types.is_struct(right):
        return [field.name for field in left] == [field.name for field in right] and all(
            have_same_fields(*(field.type for field in both)) for both in zip(left, right, strict=True)
        )
    if is_any_list(left) and is_any_list(right):
        return have_same_fields(left.value_type, right.value_type)
    return True


def _finer(left: pa.DataType, right: pa.DataType) -> str:
    return TIME_UNITS[max(TIME_UNITS.index(left.unit), TIME_UNITS.index(right.unit))]


def _unify_lists(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    types, sides = pa.types, (left, right)
    if not all(is_any_list(side) for side in sides):
        return None
    items = unify_types(left.value_type, right.value_type)
    if items is None:
        return None
    if any(map(types.is_large_list, sides)):
        return pa.large_list(items)
    same_size = all(map(types.is_fixed_size_list, sides)) and left.list_size == right.list_size
    return pa.list_(items, left.list_size if same_size else -1)


def is_any_list(arrow_type: pa.DataType) -> bool:
    """Whether its values are lists, whatever their layout."""
    types = pa.types
    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type))


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type))


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

"""Columns of nested types: taken apart, and rebuilt around converted values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flinkray.types.arrow_types import is_text
from flinkray.types.nested import with_items

_LISTS = (
    types.is_list,
    types.is_large_list,
    types.is_fixed_size_list,
    types.is_list_view,
    types.is_large_list_view,
)


_UUID = r"^(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_UUID_PARTS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


def is_uuid(kind: pa.DataType) -> bool:
    """Whether it is Arrow's type of UUIDs."""
    return bool(kind == pa.uuid())


def uuid_texts(uuids: pa.Array) -> pa.Array:
    """UUIDs as text: `550e8400-e29b-41d4-a716-446655440000`."""
    nulls = uuids.is_null()
    filled = pc.fill_null(uuids.storage, bytes(16))
    digits = pa.array([b"".join(filled.to_pylist()).hex()], pa.large_string())
    starts = np.arange(len(uuids) + 1, dtype=np.int64) * 32
    whole = pa.LargeStringArray.from_buffers(len(uuids), pa.py_buffer(starts), digits.buffers()[2])
    whole = whole.cast(pa.string())
    texts = pc.binary_join_element_wise(*(pc.utf8_slice_codeunits(whole, *part) for part in _UUID_PARTS), "-")
    return pc.if_else(nulls, None, texts)


def uuids(texts: pa.Array) -> pa.Array:
    """Raises ValueError where a text is no UUID."""
    texts = texts.cast(pa.string())
    is_wrong = pc.invert(pc.match_substring_regex(texts, _UUID))
    if pc.any(is_wrong).as_py():
        raise ValueError(f"{texts.filter(is_wrong)[0].as_py()!r} is no UUID")
    digits = pc.fill_null(pc.replace_substring(texts, "-", ""), "0" * 32)
    stored = pa.py_buffer(bytes.fromhex("".join(digits.to_pylist())))
    wide = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(texts), [None, stored])
    return pa.ExtensionArray.from_storage(pa.uuid(), pc.if_else(texts.is_valid(), wide, None).cast(pa.binary(16)))


def is_list(kind: pa.DataType) -> bool:
    """Whether it is one of Arrow's types of lists (a map is none)."""
    return any(is_kind(kind) for is_kind in _LISTS)


def entries(maps: pa.Array) -> pa.Array:
    """Maps as lists of their entries."""
    return maps.cast(pa.list_(pa.struct([maps.type.key_field, maps.type.item_field])))


def lengths(lists: pa.Array) -> pa.Array:
    """The number of items of each list; 0 where it is null."""
    return pc.fill_null(pc.list_value_length(lists), 0)


def offsets(counts: pa.Array) -> pa.Array:
    """The offsets (int64) of lists that have so many items each."""
    return pa.array(np.concatenate(([0], np.cumsum(counts.to_numpy(), dtype=np.int64))))


def retyped(
    column: pa.Array,
    kind: pa.DataType,
    convert: Callable[[pa.Array, pa.DataType], pa.Array],
    of_texts: Callable[[pa.Array], pa.Array] = uuids,
) -> pa.Array:
    """The column with type `kind`, which is of the same shape, where a map may be made of lists of entries.

    Args:
        convert: makes of values that are not nested those of another type.
        of_texts: makes UUIDs of texts.
    """
    if column.type.equals(kind):
        return column
    if types.is_dictionary(column.type) and (is_uuid(kind) or is_uuid(column.type.value_type)):
        column = column.dictionary_decode()
    if is_uuid(column.type) and is_text(kind):
        return uuid_texts(column).cast(kind)
    if is_uuid(kind) and is_text(column.type):
        return of_texts(column)
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(column.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, retyped(column, kind.storage_type, convert, of_texts))
    if types.is_dictionary(kind) and not types.is_dictionary(column.type):
        return retyped(column, kind.value_type, convert, of_texts).dictionary_encode().cast(kind)
    if types.is_struct(kind) and types.is_struct(column.type) and _names(kind) == _names(column.type):
        parts = [
            retyped(part, field.type, convert, of_texts) for part, field in zip(column.flatten(), kind, strict=True)
        ]
        for part, field in zip(parts, kind, strict=True):
            _check_required(field, part.null_count - column.null_count)
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if types.is_map(kind) and (types.is_map(column.type) or types.is_list(column.type)):
        lists = entries(column) if types.is_map(column.type) else column
        keys, items = pc.list_flatten(lists).flatten()
        keys, items = retyped(keys, kind.key_type, convert, of_texts), retyped(items, kind.item_type, convert, of_texts)
        _check_required(kind.item_field, items.null_count)
        starts = offsets(lengths(lists)).cast(pa.int32())
        return pa.MapArray.from_arrays(starts, keys, items, kind, mask=lists.is_null())
    if is_list(kind) and is_list(column.type):
        return _retyped_list(column, kind, convert, of_texts)
    return convert(column, kind)


def _retyped_list(
    column: pa.Array,
    kind: pa.DataType,
    convert: Callable[[pa.Array, pa.DataType], pa.Array],
    of_texts: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    items = retyped(pc.list_flatten(column), kind.value_type, convert, of_texts)
    _check_required(kind.value_field, items.null_count)
    counts, nulls = lengths(column), column.is_null()
    starts = offsets(counts)
    if types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(starts, items, type=kind, mask=nulls)
    if types.is_large_list_view(kind):
        return pa.LargeListViewArray.from_arrays(starts[:-1], counts.cast(pa.int64()), items, kind, mask=nulls)
    starts = starts.cast(pa.int32())
    if types.is_list_view(kind):
        return pa.ListViewArray.from_arrays(starts[:-1], counts.cast(pa.int32()), items, kind, mask=nulls)
    if types.is_fixed_size_list(kind):
        return _fixed_size_list(counts, starts, items, kind, nulls)
    return pa.ListArray.from_arrays(starts, items, type=kind, mask=nulls)


def _fixed_size_list(
    counts: pa.Array, starts: pa.Array, items: pa.Array, kind: pa.DataType, nulls: pa.Array
) -> pa.Array:
    size = kind.list_size
    is_null = nulls.to_numpy(zero_copy_only=False)
    wrong = counts.to_numpy()[(counts.to_numpy() != size) & ~is_null]
    if len(wrong):
        raise ValueError(f"a list has {wrong[0]} items, and {size} are declared")
    # A list that is null has as many items as the others, and they are null: Arrow's cast leaves them what they are.
    indices = starts.to_numpy()[:-1, None] + np.arange(size)
    filled = items.take(pa.array(indices.ravel(), mask=np.repeat(is_null, size)))
    return pa.FixedSizeListArray.from_arrays(filled, type=kind, mask=nulls)


def _check_required(field: pa.Field, nulls: int) -> None:
    if nulls and not field.nullable:
        raise ValueError(f"{field.name!r} is null, and declared to be never null")


def _names(struct: pa.StructType) -> list[str]:
    return [field.name for field in struct]


def leaves_as(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """A type with the timestamps and integers that another one has in their places."""
    for is_leaf in (types.is_timestamp, types.is_integer):
        if is_leaf(kind):
            return wanted if is_leaf(wanted) else kind
    if types.is_struct(kind) and types.is_struct(wanted):
        known = {field.name: field.type for field in wanted}
        return pa.struct([field.with_type(leaves_as(field.type, known.get(field.name, field.type))) for field in kind])
    if types.is_map(kind) and types.is_map(wanted):
        key, item = leaves_as(kind.key_type, wanted.key_type), leaves_as(kind.item_type, wanted.item_type)
        return pa.map_(kind.key_field.with_type(key), kind.item_field.with_type(item), kind.keys_sorted)
    if is_list(kind) and is_list(wanted):
        return with_items(kind, lambda item: leaves_as(item, wanted.value_type))
    return kind


def with_times_cut(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column with a type whose times may have fewer digits: what is finer is cut, down also before 1970."""
    return retyped(column, kind, _cut)


def _cut(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if types.is_timestamp(values.type) and types.is_timestamp(kind):
        finer = _PER_SECOND[values.type.unit] // _PER_SECOND[kind.unit]
        if finer > 1:
            counted = np.asarray(values.cast(pa.int64()).fill_null(0)) // finer
            values = pa.array(counted, mask=np.asarray(values.is_null())).cast(pa.timestamp(kind.unit, values.type.tz))
    return values.cast(options=pc.CastOptions(kind, allow_time_truncate=True))


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

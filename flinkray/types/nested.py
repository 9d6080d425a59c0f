"""Arrow types that are made of others: lists, maps and structs."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def with_items(arrow_type: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with the types of its fields, keys and items replaced by what `change` gives; other types as they
    are."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(change(field.type))

    types = pa.types
    if types.is_struct(arrow_type):
        return pa.struct([changed(field) for field in arrow_type])
    if types.is_map(arrow_type):
        return pa.map_(changed(arrow_type.key_field), changed(arrow_type.item_field), arrow_type.keys_sorted)
    if types.is_fixed_size_list(arrow_type):
        return pa.list_(changed(arrow_type.value_field), arrow_type.list_size)
    if types.is_list(arrow_type):
        return pa.list_(changed(arrow_type.value_field))
    if types.is_large_list(arrow_type):
        return pa.large_list(changed(arrow_type.value_field))
    return arrow_type


def contains(arrow_type: pa.DataType, is_sought: Callable[[pa.DataType], bool]) -> bool:
    """Whether `is_sought` holds for the type, or for one that it is made of."""
    fields = (arrow_type.field(index) for index in range(arrow_type.num_fields))
    return is_sought(arrow_type) or any(contains(field.type, is_sought) for field in fields)

"""One table of batches whose column types differ: types are unified to ones that hold the values of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.errors import TypeMismatchError
from flinkray.types.type_unification import is_any_list, unify_types


def concat_unified(tables: Sequence[pa.Table], where: str) -> pa.Table:
    """The rows of all tables, of which there is at least one, in their order. Null where a table lacks a column.

    Args:
        where: names who puts them together in errors, for example "operator 'join'".
    Raises:
        TypeMismatchError: no type holds a column's values of all tables; names the column.
    """
    first = tables[0].schema
    if all(table.schema.equals(first) for table in tables[1:]):
        return pa.concat_tables(tables)
    schema = _unified_schema([table.schema for table in tables], where)
    return pa.concat_tables([_in_schema(table, schema, where) for table in tables])


def _unified_schema(schemas: Sequence[pa.Schema], where: str) -> pa.Schema:
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for field in schema:
            known = fields.setdefault(field.name, field)
            merged = unify_types(known.type, field.type)
            if merged is None:
                raise TypeMismatchError(
                    f"{where}: column {field.name!r} is {known.type} in some batches and {field.type} in others; cast "
                    "it to one type, or set output_type= on the operator that makes it"
                )
            fields[field.name] = known.with_type(merged).with_nullable(known.nullable or field.nullable)
    for schema in schemas:
        for name in fields.keys() - set(schema.names):
            fields[name] = fields[name].with_nullable(True)
    return pa.schema(list(fields.values()), schemas[0].metadata)


def _in_schema(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    columns = []
    present = set(table.column_names)
    for field in schema:
        column = table.column(field.name) if field.name in present else pa.nulls(table.num_rows)
        try:
            columns.append(cast_to_unified(column, field.type))
        except pa.ArrowException as error:
            raise TypeMismatchError(
                f"{where}: column {field.name!r} is {column.type} in some batches, and not every value there fits "
                f"{field.type}, which holds those of other batches ({error}); cast it to one type, or set "
                "output_type= on the operator that makes it"
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)


# -- values ------------------------------------------------------------------------------------------------------


def cast_to_unified(values: Any, arrow_type: pa.DataType) -> Any:
    """Values (an array, chunked or not) in a type that was unified from theirs and others.

    Raises:
        pa.ArrowException: one of them does not fit it.
    """
    if values.type.equals(arrow_type):
        return values
    if pa.types.is_dictionary(values.type) and not pa.types.is_dictionary(arrow_type):
        return cast_to_unified(values.cast(values.type.value_type), arrow_type)
    if isinstance(values, pa.ChunkedArray) and pa.types.is_nested(arrow_type):
        return pa.chunked_array([cast_to_unified(chunk, arrow_type) for chunk in values.chunks], arrow_type)
    if pa.types.is_struct(arrow_type) and pa.types.is_struct(values.type):
        return _cast_struct(values, arrow_type)
    if pa.types.is_map(arrow_type) and (pa.types.is_map(values.type) or pa.types.is_struct(values.type)):
        return _cast_map(values, arrow_type)
    if is_any_list(arrow_type) and is_any_list(values.type):
        return _cast_list(values, arrow_type)
    if not pa.types.is_decimal128(arrow_type):
        return values.cast(arrow_type)
    # Arrow takes no int64, not even 0, as decimal128(38, 20), and rescales within 128 bits with an overflow that it
    # does not always see. 76 digits have room for whatever comes.
    return values.cast(pa.decimal256(76, arrow_type.scale)).cast(arrow_type)


def _cast_struct(values: pa.StructArray, arrow_type: pa.StructType) -> pa.StructArray:
    indices = [values.type.get_field_index(field.name) for field in arrow_type]
    columns = [
        cast_to_unified(pa.nulls(len(values)) if index < 0 else values.field(index), field.type)
        for index, field in zip(indices, arrow_type, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type), mask=_nulls(values))


def _cast_list(values: Any, arrow_type: pa.DataType) -> pa.Array:
    """Lists in another type of list; a fixed size is that of the values, too."""
    types = pa.types
    if types.is_fixed_size_list(arrow_type):
        size = arrow_type.list_size
        items = cast_to_unified(values.values.slice(values.offset * size, len(values) * size), arrow_type.value_type)
        return pa.FixedSizeListArray.from_arrays(items, type=arrow_type, mask=_nulls(values))
    if types.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    offsets, items = _entries(values, values.values)
    items = cast_to_unified(items, arrow_type.value_type)
    if types.is_large_list(arrow_type):
        return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), items, type=arrow_type, mask=_nulls(values))
    return pa.ListArray.from_arrays(offsets, items, type=arrow_type, mask=_nulls(values))


def _cast_map(values: pa.MapArray | pa.StructArray, arrow_type: pa.MapType) -> pa.MapArray:
    """Maps in another type of map; structs without fields are empty maps."""
    if pa.types.is_struct(values.type):
        offsets = from_numpy(np.zeros(len(values) + 1, np.int32))
        keys, items = pa.nulls(0), pa.nulls(0)
    else:
        offsets, keys, items = _entries(values, values.keys, values.items)
    keys, items = cast_to_unified(keys, arrow_type.key_type), cast_to_unified(items, arrow_type.item_type)
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type, mask=_nulls(values))


def _entries(values: Any, *children: pa.Array) -> list[pa.Array]:
    """The offsets from 0, and the part of each child that the values use: less than all where they are a slice."""
    offsets = as_numpy(values.offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    return [from_numpy(offsets - first), *(child.slice(first, last - first) for child in children)]


def _nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None

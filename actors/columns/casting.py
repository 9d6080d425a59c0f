"""Columns in types that Arrow's kernels take, and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def stored_type(arrow_type: pa.DataType) -> pa.DataType:
    """What values of an extension type, UUIDs say, are stored as; any other type as it is."""
    return arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type


def stored(values: Any) -> Any:
    """The values (an array, chunked or not) in their `stored_type`; not copied."""
    return values.cast(values.type.storage_type) if isinstance(values.type, pa.BaseExtensionType) else values


def from_stored(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """The way back from `stored`."""
    return values if values.type.equals(arrow_type) else pa.ExtensionArray.from_storage(arrow_type, values)


def comparable(values: Any) -> Any:
    """The values (an array, chunked or not) in a type in which Arrow sorts them, and tells equal ones, as they are.

    Arrow has no such kernels for extension types, halves and the short decimals; by two keys it sorts the latter wrong.
    """
    values = stored(values)
    if pa.types.is_float16(values.type):
        return values.cast(pa.float64())
    if pa.types.is_decimal32(values.type) or pa.types.is_decimal64(values.type):
        return values.cast(pa.decimal128(values.type.precision, values.type.scale))
    return values

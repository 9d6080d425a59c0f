"""Columns cast to types that Arrow's kernels take, and back: extension types, halves, short decimals."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def stored_type(arrow_type: pa.DataType) -> pa.DataType:
    """The storage type of an extension type, of UUIDs for example; any other type as it is."""
    return arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type


def stored(values: Any) -> Any:
    """The values (an array, chunked or not) in their `stored_type`, without a copy."""
    return values.cast(values.type.storage_type) if isinstance(values.type, pa.BaseExtensionType) else values


def from_stored(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """The values in `arrow_type`, of which `stored` gave them."""
    return values if values.type.equals(arrow_type) else pa.ExtensionArray.from_storage(arrow_type, values)


def comparable(values: Any) -> Any:
    """The values (an array, chunked or not) in a type that Arrow can sort and compare.

    Arrow has no such kernels for extension types, halves and short decimals; by two keys it sorts the latter wrong.
    """
    values = stored(values)
    if pa.types.is_float16(values.type):
        return values.cast(pa.float64())
    if pa.types.is_decimal32(values.type) or pa.types.is_decimal64(values.type):
        return values.cast(pa.decimal128(values.type.precision, values.type.scale))
    return values

"""Values of a column whose type changes from batch to batch, in the type that holds all of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def cast_merged(values: Any, arrow_type: pa.DataType) -> Any:
    """Values (an array, chunked or not) of one of the types of which `arrow_type` is merged, in that type.

    Raises:
        pa.ArrowException: one of them does not fit it.
    """
    if values.type.equals(arrow_type):
        return values
    if not pa.types.is_decimal128(arrow_type):
        return values.cast(arrow_type)
    # Arrow takes no int64, not even 0, as decimal128(38, 20), and rescales within 128 bits with an overflow that it
    # does not always see. 76 digits have room for whatever comes.
    return values.cast(pa.decimal256(76, arrow_type.scale)).cast(arrow_type)

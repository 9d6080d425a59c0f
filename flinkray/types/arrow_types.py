"""What kind of values an Arrow type holds, in whichever layout."""

from __future__ import annotations

import pyarrow as pa


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether values are texts: of any length of offsets, or views."""
    types = pa.types
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type))


def is_bytes(arrow_type: pa.DataType) -> bool:
    """Whether values are bytes: of any length of offsets, of one size, or views."""
    types = pa.types
    is_offsets = types.is_binary(arrow_type) or types.is_large_binary(arrow_type)
    return bool(is_offsets or types.is_fixed_size_binary(arrow_type) or types.is_binary_view(arrow_type))

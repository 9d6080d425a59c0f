"""Python objects as bytes for another process."""

from __future__ import annotations

import io
from typing import Any

import cloudpickle
import pyarrow as pa

PROTOCOL = 5
ARROW_DATA = (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)
"""Immutable, and perhaps small slices of large data."""


def dumps(value: Any) -> bytes:
    """The value pickled; a class of the user's main script goes along, as no other process finds it by name, and of
    what Arrow's data are slices of only what is theirs."""
    stream = io.BytesIO()
    _Pickler(stream, PROTOCOL).dump(value)
    return stream.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        # Arrow's tables and batches are pickled as arrays, and these with all of the buffers that they lie in.
        if isinstance(obj, pa.Array) and 2 * obj.nbytes < obj.get_total_buffer_size():
            return pa.concat_arrays([obj]).__reduce__()  # which copies
        return super().reducer_override(obj)

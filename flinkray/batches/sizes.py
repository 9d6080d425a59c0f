"""The size of Arrow arrays and batches, with all versions of Arrow that are supported."""

from __future__ import annotations

import pyarrow as pa


def data_bytes(data: pa.Array | pa.RecordBatch | pa.Table) -> int:
    """Bytes of the values themselves, whatever buffers they are slices of.

    Before Arrow 24, which finds their part of a buffer, views of text, bytes and lists count with whole buffers.
    """
    try:
        return int(data.nbytes)
    except pa.ArrowTypeError:
        return int(data.get_total_buffer_size())

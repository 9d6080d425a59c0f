"""How batches travel between processes: fixed-width columns as they lie in memory, the others in Arrow's IPC format.

Either way a slice ships only its own rows. A fixed-width column's bytes travel out of band (pickle protocol 5) and are
copied once, by whoever writes the pickle; IPC costs another copy, and an extra page fault per 4 KiB of it.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

import flinkray.types.object_type  # noqa: F401  # which Arrow has to know to read a batch with such columns


class Written(NamedTuple):
    """A record batch, ready to be pickled."""

    schema: bytes
    rows: int
    buffer_indices: tuple[int, ...]
    """For each column the index of its buffer in `buffers`; -1: it is the next column of `rest`."""
    buffers: Sequence[pickle.PickleBuffer | bytes]
    """Columns that share memory (event time is often a column of the rows) share one."""
    rest: tuple[bytes | None, pickle.PickleBuffer | bytes] | None
    """The columns that are not fixed-width, in Arrow's IPC format: (schema, body); None for the schema where the body
    has it."""

    def in_band(self) -> Written:
        """The same with bytes in place of buffers, for pickle protocols that have no out-of-band buffers."""
        rest = None if self.rest is None else (self.rest[0], bytes(self.rest[1]))
        return self._replace(buffers=[bytes(buffer) for buffer in self.buffers], rest=rest)


def encode(batch: pa.RecordBatch) -> Written:
    """The batch, ready to be pickled; fixed-width columns are not copied."""
    buffer_indices: list[int] = []
    buffers: list[pickle.PickleBuffer] = []
    known: dict[tuple[int, int], int] = {}
    others: list[int] = []
    for index, column in enumerate(batch.columns):
        width = _value_bytes(column.type)
        if not width or not len(column) or column.null_count:
            buffer_indices.append(-1)
            others.append(index)
            continue
        values = column.buffers()[1].slice(column.offset * width, len(column) * width)
        buffer_index = known.setdefault((values.address, values.size), len(buffers))
        if buffer_index == len(buffers):
            buffers.append(pickle.PickleBuffer(values))
        buffer_indices.append(buffer_index)
    rest = _encode_rest(batch.select(others)) if others else None
    return Written(_schema_bytes(batch.schema), batch.num_rows, tuple(buffer_indices), buffers, rest)


def rows_without_columns(rows: int) -> pa.RecordBatch:
    """A batch of so many rows without columns, which still count."""
    is_null = pa.array([False] * rows, pa.bool_())
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_arrays([], fields=[], mask=is_null))


def decode(written: Written) -> pa.RecordBatch:
    """The batch again, reading the buffers where they are."""
    if not written.buffer_indices:
        return rows_without_columns(written.rows)
    schema = _schema(written.schema)
    shared = [pa.py_buffer(buffer) for buffer in written.buffers]
    rest = iter(() if written.rest is None else _decode_rest(*written.rest).columns)
    columns = [
        next(rest)
        if buffer_index < 0
        else pa.Array.from_buffers(data_type, written.rows, [None, shared[buffer_index]], 0)
        for buffer_index, data_type in zip(written.buffer_indices, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _encode_rest(batch: pa.RecordBatch) -> tuple[bytes | None, pickle.PickleBuffer]:
    schema = batch.schema
    if _has_dictionary(schema.remove_metadata()):  # needs Arrow's stream format
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, schema) as writer:
            writer.write_batch(batch)
        return None, pickle.PickleBuffer(stream.getvalue())
    return _schema_bytes(schema), pickle.PickleBuffer(batch.serialize())


def _decode_rest(schema: bytes | None, body: object) -> pa.RecordBatch:
    buffer = pa.py_buffer(body)
    if schema is None:
        return pa.ipc.open_stream(buffer).read_next_batch()
    return pa.ipc.read_record_batch(buffer, _schema(schema))


def _schema_bytes(schema: pa.Schema) -> bytes:
    # Not cached: hashing the schema takes longer, and schemas that differ in their fields' metadata only are equal.
    serialized: bytes = schema.serialize().to_pybytes()
    return serialized


@functools.lru_cache(maxsize=1024)
def _schema(serialized: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(serialized))


@functools.lru_cache(maxsize=1024)
def _value_bytes(data_type: pa.DataType) -> int:
    """The bytes of a value of a fixed-width type; 0 for other types, and for booleans, which are bits."""
    types: Any = pa.types
    is_fixed = types.is_primitive(data_type) and not types.is_boolean(data_type)
    return int(data_type.bit_width) // 8 if is_fixed else 0


@functools.lru_cache(maxsize=1024)
def _has_dictionary(schema: pa.Schema) -> bool:
    """Takes a schema without metadata: before Arrow 22 one with metadata has no hash."""
    return any(_contains_dictionary(field.type) for field in schema)


def _contains_dictionary(data_type: pa.DataType) -> bool:
    return pa.types.is_dictionary(data_type) or any(
        _contains_dictionary(data_type.field(index).type) for index in range(data_type.num_fields)
    )

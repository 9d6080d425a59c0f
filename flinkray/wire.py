"""How a batch is written down between processes: Arrow's IPC format, so that a slice ships only its own rows."""

from __future__ import annotations

import functools
import pickle

import pyarrow as pa


def encode(batch: pa.RecordBatch) -> tuple[bytes | None, pickle.PickleBuffer]:
    """(schema, body): one copy of the rows; the body can travel out of band (pickle protocol 5).

    The schema is None where the body carries it: dictionary columns need Arrow's stream format.
    """
    schema = batch.schema
    if _has_dictionary(schema):
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, schema) as writer:
            writer.write_batch(batch)
        return None, pickle.PickleBuffer(stream.getvalue())
    return schema.serialize().to_pybytes(), pickle.PickleBuffer(batch.serialize())


def decode(schema: bytes | None, body: object) -> pa.RecordBatch:
    """The batch again, reading `body` in place."""
    buffer = pa.py_buffer(body)
    if schema is None:
        return pa.ipc.open_stream(buffer).read_next_batch()
    return pa.ipc.read_record_batch(buffer, _schema(schema))


@functools.lru_cache(maxsize=1024)
def _schema(serialized: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(serialized))


@functools.lru_cache(maxsize=1024)
def _has_dictionary(schema: pa.Schema) -> bool:
    return any(_contains_dictionary(field.type) for field in schema)


def _contains_dictionary(data_type: pa.DataType) -> bool:
    return pa.types.is_dictionary(data_type) or any(
        _contains_dictionary(data_type.field(index).type) for index in range(data_type.num_fields)
    )

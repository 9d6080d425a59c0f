"""Changes of rows as Debezium writes them, in JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.batch import inserts
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.message_format import ChangelogFormat, Changes, shown
from flinkray.errors import InvalidProgramError
from flinkray.types.records import RecordType
from flinkray.types.rows import RowKind

_OPS = ("c", "r", "u", "d")
_BEFORE = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)
"""The kinds of rows that are as they were before a change."""


class DebeziumJsonFormat(ChangelogFormat):
    """Each message is a change that Debezium has captured (Flink's `debezium-json`): an object with `op`, and the row
    `before` and `after`, each as JsonFormat reads it.

    Read, "c" and "r" give +I, "u" gives -U and +U, "d" gives -D; an empty message gives nothing, as those by which
    Debezium has topics compacted. Written, +I and +U are "c", -U and -D are "d".

    Args:
        schema: the columns of the rows, as JsonFormat takes them. None, for writing alone: all that rows have.
        schema_include: whether each message has its schema beside it ({"schema": ..., "payload": ...}), as Kafka
            Connect writes with `value.converter.schemas.enable`; such are read only.
    """

    def __init__(self, schema: Any = None, schema_include: bool = False) -> None:
        self._rows = JsonFormat(schema)
        self._schema_include = schema_include
        self._envelope: JsonFormat | None = None
        if schema is None:
            return
        row = pa.struct(list(self._rows.record_type.schema))
        envelope = [("before", row), ("after", row), ("op", pa.string())]
        self._envelope = JsonFormat(pa.schema([("payload", pa.struct(envelope))] if schema_include else envelope))

    @property
    def record_type(self) -> RecordType:
        if self._envelope is None:
            raise InvalidProgramError(
                "DebeziumJsonFormat needs the columns that are to be read: DebeziumJsonFormat({'name': str})"
            )
        return self._rows.record_type

    def decode_changes(self, messages: pa.Array) -> Changes:
        schema = self.record_type.schema
        assert self._envelope is not None
        lengths = np.asarray(pc.binary_length(messages))
        if not lengths.all():
            messages = messages.filter(pa.array(lengths > 0))
        present = np.flatnonzero(lengths)
        if not len(messages):
            return Changes(pa.RecordBatch.from_pylist([], schema=schema), inserts(0), present)
        decoded = self._envelope.decode(messages)
        before, after, op = decoded.column(0).flatten() if self._schema_include else decoded.columns
        is_delete, is_update = (np.asarray(pc.equal(op, letter).fill_null(False)) for letter in "du")
        _check(messages, before, after, op, is_delete | is_update)
        rows = np.repeat(np.arange(len(op)), 1 + is_update)
        is_before = is_delete[rows] | (is_update[rows] & np.append(rows[:-1] == rows[1:], False))
        kinds = np.where(is_before, RowKind.UPDATE_BEFORE.value, RowKind.UPDATE_AFTER.value)
        kinds[~is_update[rows]] = RowKind.INSERT.value
        kinds[is_delete[rows]] = RowKind.DELETE.value
        taken = from_numpy(rows + np.where(is_before, 0, len(op)))
        columns = [pa.concat_arrays(both).take(taken) for both in zip(before.flatten(), after.flatten(), strict=True)]
        data = pa.RecordBatch.from_arrays(columns, schema=schema)
        return Changes(data, pa.array(kinds, pa.int8()), present[rows])

    def encode_changes(self, data: pa.RecordBatch, kinds: pa.Array) -> pa.Array:
        if self._schema_include:
            raise ValueError("with its schema beside it a change can only be read; write it with schema_include=False")
        is_before = pc.is_in(kinds, pa.array(_BEFORE, pa.int8()))
        opening = pc.if_else(is_before, '{"before":', '{"before":null,"after":')
        closing = pc.if_else(is_before, ',"after":null,"op":"d"}', ',"op":"c"}')
        rows = self._rows.encode(data).cast(pa.string())
        return pc.binary_join_element_wise(opening, rows, closing, "").cast(pa.large_binary())


def _check(
    messages: pa.Array, before: pa.Array, after: pa.Array, op: pa.Array, needs_before: npt.NDArray[np.bool_]
) -> None:
    """Refuses messages that say not what they do, or lack a row."""
    is_known = pc.is_in(op, pa.array(_OPS))
    if not pc.all(is_known).as_py():
        first = pc.index(is_known, False).as_py()
        raise ValueError(f"op is {op[first].as_py()!r}, not c, r, u or d: {shown(messages[first].as_py())}")
    if (needs_before & np.asarray(before.is_null())).any():
        raise ValueError(
            "an update or a deletion lacks the row as it was before. Of PostgreSQL it has that where the table has "
            "REPLICA IDENTITY FULL: ALTER TABLE ... REPLICA IDENTITY FULL"
        )
    if pc.any(pc.and_(after.is_null(), pc.not_equal(op, "d"))).as_py():
        raise ValueError("an insert or an update lacks the row as it is after it")

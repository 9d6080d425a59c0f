"""Changes of rows as Debezium and GoldenGate write them, in JSON: what a row was before, and is after."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.batch import inserts
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.changes.envelopes import (
    TAKEN_BACK,
    EnvelopeFormat,
    check_known,
    not_empty,
    rows_of_changes,
)
from flinkray.connectors.formats.message_format import Changes


class _BeforeAndAfterFormat(EnvelopeFormat):
    """Messages with the row `before` and `after` a change, and a letter that says which one it is."""

    _op: ClassVar[str]
    """The name of the letter."""
    _letters: ClassVar[tuple[str, ...]]
    """Those of inserts, of updates and of deletions."""

    def __init__(self, schema: Any, schema_include: bool = False) -> None:
        self._schema_include = schema_include
        super().__init__(schema)

    def _envelope_of(self, rows: pa.Schema) -> pa.Schema:
        row = pa.struct(list(rows))
        envelope = [("before", row), ("after", row), (self._op, pa.string())]
        return pa.schema([("payload", pa.struct(envelope))] if self._schema_include else envelope)

    def decode_changes(self, messages: pa.Array) -> Changes:
        schema = self.record_type.schema
        assert self._envelope is not None
        messages, present = not_empty(messages)
        if not len(messages):
            return Changes(pa.RecordBatch.from_pylist([], schema=schema), inserts(0), present)
        decoded = self._envelope.decode(messages)
        before, after, op = decoded.column(0).flatten() if self._schema_include else decoded.columns
        *_, update, delete = self._letters
        is_delete, is_update = (np.asarray(pc.equal(op, letter).fill_null(False)) for letter in (delete, update))
        self._check(messages, before, after, op, is_delete, is_update)
        rows, is_before, kinds = rows_of_changes(is_update, is_delete)
        taken = from_numpy(rows + np.where(is_before, 0, len(op)))
        columns = [pa.concat_arrays(both).take(taken) for both in zip(before.flatten(), after.flatten(), strict=True)]
        return Changes(pa.RecordBatch.from_arrays(columns, schema=schema), kinds, present[rows])

    def encode_changes(self, data: pa.RecordBatch, kinds: pa.Array) -> pa.Array:
        if self._schema_include:
            raise ValueError("with its schema beside it a change can only be read; write it with schema_include=False")
        insert, *_, delete = self._letters
        is_before = pc.is_in(kinds, TAKEN_BACK)
        opening = pc.if_else(is_before, '{"before":', '{"before":null,"after":')
        deletion, insertion = f',"after":null,"{self._op}":"{delete}"}}', f',"{self._op}":"{insert}"}}'
        rows = self._rows.encode(data).cast(pa.string())
        closing = pc.if_else(is_before, deletion, insertion)
        return pc.binary_join_element_wise(opening, rows, closing, "").cast(pa.large_binary())

    def _check(
        self,
        messages: pa.Array,
        before: pa.Array,
        after: pa.Array,
        op: pa.Array,
        is_delete: npt.NDArray[np.bool_],
        is_update: npt.NDArray[np.bool_],
    ) -> None:
        """Refuses messages that say not what they do, or lack a row."""
        check_known(messages, op, self._op, self._letters)
        if ((is_delete | is_update) & np.asarray(before.is_null())).any():
            raise ValueError(
                "an update or a deletion lacks the row as it was before. Of PostgreSQL it has that where the table has "
                "REPLICA IDENTITY FULL: ALTER TABLE ... REPLICA IDENTITY FULL"
            )
        if (~is_delete & np.asarray(after.is_null())).any():
            raise ValueError("an insert or an update lacks the row as it is after it")


class DebeziumJsonFormat(_BeforeAndAfterFormat):
    """Each message is a change that Debezium has captured (Flink's `debezium-json`): an object with `op`, and the row
    `before` and `after`, each as JsonFormat reads it.

    Read, "c" and "r" give +I, "u" gives -U and +U, "d" gives -D; an empty message gives nothing, as those by which
    Debezium has topics compacted. Written, +I and +U are "c", -U and -D are "d".

    Args:
        schema: the columns of the rows, as JsonFormat takes them, or one, which says how they are written. None, for
            writing alone: all that rows have.
        schema_include: whether each message has its schema beside it ({"schema": ..., "payload": ...}), as Kafka
            Connect writes with `value.converter.schemas.enable`; such are read only.
    """

    _op = "op"
    _letters = ("c", "r", "u", "d")

    def __init__(self, schema: Any = None, schema_include: bool = False) -> None:
        super().__init__(schema, schema_include)


class OggJsonFormat(_BeforeAndAfterFormat):
    """Each message is a change that Oracle GoldenGate has captured (Flink's `ogg-json`): an object with `op_type`, and
    the row `before` and `after`, each as JsonFormat reads it.

    Read, "I" gives +I, "U" gives -U and +U, "D" gives -D; an empty message gives nothing, and a truncation ("T") cannot
    be read. Written, +I and +U are "I", -U and -D are "D".

    Args:
        schema: the columns of the rows, as JsonFormat takes them, or one, which says how they are written. None, for
            writing alone: all that rows have.
    """

    _op = "op_type"
    _letters = ("I", "U", "D")

    def __init__(self, schema: Any = None) -> None:
        super().__init__(schema)

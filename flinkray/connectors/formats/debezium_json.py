"""Changes of rows as Debezium and GoldenGate write them, in JSON: what a row was before, and is after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

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

TAKEN_BACK = from_numpy(np.array([RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value], np.int8))
"""The kinds of rows that are as they were before a change."""


class _BeforeAndAfterFormat(ChangelogFormat):
    """Messages with the row `before` and `after` a change, and a letter that says which one it is."""

    _op: ClassVar[str]
    """The name of the letter."""
    _letters: ClassVar[tuple[str, ...]]
    """Those of inserts, of updates and of deletions."""

    def __init__(self, schema: Any, schema_include: bool = False) -> None:
        self._rows = schema if isinstance(schema, JsonFormat) else JsonFormat(schema)
        self._schema_include = schema_include
        self._envelope: JsonFormat | None = None
        if schema is None:
            return
        row = pa.struct(list(self._rows.record_type.schema))
        envelope = [("before", row), ("after", row), (self._op, pa.string())]
        self._envelope = JsonFormat(pa.schema([("payload", pa.struct(envelope))] if schema_include else envelope))

    @property
    def record_type(self) -> RecordType:
        if self._envelope is None:
            name = type(self).__name__
            raise InvalidProgramError(f"{name} needs the columns that are to be read: {name}({{'name': str}})")
        return self._rows.record_type

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


# -- what all formats of changes share ---------------------------------------------------------------------------------


def not_empty(messages: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The messages that have any byte, and the index of each: an empty one is none."""
    sizes = np.asarray(pc.binary_length(messages))
    present = np.flatnonzero(sizes)
    return (messages if len(present) == len(messages) else messages.filter(pa.array(sizes > 0))), present


def rows_of_changes(
    is_update: npt.NDArray[np.bool_], is_delete: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], pa.Array]:
    """Of changes, in order, the rows that they give: the index of the change, whether it is the row as it was before,
    and its kind."""
    rows = np.repeat(np.arange(len(is_update)), 1 + is_update)
    is_before = is_delete[rows] | (is_update[rows] & np.append(rows[:-1] == rows[1:], False))
    kinds = np.where(is_before, RowKind.UPDATE_BEFORE.value, RowKind.UPDATE_AFTER.value)
    kinds[~is_update[rows]] = RowKind.INSERT.value
    kinds[is_delete[rows]] = RowKind.DELETE.value
    return rows, is_before, pa.array(kinds, pa.int8())


def check_known(messages: pa.Array, op: pa.Array, name: str, known: Sequence[str]) -> None:
    """Refuses messages that do something else.

    Raises:
        ValueError: names the first of them.
    """
    is_known = pc.is_in(op, pa.array(known, pa.string()))
    if pc.any(pc.invert(is_known)).as_py():
        first = pc.index(is_known, False).as_py()
        raise ValueError(
            f"{name} is {op[first].as_py()!r}, not {', '.join(known[:-1])} or {known[-1]}: "
            f"{shown(messages[first].as_py())}"
        )

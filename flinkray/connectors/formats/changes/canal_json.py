"""Changes of rows as Canal and Maxwell write them, in JSON: what a row is, and what of it was otherwise before."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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
from flinkray.connectors.formats.nested_columns import lengths

_ANY_NULL = rb":\s*null"


class _DataAndOldFormat(EnvelopeFormat):
    """Messages with the rows of a change, and of an update the values that were others before."""

    _insert: ClassVar[str]
    _update: ClassVar[str]
    _delete: ClassVar[str]
    _of_definitions: ClassVar[tuple[str, ...]] = ()
    """Types of messages that change no row."""
    _names: ClassVar[tuple[str, ...]] = ()
    """What else of a message says whether it is read."""
    _is_list: ClassVar[bool]
    """Whether a message has a list of rows, and not just one."""

    def _envelope_of(self, rows: pa.Schema) -> pa.Schema:
        # What a row lacks may be null in `old`, whatever the schema says of the row itself.
        row = pa.struct([field.with_nullable(True) for field in rows])
        data = pa.list_(row) if self._is_list else row
        others = [(name, pa.string()) for name in self._names]
        return pa.schema([("data", data), ("old", data), ("type", pa.string()), *others])

    def decode_changes(self, messages: pa.Array) -> Changes:
        schema = self.record_type.schema
        assert self._envelope is not None
        messages, present = not_empty(messages)
        decoded = self._envelope.decode(messages) if len(messages) else None
        if decoded is not None:
            wanted = self._wanted(decoded)
            messages, present, decoded = messages.filter(wanted), present[np.asarray(wanted)], decoded.filter(wanted)
            check_known(messages, decoded.column("type"), "type", (self._insert, self._update, self._delete))
        if decoded is None or not decoded.num_rows:
            return Changes(pa.RecordBatch.from_pylist([], schema=schema), inserts(0), present[:0])
        data, old, of_message = self._each_row(decoded)
        kind = decoded.column("type").take(from_numpy(of_message))
        is_update, is_delete = (np.asarray(pc.equal(kind, each)) for each in (self._update, self._delete))
        before = _filled(messages, of_message, data, old, is_update, self._is_list)
        rows, is_before, kinds = rows_of_changes(is_update, is_delete)
        # A deletion's row is its data, as it was when it was deleted.
        taken = from_numpy(rows + np.where(is_before & is_update[rows], 0, len(of_message)))
        columns = [pa.concat_arrays(both).take(taken) for both in zip(before, data.flatten(), strict=True)]
        for field, column in zip(schema, columns, strict=True):
            if not field.nullable and column.null_count:
                raise ValueError(f"{field.name!r} is null, and declared to be never null")
        return Changes(pa.RecordBatch.from_arrays(columns, schema=schema), kinds, present[of_message[rows]])

    def _wanted(self, decoded: pa.RecordBatch) -> pa.Array:
        """Which messages are changes of rows that are to be read."""
        skipped = pc.is_in(decoded.column("type"), pa.array(self._of_definitions, pa.string()))
        return pc.invert(skipped)

    def _each_row(self, decoded: pa.RecordBatch) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int64]]:
        """The rows of all messages as they are, and as they were, and of each the index of its message.

        Raises:
            ValueError: a message has no row, or an update not as many before as after.
        """
        data, old, kind = decoded.column("data"), decoded.column("old"), decoded.column("type")
        is_update = pc.equal(kind, self._update)
        if data.null_count or pc.any(pc.and_(is_update, old.is_null())).as_py():
            raise ValueError("a change lacks its rows ('data'), or an update the values that it replaced ('old')")
        if not self._is_list:
            return data, old, np.arange(len(data))
        counts, old_counts = lengths(data), lengths(old)
        if pc.any(pc.and_(is_update, pc.not_equal(counts, old_counts))).as_py():
            raise ValueError("an update has not as many rows in 'old' as in 'data'")
        of_message = np.repeat(np.arange(len(data)), counts.to_numpy())
        # What has no old row gets as many nulls as it has rows.
        padded = np.asarray(is_update)[of_message]
        places = pa.array(np.where(padded, np.cumsum(padded) - 1, 0), mask=~padded)
        return pc.list_flatten(data), pc.list_flatten(old.filter(is_update)).take(places), of_message

    def encode_changes(self, data: pa.RecordBatch, kinds: pa.Array) -> pa.Array:
        opening, closing = ('{"data":[', "]") if self._is_list else ('{"data":', "")
        insertion, deletion = (f'{closing},"type":"{each}"}}' for each in (self._insert, self._delete))
        rows = self._rows.encode(data).cast(pa.string())
        endings = pc.if_else(pc.is_in(kinds, TAKEN_BACK), deletion, insertion)
        return pc.binary_join_element_wise(opening, rows, endings, "").cast(pa.large_binary())


class CanalJsonFormat(_DataAndOldFormat):
    """Each message is a change that Canal has captured (Flink's `canal-json`): an object with `type`, the rows in
    `data`, and in `old`, for an update, the values that were others before; rows are as JsonFormat reads them.

    Read, "INSERT" gives +I, "UPDATE" gives -U and +U and "DELETE" gives -D for each row; "CREATE" and empty messages
    give nothing. Written, +I and +U are "INSERT", -U and -D are "DELETE".

    Args:
        schema: the columns of the rows, as JsonFormat takes them, or one, which says how they are written. None, for
            writing alone: all that rows have.
        database, table: only changes are read whose `database` and `table` match these regular expressions as a whole;
            None: all.
    """

    _insert, _update, _delete = "INSERT", "UPDATE", "DELETE"
    _of_definitions = ("CREATE",)
    _names = ("database", "table")
    _is_list = True

    def __init__(self, schema: Any = None, database: str | None = None, table: str | None = None) -> None:
        super().__init__(schema)
        self._patterns: dict[str, str] = {}
        for name, pattern in (("database", database), ("table", table)):
            if pattern is not None:
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise ValueError(f"CanalJsonFormat({name}=...) is no regular expression: {error}") from error
                self._patterns[name] = f"^(?:{pattern})$"

    def _wanted(self, decoded: pa.RecordBatch) -> pa.Array:
        wanted = super()._wanted(decoded)
        for name, pattern in self._patterns.items():
            is_match = pc.match_substring_regex(decoded.column(name), pattern).fill_null(False)
            wanted = pc.and_(wanted, is_match)
        return wanted


class MaxwellJsonFormat(_DataAndOldFormat):
    """Each message is a change that Maxwell has captured (Flink's `maxwell-json`): an object with `type`, the row in
    `data`, and in `old`, for an update, the values that were others before; rows are as JsonFormat reads them.

    Read, "insert" gives +I, "update" gives -U and +U, "delete" gives -D; an empty message gives nothing. Written, +I
    and +U are "insert", -U and -D are "delete".

    Args:
        schema: the columns of the rows, as JsonFormat takes them, or one, which says how they are written. None, for
            writing alone: all that rows have.
    """

    _insert, _update, _delete = "insert", "update", "delete"
    _is_list = False


def _filled(
    messages: pa.Array,
    of_message: npt.NDArray[np.int64],
    data: pa.Array,
    old: pa.Array,
    is_update: npt.NDArray[np.bool_],
    is_list: bool,
) -> list[pa.Array]:
    """The columns of rows as they were: what `old` does not name is as it is now, what it names may have been null."""
    names = [field.name for field in data.type]
    before = [
        pc.if_else(pc.and_(pa.array(is_update), then.is_null()), now, then)
        for then, now in zip(old.flatten(), data.flatten(), strict=True)
    ]
    # Arrow's reader tells no null from what is not there. Messages without any null need not be looked at again.
    may_have_null = np.asarray(pc.match_substring_regex(messages, _ANY_NULL))
    if not (may_have_null[of_message] & is_update).any():
        return before
    texts = messages.to_pylist()
    for place, (name, then, now) in enumerate(zip(names, old.flatten(), data.flatten(), strict=True)):
        # A name may be written with escapes, in many ways: messages that have any are looked at.
        written = rf'"{re.escape(name)}"\s*:\s*null|\\'.encode()
        named = may_have_null & np.asarray(pc.match_substring_regex(messages, written))
        asked = is_update & named[of_message] & np.asarray(then.is_null()) & np.asarray(now.is_valid())
        if asked.any():
            was_null = asked.copy()
            for row in np.flatnonzero(asked):
                was_null[row] = _is_named(texts, of_message, int(row), name, is_list)
            before[place] = pc.if_else(pa.array(was_null), pa.scalar(None, then.type), before[place])
    return before


def _is_named(texts: Sequence[bytes], of_message: npt.NDArray[np.int64], row: int, name: str, is_list: bool) -> bool:
    """Whether `old` of a row has a value, which is null."""
    message = of_message[row]
    old = json.loads(texts[message], strict=False)["old"]
    if is_list:
        old = old[row - int(np.searchsorted(of_message, message))]
    return name in old

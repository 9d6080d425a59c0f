"""Messages of PostgreSQL's plugin `pgoutput`, taken apart: rows by whole columns, the few others one by one."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from flinkray.errors import FlinkrayError
from flinkray.types.rows import RowKind

HEADER = 25
"""What is in front of a message: that it is one, where it is in the log, where that ends, and the time."""
_IDENTITY = HEADER + 1
_MARK = HEADER + 5
_TUPLE = HEADER + 6
_PADDING = bytes(8)  # lengths are read of values that have none, too
_OLD, _KEY = b"O"[0], b"K"[0]
_INSERTED, _UPDATED, _DELETED = b"IUD"
_TEXT, _UNCHANGED = b"tu"

_Integers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


class Begin(Struct, frozen=True):
    """A transaction: where its commit is in the log, when that was, and the lower half of its id."""

    commit_lsn: int
    time_ms: int
    xid: int


class Relation(Struct, frozen=True):
    """A table as the log has it from here on."""

    table_id: int
    name: str
    is_full: bool
    columns: tuple[tuple[str, int, int], ...]
    """Names, with the ids and modifiers of types."""


_EPOCH_MS = 946_684_800_000  # 2000-01-01, from where PostgreSQL counts


def begin_of(message: bytes) -> Begin:
    commit_lsn, time_us, xid = struct.unpack_from(">QqI", message, HEADER + 1)
    return Begin(commit_lsn, time_us // 1000 + _EPOCH_MS, xid)


def end_of(message: bytes) -> int:
    """Of a Commit message: where the transaction ends in the log."""
    return int(struct.unpack_from(">Q", message, HEADER + 10)[0])


def relation_of(message: bytes) -> Relation:
    (table_id,) = struct.unpack_from(">I", message, _IDENTITY)
    schema, at = _name(message, HEADER + 5)
    name, at = _name(message, at)
    identity, count = struct.unpack_from(">cH", message, at)
    at += 3
    columns = []
    for _ in range(count):
        column, at = _name(message, at + 1)
        columns.append((column, *struct.unpack_from(">Ii", message, at)))
        at += 8
    return Relation(table_id, f"{schema or 'pg_catalog'}.{name}", identity == b"f", tuple(columns))


def truncated_tables(message: bytes) -> tuple[int, ...]:
    (count,) = struct.unpack_from(">I", message, HEADER + 1)
    return struct.unpack_from(f">{count}I", message, HEADER + 6)


def table_of(message: bytes) -> bytes:
    """Of a message with a row: the id of its table."""
    return message[_IDENTITY:_MARK]


def _name(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1


class ChangedRows:
    """The rows of a changelog that some messages give, in order.

    An update that does not say how the row was before is +U alone, one of the key -D and +I, another -U and +U.
    """

    def __init__(
        self, text: pa.Buffer, kinds: npt.NDArray[np.int8], messages: _Integers, values: Sequence[_Values]
    ) -> None:
        self._text = text
        self.kinds = kinds
        self.messages = messages
        """For each row the place of its message."""
        self._values = values

    def filter(self, kept: _Flags) -> ChangedRows:
        values = [each.take(kept) for each in self._values]
        return ChangedRows(self._text, self.kinds[kept], self.messages[kept], values)

    def texts(self, column: int) -> pa.Array:
        """Values of one of the columns that were asked for, as the server writes them (large_string)."""
        return self._values[column].texts(self._text)

    def is_unknown(self, column: int) -> bool:
        """Whether an update left a value as it was, and the log does not have it."""
        return bool((self._values[column].marks == _UNCHANGED).any())


class _Values(Struct, frozen=True):
    """Values of a column: where they begin and end in the messages, in order, and their marks."""

    starts: _Integers
    ends: _Integers
    marks: npt.NDArray[np.uint8]

    def take(self, rows: Any) -> _Values:
        return _Values(self.starts[rows], self.ends[rows], self.marks[rows])

    def where(self, flags: _Flags, others: _Values) -> _Values:
        """These where the flag is set, else others."""
        return _Values(
            np.where(flags, self.starts, others.starts),
            np.where(flags, self.ends, others.ends),
            np.where(flags, self.marks, others.marks),
        )

    def unless_unchanged(self, before: _Values) -> _Values:
        """These, where an update has set them or they are not known."""
        return self.where((self.marks != _UNCHANGED) | (before.marks != _TEXT), before)

    def texts(self, text: pa.Buffer) -> pa.Array:
        if not len(self.starts):
            return pa.array([], pa.large_string())
        edges = np.empty(2 * len(self.starts), np.int64)
        edges[0::2], edges[1::2] = self.starts, self.ends
        # Every other one of these values is what stands between two of ours.
        everything = pa.Array.from_buffers(pa.large_string(), len(edges) - 1, [None, pa.py_buffer(edges), text])
        return everything.take(pa.array(np.arange(0, len(edges), 2), mask=self.marks != _TEXT))


def changed_rows(messages: Sequence[bytes], width: int, columns: Sequence[int], keys: Sequence[int]) -> ChangedRows:
    """What messages with rows of one table say.

    Args:
        messages: with their headers.
        width: the number of the table's columns.
        columns: the places of those that are wanted.
        keys: those whose change makes a deletion and an insertion of an update, as places in `columns`.
    """
    text = pa.py_buffer(b"".join((*messages, _PADDING)))
    data = np.frombuffer(text, np.uint8)
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    at = np.cumsum(lengths) - lengths
    operation, mark = data[at + HEADER], data[at + _MARK]
    has_old = (mark == _OLD) | (mark == _KEY)
    old, behind = _tuples(data, at + _TUPLE, has_old, width, columns)
    has_new = operation != _DELETED
    new, _ = _tuples(data, np.where(has_old, behind + 1, at + _TUPLE), has_new, width, columns)
    is_whole = mark == _OLD
    new = [each.unless_unchanged(before) for each, before in zip(new, old, strict=True)]
    is_moved = np.zeros(len(messages), np.bool_)
    both = np.flatnonzero(has_old & has_new)
    for key in keys if len(both) else ():
        before, after = (values[key].take(both).texts(text) for values in (old, new))
        is_same = pc.equal(before, after).fill_null(False).to_numpy(zero_copy_only=False)
        is_moved[both] |= ~is_same
    gives_old = has_old & (~has_new | is_whole | is_moved)
    return _in_order(text, operation, is_moved, gives_old, has_new, old, new)


def _in_order(
    text: pa.Buffer,
    operation: npt.NDArray[np.uint8],
    is_moved: _Flags,
    gives_old: _Flags,
    gives_new: _Flags,
    old: Sequence[_Values],
    new: Sequence[_Values],
) -> ChangedRows:
    """Each message's row as it was, if there is one, before the one as it is."""
    kinds = np.empty((len(operation), 2), np.int8)
    is_deletion = is_moved | (operation == _DELETED)
    kinds[:, 0] = np.where(is_deletion, RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
    is_insertion = is_moved | (operation == _INSERTED)
    kinds[:, 1] = np.where(is_insertion, RowKind.INSERT.value, RowKind.UPDATE_AFTER.value)
    taken = np.flatnonzero(np.column_stack((gives_old, gives_new)).ravel())
    messages, is_new = np.divmod(taken, 2)
    flags = is_new == 0
    values = [before.take(messages).where(flags, after.take(messages)) for before, after in zip(old, new, strict=True)]
    return ChangedRows(text, kinds.ravel()[taken], messages, values)


def _tuples(
    data: npt.NDArray[np.uint8], at: _Integers, has_tuple: _Flags, width: int, columns: Sequence[int]
) -> tuple[list[_Values], _Integers]:
    """The columns of tuples that begin there, and where they end; messages without one have anything, in order."""
    rows = np.flatnonzero(has_tuple)
    place = at[rows]
    widths = (data[place].astype(np.int64) << 8) | data[place + 1]
    if (widths != width).any():
        raise FlinkrayError(
            f"the log has rows of {widths[widths != width][0]} columns, and said that there are {width}"
        )
    place = place + 2
    found: dict[int, _Values] = {}
    for column in range(width):
        marks = data[place]
        is_text = marks == _TEXT
        start = np.where(is_text, place + 5, place + 1)
        place = np.where(is_text, start + _lengths(data, place + 1), start)
        if column in columns:
            values = _Values(at.copy(), at.copy(), np.zeros(len(at), np.uint8))
            values.starts[rows], values.ends[rows], values.marks[rows] = start, place, marks
            found[column] = values
    ends = at.copy()
    ends[rows] = place
    return [found[column] for column in columns], ends


def _lengths(data: npt.NDArray[np.uint8], at: _Integers) -> _Integers:
    """Numbers of four bytes."""
    parts = (data[at + place].astype(np.int64) << shift for place, shift in enumerate((24, 16, 8, 0)))
    return sum(parts, np.zeros(len(at), np.int64))

"""Buffered rows: columns of rows that windows and joins keep, with their keys' numbers, and how they go into
snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from actors.columns.large_columns import Columns, as_columns, coalesced, take_distinct_rows
from actors.keys.index import Ids
from actors.keys.state_tables import KeyedTables, StateRows
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.batches.pickling import dumps
from flinkray.batches.row_codec import decode
from flinkray.batches.unification import concat_unified
from flinkray.errors import operator_label
from flinkray.types.records import MIN_TIMESTAMP, SCALAR_COLUMN, Kind

# Columns of snapshots beside the key; those of the rows have `row:` before their names.
_POSITION = "position"
_ROW = "row:"
_KIND = "kind"


class BufferedRows(Struct, frozen=True):
    """Rows with the number of each one's key, and each one's position in the order of arrival."""

    data: pa.Table
    kind: Kind
    key_ids: Ids
    positions: npt.NDArray[np.int64]
    fired_until: npt.NDArray[np.int64] | None = None
    """For each row, windows that end before this have fired with it, before the operator was restored with the lower
    watermark of another subtask, or while it fired. None: exactly the windows that the watermark has passed have
    fired."""

    @property
    def num_rows(self) -> int:
        return len(self.key_ids)

    def take(self, rows: Any) -> BufferedRows:
        fired_until = None if self.fired_until is None else self.fired_until[rows]
        data = take_distinct_rows(as_columns(self.data), rows)
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        return BufferedRows(table, self.kind, self.key_ids[rows], self.positions[rows], fired_until)

    def slice(self, begin: int, end: int) -> BufferedRows:
        """The rows from `begin` to before `end`, not copied."""
        if begin == 0 and end == self.num_rows:
            return self
        fired_until = None if self.fired_until is None else self.fired_until[begin:end]
        data = self.data.slice(begin, end - begin)
        return BufferedRows(data, self.kind, self.key_ids[begin:end], self.positions[begin:end], fired_until)

    def without_dictionaries(self) -> BufferedRows:
        """The same values without dictionaries: each value is there by itself."""
        columns = [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in self.data.columns
        ]
        return replace(self, data=pa.table(columns, names=self.data.column_names))

    def as_objects(self) -> BufferedRows:
        """The same values pickled, for rows of which some are of another kind: nulls before the first tuple, say."""
        if self.kind is Kind.OBJECT:
            return self
        pickles = pa.array(list(map(dumps, decoded(self.data, self.kind))), pa.binary())
        return replace(self, data=pa.table({SCALAR_COLUMN: pickles}), kind=Kind.OBJECT)


def follow_each_other(parts: Sequence[BufferedRows]) -> bool:
    """Whether all rows of each part arrived before all of the next one; each has rows."""
    bounds = [(int(part.positions.min()), int(part.positions.max())) for part in parts]
    return all(before[1] < after[0] for before, after in pairwise(bounds))


def decoded(data: Columns, kind: Kind) -> list[Any]:
    """The rows as user functions see them."""
    batches = data.to_batches() if isinstance(data, pa.Table) else [data]
    return [value for batch in batches for value in decode(Batch(batch, kind))]


def rows_table(
    rows: BufferedRows,
    beside: Mapping[str, pa.Array],
    keys: Columns | None,
    tables: KeyedTables,
    metadata: Mapping[str, bytes],
) -> KeyedTable:
    """The rows as a table for a snapshot, with the columns `beside` them, whose names have no colon; any thread may
    call it."""
    named = {f"{_ROW}{name}": column for name, column in zip(rows.data.column_names, rows.data.columns, strict=True)}
    columns = {**beside, _POSITION: from_numpy(rows.positions), **named}
    return tables.make(keys, rows.key_ids, columns, {**metadata, _KIND: str(rows.kind.value).encode()})


def restored_rows(part: StateRows, key_ids: Ids) -> BufferedRows:
    """The rows of which `rows_table` made a part of a snapshot, in the order of the table."""
    named = {name[len(_ROW) :]: column for name, column in part.columns.items() if name.startswith(_ROW)}
    kind = Kind(part.metadata[_KIND].decode())
    return BufferedRows(pa.table(named), kind, key_ids, as_numpy(part.columns[_POSITION]))


def concat_rows(parts: list[BufferedRows], where: str) -> BufferedRows:
    """The rows of all parts, in their order.

    Args:
        where: names operator and subtask in errors, for example "join (1/2)".
    Raises:
        TypeMismatchError: no type holds the values of all parts in a column.
    """
    if len(parts) == 1:
        return parts[0]
    if any(part.kind is not parts[0].kind for part in parts):
        parts = [part.as_objects() for part in parts]
    merged = concat_unified([part.data for part in parts], operator_label(where))
    table = pa.Table.from_batches(coalesced(merged.to_batches()), merged.schema)
    key_ids = np.concatenate([part.key_ids for part in parts])
    positions = np.concatenate([part.positions for part in parts])
    fired_until = None
    if any(part.fired_until is not None for part in parts):
        fired_until = np.concatenate(
            [_never_fired(part) if part.fired_until is None else part.fired_until for part in parts]
        )
    return BufferedRows(table, parts[0].kind, key_ids, positions, fired_until)


def _never_fired(part: BufferedRows) -> npt.NDArray[np.int64]:
    return np.full(part.num_rows, MIN_TIMESTAMP, np.int64)

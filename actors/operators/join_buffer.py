"""What joins keep of their inputs, in columns: rows with their keys' numbers; a window join has them by slice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from actors.keys import key_columns
from actors.large_columns import Columns, picked_rows, put_together, whole
from actors.operators.keyed_tables import KeyedTables, StateRows
from actors.ordering import order_by
from actors.state.key_index import Ids, KeyIndex
from actors.state.snapshot import KeyedTable
from actors.taking import take
from flinkray.batch import Batch
from flinkray.errors import TypeMismatchError
from flinkray.fixed_width import as_numpy, from_numpy
from flinkray.keys import KeySelector
from flinkray.merged_columns import concat_merged
from flinkray.pickling import dumps
from flinkray.row_codec import decode
from flinkray.types import MIN_TIMESTAMP, SCALAR_COLUMN, Kind

# Columns of snapshots beside the key; those of the rows have `row:` before their names.
_SLICE = "slice"
_POSITION = "position"
_FIRED_UNTIL = "fired_until"
_ROW = "row:"
_KIND = "kind"

# Keys without rows are forgotten when there are more of them than others. Looked at first when there are this many.
_FIRST_LOOK = 4096


class KeyedRows(Struct, frozen=True):
    """Rows with the number of each one's key, and each one's place in the order of arrival."""

    data: pa.Table
    kind: Kind
    key_ids: Ids
    positions: npt.NDArray[np.int64]
    fired_until: npt.NDArray[np.int64] | None = None
    """Windows that end before this have fired with the row, before the operator was restored with the lower watermark
    of another subtask. None: with those that the watermark has passed, all is said."""

    @property
    def num_rows(self) -> int:
        return len(self.key_ids)

    def take(self, rows: Any) -> KeyedRows:
        fired_until = None if self.fired_until is None else self.fired_until[rows]
        data = picked_rows(whole(self.data), rows)
        table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
        return KeyedRows(table, self.kind, self.key_ids[rows], self.positions[rows], fired_until)

    def keys_to_fire(self, window_end: int) -> Ids:
        """Keys with a row for which the window that ends there has not fired."""
        return self.key_ids if self.fired_until is None else self.key_ids[self.fired_until < window_end - 1]

    def values(self) -> list[Any]:
        """As user functions see them."""
        return [value for batch in self.data.to_batches() for value in decode(Batch(batch, self.kind))]

    def as_objects(self) -> KeyedRows:
        """The same values pickled, for rows of which some are of another kind: nulls before the first tuple, say."""
        if self.kind is Kind.OBJECT:
            return self
        pickles = pa.array(list(map(dumps, self.values())), pa.binary())
        return replace(self, data=pa.table({SCALAR_COLUMN: pickles}), kind=Kind.OBJECT)


class JoinKeys:
    """Numbers the keys of both inputs, which may call their key columns differently.

    Args:
        selectors: of the first input's keys, and of the second's.
        where: names operator and subtask in errors, for example "join (1/2)".
    """

    def __init__(self, selectors: tuple[KeySelector, KeySelector], where: str) -> None:
        self._selectors = selectors
        self._where = where
        self._index = KeyIndex()
        self._next_look = _FIRST_LOOK

    def __len__(self) -> int:
        return len(self._index)

    def ids(self, batch: Batch, input_index: int) -> Ids:
        """The number of each row's key.

        Raises:
            TypeMismatchError: no type holds these keys and those that came before, of either input.
        """
        columns = key_columns(batch, self._selectors[input_index], self._where)
        names = [str(index) for index in range(columns.num_columns)]
        try:
            return self._index.ids(pa.RecordBatch.from_arrays(columns.columns, names=names))
        except TypeMismatchError as error:
            raise TypeMismatchError(self._mismatch(columns.schema.types, input_index)) from error

    def _mismatch(self, types: list[pa.DataType], input_index: int) -> str:
        known = self._index.key_columns()
        before = [] if known is None else known.schema.types
        first, second = self._selectors
        return (
            f"operator {self._where!r}: it compares key ({first}) of its first input with key ({second}) of its "
            f"second: in the {('first', 'second')[input_index]} that is {_listed(types)}, and keys so far are "
            f"{_listed(before)}; cast both to one type before key_by"
        )

    def restored_ids(self, keys: pa.RecordBatch) -> Ids:
        """Of keys that `columns` gave."""
        return self._index.ids(keys)

    def columns(self) -> Columns | None:
        return self._index.key_columns()

    def forget_unused(self, live: Iterable[Ids]) -> Ids | None:
        """Forgets the keys that are not in `live`, if they are the most: key n is `place[n]` then. None: nothing
        changed. Looks only when the number of keys has doubled since it last did."""
        if len(self._index) < self._next_look:
            return None
        is_live = np.zeros(len(self._index), np.bool_)
        for ids in live:
            is_live[ids] = True
        kept = np.flatnonzero(is_live)
        is_worth_it = 2 * len(kept) <= len(self._index)
        place = np.cumsum(is_live) - 1
        if is_worth_it:
            self._index.retain(kept)
        self._next_look = max(_FIRST_LOOK, 2 * len(self._index))
        return place if is_worth_it else None


def _listed(types: list[pa.DataType]) -> str:
    return ", ".join(map(str, types))


class JoinBuffer:
    """Slice start -> its rows. Rows are copied once when they come in, so that no received batch stays alive.

    Args:
        where: names the operator in errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._slices: dict[int, list[KeyedRows]] = {}

    def add(self, batch: Batch, key_ids: Ids, first_position: int, starts: list[int], which: Any) -> None:
        """Adds rows to their slices: `which[i]` is the index in `starts` of row i's (None: the only one)."""
        positions = np.arange(first_position, first_position + batch.num_rows, dtype=np.int64)
        for index, start in enumerate(starts):
            rows = np.arange(batch.num_rows) if which is None else np.flatnonzero(which == index)
            table = pa.Table.from_batches([take(batch.data, from_numpy(rows))])
            part = KeyedRows(table, batch.kind, key_ids[rows], positions[rows])
            self._slices.setdefault(start, []).append(part)

    def rows_of(self, slice_starts: range) -> KeyedRows | None:
        """All rows of these slices in order of arrival; None where there are none."""
        parts = []
        for start in slice_starts:
            chunks = self._slices.get(start)
            if chunks is not None:
                if len(chunks) > 1:
                    chunks[:] = [concat_rows(chunks, self._where)]
                parts.append(chunks[0])
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        together = concat_rows(parts, self._where)
        return together.take(order_by(together.positions))

    def release(self, slice_start: int) -> None:
        self._slices.pop(slice_start, None)

    def live_keys(self) -> list[Ids]:
        return [part.key_ids for chunks in self._slices.values() for part in chunks]

    def renumber_keys(self, place: Ids) -> None:
        """Key n is now `place[n]`."""
        for chunks in self._slices.values():
            chunks[:] = [replace(part, key_ids=place[part.key_ids]) for part in chunks]

    # -- snapshots

    def slice_starts(self) -> list[int]:
        return list(self._slices)

    def capture(self) -> list[tuple[int, KeyedRows]]:
        """All rows as they are now, in pieces, each with its slice's start; nothing of it changes any more."""
        return [(start, part) for start, chunks in self._slices.items() for part in chunks]

    def restore(self, part: StateRows, key_ids: Ids, watermark: int) -> None:
        """Adds rows of a snapshot.

        Args:
            watermark: of this subtask; that of the one which the rows come from may have been higher.
        """
        fired_until = as_numpy(part.columns[_FIRED_UNTIL])
        is_ahead = bool((fired_until > watermark).any())
        rows = replace(restored_rows(part, key_ids), fired_until=fired_until if is_ahead else None)
        starts = as_numpy(part.columns[_SLICE])
        order = order_by(starts, rows.positions)
        bounds = np.flatnonzero(np.diff(starts[order])) + 1
        for places in np.split(order, bounds):
            self._slices.setdefault(int(starts[places[0]]), []).append(rows.take(places))


def buffer_table(
    captured: list[tuple[int, KeyedRows]],
    watermark: int,
    keys: Columns,
    tables: KeyedTables,
    metadata: Mapping[str, bytes],
    where: str,
) -> KeyedTable:
    """What a buffer was at a barrier, a row for each of its rows; any thread.

    Args:
        watermark: at the barrier.
        where: names the operator in errors.
    """
    rows = concat_rows([part for _, part in captured], where)
    starts = np.concatenate([np.full(part.num_rows, start, np.int64) for start, part in captured])
    fired_until = np.full(rows.num_rows, watermark, np.int64)
    if rows.fired_until is not None:
        np.maximum(fired_until, rows.fired_until, out=fired_until)
    return rows_table(rows, {_SLICE: from_numpy(starts), _FIRED_UNTIL: from_numpy(fired_until)}, keys, tables, metadata)


def rows_table(
    rows: KeyedRows,
    beside: Mapping[str, pa.Array],
    keys: Columns,
    tables: KeyedTables,
    metadata: Mapping[str, bytes],
) -> KeyedTable:
    """Rows for a snapshot, with the columns `beside` them, whose names have no colon; any thread."""
    named = {f"{_ROW}{name}": column for name, column in zip(rows.data.column_names, rows.data.columns, strict=True)}
    columns = {**beside, _POSITION: from_numpy(rows.positions), **named}
    return tables.make(keys, rows.key_ids, columns, {**metadata, _KIND: str(rows.kind.value).encode()})


def restored_rows(part: StateRows, key_ids: Ids) -> KeyedRows:
    """What `rows_table` was made of, in the order of the table."""
    named = {name[len(_ROW) :]: column for name, column in part.columns.items() if name.startswith(_ROW)}
    kind = Kind(part.metadata[_KIND].decode())
    return KeyedRows(pa.table(named), kind, key_ids, as_numpy(part.columns[_POSITION]))


def concat_rows(parts: list[KeyedRows], where: str) -> KeyedRows:
    """All of them, in their order.

    Args:
        where: names operator and subtask in errors, for example "join (1/2)".
    Raises:
        TypeMismatchError: no type holds what they have in a column.
    """
    if len(parts) == 1:
        return parts[0]
    if any(part.kind is not parts[0].kind for part in parts):
        parts = [part.as_objects() for part in parts]
    merged = concat_merged([part.data for part in parts], f"operator {where!r}")
    table = pa.Table.from_batches(put_together(merged.to_batches()), merged.schema)
    key_ids = np.concatenate([part.key_ids for part in parts])
    positions = np.concatenate([part.positions for part in parts])
    fired_until = None
    if any(part.fired_until is not None for part in parts):
        fired_until = np.concatenate(
            [_never_fired(part) if part.fired_until is None else part.fired_until for part in parts]
        )
    return KeyedRows(table, parts[0].kind, key_ids, positions, fired_until)


def _never_fired(part: KeyedRows) -> npt.NDArray[np.int64]:
    return np.full(part.num_rows, MIN_TIMESTAMP, np.int64)

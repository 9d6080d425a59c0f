"""Rows of streams that wait until event time has reached them, in pieces as they came."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.keys.index import Ids
from actors.keys.state_tables import KeyedTables, state_rows
from actors.operators.windows.buffers.buffered_keys import BufferedKeys
from actors.operators.windows.buffers.buffered_rows import BufferedRows, concat_rows, restored_rows, rows_table
from actors.state.snapshots.snapshot import KeyedTable, OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

WAITING = "waiting"
"""The part of snapshots that has them."""
_TIME = "time"


class _Piece(Struct, frozen=True):
    rows: BufferedRows
    times: Ids
    earliest: int


class WaitingRows:
    """Rows by time.

    Args:
        where: names operator and subtask in errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._pieces: list[_Piece] = []

    def add(self, batch: Batch, keys: Ids, times: Ids, position: int) -> None:
        """Adds rows, the first of which is the one of that number in the order of arrival."""
        # Copied, so that the received batch does not stay alive with them.
        data = pa.Table.from_batches([batch.data.take(from_numpy(np.arange(batch.num_rows)))])
        positions = np.arange(position, position + batch.num_rows)
        self._add(BufferedRows(data, batch.kind, keys, positions), times.copy())

    def _add(self, rows: BufferedRows, times: Ids) -> None:
        if len(times):
            self._pieces.append(_Piece(rows, times, int(times.min())))

    def take_until(self, time: int) -> tuple[BufferedRows, Ids] | None:
        """Takes out the rows whose time is at or before `time`; None: there are none."""
        due: list[BufferedRows] = []
        times: list[Ids] = []
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            if piece.earliest > time:
                self._pieces.append(piece)
                continue
            is_due = piece.times <= time
            if is_due.all():
                due.append(piece.rows)
                times.append(piece.times)
                continue
            taken, left = np.flatnonzero(is_due), np.flatnonzero(~is_due)
            due.append(piece.rows.take(taken))
            times.append(piece.times[taken])
            self._add(piece.rows.take(left), piece.times[left])
        return (concat_rows(due, self._where), np.concatenate(times)) if due else None

    def live_keys(self) -> list[Ids]:
        """The keys that have rows; some several times."""
        return [piece.rows.key_ids for piece in self._pieces]

    def renumber_keys(self, new_ids: Ids) -> None:
        """Gives key n the number `new_ids[n]`."""
        self._pieces = [
            _Piece(
                BufferedRows(each.rows.data, each.rows.kind, new_ids[each.rows.key_ids], each.rows.positions),
                each.times,
                each.earliest,
            )
            for each in self._pieces
        ]

    # -- snapshots

    def add_to(self, snapshot: OperatorSnapshot, keys: BufferedKeys, to: KeyedTables) -> bool:
        """Adds the rows as they are now; whether there are any."""
        columns = keys.columns()
        for piece in self._pieces:
            snapshot.add_keyed(WAITING, _table_of(piece, columns, to), to.owned)
        return bool(self._pieces)

    def restore(self, restored: RestoredState, keys: BufferedKeys) -> None:
        """Adds the rows of a snapshot."""
        for part in state_rows(restored.keyed(WAITING)):
            self._add(restored_rows(part, keys.restored_ids(part)), as_numpy(part.columns[_TIME]))


def _table_of(piece: _Piece, keys: pa.RecordBatch | pa.Table | None, to: KeyedTables) -> Callable[[], KeyedTable]:
    return lambda: rows_table(piece.rows, {_TIME: from_numpy(piece.times)}, keys, to, {})

"""What a window join keeps of one input: the rows of each slice, in columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.state.key_index import Ids
from flinkray.batch import Batch
from flinkray.types import Kind


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows with the number of each one's key, and each one's place in the order of arrival."""

    data: pa.Table
    kind: Kind
    key_ids: Ids
    positions: npt.NDArray[np.int64]

    @property
    def num_rows(self) -> int:
        return len(self.key_ids)

    def take(self, rows: Any) -> KeyedRows:
        return KeyedRows(self.data.take(pa.array(rows)), self.kind, self.key_ids[rows], self.positions[rows])

    def batch(self) -> Batch:
        """Without event times."""
        return Batch(_as_batch(self.data), self.kind)


class JoinBuffer:
    """Slice start -> its rows. Rows are copied once when they come in, so that no received batch stays alive."""

    def __init__(self) -> None:
        self._slices: dict[int, list[KeyedRows]] = {}

    def add(self, batch: Batch, key_ids: Ids, first_position: int, starts: list[int], which: Any) -> None:
        """Adds rows to their slices: `which[i]` is the index in `starts` of row i's (None: the only one)."""
        positions = np.arange(first_position, first_position + batch.num_rows, dtype=np.int64)
        for index, start in enumerate(starts):
            rows = np.arange(batch.num_rows) if which is None else np.flatnonzero(which == index)
            table = pa.Table.from_batches([batch.data.take(pa.array(rows))])
            part = KeyedRows(table, batch.kind, key_ids[rows], positions[rows])
            self._slices.setdefault(start, []).append(part)

    def rows_of(self, slice_starts: range) -> KeyedRows | None:
        """All rows of these slices in order of arrival; None where there are none."""
        parts = []
        for start in slice_starts:
            chunks = self._slices.get(start)
            if chunks is not None:
                if len(chunks) > 1:
                    chunks[:] = [_concat(chunks)]
                parts.append(chunks[0])
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        together = _concat(parts)
        return together.take(np.argsort(together.positions, kind="stable"))

    def release(self, slice_start: int) -> None:
        self._slices.pop(slice_start, None)

    def live_keys(self) -> list[Ids]:
        return [part.key_ids for chunks in self._slices.values() for part in chunks]

    def renumber_keys(self, place: Ids) -> None:
        """Key n is now `place[n]`."""
        for chunks in self._slices.values():
            chunks[:] = [KeyedRows(part.data, part.kind, place[part.key_ids], part.positions) for part in chunks]

    def snapshot(self) -> dict[int, KeyedRows]:
        return {start: _concat(chunks) for start, chunks in self._slices.items()}

    def restore(self, part: dict[int, KeyedRows], place: Ids) -> None:
        for start, rows in part.items():
            renumbered = KeyedRows(rows.data, rows.kind, place[rows.key_ids], rows.positions)
            self._slices.setdefault(start, []).append(renumbered)


def _concat(parts: list[KeyedRows]) -> KeyedRows:
    if len(parts) == 1:
        return parts[0]
    # Types may have been widened between batches.
    table = pa.concat_tables([part.data for part in parts], promote_options="permissive").combine_chunks()
    key_ids = np.concatenate([part.key_ids for part in parts])
    return KeyedRows(table, parts[0].kind, key_ids, np.concatenate([part.positions for part in parts]))


def _as_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

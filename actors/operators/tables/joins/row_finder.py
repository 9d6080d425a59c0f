"""Rows found by what is in some of their columns, however many rows share a key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.take import take
from actors.keys.hashes import key_hashes
from actors.keys.index import Ids, KeyIndex
from actors.keys.integer_index import IntegerIndex
from actors.operators.tables.changes import Flags, differ
from actors.operators.tables.rows.key_lists import KeyLists
from flinkray.batches.numpy_arrays import from_numpy


class RowFinder:
    """Slots by the hash of the columns that are looked for. Whoever asks compares what it finds: two contents may have
    one hash."""

    def __init__(self) -> None:
        self._clear()
        self._hashes: Ids = np.zeros(0, np.int64)

    def _clear(self) -> None:
        self._index = IntegerIndex()
        self._lists = KeyLists()

    def add(self, hashes: Ids, slots: Ids) -> None:
        """Adds rows, whose slots follow those that are there."""
        end = int(slots[-1]) + 1 if len(slots) else 0
        if end > len(self._hashes):
            more = max(end, 2 * len(self._hashes)) - len(self._hashes)
            self._hashes = np.concatenate([self._hashes, np.zeros(more, np.int64)])
        self._hashes[slots] = hashes
        self._lists.add(self._index.ids(hashes), slots)

    def find(self, hashes: Ids) -> tuple[Ids, Ids]:
        """The slots of the rows of each hash, in order of arrival, and for each its place in `hashes`; among them those
        of rows that were removed."""
        return self._lists.of(self._index.ids(hashes))

    def forget(self, hashes: Ids, is_live: Flags) -> None:
        """Forgets the slots of these distinct hashes whose `is_live` is false."""
        self._lists.retain(self._index.ids(hashes), is_live)

    def retain(self, slots: Ids) -> None:
        """Forgets all other rows; these become those of the slots 0, 1, ..."""
        hashes = self._hashes[slots]
        self._clear()
        self._hashes = np.zeros(0, np.int64)
        self.add(hashes, np.arange(len(slots)))


def hashes_of(rows: pa.RecordBatch) -> Ids:
    """A hash of each row; of a row without columns, 0."""
    return key_hashes(rows).view(np.int64) if rows.num_columns else np.zeros(rows.num_rows, np.int64)


def in_groups(rows: pa.RecordBatch, hashes: Ids) -> tuple[Ids, Ids]:
    """Equal rows together: their order, which keeps that of arrival, and where each group begins in it."""
    order = order_by(hashes)
    is_first = differs_from_previous(hashes[order])
    others = np.flatnonzero(~is_first)
    if len(others) and rows.num_columns:
        before, after = (take(rows, from_numpy(order[places])) for places in (others - 1, others))
        if differ(before, after).any():  # two contents of one hash
            ids = KeyIndex().ids(rows)
            order = order_by(ids)
            is_first = differs_from_previous(ids[order])
    return order, np.flatnonzero(is_first)

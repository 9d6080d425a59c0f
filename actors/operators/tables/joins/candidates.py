"""Rows with the rows of the other input that have their key, in pieces of which each is a batch at most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.ordering import distinct
from actors.columns.ranges import pairs_of
from actors.keys.index import Ids
from actors.operators.contract.operator import OperatorContext
from actors.operators.joins.pairs import PairLimit
from actors.operators.tables.changes import Flags
from actors.operators.tables.rows.row_store import RowStore
from flinkray.batches.numpy_arrays import as_numpy


class Partners:
    """The rows of a store that have the keys of some rows.

    Args:
        keys: of each row.
        may_match: whether each row can have partners; None: all can.
    """

    def __init__(self, keys: Ids, may_match: Flags | None, store: RowStore) -> None:
        self._rows = None if may_match is None else np.flatnonzero(may_match)
        self.keys = keys if self._rows is None else keys[self._rows]
        known = distinct(self.keys)
        self._places, self.slots = store.of_keys(known)
        counts = np.bincount(self._places, minlength=len(known))
        self._at = np.searchsorted(known, self.keys)
        self.begins, self.counts = (np.cumsum(counts) - counts)[self._at], counts[self._at]

    def counts_of_rows(self, rows: int) -> Ids:
        """How many partners each of the rows has."""
        if self._rows is None:
            return self.counts
        counts = np.zeros(rows, np.int64)
        counts[self._rows] = self.counts
        return counts

    def counts_of_slots(self) -> Ids:
        """How many of the rows each of `slots` is a partner of."""
        counts: Ids = np.bincount(self._at, minlength=int(self._places.max(initial=-1)) + 1)[self._places]
        return counts

    def pairs(self, most: int) -> Iterator[tuple[Ids, Ids]]:
        """All pairs of a row and the slot of a partner, in the order of the rows; so many at a time."""
        for rows, partners in pairs_of(self.begins, self.counts, most):
            yield rows if self._rows is None else self._rows[rows], self.slots[partners]


def most_pairs(context: OperatorContext, rows: pa.RecordBatch, store: RowStore) -> int:
    """How many pairs of these rows with rows of a store make a batch, by the size that rows have on average."""
    return PairLimit(context, -(-rows.nbytes // max(1, rows.num_rows)), store.bytes_per_row).rows


def any_null(rows: pa.RecordBatch, columns: list[int]) -> Flags | None:
    """Whether any of these columns is NULL in each row; None: none is in any."""
    found = None
    for column in (rows.column(each) for each in columns):
        if column.null_count:
            found = column.is_null() if found is None else pc.or_(found, column.is_null())
    return None if found is None else np.asarray(as_numpy(found), np.bool_)

"""Rows of an input by key and time, and the search for those of a key in a range of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from actors.columns.ordering import distinct, order_by
from actors.columns.ranges import pairs_of
from actors.keys.index import Ids
from actors.operators.tables.changes import Flags
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import as_numpy

TIME = "time"
NO_TIME = np.iinfo(np.int64).min
"""The time of rows whose time is NULL."""


def milliseconds_of(column: pa.Array) -> Ids:
    """Times as milliseconds since 1970; NULL is `NO_TIME`."""
    kind = pa.timestamp("ms", column.type.tz)
    times: Ids = as_numpy(column.cast(kind, safe=False).cast(pa.int64()).fill_null(NO_TIME))
    return times


def timed_store(schema: pa.Schema, numbers: Mapping[str, Numbers] | None = None) -> RowStore:
    """A store whose rows have times."""
    return RowStore(schema, {TIME: Numbers(np.int64), **(numbers or {})})


class RowsByTime:
    """The rows of some keys in a store, by key, then time, then arrival.

    Args:
        keys: the number of each key that is looked for; they may repeat.
    """

    def __init__(self, keys: Ids, store: RowStore) -> None:
        known = distinct(keys)
        places, slots = store.of_keys(known)
        times = store.numbers(TIME)[slots]
        order = order_by(places, times)
        self.slots: Ids = slots[order]
        self.times: Ids = times[order]
        self._sorted = self.times[order_by(self.times)]
        self._width = len(slots) + 1
        self._bases = np.searchsorted(known, keys) * self._width
        self._codes = places[order] * self._width + np.searchsorted(self._sorted, self.times, "left")

    def first_at(self, times: Ids) -> Ids:
        """Where the rows of each key that are not before a time begin."""
        return np.searchsorted(self._codes, self._bases + np.searchsorted(self._sorted, times, "left"), "left")

    def first_after(self, times: Ids) -> Ids:
        """Where the rows of each key that are after a time begin."""
        return np.searchsorted(self._codes, self._bases + np.searchsorted(self._sorted, times, "right"), "left")

    def first_of_keys(self) -> Ids:
        """Where the rows of each key begin."""
        return np.searchsorted(self._codes, self._bases, "left")

    def pairs(self, lowest: Ids, highest: Ids, may_match: Flags, most: int) -> Iterator[tuple[Ids, Ids]]:
        """The rows of each key of the times `lowest` to `highest`, as pairs of a place in the keys and a slot; so many
        at a time."""
        begins = self.first_at(lowest)
        counts = np.where(may_match, np.maximum(self.first_after(highest) - begins, 0), 0)
        for rows, places in pairs_of(begins, counts, most):
            yield rows, self.slots[places]

"""The rows of one input of a join, and what a batch changes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.tables.changes import Flags, Kinds, differ, weights_of
from actors.operators.tables.joins.row_finder import RowFinder, hashes_of, in_groups
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import from_numpy

MATCHES = "matches"
"""Beside a row: how many partners it has."""
IS_GIVEN = "is_given"
"""Beside a row: whether it was given by itself, as a padded row of an outer join or a row of a SEMI or ANTI join."""
_WRITTEN = "written"
_HASHED_AT_ONCE = 1 << 16


class Changed(Struct, frozen=True):
    """Rows of one input that were removed, replaced by others of the same key, or added: all in one of these ways."""

    keys: Ids
    """The number of each row's key."""
    before: pa.RecordBatch | None
    """The rows as they were; None: they are new."""
    slots_before: Ids
    after: pa.RecordBatch | None
    """The rows as they are; None: they are gone."""
    slots_after: Ids

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows as they are, or else as they were."""
        found = self.before if self.after is None else self.after
        assert found is not None
        return found


_NONE: Ids = np.zeros(0, np.int64)


class JoinSide:
    """The rows of an input of a join. Belongs to the task's thread.

    Args:
        schema: of the rows.
        unique: the columns by which a change finds the row that it replaces; None: by all, and a row may be there
            several times.
        is_insert_only: whether rows are only added.
        has_updates: whether rows replace others.
        is_tracked: whether partners of rows are counted.
    """

    def __init__(
        self,
        schema: pa.Schema,
        unique: Sequence[int] | None,
        is_insert_only: bool,
        has_updates: bool,
        is_tracked: bool,
    ) -> None:
        self.is_tracked = is_tracked
        self._is_insert_only = is_insert_only
        self._is_unique = unique is not None
        self._has_updates = has_updates
        self._sought_by = list(range(len(schema)) if unique is None else unique)
        self._finder = None if is_insert_only else RowFinder()
        beside = {_WRITTEN: Numbers(np.int64)}
        if is_tracked:
            beside |= {MATCHES: Numbers(np.int64), IS_GIVEN: Numbers(np.int8)}
        self.store = RowStore(schema, beside, self._retained)

    def _retained(self, slots: Ids) -> None:
        if self._finder is not None:
            self._finder.retain(slots)

    def restored(self) -> None:
        """Called when rows have been restored into the store."""
        slots = self.store.live_slots()
        if self._finder is None:
            return
        for start in range(0, len(slots), _HASHED_AT_ONCE):
            some = slots[start : start + _HASHED_AT_ONCE]
            self._finder.add(hashes_of(self.store.take(some, self._sought_by)), some)

    def expire(self, before: int) -> None:
        """Forgets rows of the next piece of the store that were last written before this time."""
        self.store.remove(self.store.sweep(_WRITTEN, before))

    def apply(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, now: int) -> list[Changed]:
        """Changes the rows as a batch says; gives what that comes to: rows that are removed, replaced and added.

        What is to be removed and is not there, because it has expired, say, stays away.
        """
        if self._is_insert_only:
            slots = self.store.add(keys, rows, written=now)
            return [Changed(keys, None, _NONE, rows, slots)]
        is_added = weights_of(kinds, rows.num_rows) > 0
        hashes = hashes_of(rows.select(self._sought_by))
        if self._is_unique:
            return self._replace(rows, keys, hashes, is_added, now)
        return self._change(rows, keys, hashes, is_added, now)

    # -- rows that are found by a unique key

    def _replace(self, rows: pa.RecordBatch, keys: Ids, hashes: Ids, is_added: Flags, now: int) -> list[Changed]:
        """The last change of each unique key counts."""
        order, starts = in_groups(rows.select(self._sought_by), hashes)
        last = order[np.append(starts[1:], len(order)) - 1] if len(order) else order
        places, slots = self._found(rows, hashes, last)
        old = np.full(len(last), -1, np.int64)
        old[places] = slots
        had, has = old >= 0, is_added[last]
        stays = had & has
        same = np.flatnonzero(stays)
        if len(same):
            is_same = ~differ(self.store.take(old[same]), take(rows, from_numpy(last[same])))
            self.store.numbers(_WRITTEN)[old[same[is_same]]] = now
            had[same[is_same]] = has[same[is_same]] = False
        self.store.remove(old[had])
        added = last[has]
        new = np.full(len(last), -1, np.int64)
        new[has] = self._add(rows, keys, hashes, added, now)
        is_kept = had & has
        is_kept[is_kept] = self.store.keys_of(old[is_kept]) == keys[last[is_kept]]
        return [
            self._removed(old[had & ~is_kept]),
            self._updated(old[is_kept], new[is_kept], rows, last[is_kept]),
            self._added(new[has & ~is_kept], rows, last[has & ~is_kept]),
        ]

    # -- rows that are found by all of their columns

    def _change(self, rows: pa.RecordBatch, keys: Ids, hashes: Ids, is_added: Flags, now: int) -> list[Changed]:
        """A row that comes and goes within the batch is no change."""
        added, taken = np.flatnonzero(is_added), np.flatnonzero(~is_added)
        new = self._add(rows, keys, hashes, added, now)
        gone = self._latest(rows, hashes, taken)
        self.store.remove(gone)
        first = new[0] if len(new) else np.iinfo(np.int64).max
        old = np.sort(gone[gone < first])
        is_left = np.ones(len(new), np.bool_)
        is_left[gone[gone >= first] - first] = False
        new, added = new[is_left], added[is_left]
        if not self._has_updates:
            return [self._removed(old), self._added(new, rows, added)]
        places_old, places_new = _pairs_of_equal(self.store.keys_of(old), keys[added])
        is_removed, is_new = np.ones(len(old), np.bool_), np.ones(len(new), np.bool_)
        is_removed[places_old] = is_new[places_new] = False
        return [
            self._removed(old[is_removed]),
            self._updated(old[places_old], new[places_new], rows, added[places_new]),
            self._added(new[is_new], rows, added[is_new]),
        ]

    def _latest(self, rows: pa.RecordBatch, hashes: Ids, taken: Ids) -> Ids:
        """A slot for each row that is taken back, as far as there are so many: of equal rows those that came last."""
        order, starts = in_groups(take(rows, from_numpy(taken)), hashes[taken])
        wanted = np.diff(np.append(starts, len(order)))
        places, slots = self._found(rows, hashes, taken[order[starts]])
        ends = np.searchsorted(places, np.arange(len(wanted)), "right")
        is_wanted = ends[places] - np.arange(len(places)) <= wanted[places]
        return slots[is_wanted]

    def _found(self, rows: pa.RecordBatch, hashes: Ids, sought: Ids) -> tuple[Ids, Ids]:
        """The slots of the rows that equal some of these rows, no two of which are equal, in order of arrival; and for
        each its place in `sought`, ascending."""
        assert self._finder is not None
        places, slots = self._finder.find(hashes[sought])
        is_live = self.store.are_live()[slots]
        if 2 * int(np.count_nonzero(is_live)) < len(slots):
            dead = np.unique(hashes[sought[places[~is_live]]])
            self._finder.forget(dead, self.store.are_live())
        places, slots = places[is_live], slots[is_live]
        columns = self._sought_by
        wanted = take(rows.select(columns), from_numpy(sought[places]))
        is_equal = ~differ(self.store.take(slots, columns), wanted) if columns else np.ones(len(slots), np.bool_)
        return places[is_equal], slots[is_equal]

    def _add(self, rows: pa.RecordBatch, keys: Ids, hashes: Ids, added: Ids, now: int) -> Ids:
        assert self._finder is not None
        slots = self.store.add(keys[added], take(rows, from_numpy(added)), written=now)
        self._finder.add(hashes[added], slots)
        return slots

    # -- what became of them

    def _removed(self, old: Ids) -> Changed:
        return Changed(self.store.keys_of(old), self.store.take(old), old, None, _NONE)

    def _updated(self, old: Ids, new: Ids, rows: pa.RecordBatch, numbers: Ids) -> Changed:
        after = take(rows, from_numpy(numbers))
        return Changed(self.store.keys_of(new), self.store.take(old), old, after, new)

    def _added(self, new: Ids, rows: pa.RecordBatch, numbers: Ids) -> Changed:
        return Changed(self.store.keys_of(new), None, _NONE, take(rows, from_numpy(numbers)), new)


def _pairs_of_equal(first: Ids, second: Ids) -> tuple[Ids, Ids]:
    """Pairs of places with equal numbers, each place in one pair at most, as many as there can be."""
    first_codes, first_order = _numbered(first)
    second_codes, second_order = _numbered(second)
    # The n-th of a number in the one meets the n-th of it in the other.
    width = max(len(first), len(second)) + 1
    one = first[first_order] * width + first_codes
    other = second[second_order] * width + second_codes
    places = np.searchsorted(one, other)
    is_found = places < len(one)
    is_found[is_found] = one[places[is_found]] == other[is_found]
    return first_order[places[is_found]], second_order[is_found]


def _numbered(numbers: Ids) -> tuple[Ids, Ids]:
    """How many equal numbers stand before each in the order, and the order."""
    order = order_by(numbers)
    starts = np.flatnonzero(differs_from_previous(numbers[order]))
    counts = np.diff(np.append(starts, len(numbers)))
    return np.arange(len(numbers)) - np.repeat(starts, counts), order

"""The changes from the rows that were among the first of their keys to those that are."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from actors.columns.ordering import distinct
from actors.keys.index import Ids
from actors.operators.tables.changes import Flags, Kinds
from flinkray.types.rows import RowKind

_MOST_PLACES_PER_ROW = 8
"""With more possible ranks per row than that, looking through all of them costs more than searching."""


class RowChanges(Struct, frozen=True):
    """Each is a row of `before` that becomes one of `after`, by their numbers; where one is missing, its number says
    nothing."""

    before: Ids
    after: Ids
    had: Flags
    has: Flags

    def where(self, chosen: Flags) -> RowChanges:
        """These of them."""
        return RowChanges(self.before[chosen], self.after[chosen], self.had[chosen], self.has[chosen])

    def given(self, *, with_before: bool) -> tuple[Ids, Flags, Kinds]:
        """The rows that say so, by number: of each change in turn the row that was, and the one that is; whether each
        is one that was; and their kinds.

        Args:
            with_before: whether an update comes with -U.
        """
        is_given = np.stack([self.had if with_before else self.had & ~self.has, self.has], axis=1)
        numbers = np.stack([self.before, self.after], axis=1)[is_given]
        taken_back = np.where(self.has, RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)
        added = np.where(self.had, RowKind.UPDATE_AFTER.value, RowKind.INSERT.value)
        is_old = np.broadcast_to(np.array([True, False]), is_given.shape)[is_given]
        return numbers, is_old, np.stack([taken_back, added], axis=1)[is_given].astype(np.int8)


def changes_by_rank(places: Ids, was: Ids, now: Ids) -> RowChanges:
    """For each key and rank, what row had it and what row has it.

    Args:
        places: the place of each row's key.
        was, now: the rank of each row, which no other one of its key has; 0: it is not among the first.
    """
    width = int(max(was.max(initial=0), now.max(initial=0))) + 1
    old, new = np.flatnonzero(was), np.flatnonzero(now)
    old_at, new_at = places[old] * width + was[old], places[new] * width + now[new]
    bound = (int(places.max(initial=0)) + 1) * width
    if bound > _MOST_PLACES_PER_ROW * len(places):
        at = distinct(np.concatenate([old_at, new_at]))
        bound, old_at, new_at = len(at), np.searchsorted(at, old_at), np.searchsorted(at, new_at)
    before, after = np.full(bound, -1), np.full(bound, -1)
    before[old_at], after[new_at] = old, new
    changed = np.flatnonzero(before != after)
    before, after = before[changed], after[changed]
    return RowChanges(before, after, before >= 0, after >= 0)


def changes_by_row(was: Ids, now: Ids, *, with_ranks: bool) -> RowChanges:
    """For each row, whether it was among the first, and whether it is; those that go come before those that come.

    Args:
        was, now: the rank of each row; 0: it is not among the first.
        with_ranks: whether a row with another rank is another row.
    """
    had, has = was > 0, now > 0
    changed = np.flatnonzero((was != now) if with_ranks else (had != has))
    changed = changed[np.argsort(has[changed], kind="stable")]
    return RowChanges(changed, changed, had[changed], has[changed])

"""How often each group has each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.take import take
from actors.keys.index import Ids, KeyIndex
from actors.operators.tables.aggregates.arguments import Taken
from actors.operators.tables.aggregates.group_state import Captured, Columns, GroupState
from actors.operators.tables.aggregates.grouped_rows import Flags, first_rows
from actors.operators.tables.rows.key_lists import KeyLists
from actors.operators.tables.rows.stored_columns import StoredColumns, taken_of
from actors.operators.windows.base.compaction import has_doubled
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

_FEWEST_LOOKED_AT = 4096


class ValueSets(GroupState):
    """Numbers the values that each group has, and counts how often it has them, in several ways: a way is a choice of
    rows, such as the filter of one of the aggregates that share the values.

    A number is a value's until `forget_unused` or `retain`.

    Args:
        types: of the columns of a value.
        ways: how many ways of counting there are.
    """

    has_row_per_group = False

    def __init__(self, types: Sequence[pa.DataType], ways: int = 1) -> None:
        self._schema = pa.schema([(str(place), each) for place, each in enumerate(types)])
        self._ways = ways
        self._last_count = 0
        self._clear()

    def _clear(self) -> None:
        self._index = KeyIndex()
        self._values = StoredColumns(self._schema)
        self._groups: Ids = np.zeros(0, np.int64)
        self._counts: Ids = np.zeros((self._ways, 0), np.int64)
        self._scratch: Ids = np.zeros(0, np.int64)
        self._lists = KeyLists()

    def __len__(self) -> int:
        return len(self._index)

    def numbers_of(self, groups: Ids, values: pa.RecordBatch) -> Ids:
        """The number of each value of each group; those that are new get the next ones."""
        known = len(self._index)
        numbers = self._index.ids(pa.RecordBatch.from_arrays([from_numpy(groups), *values.columns], names=self._names))
        if len(self._index) > known:
            self._make_room()
            rows = np.empty(len(self._index) - known, np.int64)
            is_new = np.flatnonzero(numbers >= known)
            rows[numbers[is_new] - known] = is_new
            self._values.append(pa.RecordBatch.from_arrays(take(values, from_numpy(rows)).columns, schema=self._schema))
            self._groups[known : len(self._index)] = groups[rows]
            self._lists.add(groups[rows], np.arange(known, len(self._index)))
        return numbers

    @property
    def _names(self) -> list[str]:
        return ["group", *self._schema.names]

    def _make_room(self) -> None:
        size = len(self._index)
        if size > len(self._groups):
            more = max(size, 2 * len(self._groups), 1024) - len(self._groups)
            self._groups = np.concatenate([self._groups, np.zeros(more, np.int64)])
            self._scratch = np.concatenate([self._scratch, np.zeros(more, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros((self._ways, more), np.int64)], axis=1)

    def count(self, numbers: Ids, weights: npt.NDArray[np.int8] | None, way: int = 0) -> tuple[Ids, Ids, Ids, Ids]:
        """Counts values in one way.

        Args:
            numbers: of the value of each row.
            weights: 1 for a row that is added, -1 for one that is taken back; None: all are added.
        Returns:
            The first row of each value, ascending, its number, how often it was there before, and how often it is now.
        """
        rows = first_rows(numbers, self._scratch)
        found = numbers[rows]
        self._scratch[found] = np.arange(len(found))
        changes = np.bincount(self._scratch[numbers], weights, len(found)).astype(np.int64)
        before = self._counts[way, found]
        after = before + changes
        self._counts[way, found] = after
        return rows, found, before, after

    def counts(self, numbers: Ids, way: int = 0) -> Ids:
        """How often values are there."""
        found: Ids = self._counts[way, numbers]
        return found

    def of_groups(self, groups: Ids, way: int = 0) -> tuple[Ids, Ids]:
        """The numbers of the values that are there in these groups, in the order in which they first came; and for each
        the place of its group: (places, numbers)."""
        places, numbers = self._lists.of(groups)
        is_there = self._counts[way, numbers] > 0
        return places[is_there], numbers[is_there]

    def take(self, numbers: Ids) -> pa.RecordBatch:
        """The values of these numbers."""
        return self._values.take(numbers)

    # -- as the state of groups

    def grow(self, size: int) -> None:
        """Groups without values take no room."""

    def add(self, taken: Taken) -> None:
        """Counts the rows in the first way."""
        rows = taken.rows
        self.count(self.numbers_of(rows.groups[rows.places], taken.batch), rows.weights)
        self.forget_unused()

    def reset(self, groups: Ids) -> None:
        self._counts[:, self._lists.of(groups)[1]] = 0

    def retain(self, groups: Ids) -> None:
        self._rebuild(self._new_groups(groups))

    def _new_groups(self, groups: Ids) -> Ids:
        """The new number of each group, where these become 0, 1, ... and others are forgotten."""
        new_groups = np.full(int(max(groups.max(initial=0), self._groups.max(initial=0))) + 1, -1, np.int64)
        new_groups[groups] = np.arange(len(groups))
        return new_groups

    def forget_unused(self) -> Ids | None:
        """Forgets the values that are not there any more, where they are most of many.

        Returns:
            The new number of each value, -1 where it is forgotten; None: they are as they were.
        """
        if not has_doubled(len(self), self._last_count, _FEWEST_LOOKED_AT):
            return None
        self._last_count = len(self)
        if 2 * np.count_nonzero(self._is_used()) > len(self):
            return None
        return self._rebuild(None)

    def _is_used(self) -> Flags:
        used: Flags = (self._counts[:, : len(self)] != 0).any(axis=0)
        return used

    def _rebuild(self, new_groups: Ids | None) -> Ids:
        size = len(self)
        groups = self._groups[:size] if new_groups is None else new_groups[self._groups[:size]]
        kept = np.flatnonzero(self._is_used() & (groups >= 0))
        values, counts, groups = self._values.take(kept), self._counts[:, kept], groups[kept]
        new_numbers = np.full(size, -1, np.int64)
        new_numbers[kept] = np.arange(len(kept))
        self._clear()
        self._last_count = len(kept)
        if len(kept):
            self.numbers_of(groups, values)
            self._counts[:, : len(kept)] = counts
        return new_numbers

    # -- snapshots

    def capture(self, groups: Ids) -> Captured:
        kept = np.flatnonzero(self._is_used())
        counts, chunks, schema = self._counts[:, kept], self._values.chunks, self._schema

        def columns() -> Columns:
            values = taken_of(chunks, kept) or schema.empty_table()
            found: Columns = {f"value {name}": values.column(name) for name in schema.names}
            return found | {f"count {way}": from_numpy(each) for way, each in enumerate(counts)}

        return Captured(self._groups[kept], columns)

    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        arrays = [columns[f"value {field.name}"].cast(field.type) for field in self._schema]
        numbers = self.numbers_of(groups, pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        for way in range(self._ways):
            self._counts[way, numbers] = as_numpy(columns[f"count {way}"])


def distinct_rows(taken: Taken, sets: ValueSets, numbers: Ids, way: int) -> Taken:
    """The rows by which a group comes to have a value in this way, and those by which it loses one, one for each."""
    rows, _, before, after = sets.count(numbers, taken.rows.weights, way)
    changed = (before > 0) != (after > 0)
    weights = None if taken.rows.weights is None else np.where(after[changed] > 0, 1, -1).astype(np.int8)
    return taken.select(rows[changed], weights)

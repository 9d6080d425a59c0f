"""How often each group has each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.large_columns import take_column
from actors.columns.ordering import distinct
from actors.columns.take import take
from actors.keys.index import Ids, KeyIndex
from actors.keys.integer_index import PairIndex
from actors.operators.aggregates.value_rules import with_one_zero
from actors.operators.tables.aggregates.states.arguments import Taken
from actors.operators.tables.aggregates.states.group_state import Captured, Columns, GroupState
from actors.operators.tables.aggregates.states.grouped_rows import Flags, Weights, first_rows
from actors.operators.tables.rows.key_lists import KeyLists
from actors.operators.tables.rows.stored_columns import StoredColumns, taken_of
from actors.operators.windows.base.compaction import has_doubled
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

_FEWEST_LOOKED_AT = 4096
SEEN = "seen"
"""The column of a snapshot that `SeenValues` writes in place of counts."""
MOST_SEEN_WAYS = 63
"""In so many ways `SeenValues` can remember values: one to a bit."""
FirstRows = tuple[Ids, Weights | None]
"""The rows by which a group comes to have a value, or loses one, ascending; and their weights, where there are some."""


class ValueSets(GroupState):
    """Numbers the values that each group has, and counts how often it has them, in several ways: a way is a choice of
    rows, such as the filter of one of the aggregates that share the values.

    A value is kept once for all groups that have it. A number is a group's value's until `forget_unused` or `retain`.

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
        self._pairs = PairIndex()
        """The pairs of a group and one of the values."""
        self._counts: Ids = np.zeros((self._ways, 0), np.int64)
        self._scratch: Ids = np.zeros(0, np.int64)
        self._lists = KeyLists()
        self._listed = 0
        """So many numbers are in the lists of their groups: the others are added when lists are read."""

    def __len__(self) -> int:
        return self._pairs.size

    def numbers_of(self, groups: Ids, values: pa.RecordBatch) -> Ids:
        """The number of each value of each group; those that are new get the next ones."""
        known = len(self._index)
        of_values = self._index.ids(values)
        if len(self._index) > known:
            rows = np.empty(len(self._index) - known, np.int64)
            is_new = np.flatnonzero(of_values >= known)
            rows[of_values[is_new] - known] = is_new
            new = [with_one_zero(each) for each in take(values, from_numpy(rows)).columns]
            self._values.append(pa.RecordBatch.from_arrays(new, schema=self._schema))
        return self._numbered(groups, of_values)

    def _numbered(self, groups: Ids, of_values: Ids) -> Ids:
        numbers = self._pairs.ids(groups, of_values, len(self._index))
        if len(self) > len(self._scratch):
            more = max(len(self), 2 * len(self._scratch), 1024) - len(self._scratch)
            self._scratch = np.concatenate([self._scratch, np.zeros(more, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros((len(self._counts), more), np.int64)], axis=1)
        return numbers

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

    def first_of_each(self, numbers: Ids, weights: Weights | None, ways: Sequence[Flags | None]) -> Iterator[FirstRows]:
        """Counts values in all ways; gives for each way the rows by which a group comes to have a value, and those by
        which it loses one, one for each.

        Args:
            numbers: of the value of each row.
            ways: the rows that each way takes; None: all.
        """
        for way, flags in enumerate(ways):
            own = np.arange(len(numbers)) if flags is None else np.flatnonzero(flags)
            rows, _, before, after = self.count(numbers[own], None if weights is None else weights[own], way)
            changed = (before > 0) != (after > 0)
            yield own[rows[changed]], None if weights is None else np.where(after[changed] > 0, 1, -1).astype(np.int8)

    def counts(self, numbers: Ids, way: int = 0) -> Ids:
        """How often values are there."""
        found: Ids = self._counts[way, numbers]
        return found

    def of_groups(self, groups: Ids, way: int = 0) -> tuple[Ids, Ids]:
        """The numbers of the values that are there in these groups, in the order in which they first came; and for each
        the place of its group: (places, numbers)."""
        places, numbers = self._numbers_of_groups(groups)
        is_there = self._counts[way, numbers] > 0
        return places[is_there], numbers[is_there]

    def _numbers_of_groups(self, groups: Ids) -> tuple[Ids, Ids]:
        if self._listed < len(self):
            self._lists.add(self._pairs.firsts(slice(self._listed, None)), np.arange(self._listed, len(self)))
            self._listed = len(self)
        return self._lists.of(groups)

    def take(self, numbers: Ids) -> pa.RecordBatch:
        """The values of these numbers."""
        return self._values.take(self._pairs.seconds(numbers))

    # -- as the state of groups

    def grow(self, size: int) -> None:
        """Groups without values take no room."""

    def add(self, taken: Taken) -> None:
        """Counts the rows in the first way."""
        rows = taken.rows
        self.count(self.numbers_of(rows.groups[rows.places], taken.batch), rows.weights)
        self.forget_unused()

    def reset(self, groups: Ids) -> None:
        self._counts[:, self._numbers_of_groups(groups)[1]] = 0

    def retain(self, groups: Ids) -> None:
        self._rebuild(self._new_groups(groups))

    def _new_groups(self, groups: Ids) -> Ids:
        """The new number of each group, where these become 0, 1, ... and others are forgotten."""
        last = self._pairs.firsts(slice(None)).max(initial=0)
        new_groups = np.full(int(max(groups.max(initial=0), last)) + 1, -1, np.int64)
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
        size, groups = len(self), self._pairs.firsts(slice(None))
        groups = groups if new_groups is None else new_groups[groups]
        kept = np.flatnonzero(self._is_used() & (groups >= 0))
        of_values = self._pairs.seconds(kept)
        used = distinct(of_values)
        values, counts, groups = self._values.take(used), self._counts[:, kept], groups[kept]
        new_numbers = np.full(size, -1, np.int64)
        new_numbers[kept] = np.arange(len(kept))
        self._clear()
        self._last_count = len(kept)
        if len(kept):
            self._index.ids(values)
            self._values.append(values)
            self._numbered(groups, np.searchsorted(used, of_values))
            self._counts[:, : len(kept)] = counts
        return new_numbers

    # -- snapshots

    def capture(self, groups: Ids) -> Captured:
        kept = np.flatnonzero(self._is_used())
        of_values, chunks, schema = self._pairs.seconds(kept), self._values.chunks, self._schema
        counts = self._captured_counts(kept)

        def columns() -> Columns:
            used = distinct(of_values)
            values, places = taken_of(chunks, used) or schema.empty_table(), np.searchsorted(used, of_values)
            found: Columns = {f"value {name}": take_column(values.column(name), places) for name in schema.names}
            return found | {name: from_numpy(each) for name, each in counts.items()}

        return Captured(self._pairs.firsts(kept), columns)

    def _captured_counts(self, numbers: Ids) -> dict[str, Ids]:
        return {f"count {way}": each[numbers] for way, each in enumerate(self._counts)}

    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        arrays = [columns[f"value {field.name}"].cast(field.type) for field in self._schema]
        numbers = self.numbers_of(groups, pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._restore_counts(numbers, columns)

    def _restore_counts(self, numbers: Ids, columns: Mapping[str, pa.Array]) -> None:
        for way, counts in enumerate(self._counts):
            counts[numbers] = as_numpy(columns[f"count {way}"])


class SeenValues(ValueSets):
    """The values of groups from which nothing is taken back: not how often a group has a value is kept, but in which
    ways, a bit for each, so that one look says it for all (as Flink's distinct views do).

    Args:
        ways: `MOST_SEEN_WAYS` at most.
    """

    def __init__(self, types: Sequence[pa.DataType], ways: int) -> None:
        super().__init__(types)
        self._bits = ways

    def first_of_each(self, numbers: Ids, weights: Weights | None, ways: Sequence[Flags | None]) -> Iterator[FirstRows]:
        every = sum(1 << way for way, flags in enumerate(ways) if flags is None)
        bits = np.full(len(numbers), every, np.int64)
        for way, flags in enumerate(ways):
            if flags is not None:
                bits |= flags.astype(np.int64) << way
        new = self._see(numbers, bits)
        for way in range(len(ways)):
            yield np.flatnonzero(new & (1 << way)), None

    def _see(self, numbers: Ids, bits: Ids) -> Ids:
        """Remembers the ways in which each row has its value; gives those in which no row before it had."""
        seen = self._counts[0]
        new: Ids = bits & ~seen[numbers]
        left = np.flatnonzero(new)
        while len(left):
            # Of rows with one number the first one goes first; others may have what it does not.
            of_left = numbers[left]
            first = first_rows(of_left, self._scratch)
            seen[of_left[first]] |= new[left[first]]
            if len(first) == len(left):
                break
            is_later = np.ones(len(left), np.bool_)
            is_later[first] = False
            later = left[is_later]
            new[later] = bits[later] & ~seen[numbers[later]]
            left = later[new[later] != 0]
        return new

    def _captured_counts(self, numbers: Ids) -> dict[str, Ids]:
        return {SEEN: self._counts[0, numbers]}

    def _restore_counts(self, numbers: Ids, columns: Mapping[str, pa.Array]) -> None:
        if SEEN in columns:
            self._counts[0, numbers] = as_numpy(columns[SEEN])
            return
        for way in range(self._bits):  # as they are counted where rows are taken back
            self._counts[0, numbers] |= (as_numpy(columns[f"count {way}"]) > 0).astype(np.int64) << way

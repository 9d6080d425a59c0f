"""What is kept for each group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.large_columns import Column
from actors.keys.index import Ids
from actors.operators.aggregates.group_array import GroupArray
from actors.operators.tables.aggregates.states.arguments import Taken
from actors.operators.tables.aggregates.states.grouped_rows import GroupedRows
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

Columns = dict[str, Column]


class Captured:
    """Rows of state as they were at a barrier."""

    def __init__(self, groups: Ids, columns: Callable[[], Columns]) -> None:
        self.groups = groups
        """The group of each row."""
        self.columns = columns
        """May be called once, on any thread."""


class GroupState(ABC):
    """Base of what is kept for each of the groups 0, 1, ...; belongs to the task's thread."""

    @abstractmethod
    def grow(self, size: int) -> None:
        """Makes room for the groups 0 ... size - 1."""

    @abstractmethod
    def add(self, taken: Taken) -> None:
        """Adds rows, and takes others back, by their weights."""

    def merge(self, rows: GroupedRows, columns: Mapping[str, pa.Array]) -> None:
        """Adds what was captured elsewhere, where it has `columns`.

        Args:
            rows: the group of each row of the columns.
        """
        raise TypeError(f"{type(self).__name__} cannot be merged")

    @abstractmethod
    def reset(self, groups: Ids) -> None:
        """Makes distinct groups as if none of their rows had come."""

    @abstractmethod
    def retain(self, groups: Ids) -> None:
        """Forgets all other groups; these, which ascend, become 0, 1, ..."""

    @abstractmethod
    def capture(self, groups: Ids) -> Captured:
        """What is kept for these groups, which ascend, as it is now."""

    @abstractmethod
    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        """Adds what was captured of groups of which nothing is kept.

        Args:
            groups: the group of each row.
        """

    has_row_per_group = True
    """Whether what it captures is one row for each of the groups it is asked for, in their order."""
    columns: tuple[str, ...] = ()
    """The names of the columns that it captures, where that can be merged."""


class Arrays(GroupState):
    """Base of what is numbers, in an array for each name.

    Args:
        arrays: what type the numbers of each name have, and what they are for groups without rows.
    """

    def __init__(self, arrays: Mapping[str, tuple[npt.DTypeLike, object]]) -> None:
        self.columns = tuple(arrays)
        self._fills = {name: fill for name, (_, fill) in arrays.items()}
        self.arrays = {name: GroupArray(*each) for name, each in arrays.items()}
        self._size = 0

    def grow(self, size: int) -> None:
        self._size = max(size, self._size)
        for array in self.arrays.values():
            array.grow(size)

    def reset(self, groups: Ids) -> None:
        for name, array in self.arrays.items():
            array[groups] = self._fills[name]

    def retain(self, groups: Ids) -> None:
        self._size = len(groups)
        for array in self.arrays.values():
            array.replace(array[groups])

    def capture(self, groups: Ids) -> Captured:
        reads = {name: array.capture(self._size) for name, array in self.arrays.items()}
        return Captured(groups, lambda: {name: from_numpy(read()[groups]) for name, read in reads.items()})

    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        self.grow(int(groups.max(initial=-1)) + 1)
        for name, array in self.arrays.items():
            array[groups] = np.asarray(as_numpy(columns[name]))


def array_of(column: Column) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

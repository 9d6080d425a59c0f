"""What a column of accumulators is: the state of one built-in aggregate, for many accumulators at once.

State is in arrays indexed by the accumulators' numbers, or in tables with a column of these numbers.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.large_columns import Column
from actors.operators.aggregates.accumulators import Accumulators, Selection, grown, renumbered, selected
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

_MOST_IN_32_BITS = (1 << 31) - 1

_NO_COUNTS: npt.NDArray[np.int64] = np.zeros(0, np.int64)


class AggregatedRows:
    """The rows of a batch, as an aggregate of one column gets them: without those where the column is null.

    Attributes:
        accumulators: the accumulator of each row.
        values: the column, no nulls; None for an aggregate without a column.
    """

    __slots__ = ("_first_position", "_taken", "accumulators", "values")

    def __init__(self, accumulators: Accumulators, first_position: int, values: Any, taken: Any = None) -> None:
        """
        Args:
            first_position: the number of the batch's first row in order of arrival.
            taken: the indices of these rows in the batch; None: they are all of its rows.
        """
        self.accumulators = accumulators
        self.values = values
        self._first_position = first_position
        self._taken = taken

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The number of each row since the operator started, ascending."""
        if self._taken is not None:
            return self._taken + self._first_position  # type: ignore[no-any-return]
        return np.arange(self._first_position, self._first_position + len(self.accumulators), dtype=np.int64)

    def with_values(self, values: Any) -> AggregatedRows:
        """The same rows of another column."""
        return AggregatedRows(self.accumulators, self._first_position, values, self._taken)

    def take(self, indices: Any) -> AggregatedRows:
        """The rows with these indices, which ascend; only of all rows of a batch."""
        assert self._taken is None
        values = None if self.values is None else self.values.take(from_numpy(indices))
        return AggregatedRows(self.accumulators[indices], self._first_position, values, indices)


class ValueCounts:
    """How many values each accumulator has had. Aggregates share one for as long as they get the same rows.

    In 32 bits as long as these are enough: what is in them stays in a core's cache for longer.

    Attributes:
        array: by accumulator, int32 or int64.
    """

    def __init__(self, counts: npt.NDArray[np.int64] = _NO_COUNTS) -> None:
        self._most = int(counts.max(initial=0))
        """No accumulator has more."""
        self.array: npt.NDArray[Any] = counts.astype(np.int32 if self._most <= _MOST_IN_32_BITS else np.int64)

    def of(self, selection: Selection) -> npt.NDArray[np.int64]:
        """The counts of these accumulators; a copy."""
        return self.array[selection].astype(np.int64)

    def grow(self, size: int) -> None:
        """Makes room for the accumulators 0 ... size - 1."""
        self.array = grown(self.array, size, 0)

    def add(self, accumulators: Accumulators) -> None:
        """Counts one value more in the accumulator of each row."""
        self._expect(len(accumulators))
        if len(self.array) > 2 * len(accumulators):
            np.add.at(self.array, accumulators, self.array.dtype.type(1))
            return
        lowest = int(accumulators.min(initial=len(self.array)))
        # Leaving the lower accumulators out takes a pass over the rows.
        first = lowest if 4 * lowest > len(accumulators) else 0
        counted = np.bincount(accumulators - first if first else accumulators)
        self.array[first : first + len(counted)] += counted.astype(self.array.dtype, copy=False)

    def merge(self, other: ValueCounts, sources: Accumulators, targets: Accumulators) -> None:
        """Adds the other's count of `sources[i]` to that of `targets[i]` here; both may repeat."""
        added = other.array[sources]
        self._expect(int(added.sum(dtype=np.int64)))
        np.add.at(self.array, targets, added.astype(self.array.dtype, copy=False))

    def _expect(self, values: int) -> None:
        """Makes room for so many values more, all of which may be in one accumulator."""
        self._most += values
        if self._most > _MOST_IN_32_BITS and self.array.dtype != np.int64:
            self._most = int(self.array.max(initial=0)) + values
            if self._most > _MOST_IN_32_BITS:
                self.array = self.array.astype(np.int64)

    def renumber(self, old: Accumulators, new: Accumulators, size: int) -> None:
        """Keeps only the counts of the distinct accumulators `old`, of which `old[i]` is `new[i]` from now on."""
        self.array = renumbered(self.array, old, new, size, 0)

    def clear(self, selection: slice) -> None:
        """Sets the counts of these accumulators to 0."""
        self.array[selection] = 0

    def copy(self, size: int) -> ValueCounts:
        """The counts of the accumulators 0 ... size - 1, as far as there are any, as they are now."""
        copied = copy.copy(self)
        copied.array = self.array[:size].copy()
        return copied


class AccumulatorColumn(ABC):
    """The accumulators of one aggregate. Those that `grow` made room for are empty until something is added."""

    takes_narrower: ClassVar[bool] = False
    """Whether `add` also takes values of the types that the column was widened from; else they are cast before."""

    counts: ValueCounts | None = None
    """How many values each accumulator has had, if the column needs to know. Whoever has the column keeps the counts:
    it applies to them all that happens to accumulators here, and writes them into snapshots beside `columns`."""

    @abstractmethod
    def fresh(self) -> AccumulatorColumn:
        """A column of the same kind and type without accumulators."""

    @abstractmethod
    def grow(self, size: int) -> None:
        """Makes room for the accumulators 0 ... size - 1."""

    @abstractmethod
    def add(self, rows: AggregatedRows) -> None:
        """Adds each row to its accumulator. Raises AggregateTypeError where a result no longer fits its type."""

    @abstractmethod
    def merge(self, other: Any, sources: Accumulators, targets: Accumulators) -> None:
        """Adds what `sources[i]` of the other column has to `targets[i]` here; both may repeat. `other` is of the same
        class."""

    @abstractmethod
    def renumber(self, old: Accumulators, new: Accumulators, size: int) -> None:
        """Keeps only the distinct accumulators `old`, of which `old[i]` is `new[i]` from now on, and makes room for the
        accumulators 0 ... size - 1."""

    @abstractmethod
    def clear(self, selection: slice) -> None:
        """Makes these accumulators empty."""

    @abstractmethod
    def widened(self, arrow_type: pa.DataType) -> AccumulatorColumn:
        """The same state for values of that type, in the column that `make_column` makes for it; this one is not used
        any more.

        Raises:
            AggregateTypeError: a value in the state does not fit the type.
        """

    @abstractmethod
    def results(self, selection: Selection) -> Column:
        """The aggregate of each of these accumulators; null where nothing was added. In chunks where one array has no
        room."""

    # -- snapshots

    @abstractmethod
    def copy(self, size: int) -> AccumulatorColumn:
        """A copy of the accumulators 0 ... size - 1 as they are now. Quick: arrays are copied, entries are immutable
        and shared."""

    @abstractmethod
    def columns(self, selection: Selection) -> dict[str, pa.Array]:
        """The state of these distinct accumulators, a row for each. Any thread may call it on a copy."""

    @abstractmethod
    def load(self, columns: Mapping[str, pa.Array]) -> None:
        """Makes the rows that `columns` gave, of the same kind and type, the accumulators 0, 1, ... of this fresh
        column."""


class ArrayColumn(AccumulatorColumn):
    """Base of columns that have an element of some arrays per accumulator."""

    arrays: ClassVar[tuple[tuple[str, str], ...]]
    """For each array, the name of its column in snapshots and that of its attribute."""

    def fill(self, attribute: str) -> Any:
        """What an element of an empty accumulator is."""
        return 0

    def grow(self, size: int) -> None:
        for _, attribute in self.arrays:
            setattr(self, attribute, grown(getattr(self, attribute), size, self.fill(attribute)))

    def renumber(self, old: Accumulators, new: Accumulators, size: int) -> None:
        for _, attribute in self.arrays:
            setattr(self, attribute, renumbered(getattr(self, attribute), old, new, size, self.fill(attribute)))

    def clear(self, selection: slice) -> None:
        for _, attribute in self.arrays:
            getattr(self, attribute)[selection] = self.fill(attribute)

    def copy(self, size: int) -> Self:
        self.grow(size)
        copied = copy.copy(self)
        for _, attribute in self.arrays:
            setattr(copied, attribute, getattr(self, attribute)[:size].copy())
        return copied

    def columns(self, selection: Selection) -> dict[str, pa.Array]:
        return {name: from_numpy(selected(getattr(self, attribute), selection)) for name, attribute in self.arrays}

    def load(self, columns: Mapping[str, pa.Array]) -> None:
        for name, attribute in self.arrays:
            setattr(self, attribute, as_numpy(columns[name]).copy())

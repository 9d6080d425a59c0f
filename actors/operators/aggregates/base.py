"""What a columnar accumulator is: the state of one built-in aggregate for many groups at once.

Groups are *cells*: dense numbers that the operator gives to its (key, window) pairs. State is held in arrays indexed by
cell, or in tables with a cell column, never in a Python object per cell.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.large_columns import Column
from actors.columns.take import contiguous
from flinkray.batches.fixed_width import as_numpy, fixed_width, from_numpy
from flinkray.batches.merged_columns import cast_merged

Cells = npt.NDArray[np.int64]
"""Shape (rows,): a cell per row."""

Places = Cells | slice
"""Cells; a slice where each is the one after that before."""

Values = npt.NDArray[Any]

# Zeros of 16 or 32 MiB take no fresh memory until they are written over: an array of so many elements has room for as
# many at once, and need not be copied, page after page of fresh memory, each time that it doubles.
_WORTH_RESERVING = 1 << 17
_RESERVED = 1 << 22

_MOST_IN_32_BITS = (1 << 31) - 1

_NONE: npt.NDArray[np.int64] = np.zeros(0, np.int64)


class AggregateTypeError(Exception):
    """An aggregate cannot take this type, or a result does not fit; the operator adds where it happened."""


class Rows:
    """The rows of a batch, as an aggregate of one column gets them: without those where the column is null.

    Attributes:
        cells: the cell of each row.
        values: the column, no nulls; None for an aggregate without a column.
    """

    __slots__ = ("_first_position", "_picked", "cells", "values")

    def __init__(self, cells: Cells, first_position: int, values: Any, picked: Any = None) -> None:
        """Rows are numbered from `first_position` in order of arrival; `picked`: which these are, if not all."""
        self.cells = cells
        self.values = values
        self._first_position = first_position
        self._picked = picked

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The number of each row since the operator started, ascending."""
        if self._picked is not None:
            return self._picked + self._first_position  # type: ignore[no-any-return]
        return np.arange(self._first_position, self._first_position + len(self.cells), dtype=np.int64)

    def with_values(self, values: Any) -> Rows:
        """The same rows of another column."""
        return Rows(self.cells, self._first_position, values, self._picked)

    def take(self, rows: Any) -> Rows:
        """Some of the rows, ascending; of these that the batch has, not of some that were taken before."""
        assert self._picked is None
        values = None if self.values is None else self.values.take(from_numpy(rows))
        return Rows(self.cells[rows], self._first_position, values, rows)


class Counts:
    """How many values each cell has. Aggregates share one for as long as they get the same rows.

    In 32 bits as long as these are enough: what is in them stays in a core's cache for longer.

    Attributes:
        array: by cell, int32 or int64.
    """

    def __init__(self, counts: npt.NDArray[np.int64] = _NONE) -> None:
        self._most = int(counts.max(initial=0))
        """No cell has more."""
        self.array: npt.NDArray[Any] = counts.astype(np.int32 if self._most <= _MOST_IN_32_BITS else np.int64)

    def of(self, cells: Places) -> npt.NDArray[np.int64]:
        """Those of these cells; a copy."""
        return self.array[cells].astype(np.int64)

    def grow(self, size: int) -> None:
        """Makes room for the cells 0 ... size - 1."""
        self.array = grown(self.array, size, 0)

    def add(self, cells: Cells) -> None:
        """One value more in the cell of each row."""
        self._expect(len(cells))
        if len(self.array) > 2 * len(cells):
            np.add.at(self.array, cells, self.array.dtype.type(1))
            return
        lowest = int(cells.min(initial=len(self.array)))
        # Leaving the lower cells out takes a pass over the rows.
        first = lowest if 4 * lowest > len(cells) else 0
        counted = np.bincount(cells - first if first else cells)
        self.array[first : first + len(counted)] += counted.astype(self.array.dtype, copy=False)

    def merge(self, other: Counts, cells: Cells, targets: Cells) -> None:
        """As `ColumnAccumulator.merge`."""
        added = other.array[cells]
        self._expect(int(added.sum(dtype=np.int64)))
        np.add.at(self.array, targets, added.astype(self.array.dtype, copy=False))

    def _expect(self, values: int) -> None:
        """Makes room for so many values more, all of which may be in one cell."""
        self._most += values
        if self._most > _MOST_IN_32_BITS and self.array.dtype != np.int64:
            self._most = int(self.array.max(initial=0)) + values
            if self._most > _MOST_IN_32_BITS:
                self.array = self.array.astype(np.int64)

    def move(self, cells: Cells, targets: Cells, size: int) -> None:
        """As `ColumnAccumulator.move`."""
        self.array = moved(self.array, cells, targets, size, 0)

    def clear(self, cells: slice) -> None:
        """As `ColumnAccumulator.clear`."""
        self.array[cells] = 0

    def copy(self, size: int) -> Counts:
        """The cells 0 ... size - 1, as far as it has them, as they are now."""
        copied = copy.copy(self)
        copied.array = self.array[:size].copy()
        return copied


class ColumnAccumulator(ABC):
    """One aggregate. Cells that `grow` made room for are empty until something is added."""

    takes_narrower: ClassVar[bool] = False
    """Whether `add` also takes values of the types that it was widened from; else they are cast before."""

    counts: Counts | None = None
    """How many values its cells have, if it needs to know. Whoever has the accumulator keeps them: it tells them of all
    that happens here to cells, and writes them down beside `columns`."""

    @abstractmethod
    def fresh(self) -> ColumnAccumulator:
        """An accumulator of the same kind and type without cells."""

    @abstractmethod
    def grow(self, size: int) -> None:
        """Makes room for the cells 0 ... size - 1."""

    @abstractmethod
    def add(self, rows: Rows) -> None:
        """Raises AggregateTypeError where a result no longer fits its type."""

    @abstractmethod
    def merge(self, other: Any, cells: Cells, targets: Cells) -> None:
        """Adds other's `cells[i]` to `targets[i]` here; both may repeat. `other` is of the same class."""

    @abstractmethod
    def move(self, cells: Cells, targets: Cells, size: int) -> None:
        """Keeps only these distinct cells, `cells[i]` as `targets[i]`, and makes room for the cells 0 ... size - 1."""

    @abstractmethod
    def clear(self, cells: slice) -> None:
        """Makes these cells empty."""

    @abstractmethod
    def widened(self, arrow_type: pa.DataType) -> ColumnAccumulator:
        """The same state for values of that type, what `make_accumulator` gives for it; this one is not used any more.

        Raises:
            AggregateTypeError: a value that is kept does not fit the type.
        """

    @abstractmethod
    def results(self, cells: Places) -> Column:
        """The aggregate of each of these cells; null where nothing was added. In chunks where one array has no room."""

    # -- snapshots

    @abstractmethod
    def copy(self, size: int) -> ColumnAccumulator:
        """The cells 0 ... size - 1 as they are now. Quick: arrays are copied, entries are immutable and shared."""

    @abstractmethod
    def columns(self, cells: Places) -> dict[str, pa.Array]:
        """The state of these distinct cells, a row for each. Any thread may call it on a copy."""

    @abstractmethod
    def load(self, columns: Mapping[str, pa.Array]) -> None:
        """What `columns` gave of the same kind and type becomes the cells 0, 1, ... of this fresh accumulator."""


class ArrayAccumulator(ColumnAccumulator):
    """Base of those that have an element of some arrays per cell."""

    arrays: ClassVar[tuple[tuple[str, str], ...]]
    """(column in snapshots, attribute)"""

    def fill(self, attribute: str) -> Any:
        """What an element of an empty cell is."""
        return 0

    def grow(self, size: int) -> None:
        for _, attribute in self.arrays:
            setattr(self, attribute, grown(getattr(self, attribute), size, self.fill(attribute)))

    def move(self, cells: Cells, targets: Cells, size: int) -> None:
        for _, attribute in self.arrays:
            setattr(self, attribute, moved(getattr(self, attribute), cells, targets, size, self.fill(attribute)))

    def clear(self, cells: slice) -> None:
        for _, attribute in self.arrays:
            getattr(self, attribute)[cells] = self.fill(attribute)

    def copy(self, size: int) -> Self:
        self.grow(size)
        copied = copy.copy(self)
        for _, attribute in self.arrays:
            setattr(copied, attribute, getattr(self, attribute)[:size].copy())
        return copied

    def columns(self, cells: Places) -> dict[str, pa.Array]:
        return {name: from_numpy(picked(getattr(self, attribute), cells)) for name, attribute in self.arrays}

    def load(self, columns: Mapping[str, pa.Array]) -> None:
        for name, attribute in self.arrays:
            setattr(self, attribute, as_numpy(columns[name]).copy())


def is_fixed_width(arrow_type: pa.DataType) -> bool:
    """Whether values of the type are numbers to numpy: booleans, integers, floats and times."""
    types = pa.types
    is_time = types.is_temporal(arrow_type) and not types.is_interval(arrow_type)
    return bool(
        types.is_boolean(arrow_type) or types.is_integer(arrow_type) or types.is_floating(arrow_type) or is_time
    )


def to_numpy(values: pa.Array) -> Values:
    """Fixed-width values without nulls as int64, uint64 or float64; without a copy where they are that already."""
    raw = _raw(values)
    return fixed_width(raw, numpy_type(raw.type))


def _raw(values: pa.Array) -> pa.Array:
    types, arrow_type = pa.types, values.type
    if types.is_float64(arrow_type) or types.is_int64(arrow_type) or types.is_uint64(arrow_type):
        return values
    if types.is_floating(arrow_type):
        return values.cast(pa.float64())
    if types.is_boolean(arrow_type):
        return values.cast(pa.int8()).cast(pa.int64())
    if types.is_temporal(arrow_type) and arrow_type.bit_width == 32:
        return values.cast(pa.int32()).cast(pa.int64())
    return values.cast(pa.int64())


def cast_exactly(values: Any, arrow_type: pa.DataType) -> Any:
    """Values (an array, chunked or not) of a column whose type changed, in the type merged from all of its types.

    Raises:
        AggregateTypeError: one of them does not fit it.
    """
    try:
        return cast_merged(values, arrow_type)
    except pa.ArrowException as error:
        raise AggregateTypeError(
            f"the type of its column changed, and not every {values.type} fits {arrow_type} ({error}); cast it to one "
            "type on the operator that makes it, or set output_type= there"
        ) from error


def numpy_type(arrow_type: pa.DataType) -> np.dtype[Any]:
    """What `to_numpy` gives for the type."""
    if pa.types.is_floating(arrow_type):
        return np.dtype(np.float64)
    return np.dtype(np.uint64 if pa.types.is_uint64(arrow_type) else np.int64)


def to_arrow(values: Values, arrow_type: pa.DataType, empty: npt.NDArray[np.bool_]) -> pa.Array:
    """The way back from `to_numpy`; null where `empty`."""
    mask = empty if empty.any() else None
    array = from_numpy(values, is_null=mask)
    if array.type.equals(arrow_type):
        return array
    if pa.types.is_boolean(arrow_type):
        return pc.not_equal(array, 0)
    if pa.types.is_temporal(arrow_type) and arrow_type.bit_width == 32:
        array = array.cast(pa.int32())
    return array.cast(arrow_type)


def grown(array: Values, size: int, fill: Any) -> Values:
    """The array with at least `size` elements, new ones being `fill`; doubles, so that growing by little is cheap."""
    if size <= len(array):
        return array
    capacity = max(size, 2 * len(array), 64)
    if _is_zero(fill) and capacity >= _WORTH_RESERVING:
        capacity = max(capacity, _RESERVED)
    bigger = _filled(capacity, fill, array.dtype)
    bigger[: len(array)] = array
    return bigger


def _is_zero(fill: Any) -> bool:
    return not fill and fill is not None


def _filled(size: int, fill: Any, dtype: np.dtype[Any]) -> Values:
    return np.zeros(size, dtype) if _is_zero(fill) else np.full(size, fill, dtype)


def moved(array: Values, cells: Cells, targets: Cells, size: int, fill: Any) -> Values:
    """An array with `array[cells[i]]` at `targets[i]`, else `fill`, and at least `size` elements: as many as it has
    room for now, unless that is far more, since what is kept is mostly about to grow as large again."""
    result = _filled(len(array) if size <= len(array) <= 4 * size else size, fill, array.dtype)
    result[contiguous(targets)] = array[contiguous(cells)]
    return result


def picked(array: Values, cells: Places) -> Values:
    """A copy of the elements at these places."""
    return array[cells].copy() if isinstance(cells, slice) else array[cells]


def listed(places: Places) -> Cells:
    """The places one by one."""
    return np.arange(places.start, places.stop) if isinstance(places, slice) else places


def number_of(places: Places) -> int:
    """How many places these are."""
    return places.stop - places.start if isinstance(places, slice) else len(places)


def together(parts: Sequence[Cells]) -> Cells:
    """The parts in one; a single one as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)

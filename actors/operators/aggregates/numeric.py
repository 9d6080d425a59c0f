"""Accumulators of fixed-width columns: numpy arrays indexed by cell, updated with one kernel call per batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.ordering import order_by
from actors.operators.aggregates.base import (
    AggregateTypeError,
    ArrayAccumulator,
    Cells,
    ColumnAccumulator,
    Counts,
    Places,
    Rows,
    Values,
    cast_exactly,
    is_fixed_width,
    numpy_type,
    picked,
    to_arrow,
    to_numpy,
)
from actors.operators.aggregates.entries import BestAccumulator, DecimalSumAccumulator
from flinkray.batches.fixed_width import from_numpy

_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)


class CountAccumulator(ArrayAccumulator):
    """Rows, or non-null values of a column: its `counts`, and nothing besides."""

    arrays = ()
    counts: Counts

    def __init__(self) -> None:
        self.counts = Counts()

    def fresh(self) -> CountAccumulator:
        return CountAccumulator()

    def add(self, rows: Rows) -> None: ...

    def merge(self, other: CountAccumulator, cells: Cells, targets: Cells) -> None: ...

    def widened(self, arrow_type: pa.DataType) -> CountAccumulator:
        return self

    def results(self, cells: Places) -> pa.Array:
        return from_numpy(self.counts.of(cells))


class IntegerSumAccumulator(ArrayAccumulator):
    """Sums of integers and durations as int64, checked for overflow.

    The check costs nothing per row: `_bound` is at least the size of every sum, so as long as it cannot pass the
    int64 range by what a batch adds, no sum can. Only then are the sums looked at, and if need be added up exactly.
    """

    arrays = (("sum", "_sums"), ("filled", "_is_filled"))
    takes_narrower = True

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type
        self._sums = np.zeros(0, np.int64)
        self._is_filled = np.zeros(0, np.bool_)
        self._bound = 0

    def fresh(self) -> IntegerSumAccumulator:
        return IntegerSumAccumulator(self._type)

    def add(self, rows: Rows) -> None:
        self._add(rows.cells, _as_int64(rows.values))

    def merge(self, other: IntegerSumAccumulator, cells: Cells, targets: Cells) -> None:
        filled = other._is_filled[cells]
        self._add(targets[filled], other._sums[cells[filled]])

    def widened(self, arrow_type: pa.DataType) -> ColumnAccumulator:
        if pa.types.is_decimal(arrow_type):
            filled = np.flatnonzero(self._is_filled)
            exact = DecimalSumAccumulator(arrow_type)
            exact.add(Rows(filled, 0, from_numpy(self._sums[filled])))
            return exact
        if not pa.types.is_floating(arrow_type):
            return self
        sums = FloatSumAccumulator(is_mean=False)
        sums._sums, sums.counts = self._sums.astype(np.float64), Counts(self._is_filled.astype(np.int64))
        return sums

    def results(self, cells: Places) -> pa.Array:
        arrow_type = self._type if pa.types.is_duration(self._type) else pa.int64()
        return to_arrow(picked(self._sums, cells), arrow_type, ~self._is_filled[cells])

    def load(self, columns: Mapping[str, pa.Array]) -> None:
        super().load(columns)
        self._bound = _largest(self._sums)

    def _add(self, cells: Cells, values: npt.NDArray[np.int64]) -> None:
        if not len(cells):
            return
        added = _largest(values) * len(values)
        if self._bound + added > _INT64_MAX:
            self._bound = _largest(self._sums)
        if self._bound + added > _INT64_MAX:
            self._check_exactly(cells, values)
            added = _INT64_MAX - self._bound
        np.add.at(self._sums, cells, values)
        self._is_filled[cells] = True
        self._bound += added

    def _check_exactly(self, cells: Cells, values: npt.NDArray[np.int64]) -> None:
        distinct, inverse = np.unique(cells, return_inverse=True)
        # Halves of 32 bits cannot overflow when fewer than 2**31 of them are added.
        high, low = np.zeros((2, len(distinct)), np.int64)
        np.add.at(high, inverse, values >> 32)
        np.add.at(low, inverse, values & 0xFFFFFFFF)
        before = self._sums[distinct]
        for total in map(_total, before.tolist(), high.tolist(), low.tolist()):
            if not _INT64_MIN <= total <= _INT64_MAX:
                raise AggregateTypeError(
                    f"the sum {total} does not fit int64; cast the column to double or decimal128 before summing"
                )


def _total(before: int, high: int, low: int) -> int:
    return before + (high << 32) + low


def _largest(values: npt.NDArray[np.int64]) -> int:
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0


def _as_int64(values: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_uint64(values.type):
        try:
            values = values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise AggregateTypeError(f"a uint64 value does not fit an int64 sum ({error}); cast to double") from error
    return to_numpy(values)


class FloatSumAccumulator(ArrayAccumulator):
    """Sums of floats; with `is_mean`, means of any numbers (sums and counts)."""

    arrays = (("sum", "_sums"),)
    takes_narrower = True
    counts: Counts

    def __init__(self, is_mean: bool) -> None:
        self._is_mean = is_mean
        self._sums = np.zeros(0, np.float64)
        self.counts = Counts()

    def fresh(self) -> FloatSumAccumulator:
        return FloatSumAccumulator(self._is_mean)

    def add(self, rows: Rows) -> None:
        values = rows.values.cast(pa.float64(), safe=False) if pa.types.is_decimal(rows.values.type) else rows.values
        np.add.at(self._sums, rows.cells, to_numpy(values).astype(np.float64, copy=False))

    def merge(self, other: FloatSumAccumulator, cells: Cells, targets: Cells) -> None:
        np.add.at(self._sums, targets, other._sums[cells])

    def widened(self, arrow_type: pa.DataType) -> FloatSumAccumulator:
        return self

    def results(self, cells: Places) -> pa.Array:
        counts = self.counts.array[cells]
        sums = picked(self._sums, cells)
        return to_arrow(sums / np.maximum(counts, 1) if self._is_mean else sums, pa.float64(), counts == 0)


class ExtremeAccumulator(ArrayAccumulator):
    """Minimum or maximum. NaN counts only where there is nothing else, as in Arrow."""

    arrays = (("best", "_best"), ("filled", "_is_filled"))

    def __init__(self, arrow_type: pa.DataType, is_max: bool) -> None:
        self._type = arrow_type
        self._is_max = is_max
        dtype = numpy_type(arrow_type)
        if dtype.kind == "f":
            self._kernel: Any = np.fmax if is_max else np.fmin
            self._start: Any = np.nan
        else:
            limits = np.iinfo(dtype)
            self._kernel = np.maximum if is_max else np.minimum
            self._start = limits.min if is_max else limits.max
        self._best: Values = np.zeros(0, dtype)
        self._is_filled = np.zeros(0, np.bool_)

    def fill(self, attribute: str) -> Any:
        return self._start if attribute == "_best" else False

    def fresh(self) -> ExtremeAccumulator:
        return ExtremeAccumulator(self._type, self._is_max)

    def add(self, rows: Rows) -> None:
        self._kernel.at(self._best, rows.cells, to_numpy(rows.values))
        self._is_filled[rows.cells] = True

    def merge(self, other: ExtremeAccumulator, cells: Cells, targets: Cells) -> None:
        filled = other._is_filled[cells]
        self._kernel.at(self._best, targets[filled], other._best[cells[filled]])
        self._is_filled[targets[filled]] = True

    def widened(self, arrow_type: pa.DataType) -> ColumnAccumulator:
        filled = np.flatnonzero(self._is_filled)
        best = Rows(filled, 0, cast_exactly(self.results(filled), arrow_type))
        wider: ColumnAccumulator = (
            ExtremeAccumulator(arrow_type, self._is_max)
            if is_fixed_width(arrow_type)
            else BestAccumulator(arrow_type, "descending" if self._is_max else "ascending")
        )
        wider.grow(len(self._best))
        wider.add(best)
        return wider

    def results(self, cells: Places) -> pa.Array:
        return to_arrow(picked(self._best, cells), self._type, ~picked(self._is_filled, cells))


_NEVER = np.iinfo(np.int64).max


class EndAccumulator(ArrayAccumulator):
    """The first or the last value that arrived."""

    arrays = (("value", "_values"), ("position", "_positions"))

    def __init__(self, arrow_type: pa.DataType, is_last: bool) -> None:
        self._type = arrow_type
        self._is_last = is_last
        self._values: Values = np.zeros(0, numpy_type(arrow_type))
        self._positions = np.zeros(0, np.int64)
        """Of the first: as they are, of the last: negated, so that in both cases the lowest wins."""

    def fill(self, attribute: str) -> Any:
        return _NEVER if attribute == "_positions" else 0

    def fresh(self) -> EndAccumulator:
        return EndAccumulator(self._type, self._is_last)

    def add(self, rows: Rows) -> None:
        values = to_numpy(rows.values)
        if self._is_last:  # later rows are written over earlier ones
            self._values[rows.cells] = values
            self._positions[rows.cells] = -rows.positions
        else:
            empty = np.flatnonzero(self._positions[rows.cells] == _NEVER)[::-1]
            self._values[rows.cells[empty]] = values[empty]
            self._positions[rows.cells[empty]] = rows.positions[empty]

    def merge(self, other: EndAccumulator, cells: Cells, targets: Cells) -> None:
        positions = other._positions[cells]
        order = order_by(-positions)  # the winner of each target is written last
        order = order[positions[order] < self._positions[targets[order]]]
        self._values[targets[order]] = other._values[cells[order]]
        self._positions[targets[order]] = positions[order]

    def widened(self, arrow_type: pa.DataType) -> ColumnAccumulator:
        filled = np.flatnonzero(self._positions != _NEVER)
        positions = -self._positions[filled] if self._is_last else self._positions[filled]
        ends = Rows(filled, 0, cast_exactly(self.results(filled), arrow_type), positions)
        wider: ColumnAccumulator = (
            EndAccumulator(arrow_type, self._is_last)
            if is_fixed_width(arrow_type)
            else BestAccumulator(arrow_type, None, is_last=self._is_last)
        )
        wider.grow(len(self._positions))
        wider.add(ends)
        return wider

    def results(self, cells: Places) -> pa.Array:
        return to_arrow(picked(self._values, cells), self._type, picked(self._positions, cells) == _NEVER)

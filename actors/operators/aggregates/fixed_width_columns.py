"""Columns of accumulators over fixed-width values: numpy arrays, updated with one kernel call per batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.ordering import order_by
from actors.operators.aggregates.accumulator_column import AccumulatorColumn, AggregatedRows, ArrayColumn, ValueCounts
from actors.operators.aggregates.accumulators import Accumulators, Selection, Values, selected
from actors.operators.aggregates.entry_columns import BestColumn, DecimalMeanColumn, DecimalSumColumn
from actors.operators.aggregates.value_rules import (
    MOST_INT64,
    can_overflow,
    cast_exactly,
    check_sums,
    double_addends,
    extreme_of,
    int64_addends,
    is_fixed_width,
    largest_size,
    numpy_type,
    to_arrow,
    to_numpy,
)
from flinkray.batches.numpy_arrays import from_numpy


class CountColumn(ArrayColumn):
    """The number of rows, or of values that are not null. The state is `counts`, and nothing besides."""

    arrays = ()
    counts: ValueCounts

    def __init__(self) -> None:
        self.counts = ValueCounts()

    def fresh(self) -> CountColumn:
        return CountColumn()

    def add(self, rows: AggregatedRows) -> None: ...

    def merge(self, other: CountColumn, sources: Accumulators, targets: Accumulators) -> None: ...

    def widened(self, arrow_type: pa.DataType) -> CountColumn:
        return self

    def results(self, selection: Selection) -> pa.Array:
        return from_numpy(self.counts.of(selection))


class IntegerSumColumn(ArrayColumn):
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

    def fresh(self) -> IntegerSumColumn:
        return IntegerSumColumn(self._type)

    def add(self, rows: AggregatedRows) -> None:
        self._add(rows.accumulators, int64_addends(rows.values))

    def merge(self, other: IntegerSumColumn, sources: Accumulators, targets: Accumulators) -> None:
        filled = other._is_filled[sources]
        self._add(targets[filled], other._sums[sources[filled]])

    def widened(self, arrow_type: pa.DataType) -> AccumulatorColumn:
        if pa.types.is_decimal(arrow_type):
            filled = np.flatnonzero(self._is_filled)
            exact = DecimalSumColumn(arrow_type)
            exact.add(AggregatedRows(filled, 0, from_numpy(self._sums[filled])))
            return exact
        if not pa.types.is_floating(arrow_type):
            return self
        sums = FloatSumColumn(is_mean=False)
        sums._sums, sums.counts = self._sums.astype(np.float64), ValueCounts(self._is_filled.astype(np.int64))
        return sums

    def results(self, selection: Selection) -> pa.Array:
        arrow_type = self._type if pa.types.is_duration(self._type) else pa.int64()
        return to_arrow(selected(self._sums, selection), arrow_type, ~self._is_filled[selection])

    def load(self, columns: Mapping[str, pa.Array]) -> None:
        super().load(columns)
        self._bound = largest_size(self._sums)

    def _add(self, accumulators: Accumulators, values: npt.NDArray[np.int64]) -> None:
        if not len(accumulators):
            return
        added = largest_size(values) * len(values)
        if can_overflow(self._bound, added):
            self._bound = largest_size(self._sums)
        if can_overflow(self._bound, added):
            check_sums(self._sums, accumulators, values)
            added = MOST_INT64 - self._bound
        np.add.at(self._sums, accumulators, values)
        self._is_filled[accumulators] = True
        self._bound += added


class FloatSumColumn(ArrayColumn):
    """Sums of floats; with `is_mean`, means of any numbers (sums and counts)."""

    arrays = (("sum", "_sums"),)
    takes_narrower = True
    counts: ValueCounts

    def __init__(self, is_mean: bool) -> None:
        self._is_mean = is_mean
        self._sums = np.zeros(0, np.float64)
        self.counts = ValueCounts()

    def fresh(self) -> FloatSumColumn:
        return FloatSumColumn(self._is_mean)

    def add(self, rows: AggregatedRows) -> None:
        self._add(rows.accumulators, double_addends(rows.values))

    def merge(self, other: FloatSumColumn, sources: Accumulators, targets: Accumulators) -> None:
        self._add(targets, other._sums[sources])

    def _add(self, accumulators: Accumulators, addends: npt.NDArray[np.float64]) -> None:
        with np.errstate(all="ignore"):  # inf - inf is NaN, as in Python, and nothing that the user can mend
            np.add.at(self._sums, accumulators, addends)

    def widened(self, arrow_type: pa.DataType) -> AccumulatorColumn:
        if not pa.types.is_decimal(arrow_type):
            return self
        exact = DecimalMeanColumn(arrow_type)
        exact.add_doubles(from_numpy(self._sums))
        exact.counts = self.counts
        return exact

    def results(self, selection: Selection) -> pa.Array:
        counts = self.counts.array[selection]
        sums = selected(self._sums, selection)
        return to_arrow(sums / np.maximum(counts, 1) if self._is_mean else sums, pa.float64(), counts == 0)


class ExtremeColumn(ArrayColumn):
    """Minimum or maximum. NaN counts only where there is nothing else, as in Arrow."""

    arrays = (("best", "_best"), ("filled", "_is_filled"))

    def __init__(self, arrow_type: pa.DataType, is_max: bool) -> None:
        self._type = arrow_type
        self._is_max = is_max
        dtype = numpy_type(arrow_type)
        self._kernel, self._start = extreme_of(dtype, is_max)
        self._best: Values = np.zeros(0, dtype)
        self._is_filled = np.zeros(0, np.bool_)

    def fill(self, attribute: str) -> Any:
        return self._start if attribute == "_best" else False

    def fresh(self) -> ExtremeColumn:
        return ExtremeColumn(self._type, self._is_max)

    def add(self, rows: AggregatedRows) -> None:
        self._kernel.at(self._best, rows.accumulators, to_numpy(rows.values))
        self._is_filled[rows.accumulators] = True

    def merge(self, other: ExtremeColumn, sources: Accumulators, targets: Accumulators) -> None:
        filled = other._is_filled[sources]
        self._kernel.at(self._best, targets[filled], other._best[sources[filled]])
        self._is_filled[targets[filled]] = True

    def widened(self, arrow_type: pa.DataType) -> AccumulatorColumn:
        filled = np.flatnonzero(self._is_filled)
        best = AggregatedRows(filled, 0, cast_exactly(self.results(filled), arrow_type))
        wider: AccumulatorColumn = (
            ExtremeColumn(arrow_type, self._is_max)
            if is_fixed_width(arrow_type)
            else BestColumn(arrow_type, "descending" if self._is_max else "ascending")
        )
        wider.grow(len(self._best))
        wider.add(best)
        return wider

    def results(self, selection: Selection) -> pa.Array:
        return to_arrow(selected(self._best, selection), self._type, ~selected(self._is_filled, selection))


_NEVER = np.iinfo(np.int64).max


class FirstLastColumn(ArrayColumn):
    """The first or the last value that arrived."""

    arrays = (("value", "_values"), ("position", "_positions"))

    def __init__(self, arrow_type: pa.DataType, is_last: bool) -> None:
        self._type = arrow_type
        self._is_last = is_last
        self._values: Values = np.zeros(0, numpy_type(arrow_type))
        self._positions = np.zeros(0, np.int64)
        """The arrival number of each value; of the last value it is negated, so that the lowest number wins in both
        cases."""

    def fill(self, attribute: str) -> Any:
        return _NEVER if attribute == "_positions" else 0

    def fresh(self) -> FirstLastColumn:
        return FirstLastColumn(self._type, self._is_last)

    def add(self, rows: AggregatedRows) -> None:
        values = to_numpy(rows.values)
        if self._is_last:  # later rows are written over earlier ones
            self._values[rows.accumulators] = values
            self._positions[rows.accumulators] = -rows.positions
        else:
            empty = np.flatnonzero(self._positions[rows.accumulators] == _NEVER)[::-1]
            self._values[rows.accumulators[empty]] = values[empty]
            self._positions[rows.accumulators[empty]] = rows.positions[empty]

    def merge(self, other: FirstLastColumn, sources: Accumulators, targets: Accumulators) -> None:
        positions = other._positions[sources]
        order = order_by(-positions)  # the winner of each target is written last
        order = order[positions[order] < self._positions[targets[order]]]
        self._values[targets[order]] = other._values[sources[order]]
        self._positions[targets[order]] = positions[order]

    def widened(self, arrow_type: pa.DataType) -> AccumulatorColumn:
        filled = np.flatnonzero(self._positions != _NEVER)
        positions = -self._positions[filled] if self._is_last else self._positions[filled]
        ends = AggregatedRows(filled, 0, cast_exactly(self.results(filled), arrow_type), positions)
        wider: AccumulatorColumn = (
            FirstLastColumn(arrow_type, self._is_last)
            if is_fixed_width(arrow_type)
            else BestColumn(arrow_type, None, is_last=self._is_last)
        )
        wider.grow(len(self._positions))
        wider.add(ends)
        return wider

    def results(self, selection: Selection) -> pa.Array:
        return to_arrow(selected(self._values, selection), self._type, selected(self._positions, selection) == _NEVER)

"""What variances are computed from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.keys.index import Ids
from actors.operators.tables.aggregates.states.arguments import Taken
from actors.operators.tables.aggregates.states.group_state import Arrays
from actors.operators.tables.aggregates.states.grouped_rows import GroupedRows
from actors.operators.tables.aggregates.states.linear import Counts, FloatSums, doubles_of
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

Doubles = npt.NDArray[np.float64]


class Moments(Arrays):
    """How many numbers each group has, their mean, and the sum of the squares of what they differ from it.

    Unlike a sum of squares, that keeps its digits where numbers are far from zero and close to each other. Parts of a
    group are put together by the formula of Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for
    Computing Sample Variances" (1979), with what is taken back as rows of which there are -1.

    Args:
        counts, sums: of the same numbers. By them is restored what was kept as a sum of squares.
    """

    def __init__(self, counts: Counts, sums: FloatSums) -> None:
        super().__init__({"number": (np.int64, 0), "mean": (np.float64, 0.0), "squares": (np.float64, 0.0)})
        self._counts = counts
        self._sums = sums

    def add(self, taken: Taken) -> None:
        rows, numbers = taken.rows, doubles_of(taken)
        weights = np.ones(len(numbers)) if rows.weights is None else rows.weights.astype(np.float64)
        self._add(rows, weights, numbers, np.zeros(len(numbers)))

    def merge(self, rows: GroupedRows, columns: Mapping[str, pa.Array]) -> None:
        number, mean, squares = (as_numpy(columns[name]) for name in self.columns)
        self._add(rows, number.astype(np.float64), mean, squares)

    def _add(self, rows: GroupedRows, number: Doubles, mean: Doubles, squares: Doubles) -> None:
        groups, places = rows.groups, rows.places

        def sums(addends: Doubles) -> Doubles:
            return np.bincount(places, addends, len(groups)).astype(np.float64, copy=False)

        former, former_mean = (self.arrays[name][groups] for name in ("number", "mean"))
        total = former + sums(number).astype(np.int64)
        with np.errstate(all="ignore"):
            # Of numbers that are all the same, the mean is exactly that.
            origin, counted = np.zeros(len(groups)), np.flatnonzero(number)
            origin[places[counted]] = mean[counted]
            origin = np.where(former == 0, origin, former_mean)
            found = origin + sums(number * (mean - origin[places])) / total
            found[total == 0] = 0
            kept = self.arrays["squares"][groups] + former * np.square(former_mean - found)
            kept += sums(squares + number * np.square(mean - found[places]))
        kept[(total == 0) | ((total == 1) & ~np.isnan(kept))] = 0
        for name, values in zip(self.columns, (total, found, kept), strict=True):
            self.arrays[name][groups] = values

    def of(self, groups: Ids) -> Doubles:
        """The sums of squares; 0 where taking back has left less by rounding."""
        return np.maximum(self.arrays["squares"][groups], 0)

    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        super().restore(groups, columns if "number" in columns else self._of_sums(groups, columns["sum"]))

    def _of_sums(self, groups: Ids, squares: pa.Array) -> dict[str, pa.Array]:
        """What a sum of squares, as former versions kept it, comes to."""
        number = self._counts.of(groups)
        mean = self._sums.of(groups) / np.where(number == 0, 1, number)
        kept = as_numpy(squares).astype(np.float64) - number * np.square(mean)
        mean[number == 0] = kept[number <= 1] = 0  # what rounding has left of numbers that were taken back
        return {name: from_numpy(each) for name, each in zip(self.columns, (number, mean, kept), strict=True)}

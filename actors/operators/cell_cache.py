"""A shortcut from (slice, key) to cell for the slices that rows fall into just now."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from actors.operators.accumulator_base import Cells
from actors.state.key_index import Ids

UNKNOWN = -1
_SLICES = 8

# The table has a place for each key, so it pays only where batches are not much smaller than the number of keys.
_PLACES_PER_ROW = 8


class CellCache:
    """Cells of a few slices in a plain table, read with one gather per batch instead of a hash lookup per row.

    It may forget anything at any time: UNKNOWN means that the index has to be asked.
    """

    def __init__(self) -> None:
        self._table: npt.NDArray[np.int64] = np.empty((_SLICES, 0), np.int64)
        self._lines: dict[int, int] = {}
        """Slice start -> line of the table, least recently used first."""

    def places(self, starts: list[int], which: npt.NDArray[Any] | None, key_ids: Ids, keys: int) -> Cells | None:
        """Where in the table each row's cell is, for `read` and `write`; None where the cache is not worth it."""
        if len(starts) > _SLICES or keys * len(starts) > _PLACES_PER_ROW * len(key_ids):
            return None
        if keys > self._table.shape[1]:
            self.clear()
            self._table = np.empty((_SLICES, 2 * keys), np.int64)
        lines = np.array([self._line(start) for start in starts], np.int64) * self._table.shape[1]
        places: Cells = key_ids + (lines[0] if which is None else lines[which])
        return places

    def read(self, places: Cells) -> Cells:
        cells: Cells = self._table.ravel()[places]
        return cells

    def write(self, places: Cells, cells: Cells) -> None:
        self._table.ravel()[places] = cells

    def clear(self) -> None:
        self._lines.clear()

    def _line(self, slice_start: int) -> int:
        line = self._lines.pop(slice_start, None)
        if line is None:
            line = len(self._lines)
            if line == _SLICES:
                line = self._lines.pop(next(iter(self._lines)))
            self._table[line] = UNKNOWN
        self._lines[slice_start] = line
        return line

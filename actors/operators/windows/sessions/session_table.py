"""The cells of columnar sessions: what all look at who find, fire and keep sessions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from actors.keys.index import Ids
from actors.operators.aggregates.base import Cells, grown, moved
from actors.operators.windows.base.times import Times

Flags = npt.NDArray[np.bool_]

NO_CELL = -1
NO_CELLS: Cells = np.empty(0, np.int64)


class SessionCells:
    """A *cell* holds one session [start, end) of one key; cells are numbered in order of arrival, and never reused.

    Attributes:
        count: of all cells, with those that were let go of.
        key_ids, starts, ends, is_open, has_fired: by cell; there may be more elements than cells.
    """

    def __init__(self) -> None:
        self.count = 0
        self._closed_count = 0
        self.key_ids: Ids = NO_CELLS
        self.starts: Times = NO_CELLS
        self.ends: Times = NO_CELLS
        self.is_open: Flags = np.empty(0, np.bool_)
        self.has_fired: Flags = np.empty(0, np.bool_)

    @property
    def open_count(self) -> int:
        return self.count - self._closed_count

    @property
    def closed_count(self) -> int:
        """Of cells whose session is over, or part of another one, and that have not been squeezed out."""
        return self._closed_count

    def add(self, count: int) -> Cells:
        """So many new cells, which are open; their key, start and end are to be set."""
        first, self.count = self.count, self.count + count
        self.key_ids = grown(self.key_ids, self.count, 0)
        self.starts = grown(self.starts, self.count, 0)
        self.ends = grown(self.ends, self.count, 0)
        self.is_open = grown(self.is_open, self.count, True)
        self.has_fired = grown(self.has_fired, self.count, False)
        return np.arange(first, self.count)

    def close(self, cells: Cells) -> None:
        """These, distinct and open, are not sessions any more."""
        self.is_open[cells] = False
        self._closed_count += len(cells)

    def open(self) -> Cells:
        """All that are, in order."""
        return np.flatnonzero(self.is_open[: self.count])

    def squeeze(self, live: Cells) -> None:
        """Only these, which are the open ones, are kept, as cells 0, 1, ..."""
        count = len(live)
        places = np.arange(count)
        self.key_ids = moved(self.key_ids, live, places, count, 0)
        self.starts = moved(self.starts, live, places, count, 0)
        self.ends = moved(self.ends, live, places, count, 0)
        self.has_fired = moved(self.has_fired, live, places, count, False)
        self.is_open = np.ones(len(self.has_fired), np.bool_)
        self.count, self._closed_count = count, 0

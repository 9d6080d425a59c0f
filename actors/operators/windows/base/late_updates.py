"""Late rows that are still allowed: a window gives its result once more with each of them, as Flink's does.

Operators work on batches, and a result is one of all rows that were added before it. So where a batch has several rows
of one key that may each make a window fire again, it is cut: into parts in each of which such a row is the last of its
key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.columns.ordering import order_by
from actors.keys.index import Ids


class LateRows(Struct, frozen=True):
    """Which rows of a batch make windows fire again.

    Attributes:
        fires_again: by row.
        related: by row; rows with different numbers are in no window together.
    """

    fires_again: npt.NDArray[np.bool_]
    related: npt.NDArray[np.int64]

    def parts(self, key_ids: Ids) -> list[slice]:
        """As `parts_by_update`, where only rows that may be in one window matter to each other."""
        groups = key_ids * (int(self.related.max()) + 1) + self.related
        return parts_by_update(groups, self.fires_again)


def parts_by_update(groups: npt.NDArray[np.int64], fires_again: npt.NDArray[np.bool_]) -> list[slice]:
    """Cuts a batch so that in each part a row with which a window may fire again is the last of its group.

    Args:
        groups: of each row, such as the number of its key.
        fires_again: by row.
    Returns:
        The parts in order, each with neighbouring rows, as many as can be.
    """
    rows = len(groups)
    order = order_by(groups)
    following = np.full(rows, rows)
    is_same = groups[order[1:]] == groups[order[:-1]]
    following[order[:-1][is_same]] = order[1:][is_same]
    following[~fires_again] = rows
    # The first row, from each row on, that comes after such a row of its group.
    ends = np.minimum.accumulate(following[::-1])[::-1]
    parts, begin = [], 0
    while begin < rows:
        end = int(ends[begin])
        parts.append(slice(begin, end))
        begin = end
    return parts

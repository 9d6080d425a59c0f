"""Rows sorted by key and order, and the frame that each of them sees."""

from __future__ import annotations

from decimal import Decimal
from math import ceil, floor

import numpy as np
import numpy.typing as npt

from actors.columns.ordering import Indices, differs_from_previous, distinct, order_by
from actors.operators.tables.ranks.sort_codes import Codes
from flinkray.tables.plans.expressions import Constant, Frame, FrameBound

RangeValues = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
CARRIED, FORMER, DUE = 0, 1, 2


FARTHEST = 1 << 61
"""Above all values of a RANGE that are whole numbers; NULL is twice as far."""


class Arrangement:
    """Rows of three ages, sorted by key, age and order; rows that are equal in these keep their order.

    A key has one carried row at most, which stands for all that its former rows came to; frames that begin with a key's
    first row begin with it, and no other frame has it.

    Args:
        keys: the number of each row's key.
        ages: CARRIED, FORMER or DUE.
        codes: integers that ascend as the order has the rows.
        values: of each row, of which frames of a RANGE count so many back or forth; they ascend, too.
        unit: how much of the values is 1 of a frame: decimals are whole numbers of their last digit.
    """

    def __init__(self, keys: Indices, ages: Indices, codes: Codes, values: RangeValues | None, unit: int = 1) -> None:
        self._unit = unit
        self.order = order_by(keys, ages, *codes)
        self.keys, self.ages = keys[self.order], ages[self.order]
        self._values = None if values is None else values[self.order]
        rows = np.arange(len(keys))
        begins = differs_from_previous(self.keys)
        self.begin = np.maximum.accumulate(np.where(begins, rows, 0))
        """Where each row's key begins."""
        self.end = _ends(begins)
        self.real_begin = self.begin + (self.ages[self.begin] == CARRIED)
        is_real_begin = rows == self.real_begin
        is_next = [differs_from_previous(each[self.order]) for each in codes]
        self.is_peer_begin: Flags = np.logical_or.reduce([begins, is_real_begin, *is_next])
        self.peer_begin = np.maximum.accumulate(np.where(self.is_peer_begin, rows, 0))
        self.peer_end = _ends(self.is_peer_begin)
        self.rows = rows
        self.due = self.ages == DUE
        self._frames: dict[Frame, tuple[Indices, Indices]] = {}

    def frame(self, frame: Frame) -> tuple[Indices, Indices]:
        """The range [begin, end) of the rows that each row sees."""
        if frame not in self._frames:
            begin = self._bound(frame.start, frame.unit, is_end=False)
            end = self._bound(frame.end, frame.unit, is_end=True)
            self._frames[frame] = (begin, np.maximum(begin, np.minimum(end, self.end)))
        return self._frames[frame]

    def _bound(self, bound: FrameBound, unit: str, *, is_end: bool) -> Indices:
        if bound.offset is None:
            if bound.direction == "CURRENT ROW":
                ends = self.rows + 1 if unit == "ROWS" else self.peer_end
                return ends if is_end else self.rows if unit == "ROWS" else self.peer_begin
            return self.begin if bound.direction == "PRECEDING" else self.end
        sign = -1 if bound.direction == "PRECEDING" else 1
        if unit == "ROWS":
            found = self.rows + sign * offset_of(bound) + is_end
        else:
            found = self._by_value(sign * _constant(bound) * self._unit, is_end)
        return np.clip(found, self.real_begin, self.end)

    def _by_value(self, offset: Decimal | float, is_end: bool) -> Indices:
        """For each row the first one of its key whose value is at least that of the row and the offset; for an end,
        whose value is larger than that."""
        assert self._values is not None
        is_whole = self._values.dtype == np.int64
        whole = floor(offset) if is_end else ceil(offset)
        # So far are no two values from each other, and NULL is further.
        wanted = self._values + (min(max(whole, -FARTHEST), FARTHEST) if is_whole else float(offset))
        both = np.concatenate([self._values, wanted])
        known = distinct(both) if is_whole else np.unique(both)
        places, wanted_places = np.searchsorted(known, self._values), np.searchsorted(known, wanted)
        # A carried row comes before all others of its key, whatever its value.
        places[self.ages == CARRIED] = 0
        before_key = (np.cumsum(self.rows == self.begin) - 1) * len(known)
        found: Indices = np.searchsorted(before_key + places, before_key + wanted_places, "right" if is_end else "left")
        return found


def offset_of(bound: FrameBound) -> int:
    """How far away a bound is: rows, or milliseconds."""
    return int(_constant(bound))


def _constant(bound: FrameBound) -> Decimal | float:
    assert isinstance(bound.offset, Constant)
    found: Decimal | float = bound.offset.value
    return found


def _ends(begins: Flags) -> Indices:
    """Where what begins at these places ends, for each row."""
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(begins))
    found: Indices = np.repeat(ends, ends - starts)
    return found

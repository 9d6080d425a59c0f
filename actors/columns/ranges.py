"""Ranges of consecutive row indices expanded to the indices in them: what joins and lists take their rows with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
"""Shape (rows,): indices of rows."""


def pairs_of(begins: Indices, counts: Indices, most: int) -> Iterator[tuple[Indices, Indices]]:
    """Row i with each of its partners `begins[i] ... begins[i] + counts[i] - 1`, as arrays (row, partner).

    Args:
        most: pairs in one part. A row with more partners is in several parts, so that a key with many rows on both
            sides takes no more memory than others.
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for offset in range(0, total, most):
        until = min(offset + most, total)
        first, last = int(np.searchsorted(ends, offset, "right")), int(np.searchsorted(ends, until, "left"))
        some = slice(first, last + 1)
        starts = ends[some] - counts[some]
        repeats = np.minimum(ends[some], until) - np.maximum(starts, offset)
        rows = np.repeat(np.arange(first, last + 1), repeats)
        partners = np.arange(offset, until) + np.repeat(begins[some] - starts, repeats)
        yield rows, partners


def indices_of_ranges(begins: Indices, counts: Indices) -> Indices:
    """begins[0], begins[0] + 1, ... as many as counts[0] says, then those of the next range, and so on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    indices: Indices = np.arange(total) + np.repeat(begins - (ends - counts), counts)
    return indices

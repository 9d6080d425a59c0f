"""Coalescing the small batches of a thread that reads: a batch costs as much on its way as many rows do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from flinkray.batches.batch import FEW_ROWS
from flinkray.batches.sizes import data_bytes

Left = TypeVar("Left")
_ENOUGH_BYTES = 1 << 20
"""Batches are not coalesced into ones of more bytes."""
_LONGEST_MS = 20
"""After so much time the rows that have been read do not wait for further ones."""


def coalesced(
    parts: Iterable[tuple[pa.RecordBatch, Left]], batch_rows: int, now_ms: Callable[[], int]
) -> Iterator[tuple[pa.RecordBatch, Left]]:
    """The same rows in the same order, those of small batches in fewer ones.

    Args:
        parts: batches, each with what is left to be read after it.
        batch_rows: the number of rows that a batch aims at.
        now_ms: a clock in milliseconds.
    Yields:
        Batches, each with what is left after its last row.
    Raises:
        Exception: what `parts` raises, after the rows that were read before it.
    """
    enough = min(FEW_ROWS, batch_rows)
    few: list[tuple[pa.RecordBatch, Left]] = []
    rows = nbytes = began = 0
    try:
        for data, left in parts:
            size = data_bytes(data)
            if rows + data.num_rows > enough or nbytes + size > _ENOUGH_BYTES:
                yield from _concatenated(few)
            if not few:
                rows, nbytes, began = 0, 0, now_ms()
            few.append((data, left))
            rows, nbytes = rows + data.num_rows, nbytes + size
            del data  # while further rows are waited for, what was given is the consumer's alone
            if rows >= enough or nbytes >= _ENOUGH_BYTES or now_ms() - began >= _LONGEST_MS:
                yield from _concatenated(few)
    except Exception:
        yield from _concatenated(few)
        raise
    yield from _concatenated(few)


def _concatenated(few: list[tuple[pa.RecordBatch, Left]]) -> Iterator[tuple[pa.RecordBatch, Left]]:
    """The batches of `few` as one, or as they are where dictionaries have more values than there are indices.

    Empties the list, so that nobody but the consumer has them.
    """
    given = few[:]
    few.clear()
    if len(given) > 1:
        with contextlib.suppress(pa.ArrowException):
            given = [(pa.concat_batches([data for data, _ in given]), given[-1][1])]
    while given:
        yield given.pop(0)

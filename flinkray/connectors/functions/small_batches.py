"""Small batches, of a thread that reads, put together: a batch costs as much on its way as many rows do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from flinkray.batches.batch import FEW_ROWS

Left = TypeVar("Left")
_ENOUGH_BYTES = 1 << 20
_LONGEST_MS = 20
"""Rows that were read are not kept for further ones when so much time has passed."""


def together(
    parts: Iterable[tuple[pa.RecordBatch, Left]], batch_rows: int, now_ms: Callable[[], int]
) -> Iterator[tuple[pa.RecordBatch, Left]]:
    """The same rows, those of small batches in fewer ones, each with what is left after its last row.

    What reading raises comes behind the rows that were read before.
    """
    enough = min(FEW_ROWS, batch_rows)
    few: list[tuple[pa.RecordBatch, Left]] = []
    rows = nbytes = began = 0
    try:
        for data, left in parts:
            size = data.nbytes
            if rows + data.num_rows > enough or nbytes + size > _ENOUGH_BYTES:
                yield from _joined(few)
            if not few:
                rows, nbytes, began = 0, 0, now_ms()
            few.append((data, left))
            rows, nbytes = rows + data.num_rows, nbytes + size
            del data  # while further rows are waited for, what was given is the consumer's alone
            if rows >= enough or nbytes >= _ENOUGH_BYTES or now_ms() - began >= _LONGEST_MS:
                yield from _joined(few)
    except Exception:
        yield from _joined(few)
        raise
    yield from _joined(few)


def _joined(few: list[tuple[pa.RecordBatch, Left]]) -> Iterator[tuple[pa.RecordBatch, Left]]:
    """As one, and the list is empty; as they are where two dictionaries have more values than there are indices."""
    given = few[:]
    few.clear()
    if len(given) > 1:
        with contextlib.suppress(pa.ArrowException):
            given = [(pa.concat_batches([data for data, _ in given]), given[-1][1])]
    while given:
        yield given.pop(0)

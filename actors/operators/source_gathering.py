"""Puts small batches of a source together: what a batch costs on its way through a task is as much as 1,000 rows do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flinkray.batch import Batch, concat, is_same_layout
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceProgress

Polled = SourceBatch | SourceProgress | ReaderStatus

FEW_ROWS = 1024
LONGEST_MS = 1.0
"""How long rows wait for others, beside the poll that is under way: a reader that is slower than that is not waited for
a second time."""


def gathered(poll: Callable[[], Polled], batch_rows: int, now_ms: Callable[[], float]) -> Iterator[Polled]:
    """What a reader gives, at least one thing: small batches of one split that are there already come as one.

    All that was polled must be taken before the reader's state is looked at. What `poll` raises comes behind the rows
    that were polled before.

    Args:
        batch_rows: what a batch aims at; there are no larger ones because of this.
    """
    began = now_ms()
    polled = poll()
    enough = min(FEW_ROWS, batch_rows)
    if not isinstance(polled, SourceBatch) or polled.batch.num_rows >= enough:
        yield polled
        return
    parts, rows, following = [polled.batch], polled.batch.num_rows, None
    while rows < enough and now_ms() - began < LONGEST_MS:
        try:
            following = poll()
        except Exception:
            yield _joined(polled, parts)
            raise
        if not isinstance(following, SourceBatch) or not _fits(following, polled, batch_rows - rows):
            break
        parts.append(following.batch)
        rows += following.batch.num_rows
        following = None
    yield _joined(polled, parts)
    if following is not None:
        yield following


def _fits(following: SourceBatch, first: SourceBatch, room: int) -> bool:
    return (
        following.split_id == first.split_id
        and following.batch.num_rows <= room
        and is_same_layout(following.batch, first.batch)
    )


def _joined(first: SourceBatch, parts: list[Batch]) -> SourceBatch:
    return first if len(parts) == 1 else SourceBatch(concat(parts), first.split_id)

"""Coalesces small batches of a source: what a reader already has is polled until it makes a batch of some size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from flinkray.batches.batch import FEW_ROWS, Batch, concat, is_same_layout
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceProgress

Given = SourceBatch | SourceProgress | ReaderStatus
"""What one poll of a reader may give."""

LONGEST_MS = 1.0
"""How long rows wait for others, not counting the poll that is under way: a reader that takes longer for a poll is not
polled again."""


class PollResult(Struct, frozen=True):
    """What one poll of a reader gave, or several whose batches were coalesced."""

    given: Given
    finished_splits: tuple[str, ...] = ()
    """Splits that the reader has finished. They hold the watermark until `given` is emitted, which may be the last of
    one of them."""


def coalesced_polls(
    poll: Callable[[], PollResult], batch_rows: int, batch_bytes: int, now_ms: Callable[[], float]
) -> Iterator[PollResult]:
    """Polls a reader at least once; small batches of one split that it already has become one.

    All results must be consumed before the reader's state is looked at. What `poll` raises is raised behind the rows
    that were polled before.

    Args:
        batch_rows, batch_bytes: what a batch aims at; coalescing makes none larger.
    """
    began = now_ms()
    polled = poll()
    first = polled.given
    if not isinstance(first, SourceBatch):
        yield polled
        return
    enough, room = min(FEW_ROWS, batch_rows), batch_bytes - first.batch.nbytes
    parts, batches, rows = [polled], [first.batch], first.batch.num_rows
    following: PollResult | None = None
    while rows < enough and room > 0 and now_ms() - began < LONGEST_MS:
        try:
            following = poll()
        except Exception:
            yield _joined(first.split_id, parts, batches)
            raise
        given = following.given
        if not isinstance(given, SourceBatch) or given.split_id != first.split_id:
            break
        rows, room = rows + given.batch.num_rows, room - given.batch.nbytes
        if rows > batch_rows or room < 0 or not is_same_layout(given.batch, first.batch):
            break
        parts.append(following)
        batches.append(given.batch)
        following = None
    yield _joined(first.split_id, parts, batches)
    if following is not None:
        yield following


def _joined(split_id: str, parts: Sequence[PollResult], batches: Sequence[Batch]) -> PollResult:
    if len(parts) == 1:
        return parts[0]
    finished = tuple(split for part in parts for split in part.finished_splits)
    return PollResult(SourceBatch(concat(batches), split_id), finished)

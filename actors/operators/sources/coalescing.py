"""Puts small batches of a source together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from flinkray.batches.batch import FEW_ROWS, Batch, concat, is_same_layout
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceProgress

Given = SourceBatch | SourceProgress | ReaderStatus

LONGEST_MS = 1.0
"""How long rows wait for others, beside the poll that is under way: a reader that is slower than that is not waited for
a second time."""


class PollResult(Struct, frozen=True):
    """What polls of a reader gave."""

    given: Given
    finished_splits: tuple[str, ...] = ()
    """The reader is through with these. They hold the watermark until what was given has gone on, as it may be the
    last of one of them."""


def coalesced_polls(
    poll: Callable[[], PollResult], batch_rows: int, batch_bytes: int, now_ms: Callable[[], float]
) -> Iterator[PollResult]:
    """What a reader gives, at least one thing: small batches of one split that are there already come as one.

    All that was polled must be taken before the reader's state is looked at. What `poll` raises comes behind the rows
    that were polled before.

    Args:
        batch_rows, batch_bytes: what a batch aims at; there are no larger ones because of this.
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

"""Rows as server-sent events, and those that are kept for subscribers who come back."""

from __future__ import annotations

import re
from collections import deque

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.message_format import MessageFormat, encode_rows
from flinkray.errors import RecordError
from flinkray.types.rows import SHORT_STRINGS

COMMENT = b":\n\n"
"""Says nothing, and shows that the connection is there."""
GONE = b": events before these are gone\n\n"
_LINE_BREAK = b"\r\n|\r|\n"


def events_of(message_format: MessageFormat, batch: Batch, series: str, first: int, where: str) -> pa.Array:
    """An event for each row (large_binary): its id, in a changelog its kind as the event's name, and its message.

    Args:
        series: what ids begin with; `first` is the number of the first row's.
        where: operator and subtask, for errors.
    Raises:
        RecordError: a row has no message, or one that is no text.
    """
    try:
        messages = encode_rows(message_format, batch.data, batch.kinds).cast(pa.large_string()).cast(pa.large_binary())
    except (ValueError, pa.ArrowException) as error:
        raise RecordError(f"{where}: a row cannot be written as an event, which is text: {error}") from error
    if pc.any(pc.match_substring_regex(messages, _LINE_BREAK)).as_py():
        messages = pc.replace_substring_regex(messages, _LINE_BREAK, b"\ndata: ")
    numbers = from_numpy(np.arange(first, first + batch.num_rows)).cast(pa.large_string()).cast(pa.large_binary())
    parts = [_text(f"id: {series}-"), numbers]
    if batch.kinds is not None:
        names = pa.array(SHORT_STRINGS, pa.large_binary()).take(batch.kinds)
        parts += [_text("\nevent: "), names]
    return pc.binary_join_element_wise(*parts, _text("\ndata: "), messages, _text("\n\n"), _text(""))


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text.encode(), pa.large_binary())


def together(events: pa.Array) -> bytes:
    """The events as they are sent."""
    if not len(events):
        return b""
    _, offsets, data = events.buffers()
    ends = np.frombuffer(offsets, np.int64)[events.offset : events.offset + len(events) + 1]
    return bytes(memoryview(data)[int(ends[0]) : int(ends[-1])])


class History:
    """The last events of a series.

    Args:
        size: how many are kept; some more may be.
    """

    def __init__(self, series: str, size: int) -> None:
        self.series = series
        self._size = size
        self._kept: deque[tuple[int, pa.Array]] = deque()
        """With the number of the first."""
        self._count = 0
        self.next = 0
        """The number of the next event."""

    def add(self, events: pa.Array) -> None:
        self._kept.append((self.next, events))
        self.next += len(events)
        self._count += len(events)
        while self._count - len(self._kept[0][1]) >= self._size:
            self._count -= len(self._kept.popleft()[1])
        excess = self._count - self._size
        if excess > 0:
            first, oldest = self._kept[0]
            self._kept[0] = (first + excess, oldest.slice(excess))
            self._count = self._size

    def since(self, last_id: str) -> bytes:
        """What came after the event of that id, as it is sent; behind a remark where some of that may be gone: of
        another series, or older than what is kept, all that is kept."""
        found = re.fullmatch(rf"{re.escape(self.series)}-(\d{{1,18}})", last_id)
        wanted = int(found[1]) + 1 if found else -1
        oldest = self.next - self._count
        parts = [] if oldest <= wanted <= self.next else [GONE]
        if not parts:
            oldest = wanted
        parts += [together(events.slice(max(0, oldest - first))) for first, events in self._kept]
        return b"".join(parts)

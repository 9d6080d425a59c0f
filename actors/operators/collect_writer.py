"""Sends the rows of a collecting sink to the driver, by way of its coordinator."""

from __future__ import annotations

from collections import deque

from actors.messages import RowsCollected
from actors.operators.base import OperatorContext
from flinkray.batch import Batch, concat, is_same_layout
from flinkray.connectors.sink import SinkWriter

# Messages that a collecting sink has under way to the driver. Their rows wait in the JobMaster's memory, so it is few;
# more than one, so that the next is there when the driver comes for more.
COLLECT_WINDOW = 4

# A round trip to the driver takes some 20 ms, however few rows it carries: the rows that wait for it go together, even
# where the job's own batches are tiny.
COLLECT_ROWS = 8_192


class CollectWriter(SinkWriter):
    """Sends rows to the collect coordinator, at most COLLECT_WINDOW messages ahead of the driver.

    Rows that come while the window is full wait and are put together, up to COLLECT_ROWS. Once those are there too, the
    writer is not available. At the end of input everything is sent: the rows are in memory anyway.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._waiting: deque[Batch] = deque()
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._next_sequence = 0
        self._taken = 0
        """Messages that the driver has."""

    @property
    def is_available(self) -> bool:
        return self._waiting_rows < COLLECT_ROWS and self._waiting_bytes < self._context.batch_bytes

    def write(self, batch: Batch) -> None:
        # The driver sees the rows' values only.
        values = Batch(batch.data, batch.kind)
        self._waiting.append(values)
        self._waiting_rows += values.num_rows
        self._waiting_bytes += values.nbytes
        self._send(COLLECT_WINDOW)

    def on_rows_taken(self, sequence: int) -> None:
        """The driver has taken everything up to this sequence."""
        self._taken = max(self._taken, sequence + 1)
        self._send(COLLECT_WINDOW)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            self._send(None)

    def close(self) -> None:
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        assert self._taken <= self._next_sequence, "the driver took what was never sent"
        assert self._waiting_rows == sum(batch.num_rows for batch in self._waiting), "waiting rows are counted wrongly"
        assert self._waiting_bytes == sum(batch.nbytes for batch in self._waiting), "waiting bytes are counted wrongly"

    def _send(self, window: int | None) -> None:
        while self._waiting and (window is None or self._next_sequence - self._taken < window):
            batch = self._next_batch()
            event = RowsCollected(self._context.subtask_index, self._next_sequence, batch)
            self._next_sequence += 1
            self._context.send_to_coordinator(event)

    def _next_batch(self) -> Batch:
        first = self._waiting.popleft()
        batches, rows, nbytes = [first], first.num_rows, first.nbytes
        while self._waiting:
            following = self._waiting[0]
            rows_then, nbytes_then = rows + following.num_rows, nbytes + following.nbytes
            if rows_then > COLLECT_ROWS or nbytes_then > self._context.batch_bytes:
                break
            if not is_same_layout(first, following):
                break
            batches.append(self._waiting.popleft())
            rows, nbytes = rows_then, nbytes_then
        self._waiting_rows -= rows
        self._waiting_bytes -= nbytes
        return concat(batches)

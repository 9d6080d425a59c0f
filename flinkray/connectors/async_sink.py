"""The base of sinks that send requests: rows are gathered, sent together, and sent again where that failed."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.request_buffer import Request, RequestBuffer, RequestLimits
from flinkray.connectors.sink import SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import ConnectorError

FIRST_PAUSE_MS = 100
"""How long nothing is sent after a request that failed, the first time; then twice as long for each attempt."""
LONGEST_PAUSE_MS = 30_000


class SendAgain(Exception):
    """What `AsyncSinkWriter.send` raises where rows have to be sent again, and the system has said why, or when.

    Args:
        reason: for the error of rows that are tried too often: "... could not be sent, the last time because <reason>".
        rows: the indices of these rows; None: all of the request.
        after_ms: nothing is sent for so many milliseconds, where that is longer than the pause would be anyway.
    """

    def __init__(self, reason: str, rows: Sequence[int] | None = None, after_ms: float = 0) -> None:
        super().__init__(reason, rows, after_ms)
        self.reason = reason
        self.rows = rows
        self.after_ms = after_ms


class AsyncSinkWriter(SinkWriter):
    """Sends rows with a client of asyncio's (Flink's AsyncSinkWriter); a subclass says how, in `send`.

    At least once: a checkpoint completes when all rows before it were sent, and after a failure those since the last
    one are sent again. Requests are not in order where several are under way or some fail.

    Args:
        context: as `create_writer` got it.
        limits: how rows are gathered, and how much may be under way.
    """

    def __init__(self, context: SinkWriterContext, limits: RequestLimits | None = None) -> None:
        self._context = context
        self._limits = limits or RequestLimits()
        self._buffer = RequestBuffer(self._limits)
        self._in_flight = 0
        self._rows_in_flight = 0
        self._allowed = self._limits.max_in_flight
        """How many requests may be under way: half as many after each that failed, one more after each that did not."""
        self._paused_until = 0.0
        """By the task's clock; 0: nothing has failed, or the pause is over."""
        self._has_timer = False
        context.gauge_function("requests_in_flight", lambda: float(self._in_flight))

    @abstractmethod
    async def send(self, rows: pa.RecordBatch) -> Sequence[int] | None:
        """Sends rows in one request. Called on an event loop of the writer's own, several at a time.

        Returns:
            The indices of rows that have to be sent again; None or empty: all are done.

        Raises:
            SendAgain: some rows have to be sent again, for a reason, or after a pause.
            OSError, TimeoutError: all rows have to be sent again.
            Exception: they never can be sent; the job fails.
        """

    async def close_client(self) -> None:
        """Releases what `send` uses, on its event loop."""

    @property
    def is_available(self) -> bool:
        return self._buffer.num_rows + self._rows_in_flight < self._limits.max_buffered_rows

    def write(self, batch: Batch) -> None:
        self._buffer.add(batch.data)
        while self._may_send and self._buffer.has_full_request:
            self._send_next()
        self._arm_timer()

    def flush(self, end_of_input: bool) -> None:
        while self._buffer.num_rows or self._in_flight:
            while self._may_send and self._buffer.num_rows:
                self._send_next()
            self._context.yield_to_mailbox()

    def close(self) -> None:
        self._context.end_async(self.close_client())

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _may_send(self) -> bool:
        return self._in_flight < self._allowed and not self._paused_until

    def _send_next(self) -> None:
        request = self._buffer.next()
        self._in_flight += 1
        self._rows_in_flight += request.rows.num_rows
        self._context.count("requests_sent")
        self._context.run_async(
            lambda: self.send(request.rows), lambda failed, error: self._answered(request, failed, error)
        )

    def _answered(self, request: Request, failed: Sequence[int] | None, error: BaseException | None) -> None:
        self._in_flight -= 1
        self._rows_in_flight -= request.rows.num_rows
        if isinstance(error, SendAgain):
            rows = range(request.rows.num_rows) if error.rows is None else error.rows
            self._retry(request, list(rows), error.reason, error.after_ms)
        elif isinstance(error, OSError | TimeoutError | asyncio.TimeoutError):
            self._retry(request, list(range(request.rows.num_rows)), repr(error))
        elif error is not None:
            raise error
        elif failed:
            self._retry(request, list(failed), "the system refused them")
        else:
            self._allowed = min(self._allowed + 1, self._limits.max_in_flight)
        self._go_on()

    def _retry(self, request: Request, failed: list[int], reason: str, after_ms: float = 0) -> None:
        if request.attempt >= self._limits.max_attempts:
            raise ConnectorError(
                f"{subtask_label(self._context)}: {len(failed)} rows could not be sent in "
                f"{request.attempt} attempts, the last time because {reason}; see to it that the system answers, or "
                "raise RequestLimits(max_attempts=...)"
            )
        self._context.count("rows_sent_again", len(failed))
        self._buffer.put_back(request, failed)
        self._allowed = max(1, self._allowed // 2)
        own_pause = min(FIRST_PAUSE_MS * 2 ** (request.attempt - 1), LONGEST_PAUSE_MS)
        self._pause(max(own_pause, after_ms))

    def _pause(self, pause_ms: float) -> None:
        until = self._context.now_ms() + pause_ms
        if until > self._paused_until:
            self._paused_until = until
            self._context.call_later(pause_ms, lambda: self._end_pause(until))

    def _end_pause(self, until: float) -> None:
        if until == self._paused_until:
            self._paused_until = 0.0
            self._go_on()

    def _go_on(self) -> None:
        """Sends what need not wait for more rows, or has waited long enough."""
        while self._may_send and self._buffer.has_full_request:
            self._send_next()
        self._arm_timer()

    def _arm_timer(self) -> None:
        if self._buffer.num_rows and not self._has_timer:
            self._has_timer = True
            self._context.call_later(self._limits.max_time_in_buffer_ms, self._on_time)

    def _on_time(self) -> None:
        self._has_timer = False
        if self._may_send and self._buffer.num_rows:
            self._send_next()
        self._arm_timer()

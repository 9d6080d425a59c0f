"""Rows that wait to be sent, and what goes into the next request."""

from __future__ import annotations

from collections import deque

import pyarrow as pa
from msgspec import Struct

from flinkray.errors import InvalidProgramError


class RequestLimits(Struct, frozen=True, kw_only=True):
    """How rows are gathered to requests, and how many of those there may be at a time.

    Raises:
        InvalidProgramError: a limit is below one.
    """

    max_rows: int = 500
    """Rows of a request."""
    max_bytes: int = 1 << 20
    """Bytes of a request, as Arrow counts them; a single row may have more."""
    max_in_flight: int = 16
    """Requests that have no answer yet. Fewer are made while requests fail."""
    max_buffered_rows: int = 10_000
    """Rows that wait or have no answer yet, upon which no more are taken."""
    max_time_in_buffer_ms: int = 1_000
    """How long a row waits for others to share its request."""
    max_attempts: int = 10
    """How often a row is sent before the job fails."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise InvalidProgramError(f"RequestLimits({name}=...) is at least 1, not {getattr(self, name)}")


class Request(Struct, frozen=True):
    """Rows that are sent together."""

    rows: pa.RecordBatch
    attempt: int
    """1 the first time."""


class RequestBuffer:
    """Rows in the order in which they came; those that failed are in front of the others, and stay together."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._fresh: deque[pa.RecordBatch] = deque()
        self._failed: deque[Request] = deque()
        self.num_rows = 0
        """Rows in the buffer."""
        self._nbytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that have not been sent yet."""
        if rows.num_rows:
            self._fresh.append(rows)
            self.num_rows += rows.num_rows
            self._nbytes += rows.nbytes

    def put_back(self, request: Request, failed: list[int]) -> None:
        """The rows of a request that have to be sent again."""
        rows = request.rows if len(failed) == request.rows.num_rows else request.rows.take(pa.array(failed, pa.int64()))
        self._failed.append(Request(rows, request.attempt + 1))
        self.num_rows += rows.num_rows

    @property
    def has_full_request(self) -> bool:
        """Whether the next request need not wait for more rows."""
        fresh_rows = self.num_rows - sum(request.rows.num_rows for request in self._failed)
        return bool(self._failed) or fresh_rows >= self._limits.max_rows or self._nbytes >= self._limits.max_bytes

    def next(self) -> Request:
        """Takes the rows of the next request; there are some."""
        request = self._failed.popleft() if self._failed else Request(self._take_fresh(), 1)
        self.num_rows -= request.rows.num_rows
        return request

    def _take_fresh(self) -> pa.RecordBatch:
        """Rows of one schema, as many as a request may have."""
        limits, schema = self._limits, self._fresh[0].schema
        taken: list[pa.RecordBatch] = []
        rows = nbytes = 0
        while self._fresh and self._fresh[0].schema.equals(schema):
            batch = self._fresh.popleft()
            row_bytes = max(1, batch.nbytes // batch.num_rows)
            fits = min(limits.max_rows - rows, (limits.max_bytes - nbytes) // row_bytes)
            count = min(batch.num_rows, max(fits, 0 if taken else 1))
            if count < batch.num_rows:
                self._fresh.appendleft(batch.slice(count))
            if count:
                taken.append(batch.slice(0, count))
                rows, nbytes = rows + count, nbytes + count * row_bytes
            if count < batch.num_rows:
                break
        self._nbytes = sum(batch.nbytes for batch in self._fresh)
        return taken[0] if len(taken) == 1 else pa.concat_batches(taken)

"""Sends rows as requests, several at a time."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.connectors.async_sink import AsyncSinkWriter, SendAgain
from flinkray.connectors.http.clients import (
    HttpError,
    aiohttp,
    answer_of,
    explained,
    is_done,
    is_for_later,
    is_transient,
    reason_of,
    refuses_rows,
    retry_after_ms,
    shown,
    without_address,
)
from flinkray.connectors.http.target import HttpTarget
from flinkray.connectors.request_buffer import RequestLimits
from flinkray.connectors.sink import SinkWriterContext

log = logging.getLogger(__name__)

_TOO_LARGE = 413


class _Answer(Struct, frozen=True):
    status: int
    what: str = ""
    """What a refusal means, in words."""
    retry_after_ms: int = 0


class RequestWriter(AsyncSinkWriter):
    """Sends the messages of rows.

    Args:
        where: operator and subtask, for errors.
    """

    def __init__(self, context: SinkWriterContext, limits: RequestLimits, target: HttpTarget, where: str) -> None:
        super().__init__(context, limits)
        self._target = target
        self._where = where
        self._what = f"HttpSink cannot {target.method} rows to {shown(target.url)}"
        self._session: Any = None
        self._has_warned = False
        self._aiohttp = aiohttp()

    def write(self, batch: Batch) -> None:
        """Makes messages of the rows before they are gathered, as a call costs as much for a batch as for a request."""
        messages = self._target.messages(batch.data, self._where)
        super().write(Batch(pa.RecordBatch.from_arrays([messages], ["message"])))

    async def send(self, rows: pa.RecordBatch) -> None:
        """Sends messages in one request, or each in one of its own, one after another. Where the server finds one too
        large, or refuses rows that may be skipped, the halves are sent, so that only the rows that it means are left.
        """
        messages = rows.column(0)
        size = 1 if self._target.body == "row" else len(messages)
        parts = deque((first, messages.slice(first, size)) for first in range(0, len(messages), size))
        while parts:
            first, part = parts[0]
            answer = await self._ask(part, parts)
            if is_for_later(answer.status):
                raise SendAgain(f"{self._what}: {answer.what}", _rows_of(parts), answer.retry_after_ms)
            parts.popleft()
            if is_done(answer.status):
                continue
            skips = self._target.skips_refused and refuses_rows(answer.status)
            if len(part) > 1 and (skips or answer.status == _TOO_LARGE):
                half = len(part) // 2
                parts.extendleft([(first + half, part.slice(half)), (first, part.slice(0, half))])
            elif skips:
                self._skip(len(part), answer)
            else:
                raise HttpError(f"{self._where}: {self._what}: {answer.what}")

    async def close_client(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _ask(self, messages: pa.Array, parts: deque[tuple[int, pa.Array]]) -> _Answer:
        target = self._target
        if self._session is None:
            timeout = self._aiohttp.ClientTimeout(total=target.timeout_ms / 1_000)
            connections = self._aiohttp.TCPConnector(limit=0)  # the limit of requests under way is one already
            self._session = self._aiohttp.ClientSession(
                timeout=timeout, connector=connections, headers=target.all_headers
            )
        body = target.body_of(messages)
        try:
            async with self._session.request(target.method, target.url, data=body, allow_redirects=False) as response:
                text = await answer_of(response)
                if is_done(response.status):
                    return _Answer(response.status)
                pause = retry_after_ms(response.headers.get("Retry-After"), self._context.now_ms())
                words = explained(response.status, text or response.reason or "", response.headers.get("Location"))
                return _Answer(response.status, words, pause)
        except Exception as error:
            what = f"{self._what}: {reason_of(error, target.timeout_ms)}"
            if not is_transient(error):
                raise HttpError(f"{self._where}: {what}") from without_address(error)
            raise SendAgain(what, _rows_of(parts)) from without_address(error)

    def _skip(self, rows: int, answer: _Answer) -> None:
        self._context.count("rows_skipped", rows)
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s: %s: %s; they are left out, as others will be without a word (rows_skipped counts them)",
                self._where,
                self._what,
                answer.what,
            )


def _rows_of(parts: deque[tuple[int, pa.Array]]) -> list[int]:
    """The indices of the rows of all parts."""
    return [index for first, part in parts for index in range(first, first + len(part))]

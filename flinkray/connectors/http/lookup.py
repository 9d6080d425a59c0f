"""Services that are asked for rows by key, as lookup joins of SQL do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.message_format import decode_each
from flinkray.connectors.http.bodies import json_values
from flinkray.connectors.http.clients import (
    HttpError,
    aiohttp,
    checked_headers,
    checked_url,
    explained,
    is_done,
    is_for_later,
    is_transient,
    reason_of,
    shown,
    without_address,
)
from flinkray.connectors.lookup import LookupCache, LookupReader, LookupTable
from flinkray.errors import InvalidProgramError, operator_label

_NAME = "HttpTable"
_AT_A_TIME = 16
_PAUSES_S = (0.1, 0.5, 2.0)
"""Before each further attempt."""
_NOTHING = (204, 404)


class HttpTable(LookupTable):
    """A service that answers GET requests with JSON: an object or an array of them for the key in the query; 404, 204,
    null and an empty array are no row.

    Args:
        url: where it is; the key's columns are added to the query.
        schema: all columns of the table.
        headers, timeout_ms: as of `HttpSink`.
        cache: what is remembered of it.
    """

    def __init__(
        self,
        url: str,
        schema: pa.Schema,
        headers: dict[str, str],
        timeout_ms: int,
        cache: LookupCache,
    ) -> None:
        if timeout_ms < 1:
            raise InvalidProgramError(f"{_NAME}(timeout_ms=...), the table's 'request.timeout', is at least 1 ms")
        self._url = checked_url(url, _NAME)
        self._schema = schema
        self._headers = checked_headers(headers, _NAME)
        self._timeout_ms = timeout_ms
        self.cache = cache

    def __repr__(self) -> str:
        return f"{_NAME}({shown(self._url)!r})"

    def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
        wanted = pa.schema([self._schema.field(name) for name in columns])
        return _HttpReader(self._url, tuple(keys), wanted, dict(self._headers), self._timeout_ms)


class _HttpReader(LookupReader):
    """Asks for the keys of a batch, some at a time, and waits."""

    def __init__(
        self, url: str, keys: tuple[str, ...], wanted: pa.Schema, headers: dict[str, str], timeout_ms: int
    ) -> None:
        self._url = url
        self._keys = keys
        self._wanted = wanted
        self._answered = pa.schema([field for field in wanted if field.name not in keys])
        self._headers = headers
        self._timeout_ms = timeout_ms
        self._what = f"{_NAME} cannot GET rows of {shown(url)}"
        self._where = _NAME
        self._on_retry: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Any = None

    def open(self, runtime_context: Any) -> None:
        subtask = runtime_context.get_index_of_this_subtask() + 1
        parallelism = runtime_context.get_number_of_parallel_subtasks()
        self._where = operator_label(runtime_context.get_task_name(), f"{subtask} of {parallelism}")
        self._on_retry = runtime_context.get_metrics_group().counter("lookups_retried").inc
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._connect())

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        assert self._loop is not None
        texts = [keys.column(name).cast(pa.string()).to_pylist() for name in self._keys]
        asked = [dict(zip(self._keys, values, strict=True)) for values in zip(*texts, strict=True)]
        found = self._loop.run_until_complete(self._ask_all(asked))
        which = from_numpy(np.repeat(np.arange(len(found)), [len(each) for each in found]))
        messages = pa.concat_arrays([*found, pa.array([], pa.large_binary())])
        answered = self._decoded(messages, which, asked) if len(self._answered) else None
        columns = []
        for field in self._wanted:
            source = keys.take(which) if field.name in self._keys or answered is None else answered
            columns.append(source.column(field.name).cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted)

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            if self._session is not None:
                loop.run_until_complete(self._session.close())
            loop.close()

    def _decoded(self, messages: pa.Array, which: pa.Array, asked: list[dict[str, str]]) -> pa.RecordBatch:
        decoded = decode_each(JsonFormat(self._answered), messages, one_each=True)
        for failure in decoded.failures:
            key = asked[which[failure.index].as_py()]
            raise HttpError(
                f"{self._where}: {self._what}: the answer for {key} is no row of the table: {failure.reason}. Declare "
                "the columns as the service answers them"
            )
        return decoded.data

    # -- on the event loop

    async def _connect(self) -> None:
        timeout = aiohttp().ClientTimeout(total=self._timeout_ms / 1_000)
        self._session = aiohttp().ClientSession(timeout=timeout, headers=self._headers)

    async def _ask_all(self, asked: list[dict[str, str]]) -> list[pa.Array]:
        """The rows of each key, as JSON."""
        places = asyncio.Semaphore(_AT_A_TIME)

        async def ask(key: dict[str, str]) -> pa.Array:
            async with places:
                return await self._ask(key)

        asking = [asyncio.ensure_future(ask(key)) for key in asked]
        try:
            return await asyncio.gather(*asking)
        except BaseException:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)  # nothing is under way when the loop is closed
            raise

    async def _ask(self, key: dict[str, str]) -> pa.Array:
        what = f"{self._where}: {self._what} for {key}"
        for pause_s in (*_PAUSES_S, None):
            try:
                async with self._session.get(self._url, params=key, allow_redirects=False) as response:
                    body = await response.read()
            except Exception as error:
                if not is_transient(error) or pause_s is None:
                    why = reason_of(error, self._timeout_ms)
                    raise HttpError(f"{what}: {why}") from without_address(error)
            else:
                status = response.status
                if is_done(status) or status in _NOTHING:
                    return self._messages(body if status not in _NOTHING else b"", what)
                if not is_for_later(status) or pause_s is None:
                    text = body.decode("utf-8", "replace")
                    raise HttpError(f"{what}: {explained(status, text, response.headers.get('Location'))}")
            self._on_retry()
            await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt gives or raises")

    def _messages(self, body: bytes, what: str) -> pa.Array:
        try:
            return json_values(b"" if body.strip() == b"null" else body)
        except ValueError as error:
            raise HttpError(f"{what}: the answer is {error}") from error

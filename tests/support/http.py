"""A service in this process that answers as a test says, and a client for servers under test."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.connectors.http.server import HttpServer, web

DEADLINE_S = 20.0


class Asked(Struct, frozen=True):
    """A request that came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def lines(self) -> list[Any]:
        """What its lines of JSON say."""
        return [json.loads(line) for line in self.body.splitlines()]


class Answered(Struct, frozen=True):
    """An answer; of a test's server one with a status of 0 never comes."""

    status: int = 200
    text: str = ""
    headers: Mapping[str, str] = {}


class Service:
    """Answers by `answer`, and remembers what came. Use as a context manager."""

    def __init__(self, answer: Callable[[Asked], Answered] = lambda _: Answered()) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.taken: list[Asked] = []
        """What was answered 200."""
        self._ends = asyncio.Event()
        self._server = HttpServer(self._handle, "127.0.0.1", 0, "a test", "Service", True, lambda: None)

    def __enter__(self) -> Service:
        self._server.start()
        self._server.wait_until_started()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.submit(self._ends.set)
        self._server.close()

    @property
    def place(self) -> str:
        """host:port"""
        return f"127.0.0.1:{self._server.port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}/rows"

    @property
    def rows(self) -> list[Any]:
        """What all lines said that were answered 200."""
        return [row for asked in self.taken for row in asked.lines]

    async def _handle(self, request: Any) -> Any:
        headers = dict(request.headers)
        asked = Asked(request.method, str(request.rel_url), headers, await request.read())
        self.asked.append(asked)
        answer = self.answer(asked)
        if not answer.status:
            await self._ends.wait()
        if answer.status == 200:
            self.taken.append(asked)
        return web().Response(status=answer.status or 500, text=answer.text, headers=answer.headers)


def ask(
    port: int,
    body: bytes = b"",
    content_type: str = "application/json",
    method: str = "POST",
    path: str = "/",
    headers: Mapping[str, str] | None = None,
) -> Answered:
    """The answer of a server of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request(method, path, body, {"Content-Type": content_type, **(headers or {})})
        response = connection.getresponse()
        return Answered(response.status, response.read().decode(), dict(response.headers))
    finally:
        connection.close()


def rows_of(*numbers: int) -> pa.RecordBatch:
    """Rows with a column `n`."""
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64())})

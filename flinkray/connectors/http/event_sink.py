"""Rows as events for whoever listens."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.http.clients import aiohttp, is_shown
from flinkray.connectors.http.events import COMMENT, History, events_of, together
from flinkray.connectors.http.server import HttpServer, check_server, web
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.time.durations import Duration, to_millis
from flinkray.types.changelogs import ChangelogMode

_NAME = "ServerSentEventsSink"
_ASKED_BEFORE = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Authorization, X-Token, Last-Event-ID",
}
"""What a browser asks for by OPTIONS before a page of another origin sends such headers."""


class ServerSentEventsSink(Sink):
    """Rows as server-sent events for all that listen, such as pages with an EventSource. Comes with `flinkray[http]`.

    Each subscriber gets the rows that come from when it connects, and with `Last-Event-ID`, as browsers send it when
    they connect again, those after it that are kept. Nobody is waited for: who does not listen misses rows, and whoever
    falls behind by more than `max_waiting_bytes` is cut off. No guarantee.

    The events of a changelog have the row's kind as their name: "+I", "-U", "+U", "-D"; others have none, which is
    "message" in a browser.

    One subtask listens, on the machine that it runs on.

    Args:
        port: where it listens; 0: any free port, which the log tells.
        value_format: how a row is written, as text.
        host: the address that it listens on: "127.0.0.1" serves this machine alone, "0.0.0.0" all that reach it.
        path: of the events.
        token: what subscribers have to show, as `Authorization: Bearer <token>` or `X-Token: <token>`; shown nowhere.
            None: nothing. An EventSource cannot send these headers: pages then read the events with fetch.
        allowed_origin: the origin whose pages may listen beside the server's own, such as "https://shop.example".
        history: how many events are kept for those that come back.
        keep_alive: after so long without an event subscribers get a comment.
        max_waiting_bytes: how much may wait for a subscriber.
    """

    def __init__(
        self,
        port: int,
        value_format: MessageFormat | None = None,
        host: str = "127.0.0.1",
        path: str = "/events",
        token: str | None = None,
        allowed_origin: str | None = None,
        history: int = 1_000,
        keep_alive: Duration = "15 s",
        max_waiting_bytes: int = 8 << 20,
    ) -> None:
        keep_alive_ms = to_millis(keep_alive, "keep_alive")
        limits = {"history": history, "keep_alive": keep_alive_ms, "max_waiting_bytes": max_waiting_bytes}
        check_server(host, port, path, token, limits, _NAME)
        self.port = port
        self.value_format = JsonFormat() if value_format is None else value_format
        self.host = host
        self.path = path
        self.token = token
        self.allowed_origin = allowed_origin
        self.history = history
        self.keep_alive_ms = keep_alive_ms
        self.max_waiting_bytes = max_waiting_bytes

    def __repr__(self) -> str:
        return f"{_NAME}({self.host!r}, {self.port}, {self.path!r})"

    @property
    def accepts(self) -> ChangelogMode:
        return ChangelogMode.ALL

    @property
    def is_parallel(self) -> bool:
        return False

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.NONE

    def prepare(self) -> ServerSentEventsSink:
        aiohttp()  # an error names the extra before anything is started
        return self

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return EventWriter(context, self)


class EventWriter(SinkWriter):
    """The task's side: makes events, and has them sent.

    Raises:
        HttpError: nothing can listen there.
    """

    def __init__(self, context: SinkWriterContext, sink: ServerSentEventsSink) -> None:
        self._format = sink.value_format
        self._where = subtask_label(context)
        # Another one for each attempt, whose numbers begin anew.
        self._series = secrets.token_hex(4)
        self._next = 0
        self._subscribers = _Subscribers(context, sink, History(self._series, sink.history))
        context.gauge_function("subscribers", lambda: float(len(self._subscribers)))
        is_first = context.attempt_number == 0
        self.server = HttpServer(
            self._subscribers.handle, sink.host, sink.port, self._where, _NAME, is_first, lambda: None
        )
        self.server.start()
        try:
            self.server.wait_until_started()
        except BaseException:
            self.server.close()
            raise

    def write(self, batch: Batch) -> None:
        events = events_of(self._format, batch, self._series, self._next, self._where)
        self._next += len(events)
        self.server.submit(self._subscribers.publish, events)

    def close(self) -> None:
        """Ends after what waits for subscribers has been sent, or a moment."""
        self.server.submit(self._subscribers.end)
        self.server.close()


class _Subscriber:
    """What waits for one connection."""

    def __init__(self) -> None:
        self.chunks: deque[bytes] = deque()
        self.nbytes = 0
        self.came = asyncio.Event()
        self.is_ended = False
        """Whether nothing more will come."""

    def add(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.nbytes += len(chunk)
        self.came.set()

    def end(self) -> None:
        self.is_ended = True
        self.came.set()

    def take(self) -> bytes:
        taken = b"".join(self.chunks)
        self.chunks.clear()
        self.came.clear()
        return taken


class _Subscribers:
    """The server's side, on its event loop."""

    def __init__(self, context: SinkWriterContext, sink: ServerSentEventsSink, history: History) -> None:
        self._context = context
        self._sink = sink
        self._history = history
        origin = sink.allowed_origin
        self._cross_origin = {} if origin is None else {"Access-Control-Allow-Origin": origin, **_ASKED_BEFORE}
        self._open: dict[_Subscriber, Any] = {}
        """With the connection of each."""
        self._is_ended = False
        self._web = web()

    def __len__(self) -> int:
        return len(self._open)

    def publish(self, events: pa.Array) -> None:
        self._history.add(events)
        if not self._open:
            return
        chunk = together(events)
        for subscriber, transport in list(self._open.items()):
            # A single batch may be more than the limit.
            if subscriber.nbytes and subscriber.nbytes + len(chunk) > self._sink.max_waiting_bytes:
                del self._open[subscriber]
                self._context.count("subscribers_cut_off")
                subscriber.end()
                transport.abort()
            else:
                subscriber.add(chunk)

    def end(self) -> None:
        """Lets all connections end once what waits for them was sent."""
        self._is_ended = True
        for subscriber in self._open:
            subscriber.end()

    async def handle(self, request: Any) -> Any:
        sink = self._sink
        if request.path != sink.path:
            return self._refused(404, f"events are at {sink.path}")
        if request.method == "OPTIONS" and self._cross_origin:
            return self._web.Response(status=204, headers=self._cross_origin)
        if request.method != "GET":
            return self._refused(405, "events are asked for by GET", Allow="GET")
        if not is_shown(sink.token, request.headers):
            return self._refused(401, "show the token, as Authorization: Bearer <token> or X-Token: <token>")
        events = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store"}
        response = self._web.StreamResponse(headers={**events, **self._cross_origin})
        await response.prepare(request)
        subscriber = _Subscriber()
        subscriber.is_ended = self._is_ended
        last_id = request.headers.get("Last-Event-ID")
        # At once: browsers take the connection for open when the first byte comes.
        subscriber.add(COMMENT if last_id is None else COMMENT + self._history.since(last_id))
        if request.transport is None:  # it has gone already
            return response
        self._open[subscriber] = request.transport
        try:
            await self._serve(subscriber, response)
        finally:
            self._open.pop(subscriber, None)
        return response

    async def _serve(self, subscriber: _Subscriber, response: Any) -> None:
        while True:
            try:
                async with asyncio.timeout(self._sink.keep_alive_ms / 1_000):
                    await subscriber.came.wait()
            except TimeoutError:
                subscriber.add(COMMENT)
            taken = subscriber.take()
            if taken:
                await response.write(taken)
            subscriber.nbytes -= len(taken)
            if subscriber.is_ended and not subscriber.chunks:
                return

    def _refused(self, status: int, what: str, **headers: str) -> Any:
        return self._web.json_response({"error": what}, status=status, headers={**headers, **self._cross_origin})

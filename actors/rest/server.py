"""The HTTP server: a thread with aiohttp, which hands every request to a service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from msgspec.structs import replace

from actors.rest.service import LARGEST_BODY, Request, Response, refused
from actors.rest.tls import Tls
from actors.rest.tls_site import TlsSite
from flinkray.errors import ConfigurationError
from flinkray.extras import import_package

log = logging.getLogger(__name__)

# So many requests are answered at the same time; others wait. Each may ask masters, and wait for them.
_THREADS = 8

# A client that promises a body and does not send it must not keep its connection for ever.
_BODY_TIMEOUT_S = 30.0
_UPLOAD_TIMEOUT_S = 600.0

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0

_HEADERS = {
    # What is asked for is as it is now; a proxy or a browser must not keep it, nor guess what it is or frame it.
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Content-Security-Policy": "default-src 'self'",
}


class Answers(Protocol):
    """What answers requests, on any thread."""

    def largest_body(self, request: Request) -> int:
        """How many bytes of the body that follows are read, and one piece more; at once, and never raises."""

    def kept_answer(self, request: Request) -> Response | None:
        """An answer to a request without a body that needs no work, if there is one; at once, and never raises."""

    def answer(self, request: Request) -> Response:
        """Never raises."""


class RestServer:
    """Serves until `close`. The constructor returns when it is listening.

    Args:
        address: to listen on, such as 127.0.0.1.
        ports: the first free one is taken; 0 is any.
        on_close: called at the end.
        tls: what it speaks TLS with; None: it speaks plain HTTP.

    Raises:
        MissingDependencyError: aiohttp is not installed.
        ConfigurationError: it cannot listen there.
    """

    def __init__(
        self,
        service: Answers,
        address: str,
        ports: Sequence[int],
        on_close: Callable[[], None] | None = None,
        tls: Tls | None = None,
    ) -> None:
        import_package("aiohttp", "the REST server")
        self._web = import_module("aiohttp.web")
        self._service = service
        self._address = address
        self._on_close = on_close
        self._tls = tls
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="rest-request")
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        started: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(ports, started), name="rest-server", daemon=True)
        self._thread.start()
        try:
            self.port = started.result(_START_TIMEOUT_S)
        except BaseException:
            self._pool.shutdown(wait=False)
            raise

    @property
    def url(self) -> str:
        """Where it is, for programs of this machine, or of any that reaches it."""
        shown = f"[{self._address}]" if ":" in self._address else self._address
        return f"{'https' if self._tls else 'http'}://{shown}:{self.port}"

    def close(self) -> None:
        """Ends the server; requests that wait for a master are not waited for."""
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(_STOP_TIMEOUT_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    # -- on the server's thread ----------------------------------------------------------------------------------

    def _run(self, ports: Sequence[int], started: Future[int]) -> None:
        try:
            self._loop.run_until_complete(self._serve(ports, started))
        except Exception as error:
            if started.done():
                log.exception("the REST server ended")
            else:
                started.set_exception(error)
        finally:
            self._loop.close()

    async def _serve(self, ports: Sequence[int], started: Future[int]) -> None:
        server = self._web.Server(self._handle, access_log=None, logger=_http_log())
        runner = self._web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        tls_site = None if self._tls is None else TlsSite(server, self._tls.context)
        try:
            started.set_result(await self._listen(runner, tls_site, ports))
            await self._stopped.wait()
        finally:
            if tls_site is not None:
                await tls_site.close()
                await server.shutdown(1.0)  # the runner knows sites of its own only
            await runner.cleanup()

    async def _listen(self, runner: Any, tls_site: TlsSite | None, ports: Sequence[int]) -> int:
        for port in ports:
            try:
                if tls_site is not None:
                    return await tls_site.start(self._address, port)
                await self._web.TCPSite(runner, self._address, port).start()
            except OSError as error:
                failure = error
                continue
            found: int = runner.addresses[0][1]
            return found
        tried = str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
        raise ConfigurationError(f"the REST server cannot listen on {self._address}, port {tried}: {failure}")

    async def _handle(self, request: Any) -> Any:
        asked = Request(
            method=request.method,
            path=request.rel_url.raw_path,
            query=request.rel_url.raw_query_string,
            headers={name.lower(): value for name, value in request.headers.items()},
            scheme=request.scheme,
        )
        # What needs no work is answered by this thread: one that takes over costs more than that, and takes Python's
        # lock from the tasks of a job in this process.
        if not request.body_exists and (kept := self._service.kept_answer(asked)) is not None:
            return self._response(kept)
        most = self._service.largest_body(asked)
        seconds = _BODY_TIMEOUT_S if most == LARGEST_BODY else _UPLOAD_TIMEOUT_S
        try:
            body = await _body_of(request, most, seconds)
        except TimeoutError:
            return self._response(refused(408, f"the body did not come within {seconds:.0f} s"))
        except self._web.RequestPayloadError as error:
            return self._response(refused(400, f"the body cannot be read: {error}"))
        asked = replace(asked, body=body)
        return self._response(await self._loop.run_in_executor(self._pool, partial(self._service.answer, asked)))

    def _response(self, answer: Response) -> Any:
        return self._web.Response(
            status=answer.status,
            body=answer.body,
            content_type=answer.content_type,
            charset="utf-8",
            headers={**_HEADERS, **answer.headers},
        )


def _http_log() -> logging.Logger:
    """The log of what speaks HTTP. A client that sends what is no HTTP, or goes away, is no error of this server."""
    found = logging.getLogger(f"{__name__}.http")
    wrong = (import_module("aiohttp.http_exceptions").HttpProcessingError, ConnectionError)
    if not found.filters:
        found.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], wrong)))
    return found


async def _body_of(request: Any, most: int, seconds: float) -> bytes:
    """The body; of one that is larger than `most` bytes as much as shows that.

    Raises:
        TimeoutError: not all of it comes in time.
    """
    body = bytearray()
    async with asyncio.timeout(seconds):
        while len(body) <= most and (piece := await request.content.read(LARGEST_BODY)):
            body += piece
    return bytes(body)

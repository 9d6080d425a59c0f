"""A server of HTTP on a thread of its own, for a task: it ends with the task."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from importlib import import_module
from typing import Any

from flinkray.connectors.http.clients import HttpError, aiohttp
from flinkray.errors import InvalidProgramError

log = logging.getLogger(__name__)
_http_log = logging.getLogger(f"{__name__}.protocol")
# It tells of clients that send what is no HTTP, or go away; errors of handlers are told here.
_http_log.setLevel(logging.CRITICAL)

_AGAIN_S = 0.1
_PATIENCE_S = 10.0
"""How long the port is waited for where the task starts again: its last attempt may still be ending."""
_START_S = 30.0
_END_S = 5.0
_REQUESTS_END_S = 1.0

Handle = Callable[[Any], Awaitable[Any]]


def web() -> Any:
    """aiohttp's package for servers; a MissingDependencyError says what brings it."""
    aiohttp()
    return import_module("aiohttp.web")


def check_server(host: str, port: int, path: str, token: str | None, limits: Mapping[str, int], name: str) -> None:
    """Checks the arguments that all servers have, and limits by the names of theirs.

    Raises:
        InvalidProgramError: nothing can be served so.
    """
    if not isinstance(host, str) or not host:
        raise InvalidProgramError(f"{name}(host=...) takes an address of the machine, not {host!r}")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65_536:
        raise InvalidProgramError(f"{name}(port=...) takes a number from 0, which is any, to 65535, not {port!r}")
    if not path.startswith("/") or "?" in path or any(each.isspace() for each in path):
        raise InvalidProgramError(f"{name}(path=...) is like '/rows', not {path!r}")
    if token == "":
        raise InvalidProgramError(f"{name}(token=...) is empty; None lets everybody in")
    for limit, given in limits.items():
        if given < 1:
            raise InvalidProgramError(f"{name}({limit}=...) is at least 1, not {given}")


class HttpServer:
    """Hands requests to `handle`, on an event loop that has a thread for itself.

    Args:
        handle: takes an aiohttp request and gives a response.
        where: operator and subtask, for errors.
        name: of the connector, for errors.
        is_first_attempt: whether the port must be free at once.
        on_failure: called on the thread when the server cannot listen; `failure` says why.
    """

    def __init__(
        self,
        handle: Handle,
        host: str,
        port: int,
        where: str,
        name: str,
        is_first_attempt: bool,
        on_failure: Callable[[], None],
    ) -> None:
        self._handle = handle
        self._host = host
        self._port = port
        self._where = where
        self._name = name
        self._patience_s = 0.0 if is_first_attempt else _PATIENCE_S
        self._on_failure = on_failure
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name=f"{name} {where}", daemon=True
        )
        self.port = 0
        """Where it listens, once it does."""
        self.failure: BaseException | None = None
        """Why it does not listen."""

    def start(self) -> None:
        """Returns at once; it listens in a moment."""
        self._thread.start()

    def wait_until_started(self) -> None:
        """Waits until it listens.

        Raises:
            HttpError: it cannot.
        """
        if not self._started.wait(_START_S):
            raise HttpError(f"{self._where}: {self._name} did not start to listen within {_START_S:.0f} s")
        if self.failure is not None:
            raise self.failure

    def submit(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Calls it on the loop; from any thread. Nothing happens once the server has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    def close(self) -> None:
        """Ends the server; handlers have a second to end by themselves."""
        if self._thread.ident is None:
            self._loop.close()
            return
        self.submit(self._stopped.set)
        self._thread.join(_END_S)

    # -- the thread

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # the task must learn of every way in which the thread ends
            self.failure = error
        finally:
            self._loop.close()
            self._started.set()
            if self.failure is not None:
                self._on_failure()

    async def _serve(self) -> None:
        server = web().Server(self._answer, access_log=None, logger=_http_log)
        runner = web().ServerRunner(server, shutdown_timeout=_REQUESTS_END_S)
        await runner.setup()
        try:
            await self._listen(runner)
            self.port = runner.addresses[0][1]
            log.info("%s: %s listens on %s, port %d", self._where, self._name, self._host, self.port)
            self._started.set()
            await self._stopped.wait()
        finally:
            await runner.cleanup()
            await _end_other_tasks()

    async def _listen(self, runner: Any) -> None:
        deadline = self._loop.time() + self._patience_s
        while not self._stopped.is_set():
            site = web().TCPSite(runner, self._host, self._port)
            try:
                await site.start()
                return
            except OSError as error:
                if error.errno == errno.EADDRINUSE and self._loop.time() < deadline:
                    await asyncio.sleep(_AGAIN_S)
                    continue
                raise HttpError(
                    f"{self._where}: {self._name} cannot listen on {self._host}, port {self._port}: {error.strerror}. "
                    "Stop what listens there, or give another port= or host="
                ) from error
        raise HttpError(f"{self._where}: {self._name} was stopped before it could listen")

    async def _answer(self, request: Any) -> Any:
        try:
            return await self._handle(request)
        except (ConnectionError, asyncio.CancelledError):
            raise  # the client has gone, or the server ends
        except Exception:
            log.exception("%s: %s could not answer a request", self._where, self._name)
            return web().Response(status=500)


async def _end_other_tasks() -> None:
    """Ends handlers whose connections are gone, which aiohttp does not wait for."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_REQUESTS_END_S)

"""Clients of nats-py, and what their errors mean to a user."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.extras import import_package

T = TypeVar("T")

TIMEOUT_S = 15.0
"""How long one answer of the server may take."""
_WORK_S = 120.0
"""How long several of them may take together, as those for the batches of a commit."""
_AGAIN_S = 0.05
_SCHEMES = ("nats", "tls", "ws", "wss")
_NO_STREAM = 10059
_HINTS = {
    "maximum payload": "write smaller rows, or raise max_payload of the server",
    "maximum messages exceeded": "the stream is full; raise its max_msgs, or let it discard old messages",
    "maximum bytes exceeded": "the stream is full; raise its max_bytes, or let it discard old messages",
    "no response from stream": "has the server JetStream (-js), and the cluster a leader of the stream?",
    "insufficient": "the server has no room for more (max_store, max_mem), or its disk is full",
}
_SILENT = ("NoServersError", "TimeoutError", "ConnectionClosedError", "NoRespondersError")


class NatsError(ConnectorError):
    """The server cannot do what it is asked for; says what, and the way out."""


class ApiError(Exception):
    """JetStream's answer to a request that it refuses.

    Args:
        code: as of HTTP.
        err_code: JetStream's own number.
    """

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(code, err_code, description)
        self.code = code
        self.err_code = err_code
        self.description = description

    def __str__(self) -> str:
        return f"{self.description} ({self.err_code})"


class NatsServer(Struct, frozen=True):
    """Where servers are, and who connects.

    Raises:
        InvalidProgramError: an address is none.
    """

    urls: tuple[str, ...]
    credentials: str | None = None
    """The path of a file with a JWT and its key."""

    def __post_init__(self) -> None:
        if not self.urls or any(urlsplit(url).scheme not in _SCHEMES for url in self.urls):
            raise InvalidProgramError("servers= of NATS are like 'nats://host:4222', or tls:// for TLS")

    def __str__(self) -> str:
        """The addresses without user and password."""
        parts = [urlsplit(url) for url in self.urls]
        return ",".join(f"{each.scheme}://{each.hostname}:{each.port or 4222}" for each in parts)

    async def connect(self, lost: asyncio.Event | None = None) -> Any:
        """A client, which is closed for good when its connection is lost.

        Args:
            lost: is set then.
        """

        seen: list[Exception] = []

        async def note(error: Exception) -> None:
            seen.append(error)

        async def note_end() -> None:
            if lost is not None:
                lost.set()

        options: dict[str, Any] = {} if self.credentials is None else {"user_credentials": self.credentials}
        client = nats().NATS()
        # Each server is tried twice: this client takes no other number of attempts for an end of them.
        options |= {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": _AGAIN_S}
        connected = client.connect(
            list(self.urls), connect_timeout=TIMEOUT_S, error_cb=note, closed_cb=note_end, **options
        )
        try:
            await asyncio.wait_for(connected, TIMEOUT_S * len(self.urls))
        except BaseException as error:
            with contextlib.suppress(Exception):  # the server may have closed it
                await client.close()
            if seen and isinstance(error, import_package("nats.errors", "NATS").NoServersError):
                raise ConnectionError(str(seen[-1])) from error
            raise
        return client


def nats() -> Any:
    """The package; a MissingDependencyError says what brings it."""
    return import_package("nats", "NATS")


async def ask(client: Any, path: str, **request: Any) -> dict[str, Any]:
    """What JetStream's API answers.

    Raises:
        ApiError: it refuses.
        Exception: of the client.
    """
    payload = json.dumps(request).encode() if request else b""
    return answer_of(await client.request(f"$JS.API.{path}", payload, timeout=TIMEOUT_S))


def answer_of(message: Any) -> dict[str, Any]:
    """What a message of JetStream's says.

    Raises:
        ApiError: it refuses what it was asked for.
    """
    found: dict[str, Any] = json.loads(message.data)
    if error := found.get("error"):
        raise ApiError(error["code"], error.get("err_code", 0), error.get("description", ""))
    return found


class NatsConnection:
    """A client on an event loop that has a thread for itself, for threads that block, one at a time. It connects when
    it is used, and anew after the connection was lost."""

    def __init__(self, server: NatsServer) -> None:
        self._server = server
        self._client: Any = None
        self._lost = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"nats {server}", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """What the coroutine gives that `work` makes for the client.

        Raises:
            TimeoutError: it took too long.
            ConnectionError: the connection was lost meanwhile.
            Exception: of the client.
        """
        return asyncio.run_coroutine_threadsafe(self._run(work), self._loop).result()

    async def _run(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        if self._client is None or self._client.is_closed:
            self._lost = asyncio.Event()
            self._client = await self._server.connect(self._lost)
        task, lost = asyncio.ensure_future(work(self._client)), asyncio.ensure_future(self._lost.wait())
        try:
            # Answers that were under way when the connection was lost never come.
            await asyncio.wait((task, lost), timeout=_WORK_S, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ConnectionError("the connection was lost") if lost.done() else TimeoutError("it took too long")
        finally:
            task.cancel()
            lost.cancel()

    def disconnect(self) -> None:
        """Closes the client; the next work gets another one."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # the server may be gone
                asyncio.run_coroutine_threadsafe(asyncio.wait_for(client.close(), 5), self._loop).result(10)

    def close(self) -> None:
        self.disconnect()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        if not self._loop.is_running():
            self._loop.close()


def is_transient(error: BaseException) -> bool:
    """Whether the same may succeed in a moment: the server is away, starts, or elects another leader."""
    errors = import_package("nats.errors", "NATS")
    if isinstance(error, ApiError):
        return error.code >= 500
    if _is_refused_login(error) or isinstance(
        error, errors.MaxPayloadError | errors.BadSubjectError | errors.BadHeaderError
    ):
        return False
    stream_errors = import_package("nats.js.errors", "NATS")
    if isinstance(error, stream_errors.APIError):
        return (error.code or 0) >= 500
    later = errors.Error | OSError | asyncio.TimeoutError | TimeoutError | stream_errors.NoStreamResponseError
    return isinstance(error, later)


def _is_refused_login(error: BaseException) -> bool:
    return "authorization violation" in str(error).lower()


def refuse(error: BaseException, where: str, what: str) -> NoReturn:
    """Raises the client's error as one that says what was to be done, and the way out where it is known."""
    raise NatsError(f"{where}: {what}: {explained(error)}") from error


def explained(error: BaseException) -> str:
    """The server's words, with what can be done about them."""
    text = str(error) or type(error).__name__
    if _is_refused_login(error):
        return (
            "the server refuses user, password or token, or wants them: nats://user:password@host:4222, "
            "nats://token@host:4222, or credentials='a file'"
        )
    if isinstance(error, ApiError) and error.err_code == _NO_STREAM:
        return f"{text}: make it first, as with 'nats stream add'"
    hint = next((hint for part, hint in _HINTS.items() if part in text), None)
    is_silent = isinstance(error, OSError | asyncio.TimeoutError) or type(error).__name__ in _SILENT
    if hint is None and is_silent:
        hint = "no server answers there; does it run, and is it reachable from here?"
    return text if hint is None else f"{text}: {hint}"

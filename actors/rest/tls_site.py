"""Listens for TLS, and tells who speaks plain HTTP there what to do, rather than to close the connection on him."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

# How long a connection may take to say its first byte, and then for its handshake.
_BEGIN_S = 10.0
# How long is waited for what a client that was refused is still about to send.
_LINGER_S = 1.0
# How long nobody is accepted after it failed, as where there are no file descriptors left.
_PAUSE_S = 0.5

# What each TLS connection begins with: a record of the handshake.
_HANDSHAKE = b"\x16"

_REASON = b'{"errors":["this server speaks HTTPS only: ask for https:// rather than http://"]}'
_REFUSAL = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_REASON), _REASON)
)


class TlsSite:
    """Serves from `start` to `close`; belongs to the thread of an event loop.

    Args:
        new_protocol: makes what speaks HTTP on a connection.
        context: what the next connection speaks TLS with.
    """

    def __init__(self, new_protocol: Callable[[], asyncio.BaseProtocol], context: Callable[[], ssl.SSLContext]) -> None:
        self._new_protocol = new_protocol
        self._context = context
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, address: str, port: int) -> int:
        """Listens on all that the address means.

        Returns:
            The port; 0 asks for any.
        Raises:
            OSError: it cannot.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, place in dict.fromkeys(found):
                listening = socket.create_server((place[0], port), family=family)
                self._sockets.append(listening)
                listening.setblocking(False)
                port = listening.getsockname()[1]
        except OSError:
            await self.close()
            raise
        for listening in self._sockets:
            self._run(self._accept(listening))
        return port

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                log.warning("the REST server cannot accept a connection: %s", error)
                await asyncio.sleep(_PAUSE_S)
            else:
                self._run(self._begin(connection))

    async def _begin(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        is_handed_over = False
        with contextlib.suppress(OSError, TimeoutError):  # it is the client's matter, and gone
            try:
                async with asyncio.timeout(_BEGIN_S):
                    first = await _first_byte(connection)
                if first == _HANDSHAKE:
                    context = self._context()
                    is_handed_over = True
                    await loop.connect_accepted_socket(
                        self._new_protocol, connection, ssl=context, ssl_handshake_timeout=_BEGIN_S
                    )
                elif first:
                    await _refuse(connection)
            finally:
                if not is_handed_over:
                    connection.close()


async def _first_byte(connection: socket.socket) -> bytes:
    """What comes first, which stays to be read; empty: the connection has ended."""
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    return connection.recv(1, socket.MSG_PEEK)


async def _refuse(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, _REFUSAL)
    connection.shutdown(socket.SHUT_WR)
    # Closed with something unread, the connection would be reset before the client has read the answer.
    async with asyncio.timeout(_LINGER_S):
        while await loop.sock_recv(connection, 1 << 16):
            pass

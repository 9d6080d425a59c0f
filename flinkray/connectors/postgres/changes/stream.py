"""The connection through which the log comes."""

from __future__ import annotations

import contextlib
import select
import struct
import threading
import time
from contextvars import copy_context

from flinkray.connectors.postgres.changes.splits import shown_lsn
from flinkray.connectors.postgres.columns import quoted
from flinkray.connectors.postgres.connections import psycopg, replicating, told

_MOST_BYTES = 8 << 20
_WAIT_S = 0.2
"""How long to wait for messages where there are none."""
_MANY = 100
_GATHER_S = 0.02
"""So long messages are gathered where many come at once: a batch costs about as much as a thousand of them, and without
this a reader that keeps pace would make a batch of each few hundred."""
_ASK_S = 1.0
"""So often an idle server is asked how far the log is."""
_BEAT_S = 10.0
"""So often the server hears of us, also while the task takes no rows; it waits for wal_sender_timeout, 60 s."""
_EPOCH_S = 946_684_800
_KEEPALIVE = b"k"[0]


class LogStream:
    """Messages of a slot's plugin, from a position on. One thread receives, any may confirm.

    Raises:
        Exception: of psycopg, where the server refuses, or has another reader for the slot.
    """

    def __init__(self, uri: str, slot: str, publication: str, lsn: int, where: str) -> None:
        self._guard = threading.Lock()
        """Held by whoever uses the connection."""
        self._connection = replicating(uri, where)
        self._pgconn = self._connection.pgconn
        self._received = 0
        self.end = 0
        """The end of the server's log, as it said with the last message."""
        self._confirmed = 0
        self._asked_at = 0.0
        self._is_closed = threading.Event()
        name = quoted(publication).replace("'", "''")
        try:
            told(
                self._pgconn,
                f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {shown_lsn(lsn)} "
                f"(proto_version '1', publication_names '{name}')",
            )
        except BaseException:
            self._connection.close()
            raise
        self._beat = threading.Thread(
            target=copy_context().run, args=(self._beat_on,), name=f"keep {slot}", daemon=True
        )
        self._beat.start()

    def receive(self, most: int) -> list[bytes]:
        """Up to so many messages, with their headers, or bytes; none where none has come for a moment.

        Raises:
            Exception: of psycopg; the connection is of no use any more.
        """
        found: list[bytes] = []
        with self._guard:
            self._take(found, most)
        if not found:
            poll = select.poll()
            poll.register(self._pgconn.socket, select.POLLIN)
            is_readable = bool(poll.poll(_WAIT_S * 1000))
            with self._guard:
                if is_readable:
                    self._pgconn.consume_input()
                    self._take(found, most)
                elif time.monotonic() - self._asked_at > _ASK_S:
                    self._tell(asks=True)
        if len(found) >= _MANY:
            self._gather(found, most)
        if found:
            # Both kinds of message say how long the log is: the one behind the place of its change, the other at once.
            (self.end,) = struct.unpack_from(">Q", found[-1], 1 if found[-1][0] == _KEEPALIVE else 9)
        return found

    def confirm(self, lsn: int) -> None:
        """The server may forget the log before this position."""
        with self._guard:
            self._confirmed = max(self._confirmed, lsn)
            self._tell()

    def close(self) -> None:
        self._is_closed.set()
        self._beat.join()
        with self._guard:
            self._connection.close()

    def _gather(self, found: list[bytes], most: int) -> None:
        """Adds what comes within a moment."""
        until = time.monotonic() + _GATHER_S
        left = _MOST_BYTES - sum(map(len, found))
        while len(found) < most and left > 0 and time.monotonic() < until:
            time.sleep(_GATHER_S / 5)
            with self._guard:
                left = self._take(found, most, left)

    def _take(self, found: list[bytes], most: int, left: int = _MOST_BYTES) -> int:
        """Adds messages that have come, about as many bytes as are left; how many are left then."""
        has_read = False
        while len(found) < most and left > 0:
            size, message = self._pgconn.get_copy_data(1)
            if size > 0:
                found.append(bytes(message))
                left, has_read = left - size, False
                if message[0] == _KEEPALIVE:
                    self._on_keepalive(found[-1])
            elif size < 0:
                self._raise_end()
            elif has_read:
                break
            else:
                self._pgconn.consume_input()
                has_read = True
        return left

    def _on_keepalive(self, message: bytes) -> None:
        (self._received,) = struct.unpack_from(">Q", message, 1)
        if message[-1]:
            self._tell()

    def _raise_end(self) -> None:
        result = self._pgconn.get_result()
        if result is not None and result.error_message:
            raise psycopg().errors.error_from_result(result, encoding="utf-8")
        raise psycopg().OperationalError("the server ended the connection, as it is being stopped")

    def _tell(self, asks: bool = False) -> None:
        if asks:
            self._asked_at = time.monotonic()
        now = int((time.time() - _EPOCH_S) * 1e6)
        status = struct.pack(">cQQQqB", b"r", self._received, self._confirmed, self._confirmed, now, asks)
        self._pgconn.put_copy_data(status)
        self._pgconn.flush()

    def _beat_on(self) -> None:
        while not self._is_closed.wait(_BEAT_S):
            # Where it cannot be told, whoever receives next learns why.
            with self._guard, contextlib.suppress(Exception):
                self._tell()

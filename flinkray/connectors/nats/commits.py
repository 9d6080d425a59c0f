"""Rows of an epoch that are written together, once."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from flinkray.connectors.committer import CommitRequest, Committer
from flinkray.connectors.nats.clients import (
    TIMEOUT_S,
    ApiError,
    NatsConnection,
    NatsServer,
    answer_of,
    explained,
    is_transient,
    refuse,
)
from flinkray.connectors.nats.exactly_once import FoundStream, MarkedStream
from flinkray.errors import FlinkrayError

_ROWS_PER_BATCH = 999
"""A batch has at most 1,000 messages, one of which is the mark."""
_IS_MARKED = 10071
"""A message is there already behind which none was to be."""
_LATER = (10176, 10210, 10211)
"""A batch came in part, as a server changed; the server has too many that are under way."""


class NatsRows(Struct, frozen=True):
    """The messages of a writer for one checkpoint, and the subject of the marks that say that they were written."""

    mark: str
    where: str
    messages: bytes
    """A list of `NatsMessage`, as MessagePack."""


class NatsMessage(Struct, frozen=True, array_like=True):
    """A row as it is written. What checkpoints of earlier versions have is an array of two."""

    subject: str
    payload: bytes
    headers: dict[str, str] | None = None

    @property
    def nbytes(self) -> int:
        if self.headers is None:
            return len(self.payload)
        return len(self.payload) + sum(len(f"{name}: {value}\r\n".encode()) for name, value in self.headers.items())


class NatsCommitter(Committer):
    """Writes messages in atomic batches. Each ends with a mark, a message on a subject of its own that must not have
    one yet: so a batch that was written before is refused, whoever writes it again.

    """

    def __init__(self, server: NatsServer, stream: MarkedStream) -> None:
        self._server = server
        self._stream = stream
        self._connection: NatsConnection | None = None
        self._found: FoundStream | None = None

    def commit(self, requests: Sequence[CommitRequest[NatsRows]]) -> None:
        if self._connection is None:
            self._connection = NatsConnection(self._server)
        for request in requests:
            rows = request.committable
            what = f"cannot commit checkpoint {request.checkpoint_id} to stream {self._stream.name!r} of {self._server}"
            try:
                if not self._connection.run(partial(self._write, rows=rows)):
                    request.already_committed()
            except FlinkrayError:
                raise
            except Exception as error:
                if not _may_succeed_later(error):
                    refuse(error, rows.where, what)
                self._connection.disconnect()
                request.retry_later(f"{what}: {explained(error)}")

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):  # the server may be gone
                self._connection.close()

    async def _write(self, client: Any, rows: NatsRows) -> bool:
        """Writes what is not there yet; says whether there was any such."""
        if self._found is None:
            self._found = await self._stream.found(client, rows.where)
        messages = msgspec.msgpack.decode(rows.messages, type=list[NatsMessage])
        # Writers whom the server did not answer have not checked them; it would call a batch incomplete, for ever.
        self._found.check({each.subject for each in messages}, 0, rows.where)
        written = False
        for number, start in enumerate(range(0, len(messages), _ROWS_PER_BATCH)):
            batch = messages[start : start + _ROWS_PER_BATCH]
            written |= await self._write_batch(client, batch, f"{rows.mark}.{number}")
        return written

    async def _write_batch(self, client: Any, messages: list[NatsMessage], mark: str) -> bool:
        batch_id = secrets.token_hex(16)  # another one for each attempt: two of a name would mix
        for number, message in enumerate(messages, 1):
            headers = {**(message.headers or {}), "Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
            await client.publish(message.subject, message.payload, headers=headers)
        headers = {
            "Nats-Batch-Id": batch_id,
            "Nats-Batch-Sequence": str(len(messages) + 1),
            "Nats-Batch-Commit": "1",
            "Nats-Expected-Stream": self._stream.name,
            "Nats-Expected-Last-Subject-Sequence": "0",
        }
        if self._stream.marks_kept_s is not None:
            headers["Nats-TTL"] = f"{self._stream.marks_kept_s}s"
        try:
            answer_of(await client.request(mark, b"", timeout=TIMEOUT_S, headers=headers))
        except ApiError as error:
            if error.err_code == _IS_MARKED:
                return False
            raise
        return True


def _may_succeed_later(error: Exception) -> bool:
    return is_transient(error) or (isinstance(error, ApiError) and error.err_code in _LATER)

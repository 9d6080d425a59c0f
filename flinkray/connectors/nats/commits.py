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
    NatsError,
    NatsServer,
    answer_of,
    ask,
    explained,
    is_transient,
    refuse,
)
from flinkray.connectors.nats.subjects import covers

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
    """Pairs of subject and payload, as MessagePack."""


class NatsCommitter(Committer):
    """Writes messages in atomic batches. Each ends with a mark, a message on a subject of its own that must not have
    one yet: so a batch that was written before is refused, whoever writes it again.

    Args:
        marks: what the subjects of marks begin with.
        marks_kept_s: how long the server keeps a mark; None: as long as other messages.
    """

    def __init__(self, server: NatsServer, stream: str, marks: str, marks_kept_s: int | None) -> None:
        self._server = server
        self._stream = stream
        self._marks = marks
        self._marks_kept_s = marks_kept_s
        self._connection: NatsConnection | None = None
        self._is_checked = False

    def commit(self, requests: Sequence[CommitRequest[NatsRows]]) -> None:
        if self._connection is None:
            self._connection = NatsConnection(self._server)
        for request in requests:
            rows = request.committable
            what = f"cannot commit checkpoint {request.checkpoint_id} to stream {self._stream!r} of {self._server}"
            try:
                if not self._connection.run(partial(self._write, rows=rows)):
                    request.already_committed()
            except NatsError:
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
        if not self._is_checked:
            config = (await ask(client, f"STREAM.INFO.{self._stream}"))["config"]
            if (problem := self._problem(config)) is not None:
                raise NatsError(f"{rows.where}: stream {self._stream!r} cannot be written exactly once: {problem}")
            self._is_checked = True
        messages = msgspec.msgpack.decode(rows.messages, type=list[tuple[str, bytes]])
        written = False
        for number, start in enumerate(range(0, len(messages), _ROWS_PER_BATCH)):
            batch = messages[start : start + _ROWS_PER_BATCH]
            written |= await self._write_batch(client, batch, f"{rows.mark}.{number}")
        return written

    async def _write_batch(self, client: Any, messages: list[tuple[str, bytes]], mark: str) -> bool:
        batch_id = secrets.token_hex(16)  # another one for each attempt: two of a name would mix
        for number, (subject, payload) in enumerate(messages, 1):
            headers = {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
            await client.publish(subject, payload, headers=headers)
        headers = {
            "Nats-Batch-Id": batch_id,
            "Nats-Batch-Sequence": str(len(messages) + 1),
            "Nats-Batch-Commit": "1",
            "Nats-Expected-Stream": self._stream,
            "Nats-Expected-Last-Subject-Sequence": "0",
        }
        if self._marks_kept_s is not None:
            headers["Nats-TTL"] = f"{self._marks_kept_s}s"
        try:
            answer_of(await client.request(mark, b"", timeout=TIMEOUT_S, headers=headers))
        except ApiError as error:
            if error.err_code == _IS_MARKED:
                return False
            raise
        return True

    def _problem(self, config: dict[str, Any]) -> str | None:
        """Why a stream of this configuration cannot hold the promise; None: it can."""
        kept, max_age_s = self._marks_kept_s, config.get("max_age", 0) / 10**9
        if not config.get("allow_atomic"):
            return "it takes no atomic batches; set allow_atomic (NATS 2.12 or later)"
        if config.get("retention", "limits") != "limits":
            return f"its retention is {config['retention']!r}, which deletes marks when they are read, not 'limits'"
        if kept is not None and not config.get("allow_msg_ttl"):
            return "marks expire, which it does not allow; set allow_msg_ttl, or NatsSink(marks_kept=None)"
        if max_age_s and (kept is None or max_age_s < kept):
            wanted = "all marks" if kept is None else f"marks for {kept} s"
            return f"it deletes messages after {max_age_s:g} s (max_age), and {wanted} must be kept (marks_kept=)"
        if not covers(config.get("subjects") or (), f"{self._marks}.*.*"):
            return f"its subjects have no place for marks, '{self._marks}.*.*'; add it, or set NatsSink(marks=...)"
        return None


def _may_succeed_later(error: Exception) -> bool:
    return is_transient(error) or (isinstance(error, ApiError) and error.err_code in _LATER)

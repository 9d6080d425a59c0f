"""Writers: rows at once, or kept for the commit of their checkpoint."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import msgspec
import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.async_sink import AsyncSinkWriter
from flinkray.connectors.nats.clients import TIMEOUT_S, NatsServer, is_transient, refuse
from flinkray.connectors.nats.commits import NatsRows
from flinkray.connectors.nats.messages import NatsTarget
from flinkray.connectors.request_buffer import RequestLimits
from flinkray.connectors.sink import SinkWriter, SinkWriterContext
from flinkray.errors import FlinkrayError


class PublishingWriter(AsyncSinkWriter):
    """Publishes rows as they come, and waits for the server's answers to all of a request.

    Args:
        where: operator and subtask, for errors.
    """

    def __init__(
        self, context: SinkWriterContext, limits: RequestLimits, server: NatsServer, target: NatsTarget, where: str
    ) -> None:
        super().__init__(context, limits)
        self._server = server
        self._target = target
        self._where = where
        self._client: Any = None
        self._stream: Any = None
        self._connecting = asyncio.Lock()

    async def send(self, rows: pa.RecordBatch) -> list[int]:
        stream = await self._connected()
        try:
            found = await asyncio.wait_for(self._publish(stream, rows), TIMEOUT_S)
        except FlinkrayError:  # of a row that has no form
            raise
        except Exception as error:
            await self._disconnect()
            self._refuse_unless_transient(error)
            raise TimeoutError(str(error) or type(error).__name__) from error
        failed = [index for index, answer in enumerate(found) if isinstance(answer, BaseException)]
        for index in failed:
            self._refuse_unless_transient(found[index])
        return failed

    async def _publish(self, stream: Any, rows: pa.RecordBatch) -> list[Any]:
        """The server's answers, or what went wrong, for each row."""
        answers = []
        for subject, payload, message_id in self._target.messages(rows, self._where):
            headers = None if message_id is None else {"Nats-Msg-Id": message_id}
            answers.append(await stream.publish_async(subject, payload, headers=headers))
        return await asyncio.gather(*answers, return_exceptions=True)

    async def close_client(self) -> None:
        await self._disconnect()

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                try:
                    self._client = await self._server.connect()
                except Exception as error:
                    self._refuse_unless_transient(error)
                    raise TimeoutError(f"{self._server}: {error}") from error
                self._stream = self._client.jetstream(timeout=TIMEOUT_S)
            return self._stream

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _refuse_unless_transient(self, error: BaseException) -> None:
        if not is_transient(error):
            refuse(error, self._where, f"cannot write to {self._server}")


class RowsWriter(SinkWriter):
    """Keeps the rows, as they will be written, for the checkpoint.

    Args:
        marks: what the subjects of marks begin with.
    """

    def __init__(self, target: NatsTarget, marks: str, where: str) -> None:
        self._target = target
        self._marks = marks
        self._where = where
        self._messages: list[tuple[str, bytes]] = []

    def write(self, batch: Batch) -> None:
        found = self._target.messages(batch.data, self._where)
        self._messages.extend((subject, payload) for subject, payload, _ in found)

    def prepare_commit(self, checkpoint_id: int) -> list[NatsRows]:
        if not self._messages:
            return []
        messages, self._messages = self._messages, []
        return [NatsRows(f"{self._marks}.{uuid.uuid4().hex}", self._where, msgspec.msgpack.encode(messages))]

    def close(self) -> None:
        self._messages.clear()

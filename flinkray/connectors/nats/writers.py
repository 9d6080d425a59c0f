"""Writers: rows at once, or kept for the commit of their checkpoint."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import msgspec
import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.async_sink import AsyncSinkWriter, SendAgain
from flinkray.connectors.nats.clients import (
    TIMEOUT_S,
    NatsConnection,
    NatsError,
    NatsServer,
    ask,
    explained,
    is_transient,
    refuse,
)
from flinkray.connectors.nats.commits import NatsMessage, NatsRows
from flinkray.connectors.nats.exactly_once import FoundStream, MarkedStream
from flinkray.connectors.nats.messages import NatsTarget
from flinkray.connectors.request_buffer import RequestLimits
from flinkray.connectors.sink import SinkWriter, SinkWriterContext
from flinkray.errors import FlinkrayError
from flinkray.extras import import_package


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

    async def send(self, rows: pa.RecordBatch) -> None:
        stream = await self._connected()
        messages = list(self._target.messages(rows, self._where))
        try:
            found = await asyncio.wait_for(self._publish(stream, messages), TIMEOUT_S)
        except Exception as error:
            await self._disconnect()
            self._refuse_unless_transient(error)
            raise TimeoutError(str(error) or type(error).__name__) from error
        failed = [index for index, answer in enumerate(found) if isinstance(answer, BaseException)]
        if not failed:
            return
        for index in failed:
            self._refuse_unless_transient(found[index])
        unanswered = import_package("nats.js.errors", "NATS").NoStreamResponseError
        for subject in {messages[index][0] for index in failed if isinstance(found[index], unanswered)}:
            await self._refuse_without_stream(subject)
        raise SendAgain(f"{self._server}: {explained(found[failed[0]])}", failed)

    async def _publish(self, stream: Any, messages: list[Any]) -> list[Any]:
        """The server's answers, or what went wrong, for each message."""
        answers = [await stream.publish_async(subject, value, headers=headers) for subject, value, headers in messages]
        return await asyncio.gather(*answers, return_exceptions=True)

    async def _refuse_without_stream(self, subject: str) -> None:
        """Raises an error where the server knows of no stream that has a subject to which no stream has answered."""
        try:
            streams = (await ask(self._client, "STREAM.NAMES", subject=subject)).get("streams")
        except Exception:  # JetStream is not there, or not yet: that may pass
            return
        if not streams:
            raise NatsError(
                f"{self._where}: cannot write to {self._server}: no stream has the subject {subject!r}. Add it to one, "
                "or make one first, as with 'nats stream add'"
            )

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

    Raises:
        NatsError: the stream can never take them. A server that does not answer is not waited for: the commit is.
    """

    def __init__(self, server: NatsServer, stream: MarkedStream, target: NatsTarget, where: str) -> None:
        self._stream = stream
        self._target = target
        self._where = where
        self._messages: list[NatsMessage] = []
        self._found: FoundStream | None = None
        """None: the server did not answer."""
        connection = NatsConnection(server)
        try:
            self._found = connection.run(lambda client: stream.found(client, where))
        except FlinkrayError:
            raise
        except Exception as error:
            if not is_transient(error):
                refuse(error, where, f"cannot write to stream {stream.name!r} of {server}")
        finally:
            connection.close()

    def write(self, batch: Batch) -> None:
        messages = [NatsMessage(*each) for each in self._target.messages(batch.data, self._where)]
        if self._found is not None:
            longest = max((each.nbytes for each in messages), default=0)
            self._found.check({each.subject for each in messages}, longest, self._where)
        self._messages.extend(messages)

    def prepare_commit(self, checkpoint_id: int) -> list[NatsRows]:
        if not self._messages:
            return []
        messages, self._messages = self._messages, []
        return [NatsRows(f"{self._stream.marks}.{uuid.uuid4().hex}", self._where, msgspec.msgpack.encode(messages))]

    def close(self) -> None:
        self._messages.clear()

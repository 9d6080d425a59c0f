"""Reads subjects of a stream on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from flinkray.batches.batch import Batch
from flinkray.connectors.fetcher import AWAY_S, Fetched, FetchingReader, Patience, PausingFetcher, few
from flinkray.connectors.formats.message_format import Decoded, decode_rows, first_refused
from flinkray.connectors.nats.clients import (
    NatsConnection,
    NatsError,
    ask,
    explained,
    is_transient,
    refuse,
)
from flinkray.connectors.nats.consumers import ConsumerLost, Message, PullConsumer
from flinkray.connectors.nats.enumerator import NatsSplit
from flinkray.connectors.nats.settings import NatsSourceSettings
from flinkray.connectors.source import SourceReaderContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import FlinkrayError, RecordError
from flinkray.types.records import RecordType

log = logging.getLogger(__name__)

METADATA = {
    "subject": pa.string(),
    "sequence": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "headers": pa.map_(pa.string(), pa.string()),
}
"""What is known of a message besides its payload."""
_WAIT_S = 0.1
"""How long is waited for messages if there are none."""
_RETRY_S = 1.0
_LOOK_S = 2.0
"""How often the server is asked whether there is nothing more, while nothing comes."""


class NatsReader(FetchingReader[NatsSplit]):
    """Reads the splits of a subtask."""

    def __init__(self, context: SourceReaderContext, settings: NatsSourceSettings, rows: RecordType) -> None:
        where = subtask_label(context)
        super().__init__(context, NatsFetcher(settings, rows, where, Patience(context.count)), f"nats of {where}")


class NatsFetcher(PausingFetcher[NatsSplit]):
    """Has a consumer for each split, and makes new ones where a connection was lost."""

    def __init__(self, settings: NatsSourceSettings, rows: RecordType, where: str, patience: Patience) -> None:
        super().__init__()
        self._settings = settings
        self._type = rows
        self._where = where
        self._patience = patience
        self._connection: NatsConnection | None = None
        self._consumers: dict[str, PullConsumer] = {}
        self._came = asyncio.Event()
        self._looked_at = 0.0

    def open(self) -> None:
        self._connection = NatsConnection(self._settings.server)

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):  # the server forgets consumers in a while
                self._connection.run(self._close_consumers)
            self._connection.close()

    def pending_rows(self, split: NatsSplit) -> int | None:
        consumer = self._consumers.get(split.split_id)
        return None if consumer is None else consumer.pending

    def add_splits(self, splits: Sequence[NatsSplit]) -> Iterator[Fetched[NatsSplit]]:
        for split in splits:
            self._splits[split.split_id] = split
            if split.stop is not None and split.last >= split.stop:
                yield self._ended(split)

    def fetch(self) -> Iterator[Fetched[NatsSplit]]:
        assert self._connection is not None
        try:
            came = self._connection.run(self._ask_and_take)
            if came:
                self._patience.answered()
            for split_id, messages in came.items():
                yield from self._fetched(self._splits[split_id], messages)
            now = time.monotonic()
            if not came and now > self._looked_at + _LOOK_S:
                self._looked_at = now
                at_end = self._connection.run(self._found_at_end)
                self._patience.answered()
                for split in at_end:
                    yield from self._moved(split)
        except FlinkrayError:
            raise
        except Exception as error:
            self._begin_again(error)

    # -- on the event loop

    async def _ask_and_take(self, client: Any) -> dict[str, list[Message]]:
        """The messages that have come of each split; waits for a moment if there are none."""
        consumers = {}
        for split_id in self._splits.keys() - self._paused:
            consumers[split_id] = self._consumers.get(split_id) or await self._open(client, split_id)
        taken: dict[str, list[Message]] = {}
        for _ in range(2):
            self._came.clear()
            for split_id, consumer in consumers.items():
                if messages := consumer.take():
                    taken[split_id] = messages
                await consumer.ask_for_more()
            if taken:
                break
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._came.wait(), _WAIT_S)
        return taken

    async def _open(self, client: Any, split_id: str) -> PullConsumer:
        split = self._splits[split_id]
        found = await ask(client, f"STREAM.INFO.{split.stream}")
        if found["config"]["retention"] != "limits":
            raise NatsError(
                f"{self._where}: stream {split.stream!r} deletes messages when they are read (retention "
                f"{found['config']['retention']}), and after a failure they could not be read again. Let a stream of "
                "retention 'limits' have it as its source, and read that"
            )
        self._splits[split_id] = split = self._of_same_stream(split, found)
        first = found["state"]["first_seq"]
        if split.is_begun and self._settings.fails_if_gone and first > split.last + 1:
            raise NatsError(
                f"{self._where}: messages {split.last + 1} to {first - 1} of stream {split.stream!r} are not there any "
                "more, and were not read. Let the stream keep more (max_age, max_msgs, max_bytes) than comes while a "
                "job stands still; or let NatsSource(gone='skip') read on"
            )
        consumer = PullConsumer(client, split, self._came)
        await consumer.open()
        self._consumers[split_id] = consumer
        if split.stop is not None and consumer.pending == 0:
            self._looked_at = 0.0
        return consumer

    def _of_same_stream(self, split: NatsSplit, found: Mapping[str, Any]) -> NatsSplit:
        """The split, with the time at which its stream was made.

        Raises:
            NatsError: the stream was made anew since, so that its sequences say nothing any more.
        """
        made, last = found["created"], found["state"]["last_seq"]
        if split.last and (split.made not in ("", made) or (split.is_begun and last < split.last)):
            if self._settings.fails_if_gone:
                raise NatsError(
                    f"{self._where}: stream {split.stream!r} was deleted and made anew at {made}, and message "
                    f"{split.last}, behind which to read on, is of the former one. Start without the state of this "
                    "source; or let NatsSource(gone='skip') read the stream from its first message"
                )
            return replace(split, last=0, made=made, is_begun=False)
        return replace(split, made=made)

    async def _found_at_end(self, client: Any) -> list[NatsSplit]:
        """Splits that have no message that was not taken, each with the last sequence of its stream before that was
        found out: so far it has been read, though the messages were those of other subjects."""
        found = []
        for split_id, consumer in list(self._consumers.items()):
            split = self._splits[split_id]
            last = (await ask(client, f"STREAM.INFO.{split.stream}"))["state"]["last_seq"]
            if (last > split.last or split.stop is not None) and await consumer.is_at_end():
                found.append(replace(split, last=max(last, split.last), start_time=None, is_begun=True))
        return found

    async def _close_consumers(self, _client: Any) -> None:
        await asyncio.wait_for(asyncio.gather(*(each.close() for each in self._consumers.values())), 2)

    # -- on the thread

    def _fetched(self, split: NatsSplit, messages: list[Message]) -> Iterator[Fetched[NatsSplit]]:
        last = messages[-1][0]
        if split.stop is not None and last > split.stop:
            messages = [message for message in messages if message[0] <= split.stop]
        following = replace(split, last=last, start_time=None, is_begun=True)
        batch = self._rows(messages) if messages else None
        # Only now, as reading begins again behind it where something fails.
        self._splits[split.split_id] = following
        yield Fetched(following, batch)
        if split.stop is not None and last >= split.stop:
            yield self._ended(following)

    def _moved(self, split: NatsSplit) -> Iterator[Fetched[NatsSplit]]:
        self._splits[split.split_id] = split
        yield Fetched(split) if split.stop is None else self._ended(split)

    def _ended(self, split: NatsSplit) -> Fetched[NatsSplit]:
        del self._splits[split.split_id]
        self._consumers.pop(split.split_id, None)
        return Fetched(split, is_end=True)

    def _rows(self, messages: list[Message]) -> Batch:
        settings = self._settings
        sequences, nanos, subjects, payloads, headers = zip(*messages, strict=True)
        try:
            decoded = self._decoded(payloads)
        except ValueError as error:
            bad, reason = first_refused(messages, lambda some: self._decoded([each[3] for each in some]))
            raise RecordError(
                f"{self._where}: message {bad[0]} of stream {settings.stream!r} (subject {bad[2]!r}) cannot be read: "
                f"{reason or error}. Read messages with RawFormat, and decode them behind the source"
            ) from error
        times = pa.array(np.array(nanos, np.int64) // 1_000_000)
        made = {
            "subject": lambda: pa.array(subjects, METADATA["subject"]),
            "sequence": lambda: pa.array(sequences, METADATA["sequence"]),
            "timestamp": lambda: times.cast(METADATA["timestamp"]),
            "headers": lambda: pa.array([list((each or {}).items()) for each in headers], METADATA["headers"]),
        }
        metadata = [made[name]() for name in settings.metadata]
        if decoded.rows is not None:
            metadata, times = [each.take(decoded.rows) for each in metadata], times.take(decoded.rows)
        data = pa.RecordBatch.from_arrays([*metadata, *decoded.data.columns], schema=self._type.schema)
        return Batch(data, self._type.kind, times, kinds=decoded.kinds)

    def _decoded(self, payloads: Sequence[bytes]) -> Decoded:
        return decode_rows(self._settings.value_format, pa.array(payloads, pa.large_binary()))

    def _begin_again(self, error: Exception) -> None:
        """Makes new consumers after a moment, each behind the last message that was taken."""
        places = few(f"{each.subject!r} behind message {each.last}" for each in self._splits.values())
        what = f"cannot read stream {self._settings.stream!r} of {self._settings.server} ({places})"
        if not isinstance(error, ConsumerLost) and not is_transient(error):
            refuse(error, self._where, what)
        if not self._patience.asks_again():
            refuse(error, self._where, f"{what}, asked again for {AWAY_S:.0f} s")
        log.warning("%s: %s: %s; trying again", self._where, what, explained(error))
        assert self._connection is not None
        self._consumers.clear()
        self._connection.disconnect()
        time.sleep(_RETRY_S)  # the thread has nothing else to do meanwhile

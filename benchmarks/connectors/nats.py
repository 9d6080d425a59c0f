"""NATS JetStream: JSON messages read, and messages written."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pyarrow as pa
import pyarrow.json

from benchmarks.connectors.kafka import messages, texts
from benchmarks.connectors.way import Way, read, write
from flinkray import JsonFormat, NatsSink, NatsSource, RawFormat

_AT_ONCE = 5_000
_UNDER_WAY = 2_000


async def _published(address: str, subject: str, values: list[bytes]) -> None:
    import nats

    client = await nats.connect(address)
    stream = client.jetstream(publish_async_max_pending=_UNDER_WAY)
    for start in range(0, len(values), _UNDER_WAY):
        some = values[start : start + _UNDER_WAY]
        await asyncio.gather(*[await stream.publish_async(subject, value) for value in some])
    await client.close()


async def _fetched(address: str, place: str, rows: int) -> None:
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig

    client = await nats.connect(address)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True)
    pulled: Any = await client.jetstream().pull_subscribe(f"{place}.rows", stream=place, config=config)
    seen = 0
    while seen < rows:
        taken = await pulled.fetch(min(_AT_ONCE, rows - seen), timeout=5)
        pa.array([message.metadata.sequence.stream for message in taken])
        seen += pyarrow.json.read_json(io.BytesIO(b"\n".join([message.data for message in taken]))).num_rows
    await client.close()


class NatsWay(Way):
    server = "nats"

    @property
    def address(self) -> str:
        return str(self.server_of_it.url)

    def prepare(self, place: str, rows: int) -> None:
        self.server_of_it.create_stream(place)

    def clear(self, place: str) -> None:
        self.server_of_it.delete_stream(place)


class NatsRead(NatsWay):
    name = "nats-read"
    work = "JSON messages of a stream of NATS to columns"
    client_is = "fetch(5000) of nats-py, payloads and sequences, pyarrow's JSON reader"

    def prepare(self, place: str, rows: int) -> None:
        super().prepare(place, rows)
        asyncio.run(_published(self.address, f"{place}.rows", messages(rows)))

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        asyncio.run(_fetched(address, place, rows))

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        columns = {"id": int, "customer": int, "price": float, "word": str}
        read(NatsSource(address, place, JsonFormat(columns), f"{place}.rows", stop="latest"), rows)


class NatsWrite(NatsWay):
    name = "nats-write"
    work = "texts to a stream of NATS, at least once"
    client_is = "publish_async() of nats-py, 2000 answers awaited at a time"

    @staticmethod
    def make(rows: int) -> None:
        texts(rows)

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        asyncio.run(_published(address, f"{place}.rows", messages(rows)))

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        write(texts(rows), NatsSink(address, f"{place}.rows", RawFormat()))

"""Kafka: JSON messages read, and messages written."""

from __future__ import annotations

import functools
import io
from typing import Any

import pyarrow as pa
import pyarrow.json

from benchmarks.connectors.way import Way, orders, read, write
from flinkray import JsonFormat, KafkaSink, KafkaSource, RawFormat

_AT_ONCE = 10_000


@functools.cache
def messages(rows: int) -> list[bytes]:
    """Each row as JSON."""
    table = orders(rows)
    columns = (table.column(name).to_pylist() for name in table.column_names)
    return [
        b'{"id": %d, "customer": %d, "price": %.2f, "word": "%s"}' % (number, customer, price, word.encode())
        for number, customer, price, word in zip(*columns, strict=True)
    ]


@functools.cache
def texts(rows: int) -> pa.Table:
    return pa.table({"value": pa.array(messages(rows), pa.binary()).cast(pa.string())})


def _produced(address: str, place: str, values: list[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for value in values:
        producer.produce(place, value)
        if len(producer) >= 500_000:
            producer.poll(0.1)
    producer.flush()


class KafkaWay(Way):
    server = "kafka"

    @property
    def address(self) -> str:
        return str(self.server_of_it.servers)


class KafkaRead(KafkaWay):
    name = "kafka-read"
    work = "JSON messages of Kafka to columns"
    client_is = "consume(10000) of confluent-kafka, values and offsets, pyarrow's JSON reader"

    def prepare(self, place: str, rows: int) -> None:
        self.server_of_it.add_topic(place)
        _produced(self.address, place, messages(rows))

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer: Any = Consumer({"bootstrap.servers": address, "group.id": "bare", "enable.auto.commit": False})
        consumer.assign([TopicPartition(place, 0, 0)])
        seen = 0
        while seen < rows:
            taken = [message for message in consumer.consume(_AT_ONCE, 1.0) if message.error() is None]
            if taken:
                pa.array([message.offset() for message in taken])
                values = b"\n".join([message.value() for message in taken])
                seen += pyarrow.json.read_json(io.BytesIO(values)).num_rows
        consumer.close()

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        columns = {"id": int, "customer": int, "price": float, "word": str}
        read(KafkaSource(address, [place], JsonFormat(columns), stop="latest"), rows)


class KafkaWrite(KafkaWay):
    name = "kafka-write"
    work = "texts to Kafka, at least once"
    client_is = "produce() of confluent-kafka for each, then flush()"

    def prepare(self, place: str, rows: int) -> None:
        self.server_of_it.add_topic(place)

    @staticmethod
    def make(rows: int) -> None:
        texts(rows)

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        _produced(address, place, messages(rows))

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        write(texts(rows), KafkaSink(address, place, RawFormat()))

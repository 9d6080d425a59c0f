"""The broker of the examples, with what tests do with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from examples.servers import kafka
from tests.support.waiting import eventually


class KafkaBroker(kafka.KafkaBroker):
    """A broker whose topics are made, written and read."""

    def create_topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic of a name of its own."""
        name = f"topic-{uuid.uuid4().hex[:8]}"
        self.add_topic(name, partitions, **config)
        return name

    def add_partitions(self, topic: str, count: int) -> None:
        from confluent_kafka.admin import NewPartitions

        for created in self.admin.create_partitions([NewPartitions(topic, count)]).values():
            created.result(30)

    def write(self, topic: str, values: Iterable[bytes | None], partition: int = 0, **message: Any) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value, partition=partition, **message)
            producer.poll(0)
        assert producer.flush(30) == 0

    def read(self, topic: str, count: int) -> list[Any]:
        """At least `count` messages, and all that there are then, in the order of each partition."""
        from confluent_kafka import Consumer, TopicPartition

        partitions = self.admin.list_topics(topic, timeout=30).topics[topic].partitions
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "test", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[Any] = []

        def take() -> bool:
            more = consumer.consume(1_000, 0.5)
            found.extend(message for message in more if message.error() is None)
            return len(found) >= count and not more

        eventually(take, deadline_s=30)
        consumer.close()
        return found

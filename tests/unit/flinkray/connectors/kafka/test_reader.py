"""What a reader makes of a partition that the brokers know and none of them leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

import confluent_kafka

import flinkray.connectors.kafka.reader as reader
from flinkray import KafkaSource
from flinkray.connectors.fetcher import AWAY_S, Patience
from flinkray.connectors.kafka.enumerator import KafkaSplit
from flinkray.connectors.kafka.reader import KafkaFetcher
from flinkray.errors import FlinkrayError


class Consumer:
    """Of a topic of two partitions, one of which has no leader while there is none."""

    leader = -1
    error: Any = None
    messages: tuple[Any, ...] = ()

    def incremental_assign(self, _: Any) -> None: ...

    def incremental_unassign(self, _: Any) -> None: ...

    def consume(self, *_: Any) -> list[Any]:
        taken, self.messages = self.messages, ()
        return list(taken)

    def get_watermark_offsets(self, *_: Any, **__: Any) -> None:
        return None

    def list_topics(self, topic: str, **_: Any) -> Any:
        partitions = {0: SimpleNamespace(leader=1), 1: SimpleNamespace(leader=self.leader)}
        listed = SimpleNamespace(error=self.error, partitions={} if self.error else partitions)
        return SimpleNamespace(topics={topic: listed})


def test_a_partition_that_no_broker_leads_is_waited_for_and_then_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_LOOK_S", 0)
    now, counted, consumer = [0.0], [], Consumer()
    settings = KafkaSource("host:1", ["orders"])._settings
    fetcher = KafkaFetcher(
        settings, lambda _: consumer, "source: kafka (1 of 1)", lambda: Patience(counted.append, lambda: now[0])
    )
    fetcher.open()
    list(fetcher.add_splits([KafkaSplit("orders", 0, 3), KafkaSplit("orders", 1, 7)]))

    def look(seconds: float) -> None:
        now[0] += seconds
        list(fetcher.fetch())

    look(0)
    consumer.leader = 2
    look(AWAY_S)
    consumer.leader = -1
    look(0)
    look(AWAY_S - 1)
    assert counted == ["reads_retried"] * 3
    with pytest.raises(FlinkrayError, match=r"cannot read partition 1 of topic 'orders' at offset 7: no broker leads"):
        look(1)
    consumer.error = confluent_kafka.KafkaError(5)  # of the topic, which then has no partitions
    with pytest.raises(FlinkrayError, match=r"at offset 3, partition 1 .* at offset 7: .*LEADER_NOT_AVAILABLE"):
        look(1)
    consumer.error = confluent_kafka.KafkaError(29)
    now[0] = -1_000_000  # as if nothing had failed yet: what is refused is not waited for
    with pytest.raises(FlinkrayError, match=r"the user may not use the topic"):
        look(0)


def message(offset: int, error: int | None = None) -> Any:
    values = {
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "error": None if error is None else confluent_kafka.KafkaError(error),
        "value": b"x",
        "timestamp": (1, 5),
    }
    return SimpleNamespace(**{name: lambda value=value: value for name, value in values.items()})


def test_rows_that_come_together_with_the_end_of_their_partition_are_there() -> None:
    """A thread that sleeps for a while takes both at once, and the end says of itself that all has been read."""
    end = confluent_kafka.KafkaError._PARTITION_EOF
    consumer = Consumer()
    settings = KafkaSource("host:1", ["orders"], stop="latest")._settings
    fetcher = KafkaFetcher(settings, lambda _: consumer, "source: kafka (1 of 1)", lambda: Patience(lambda _: None))
    fetcher.open()
    list(fetcher.add_splits([KafkaSplit("orders", 0, 0, 5)]))
    consumer.messages = (message(0), message(1, end), message(1), message(5, end))  # offsets 2 to 4 are of transactions
    found = list(fetcher.fetch())
    assert [(each.split.offset, each.batch and each.batch.num_rows, each.is_end) for each in found] == [
        (2, 2, False),
        (5, None, True),
    ]
    assert not fetcher.has_splits

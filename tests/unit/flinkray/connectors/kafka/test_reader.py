"""What a reader makes of a partition that the brokers know and none of them leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

import flinkray.connectors.kafka.reader as reader
from flinkray import KafkaSource
from flinkray.connectors.fetcher import AWAY_S, Patience
from flinkray.connectors.kafka.enumerator import KafkaSplit
from flinkray.connectors.kafka.reader import KafkaFetcher
from flinkray.errors import FlinkrayError


class Consumer:
    """Of a topic of two partitions, one of which has no leader while there is none."""

    leader = -1

    def incremental_assign(self, _: Any) -> None: ...

    def consume(self, *_: Any) -> list[Any]:
        return []

    def get_watermark_offsets(self, *_: Any, **__: Any) -> None:
        return None

    def list_topics(self, topic: str, **_: Any) -> Any:
        partitions = {0: SimpleNamespace(leader=1), 1: SimpleNamespace(leader=self.leader)}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=partitions)})


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

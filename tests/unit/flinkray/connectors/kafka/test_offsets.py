"""What is asked of brokers about places in partitions, while these get a leader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

import confluent_kafka

from flinkray.connectors.kafka import clients
from flinkray.connectors.kafka.clients import KafkaError
from flinkray.connectors.kafka.offsets import KafkaOffsets

NOT_LEADER, NOT_ALLOWED = 6, 29
PLACES = (KafkaOffsets.earliest(), KafkaOffsets.timestamp(5), KafkaOffsets.committed("none"))


class Leaderless:
    """Brokers that give the error of a code to the first questions about a partition."""

    def __init__(self, code: int, times: int) -> None:
        self.left = [confluent_kafka.KafkaError(code)] * times

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        if self.left:
            raise confluent_kafka.KafkaException(self.left.pop())
        return 3, 3

    def offsets_for_times(self, partitions: Any, **_: Any) -> list[Any]:
        error = self.left.pop() if self.left else None
        offset = 3 if error is None else -1001
        return [
            SimpleNamespace(topic=each.topic, partition=each.partition, offset=offset, error=error)
            for each in partitions
        ]

    committed = offsets_for_times


@pytest.mark.parametrize("place", PLACES)
def test_a_partition_that_gets_a_leader_is_waited_for(monkeypatch: pytest.MonkeyPatch, place: KafkaOffsets) -> None:
    monkeypatch.setattr(clients, "AGAIN_S", 0.0)
    assert place.of(Leaderless(NOT_LEADER, 3), [("orders", 1)], "host:1") == {("orders", 1): 3}


@pytest.mark.parametrize("place", PLACES)
def test_what_brokers_refuse_is_an_error_also_of_one_partition(place: KafkaOffsets) -> None:
    """Otherwise a partition whose offset by time was refused would begin at its end."""
    with pytest.raises(KafkaError, match=r"cannot ask for .*TOPIC_AUTHORIZATION_FAILED"):
        place.of(Leaderless(NOT_ALLOWED, 1), [("orders", 1)], "host:1")


@pytest.mark.parametrize(("offset", "begins"), [(2, 3), (3, 3), (4, 4)])
def test_a_committed_offset_that_is_there_no_more_is_as_none_where_there_is_a_fallback(
    offset: int, begins: int
) -> None:
    """As Java's consumer resets it. Behind the end may be what one has read that waits for no transactions."""
    brokers = Leaderless(NOT_LEADER, 0)
    committed = SimpleNamespace(topic="t", partition=0, offset=offset, error=None)
    brokers.committed = lambda *_, **__: [committed]  # type: ignore[method-assign]
    assert KafkaOffsets.committed("earliest").of(brokers, [("t", 0)], "host:1") == {("t", 0): begins}
    assert KafkaOffsets.committed("none").of(brokers, [("t", 0)], "host:1") == {("t", 0): offset}

"""Which reader hears of which partition, and that there are no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from flinkray import KafkaSource
from flinkray.connectors.kafka.enumerator import KafkaEnumerator, KafkaSplit


class Brokers:
    """A topic of two partitions with five messages each."""

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={"orders": SimpleNamespace(error=None, partitions={0: None, 1: None})})

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, 5


class Readers:
    """The subtasks of the source, and what they have heard."""

    parallelism = 2

    def __init__(self) -> None:
        self.registered_readers: frozenset[int] = frozenset()
        self.heard: list[tuple[int, Any]] = []

    def assign_splits(self, splits: Any, subtask: int) -> None:
        self.heard += [(subtask, split) for split in splits]

    def signal_no_more_splits(self, subtask: int) -> None:
        self.heard.append((subtask, "no more"))

    def take(self) -> list[tuple[int, Any]]:
        heard, self.heard = self.heard, []
        return heard


def test_a_reader_that_starts_again_hears_again_that_there_are_no_more_splits() -> None:
    """Also one that had no split that comes back: it waits for that word, and would never end."""
    readers: Any = Readers()
    settings = KafkaSource("host:1", ["orders"], stop="latest")._settings
    enumerator = KafkaEnumerator(readers, settings, None, lambda _: Brokers())
    enumerator.start()
    for subtask in (0, 1):
        readers.registered_readers |= {subtask}
        enumerator.add_reader(subtask)
    heard = readers.take()
    assert sorted(split.partition for _, split in heard if isinstance(split, KafkaSplit)) == [0, 1]
    assert sorted(subtask for subtask, word in heard if word == "no more") == [0, 1]
    enumerator.add_reader(0)
    assert readers.take() == [(0, "no more")]

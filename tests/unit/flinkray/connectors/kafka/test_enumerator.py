"""Which reader hears of which partition, and that there are no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

import confluent_kafka

from flinkray import KafkaSource
from flinkray.connectors.fetcher import AWAY_S
from flinkray.connectors.kafka import enumerator as module
from flinkray.connectors.kafka.clients import KafkaError
from flinkray.connectors.kafka.enumerator import KafkaEnumerator, KafkaSplit

LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC, NOT_ALLOWED = 5, 3, 29
AUTHENTICATION = confluent_kafka.KafkaError._AUTHENTICATION


class Brokers:
    """A topic of two partitions with five messages each.

    Args:
        first: what is answered before that to the question for topics: the code of the topic's error, None where the
            topic is not listed, "away" where nobody answers, "refused" where it is as if nobody did, since user or
            password are wrong.
    """

    def __init__(self, *first: int | str | None) -> None:
        self.first = list(first)
        self.note: Any = None
        self.telling: Any = None

    def with_callback(self, note: Any) -> Brokers:
        self.note = note
        return self

    def list_topics(self, **_: Any) -> Any:
        found = SimpleNamespace(error=None, partitions={0: None, 1: None})
        if self.first:
            said = self.first.pop(0)
            if said is None:
                return SimpleNamespace(topics={})
            if isinstance(said, str):
                self.telling = AUTHENTICATION if said == "refused" else None
                raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._TRANSPORT))
            found = SimpleNamespace(error=confluent_kafka.KafkaError(said), partitions={})
        return SimpleNamespace(topics={"orders": found})

    def poll(self, _: float) -> None:
        if self.telling is not None:
            self.note(confluent_kafka.KafkaError(self.telling))

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, 5


def no_ids(_: Any) -> dict[str, str]:
    """What brokers before version 2.8 say."""
    return {}


class Readers:
    """The subtasks of the source, and what they have heard."""

    parallelism = 2

    def __init__(self) -> None:
        self.registered_readers: frozenset[int] = frozenset()
        self.heard: list[tuple[int, Any]] = []
        self.now = 0
        self.later: list[tuple[int, Any]] = []

    def now_ms(self) -> int:
        return self.now

    def call_later(self, delay_ms: int, callback: Any) -> None:
        self.later.append((delay_ms, callback))

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
    enumerator = KafkaEnumerator(readers, settings, None, lambda _: Brokers(), no_ids)
    enumerator.start()
    for subtask in (0, 1):
        readers.registered_readers |= {subtask}
        enumerator.add_reader(subtask)
    heard = readers.take()
    assert sorted(split.partition for _, split in heard if isinstance(split, KafkaSplit)) == [0, 1]
    assert sorted(subtask for subtask, word in heard if word == "no more") == [0, 1]
    enumerator.add_reader(0)
    assert readers.take() == [(0, "no more")]


def test_a_topic_that_was_made_anew_is_not_read_on() -> None:
    """It may have so many messages already that the first of them would be left out in silence."""
    settings = KafkaSource("host:1", ["orders"])._settings

    def started(restored: Any, **ids: str) -> Any:
        enumerator = KafkaEnumerator(Readers(), settings, restored, lambda _: Brokers(), lambda _: ids)  # type: ignore[arg-type]
        enumerator.start()
        return enumerator.snapshot_state(1)

    state = started(started(None, orders="one"))  # brokers that do not say it now do not have it forgotten
    assert started(state, orders="one", others="two").topic_ids == {"orders": "one", "others": "two"}
    with pytest.raises(KafkaError, match=r"topic 'orders' at host:1 was deleted and made anew.*without the state"):
        started(state, orders="two")


@pytest.mark.parametrize("topics", [["orders"], "ord.*"])
def test_topics_that_get_leaders_are_waited_for_and_others_are_refused_or_left_out(
    monkeypatch: pytest.MonkeyPatch, topics: Any
) -> None:
    def partitions(*first: int | None) -> set[Any]:
        brokers = Brokers(*first)
        enumerator = KafkaEnumerator(Readers(), settings, None, lambda _: brokers, no_ids)  # type: ignore[arg-type]
        enumerator.start()
        assert not brokers.first
        return set(enumerator.snapshot_state(1).known)

    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    settings = KafkaSource("host:1", topics, stop="latest")._settings
    both = {("orders", 0), ("orders", 1)}
    assert partitions(LEADER_NOT_AVAILABLE, LEADER_NOT_AVAILABLE) == both
    if isinstance(topics, str):
        assert partitions(None) == partitions(UNKNOWN_TOPIC) == partitions(NOT_ALLOWED) == set()
        return
    with pytest.raises(KafkaError, match=r"topic 'orders' cannot be read at host:1: .*the user may not use the topic"):
        partitions(NOT_ALLOWED)
    assert partitions(None, UNKNOWN_TOPIC) == both
    monkeypatch.setattr(module, "_APPEARS_S", 0.0)
    for said in (None, UNKNOWN_TOPIC):
        with pytest.raises(KafkaError, match="topic 'orders' is not there, or may not be read, at host:1"):
            partitions(said)


class Discovery:
    """A source that has begun, and looks for new partitions."""

    def __init__(self) -> None:
        self.readers: Any = Readers()
        self.brokers = Brokers()
        settings = KafkaSource("host:1", ["orders"], discovery_interval="1 min")._settings
        KafkaEnumerator(self.readers, settings, None, self.brokers.with_callback, no_ids).start()

    def look(self, answer: int | str | None, after_ms: int = 1_000) -> int:
        """When it looks again."""
        (_, callback) = self.readers.later.pop()
        self.readers.now += after_ms
        self.brokers.first = [answer] if answer else []
        callback()
        return int(self.readers.later[-1][0])


def test_brokers_that_are_away_when_new_partitions_are_looked_for_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.0)
    discovery = Discovery()
    answers = ("away", LEADER_NOT_AVAILABLE, None, "away")
    assert [discovery.look(each) for each in answers] == [10_000, 10_000, 60_000, 10_000]
    with pytest.raises(KafkaError, match="cannot ask for the topics of host:1"):
        discovery.look("away", int(AWAY_S * 1_000))


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (NOT_ALLOWED, "topic 'orders' cannot be read at host:1: .*the user may not use the topic"),
        (UNKNOWN_TOPIC, "topic 'orders' is not there, or may not be read, at host:1"),
        ("refused", "cannot ask for the topics of host:1: .*the brokers refuse user or password"),
    ],
)
def test_what_brokers_refuse_twice_when_new_partitions_are_looked_for_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, answer: int | str, sentence: str
) -> None:
    monkeypatch.setattr(module, "_APPEARS_S", 0.0)
    discovery = Discovery()
    assert [discovery.look(each) for each in (answer, "away")] == [10_000] * 2, "once may be one that stops"
    with pytest.raises(KafkaError, match=sentence):
        discovery.look(answer)

"""Which partitions there are, and which subtask reads which."""

from __future__ import annotations

import logging
import re
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct

from flinkray.connectors.fetcher import Patience
from flinkray.connectors.kafka.clients import (
    AGAIN_S,
    TIMEOUT_S,
    Brokers,
    KafkaAwayError,
    KafkaError,
    confluent_kafka,
    explained,
    is_missing,
    is_transient,
    kind_of,
)
from flinkray.connectors.kafka.offsets import KafkaOffsets, Partition
from flinkray.connectors.kafka.settings import KafkaSourceSettings
from flinkray.connectors.source import SplitEnumerator, SplitEnumeratorContext

log = logging.getLogger(__name__)

_APPEARS_S = 1.0
"""How long a topic is waited for that no broker knows: one that was just made is heard of by all in a moment."""
_SOON_MS = 10_000
"""When brokers are asked for new partitions again that did not answer, if that is sooner than the interval."""


class KafkaSplit(Struct, frozen=True):
    """A partition, with the offset of the next message to read, and the one at which it ends (None: it does not)."""

    topic: str
    partition: int
    offset: int
    stop: int | None = None

    @property
    def split_id(self) -> str:
        return f"{self.topic}-{self.partition}"


class KafkaEnumeratorState(Struct, frozen=True):
    """Partitions that are known, the splits of them that no reader has, and by topic what tells it from a later one of
    its name."""

    known: frozenset[Partition]
    waiting: tuple[KafkaSplit, ...]
    topic_ids: Mapping[str, str] = {}


class KafkaEnumerator(SplitEnumerator):
    """Assigns each partition to one subtask, for good; looks for new ones from time to time.

    Partitions of a topic go to neighbouring subtasks, as in Flink's KafkaSourceEnumerator. One that is found while the
    source runs is read from its first message, so that nothing that was written before it was found is missed.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        settings: KafkaSourceSettings,
        restored: KafkaEnumeratorState | None,
        make_consumer: Callable[[Callable[[Any], None]], Any],
        ask_for_ids: Callable[[Sequence[str]], Mapping[str, str]],
    ) -> None:
        """
        Args:
            make_consumer: makes one with that `error_cb`.
            ask_for_ids: what tells topics from later ones of their names, as far as that is known.
        """
        self._context = context
        self._brokers = Brokers(settings.servers)
        self._settings = settings
        self._make_consumer = make_consumer
        self._ask_for_ids = ask_for_ids
        self._patience = Patience(lambda _: None, lambda: context.now_ms() / 1000)
        self._was_refused = False
        """Whether the brokers have refused what they were asked for since their last answer."""
        self._consumer: Any = None
        self._known: set[Partition] = set() if restored is None else set(restored.known)
        self._topic_ids: dict[str, str] = {} if restored is None else dict(restored.topic_ids)
        self._is_restored = restored is not None
        self._waiting: dict[int, list[KafkaSplit]] = defaultdict(list)
        self._ready: set[int] = set()
        """Subtasks whose readers have been told all that was known when they came."""
        for split in () if restored is None else restored.waiting:
            self._waiting[self._owner(split)].append(split)

    def start(self) -> None:
        self._consumer = self._make_consumer(self._brokers.note)
        self._discover(is_first=not self._is_restored)
        self._look_again()

    def handle_split_request(self, subtask_index: int) -> None: ...

    def add_reader(self, subtask_index: int) -> None:
        self._ready.discard(subtask_index)  # one that was started again has heard nothing
        self._assign()

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        for split in splits:
            self._waiting[self._owner(split)].append(split)
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> KafkaEnumeratorState:
        waiting = tuple(split for splits in self._waiting.values() for split in splits)
        return KafkaEnumeratorState(frozenset(self._known), waiting, dict(self._topic_ids))

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    # -- partitions

    def _look_again(self, at_most_ms: int | None = None) -> None:
        interval = self._settings.discovery_interval_ms
        if interval is not None and not self._settings.is_bounded:
            self._context.call_later(interval if at_most_ms is None else min(interval, at_most_ms), self._on_time)

    def _on_time(self) -> None:
        """Looks for new partitions. Brokers may be away meanwhile, for as long as readers wait for them. What they
        refuse twice they would refuse again; once may be one that stops, or that does not know all topics yet."""
        try:
            self._discover(is_first=False)
        except KafkaError as error:
            is_refused = not isinstance(error, KafkaAwayError)
            if (is_refused and self._was_refused) or not self._patience.asks_again():
                raise
            self._was_refused |= is_refused
            log.warning("cannot look for new partitions, which is tried again: %s", error)
            self._look_again(_SOON_MS)
        else:
            self._was_refused = False
            self._patience.answered()
            self._look_again()

    def _discover(self, is_first: bool) -> None:
        found = self._partitions()
        self._check_topics({topic for topic, _ in found})
        new = sorted(found - self._known)
        if new:
            starts = self._settings.start if is_first else KafkaOffsets.earliest()
            servers = self._settings.servers
            begins = starts.of(self._consumer, new, servers)
            stops = {} if self._settings.stop is None else self._settings.stop.of(self._consumer, new, servers)
            for topic, number in new:
                split = KafkaSplit(topic, number, begins[topic, number], stops.get((topic, number)))
                self._waiting[self._owner(split)].append(split)
            self._known.update(new)
        self._assign()

    def _check_topics(self, topics: set[str]) -> None:
        """
        Raises:
            KafkaError: one of them is another one than it was: its first messages would be taken for those read.
        """
        for topic, known in self._ask_for_ids(sorted(topics)).items():
            if self._topic_ids.setdefault(topic, known) != known:
                raise KafkaError(
                    f"topic {topic!r} at {self._settings.servers} was deleted and made anew, and the offsets at which "
                    "the job is are of the former one. Start without the state of this source"
                )

    def _partitions(self) -> set[Partition]:
        """The partitions of the topics that are asked for. Those that brokers have just made are waited for.

        Raises:
            KafkaError: a topic is not there, or not for the user; a KafkaAwayError: the brokers do not answer.
        """
        began = time.monotonic()
        while True:
            listed = self._listed()
            names = self._names(listed)
            problem = next((name for name in names if name not in listed or listed[name].error is not None), None)
            if problem is None:
                return {(name, number) for name in names for number in listed[name].partitions}
            error = listed[problem].error if problem in listed else None
            is_gone = error is None or is_missing(error)
            patience_s = _APPEARS_S if is_gone else TIMEOUT_S
            if time.monotonic() - began >= patience_s or not (is_gone or is_transient(error)):
                if not isinstance(self._settings.topics, str):
                    self._refuse_topic(problem, None if is_gone else error, listed)
                reason = explained(error, self._settings.servers)
                log.warning("topic %r is left out, until it is looked for again: %s", problem, reason)
                readable = [name for name in names if listed[name].error is None]
                return {(name, number) for name in readable for number in listed[name].partitions}
            threading.Event().wait(AGAIN_S)

    def _listed(self) -> Mapping[str, Any]:
        """What the brokers say of all topics."""
        try:
            listed: Mapping[str, Any] = self._consumer.list_topics(timeout=TIMEOUT_S).topics
        except confluent_kafka().KafkaException as error:
            self._consumer.poll(0)  # has the client tell what it says of connections
            self._brokers.refuse(error, f"cannot ask for the topics of {self._settings.servers}")
        self._brokers.answered()
        return listed

    def _names(self, listed: Mapping[str, Any]) -> Sequence[str]:
        topics = self._settings.topics
        if not isinstance(topics, str):
            return topics
        return [
            name
            for name, topic in listed.items()
            if re.fullmatch(topics, name)
            and not name.startswith("__")
            and (topic.error is None or not is_missing(topic.error))  # one that is being deleted
        ]

    def _refuse_topic(self, name: str, error: Any, listed: Mapping[str, Any]) -> NoReturn:
        servers = self._settings.servers
        if error is not None:
            raise kind_of(error)(f"topic {name!r} cannot be read at {servers}: {explained(error, servers)}")
        raise KafkaError(
            f"topic {name!r} is not there, or may not be read, at {servers}. Topics: "
            f"{', '.join(sorted(each for each in listed if not each.startswith('__'))[:20]) or 'none'}"
        )

    def _owner(self, split: KafkaSplit) -> int:
        first = zlib.crc32(split.topic.encode()) % self._context.parallelism
        return (first + split.partition) % self._context.parallelism

    def _assign(self) -> None:
        for subtask in sorted(self._context.registered_readers):
            splits = self._waiting.pop(subtask, [])
            if splits:
                self._context.assign_splits(splits, subtask)
            if self._settings.is_bounded and subtask not in self._ready:
                self._ready.add(subtask)
                self._context.signal_no_more_splits(subtask)

"""Which partitions there are, and which subtask reads which."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from flinkray.connectors.kafka.clients import TIMEOUT_S, Brokers, KafkaError, confluent_kafka
from flinkray.connectors.kafka.offsets import KafkaOffsets, Partition
from flinkray.connectors.kafka.settings import KafkaSourceSettings
from flinkray.connectors.source import SplitEnumerator, SplitEnumeratorContext


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
    """Partitions that are known, and the splits of them that no reader has."""

    known: frozenset[Partition]
    waiting: tuple[KafkaSplit, ...]


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
    ) -> None:
        """
        Args:
            make_consumer: makes one with that `error_cb`.
        """
        self._context = context
        self._brokers = Brokers(settings.servers)
        self._settings = settings
        self._make_consumer = make_consumer
        self._consumer: Any = None
        self._known: set[Partition] = set() if restored is None else set(restored.known)
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
        return KafkaEnumeratorState(frozenset(self._known), waiting)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    # -- partitions

    def _look_again(self) -> None:
        interval = self._settings.discovery_interval_ms
        if interval is not None and not self._settings.is_bounded:
            self._context.call_later(interval, self._on_time)

    def _on_time(self) -> None:
        self._discover(is_first=False)
        self._look_again()

    def _discover(self, is_first: bool) -> None:
        found = self._partitions()
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

    def _partitions(self) -> set[Partition]:
        """The partitions of the topics that are asked for.

        Raises:
            KafkaError: the brokers do not answer, or a topic is not there.
        """
        servers, topics = self._settings.servers, self._settings.topics
        try:
            listed = self._consumer.list_topics(timeout=TIMEOUT_S).topics
        except confluent_kafka().KafkaException as error:
            self._consumer.poll(0)  # has the client tell what it says of connections
            self._brokers.refuse(error, f"cannot ask for the topics of {servers}")
        if isinstance(topics, str):
            names = [name for name in listed if re.fullmatch(topics, name) and not name.startswith("__")]
        else:
            names = list(topics)
            missing = [name for name in names if name not in listed or listed[name].error is not None]
            if missing:
                raise KafkaError(
                    f"topic {missing[0]!r} is not there, or may not be read, at {servers}. Topics: "
                    f"{', '.join(sorted(name for name in listed if not name.startswith('__'))[:20]) or 'none'}"
                )
        return {(name, number) for name in names for number in listed[name].partitions}

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

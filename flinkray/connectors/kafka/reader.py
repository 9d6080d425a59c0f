"""Reads partitions with a consumer, on a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from flinkray.connectors.fetcher import AWAY_S, Fetched, FetchingReader, Patience, SplitFetcher, few
from flinkray.connectors.kafka.clients import Brokers, KafkaError, confluent_kafka, is_missing, is_transient
from flinkray.connectors.kafka.enumerator import KafkaSplit
from flinkray.connectors.kafka.rows import KafkaRows
from flinkray.connectors.kafka.settings import KafkaSourceSettings
from flinkray.connectors.source import SourceReaderContext
from flinkray.connectors.subtask import subtask_label

log = logging.getLogger(__name__)

_MESSAGES = 10_000
"""Messages are taken so many at a time: of fewer each costs more (2 instead of 5 µs at 500)."""
_WAIT_S = 0.02
"""How long the thread waits for so many: rows are under way for so long at least while few come."""
_ASK_S = 1.0
"""How often, and for how long, brokers that are away are asked whether they are back."""
_LOOK_S = 30.0
"""How often brokers are asked whether the partitions are still there."""


class KafkaReader(FetchingReader[KafkaSplit]):
    """Reads the partitions of a subtask."""

    def __init__(
        self,
        context: SourceReaderContext,
        settings: KafkaSourceSettings,
        make_consumer: Callable[[Callable[[Any], None]], Any],
    ) -> None:
        where = subtask_label(context)
        fetcher = KafkaFetcher(settings, make_consumer, where, lambda: Patience(context.count))
        super().__init__(context, fetcher, f"kafka of {where}", tells_checkpoints=settings.group_id is not None)


class KafkaFetcher(SplitFetcher[KafkaSplit]):
    """Has the consumer."""

    def __init__(
        self,
        settings: KafkaSourceSettings,
        make_consumer: Callable[[Callable[[Any], None]], Any],
        where: str,
        new_patience: Callable[[], Patience],
    ) -> None:
        self._settings = settings
        self._make_consumer = make_consumer
        self._where = where
        self._patience = new_patience()
        self._patience_with_leaders = new_patience()
        self._brokers = Brokers(settings.servers)
        self._looked_at = time.monotonic()
        self._was_refused = False
        """Whether the brokers have refused what they were asked for since their last answer; once may be one that
        stops."""
        self._missing: set[tuple[str, int]] = set()
        """Partitions that brokers did not know when they were asked last."""
        self._kafka = confluent_kafka()
        self._consumer: Any = None
        self._splits: dict[tuple[str, int], KafkaSplit] = {}
        self._rows = KafkaRows(settings, where)
        self._ends: dict[tuple[str, int], int] = {}
        """Behind the last message of each partition, as the broker said with what was fetched last."""
        self._ends_known_until = 0.0

    def open(self) -> None:
        self._consumer = self._make_consumer(self._brokers.note)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    @property
    def has_splits(self) -> bool:
        return bool(self._splits)

    def add_splits(self, splits: Sequence[KafkaSplit]) -> Iterator[Fetched[KafkaSplit]]:
        for split in splits:
            self._splits[split.topic, split.partition] = split
        begun = [self._kafka.TopicPartition(split.topic, split.partition, split.offset) for split in splits]
        self._consumer.incremental_assign(begun)
        for split in splits:
            yield from self._end_if_reached(split)

    def pause_or_resume(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        self._consumer.pause(self._partitions(to_pause))
        self._consumer.resume(self._partitions(to_resume))

    def checkpoint_complete(self, splits: Sequence[KafkaSplit]) -> None:
        offsets = [self._kafka.TopicPartition(split.topic, split.partition, split.offset) for split in splits]
        with contextlib.suppress(self._kafka.KafkaException):  # for monitoring only: the next checkpoint tries again
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _partitions(self, split_ids: Sequence[str]) -> list[Any]:
        return [
            self._kafka.TopicPartition(topic, number)
            for (topic, number), split in self._splits.items()
            if split.split_id in split_ids
        ]

    def pending_rows(self, split: KafkaSplit) -> int | None:
        end = self._ends.get((split.topic, split.partition))
        if end is None:
            return None
        return max(0, (end if split.stop is None else min(end, split.stop)) - split.offset)

    def _note_ends(self) -> None:
        """Once a second: what the consumer has heard beside the messages, without asking the broker."""
        if time.monotonic() < self._ends_known_until:
            return
        self._ends_known_until = time.monotonic() + 1
        for topic, number in self._splits:
            known = self._consumer.get_watermark_offsets(self._kafka.TopicPartition(topic, number), cached=True)
            if known is not None and known[1] >= 0:
                self._ends[topic, number] = known[1]

    def fetch(self) -> Iterator[Fetched[KafkaSplit]]:
        self._note_ends()
        by_partition: dict[tuple[str, int], list[Any]] = defaultdict(list)
        events = []
        for message in self._consumer.consume(_MESSAGES, _WAIT_S):
            if message.error() is None:
                by_partition[message.topic(), message.partition()].append(message)
            else:
                events.append(message)
        if by_partition:
            self._on_answer()
        if self._splits and time.monotonic() >= self._looked_at + (_ASK_S if self._brokers.are_away else _LOOK_S):
            self._look_at_topics()
            self._looked_at = time.monotonic()
        for partition, messages in by_partition.items():
            if partition in self._splits:
                yield from self._fetched(self._splits[partition], messages)
        for event in events:  # behind the messages: where a thread slept, the end of a partition comes with its rows
            yield from self._on_event(event)

    def _on_event(self, message: Any) -> Iterator[Fetched[KafkaSplit]]:
        error, split = message.error(), self._splits.get((message.topic(), message.partition()))
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            if split is not None:
                yield from self._end_if_reached(replace(split, offset=message.offset()))
            return
        if error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET and split is not None:
            raise KafkaError(
                f"{self._where}: partition {split.partition} of topic {split.topic!r} cannot be read on at offset "
                f"{split.offset}: its messages were deleted, or it never had so many ({error.str()}). Keep messages "
                "for longer than a job may stand still, or start from another place without the state of this source"
            )
        if is_transient(error):
            self._brokers.are_away = True  # so that they are asked, as nothing else may come
            log.warning("%s: %s; trying again", self._where, self._brokers.explained(error))
            return
        place = f"topic {message.topic()!r}" if split is None else _place(split)
        raise KafkaError(f"{self._where}: cannot read {place}: {self._brokers.explained(error)}")

    # -- brokers that are away, and partitions that have vanished

    def _look_at_topics(self) -> None:
        """Whether brokers and partitions are there: of those that are not the client says nothing, and gives nothing.

        Raises:
            KafkaError: they are not, and have not been for long.
        """
        topics = {topic for topic, _ in self._splits}
        try:
            listed = {topic: self._consumer.list_topics(topic, timeout=_ASK_S).topics[topic] for topic in topics}
        except self._kafka.KafkaException as error:
            self._go_on_or_refuse(error.args[0])
            return
        self._on_answer()
        missing = {
            (topic, number)
            for topic, number in self._splits
            if number not in listed[topic].partitions
            and (listed[topic].error is None or is_missing(listed[topic].error))
        }
        for each in missing & self._missing:  # twice, as a broker that has just started may not know all yet
            raise KafkaError(
                f"{self._where}: cannot read {_place(self._splits[each])}: the topic has no such partition any more, "
                "as it was deleted, or made anew with fewer of them. Start without the state of this source"
            )
        self._missing = missing
        self._look_at_leaders(listed)

    def _look_at_leaders(self, listed: Mapping[str, Any]) -> None:
        """Whether each partition has a broker that leads it. The others answer while one is away, so that messages of
        other partitions say nothing about it."""
        without = [
            split
            for (topic, number), split in self._splits.items()
            if (topic, number) not in self._missing
            and (number not in listed[topic].partitions or listed[topic].partitions[number].leader < 0)
        ]
        if not without:
            self._patience_with_leaders.answered()
            return
        error = listed[without[0].topic].error
        reason = "no broker leads the partition" if error is None else self._brokers.explained(error)
        problem = f"{self._where}: cannot read {few(map(_place, without))}: {reason}"
        if error is not None and self._brokers.kind_of(error) is KafkaError:
            raise KafkaError(problem)
        if not self._patience_with_leaders.asks_again():
            raise KafkaError(f"{problem}, looked at again for {AWAY_S:.0f} s; start the broker that has its messages")
        log.warning("%s; trying again", problem)

    def _on_answer(self) -> None:
        self._was_refused = False
        self._brokers.answered()
        self._patience.answered()

    def _go_on_or_refuse(self, error: Any) -> None:
        places = few(map(_place, self._splits.values()))
        reason = self._brokers.explained(error)
        is_refused = self._brokers.kind_of(error) is KafkaError
        if is_refused and self._was_refused:
            raise KafkaError(f"{self._where}: cannot read {places}: {reason}")
        self._was_refused |= is_refused
        if not self._patience.asks_again():
            raise KafkaError(f"{self._where}: cannot read {places}, asked again for {AWAY_S:.0f} s: {reason}")
        log.warning("%s: cannot read %s: %s; trying again", self._where, places, reason)

    def _fetched(self, split: KafkaSplit, messages: list[Any]) -> Iterator[Fetched[KafkaSplit]]:
        last = messages[-1].offset()
        if split.stop is not None and last >= split.stop:
            messages = [message for message in messages if message.offset() < split.stop]
        batch = self._rows.of(messages) if messages else None
        following = replace(split, offset=last + 1)
        self._splits[split.topic, split.partition] = following
        yield Fetched(following, batch if batch and batch.num_rows else None)
        yield from self._end_if_reached(following)

    def _end_if_reached(self, split: KafkaSplit) -> Iterator[Fetched[KafkaSplit]]:
        """Ends a partition that is read to its stop, or has nothing before it: offsets are left out where a transaction
        ended or messages were compacted."""
        if split.stop is None or split.offset < split.stop:
            return
        del self._splits[split.topic, split.partition]
        self._consumer.incremental_unassign([self._kafka.TopicPartition(split.topic, split.partition)])
        yield Fetched(split, is_end=True)


def _place(split: KafkaSplit) -> str:
    return f"partition {split.partition} of topic {split.topic!r} at offset {split.offset}"

"""Where partitions are begun and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from flinkray.connectors.kafka.clients import TIMEOUT_S, KafkaAwayError, KafkaError, asked, confluent_kafka
from flinkray.errors import InvalidProgramError

Partition = tuple[str, int]
"""Topic and number."""


class KafkaOffsets(Struct, frozen=True):
    """A place in each partition (Flink's OffsetsInitializer); made by the methods below.

    Attributes:
        kind: what the place is.
        timestamp_ms: of "timestamp".
        offsets: of "offsets": by (topic, partition); others are at `fallback`.
        fallback: of "committed" and "offsets": for partitions that have none; of "committed" also where it is no more.
    """

    kind: Literal["earliest", "latest", "timestamp", "committed", "offsets"]
    timestamp_ms: int = 0
    offsets: Mapping[Partition, int] = {}
    fallback: Literal["earliest", "latest", "none"] = "earliest"

    @staticmethod
    def earliest() -> KafkaOffsets:
        """The first message that there is."""
        return KafkaOffsets("earliest")

    @staticmethod
    def latest() -> KafkaOffsets:
        """Behind the last message that there is now."""
        return KafkaOffsets("latest")

    @staticmethod
    def timestamp(milliseconds: int) -> KafkaOffsets:
        """The first message with this time or a later one (epoch milliseconds), else behind the last."""
        return KafkaOffsets("timestamp", timestamp_ms=milliseconds)

    @staticmethod
    def committed(fallback: Literal["earliest", "latest", "none"] = "none") -> KafkaOffsets:
        """Where the group has got to; `fallback` is for partitions without a committed offset, and for those whose
        messages at that offset were deleted. "none": that is an error."""
        return KafkaOffsets("committed", fallback=fallback)

    @staticmethod
    def at(
        offsets: Mapping[Partition, int], fallback: Literal["earliest", "latest", "none"] = "earliest"
    ) -> KafkaOffsets:
        """These offsets by (topic, partition)."""
        return KafkaOffsets("offsets", offsets=dict(offsets), fallback=fallback)

    def of(self, consumer: Any, partitions: Sequence[Partition], servers: str) -> dict[Partition, int]:
        """The offset of the next message to read in each of these partitions; asks the brokers.

        Raises:
            KafkaError: they do not answer, or a partition has no such place.
        """
        kafka = confluent_kafka()
        if self.kind == "committed":
            wanted = [kafka.TopicPartition(*partition) for partition in partitions]
            found = asked(lambda: _sound(consumer.committed(wanted, timeout=TIMEOUT_S)), "the group's offsets", servers)
            known = {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
            if self.fallback != "none":
                # No end is asked for: an open transaction may have one in front of what another consumer has read.
                firsts = _ends(consumer, list(known), servers, is_high=False)
                known = {each: offset for each, offset in known.items() if firsts[each] <= offset}
            return self._with_fallback(known, consumer, partitions, servers)
        if self.kind == "offsets":
            return self._with_fallback(dict(self.offsets), consumer, partitions, servers)
        if self.kind == "timestamp":
            timed = [kafka.TopicPartition(*partition, self.timestamp_ms) for partition in partitions]
            found = asked(
                lambda: _sound(consumer.offsets_for_times(timed, timeout=TIMEOUT_S)), "offsets by time", servers
            )
            known = {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
            missing = [partition for partition in partitions if partition not in known]
            return {**known, **_ends(consumer, missing, servers, is_high=True)}
        return _ends(consumer, partitions, servers, is_high=self.kind == "latest")

    def _with_fallback(
        self, known: dict[Partition, int], consumer: Any, partitions: Sequence[Partition], servers: str
    ) -> dict[Partition, int]:
        missing = [partition for partition in partitions if partition not in known]
        if missing and self.fallback == "none":
            topic, number = missing[0]
            raise KafkaError(
                f"partition {number} of topic {topic!r} has no offset that is {self.kind}; say where to "
                "begin with fallback='earliest' or 'latest'"
            )
        ends = _ends(consumer, missing, servers, is_high=self.fallback == "latest")
        return {partition: known.get(partition, ends.get(partition, 0)) for partition in partitions}


def offsets_of(given: KafkaOffsets | str, argument: str) -> KafkaOffsets:
    """What a user gives as a place: KafkaOffsets, or "earliest", "latest" or "committed"."""
    if isinstance(given, KafkaOffsets):
        return given
    makers = {"earliest": KafkaOffsets.earliest, "latest": KafkaOffsets.latest, "committed": KafkaOffsets.committed}
    if given not in makers:
        raise InvalidProgramError(
            f"KafkaSource({argument}=...) is KafkaOffsets or one of {', '.join(makers)}, not {given!r}"
        )
    return makers[given]()


def _ends(consumer: Any, partitions: Sequence[Partition], servers: str, is_high: bool) -> dict[Partition, int]:
    kafka = confluent_kafka()
    ends = {}
    for partition in partitions:
        bounds = asked(
            lambda: consumer.get_watermark_offsets(kafka.TopicPartition(*partition), timeout=TIMEOUT_S),  # noqa: B023
            f"the offsets of partition {partition[1]} of topic {partition[0]!r}",
            servers,
        )
        if bounds is None:
            raise KafkaAwayError(
                f"the brokers at {servers} did not tell the offsets of {partition} within {TIMEOUT_S:.0f} s"
            )
        ends[partition] = bounds[1] if is_high else bounds[0]
    return ends


def _sound(partitions: Sequence[Any]) -> Sequence[Any]:
    """The answers; of a partition with an error the offset says nothing."""
    for each in partitions:
        if each.error is not None:
            raise confluent_kafka().KafkaException(each.error)
    return partitions

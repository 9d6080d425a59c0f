"""FlinkKafkaConsumer and FlinkKafkaProducer, which programs of Flink 1 give to `add_source` and `add_sink`: flinkray's
KafkaSource and KafkaSink by their names."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Literal, NoReturn, Self

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.kafka.offsets import KafkaOffsets
from flinkray.connectors.kafka.sink import KafkaSink
from flinkray.connectors.kafka.source import KafkaSource
from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common.serialization import DeserializationSchema, SerializationSchema
from flinkray.pyflink.common.typeinfo import TypeInformation, type_information
from flinkray.pyflink.datastream.connector_functions import StandsForSink, StandsForSource
from flinkray.pyflink.datastream.connectors.kafka_properties import client_properties
from flinkray.pyflink.message_formats import format_of

__all__ = ["FlinkKafkaConsumer", "FlinkKafkaConsumerBase", "FlinkKafkaProducer", "FlinkKafkaProducerBase", "Semantic"]

_DISCOVERY = "flink.partition-discovery.interval-millis"


class FlinkKafkaConsumerBase(StandsForSource):
    """Reads where the group has committed, unless told otherwise; where it has nothing there, as `auto.offset.reset`
    says, by custom at the end."""

    def __init__(
        self, topics: str | Iterable[str], deserialization_schema: DeserializationSchema, properties: Mapping[str, str]
    ) -> None:
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        self._schema = deserialization_schema
        self._properties = dict(properties)
        self._start: KafkaOffsets | None = None
        self._commits_offsets = True

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        self._commits_offsets = commit_on_checkpoints
        return self

    def set_start_from_earliest(self) -> Self:
        self._start = KafkaOffsets.earliest()
        return self

    def set_start_from_latest(self) -> Self:
        self._start = KafkaOffsets.latest()
        return self

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        self._start = KafkaOffsets.timestamp(startup_offsets_timestamp)
        return self

    def set_start_from_group_offsets(self) -> Self:
        self._start = None
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> NoReturn:
        raise InvalidProgramError(
            "disable_filter_restored_partitions_with_subscribed_topics: partitions of topics that the source no longer "
            "has are not read; name these topics, too"
        )

    def get_produced_type(self) -> TypeInformation:
        return type_information(format_of(self._schema).record_type)

    def to_source(self) -> KafkaSource:
        """
        Raises:
            InvalidProgramError: servers are missing, or the group where offsets of one are asked for.
        """
        left = dict(self._properties)
        fallback = _fallback(left.get("auto.offset.reset", "latest"))
        left["partition.discovery.interval.ms"] = left.pop(_DISCOVERY, "-1")
        if self._start is None and not self._commits_offsets:
            raise InvalidProgramError(
                "set_commit_offsets_on_checkpoints(False): offsets are committed for a group whose own are the start; "
                "say another, as with set_start_from_earliest()"
            )
        properties = client_properties(left)
        if self._start is None and properties.group_id is None:
            raise InvalidProgramError(
                "FlinkKafkaConsumer begins where its group has committed: give properties 'group.id', or say where to "
                "begin, as with set_start_from_earliest()"
            )
        return KafkaSource(
            properties.servers,
            self._topics,
            format_of(self._schema),
            start=self._start or KafkaOffsets.committed(fallback),
            group_id=properties.group_id if self._commits_offsets else None,
            isolation=properties.isolation,
            bad_messages="skip" if getattr(self._schema, "ignores_errors", False) else "fail",
            discovery_interval=properties.discovery_interval_ms,
            client_options=properties.others,
        )


def _fallback(reset: str) -> Literal["earliest", "latest", "none"]:
    known: dict[str, Literal["earliest", "latest", "none"]] = {
        "earliest": "earliest",
        "latest": "latest",
        "none": "none",
    }
    if reset not in known:
        raise InvalidProgramError(f"auto.offset.reset is earliest, latest or none, not {reset!r}")
    return known[reset]


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Values of messages, decoded by a schema."""


class Semantic(enum.Enum):
    NONE = 0
    AT_LEAST_ONCE = 1
    EXACTLY_ONCE = 2


class FlinkKafkaProducerBase(StandsForSink):
    """Writes at least once, or exactly once. Failures always fail the job, and checkpoints always wait for what was
    written before."""

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, str],
        semantic: Semantic,
    ) -> None:
        self._topic = topic
        self._schema = serialization_schema
        self._properties = dict(producer_config)
        self._semantic = semantic

    def set_log_failures_only(self, log_failures_only: bool) -> Self:
        if log_failures_only:
            raise InvalidProgramError("set_log_failures_only: rows that cannot be written fail the job")
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> Self:
        """Without effect: checkpoints wait for what was written before, which False would spare at the cost of rows."""
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> Self:
        if write_timestamp_to_kafka:
            raise InvalidProgramError(
                "set_write_timestamp_to_kafka: messages have the time at which they are written; put the time into the "
                "value, or into a column of headers, flinkray.KafkaSink(headers_column=...)"
            )
        return self

    def to_sink(self) -> KafkaSink:
        """
        Raises:
            InvalidProgramError: servers are missing.
        """
        properties = client_properties(self._properties)
        is_exact = self._semantic is Semantic.EXACTLY_ONCE
        return KafkaSink(
            properties.servers,
            self._topic,
            format_of(self._schema),
            client_options=properties.others,
            delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE if is_exact else DeliveryGuarantee.AT_LEAST_ONCE,
        )


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Values as messages without keys.

    Args:
        kafka_producer_pool_size: taken for PyFlink's programs; transactions are not pooled.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        super().__init__(topic, serialization_schema, producer_config, semantic)

    def ignore_failures_after_transaction_timeout(self) -> NoReturn:
        raise InvalidProgramError(
            "ignore_failures_after_transaction_timeout: the rows of a transaction that Kafka has aborted are "
            "lost, which fails the job; raise transaction.timeout.ms above the longest time that the job stands still"
        )

"""`pyflink.datastream.connectors.kafka`: what its builders say, as flinkray's KafkaSource and KafkaSink."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.kafka import sink as native_sink
from flinkray.connectors.kafka import source as native_source
from flinkray.connectors.kafka.messages import MessageEncoder
from flinkray.connectors.kafka.offsets import KafkaOffsets
from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common.serialization import DeserializationSchema, SerializationSchema
from flinkray.pyflink.datastream.connectors.kafka_functions import (
    FlinkKafkaConsumer,
    FlinkKafkaConsumerBase,
    FlinkKafkaProducer,
    FlinkKafkaProducerBase,
    Semantic,
)
from flinkray.pyflink.datastream.connectors.kafka_properties import client_properties
from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.message_formats import format_of
from flinkray.types.records import Kind

__all__ = [
    "DeliveryGuarantee",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]

__getattr__ = imported(__name__)


class KafkaSource:
    @staticmethod
    def builder() -> KafkaSourceBuilder:
        return KafkaSourceBuilder()


class KafkaSink:
    @staticmethod
    def builder() -> KafkaSinkBuilder:
        return KafkaSinkBuilder()


@dataclass(frozen=True)
class KafkaTopicPartition:
    topic: str
    partition: int


class KafkaOffsetResetStrategy(enum.Enum):
    LATEST = 0
    EARLIEST = 1
    NONE = 2

    @property
    def fallback(self) -> Literal["earliest", "latest", "none"]:
        names: Mapping[str, Literal["earliest", "latest", "none"]] = {
            "LATEST": "latest",
            "EARLIEST": "earliest",
            "NONE": "none",
        }
        return names[self.name]


class KafkaOffsetsInitializer:
    """Places in partitions; each method gives KafkaOffsets."""

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsets:
        return KafkaOffsets.committed(offset_reset_strategy.fallback)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsets:
        return KafkaOffsets.timestamp(timestamp)

    @staticmethod
    def earliest() -> KafkaOffsets:
        return KafkaOffsets.earliest()

    @staticmethod
    def latest() -> KafkaOffsets:
        return KafkaOffsets.latest()

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsets:
        places = {(each.topic, each.partition): offset for each, offset in offsets.items()}
        return KafkaOffsets.at(places, offset_reset_strategy.fallback)


class KafkaSourceBuilder:
    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._topics: str | tuple[str, ...] = ()
        self._start = KafkaOffsets.earliest()
        self._stop: KafkaOffsets | None = None
        self._schema: DeserializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        self._topics = topics
        return self

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        self._topics = topic_pattern
        return self

    def set_partitions(self, partitions: Any) -> KafkaSourceBuilder:
        raise InvalidProgramError(
            "set_partitions: a source reads all partitions of its topics; set_topics(...), and filter by the column "
            "that flinkray.KafkaSource(metadata=['partition']) gives"
        )

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsets) -> KafkaSourceBuilder:
        self._start = starting_offsets_initializer
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsets) -> KafkaSourceBuilder:
        return self.set_bounded(stopping_offsets_initializer)

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsets) -> KafkaSourceBuilder:
        """The source ends there."""
        self._stop = stopping_offsets_initializer
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        self._schema = deserialization_schema
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        return self.set_property("client.id", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        self._properties.update(props)
        return self

    def build(self) -> native_source.KafkaSource:
        """
        Raises:
            InvalidProgramError: servers, topics or the deserializer are missing.
        """
        if self._schema is None:
            raise InvalidProgramError("a deserializer is needed: set_value_only_deserializer(SimpleStringSchema())")
        properties = client_properties(self._properties)
        if not self._topics:
            raise InvalidProgramError("topics are needed: set_topics('orders'), or set_topic_pattern('orders-.*')")
        return native_source.KafkaSource(
            properties.servers,
            self._topics,
            format_of(self._schema),
            start=self._start,
            stop=self._stop,
            group_id=properties.group_id,
            isolation=properties.isolation,
            bad_messages="skip" if getattr(self._schema, "ignores_errors", False) else "fail",
            discovery_interval=properties.discovery_interval_ms,
            client_options=properties.others,
        )


class KafkaTopicSelector(ABC):
    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic of a value."""


TopicSelector = Callable[[Any], str] | KafkaTopicSelector


@dataclass(frozen=True)
class KafkaRecordSerializationSchema:
    """How values are messages. Made with `KafkaRecordSerializationSchema.builder()`."""

    topic: str | TopicSelector
    value: SerializationSchema
    key: SerializationSchema | None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        return KafkaRecordSerializationSchemaBuilder()


class KafkaRecordSerializationSchemaBuilder:
    def __init__(self) -> None:
        self._topic: str | TopicSelector | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        self._topic = topic
        return self

    def set_topic_selector(self, topic_selector: TopicSelector) -> KafkaRecordSerializationSchemaBuilder:
        self._topic = topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        if self._topic is None:
            raise InvalidProgramError("a topic is needed: set_topic('orders'), or set_topic_selector(function)")
        if self._value is None:
            raise InvalidProgramError("values need a schema: set_value_serialization_schema(SimpleStringSchema())")
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key)


class KafkaSinkBuilder:
    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._serializer: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        self._properties[key] = value
        return self

    def build(self) -> native_sink.KafkaSink:
        """Without a guarantee rows are written at least once.

        Raises:
            InvalidProgramError: servers or the serializer are missing.
        """
        if self._serializer is None:
            raise InvalidProgramError("a serializer is needed: set_record_serializer(...)")
        properties = client_properties(self._properties)
        is_exact = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return _SerializingSink(
            properties.servers,
            self._serializer,
            properties.others,
            DeliveryGuarantee.EXACTLY_ONCE if is_exact else DeliveryGuarantee.AT_LEAST_ONCE,
            self._prefix,
        )


class _SerializingSink(native_sink.KafkaSink):
    """A KafkaSink whose keys and topics are of whole values, as PyFlink has them."""

    def __init__(
        self,
        servers: str,
        serializer: KafkaRecordSerializationSchema,
        client_options: Mapping[str, Any],
        guarantee: DeliveryGuarantee,
        prefix: str | None,
    ) -> None:
        super().__init__(
            servers,
            serializer.topic if isinstance(serializer.topic, str) else "(selected)",
            format_of(serializer.value),
            client_options=client_options,
            delivery_guarantee=guarantee,
            transactional_id_prefix=prefix,
        )
        self.serializer = serializer

    def _encoder(self, where: str) -> MessageEncoder:
        return _SerializingEncoder(self, where)


class _SerializingEncoder(MessageEncoder):
    def __init__(self, sink: _SerializingSink, where: str) -> None:
        super().__init__(sink.parts, where)
        self._selector = sink.serializer.topic
        self._key_format = None if sink.serializer.key is None else format_of(sink.serializer.key)

    def _topics(self, data: pa.RecordBatch) -> Sequence[str]:
        selector = self._selector
        if isinstance(selector, str):
            return super()._topics(data)
        select = selector.apply if isinstance(selector, KafkaTopicSelector) else selector
        kind = Kind.SCALAR if data.schema.names == ["value"] else Kind.ROW
        return [select(value) for value in decode(Batch(data, kind))]

    def _keys(self, data: pa.RecordBatch) -> pa.Array | None:
        return None if self._key_format is None else self._encoded(self._key_format, data)

"""`pyflink.datastream.connectors.kafka`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "FlinkKafkaConsumer FlinkKafkaConsumerBase FlinkKafkaProducer FlinkKafkaProducerBase KafkaSource "
    "KafkaSourceBuilder KafkaSink KafkaSinkBuilder "
    "Semantic KafkaTopicPartition KafkaOffsetsInitializer KafkaOffsetResetStrategy "
    "KafkaRecordSerializationSchema KafkaRecordSerializationSchemaBuilder KafkaTopicSelector",
    "its connector is a Java archive, and there is no Java here; flinkray.KafkaSource and flinkray.KafkaSink read and "
    "write Kafka",
)

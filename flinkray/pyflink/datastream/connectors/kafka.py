"""`pyflink.datastream.connectors.kafka`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "FlinkKafkaConsumer FlinkKafkaConsumerBase FlinkKafkaProducer FlinkKafkaProducerBase KafkaSource KafkaSourceBuilder KafkaSink KafkaSinkBuilder "
    "Semantic KafkaTopicPartition KafkaOffsetsInitializer KafkaOffsetResetStrategy "
    "KafkaRecordSerializationSchema KafkaRecordSerializationSchemaBuilder KafkaTopicSelector",
    "its connector is a Java archive, and there is no Java here; "
    "read and write Kafka from Python, in a Source and Sink of your own "
    "(flinkray.Source, flinkray.Sink), or through Spark: env.from_spark_stream(spark.readStream.format('kafka')...)",
)

"""`pyflink.datastream.connectors.dynamic_kafka`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService KafkaRecordDeserializationSchema "
    "KafkaStreamSetSubscriber KafkaStreamSubscriber StreamPatternSubscriber "
    "SingleClusterTopicMetadataService",
    "its connector is a Java archive, and there is no Java here; "
    "read Kafka from Python, in a Source of your own (flinkray.Source), or "
    "through Spark: env.from_spark_stream(spark.readStream.format('kafka')...)",
)

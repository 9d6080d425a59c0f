"""`pyflink.datastream.connectors.dynamic_kafka`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService KafkaRecordDeserializationSchema "
        "KafkaStreamSetSubscriber KafkaStreamSubscriber StreamPatternSubscriber "
        "SingleClusterTopicMetadataService",
        "its connector is a Java archive, and there is no Java here; "
        "flinkray.KafkaSource reads the topics of one cluster, and union() several streams",
    ),
)

"""`pyflink.datastream.connectors`."""

from __future__ import annotations

import importlib
from typing import Any

from flinkray.pyflink.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from flinkray.pyflink.datastream.connectors.file_system import FileSink, FileSource

__all__ = ["DeliveryGuarantee", "FileSink", "FileSource", "Sink", "Source"]

_OF_MODULES = {
    "dynamic_kafka": "DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService "
    "KafkaRecordDeserializationSchema KafkaStreamSetSubscriber KafkaStreamSubscriber "
    "SingleClusterTopicMetadataService StreamPatternSubscriber",
    "file_system": "BucketAssigner FileEnumeratorProvider FileSourceBuilder FileSplitAssignerProvider OutputFileConfig "
    "RollingPolicy StreamFormat StreamingFileSink",
    "jdbc": "JdbcConnectionOptions JdbcExecutionOptions JdbcSink",
    "kafka": "FlinkKafkaConsumer FlinkKafkaProducer KafkaSource Semantic",
    "number_seq": "NumberSequenceSource",
    "pulsar": "PulsarSource PulsarSourceBuilder StartCursor StopCursor",
    "rabbitmq": "RMQConnectionConfig RMQSink RMQSource",
}
"""The names that programs of older versions import from here, by the modules that have them."""


def __getattr__(name: str) -> Any:
    for module, names in _OF_MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

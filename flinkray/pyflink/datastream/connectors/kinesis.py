"""`pyflink.datastream.connectors.kinesis`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "KinesisShardAssigner KinesisDeserializationSchema WatermarkTracker PartitionKeyGenerator "
        "FlinkKinesisConsumer KinesisStreamsSink KinesisStreamsSinkBuilder KinesisFirehoseSink "
        "KinesisFirehoseSinkBuilder",
        "its connector is a Java archive, and there is no Java here; "
        "read and write Kinesis with boto3, in a Source and Sink of your own "
        "(flinkray.Source, flinkray.Sink)",
    ),
)

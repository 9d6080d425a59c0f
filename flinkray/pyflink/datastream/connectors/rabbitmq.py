"""`pyflink.datastream.connectors.rabbitmq`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "RMQConnectionConfig RMQSource RMQSink",
        "its connector is a Java archive, and there is no Java here; "
        "read and write RabbitMQ with pika, in a Source and Sink of your own "
        "(flinkray.Source, flinkray.Sink)",
    ),
)

"""`pyflink.datastream.connectors.pulsar`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "PulsarSource PulsarSourceBuilder StartCursor StopCursor RangeGenerator PulsarSink PulsarSinkBuilder "
        "MessageDelayer TopicRoutingMode",
        "its connector is a Java archive, and there is no Java here; "
        "read and write Pulsar with its Python client, in a Source and Sink of your own "
        "(flinkray.Source, flinkray.Sink)",
    ),
)

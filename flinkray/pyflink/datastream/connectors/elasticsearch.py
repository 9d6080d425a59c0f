"""`pyflink.datastream.connectors.elasticsearch`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "FlushBackoffType ElasticsearchEmitter ElasticsearchSinkBuilderBase Elasticsearch6SinkBuilder "
        "Elasticsearch7SinkBuilder ElasticsearchSink",
        "its connector is a Java archive, and there is no Java here; "
        "index with Elasticsearch's Python client, in a Sink of your own (flinkray.Sink)",
    ),
)

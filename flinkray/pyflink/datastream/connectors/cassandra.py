"""`pyflink.datastream.connectors.cassandra`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "CassandraSink ConsistencyLevel MapperOptions ClusterBuilder CassandraCommitter CassandraFailureHandler",
        "its connector is a Java archive, and there is no Java here; "
        "write with Cassandra's Python driver, in a Sink of your own (flinkray.Sink)",
    ),
)

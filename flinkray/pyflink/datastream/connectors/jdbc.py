"""`pyflink.datastream.connectors.jdbc`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "JdbcSink JdbcConnectionOptions JdbcExecutionOptions",
        "its connector is a Java archive, and there is no Java here; write to PostgreSQL with flinkray.PostgresSink, "
        "or into a table WITH ('connector' = 'jdbc', ...), and to other databases from Python, in a Sink of your own "
        "(flinkray.Sink) or a function given to add_sink",
    ),
)

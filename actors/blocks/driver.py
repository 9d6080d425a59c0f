"""Sources and sinks that stay in the driver; what their `prepare` returns is shipped to the cluster in their place."""

from __future__ import annotations

from typing import Any, NoReturn

from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Source


class DriverSource(Source):
    """A source that holds something of the driver's, as a DataFrame. Subclasses implement `prepare`."""

    def create_enumerator(self, context: object, restored: Any = None) -> NoReturn:
        raise _stays_in_driver(self)

    def create_reader(self, context: object) -> NoReturn:
        raise _stays_in_driver(self)


class DriverSink(Sink):
    """A sink that holds something of the driver's, as a Spark session. Subclasses implement `prepare`."""

    def create_writer(self, context: object, restored: Any = None) -> NoReturn:
        raise _stays_in_driver(self)


def _stays_in_driver(connector: Source | Sink) -> TypeError:
    return TypeError(f"{type(connector).__name__} stays in the driver: ship what prepare() returns")

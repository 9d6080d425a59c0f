"""`delta`: a table of Delta Lake, read as it is or with what is added to it, and added to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from flinkray.connectors.delta.sink import DeltaSink
from flinkray.connectors.delta.source import DeltaSource
from flinkray.connectors.sink import Sink
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.formats import schema_of
from flinkray.tables.connectors.options import ConnectorOptions, size_in_bytes
from flinkray.tables.plans.tables import Table

_OF_SOURCES = ("mode", "versionAsOf", "timestampAsOf", "startingVersion", "updateCheckIntervalMillis", "ignoreChanges")
_FIVE_SECONDS_MS = 5_000


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    is_streaming = options.one_of("mode", ("batch", "streaming"), "batch") == "streaming"
    interval = options.whole_number("updateCheckIntervalMillis", _FIVE_SECONDS_MS)
    version, after = options.whole_number("versionAsOf"), None
    if options.has("startingVersion"):
        if version is not None or options.has("timestampAsOf"):
            raise options.fail("'startingVersion' does not go with 'versionAsOf' and 'timestampAsOf'")
        version, after = _starting_version(options)
    source = DeltaSource(
        options.required("table-path"),
        columns=[column.name for column in physical_columns(table)],
        version=version,
        timestamp=options.read("timestampAsOf", _timestamp),
        after=after,
        monitor=interval if is_streaming else None,
        changes="skip" if options.truth("ignoreChanges") else "fail",
        storage_options=options.with_prefix("storage."),
    )
    return TableSource(source)


def _starting_version(options: ConnectorOptions) -> tuple[int | None, int | Literal["latest"] | None]:
    """The version that is read whole, and the one after which is read; one of both."""
    if options.text("startingVersion") == "latest":
        return None, "latest"
    first = options.whole_number("startingVersion") or 0
    return (None, first - 1) if first > 0 else (0, None)


def _timestamp(raw: object) -> datetime:
    found = datetime.fromisoformat(str(raw))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    for key in _OF_SOURCES:
        options.has(key)
    return DeltaSink(
        options.required("table-path"),
        schema_of(physical_columns(table)),
        partition_by=table.partitioned_by,
        storage_options=options.with_prefix("storage."),
        part_size=options.read("sink.rolling-policy.file-size", size_in_bytes, 128 << 20),
        compact_after=options.whole_number("sink.compact-after"),
    )


CONNECTOR = Connector(_source, _sink)

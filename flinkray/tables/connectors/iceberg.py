"""`iceberg`: a table of Iceberg, read as it is or with what is added to it, and added to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flinkray.connectors.iceberg.sink import IcebergSink
from flinkray.connectors.iceberg.source import IcebergSource
from flinkray.connectors.sink import Sink
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.formats import schema_of
from flinkray.tables.connectors.options import ConnectorOptions, size_in_bytes
from flinkray.tables.plans.tables import Table

_OF_SOURCES = (
    "streaming",
    "monitor-interval",
    "snapshot-id",
    "as-of-timestamp",
    "start-snapshot-id",
    "skip-changes",
)
_TEN_SECONDS_MS = 10_000


def _place(table: Table, options: ConnectorOptions) -> dict[str, Any]:
    """The arguments that say where the table is."""
    catalog = options.with_prefix("catalog.")
    for key, name in (("catalog-type", "type"), ("uri", "uri"), ("warehouse", "warehouse")):
        if options.has(key):
            catalog[name] = options.text(key)
    database = options.text("catalog-database", "default")
    return {
        "table": f"{database}.{options.text('catalog-table', table.path[2])}",
        "catalog": catalog,
        "catalog_name": options.text("catalog-name", "default"),
    }


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    interval = options.millis("monitor-interval", _TEN_SECONDS_MS)
    source = IcebergSource(
        **_place(table, options),
        columns=[column.name for column in physical_columns(table)],
        snapshot_id=options.whole_number("snapshot-id"),
        timestamp=options.read("as-of-timestamp", _timestamp),
        after=options.whole_number("start-snapshot-id"),
        monitor=interval if options.truth("streaming") else None,
        changes="skip" if options.truth("skip-changes") else "fail",
    )
    return TableSource(source)


def _timestamp(raw: object) -> datetime:
    return datetime.fromtimestamp(int(str(raw)) / 1_000, UTC)


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    for key in _OF_SOURCES:
        options.has(key)
    for key in ("upsert-enabled", "write.upsert.enabled"):
        options.refuse(key, "rows are added, and none is replaced: PyIceberg writes no equality deletes")
    return IcebergSink(
        **_place(table, options),
        schema=schema_of(physical_columns(table)),
        partition_by=table.partitioned_by,
        part_size=options.read("sink.rolling-policy.file-size", size_in_bytes, 128 << 20),
    )


CONNECTOR = Connector(_source, _sink)

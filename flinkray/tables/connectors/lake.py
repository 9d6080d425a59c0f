"""`delta` and `iceberg`: a table of a lake, read as it is or with what is added to it, and added to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from flinkray.connectors.delta.sink import DeltaSink
from flinkray.connectors.delta.source import DeltaSource
from flinkray.connectors.iceberg.sink import IcebergSink
from flinkray.connectors.iceberg.source import IcebergSource
from flinkray.connectors.sink import Sink
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.formats import schema_of
from flinkray.tables.connectors.options import ConnectorOptions, size_in_bytes
from flinkray.tables.plans.tables import Table

_OF_DELTA_SOURCES = (
    "mode",
    "versionAsOf",
    "timestampAsOf",
    "startingVersion",
    "updateCheckIntervalMillis",
    "ignoreChanges",
)
_FIVE_SECONDS_MS = 5_000


def _delta_source(table: Table, options: ConnectorOptions) -> TableSource:
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
        timestamp=options.read("timestampAsOf", _time_of_text),
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


def _time_of_text(raw: object) -> datetime:
    found = datetime.fromisoformat(str(raw))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _delta_sink(table: Table, options: ConnectorOptions) -> Sink:
    for key in _OF_DELTA_SOURCES:
        options.has(key)
    return DeltaSink(
        options.required("table-path"),
        schema_of(physical_columns(table)),
        partition_by=table.partitioned_by,
        storage_options=options.with_prefix("storage."),
        part_size=options.read("sink.rolling-policy.file-size", size_in_bytes, 128 << 20),
        compact_after=options.whole_number("sink.compact-after"),
    )


DELTA = Connector(_delta_source, _delta_sink)


# -- iceberg

_OF_ICEBERG_SOURCES = (
    "streaming",
    "monitor-interval",
    "snapshot-id",
    "as-of-timestamp",
    "starting-strategy",
    "start-snapshot-id",
    "start-snapshot-timestamp",
    "skip-changes",
)
_STRATEGIES: dict[str, dict[str, Any]] = {
    "TABLE_SCAN_THEN_INCREMENTAL": {},
    "INCREMENTAL_FROM_LATEST_SNAPSHOT": {"since": "latest"},
    "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE": {"after": "latest"},
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT": {"since": "earliest"},
    "INCREMENTAL_FROM_SNAPSHOT_ID": {},
    "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP": {},
}
"""Where reading begins, by Iceberg's names."""
_TEN_SECONDS_MS = 10_000


def _iceberg_place(table: Table, options: ConnectorOptions) -> dict[str, Any]:
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


def _iceberg_source(table: Table, options: ConnectorOptions) -> TableSource:
    interval = options.millis("monitor-interval", _TEN_SECONDS_MS)
    source = IcebergSource(
        **_iceberg_place(table, options),
        columns=[column.name for column in physical_columns(table)],
        snapshot_id=options.whole_number("snapshot-id"),
        timestamp=options.read("as-of-timestamp", _time_of_millis),
        **_beginning(options),
        monitor=interval if options.truth("streaming") else None,
        changes="skip" if options.truth("skip-changes") else "fail",
    )
    return TableSource(source)


def _beginning(options: ConnectorOptions) -> dict[str, Any]:
    """The arguments that say where reading begins, other than with all rows of a snapshot."""
    strategy = options.text("starting-strategy")
    snapshot_id = options.whole_number("start-snapshot-id")
    timestamp = options.read("start-snapshot-timestamp", _time_of_millis)
    if not strategy:
        return {"after": snapshot_id, "since": timestamp}
    found = dict(_STRATEGIES[options.one_of("starting-strategy", tuple(_STRATEGIES), "")])
    for key, given, its in (
        ("start-snapshot-id", snapshot_id, "INCREMENTAL_FROM_SNAPSHOT_ID"),
        ("start-snapshot-timestamp", timestamp, "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP"),
    ):
        if (given is not None) is not (strategy == its):
            raise options.fail(f"option {key!r} goes with 'starting-strategy' = '{its}', and it with that option")
        if given is not None:
            found["since"] = given
    return found


def _time_of_millis(raw: object) -> datetime:
    return datetime.fromtimestamp(int(str(raw)) / 1_000, UTC)


def _iceberg_sink(table: Table, options: ConnectorOptions) -> Sink:
    for key in _OF_ICEBERG_SOURCES:
        options.has(key)
    for key in ("upsert-enabled", "write.upsert.enabled"):
        options.refuse(key, "rows are added, and none is replaced: PyIceberg writes no equality deletes")
    return IcebergSink(
        **_iceberg_place(table, options),
        schema=schema_of(physical_columns(table)),
        partition_by=table.partitioned_by,
        part_size=options.read("sink.rolling-policy.file-size", size_in_bytes, 128 << 20),
    )


ICEBERG = Connector(_iceberg_source, _iceberg_sink)

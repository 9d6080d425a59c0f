"""`redis`: entries of streams as rows; rows as entries of a stream, or with a primary key as hashes."""

from __future__ import annotations

from typing import Literal

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.redis.sink import RedisSink
from flinkray.connectors.redis.source import RedisSource
from flinkray.connectors.sink import Sink
from flinkray.tables.connectors.contract import Connector, TableSource, metadata_columns, physical_columns
from flinkray.tables.connectors.formats import is_changelog, message_format, schema_of
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table
from flinkray.types.changelogs import INSERTS, Changes


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    columns = physical_columns(table)
    is_formatted = options.has("format")
    stop: Literal["latest"] | None = None
    if options.one_of("scan.bounded.mode", ("unbounded", "latest-offset"), "unbounded") == "latest-offset":
        stop = "latest"
    source = RedisSource(
        options.required("url"),
        options.required("stream").split(";"),
        fields=None if is_formatted else schema_of(columns),
        value_format=message_format(options, "format", columns) if is_formatted else None,
        metadata=tuple(dict.fromkeys(column.metadata_key for column in metadata_columns(table))),
        start=options.text("scan.startup.id", "earliest"),
        stop=stop,
    )
    return TableSource(source, {column.name: column.metadata_key for column in metadata_columns(table)})


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    guarantee = options.one_of("sink.delivery-guarantee", ("at-least-once", "exactly-once"), "exactly-once")
    written = message_format(options, "format", physical_columns(table)) if options.has("format") else None
    is_hash = options.has("key-prefix")
    if is_hash and not table.primary_key:
        raise options.fail("'key-prefix' makes hashes by key: PRIMARY KEY (...) NOT ENFORCED is missing")
    return RedisSink(
        options.required("url"),
        stream=None if is_hash else options.required("stream"),
        key_prefix=options.text("key-prefix") if is_hash else None,
        key=table.primary_key if is_hash else None,
        value_format=written,
        max_length=options.whole_number("sink.max-length"),
        delivery_guarantee=(
            DeliveryGuarantee.EXACTLY_ONCE if guarantee == "exactly-once" else DeliveryGuarantee.AT_LEAST_ONCE
        ),
    )


def _changes(_table: Table, options: ConnectorOptions) -> Changes:
    return Changes(updates=True, deletes=True) if is_changelog(options, "format") else INSERTS


CONNECTOR = Connector(_source, _sink, ("stream", "id"), changes=_changes)

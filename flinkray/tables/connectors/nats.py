"""`nats`: messages of a stream of JetStream as rows; rows as messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.nats.reader import METADATA
from flinkray.connectors.nats.sink import NatsSink
from flinkray.connectors.nats.source import NatsSource
from flinkray.connectors.sink import Sink
from flinkray.tables.connectors.contract import Connector, TableSource, metadata_columns, physical_columns
from flinkray.tables.connectors.formats import is_changelog, message_format
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table
from flinkray.types.changelogs import INSERTS, Changes

_STARTS = ("earliest-offset", "latest-offset", "timestamp", "specific-offset")


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    columns = physical_columns(table)
    stop: Literal["latest"] | None = None
    if options.one_of("scan.bounded.mode", ("unbounded", "latest-offset"), "unbounded") == "latest-offset":
        stop = "latest"
    source = NatsSource(
        _servers(options),
        options.required("stream"),
        message_format(options, "format", columns),
        subjects=options.text("subject").split(";") if options.has("subject") else None,
        metadata=tuple(dict.fromkeys(column.metadata_key for column in metadata_columns(table))),
        start=_start(options),
        stop=stop,
        credentials=options.text("credentials") or None,
    )
    return TableSource(source, {column.name: column.metadata_key for column in metadata_columns(table)})


def _start(options: ConnectorOptions) -> str | int | datetime:
    mode = options.one_of("scan.startup.mode", _STARTS, "earliest-offset")
    key = {"timestamp": "scan.startup.timestamp-millis", "specific-offset": "scan.startup.sequence"}.get(mode)
    if key is None:
        return mode.removesuffix("-offset")
    number = options.whole_number(key)
    if number is None:
        raise options.fail(f"option {key!r} is missing, which 'scan.startup.mode' = '{mode}' needs")
    return datetime.fromtimestamp(number / 1_000, UTC) if mode == "timestamp" else number


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    guarantee = options.one_of("sink.delivery-guarantee", ("at-least-once", "exactly-once"), "at-least-once")
    is_exact = guarantee == "exactly-once"
    stream = options.text("stream") or None  # a table that is read has one, too
    headers = next((column.name for column in metadata_columns(table) if column.metadata_key == "headers"), None)
    return NatsSink(
        _servers(options),
        options.required("subject"),
        message_format(options, "format", physical_columns(table)),
        message_id=options.text("sink.message-id") or None,
        stream=stream if is_exact else None,
        marks=options.text("sink.marks") or None,
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE if is_exact else DeliveryGuarantee.AT_LEAST_ONCE,
        credentials=options.text("credentials") or None,
        headers_column=headers,
    )


def _servers(options: ConnectorOptions) -> list[str]:
    return options.required("url").split(",")


def _changes(_table: Table, options: ConnectorOptions) -> Changes:
    return Changes(updates=True, deletes=True) if is_changelog(options, "format") else INSERTS


CONNECTOR = Connector(_source, _sink, tuple(METADATA), ("headers",), changes=_changes)

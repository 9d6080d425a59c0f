"""`jdbc`: tables of PostgreSQL, by the address that JDBC has for them or the server's own; and `postgres-cdc`: a table
as it is and then each change of it, with the options of Flink CDC."""

from __future__ import annotations

from urllib.parse import quote

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.lookup import LookupTable
from flinkray.connectors.postgres.changes.metadata import METADATA
from flinkray.connectors.postgres.changes.source import PostgresChangesSource
from flinkray.connectors.postgres.columns import quoted
from flinkray.connectors.postgres.jdbc_address import is_of_postgres, read_address
from flinkray.connectors.postgres.lookup_table import PostgresTable
from flinkray.connectors.postgres.source import PostgresSource
from flinkray.connectors.postgres.writing.sink import PostgresSink
from flinkray.connectors.sink import Sink
from flinkray.tables.connectors.contract import Connector, TableSource, metadata_columns, physical_columns
from flinkray.tables.connectors.options import ConnectorOptions, lookup_cache
from flinkray.tables.plans.tables import Table
from flinkray.types.changelogs import Changes

_PORT = 5432
_ALL, _UPSERT = "all", "upsert"
_WITHOUT_EFFECT = {
    "driver": "the server is asked without JDBC's drivers",
    "connection.max-retry-timeout": "give the address 'connect_timeout' in seconds, as in '...?connect_timeout=5'",
    "scan.fetch-size": "rows come in batches of columns, whose size the source finds itself",
    "scan.auto-commit": "nothing is written while rows are read",
    **dict.fromkeys(
        ("scan.partition.num", "scan.partition.lower-bound", "scan.partition.upper-bound"),
        "the source finds the ranges itself; 'scan.partition.column' alone says by what",
    ),
    **dict.fromkeys(
        ("sink.buffer-flush.max-rows", "sink.buffer-flush.interval"),
        "rows are written as they come in batches, or with their checkpoint",
    ),
    "sink.max-retries": "what may succeed later is tried again as the page about PostgreSQL says",
    "lookup.max-retries": "what may succeed later is tried again as the page about PostgreSQL says",
}
"""Options of Flink's JDBC connector about how it works."""


def _uri(options: ConnectorOptions) -> str:
    """The server's address, with user and password where they are options of their own."""
    given = options.required("url")
    for key, why in _WITHOUT_EFFECT.items():
        options.has_no_effect(key, why)
    if not is_of_postgres(given):
        raise options.fail(
            "option 'url' is the address of a PostgreSQL server: 'jdbc:postgresql://host:5432/database'; other "
            "databases are asked by their Python clients, in a Source or Sink of your own, or through Spark"
        )
    try:
        return read_address(given, options.text("username"), options.text("password")).uri
    except ValueError as error:
        raise options.fail(str(error)) from None


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    name, uri = options.required("table-name"), _uri(options)
    key = options.text("scan.partition.column") or None
    columns = [column.name for column in physical_columns(table)]
    return TableSource(PostgresSource(uri, name, columns=columns, key=key))


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    guarantee = options.one_of("sink.delivery-guarantee", ("at-least-once", "exactly-once"), "exactly-once")
    return PostgresSink(
        _uri(options),
        options.required("table-name"),
        key=table.primary_key or None,
        delivery_guarantee=(
            DeliveryGuarantee.EXACTLY_ONCE if guarantee == "exactly-once" else DeliveryGuarantee.AT_LEAST_ONCE
        ),
    )


def _lookup(_table: Table, options: ConnectorOptions) -> LookupTable:
    return PostgresTable(_uri(options), options.required("table-name"), lookup_cache(options))


JDBC = Connector(_source, _sink, lookup=_lookup)


# -- postgres-cdc


def _changes_source(table: Table, options: ConnectorOptions) -> TableSource:
    options.one_of("decoding.plugin.name", ("pgoutput",), "pgoutput")
    start = options.one_of("scan.startup.mode", ("initial", "latest-offset"), "initial")
    name = ".".join(map(quoted, (options.text("schema-name", "public"), options.required("table-name"))))
    source = PostgresChangesSource(
        _address(options),
        name,
        columns=[column.name for column in physical_columns(table)],
        key=options.text("scan.incremental.snapshot.chunk.key-column") or None,
        start="snapshot" if start == "initial" else "latest",
        slot=options.required("slot.name"),
        needs_before=_kinds(table, options).before,
        metadata={column.name: column.metadata_key for column in metadata_columns(table)},
    )
    return TableSource(source)


def _address(options: ConnectorOptions) -> str:
    user, password = (quote(options.required(key), safe="") for key in ("username", "password"))
    host, port = options.required("hostname"), options.whole_number("port", _PORT)
    return f"postgresql://{user}:{password}@{host}:{port}/{quote(options.required('database-name'), safe='')}"


def _kinds(table: Table, options: ConnectorOptions) -> Changes:
    mode = options.one_of("changelog-mode", (_ALL, _UPSERT), _ALL)
    if mode == _UPSERT and not table.primary_key:
        raise options.fail("'changelog-mode' = 'upsert' is by key: PRIMARY KEY (...) NOT ENFORCED is missing")
    return Changes(updates=True, deletes=True, before=mode == _ALL)


POSTGRES_CDC = Connector(_changes_source, readable=tuple(METADATA), changes=_kinds)

"""`postgres-cdc`: a table of PostgreSQL as it is and then each change of it, with the options of Flink CDC."""

from __future__ import annotations

from urllib.parse import quote

from flinkray.connectors.postgres.changes.source import PostgresChangesSource
from flinkray.connectors.postgres.columns import quoted
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table
from flinkray.types.changelogs import Changes

_PORT = 5432
_ALL, _UPSERT = "all", "upsert"


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    options.one_of("decoding.plugin.name", ("pgoutput",), "pgoutput")
    start = options.one_of("scan.startup.mode", ("initial", "latest-offset"), "initial")
    name = ".".join(map(quoted, (options.text("schema-name", "public"), options.required("table-name"))))
    source = PostgresChangesSource(
        _uri(options),
        name,
        columns=[column.name for column in physical_columns(table)],
        key=options.text("scan.incremental.snapshot.chunk.key-column") or None,
        start="snapshot" if start == "initial" else "latest",
        slot=options.required("slot.name"),
        needs_before=_changes(table, options).before,
    )
    return TableSource(source)


def _uri(options: ConnectorOptions) -> str:
    user, password = (quote(options.required(key), safe="") for key in ("username", "password"))
    host, port = options.required("hostname"), options.whole_number("port", _PORT)
    return f"postgresql://{user}:{password}@{host}:{port}/{quote(options.required('database-name'), safe='')}"


def _changes(table: Table, options: ConnectorOptions) -> Changes:
    mode = options.one_of("changelog-mode", (_ALL, _UPSERT), _ALL)
    if mode == _UPSERT and not table.primary_key:
        raise options.fail("'changelog-mode' = 'upsert' is by key: PRIMARY KEY (...) NOT ENFORCED is missing")
    return Changes(updates=True, deletes=True, before=mode == _ALL)


CONNECTOR = Connector(_source, changes=_changes)

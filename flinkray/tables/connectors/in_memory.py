"""`values`: rows that this process has, for tests of statements. `register_rows` names them."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from flinkray.connectors.collection.source import CollectionSource, lookup_of_source
from flinkray.connectors.collection.source import TableSource as ArrowTableSource
from flinkray.connectors.lookup import LookupTable
from flinkray.errors import did_you_mean
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table
from flinkray.tables.types.arrow import to_arrow
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.rows import Row, RowKind

_ROWS: dict[str, Any] = {}
_numbers = itertools.count(1)


def register_rows(rows: Any) -> str:
    """Keep rows for tables with `'connector' = 'values', 'data-id' = ...`; gives that id.

    Args:
        rows: a list of tuples in the order of the table's columns, or of `Row`s, those of a changelog with their
            kinds; or a pa.Table.
    """
    data_id = str(next(_numbers))
    _ROWS[data_id] = rows
    return data_id


def _rows(options: ConnectorOptions) -> Any:
    data_id = options.required("data-id")
    if data_id not in _ROWS:
        raise options.fail(f"no rows are registered as {data_id!r}{did_you_mean(data_id, _ROWS)}")
    return _ROWS[data_id]


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    rows = _rows(options)
    if isinstance(rows, pa.Table):
        return TableSource(ArrowTableSource(rows))
    columns = physical_columns(table)
    schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])
    return TableSource(CollectionSource(rows, schema))


def _changes(_table: Table, options: ConnectorOptions) -> Changes:
    rows = _rows(options)
    is_changelog = not isinstance(rows, pa.Table) and any(
        isinstance(row, Row) and row.get_row_kind() is not RowKind.INSERT for row in rows
    )
    return Changes(updates=True, deletes=True) if is_changelog else INSERTS


def _lookup(table: Table, options: ConnectorOptions) -> LookupTable | None:
    source = _source(table, options).source
    assert isinstance(source, ArrowTableSource)
    return lookup_of_source(source)


CONNECTOR = Connector(_source, changes=_changes, lookup=_lookup)

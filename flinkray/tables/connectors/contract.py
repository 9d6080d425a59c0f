"""What a table's connector gives: where its rows come from, and where they go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from flinkray.connectors.lookup import LookupTable
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Source
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import ColumnKind, Table, TableColumn
from flinkray.types.changelogs import Changes


class TableSource(Struct, frozen=True):
    """A source of a table's rows.

    Args:
        columns: which column of the source each physical or metadata column of the table is, where it has another
            name.
    """

    source: Source
    columns: Mapping[str, str] = {}


class Connector(Struct, frozen=True):
    """What one name of `connector` means.

    Args:
        source, sink: make them from a table and its options, each of which they ask for; None: it has none.
        metadata: the keys of METADATA columns that can be read, and that can be written.
    """

    source: Callable[[Table, ConnectorOptions], TableSource] | None = None
    sink: Callable[[Table, ConnectorOptions], Sink] | None = None
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    changes: Callable[[Table, ConnectorOptions], Changes] | None = None
    """What the rows do that are read; None: they are only added."""
    lookup: Callable[[Table, ConnectorOptions], LookupTable | None] | None = None
    """Makes what can be asked for rows by key; None, or gives None: it cannot be asked."""
    overwriting: Callable[[Sink, Mapping[str, str]], Sink] | None = None
    """Makes of a sink one whose rows replace those of the table, or of the partitions that they are in; given the
    values of columns that are the same for all rows. None: nothing can be replaced."""


def physical_columns(table: Table) -> tuple[TableColumn, ...]:
    """The columns that the table stores."""
    return tuple(column for column in table.columns if column.kind is ColumnKind.PHYSICAL)


def metadata_columns(table: Table) -> tuple[TableColumn, ...]:
    """The columns that connector or format know of a row."""
    return tuple(column for column in table.columns if column.kind is ColumnKind.METADATA)

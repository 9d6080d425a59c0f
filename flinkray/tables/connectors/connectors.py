"""All connectors of tables by name; tables as sources of rows, and as sinks."""

from __future__ import annotations

from collections.abc import Mapping

from flinkray.connectors.lookup import LookupTable
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Source
from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.connectors import (
    datagen,
    filesystem,
    http,
    in_memory,
    kafka,
    lake,
    nats,
    postgres,
    printing,
    redis,
)
from flinkray.tables.connectors.contract import Connector, metadata_columns
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.expressions import BoundExpression, Call, Column
from flinkray.tables.plans.tables import Table
from flinkray.tables.types.arrow import from_arrow, to_arrow
from flinkray.tables.types.casts import can_cast
from flinkray.tables.types.logical import LogicalType
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import CalcFactory, SourceFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from flinkray.types.changelogs import INSERTS, Changes

CONNECTORS: dict[str, Connector] = {
    "blackhole": printing.BLACKHOLE,
    "datagen": datagen.CONNECTOR,
    "delta": lake.DELTA,
    "filesystem": filesystem.CONNECTOR,
    "http": http.HTTP,
    "iceberg": lake.ICEBERG,
    "jdbc": postgres.JDBC,
    "kafka": kafka.KAFKA,
    "nats": nats.CONNECTOR,
    "postgres-cdc": postgres.POSTGRES_CDC,
    "print": printing.PRINT,
    "redis": redis.CONNECTOR,
    "upsert-kafka": kafka.UPSERT_KAFKA,
    "values": in_memory.CONNECTOR,
    "webhook": http.WEBHOOK,
}
_PARALLELISM, _LOOKUP = "parallelism", "lookup."


def scan(table: Table, fields: frozenset[str] | None = None) -> Transformation:
    """The rows of a table: its physical and metadata columns by their names, with the table's types. Without its
    watermarks, which are above it in a plan.

    Args:
        fields: what is read of the columns, as of `Source.reading`; the rest may be null. None: all.
    Raises:
        InvalidProgramError: the table has no connector, or one that cannot be read; an option is unknown, missing or
            wrong.
    """
    options, connector = _connector(table)
    if connector.source is None:
        raise options.fail("tables of this connector are written, not read")
    _check_metadata(table, connector.readable, options, "reads")
    parallelism = options.whole_number(f"scan.{_PARALLELISM}")
    found = connector.source(table, options)
    options.check_all_read(but=("sink.", "partition.time-extractor.", "auto-compaction", "compaction.", _LOOKUP))
    source = found.source if fields is None else found.source.reading(_own_names(fields, found.columns))
    read = PhysicalTransformation(
        name=f"Source: {table.path[2]}",
        factory=SourceFactory(source, WatermarkStrategy.no_watermarks()),
        parallelism=1 if not source.is_parallel else parallelism,
    )
    return _with_types(read, source, table, found.columns)


def _own_names(fields: frozenset[str], names: Mapping[str, str]) -> frozenset[str]:
    """Columns and fields of rows in them, by the names that the source has for the columns."""
    parts = (field.partition(".") for field in fields)
    return frozenset(names.get(column, column) + dot + rest for column, dot, rest in parts)


def changes_of(table: Table) -> Changes:
    """What the rows of a table do where it is read."""
    options, connector = _connector(table)
    return INSERTS if connector.changes is None else connector.changes(table, options)


def lookup_of(table: Table) -> LookupTable | None:
    """What can be asked for rows of the table by key; None: it cannot be.

    Raises:
        InvalidProgramError: as of `scan`.
    """
    options, connector = _connector(table)
    if connector.lookup is None:
        return None
    found = connector.lookup(table, options)
    options.check_all_read(
        but=("scan.", "source.", "sink.", "partition.time-extractor.", "auto-compaction", "compaction.")
    )
    return found


def sink_of(table: Table, overwritten: Mapping[str, str] | None = None) -> tuple[Sink, int | None]:
    """The sink that takes rows of the table's written columns, and its parallelism; None: the environment's.

    Args:
        overwritten: the rows replace those that are there; with the columns that are the same in all. None: they are
            added.
    Raises:
        InvalidProgramError: as of `scan`.
    """
    options, connector = _connector(table)
    if connector.sink is None:
        raise options.fail("tables of this connector are read, not written")
    _check_metadata(table, connector.writable, options, "writes")
    parallelism = options.whole_number(f"sink.{_PARALLELISM}")
    sink = connector.sink(table, options)
    options.check_all_read(but=("scan.", "source.", _LOOKUP))
    if overwritten is None:
        return sink, parallelism
    if connector.overwriting is None:
        raise options.fail("tables of this connector cannot be overwritten: INSERT INTO adds rows")
    return connector.overwriting(sink, overwritten), parallelism


_OF_DESCRIPTORS = "; options such as 'connector.type' and 'format.type' are those that Flink had before 1.11"
_BY_STREAMS = (
    "; other systems are read and written by a Source or Sink of your own, with from_data_stream or to_data_stream"
)


def _connector(table: Table) -> tuple[ConnectorOptions, Connector]:
    options = ConnectorOptions(table.path[2], dict(table.options))
    name = options.connector
    if not name:
        raise InvalidProgramError(
            f"table {table.path[2]!r} has no option 'connector', which says where its rows are: "
            f"WITH ('connector' = '...'), one of {', '.join(sorted(CONNECTORS))}"
            f"{_OF_DESCRIPTORS if 'connector.type' in dict(table.options) else ''}"
        )
    if name not in CONNECTORS:
        known = sorted(CONNECTORS)
        hint = did_you_mean(name, known)
        raise InvalidProgramError(
            f"table {table.path[2]!r}: there is no connector {name!r}{hint}; there are {', '.join(known)}"
            f"{'' if hint else _BY_STREAMS}"
        )
    return options, CONNECTORS[name]


def _check_metadata(table: Table, known: tuple[str, ...], options: ConnectorOptions, verb: str) -> None:
    for column in metadata_columns(table):
        if verb == "writes" and column.is_virtual:
            continue
        if column.metadata_key not in known:
            hint = did_you_mean(column.metadata_key, known)
            kinds = ", ".join(known) or "none"
            raise options.fail(
                f"column {column.name!r} is METADATA {column.metadata_key!r}{hint}, and the connector {verb} {kinds}"
            )


def _with_types(read: PhysicalTransformation, source: Source, table: Table, names: Mapping[str, str]) -> Transformation:
    """The rows with the table's names and types, where the source has others."""
    found = source.output_type
    if found is None:
        return read
    schema = found.schema
    wanted = [(each.name, names.get(each.name, each.name), each.type) for each in table.stored_columns]
    if all(name == own and schema.field(own).type == to_arrow(kind) for name, own, kind in wanted):
        return read
    columns = tuple((field.name, from_arrow(field.type)) for field in schema)
    read_columns = {name: Column(kind, place) for place, (name, kind) in enumerate(columns)}
    projections = tuple((name, _cast(read_columns[own], name, kind)) for name, own, kind in wanted)
    return PhysicalTransformation(
        name="Calc",
        description=f"columns of {table.path[2]}",
        factory=CalcFactory(columns, projections),
        input_transformations=(read,),
        parallelism=read.parallelism,
    )


def _cast(column: Column, name: str, kind: LogicalType) -> BoundExpression:
    if to_arrow(column.type) == to_arrow(kind):
        return column
    if not can_cast(column.type, kind.as_nullable()):
        raise InvalidProgramError(f"column {name!r} is {kind}, and the connector gives {column.type}")
    return Call(kind.as_nullable(), "CAST", (column,))

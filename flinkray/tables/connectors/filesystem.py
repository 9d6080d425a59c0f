"""`filesystem`: files of a path, read, or written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from flinkray.connectors.files.sink import FileSink
from flinkray.connectors.files.source import FileSource
from flinkray.connectors.lookup import LookupTable, RowsLookup
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Source
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table
from flinkray.tables.types.arrow import to_arrow

_FORMATS = {"csv": "csv", "json": "json", "parquet": "parquet", "arrow": "arrow", "raw": "text"}
_NO_PARTITIONS = "files are not kept in a directory for each value here: leave PARTITIONED BY out"


def _format(table: Table, options: ConnectorOptions) -> str:
    name = options.required("format")
    if name in ("avro", "orc"):
        raise options.fail(f"files of format {name!r} cannot be read or written; there are {', '.join(_FORMATS)}")
    if table.partitioned_by:
        raise options.fail(_NO_PARTITIONS)
    columns = physical_columns(table)
    if name == "raw" and (len(columns) != 1 or to_arrow(columns[0].type) != pa.string()):
        raise options.fail("a table of format 'raw' has one column, which is STRING")
    return _FORMATS[options.one_of("format", tuple(_FORMATS), "")]


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    path, file_format = options.required("path"), _format(table, options)
    monitor = options.millis("source.monitor-interval")
    if monitor == 0:
        raise options.fail("option 'source.monitor-interval' is at least 1 ms")
    delimiter = options.text("csv.field-delimiter", ",") if file_format == "csv" else ","
    columns = physical_columns(table)
    if file_format == "text":
        return TableSource(FileSource(path, "text", monitor=monitor), {columns[0].name: "value"})
    schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])
    return TableSource(FileSource(path, file_format, schema, delimiter=delimiter, monitor=monitor))


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    path, file_format = options.required("path"), _format(table, options)
    if file_format == "csv" and options.text("csv.field-delimiter", ",") != ",":
        raise options.fail("CSV is written with commas, whatever 'csv.field-delimiter' says of files that are read")
    return FileSink(path, file_format, prefix=options.text("sink.file-prefix", "part"))


def _lookup(table: Table, options: ConnectorOptions) -> LookupTable:
    source = _source(table, options).source.prepare()
    return RowsLookup(partial(_read, source, [column.name for column in physical_columns(table)]))


def _read(source: Source, names: Sequence[str]) -> pa.Table:
    assert isinstance(source, FileSource)
    return source.read_all().rename_columns(list(names))


CONNECTOR = Connector(_source, _sink, lookup=_lookup)

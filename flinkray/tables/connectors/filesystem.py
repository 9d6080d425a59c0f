"""`filesystem`: files of a path, read, or written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from flinkray.connectors.files.source import FileSource
from flinkray.connectors.files.writing.sink import FileSink
from flinkray.connectors.lookup import LookupTable, RowsLookup
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Boundedness, Source
from flinkray.tables.connectors.contract import Connector, TableSource, physical_columns
from flinkray.tables.connectors.options import ConnectorOptions, size_in_bytes
from flinkray.tables.plans.tables import Table
from flinkray.tables.types.arrow import to_arrow

_FORMATS = {"csv": "csv", "json": "json", "parquet": "parquet", "arrow": "arrow", "raw": "text"}
_HALF_HOUR_MS = 30 * 60_000


def _format(table: Table, options: ConnectorOptions) -> str:
    name = options.required("format")
    if name in ("avro", "orc"):
        raise options.fail(f"files of format {name!r} cannot be read or written; there are {', '.join(_FORMATS)}")
    columns = [column for column in physical_columns(table) if column.name not in table.partitioned_by]
    if not columns:
        raise options.fail("all columns are PARTITIONED BY, and none is left for the files")
    if name == "raw" and (len(columns) != 1 or to_arrow(columns[0].type) != pa.string()):
        raise options.fail("a table of format 'raw' has one column, which is STRING")
    return _FORMATS[options.one_of("format", tuple(_FORMATS), "")]


def _default_partition(options: ConnectorOptions) -> str:
    return options.text("partition.default-name", "__DEFAULT_PARTITION__")


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    path, file_format = options.required("path"), _format(table, options)
    monitor = options.millis("source.monitor-interval")
    if monitor == 0:
        raise options.fail("option 'source.monitor-interval' is at least 1 ms")
    delimiter = options.text("csv.field-delimiter", ",") if file_format == "csv" else ","
    partitions = table.partitioned_by
    renamed: dict[str, str] = {}
    fields: list[pa.Field] = []
    for column in physical_columns(table):
        is_line = file_format == "text" and column.name not in partitions
        if is_line:
            renamed[column.name] = "value"
        fields.append(pa.field("value" if is_line else column.name, to_arrow(column.type)))
    if "value" in renamed.values() and "value" in partitions:
        raise options.fail("of format 'raw' no column can be PARTITIONED BY that is called 'value'")
    source = FileSource(
        path,
        file_format,
        pa.schema(fields),
        delimiter=delimiter,
        monitor=monitor,
        partition_columns=partitions,
        default_partition=_default_partition(options),
    )
    return TableSource(source, renamed)


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    path, file_format = options.required("path"), _format(table, options)
    if file_format == "csv" and options.text("csv.field-delimiter", ",") != ",":
        raise options.fail("CSV is written with commas, whatever 'csv.field-delimiter' says of files that are read")
    options.refuse(
        "sink.rolling-policy.check-interval",
        "files are looked at when rows come, and each ends with the next checkpoint, before which none is seen",
    )
    return FileSink(
        path,
        file_format,
        prefix=options.text("sink.file-prefix", "part"),
        partition_by=table.partitioned_by,
        default_partition=_default_partition(options),
        part_size=options.read("sink.rolling-policy.file-size", size_in_bytes, 128 << 20),
        rollover_interval=options.millis("sink.rolling-policy.rollover-interval", _HALF_HOUR_MS),
        inactivity_interval=options.millis("sink.rolling-policy.inactivity-interval", _HALF_HOUR_MS),
    )


def _lookup(table: Table, options: ConnectorOptions) -> LookupTable | None:
    source = _source(table, options).source
    if source.boundedness is not Boundedness.BOUNDED:
        return None
    return RowsLookup(partial(_read, source.prepare(), [column.name for column in physical_columns(table)]))


def _read(source: Source, names: Sequence[str]) -> pa.Table:
    assert isinstance(source, FileSource)
    return source.read_all().rename_columns(list(names))


CONNECTOR = Connector(_source, _sink, lookup=_lookup)

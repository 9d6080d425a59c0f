"""`filesystem`: files of a path, read, or written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from flinkray.connectors.files.source import METADATA, FileSource
from flinkray.connectors.files.writing.compaction import FileCompaction
from flinkray.connectors.files.writing.partition_commit import PartitionCommit
from flinkray.connectors.files.writing.sink import FileSink, ShuffledFileSink
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.formats.raw import RawFormat
from flinkray.connectors.lookup import LookupTable, RowsLookup
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Boundedness, Source
from flinkray.tables.connectors.contract import Connector, TableSource, metadata_columns, physical_columns
from flinkray.tables.connectors.formats import (
    field_delimiter,
    is_changelog,
    message_format,
    skips_bad_messages,
)
from flinkray.tables.connectors.options import ConnectorOptions, size_in_bytes
from flinkray.tables.plans.tables import Table
from flinkray.tables.types.arrow import to_arrow
from flinkray.types.changelogs import INSERTS, Changes

_FORMATS = {
    "csv": "csv",
    "json": "json",
    "parquet": "parquet",
    "orc": "orc",
    "avro": "avro",
    "arrow": "arrow",
    "raw": "text",
    "canal-json": "canal-json",
    "debezium-json": "debezium-json",
    "maxwell-json": "maxwell-json",
    "ogg-json": "ogg-json",
}
_COMPRESSIONS = {
    "parquet.compression": {"uncompressed": "none", "lz4_raw": "lz4"},
    "orc.compress": {},
    "avro.codec": {"null": "none"},
}
"""Options that name a compression, and what other names they have for one than `FileSink`."""
_HALF_HOUR_MS = 30 * 60_000
_COMMIT = "sink.partition-commit"


def _format(table: Table, options: ConnectorOptions) -> str:
    name = options.required("format")
    columns = [column for column in physical_columns(table) if column.name not in table.partitioned_by]
    if not columns:
        raise options.fail("all columns are PARTITIONED BY, and none is left for the files")
    if name == "raw" and (len(columns) != 1 or to_arrow(columns[0].type) != pa.string()):
        raise options.fail("a table of format 'raw' has one column, which is STRING")
    return _FORMATS[options.one_of("format", tuple(_FORMATS), "")]


def _regular_expression(raw: object) -> str:
    try:
        return re.compile(str(raw)).pattern
    except re.error as error:
        raise ValueError(f"expected a regular expression of paths: {error}") from error


def _default_partition(options: ConnectorOptions) -> str:
    return options.text("partition.default-name", "__DEFAULT_PARTITION__")


def _lines(table: Table, options: ConnectorOptions, file_format: str) -> MessageFormat | None:
    """The format of lines that are rows; None: files are of a format of their own."""
    if file_format == "csv" and options.truth("csv.header"):
        for key in ("csv.quote-character", "csv.disable-quote-character", "csv.escape-character", "csv.null-literal"):
            options.refuse(key, "with 'csv.header' values are quoted by \", and empty or NA where they are null")
        return None
    if file_format not in ("csv", "json") and not is_changelog(options, "format"):
        return None
    stored = [column for column in physical_columns(table) if column.name not in table.partitioned_by]
    return message_format(options, "format", stored)


def _compression(options: ConnectorOptions, file_format: str) -> str | None:
    """Of files that are written; those that are read say theirs themselves."""
    for key, others in _COMPRESSIONS.items():
        if key.startswith(f"{file_format}.") and (given := options.text(key).lower()):
            return others.get(given, given)
    return None


def _raw_charset(options: ConnectorOptions) -> str:
    charset = options.text("raw.charset", "UTF-8")
    try:
        is_told_apart = "\n".encode(charset) == b"\n"
    except LookupError:
        raise options.fail(f"there is no charset {charset!r}") from None
    if not is_told_apart:
        raise options.fail(f"lines of {charset} are not told apart by bytes; set 'raw.charset' to another one")
    return charset


def _check_times(options: ConnectorOptions, file_format: str, *, is_written: bool) -> None:
    for name, why in (
        ("utc-timezone", "times are read and written as they are, in whatever zone a process runs"),
        ("write.int64.timestamp", "times are written as INT64, and read in both ways"),
    ):
        if file_format == "parquet" and not options.truth(f"parquet.{name}", True):
            raise options.fail(f"option 'parquet.{name}' cannot be false: {why}")
    legacy = file_format == "avro" and options.truth("avro.timestamp_mapping.legacy")
    if legacy and is_written:
        raise options.fail(
            "option 'avro.timestamp_mapping.legacy' cannot be true: times without a zone are written as Avro's "
            "local-timestamp; both kinds are read"
        )


def _source(table: Table, options: ConnectorOptions) -> TableSource:
    path, file_format = options.required("path"), _format(table, options)
    _check_times(options, file_format, is_written=False)
    _compression(options, file_format)
    options.has_no_effect("source.report-statistics", "no plan depends on statistics of files")
    monitor = options.millis("source.monitor-interval")
    if monitor == 0:
        raise options.fail("option 'source.monitor-interval' is at least 1 ms")
    lines = _lines(table, options, file_format)
    delimiter = field_delimiter(options, "csv.") if file_format == "csv" else ","
    partitions = table.partitioned_by
    renamed = {column.name: column.metadata_key for column in metadata_columns(table)}
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
        file_format if lines is None else lines,
        pa.schema(fields),
        delimiter=delimiter,
        monitor=monitor,
        partition_columns=partitions,
        default_partition=_default_partition(options),
        metadata=tuple(dict.fromkeys(column.metadata_key for column in metadata_columns(table))),
        path_pattern=options.read("source.path.regex-pattern", _regular_expression),
        bad_lines="skip" if lines is not None and skips_bad_messages(options, "format") else "fail",
        cuts_times=True,
        charset=_raw_charset(options) if file_format == "text" else "UTF-8",
        comments=file_format == "csv" and lines is not None and options.truth("csv.allow-comments"),
    )
    return TableSource(source, renamed)


def _sink(table: Table, options: ConnectorOptions) -> Sink:
    path, file_format = options.required("path"), _format(table, options)
    if is_changelog(options, "format"):
        raise options.fail(f"files of format {file_format!r} are read, and not written")
    _check_times(options, file_format, is_written=True)
    is_text = file_format == "text"
    lines = RawFormat(str, _raw_charset(options)) if is_text else _lines(table, options, file_format)
    if lines is None and file_format == "csv" and field_delimiter(options, "csv.") != ",":
        raise options.fail("with 'csv.header' CSV is written with commas, whatever 'csv.field-delimiter' says")
    options.has_no_effect(
        "sink.rolling-policy.check-interval",
        "files are looked at when rows come, and each ends with the next checkpoint, before which none is seen",
    )
    part_size = options.read("sink.rolling-policy.file-size", size_in_bytes, 128 << 20)
    compaction = None
    if options.truth("auto-compaction"):
        compaction = FileCompaction(options.read("compaction.file-size", size_in_bytes, part_size))
    options.read("compaction.file-size", size_in_bytes)
    if lines is not None and file_format == "csv":
        options.truth("csv.allow-comments")  # which is for reading
    is_shuffled = options.truth("sink.shuffle-by-partition.enable")
    sink = ShuffledFileSink if is_shuffled and table.partitioned_by else FileSink
    return sink(
        path,
        file_format if lines is None else lines,
        prefix=options.text("sink.file-prefix", "part"),
        partition_by=table.partitioned_by,
        default_partition=_default_partition(options),
        part_size=part_size,
        rollover_interval=options.millis("sink.rolling-policy.rollover-interval", _HALF_HOUR_MS),
        inactivity_interval=options.millis("sink.rolling-policy.inactivity-interval", _HALF_HOUR_MS),
        partition_commit=_partition_commit(table, options),
        compaction=compaction,
        compression=_compression(options, file_format),
    )


def _partition_commit(table: Table, options: ConnectorOptions) -> PartitionCommit | None:
    """When partitions are complete, and what happens then; None: the table has none, or nothing happens."""
    kinds = [kind.strip() for kind in options.text(f"{_COMMIT}.policy.kind").split(",") if kind.strip()]
    for kind in kinds:
        if kind == "metastore":
            raise options.fail(
                f"'{_COMMIT}.policy.kind' = 'metastore' is for Hive's tables; name success-file or custom"
            )
        if kind not in ("success-file", "custom"):
            raise options.fail(f"'{_COMMIT}.policy.kind' is of success-file and custom, not {kind!r}")
    policies = []
    if "custom" in kinds:
        arguments = [each for each in options.text(f"{_COMMIT}.policy.class.parameters").split(";") if each]
        policies.append(options.instance(f"{_COMMIT}.policy.class", arguments))
    extractor = None
    if options.one_of("partition.time-extractor.kind", ("default", "custom"), "default") == "custom":
        extractor = options.instance("partition.time-extractor.class", ())
    found: dict[str, Any] = {
        "trigger": options.one_of(f"{_COMMIT}.trigger", ("process-time", "partition-time"), "process-time"),
        "delay": options.millis(f"{_COMMIT}.delay", 0),
        "success_file": options.text(f"{_COMMIT}.success-file.name", "_SUCCESS") if "success-file" in kinds else None,
        "policies": policies,
        "timestamp_pattern": options.text("partition.time-extractor.timestamp-pattern") or None,
        "timestamp_format": options.text("partition.time-extractor.timestamp-formatter") or None,
        "time_zone": options.text(f"{_COMMIT}.watermark-time-zone", "UTC"),
        "extractor": extractor,
    }
    return PartitionCommit(**found) if kinds and table.partitioned_by else None


def _overwriting(sink: Sink, static: Mapping[str, str]) -> Sink:
    assert isinstance(sink, FileSink)
    return sink.overwriting(static)


def _lookup(table: Table, options: ConnectorOptions) -> LookupTable | None:
    source = _source(table, options).source
    if source.boundedness is not Boundedness.BOUNDED or metadata_columns(table) or source.is_changelog:
        return None
    return RowsLookup(partial(_read, source.prepare(), [column.name for column in physical_columns(table)]))


def _read(source: Source, names: Sequence[str]) -> pa.Table:
    assert isinstance(source, FileSource)
    return source.read_all().rename_columns(list(names))


def _changes(_table: Table, options: ConnectorOptions) -> Changes:
    return Changes(updates=True, deletes=True) if is_changelog(options, "format") else INSERTS


CONNECTOR = Connector(
    _source, _sink, readable=tuple(METADATA), changes=_changes, lookup=_lookup, overwriting=_overwriting
)

"""Files as a source: each split is read on a thread of its own, and goes on exactly where it was after a restore."""

from __future__ import annotations

import codecs
import copy
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import fs

from flinkray.batches.batch import Batch
from flinkray.connectors.files.formats import (
    CsvFiles,
    FileFormat,
    FileSplit,
    LineFiles,
    ParquetFiles,
    refuse_ambiguous,
)
from flinkray.connectors.files.inferred_types import filled, has_unknown, unknown_as_text
from flinkray.connectors.files.known_formats import FORMATS, format_of
from flinkray.connectors.files.message_lines import KINDS, MessageLines
from flinkray.connectors.files.monitoring import FileMonitor, MonitoredFiles
from flinkray.connectors.files.orc_files import OrcFiles
from flinkray.connectors.files.partitions import DEFAULT_PARTITION, Partitions, partition_column, partition_values
from flinkray.connectors.files.paths import FoundFile, PathLike, find_files, list_files
from flinkray.connectors.files.small_files import FileGroup, grouped
from flinkray.connectors.files.storage import explained
from flinkray.connectors.formats.json_lines import MissingColumnError
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.formats.nested_columns import is_uuid, retyped, with_times_cut
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator
from flinkray.connectors.subtask import subtask_label
from flinkray.connectors.threaded_splits import ThreadedSplitReader
from flinkray.errors import InvalidProgramError, RecordError, UnknownColumnError, did_you_mean, operator_label
from flinkray.functions.type_hints import record_type
from flinkray.time.durations import Duration, to_millis
from flinkray.types.nested import contains
from flinkray.types.records import Kind, RecordType

log = logging.getLogger(__name__)

METADATA: dict[str, pa.DataType] = {
    "file.path": pa.string(),
    "file.name": pa.string(),
    "file.size": pa.int64(),
    "file.modification-time": pa.timestamp("ms", "UTC"),
}
"""What is known of a file, with its types, as Flink has it."""
_FILES_LOOKED_THROUGH = 16
"""The most files that are opened to find the type of a column that has no value in those before."""


class FileSource(Source):
    """The rows of files: Parquet, ORC, CSV with a header, JSON lines, Arrow IPC, Avro (`flinkray[avro]`), or lines of
    text (bare strings).

    Row groups, stripes, batches, ranges of lines, and files of CSV and Avro are read in parallel; positions are exact,
    so that a restored source goes on with the row after the last one. Of many small files, several are one split.

    Args:
        paths: files, directories or patterns (`data/*.parquet`), local or as URIs of any pyarrow filesystem.
        format: "parquet", "orc", "csv", "json", "arrow", "avro" or "text"; None: by the first file's name. Or a
            MessageFormat, whose messages are lines: CsvFormat reads CSV without a header.
        schema: the columns and their types, as `output_type=`. None: those of the first file that is not empty; the
            type of a column that has no value there is looked for in the next files, and of CSV and JSON is text if
            those have none either; text of JSON is text, also where it looks like a date. What does not fit is an
            error; CSV and JSON are read as these types, as FileSink writes them. A column that a file lacks is null in
            its rows, and what else a file has is not read.
        columns: read only these.
        delimiter: of CSV, whose fields are null where they are empty, or NA or the like, and not quoted.
        filesystem: a pyarrow filesystem for paths within it, for example one with credentials.
        monitor: how often to look for new files, for ever; None: the files that are there at the start, and no others.
            Each file is read once, also across restarts, the oldest first. It is read as soon as it is seen, so write
            it under a hidden name, or one that ends with .tmp, and rename it. Where none is there at the start,
            `format` and `schema` have to be given.
        partition_columns: those whose values are in the names of directories, `dt=2024-01-01/hour=3` as Hive writes
            them, and not in the files; with types of `schema` where it has them, else as text, after all others. Lines
            of text become rows then, whose column is `value`.
        default_partition: the value in such a name that stands for null, as do those that Hive and Flink write.
        metadata: what is known of a file, as columns behind all others: "file.path", "file.name", "file.size" in bytes,
            "file.modification-time".
        path_pattern: only files are read whose whole path matches this regular expression.
        bad_lines: "skip": lines that a MessageFormat cannot read are left out; "fail": they end the job.
        comments: whether lines that begin with # are no messages.
        cuts_times: whether times of files with more digits than those of `schema` are cut; else they are an error.
        charset: of files of text: "csv", "json", "text" and lines of a MessageFormat. All but "csv" need one in which a
            line break is the byte 10, as it is in all but UTF-16 and the like.
    """

    # Of the class, too: sources that were stored before there was any of this have none.
    _monitor_ms: int | None = None
    _partition_columns: tuple[str, ...] = ()
    _default_partition = DEFAULT_PARTITION
    _metadata: tuple[str, ...] = ()
    _path_pattern: str | None = None
    _lines: MessageLines | None = None
    _cuts_times = False
    _charset: str | None = None

    def __init__(
        self,
        paths: PathLike | Sequence[PathLike],
        format: str | MessageFormat | None = None,
        schema: Any = None,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        filesystem: fs.FileSystem | None = None,
        monitor: Duration | None = None,
        partition_columns: Sequence[str] = (),
        default_partition: str = DEFAULT_PARTITION,
        metadata: Sequence[str] = (),
        path_pattern: str | None = None,
        bad_lines: str = "fail",
        comments: bool = False,
        cuts_times: bool = False,
        charset: str = "UTF-8",
    ) -> None:
        self._paths = [paths] if isinstance(paths, PathLike) else list(paths)
        if not self._paths:
            raise InvalidProgramError("FileSource needs at least one path")
        if bad_lines not in ("fail", "skip"):
            raise InvalidProgramError(f"FileSource(bad_lines=...) is 'fail' or 'skip', not {bad_lines!r}")
        if isinstance(format, MessageFormat):
            self._lines, format = MessageLines(format, bad_lines == "skip", comments), "text"
        elif comments or bad_lines == "skip":
            raise InvalidProgramError("FileSource(bad_lines=..., comments=...) are for a format of messages")
        for name in metadata:
            if name not in METADATA:
                hint = did_you_mean(name, METADATA)
                raise InvalidProgramError(f"of files {', '.join(METADATA)} are known, not {name!r}{hint}")
        self._metadata = tuple(metadata)
        if path_pattern is not None:
            try:
                re.compile(path_pattern)
            except re.error as error:
                raise InvalidProgramError(f"{path_pattern!r} is no regular expression of paths: {error}") from error
        self._path_pattern = path_pattern
        self._cuts_times = cuts_times
        if format is not None and format not in FORMATS:
            raise InvalidProgramError(
                f"no file format {format!r}{did_you_mean(format, FORMATS)}; there are {', '.join(FORMATS)}"
            )
        self._format_name = format
        self._charset = _charset_named(charset)
        self._declared = None if schema is None else record_type(schema).schema
        self._columns = columns
        self._delimiter = delimiter
        self._filesystem = filesystem
        self._monitor_ms = None if monitor is None else to_millis(monitor, "FileSource(monitor=...)")
        if self._monitor_ms == 0:
            raise ValueError("FileSource(monitor=...) is the time between two listings, and at least 1 ms")
        self._partition_columns = tuple(partition_columns)
        self._default_partition = default_partition
        self._fields: frozenset[str] | None = None
        """What is read of the columns; None: all."""
        self._schema: pa.Schema | None = None
        self._splits: list[tuple[FileSplit, int | None]] | None = None
        """The splits, each with its bytes where it is a whole file and its size is known; None: not listed yet."""

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._monitor_ms is None else Boundedness.UNBOUNDED

    @property
    def output_type(self) -> RecordType | None:
        """The declared schema, or that of the first file that is not empty, which is opened for it."""
        if self._schema is None:
            self._schema = self._find_schema()
        return RecordType(self._kind(), self._schema)

    @property
    def is_changelog(self) -> bool:
        return self._lines is not None and self._lines.is_changelog

    def _kind(self) -> Kind:
        return Kind.ROW if self._partition_columns or self._metadata else self._format().kind

    def prepare(self) -> Source:
        """The source with its files listed and cut into splits, as they are now."""
        prepared = copy.copy(self)
        prepared._schema = self.output_type.schema if self.output_type else None
        format = prepared._format()
        if self._monitor_ms is None:
            files = list_files(self._paths, self._filesystem, self._path_pattern)
            prepared._splits = [split for file in files for split in _cut(format, *file)]
        return prepared

    def reading(self, fields: frozenset[str]) -> Source:
        """Of Parquet and ORC, whose columns and fields of rows lie apart, the rest is not decoded."""
        other = copy.copy(self)
        other._fields = fields
        return other

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        if self._monitor_ms is not None:
            return self._monitor(context, self._monitor_ms, restored)
        if restored is not None:
            return SplitListEnumerator(context, restored.waiting if isinstance(restored, MonitoredFiles) else restored)
        if self._splits is None:
            return self.prepare().create_enumerator(context)
        return SplitListEnumerator(context, grouped(self._splits, context.parallelism))

    def _monitor(self, context: SplitEnumeratorContext, interval_ms: int, restored: Any) -> FileMonitor:
        if restored is not None and not isinstance(restored, MonitoredFiles):
            raise InvalidProgramError(
                "FileSource(monitor=...) is restored from a source without it, which does not know the files that it "
                "has read; give it another uid, and files that it is to read"
            )
        places = [partial(find_files, path, self._filesystem, self._path_pattern) for path in self._paths]
        format = self._format()

        def cut(file: FoundFile) -> list[tuple[FileSplit, int | None]] | None:
            try:
                return _cut(format, file.filesystem, file.path, file.size or 0)
            except InvalidProgramError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    return None
                raise

        return FileMonitor(context, places, cut, interval_ms, restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return self._reader(context)

    def _reader(self, context: SourceReaderContext) -> _FileReader:
        assert self.output_type is not None
        return _FileReader(
            context,
            self._format(),
            self.output_type,
            self._declared,
            self._columns,
            Partitions(self._partition_columns, self._default_partition),
            self._metadata,
            self._cuts_times,
        )

    def read_all(self) -> pa.Table:
        """All rows, read by the calling thread."""
        prepared = self.prepare()
        assert isinstance(prepared, FileSource)
        assert prepared._splits is not None
        alone: Any = _Alone()
        reader = prepared._reader(alone)
        batches = [data for split, _ in prepared._splits for data, _ in reader.parts(split)]
        return pa.Table.from_batches(batches, prepared._schema)

    def _format(self) -> FileFormat:
        format = self._plain_format()
        if self._charset is not None:
            if not isinstance(format, CsvFiles | LineFiles):
                raise InvalidProgramError("FileSource(charset=...) is for csv, json, text and lines of messages")
            if isinstance(format, LineFiles) and "\n".encode(self._charset) != b"\n":
                raise InvalidProgramError(
                    f"lines of {self._charset} are not told apart by bytes; convert them to UTF-8"
                )
            format = copy.copy(format)
            format.charset = self._charset
        return format

    def _plain_format(self) -> FileFormat:
        if self._lines is not None:
            return self._lines
        if self._format_name is None:  # once: all files are listed for it
            self._format_name = self._first_format()
        format = FORMATS[self._format_name]
        if format in (ParquetFiles, OrcFiles):
            return format(self._fields)
        return CsvFiles(self._delimiter) if format is CsvFiles else format()

    def _first_format(self) -> str:
        return format_of(list_files(self._paths[:1], self._filesystem, self._path_pattern)[0][1])

    def _find_schema(self) -> pa.Schema:
        declared = self._declared
        schema = (self._first_schema() if declared is None else declared).remove_metadata()
        for column in self._partition_columns:
            if column not in schema.names:
                schema = schema.append(pa.field(column, pa.string()))
        for name in self._metadata:
            if name in schema.names:
                raise InvalidProgramError(f"{name!r} of files cannot be read beside a column of that name; rename it")
            schema = schema.append(pa.field(name, METADATA[name], nullable=False))
        if self._columns is None:
            return schema
        for column in self._columns:
            if column not in schema.names:
                raise UnknownColumnError(column, schema.names, "FileSource(columns=...)")
        return pa.schema([schema.field(column) for column in self._columns])

    def _first_schema(self) -> pa.Schema:
        format = self._format()
        files = (file for place in self._paths for file in list_files([place], self._filesystem, self._path_pattern))
        first: pa.Schema | None = None
        looked_through = 0
        for system, path, _ in files:
            with _named(path):
                schema = format.schema(system, path)
            if schema is None:
                continue
            if first is None:
                with _named(path):
                    refuse_ambiguous(schema.names, self._columns or schema.names)
                first = schema
            else:
                first = filled(first, schema)
            looked_through += 1
            if looked_through == _FILES_LOOKED_THROUGH or not has_unknown(self._wanted(first)):
                break
        if first is None:
            places = ", ".join(map(str, self._paths))
            raise InvalidProgramError(f"{places}: what is empty says nothing about its columns; set schema=")
        return first if format.shows_types else unknown_as_text(first)

    def _wanted(self, schema: pa.Schema) -> pa.Schema:
        if self._columns is None:
            return schema
        wanted = set(self._columns)
        return pa.schema([field for field in schema if field.name in wanted])


def _charset_named(charset: str) -> str | None:
    """The charset as Python calls it; None: UTF-8."""
    try:
        name = codecs.lookup(charset).name
        "a".encode(charset)  # which such as rot13 cannot
    except LookupError:
        raise InvalidProgramError(f"there is no charset {charset!r}") from None
    return None if name in ("utf-8", "utf-8-sig") else name


def _cut(format: FileFormat, system: fs.FileSystem, path: str, size: int) -> list[tuple[FileSplit, int | None]]:
    """The splits of a file, each with its bytes where it is the whole file and its size is known."""
    with _named(path):
        parts = format.splits(system, path, size)
    of_whole = size if size and len(parts) == 1 else None
    return [(FileSplit(f"{path}#{start}", path, system, start, stop), of_whole) for start, stop in parts]


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Turns an error of reading the file into one that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # also text that is not UTF-8
        raise InvalidProgramError(f"cannot read {path}: {error}") from error


_Split = FileSplit | FileGroup


class _Alone:
    """What a reader needs to know of itself that no task has."""

    operator_name = "lookup"
    subtask_index = 0
    parallelism = 1
    batch_rows = 65_536


class _FileReader(ThreadedSplitReader[_Split]):
    """Reads files in exactly the types of the source."""

    def __init__(
        self,
        context: SourceReaderContext,
        format: FileFormat,
        output_type: RecordType,
        declared: pa.Schema | None,
        columns: Sequence[str] | None,
        partitions: Partitions,
        metadata: Sequence[str] = (),
        cuts_times: bool = False,
    ) -> None:
        super().__init__(context, output_type.kind)
        self._cuts_times = cuts_times
        self._format = format
        self._schema = output_type.schema
        self._default_partition = partitions.default
        self._partition_columns = [name for name in self._schema.names if name in partitions.columns]
        self._metadata = [name for name in self._schema.names if name in metadata]
        elsewhere = {*partitions.columns, *metadata}
        self._stored = pa.schema([field for field in self._schema if field.name not in elsewhere])
        """The columns that are read from the files themselves."""
        self._is_declared = declared is not None
        self._is_projected = columns is not None
        self._said_missing: set[str] = set()
        """The columns of which the log has that a file lacks them."""

    def parts(self, split: _Split) -> Iterator[tuple[pa.RecordBatch, _Split]]:
        if isinstance(split, FileSplit):
            yield from self._of_file(split)
            return
        for position, file in enumerate(split.files):
            for data, left in self._of_file(file):
                yield data, split.after(position, left)

    def _of_file(self, file: FileSplit) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        place = file
        try:
            values: dict[str, Any] = {}
            values |= partition_values(file.path, self._partition_columns, self._default_partition)
            values |= self._metadata_of(file)
            for data, left in self._format.read(file, self._stored, self._context.batch_rows):
                yield self._fitted(data, file, values), left
                place = left
        except Exception as error:
            raise self._error(place, error) from error

    def _fitted(self, data: pa.RecordBatch, file: FileSplit, values: Mapping[str, Any]) -> pa.RecordBatch:
        """The columns in exactly the declared types; casts only where nothing is lost. Null where one is not there.

        Args:
            values: of the columns that are of the file and not of its rows.
        """
        if data.schema.equals(self._schema):
            return data.replace_schema_metadata(None)
        missing = set(self._stored.names) - set(data.schema.names)
        if missing - self._said_missing:
            self._on_missing(missing, data.schema.names, file)
        columns = []
        for field in self._schema:
            if field.name in values:
                column = _repeated(values[field.name], field, data.num_rows, field.name in self._metadata)
            elif field.name in missing:
                column = pa.nulls(data.num_rows, field.type)
            else:
                column = _cast(data.column(field.name), field, self._cuts_times)
            if not field.nullable and column.null_count:
                raise MissingColumnError.of_null(field.name)
            columns.append(column)
        if KINDS not in data.schema.names:
            return pa.RecordBatch.from_arrays(columns, schema=self._schema)
        names = [*self._schema.names, KINDS]
        return pa.RecordBatch.from_arrays([*columns, data.column(KINDS)], names=names)

    def batch_of(self, data: pa.RecordBatch) -> Batch:
        if KINDS not in data.schema.names:
            return super().batch_of(data)
        rows = pa.RecordBatch.from_arrays(data.columns[:-1], schema=self._schema)
        return super().batch_of(rows).with_kinds(data.columns[-1])

    def _metadata_of(self, file: FileSplit) -> dict[str, Any]:
        if not self._metadata:
            return {}
        info = file.filesystem.get_file_info(file.path)
        found = {
            "file.path": file.path,
            "file.name": info.base_name,
            "file.size": info.size,
            "file.modification-time": (info.mtime_ns or 0) // 1_000_000,
        }
        return {name: found[name] for name in self._metadata}

    def _on_missing(self, missing: set[str], names: list[str], file: FileSplit) -> None:
        """Says once per column that it is null, which nobody may have meant: a name may be misspelt.

        Raises:
            MissingColumnError: the file has no column of the schema, so it is another file than was meant.
        """
        if len(missing) == len(self._stored) and not self._is_projected:
            raise MissingColumnError(
                f"none of these columns is there, and the first column is {names[0]!r}; compare the names, and of CSV "
                "the delimiter"
            )
        self._said_missing.update(missing)
        log.warning(
            "%s: %s has no column %s, so it is null in its rows; others may lack it, too",
            operator_label(self._context.operator_name),
            file.path,
            ", ".join(map(repr, sorted(missing))),
        )

    def _error(self, split: FileSplit, error: Exception) -> Exception:
        where = f"{subtask_label(self._context)}: cannot read {split.path}{self._format.place(split)}"
        if isinstance(error, FileNotFoundError):
            wrapped = RecordError(
                f"{where}: it was there when the job was submitted; keep files while a job reads them"
            )
        elif isinstance(error, OSError | UnicodeError):
            wrapped = RecordError(f"{where}: {explained(error)}")
        else:
            columns = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
            way_out = "" if isinstance(error, MissingColumnError) else "; if the files hold other types, set schema="
            if way_out and self._is_declared:
                way_out += " to those, and cast() the columns"
            wrapped = RecordError(f"{where} as {columns}: {error}{way_out}")
        return wrapped


def _repeated(value: Any, field: pa.Field, rows: int, is_metadata: bool) -> pa.Array:
    """What a file or its path says of a column, in so many rows."""
    if is_metadata:
        return pa.repeat(pa.scalar(value, field.type), rows)
    try:
        return partition_column(value, field.type, rows)
    except pa.ArrowException as error:
        raise ValueError(f"column {field.name!r} is {value!r} in its path: {error}") from error


def _cast(column: pa.Array, field: pa.Field, cuts_times: bool) -> pa.Array:
    try:
        return _cast_values(column, field.type, cuts_times)
    except pa.ArrowException as error:
        raise ValueError(f"column {field.name!r} is {column.type} there: {error}") from error


def _cast_values(column: pa.Array, kind: pa.DataType, cuts_times: bool) -> pa.Array:
    if cuts_times:
        return with_times_cut(column, kind)
    try:
        if contains(column.type, is_uuid) or contains(kind, is_uuid):  # of which Arrow makes text of their bytes
            return retyped(column, kind, pa.Array.cast)
        return column.cast(kind)
    except pa.ArrowNotImplementedError:  # to most dictionaries and extension types
        return retyped(column, kind, pa.Array.cast)

"""Files as a sink: writers per format, and the exactly-once protocol of hidden files."""

from __future__ import annotations

import copy
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from msgspec import Struct
from pyarrow import fs

from flinkray.batches.batch import Batch
from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.files.commits import AbandonedFiles, FileCommittable, FileCommitter, FileNames, delete_file
from flinkray.connectors.files.partitions import DEFAULT_PARTITION, Partitions, by_partition
from flinkray.connectors.files.paths import PathLike, resolve
from flinkray.connectors.files.row_groups import RowGroups
from flinkray.connectors.formats.json_lines import to_json_lines
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError, TypeMismatchError, UnknownColumnError, did_you_mean, operator_label
from flinkray.time.durations import Duration, to_millis
from flinkray.types.nested import with_items
from flinkray.types.records import Kind

_MOST_OPEN = 4
"""The most files that a subtask writes at a time, each with a row group in memory."""
_MOST_OPEN_PARTITIONS = 64
"""The same where each directory has files of its own, whose row groups fill slower."""
_REFUSALS = (pa.ArrowException, OSError, TypeError, ValueError)
"""The errors of the writers for a value or type that their format does not have."""
_WAYS_OUT = {
    "csv": "write json or parquet, or map it to text, or to several plain columns, first",
    "json": "write parquet or arrow, or map it to another type first",
    "parquet": "write arrow, or map it to another type first",
    "arrow": "map it to another type first",
    "text": "map it to text first",
}


class Rolling(Struct, frozen=True):
    """When a file ends before the next checkpoint, as Flink's DefaultRollingPolicy says; None: not by this."""

    part_size: int | None
    rollover_ms: int | None
    inactivity_ms: int | None

    def ends_before(self, file: _OpenFile, now_ms: int) -> bool:
        """Whether no rows that come now go into the file."""
        return (self.rollover_ms is not None and now_ms - file.opened_ms >= self.rollover_ms) or (
            self.inactivity_ms is not None and now_ms - file.written_ms >= self.inactivity_ms
        )


class FileSink(Sink):
    """Rows into files of a directory, visible exactly once: with each completed checkpoint, and at the end of input.

    Each subtask writes hidden files of its own (names that begin with a dot), new ones after each checkpoint and for
    rows of other columns, and renames one when a checkpoint that covers it is complete. Without checkpoints it does so
    at the end of its own input: if another subtask fails after that, the job writes those rows again, to further files.

    What lost tasks left unfinished ("*.inprogress") is removed when the first checkpoint after them is complete. What
    waits for its checkpoint ("*.pending") never is, as a savepoint may name it even if the job itself went back to
    before it: files that are older than every savepoint that is still wanted, and of jobs that have ended, are garbage.

    Args:
        directory: local, or a URI of any pyarrow filesystem; created if needed.
        format: "parquet", "csv" (with a header; nulls are empty fields, and NA in a single column; no nested columns),
            "json" (lines), "arrow" (IPC file; dictionaries as their values) or "text" (bare values, one per line).
            FileSource(schema=...) reads the same columns back, but for NaN in CSV and JSON (null), and infinity in
            JSON (null). Columns that a format cannot hold are an error at the first batch.
        prefix: what file names begin with.
        filesystem: a pyarrow filesystem for a path within it.
        suffix: what file names end with; None: a dot and the format.
        partition_by: columns that name directories, `dt=2024-01-01/hour=3` as Hive writes them, and are not in the
            files. Each subtask writes to 64 directories at a time: where there are more, let rows come keyed by them.
        default_partition: the value in such a name for null and empty text; both are read back as null.
        part_size: in bytes: a file also ends after the batch that makes it as large; None: at any size. Of Parquet,
            rows that wait for their row group count as what they take in memory.
        rollover_interval: a file also ends before rows that come so long after its first; None: at any age.
        inactivity_interval: a file also ends before rows that come so long after its last; None: at any age.
    """

    _partitions = Partitions((), DEFAULT_PARTITION)
    """Of the class, too: sinks that were stored before files had partitions have none."""
    _rolling = Rolling(None, None, None)
    """The same of those from before files ended at a size."""

    def __init__(
        self,
        directory: PathLike,
        format: str = "parquet",
        prefix: str = "part",
        filesystem: fs.FileSystem | None = None,
        suffix: str | None = None,
        partition_by: Sequence[str] = (),
        default_partition: str = DEFAULT_PARTITION,
        part_size: int | None = None,
        rollover_interval: Duration | None = None,
        inactivity_interval: Duration | None = None,
    ) -> None:
        if format not in _WRITERS:
            raise InvalidProgramError(
                f"no file format {format!r}{did_you_mean(format, _WRITERS)}; there are {', '.join(_WRITERS)}"
            )
        if not prefix or prefix.startswith((".", "_")) or "/" in prefix:
            raise InvalidProgramError(f"a file name cannot begin with {prefix!r}, which readers take for hidden")
        if suffix is not None and "/" in suffix:
            raise InvalidProgramError(f"a file name cannot end with {suffix!r}")
        self._filesystem, self._directory = resolve(directory, filesystem)
        self._format = format
        self._prefix = prefix
        self._suffix = f".{format}" if suffix is None else suffix
        self._partitions = Partitions(tuple(partition_by), default_partition)
        if part_size is not None and part_size < 1:
            raise InvalidProgramError(f"FileSink(part_size=...) is at least 1 byte, got {part_size!r}")
        self._rolling = Rolling(
            part_size,
            None if rollover_interval is None else to_millis(rollover_interval, "rollover_interval"),
            None if inactivity_interval is None else to_millis(inactivity_interval, "inactivity_interval"),
        )
        self._submission = ""

    def prepare(self) -> Sink:
        prepared = copy.copy(self)
        prepared._submission = uuid.uuid4().hex[:16]
        return prepared

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        try:
            self._filesystem.create_dir(self._directory, recursive=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidProgramError(
                f"{operator_label(context.operator_name)}: {self._directory} cannot be a directory for files, since "
                f"there is a file there, or above it; name another directory ({error})"
            ) from error
        names = FileNames(self._filesystem, self._directory, self._prefix, self._suffix, self._submission, context)
        return _FileWriter(self._filesystem, names, self._format, self._partitions, self._rolling, context)

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.EXACTLY_ONCE

    def create_committer(self) -> Committer | None:
        return FileCommitter(self._filesystem)


class _FileWriter(SinkWriter):
    """Writes the hidden files of one subtask, and prepares them for their commit with each checkpoint."""

    def __init__(
        self,
        system: fs.FileSystem,
        names: FileNames,
        format: str,
        partitions: Partitions,
        rolling: Rolling,
        context: SinkWriterContext,
    ) -> None:
        self._filesystem = system
        self._names = names
        self._format = format
        self._partitions = partitions
        self._most_open = _MOST_OPEN_PARTITIONS if partitions.columns else _MOST_OPEN
        self._rolling = rolling
        self._context = context
        self._open: list[_OpenFile] = []
        """The files that are being written, one per directory and schema; the one written to last comes last."""
        self._complete: list[_OpenFile] = []
        self._abandoned = names.abandoned()
        self._has_ended = False
        self._checked: pa.Schema | None = None
        """The schema of the last file, which the format is known to hold."""

    def write(self, batch: Batch) -> None:
        if batch.kind is Kind.OBJECT:
            raise TypeMismatchError(
                f"{operator_label(self._context.operator_name)}: {self._format} files have columns, and these rows are "
                "Python objects; map them to rows, tuples or numbers first"
            )
        now_ms = self._context.now_ms()
        for file in [file for file in self._open if self._rolling.ends_before(file, now_ms)]:
            self._finish(file)
        columns = self._partitions.columns
        if not columns:
            self._check_is_scalar(batch)
            self._write("", batch.data, now_ms)
            return
        self._check_partitions(batch.data)
        for partition, rows in by_partition(batch.data, self._partitions):
            self._write(partition, rows, now_ms)

    def _check_is_scalar(self, batch: Batch) -> None:
        if self._format == "text" and batch.kind is not Kind.SCALAR:
            raise TypeMismatchError(
                f"{operator_label(self._context.operator_name)}: text files have one value per line, and these rows "
                f"have the columns {batch.data.schema.names}; map them to text first, or write csv or json"
            )

    def _check_partitions(self, data: pa.RecordBatch) -> None:
        columns, names = self._partitions.columns, data.schema.names
        where = f"{operator_label(self._context.operator_name)}: FileSink(partition_by=...)"
        for column in columns:
            if names.count(column) != 1:
                raise UnknownColumnError(column, names, where)
        if len(names) == len(columns) or (self._format == "text" and len(names) != len(columns) + 1):
            wanted = "one column" if self._format == "text" else "at least one column"
            raise TypeMismatchError(
                f"{where} leaves {len(names) - len(columns)} of the columns {names}, and {self._format} files have "
                f"{wanted}; write another format, or partition by other columns"
            )

    def _write(self, partition: str, data: pa.RecordBatch, now_ms: int) -> None:
        if not self._open or not self._open[-1].is_for(partition, data.schema):
            self._open.append(self._file_for(partition, data, now_ms))
        file = self._open[-1]
        try:
            file.write(data)
            file.written_ms = now_ms
            if self._rolling.part_size is not None and file.size() >= self._rolling.part_size:
                self._finish(file)
        except _REFUSALS as error:
            refusal = self._refusal(data)
            if refusal is None:
                raise
            raise refusal from error

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = end_of_input

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        while self._open:
            self._finish(self._open[0])
        for file in self._complete:
            if file.path != file.committable.hidden:
                self._filesystem.move(file.path, file.committable.hidden)
        prepared: list[Any] = [file.committable for file in self._complete]
        self._complete = []
        # Right after the end of input the commit may be one without a checkpoint, and then of an attempt that was
        # given up and does not know it.
        if self._abandoned and not self._has_ended:
            prepared.append(AbandonedFiles(self._abandoned))
            self._abandoned = ()
        return prepared

    def close(self) -> None:
        """Drops what has not been prepared: a restarted task writes it again."""
        for file in self._open:
            file.abandon()
        for file in (*self._open, *self._complete):
            delete_file(self._filesystem, file.path)
            delete_file(self._filesystem, file.committable.hidden)

    def _file_for(self, partition: str, data: pa.RecordBatch, now_ms: int) -> _OpenFile:
        for position, file in enumerate(self._open):
            if file.is_for(partition, data.schema):
                return self._open.pop(position)
        if len(self._open) == self._most_open:
            self._finish(self._open[0])
        file = self._new_file(partition, data)
        file.opened_ms = now_ms
        return file

    def _new_file(self, partition: str, data: pa.RecordBatch) -> _OpenFile:
        if data.schema != self._checked:
            refusal = self._refusal(data.slice(0, 0))
            if refusal is not None:
                raise refusal
            self._checked = data.schema
        path, committable = self._names.next(partition)
        stream = self._filesystem.open_output_stream(path, compression=None)
        return _WRITERS[self._format](stream, data.schema, path, committable, partition)

    def _refusal(self, data: pa.RecordBatch) -> TypeMismatchError | None:
        """An error about the column that a file of this format cannot hold, found by writing each into memory; None: it
        can hold all."""
        for field, column in zip(data.schema, data.columns, strict=True):
            alone = pa.record_batch([column], pa.schema([field]))
            try:
                file = _WRITERS[self._format](pa.BufferOutputStream(), alone.schema, "", FileCommittable("", ""))
                try:
                    file.write(alone)
                finally:
                    file.finish()
            except _REFUSALS as error:
                return TypeMismatchError(
                    f"{operator_label(self._context.operator_name)}: {self._format} files cannot hold the column "
                    f"{field.name!r} of type {field.type}: {error}; {_WAYS_OUT[self._format]}"
                )
        return None

    def _finish(self, file: _OpenFile) -> None:
        file.finish()
        self._open.remove(file)
        self._complete.append(file)


# -- formats -----------------------------------------------------------------------------------------------------


class _OpenFile(ABC):
    """A file that is being written."""

    def __init__(
        self, stream: pa.NativeFile, schema: pa.Schema, path: str, committable: FileCommittable, partition: str = ""
    ) -> None:
        self._partition = partition
        self.opened_ms = self.written_ms = 0
        """When its first and its last rows came."""
        self.path = path
        self.committable = committable
        self.schema = schema
        self._stream = stream
        self._start()

    def _start(self) -> None:
        """Makes what `write` needs."""

    def is_for(self, partition: str, schema: pa.Schema) -> bool:
        """Whether rows of that directory and with these columns go into it."""
        return self._partition == partition and self.schema.equals(schema)

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None: ...

    def size(self) -> int:
        """Its bytes so far."""
        return int(self._stream.tell())

    def _end(self) -> None:
        """Writes what is buffered, and the file's end."""

    def finish(self) -> None:
        self._end()
        self._stream.close()

    def abandon(self) -> None:
        self._stream.close()


class _ParquetFile(_OpenFile):
    """Writes row groups of many batches."""

    def _start(self) -> None:
        self._writer = pq.ParquetWriter(self._stream, self.schema)
        self._groups = RowGroups(lambda rows: self._writer.write_table(rows, row_group_size=rows.num_rows))

    def write(self, batch: pa.RecordBatch) -> None:
        self._groups.add(batch)

    def size(self) -> int:
        return super().size() + self._groups.waiting_bytes

    def _end(self) -> None:
        self._groups.flush()
        self._writer.close()

    def abandon(self) -> None:
        try:
            self._writer.close()  # else it closes itself later, on a stream that is closed
        finally:
            self._stream.close()


class _ArrowFile(_OpenFile):
    """Writes the values of dictionaries: a file holds one dictionary per column, and each batch may have its own."""

    def _start(self) -> None:
        fields = [field.with_type(_without_dictionaries(field.type)) for field in self.schema]
        self._written = pa.schema(fields, self.schema.metadata)
        self._writer = pa.ipc.new_file(self._stream, self._written)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch if self._written.equals(self.schema) else batch.cast(self._written))

    def _end(self) -> None:
        self._writer.close()


def _without_dictionaries(arrow_type: pa.DataType) -> pa.DataType:
    plain = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    return with_items(plain, _without_dictionaries)


class _CsvFile(_OpenFile):
    """Writes a header line and lines of comma-separated values."""

    def _start(self) -> None:
        self._writer = pa_csv.CSVWriter(self._stream, self.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        # A null is an empty field; a line that is nothing but one would be empty, and readers pass over those. Arrow's
        # writer has had another text for nulls only since version 26.
        only = _without_dictionary(batch.column(0)) if batch.num_columns == 1 else None
        if only is not None and only.null_count:
            _write_lines(self._stream, pc.fill_null(_csv_fields(only), "NA"))
        else:
            self._writer.write_batch(batch)

    def _end(self) -> None:
        self._writer.close()


def _csv_fields(column: pa.Array) -> pa.Array:
    """Each value as Arrow's CSV writer writes it; null where it is null."""
    texts = column.cast(pa.large_string())
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return texts
    quote, nothing = (pa.scalar(text, pa.large_string()) for text in ('"', ""))
    return pc.binary_join_element_wise(quote, pc.replace_substring(texts, '"', '""'), quote, nothing)


def _without_dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


class _JsonFile(_OpenFile):
    """Writes one JSON object per row and line."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._stream.write(to_json_lines(batch))


class _TextFile(_OpenFile):
    """Writes one bare value per line."""

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        texts = pc.fill_null(batch.column(0).cast(pa.large_string()), "null")
        _write_lines(self._stream, texts)


def _write_lines(stream: Any, texts: pa.Array) -> None:
    lines = pa.LargeListArray.from_arrays([0, len(texts)], texts)
    stream.write(pc.binary_join(lines, pa.scalar("\n", pa.large_string()))[0].as_buffer())
    stream.write(b"\n")


_WRITERS: dict[str, type[_OpenFile]] = {
    "parquet": _ParquetFile,
    "csv": _CsvFile,
    "json": _JsonFile,
    "arrow": _ArrowFile,
    "text": _TextFile,
}

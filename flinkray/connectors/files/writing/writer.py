"""Writing the files of one subtask."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyarrow import fs

from flinkray.batches.batch import Batch
from flinkray.connectors.files.partitions import Partitions, by_partition
from flinkray.connectors.files.storage import storing
from flinkray.connectors.files.writing.buckets import BucketAssigner, BucketContext, by_bucket
from flinkray.connectors.files.writing.commits import AbandonedFiles, FileCommittable, FileNames, delete_file
from flinkray.connectors.files.writing.compaction import FileToCompact
from flinkray.connectors.files.writing.open_files import FileKind, OpenFile
from flinkray.connectors.files.writing.partition_commit import PartitionWritten, WriterProgress
from flinkray.connectors.sink import SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import TypeMismatchError, UnknownColumnError, operator_label
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
    "orc": "write parquet or arrow, or map it to another type first",
    "avro": "write parquet or arrow, or map it to another type first",
    "text": "map it to text first",
}


class Rolling(Struct, frozen=True):
    """When a file ends before the next checkpoint, as Flink's DefaultRollingPolicy says; None: not by this."""

    part_size: int | None
    rollover_ms: int | None
    inactivity_ms: int | None

    def ends_before(self, file: OpenFile, now_ms: int) -> bool:
        """Whether no rows that come now go into the file."""
        return (self.rollover_ms is not None and now_ms - file.opened_ms >= self.rollover_ms) or (
            self.inactivity_ms is not None and now_ms - file.written_ms >= self.inactivity_ms
        )


class Directories(Struct, frozen=True):
    """Which directory rows go to: by columns, which are not in the files then, as an assigner says, or all to one."""

    partitions: Partitions
    assigner: BucketAssigner | None = None

    @property
    def are_many(self) -> bool:
        return bool(self.partitions.columns) or self.assigner is not None


class FileWriter(SinkWriter):
    """Writes the hidden files of one subtask, and prepares them for their commit with each checkpoint.

    Args:
        compacts: whether files are put together before they are seen.
        reports: whether the committer is to know which partitions got files, and how far the writer is.
    """

    def __init__(
        self,
        system: fs.FileSystem,
        names: FileNames,
        kind: FileKind,
        directories: Directories,
        rolling: Rolling,
        context: SinkWriterContext,
        compacts: bool = False,
        reports: bool = False,
    ) -> None:
        self._filesystem = system
        self._names = names
        self._kind = kind
        self._directories = directories
        self._partitions = directories.partitions
        self._most_open = _MOST_OPEN_PARTITIONS if directories.are_many else _MOST_OPEN
        self._rolling = rolling
        self._context = context
        self._where = subtask_label(context)
        self._compacts = compacts
        self._reports = reports
        self._watermark = -(2**63)
        self._open: list[OpenFile] = []
        """The files that are being written, one per directory and schema; the one written to last comes last."""
        self._complete: list[OpenFile] = []
        self._abandoned = names.abandoned()
        self._has_ended = self._is_right_after_end = False
        self._checked: pa.Schema | None = None
        """The schema of the last file, which the format is known to hold."""

    def write(self, batch: Batch) -> None:
        if batch.kind is Kind.OBJECT:
            raise TypeMismatchError(
                f"{operator_label(self._context.operator_name)}: {self._kind.name} files have columns, and these rows "
                "are Python objects; map them to rows, tuples or numbers first"
            )
        now_ms = self._context.now_ms()
        with storing(f"{self._where}: a file cannot be written to {self._names.directory}"):
            for file in [file for file in self._open if self._rolling.ends_before(file, now_ms)]:
                self._finish(file)
            for directory, rows in self._by_directory(batch, now_ms):
                self._write(directory, rows, now_ms)

    def _by_directory(self, batch: Batch, now_ms: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._partitions.columns:
            self._check_partitions(batch.data)
            yield from by_partition(batch.data, self._partitions)
            return
        self._check_is_scalar(batch)
        assigner = self._directories.assigner
        if assigner is None:
            yield "", batch.data
        elif batch.num_rows:
            try:
                yield from by_bucket(batch.data, assigner.assign(batch, BucketContext(now_ms, self._watermark)))
            except (ValueError, pa.ArrowException) as error:
                raise TypeMismatchError(
                    f"{operator_label(self._context.operator_name)}: what {type(assigner).__name__} assigns names no "
                    f"directory, or not one for each row: {error}"
                ) from error

    def _check_is_scalar(self, batch: Batch) -> None:
        if self._kind.name == "text" and batch.kind is not Kind.SCALAR:
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
        if len(names) == len(columns) or (self._kind.name == "text" and len(names) != len(columns) + 1):
            wanted = "one column" if self._kind.name == "text" else "at least one column"
            raise TypeMismatchError(
                f"{where} leaves {len(names) - len(columns)} of the columns {names}, and {self._kind.name} files have "
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

    def write_watermark(self, timestamp: int) -> None:
        self._watermark = timestamp

    def flush(self, end_of_input: bool) -> None:
        self._is_right_after_end = end_of_input
        self._has_ended = self._has_ended or end_of_input  # the last checkpoint flushes once more

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        with storing(f"{self._where}: a file cannot be ended in {self._names.directory}"):
            while self._open:
                self._finish(self._open[0])
            for file in self._complete:
                if file.path != file.committable.hidden:
                    self._filesystem.move(file.path, file.committable.hidden)
        complete, self._complete = self._complete, []
        prepared: list[Any] = [self._prepared(file) for file in complete]
        # Right after the end of input the commit may be one without a checkpoint, and then of an attempt that was
        # given up and does not know it.
        if self._abandoned and not self._is_right_after_end:
            prepared.append(AbandonedFiles(self._abandoned))
            self._abandoned = ()
        if self._reports and checkpoint_id >= 0:
            created: dict[str, int] = {}
            for file in complete:
                created[file.partition] = min(file.opened_ms, created.get(file.partition, file.opened_ms))
            prepared.extend(PartitionWritten(partition, since) for partition, since in created.items())
            prepared.append(WriterProgress(self._watermark, self._context.now_ms(), self._has_ended))
        return prepared

    def _prepared(self, file: OpenFile) -> FileCommittable | FileToCompact:
        made = file.committable
        if not self._compacts:
            return made
        schema = hashlib.sha256(file.schema.serialize().to_pybytes()).hexdigest()[:16]
        return FileToCompact(made.hidden, made.final, file.nbytes, schema)

    def close(self) -> None:
        """Drops what has not been prepared: a restarted task writes it again."""
        for file in self._open:
            with contextlib.suppress(Exception):  # what is given up need not be whole
                file.abandon()
        for file in (*self._open, *self._complete):
            delete_file(self._filesystem, file.path)
            delete_file(self._filesystem, file.committable.hidden)

    def _file_for(self, partition: str, data: pa.RecordBatch, now_ms: int) -> OpenFile:
        for position, file in enumerate(self._open):
            if file.is_for(partition, data.schema):
                return self._open.pop(position)
        if len(self._open) == self._most_open:
            self._finish(self._open[0])
        file = self._new_file(partition, data)
        file.opened_ms = now_ms
        return file

    def _new_file(self, partition: str, data: pa.RecordBatch) -> OpenFile:
        if data.schema != self._checked:
            refusal = self._refusal(data.slice(0, 0))
            if refusal is not None:
                raise refusal
            self._checked = data.schema
        path, committable = self._names.next(partition)
        stream = self._filesystem.open_output_stream(path, compression=None)
        return self._kind.open(stream, data.schema, path, committable, partition)

    def _refusal(self, data: pa.RecordBatch) -> TypeMismatchError | None:
        """An error about the column that a file of this format cannot hold, found by writing each into memory; None: it
        can hold all."""
        if self._kind.message_format is not None:  # it has a schema of its own, and says what does not fit
            return None
        for field, column in zip(data.schema, data.columns, strict=True):
            alone = pa.record_batch([column], pa.schema([field]))
            try:
                file = self._kind.open(pa.BufferOutputStream(), alone.schema, "", FileCommittable("", ""))
                try:
                    file.write(alone)
                finally:
                    file.finish()
            except _REFUSALS as error:
                return TypeMismatchError(
                    f"{operator_label(self._context.operator_name)}: {self._kind.name} files cannot hold the column "
                    f"{field.name!r} of type {field.type}: {error}; {_WAYS_OUT[self._kind.name]}"
                )
        return None

    def _finish(self, file: OpenFile) -> None:
        file.finish()
        self._open.remove(file)
        self._complete.append(file)

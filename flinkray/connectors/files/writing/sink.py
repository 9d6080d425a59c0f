"""Files as a sink: what a user says of it."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyarrow import fs

from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.files.partitions import DEFAULT_PARTITION, Partitions, directory_of
from flinkray.connectors.files.paths import PathLike, resolve
from flinkray.connectors.files.storage import explained
from flinkray.connectors.files.writing.buckets import BucketAssigner
from flinkray.connectors.files.writing.commits import FileCommitter, FileNames
from flinkray.connectors.files.writing.compaction import FileCompaction
from flinkray.connectors.files.writing.global_commits import GlobalFileCommitter
from flinkray.connectors.files.writing.open_files import FileKind
from flinkray.connectors.files.writing.partition_commit import PartitionCommit
from flinkray.connectors.files.writing.writer import Directories, FileWriter, Rolling
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext, SupportsPreWriteTopology
from flinkray.errors import ConnectorError, InvalidProgramError, operator_label
from flinkray.time.durations import Duration, to_millis


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
            "json" (lines), "arrow" (IPC file; dictionaries as their values), "orc", "avro" (rows one by one, with
            `flinkray[avro]`) or "text" (bare values, one per line). FileSource(schema=...) reads the same columns back,
            but for NaN in CSV and JSON (null), and infinity in JSON (null). Columns that a format cannot hold are an
            error at the first batch. Or a MessageFormat, whose messages are lines: CsvFormat writes CSV without a
            header.
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
        bucket_assigner: says which directory rows go to, in place of columns; they stay in the files.
        partition_commit: when directories of `partition_by` are complete, and who is told.
        compaction: whether small files of a directory are put together before they are seen.
        overwrite: whether the files of this job replace those that are there, in each directory that gets any, when
            its input has ended; without partitions, in the whole directory, also where the job has no rows.
        compression: "none", "snappy", "gzip", "brotli", "lz4" or "zstd" of Parquet, "zlib" instead of "gzip" and
            "brotli" of ORC, "deflate", "bzip2" or "xz" of Avro, "lz4" or "zstd" of Arrow. None: Snappy, Zstandard,
            Deflate, none.

    With `partition_commit`, `compaction` or `overwrite` a single committer commits for all subtasks.
    """

    # Of the class, too: sinks that were stored before there was any of this have none.
    _partitions = Partitions((), DEFAULT_PARTITION)
    _rolling = Rolling(None, None, None)
    _bucket_assigner: BucketAssigner | None = None
    _partition_commit: PartitionCommit | None = None
    _compaction: FileCompaction | None = None
    _compression: str | None = None
    _overwrite = False
    _emptied: str | None = None
    """The directory that is overwritten also where no rows are for it."""

    def __init__(
        self,
        directory: PathLike,
        format: str | MessageFormat = "parquet",
        prefix: str = "part",
        filesystem: fs.FileSystem | None = None,
        suffix: str | None = None,
        partition_by: Sequence[str] = (),
        default_partition: str = DEFAULT_PARTITION,
        part_size: int | None = None,
        rollover_interval: Duration | None = None,
        inactivity_interval: Duration | None = None,
        bucket_assigner: BucketAssigner | None = None,
        partition_commit: PartitionCommit | None = None,
        compaction: FileCompaction | None = None,
        overwrite: bool = False,
        compression: str | None = None,
    ) -> None:
        kind = FileKind.of(format, compression)
        if not prefix or prefix.startswith((".", "_")) or "/" in prefix:
            raise InvalidProgramError(f"a file name cannot begin with {prefix!r}, which readers take for hidden")
        if suffix is not None and "/" in suffix:
            raise InvalidProgramError(f"a file name cannot end with {suffix!r}")
        self._filesystem, self._directory = resolve(directory, filesystem)
        self._format = format
        self._prefix = prefix
        self._suffix = f".{kind.name}" if suffix is None else suffix
        self._partitions = Partitions(tuple(partition_by), default_partition)
        if bucket_assigner is not None and partition_by:
            raise InvalidProgramError("rows go to directories by partition_by or by a bucket_assigner, not by both")
        if partition_commit is not None and not partition_by:
            raise InvalidProgramError("FileSink(partition_commit=...) is for directories of partition_by; name columns")
        self._bucket_assigner = bucket_assigner
        self._partition_commit = partition_commit
        if compaction is not None and compaction.delimiter and not kind.has_lines:
            raise InvalidProgramError(
                f"FileCompaction(delimiter=...) goes between lines, which {kind.name} files have none of; leave it out"
            )
        self._compaction = compaction
        self._overwrite = overwrite
        self._compression = compression
        if part_size is not None and part_size < 1:
            raise InvalidProgramError(f"FileSink(part_size=...) is at least 1 byte, got {part_size!r}")
        self._rolling = Rolling(
            part_size,
            None if rollover_interval is None else to_millis(rollover_interval, "rollover_interval"),
            None if inactivity_interval is None else to_millis(inactivity_interval, "inactivity_interval"),
        )
        self._submission = ""

    def overwriting(self, static: Mapping[str, str]) -> FileSink:
        """The sink with `overwrite`.

        Args:
            static: the values of columns that are the same in all rows: where all columns of `partition_by` are, that
                directory's files go also if there are no rows.
        """
        other = copy.copy(self)
        other._overwrite = True
        columns = self._partitions.columns
        if columns and set(columns) <= set(static):
            other._emptied = directory_of([(column, static[column]) for column in columns], self._partitions.default)
        return other

    def prepare(self) -> Sink:
        prepared = copy.copy(self)
        prepared._submission = uuid.uuid4().hex[:16]
        return prepared

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        where = operator_label(context.operator_name)
        try:
            self._filesystem.create_dir(self._directory, recursive=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidProgramError(
                f"{where}: {self._directory} cannot be a directory for files, since there is a file there, or above "
                f"it; name another directory ({error})"
            ) from error
        except OSError as error:
            raise ConnectorError(f"{where}: there can be no directory {self._directory}: {explained(error)}") from error
        names = FileNames(self._filesystem, self._directory, self._prefix, self._suffix, self._submission, context)
        return FileWriter(
            self._filesystem,
            names,
            FileKind.of(self._format, self._compression),
            Directories(self._partitions, self._bucket_assigner),
            self._rolling,
            context,
            compacts=self._compaction is not None,
            reports=self.commits_globally,
        )

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.EXACTLY_ONCE

    @property
    def commits_globally(self) -> bool:
        return self._overwrite or self._partition_commit is not None or self._compaction is not None

    def create_committer(self) -> Committer | None:
        # Also where it commits globally: for what a savepoint has from before it did.
        return FileCommitter(self._filesystem)

    def create_global_committer(self) -> Committer:
        return GlobalFileCommitter(
            self._filesystem,
            self._directory,
            FileKind.of(self._format, self._compression),
            self._partitions,
            self._compaction,
            self._partition_commit,
            self._submission,
            self._overwrite,
            self._emptied,
        )


class ShuffledFileSink(FileSink, SupportsPreWriteTopology):
    """One whose rows of a directory all come to one writer, so that there are fewer files, of more rows."""

    def add_pre_write_topology(self, rows: Any) -> Any:
        return rows.key_by(*self._partitions.columns)

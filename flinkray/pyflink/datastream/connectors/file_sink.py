"""PyFlink's FileSink: its builders, and what they take."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.batch import Batch
from flinkray.connectors.files.paths import PathLike
from flinkray.connectors.files.writing.buckets import strftime_of, time_zone
from flinkray.connectors.files.writing.compaction import FileCompaction
from flinkray.errors import InvalidProgramError, TypeMismatchError, operator_label
from flinkray.filesystems import absolute
from flinkray.pyflink.common.serialization import BulkWriterFactory, Encoder
from flinkray.pyflink.datastream.connectors.buckets import BucketedSink, Limits

_EVER = 2**62
"""As many checkpoints as there are."""


class RollingPolicy:
    """A rolling policy: when files end, beside the checkpoint that ends every file and makes it visible."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 * 1024 * 1024, rollover_interval: int = 60_000, inactivity_interval: int = 60_000
    ) -> DefaultRollingPolicy:
        """A file also ends when it is larger than `part_size` bytes, is `rollover_interval` ms old, or has got nothing
        for `inactivity_interval` ms."""
        for name, value in (
            ("part_size", part_size),
            ("rollover_interval", rollover_interval),
            ("inactivity_interval", inactivity_interval),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidProgramError(f"{name} of a rolling policy is a whole number of at least 1, got {value!r}")
        return DefaultRollingPolicy(Limits(part_size, rollover_interval, inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """A rolling policy by which only checkpoints end files."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """Made with `RollingPolicy.default_rolling_policy`."""

    limits: Limits


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """Made with `RollingPolicy.on_checkpoint_rolling_policy`."""


@dataclass(frozen=True)
class BucketAssigner:
    """Base of bucket assigners: which directory rows go to, by the time at which they are written."""

    bucket_at: Callable[[int], str]

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Puts all rows into the base path."""
        return BucketAssigner(_no_bucket)

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """One directory per hour, or whatever the format names.

        Args:
            format_str: of yyyy, MM, dd, HH, mm, ss and what is no letter; letters within single quotes are text.
            timezone_id: for example "Europe/Berlin"; None: that of the worker.
        """
        zone = None if timezone_id is None else time_zone(timezone_id, "bucket assigner")
        return BucketAssigner(partial(_date_time_bucket, strftime_of(format_str, "bucket assigner"), zone))


@dataclass(frozen=True)
class OutputFileConfig:
    """What the names of files begin and end with."""

    part_prefix: str = "part"
    part_suffix: str = ""

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        return self.part_prefix

    def get_part_suffix(self) -> str:
        return self.part_suffix

    class OutputFileConfigBuilder:
        def __init__(self) -> None:
            self.part_prefix = "part"
            self.part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self.part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self.part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            return OutputFileConfig(self.part_prefix, self.part_suffix)


@dataclass(frozen=True)
class FileCompactStrategy:
    """When files of a bucket are made one: with every so many checkpoints, or when they are large enough together."""

    checkpoints: int
    size_threshold: int

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        return FileCompactStrategy.Builder()

    class Builder:
        def __init__(self) -> None:
            self._checkpoints = self._size_threshold = -1

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Files wait for others of so many checkpoints."""
            if num_checkpoints_before_compaction < 1:
                raise InvalidProgramError(
                    f"before a compaction there is at least 1 checkpoint, got {num_checkpoints_before_compaction}"
                )
            self._checkpoints = num_checkpoints_before_compaction
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Files that have as many bytes together do not wait."""
            self._size_threshold = size_threshold
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Taken for PyFlink's programs: one thread compacts the files of a sink."""
            if num_compact_threads < 1:
                raise InvalidProgramError(f"there is at least 1 thread that compacts, got {num_compact_threads}")
            return self

        def build(self) -> FileCompactStrategy:
            if self._checkpoints < 0 and self._size_threshold < 0:
                raise InvalidProgramError(
                    "a FileCompactStrategy needs enable_compaction_on_checkpoint or set_size_threshold"
                )
            return FileCompactStrategy(self._checkpoints, self._size_threshold)

    @property
    def compaction(self) -> FileCompaction:
        """As flinkray's FileSink has it."""
        size = self.size_threshold if self.size_threshold > 0 else None
        return FileCompaction(size, self.checkpoints if self.checkpoints > 0 else _EVER)

    def compaction_by(self, compactor: FileCompactor) -> FileCompaction | None:
        """None: files are left as they are."""
        return replace(self.compaction, delimiter=compactor.delimiter) if compactor.merges else None


@dataclass(frozen=True)
class FileCompactor:
    """Makes one file of several."""

    merges: bool
    delimiter: bytes = b""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Puts the rows of files one behind the other, and the delimiter between the lines of two files, which end with
        a line break already."""
        return FileCompactor(True, file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Leaves files as they are."""
        return FileCompactor(False)


@dataclass
class _Builder:
    """What builders of both kinds of formats share."""

    _base_path: str
    _bucket_assigner: BucketAssigner = field(default_factory=BucketAssigner.date_time_bucket_assigner, init=False)
    _file_config: OutputFileConfig = field(default_factory=OutputFileConfig, init=False)
    _compaction: FileCompaction | None = field(default=None, init=False)

    def _sink(self, format: str, convert: Callable[[Batch, str], Batch], limits: Limits | None) -> BucketedSink:
        config = self._file_config
        sink = BucketedSink(
            self._base_path,
            format,
            convert,
            self._bucket_assigner.bucket_at,
            limits,
            config.part_prefix,
            config.part_suffix,
            self._compaction,
        )
        sink.files("")  # refuses wrong names here, where the program can still be mended
        return sink


class _RowFormatBuilder(_Builder):
    def __init__(self, base_path: str, encoder: Encoder) -> None:
        super().__init__(base_path)
        self._encoder = encoder
        self._rolling_policy: RollingPolicy = RollingPolicy.default_rolling_policy()

    def with_bucket_check_interval(self, interval: int) -> _RowFormatBuilder:
        """Taken for PyFlink's programs: a file that nothing is written to ends with the next checkpoint at the latest,
        and none is seen before that."""
        _check_interval(interval)
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> _RowFormatBuilder:
        self._bucket_assigner = bucket_assigner
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> _RowFormatBuilder:
        self._rolling_policy = rolling_policy
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> _RowFormatBuilder:
        self._file_config = output_file_config
        return self

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> _RowFormatBuilder:
        """Files are put together, as the strategy says, before they are seen."""
        self._compaction = strategy.compaction_by(compactor)
        return self

    def disable_compact(self) -> _RowFormatBuilder:
        self._compaction = None
        return self

    def build(self) -> BucketedSink:
        policy = self._rolling_policy
        limits = policy.limits if isinstance(policy, DefaultRollingPolicy) else None
        return self._sink("text", self._encoder.encode, limits)


class _BulkFormatBuilder(_Builder):
    def __init__(self, base_path: str, writer_factory: BulkWriterFactory) -> None:
        super().__init__(base_path)
        self._writer_factory = writer_factory

    def with_bucket_check_interval(self, interval: int) -> _BulkFormatBuilder:
        """As for row formats."""
        _check_interval(interval)
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> _BulkFormatBuilder:
        self._bucket_assigner = bucket_assigner
        return self

    def with_rolling_policy(self, rolling_policy: OnCheckpointRollingPolicy) -> _BulkFormatBuilder:
        """Files of bulk formats end with checkpoints, as in Flink.

        Raises:
            InvalidProgramError: another policy.
        """
        if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
            raise InvalidProgramError(
                f"files of a bulk format end with checkpoints only, not by {rolling_policy!r}; use "
                "RollingPolicy.on_checkpoint_rolling_policy()"
            )
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> _BulkFormatBuilder:
        self._file_config = output_file_config
        return self

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> _BulkFormatBuilder:
        """As for row formats.

        Raises:
            InvalidProgramError: of files of Avro, whose records would be made columns, and get another schema.
        """
        if compactor.merges and self._writer_factory.format == "avro":
            raise InvalidProgramError("files of Avro records are not put together; leave out enable_compact")
        self._compaction = strategy.compaction_by(compactor)
        return self

    def disable_compact(self) -> _BulkFormatBuilder:
        self._compaction = None
        return self

    def build(self) -> BucketedSink:
        factory = self._writer_factory
        convert = factory.records or (_as_it_is if factory.schema is None else partial(_converted, factory))
        return self._sink(factory.format, convert, None)


class FileSink:
    """Makes sinks; files become visible exactly once, with checkpoints and at the end of input."""

    RowFormatBuilder = _RowFormatBuilder
    BulkFormatBuilder = _BulkFormatBuilder

    @staticmethod
    def for_row_format(base_path: PathLike, encoder: Encoder) -> _RowFormatBuilder:
        """Lines of text."""
        if not isinstance(encoder, Encoder):
            raise InvalidProgramError(f"for_row_format takes Encoder.simple_string_encoder(), not {encoder!r}")
        return _RowFormatBuilder(absolute(str(base_path)), encoder)

    @staticmethod
    def for_bulk_format(base_path: PathLike, writer_factory: BulkWriterFactory) -> _BulkFormatBuilder:
        """Columns."""
        if not isinstance(writer_factory, BulkWriterFactory):
            raise InvalidProgramError(
                f"for_bulk_format takes a BulkWriterFactory such as ParquetBulkWriters.for_row_type(), not "
                f"{writer_factory!r}"
            )
        return _BulkFormatBuilder(absolute(str(base_path)), writer_factory)


def _check_interval(interval: int) -> None:
    if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
        raise InvalidProgramError(f"a bucket check interval is a whole number of at least 1 ms, got {interval!r}")


def _no_bucket(_now_ms: int) -> str:
    return ""


def _date_time_bucket(format: str, zone: datetime.tzinfo | None, now_ms: int) -> str:
    return datetime.datetime.fromtimestamp(now_ms / 1000, zone).strftime(format)


def _as_it_is(batch: Batch, _operator: str) -> Batch:
    return batch


def _converted(factory: BulkWriterFactory, batch: Batch, operator: str) -> Batch:
    assert factory.schema is not None
    cast = _cast(factory.schema, batch, operator)
    return cast if factory.lines is None else factory.lines(cast)


def _cast(schema: pa.Schema, batch: Batch, operator: str) -> Batch:
    """The batch with the columns of `schema`, in its order and types; decimals are rounded, as Flink rounds them."""
    try:
        columns = [_rounded(batch.data.column(field.name), field.type) for field in schema]
        return batch.with_data(pa.RecordBatch.from_arrays(columns, names=schema.names).cast(schema), batch.kind)
    except (pa.ArrowException, KeyError) as error:
        raise TypeMismatchError(
            f"{operator_label(operator)}: rows of {_columns(batch.data.schema)} do not fit the files' columns "
            f"{_columns(schema)}: {error}"
        ) from error


def _rounded(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals with no more digits after the point than `kind` has."""
    if not (pa.types.is_decimal(kind) and pa.types.is_decimal(column.type) and kind.scale < column.type.scale):
        return column
    return pc.round(column, kind.scale, "half_towards_infinity")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)

"""`pyflink.datastream.connectors.file_system`: files, by PyFlink's builders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from flinkray.connectors.files import source as file_source
from flinkray.connectors.files.paths import PathLike
from flinkray.connectors.sink import Sink
from flinkray.pyflink.common.serialization import BulkWriterFactory, Encoder
from flinkray.pyflink.datastream.connector_functions import StandsForSink
from flinkray.pyflink.datastream.connectors.buckets import BucketedSink
from flinkray.pyflink.datastream.connectors.file_sink import (
    BucketAssigner,
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flinkray.pyflink.datastream.connectors.stream_formats import BulkFormat, FileFormat, StreamFormat
from flinkray.pyflink.imported_names import imported
from flinkray.time.durations import Duration

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "BulkWriterFactory",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

__getattr__ = imported(__name__)


class FileEnumeratorProvider:
    """Taken for PyFlink's programs: how files are found and cut belongs to their format."""

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        return FileEnumeratorProvider()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        return FileEnumeratorProvider()


class FileSplitAssignerProvider:
    """Taken for PyFlink's programs: splits go to whichever reader asks."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        return FileSplitAssignerProvider()


class _StreamingBuilder:
    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def with_bucket_check_interval(self, interval: int) -> Self:
        """As of FileSink, and so are the others."""
        self._builder.with_bucket_check_interval(interval)
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        self._builder.with_bucket_assigner(bucket_assigner)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        self._builder.with_output_file_config(output_file_config)
        return self

    def with_rolling_policy(self, policy: RollingPolicy) -> Self:
        self._builder.with_rolling_policy(policy)
        return self

    def build(self) -> StreamingFileSink:
        return StreamingFileSink(self._builder.build())


@dataclass(frozen=True)
class StreamingFileSink(StandsForSink):
    """For `add_sink`: what FileSink makes, under its name of Flink 1."""

    sink: BucketedSink

    DefaultRowFormatBuilder = DefaultBulkFormatBuilder = _StreamingBuilder

    @staticmethod
    def for_row_format(base_path: PathLike, encoder: Encoder) -> _StreamingBuilder:
        """Lines of text."""
        return _StreamingBuilder(FileSink.for_row_format(base_path, encoder))

    @staticmethod
    def for_bulk_format(base_path: PathLike, writer_factory: BulkWriterFactory) -> _StreamingBuilder:
        """Columns."""
        return _StreamingBuilder(FileSink.for_bulk_format(base_path, writer_factory))

    def to_sink(self) -> Sink:
        return self.sink


class FileSource:
    """Makes `flinkray.FileSource`s."""

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: PathLike) -> FileSourceBuilder:
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: PathLike) -> FileSourceBuilder:
        return FileSourceBuilder(bulk_format, paths)


class FileSourceBuilder:
    def __init__(self, format: FileFormat, paths: tuple[PathLike, ...]) -> None:
        self._format = format
        self._paths = paths
        self._monitor: Duration | None = None

    def process_static_file_set(self) -> FileSourceBuilder:
        """The files that are there when the program starts, and no others."""
        self._monitor = None
        return self

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """New files are looked for after each interval, for ever."""
        self._monitor = discovery_interval
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        return self

    def build(self) -> file_source.FileSource:
        format = self._format
        if format.source is not None:
            return format.source(self._paths, self._monitor)
        return file_source.FileSource(self._paths, format.name, format.schema, monitor=self._monitor)

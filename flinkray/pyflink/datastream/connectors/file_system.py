"""`pyflink.datastream.connectors.file_system`: files, by PyFlink's builders."""

from __future__ import annotations

from flinkray.connectors.files import source as file_source
from flinkray.connectors.files.paths import PathLike
from flinkray.pyflink.common.serialization import BulkWriterFactory
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
from flinkray.pyflink.unavailable import unavailable
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
]

__getattr__ = unavailable(__name__, "StreamingFileSink", "FileSink is the sink for files")


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

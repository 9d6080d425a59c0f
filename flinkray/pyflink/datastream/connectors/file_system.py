"""`pyflink.datastream.connectors.file_system`: files, by PyFlink's builders."""

from __future__ import annotations

from flinkray.connectors import file_source
from flinkray.connectors.file_paths import PathLike
from flinkray.pyflink.datastream.connectors.file_sink import (
    BucketAssigner,
    BulkWriterFactory,
    DefaultRollingPolicy,
    FileSink,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)

__all__ = [
    "BucketAssigner",
    "BulkWriterFactory",
    "DefaultRollingPolicy",
    "FileSink",
    "FileSource",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]


class StreamFormat:
    """How the bytes of a file become values."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Lines of UTF-8 text."""
        if charset_name.upper().replace("_", "-") not in ("UTF-8", "UTF8"):
            raise ValueError(f"text is read as UTF-8, not {charset_name}")
        return StreamFormat("text")


class FileSource:
    """Makes `flinkray.FileSource`s."""

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: PathLike) -> _FileSourceBuilder:
        return _FileSourceBuilder(stream_format, paths)


class _FileSourceBuilder:
    def __init__(self, stream_format: StreamFormat, paths: tuple[PathLike, ...]) -> None:
        self._format = stream_format.name
        self._paths = paths

    def process_static_file_set(self) -> _FileSourceBuilder:
        """The files that are there when the program starts, which is what this source reads anyway."""
        return self

    def build(self) -> file_source.FileSource:
        return file_source.FileSource(self._paths, self._format)

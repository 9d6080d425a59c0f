"""How the bytes of files become values: what FileSource's builders take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flinkray.connectors.files.paths import PathLike
from flinkray.connectors.files.source import FileSource
from flinkray.time.durations import Duration


@dataclass(frozen=True)
class FileFormat:
    """A format of `flinkray.FileSource`, with its settings."""

    name: str
    schema: pa.Schema | None = None
    source: Callable[[Sequence[PathLike], Duration | None], FileSource] | None = None
    """Makes the source of paths, which are looked at again after each interval, if any; None: a FileSource of that name
    and these columns."""


class StreamFormat(FileFormat):
    """Made with `StreamFormat.text_line_format()`, or `CsvReaderFormat.for_schema(schema)`."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Lines of text, in a charset in which a line break is the byte 10."""
        return StreamFormat(
            "text", source=lambda paths, every: FileSource(paths, "text", monitor=every, charset=charset_name)
        )


class BulkFormat(FileFormat):
    """A columnar format, such as ParquetColumnarRowInputFormat."""

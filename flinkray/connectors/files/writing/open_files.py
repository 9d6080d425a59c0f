"""Files that are being written, one class per format."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from msgspec import Struct, structs
from pyarrow import orc

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.sizes import data_bytes
from flinkray.batches.value_columns import to_values
from flinkray.connectors.files.row_groups import DICTIONARY_BYTES, RowGroups
from flinkray.connectors.files.writing.commits import FileCommittable
from flinkray.connectors.formats.avro_types import ENCODED_BY, avro_schema
from flinkray.connectors.formats.csv import CsvFormat
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.json_lines import to_json_lines
from flinkray.connectors.formats.message_format import MessageFormat, shown
from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.extras import import_package
from flinkray.types.arrow_types import is_text
from flinkray.types.nested import with_items


class OpenFile(ABC):
    """A file that is being written.

    Args:
        codec: what the format's library calls the compression; None: the usual one.
    """

    def __init__(
        self,
        stream: pa.NativeFile,
        schema: pa.Schema,
        path: str,
        committable: FileCommittable,
        partition: str = "",
        codec: str | None = None,
    ) -> None:
        self.partition = partition
        self.codec = codec
        self.opened_ms = self.written_ms = 0
        """When its first and its last rows came."""
        self.nbytes = 0
        """Its size once it is finished."""
        self.path = path
        self.committable = committable
        self.schema = schema
        self._stream = stream
        self._start()

    def _start(self) -> None:
        """Makes what `write` needs."""

    def is_for(self, partition: str, schema: pa.Schema) -> bool:
        """Whether rows of that directory and with these columns go into it."""
        return self.partition == partition and self.schema.equals(schema)

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None: ...

    def size(self) -> int:
        """Its bytes so far."""
        return int(self._stream.tell())

    def _end(self) -> None:
        """Writes what is buffered, and the file's end."""

    def finish(self) -> None:
        self._end()
        self.nbytes = int(self._stream.tell())
        self._stream.close()

    def abandon(self) -> None:
        self._stream.close()


class _ParquetFile(OpenFile):
    """Writes row groups of many batches."""

    def _start(self) -> None:
        self._writer = pq.ParquetWriter(
            self._stream, self.schema, compression=self.codec or "SNAPPY", dictionary_pagesize_limit=DICTIONARY_BYTES
        )
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


class _ArrowFile(OpenFile):
    """Writes the values of dictionaries: a file holds one dictionary per column, and each batch may have its own."""

    def _start(self) -> None:
        fields = [field.with_type(_without_dictionaries(field.type)) for field in self.schema]
        self._written = pa.schema(fields, self.schema.metadata)
        options = pa.ipc.IpcWriteOptions(compression=self.codec)
        self._writer = pa.ipc.new_file(self._stream, self._written, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch if self._written.equals(self.schema) else batch.cast(self._written))

    def _end(self) -> None:
        self._writer.close()


class _WatchedStream:
    """Takes what a writer of ORC writes, and keeps what goes wrong: an error that came up within the writer would end
    the process."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._error: Exception | None = None
        self._position = 0

    def write(self, data: bytes) -> None:
        self._position += len(data)
        if self._error is None:
            try:
                self._stream.write(data)
            except Exception as error:
                self._error = error

    def tell(self) -> int:
        return self._position

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def check(self) -> None:
        """Raises what has gone wrong."""
        if self._error is not None:
            raise self._error

    def drop(self) -> None:
        """Takes everything from now on, and writes nothing."""
        self._error = self._error or OSError("the file is given up")


class _OrcFile(OpenFile):
    """Writes stripes of many batches, each when its rows take some tens of megabytes."""

    def _start(self) -> None:
        fields = [field.with_type(_without_dictionaries(field.type)) for field in self.schema]
        self._written = pa.schema(fields)
        self._watched = _WatchedStream(self._stream)
        self._writer = orc.ORCWriter(pa.PythonFile(self._watched, "w"), compression=self.codec or "zstd")
        self._waiting_bytes = 0
        """What the rows of the stripe that is not written yet take in memory."""

    def write(self, batch: pa.RecordBatch) -> None:
        before = self._watched.tell()
        rows = batch.cast(self._written)
        if any(pa.types.is_nested(field.type) for field in self._written):
            # Of a slice, Arrow's writer takes fields of rows from where their buffers begin.
            rows = rows.take(from_numpy(np.arange(rows.num_rows)))
        self._writer.write(pa.Table.from_batches([rows]))
        self._watched.check()
        self._waiting_bytes = self._waiting_bytes + data_bytes(batch) if self._watched.tell() == before else 0

    def size(self) -> int:
        return super().size() + self._waiting_bytes

    def _end(self) -> None:
        self._writer.close()
        self._watched.check()

    def abandon(self) -> None:
        self._watched.drop()  # the writer writes its end when it goes
        super().abandon()


@dataclass(frozen=True)
class _AvroBlock:
    """What fastavro writes as one block."""

    num_records: int
    bytes_: io.BytesIO


class _AvroFile(OpenFile):
    """Writes blocks of records: of columns, or such as are encoded already."""

    def _start(self) -> None:
        package = import_package("fastavro", "writing Avro files")
        given = (self.schema.metadata or {}).get(ENCODED_BY)
        self._is_encoded = given is not None
        schema = avro_schema(self.schema) if given is None else json.loads(given)
        self._writer = package.write.Writer(self._stream, schema, self.codec or "deflate")

    def write(self, batch: pa.RecordBatch) -> None:
        if self._is_encoded:
            if records := batch.column(0).to_pylist():
                self._writer.write_block(_AvroBlock(len(records), io.BytesIO(b"".join(records))))
            return
        names = batch.schema.names
        for values in zip(*map(to_values, batch.columns), strict=True):
            self._writer.write(dict(zip(names, values, strict=True)))

    def _end(self) -> None:
        self._writer.flush()


def _without_dictionaries(arrow_type: pa.DataType) -> pa.DataType:
    plain = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    return with_items(plain, _without_dictionaries)


class _CsvFile(OpenFile):
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
    if not is_text(column.type):
        return texts
    quote, nothing = (pa.scalar(text, pa.large_string()) for text in ('"', ""))
    return pc.binary_join_element_wise(quote, pc.replace_substring(texts, '"', '""'), quote, nothing)


def _without_dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


class _JsonFile(OpenFile):
    """Writes one JSON object per row and line."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._stream.write(to_json_lines(batch))


class _TextFile(OpenFile):
    """Writes one bare value per line."""

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        texts = pc.fill_null(batch.column(0).cast(pa.large_string()), "null")
        _write_lines(self._stream, texts)


def _write_lines(stream: Any, texts: pa.Array) -> None:
    lines = pa.LargeListArray.from_arrays([0, len(texts)], texts)
    stream.write(pc.binary_join(lines, pa.scalar(b"\n").cast(texts.type))[0].as_buffer())
    stream.write(b"\n")


class _MessagesFile(OpenFile):
    """Writes the messages of a format, each a line."""

    def __init__(self, message_format: MessageFormat, *arguments: Any) -> None:
        self._format = message_format
        super().__init__(*arguments)

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            messages = self._format.encode(batch)
            self._check(messages)
            _write_lines(self._stream, messages)

    def _check(self, messages: pa.Array) -> None:
        """Raises ValueError where a message has a line break, and would be lines that are read as other messages."""
        if isinstance(self._format, CsvFormat) and self._format.quote is not None:
            return
        has_break = pc.match_substring(messages, "\n")
        if pc.any(has_break).as_py():
            message = messages.filter(has_break)[0].as_py()
            raise ValueError(f"a message has a line break in it, and is to be a line of a file: {shown(message)}")


WRITERS: dict[str, type[OpenFile]] = {
    "parquet": _ParquetFile,
    "csv": _CsvFile,
    "json": _JsonFile,
    "arrow": _ArrowFile,
    "orc": _OrcFile,
    "avro": _AvroFile,
    "text": _TextFile,
}
_CONTAINERS = ("parquet", "arrow", "orc", "avro")
"""Formats whose files cannot be put together as they are."""
_CODECS: dict[str, dict[str, str | None]] = {
    "parquet": {
        "none": "NONE", "snappy": "SNAPPY", "gzip": "GZIP", "brotli": "BROTLI", "lz4": "LZ4", "zstd": "ZSTD"
    },
    "orc": {"none": "uncompressed", "snappy": "snappy", "zlib": "zlib", "lz4": "lz4", "zstd": "zstd"},
    "avro": {"none": "null", "deflate": "deflate", "bzip2": "bzip2", "xz": "xz"},
    "arrow": {"none": None, "lz4": "lz4", "zstd": "zstd"},
}  # fmt: skip
"""What a format can be compressed by, as users and as its library call it."""
_NAMES: dict[type[MessageFormat], str] = {CsvFormat: "csv", JsonFormat: "json"}


class FileKind(Struct, frozen=True):
    """What files hold: a format of files, or the messages of a format in lines."""

    name: str
    """Of the format, for messages and names of files."""
    message_format: MessageFormat | None = None
    compression: str | None = None
    """As users call it; None: the usual one."""

    @staticmethod
    def of(format: str | MessageFormat, compression: str | None = None) -> FileKind:
        """Of what a user named.

        Raises:
            InvalidProgramError: there is no such format, or it has no such compression.
        """
        kind = FileKind._of(format)
        if compression is None:
            return kind
        codecs = {} if kind.message_format is not None else _CODECS.get(kind.name, {})
        if compression not in codecs:
            known = f"there are {', '.join(codecs)}" if codecs else f"there is none for {kind.name}"
            raise InvalidProgramError(
                f"no compression {compression!r} of files{did_you_mean(compression, codecs)}; {known}"
            )
        return structs.replace(kind, compression=compression)

    @staticmethod
    def _of(format: str | MessageFormat) -> FileKind:
        if isinstance(format, MessageFormat):
            return FileKind(_NAMES.get(type(format), type(format).__name__), format)
        if format not in WRITERS:
            raise InvalidProgramError(
                f"no file format {format!r}{did_you_mean(format, WRITERS)}; there are {', '.join(WRITERS)}"
            )
        return FileKind(format)

    @property
    def has_header(self) -> bool:
        """Whether a file begins with a line that is no row."""
        return self.name == "csv" and self.message_format is None

    @property
    def has_lines(self) -> bool:
        """Whether rows are lines, so that files can be put together as they are, but for a header."""
        return self.message_format is not None or self.name not in _CONTAINERS

    def open(
        self, stream: pa.NativeFile, schema: pa.Schema, path: str, committable: FileCommittable, partition: str = ""
    ) -> OpenFile:
        """Begins a file in the stream."""
        if self.message_format is not None:
            return _MessagesFile(self.message_format, stream, schema, path, committable, partition)
        codec = None if self.compression is None else _CODECS[self.name][self.compression]
        return WRITERS[self.name](stream, schema, path, committable, partition, codec)

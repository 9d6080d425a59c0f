"""Reading the file formats: how a file is cut into splits, and a split into batches."""

from __future__ import annotations

import csv
import io
import lzma
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow import fs

from flinkray.connectors.files.inferred_types import filled, has_unknown
from flinkray.connectors.files.partial_rows import columns_to_read, with_nulls
from flinkray.connectors.formats.csv import check_decimals
from flinkray.connectors.formats.json_lines import from_json_lines, infer_json_schema
from flinkray.connectors.formats.json_values import array_elements
from flinkray.connectors.formats.message_format import shown
from flinkray.connectors.formats.nested_columns import is_uuid
from flinkray.errors import InvalidProgramError
from flinkray.types.nested import contains
from flinkray.types.records import SCALAR_COLUMN, Kind

_RANGE_BYTES = 64 << 20
"""Lines are read in ranges of this many bytes, each a split of its own."""
_READ_BYTES = 1 << 20
_INFERENCE_BYTES = 8 << 20
"""So many bytes of a file are searched for a value of each column."""
_LONGEST_CSV_ROW = 1 << 30
"""The largest block of Arrow's CSV reader in bytes: a row must fit into a block."""
SPLIT_BYTES = 1 << 20
"""Row groups and batches that are smaller go into a split together."""
COMPRESSED = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".lz4": "lz4",
    ".br": "brotli",
    ".xz": "xz",
    ".deflate": "deflate",
}
"""Codecs by what names of files end with."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
TEXT_SCHEMA = pa.schema([(SCALAR_COLUMN, pa.string())])


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A part of a file. `start` and `stop` count what the format cuts it into: row groups, batches, or bytes."""

    split_id: str
    path: str
    filesystem: fs.FileSystem = field(repr=False)
    start: int = 0
    stop: int | None = None
    """Excluded; None: the end of the file."""
    row: int = 0
    """The number of rows of the split that have been read."""


class FileFormat(ABC):
    """A file format: how a file is cut into splits, and how a split is read. It has no state."""

    kind = Kind.ROW
    charset: str | None = None
    """What text is read as, where the format is one of text; None: UTF-8."""
    shows_types = False
    """Whether a file says the types of its columns; otherwise they are inferred from values."""

    @abstractmethod
    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema | None:
        """The columns of a file (for text formats: as far as its beginning shows); None: it is empty.

        A column has type null where no value shows its type.
        """

    @abstractmethod
    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        """The (start, stop) of each split of a file of `size` bytes, in the units of `FileSplit`."""

    @abstractmethod
    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        """The split's rows with those columns of `schema` that the file has, or with another one where it has none,
        each batch with the split as it is after it. May block.

        Raises:
            ValueError: the file has several columns of one of these names.
        """

    def place(self, split: FileSplit) -> str:
        """Where reading stands, for errors that name the file; nothing at its beginning."""
        return f" behind {split.row:,} rows" if split.row else ""


def projected(
    found: Sequence[str],
    schema: pa.Schema,
    fields: frozenset[str] | None,
    read: Callable[[list[str]], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """The batches of a file that reads chosen columns.

    Args:
        found: the columns of the file.
        fields: what is read, as in `columns_to_read`; the rest is null. None: all.
        read: the batches of columns, by their paths.
    Raises:
        ValueError: the file has several columns of one of the names.
    """
    names = present(found, schema)
    if fields is None:
        return read(names)
    return (with_nulls(batch, schema, names) for batch in read(columns_to_read(names, fields)))


class ParquetFiles(FileFormat):
    """Parquet files: a split is a range of row groups.

    Args:
        fields: what is read, as in `columns_to_read`; the rest is null. None: all.
    """

    shows_types = True

    def __init__(self, fields: frozenset[str] | None = None) -> None:
        self._fields = fields

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema:
        with system.open_input_file(path) as file:
            return _parquet_file(file).schema_arrow

    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        with system.open_input_file(path) as file:
            footer = pq.ParquetFile(file).metadata
            sizes = [footer.row_group(group).total_byte_size for group in range(footer.num_row_groups)]
        # Each split reads the whole footer, which is larger than the rows where the groups are small.
        return ranges(sizes, max(SPLIT_BYTES, footer.serialized_size))

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        with split.filesystem.open_input_file(split.path) as file:
            parquet = _parquet_file(file, schema)
            groups = range(split.start, parquet.num_row_groups if split.stop is None else split.stop)
            batches = projected(
                parquet.schema_arrow.names,
                schema,
                self._fields,
                lambda paths: parquet.iter_batches(batch_rows, groups, paths, use_threads=False),
            )
            yield from from_row(batches, split, batch_rows)


def _parquet_file(file: pa.NativeFile, schema: pa.Schema | None = None) -> pq.ParquetFile:
    """A file whose times in 96 bits, which have no unit, are read in microseconds unless the schema has nanoseconds: in
    those Arrow takes a time before 1677 or after 2262 for another one, without a word."""
    has_nanos = schema is not None and any(contains(field.type, _is_in_nanos) for field in schema)
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="ns" if has_nanos else "us")


def _is_in_nanos(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


class ArrowFiles(FileFormat):
    """Arrow IPC files (Feather): a split is a range of record batches."""

    shows_types = True

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema:
        with system.open_input_file(path) as file:
            return pa.ipc.open_file(file).schema

    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        with system.open_input_file(path) as file:
            count = pa.ipc.open_file(file).num_record_batches
        return ranges([size // max(count, 1)] * count, SPLIT_BYTES)  # it does not say more without being read

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        with split.filesystem.open_input_file(split.path) as file:
            reader = pa.ipc.open_file(file)
            stop = reader.num_record_batches if split.stop is None else split.stop
            names = present(reader.schema.names, schema)
            batches = (reader.get_batch(index).select(names) for index in range(split.start, stop))
            yield from from_row(batches, split, batch_rows)


# As pandas reads them: what is quoted is text, and an empty field or one such as NA is null where it is not.
_NULLS = {"strings_can_be_null": True, "quoted_strings_can_be_null": False}


class CsvFiles(FileFormat):
    """Text with a line of column names. One split per file, since a quoted value may hold a line break."""

    def __init__(self, delimiter: str = ",") -> None:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '\r\n\0"':
            raise InvalidProgramError(
                f"FileSource(delimiter=...) is one ASCII character, and no quote or line break, not {delimiter!r}"
            )
        self._delimiter = delimiter
        self._parse = pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema | None:
        options = pa_csv.ConvertOptions(**_NULLS)
        for block_bytes in _csv_blocks():
            try:
                reader = self._open(system, path, options, block_bytes)
            except pa.ArrowInvalid as error:
                if _is_row_longer_than_block(error, block_bytes):
                    continue
                raise
            if reader is None:
                return None
            if block_bytes >= _INFERENCE_BYTES or not has_unknown(reader.schema):
                return reader.schema
        return None

    def _open(
        self, system: fs.FileSystem, path: str, options: pa_csv.ConvertOptions, block_bytes: int
    ) -> pa_csv.CSVStreamingReader | None:
        """A reader of the file; None: the file is empty, which only reading shows where it is compressed.

        Nobody closes the file: a thread of Arrow's reads ahead, and might take what belongs to the file that is opened
        next, under the same descriptor. It is closed when neither the thread nor the reader has it any more.
        """
        blocks, stream = self._read_options(block_bytes), self._stream(system, path)
        try:
            return pa_csv.open_csv(stream, read_options=blocks, parse_options=self._parse, convert_options=options)
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return None
            raise

    def _read_options(self, block_bytes: int) -> pa_csv.ReadOptions:
        return pa_csv.ReadOptions(block_size=block_bytes)

    def _stream(self, system: fs.FileSystem, path: str) -> pa.NativeFile:
        stream = open_stream(system, path)
        return stream if self.charset is None else pa.transcoding_input_stream(stream, self.charset, "utf-8")

    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        return [(0, None)] if size else []

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        names = present(self._header(split.filesystem, split.path), schema)
        read_as = pa.schema([field.with_type(_csv_type(field.type)) for field in schema])
        options = pa_csv.ConvertOptions(column_types=read_as, include_columns=names, **_NULLS)

        def opened(block_bytes: int) -> Iterator[pa.RecordBatch]:
            return iter(self._open(split.filesystem, split.path, options, block_bytes) or ())

        yield from read_by_blocks(opened, split, batch_rows)

    def _header(self, system: fs.FileSystem, path: str) -> list[str]:
        """The names of all columns, which Arrow's reader does not tell when it is to read some of them."""
        with self._stream(system, path) as stream:
            lines = io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="")
            return next(filter(None, csv.reader(lines, delimiter=self._delimiter)), [])


def read_by_blocks(
    opened: Callable[[int], Iterator[pa.RecordBatch]], split: FileSplit, batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
    """The rows of a CSV file, read with larger blocks where a row is longer than those before.

    Args:
        opened: the batches of the whole file, given how many bytes a block has.
    """
    for block_bytes in _csv_blocks():
        try:
            for batch, after in from_row(opened(block_bytes), split, batch_rows):
                check_decimals(batch)
                split = after
                yield batch, after
            return
        except pa.ArrowInvalid as error:
            if not _is_row_longer_than_block(error, block_bytes):
                raise


def _csv_blocks() -> Iterator[int]:
    """Sizes of blocks to read with, larger ones for where one before is too small."""
    block_bytes = _READ_BYTES
    while block_bytes < _LONGEST_CSV_ROW:
        yield block_bytes
        block_bytes *= 8
    yield _LONGEST_CSV_ROW


def _is_row_longer_than_block(error: pa.ArrowInvalid, block_bytes: int) -> bool:
    """Whether reading failed because a row is longer than the block, and a larger block is possible."""
    return "straddles two block boundaries" in str(error) and block_bytes < _LONGEST_CSV_ROW


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """The type with which Arrow's CSV reader reads values of `kind`, some of which it does not know itself."""
    if is_uuid(kind):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return _csv_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _csv_type(kind.value_type)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_duration(kind):
        return pa.int64()
    return pa.string() if pa.types.is_decimal256(kind) else kind


class LineFiles(FileFormat):
    """Formats of one row per line: a split is a range of bytes, and has the lines that begin in it."""

    def place(self, split: FileSplit) -> str:
        return f" from byte {split.start:,} on" if split.start else ""

    @abstractmethod
    def parse(self, lines: Any, schema: pa.Schema) -> pa.RecordBatch:
        """Whole lines, the last of which may lack its line break, as rows."""

    def splits(self, system: fs.FileSystem, path: str, size: int) -> list[tuple[int, int | None]]:
        if _compression(path):
            return [(0, None)]
        return [(start, min(start + _RANGE_BYTES, size)) for start in range(0, size, _RANGE_BYTES)]

    def blocks(self, split: FileSplit) -> Iterator[tuple[Any, int]]:
        """Blocks of whole rows that begin in the split's range of bytes, as `parse` takes them; the byte after each."""
        return ((self.recoded(lines), after) for lines, after in line_blocks(split, self.is_utf_8))

    @property
    def is_utf_8(self) -> bool:
        """Whether what is no UTF-8 cannot be read."""
        return self.charset is None

    def recoded(self, lines: bytes) -> bytes:
        """Lines of the file in UTF-8."""
        return lines if self.charset is None else lines.decode(self.charset).encode()

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        skip = split.row
        for lines, after in self.blocks(split):
            batch = self.parse(lines, schema)
            following = replace(split, start=after, row=0)
            for offset in range(min(skip, batch.num_rows), batch.num_rows, batch_rows):
                rows = batch.slice(offset, batch_rows)
                done = offset + rows.num_rows
                # `start` is the byte where the block begins, until all of its rows are read.
                yield rows, replace(split, row=done) if done < batch.num_rows else following
            skip = max(0, skip - batch.num_rows)
            split = following


class JsonFiles(LineFiles):
    """Files of one JSON object per line, or an array of some."""

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema | None:
        schema: pa.Schema | None = None
        for lines, after in self.blocks(FileSplit("", path, system)):
            if lines.strip():
                found = _with_arrays(lines, infer_json_schema)
                if found is None:
                    continue
                schema = found if schema is None else filled(schema, found)
                if after >= _INFERENCE_BYTES or not has_unknown(schema):
                    break
        return schema

    def parse(self, lines: bytes, schema: pa.Schema) -> pa.RecordBatch:
        rows = _with_arrays(lines, lambda objects: from_json_lines(objects, schema)) if lines.strip() else None
        return pa.RecordBatch.from_pylist([], schema=schema) if rows is None else rows


_T = TypeVar("_T")


def _with_arrays(lines: bytes, read: Callable[[bytes], _T]) -> _T | None:
    """What `read` makes of lines of JSON, or of the elements of arrays where some are such; None: those have none."""
    try:
        return read(lines)
    except ValueError as error:
        if not lines.startswith(b"[") and b"\n[" not in lines:
            raise
        refused = error
    objects: list[bytes] = []
    for line in lines.split(b"\n"):
        try:
            objects += array_elements(line, of_objects=False) if line.startswith(b"[") else [line]
        except ValueError as error:
            if not lines.lstrip().startswith(b"["):  # it is in an object that goes on in the next line
                raise refused from None
            raise of_open_array(line, error) from error
    text = b"\n".join(objects)
    return read(text) if text.strip() else None


def of_open_array(line: bytes, error: ValueError) -> ValueError:
    """The error of a line that begins with a bracket and cannot be read."""
    return ValueError(f"an array is on one line, and this one is not: {shown(line)} ({error})")


class TextFiles(LineFiles):
    """Lines of UTF-8 text, without their line breaks (\\n or \\r\\n), as bare strings."""

    kind = Kind.SCALAR

    def schema(self, system: fs.FileSystem, path: str) -> pa.Schema:
        return TEXT_SCHEMA

    def parse(self, lines: bytes, schema: pa.Schema) -> pa.RecordBatch:
        try:
            text = pa.array([lines.removesuffix(b"\n")], pa.large_binary()).cast(pa.large_string())
        except pa.ArrowInvalid as error:
            raise UnicodeError("text is read as UTF-8, and this is none; set charset=, or convert it first") from error
        values = pc.list_flatten(pc.split_pattern(text, "\n"))
        if b"\r" in lines:
            values = pc.replace_substring_regex(values, "\r$", "")
        return pa.RecordBatch.from_arrays([values.cast(pa.string())], schema=TEXT_SCHEMA)


def open_stream(system: fs.FileSystem, path: str) -> pa.NativeFile:
    """The file's bytes, decompressed as its name says."""
    codec = _compression(path)
    if codec in ("xz", "deflate"):  # which Arrow does not know
        stream = system.open_input_stream(path, compression=None)
        return pa.PythonFile(lzma.open(stream) if codec == "xz" else Inflated(stream), mode="r")
    return system.open_input_stream(path, compression=codec)


class Inflated(io.RawIOBase):
    """What streams of zlib that lie one behind the other hold, as Hadoop and Spark write files of `.deflate`."""

    def __init__(self, stream: pa.NativeFile) -> None:
        super().__init__()
        self._stream = stream
        self._member: zlib._Decompress | None = None
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while True:
            self._rest = self._rest or self._stream.read(_READ_BYTES)
            if not self._rest and self._member is None:
                return 0
            self._member = self._member or zlib.decompressobj()
            try:
                found = self._member.decompress(self._rest, len(into))
            except zlib.error as error:
                raise OSError(f"what is compressed cannot be read: {error}") from error
            if not self._rest and not found and not self._member.eof:
                raise OSError("what is compressed ends too early")
            self._rest = self._member.unconsumed_tail or self._member.unused_data
            if self._member.eof:
                self._member = None
            if found:
                into[: len(found)] = found
                return len(found)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _compression(path: str) -> str | None:
    name = path.lower()
    return next((codec for suffix, codec in COMPRESSED.items() if name.endswith(suffix)), None)


def refuse_ambiguous(names: Sequence[str], wanted: Iterable[str]) -> None:
    """Checks that each column that is wanted is there once.

    Raises:
        ValueError: several columns have one of the names that are wanted.
    """
    counts = Counter(names)
    for name in wanted:
        if counts[name] > 1:
            raise ValueError(f"several columns are called {name!r}; rename all but one of them, or read only others")


def present(names: Sequence[str], schema: pa.Schema) -> list[str]:
    """Which of a file's columns are read for `schema`: one that it has not where it has no other, since rows count."""
    refuse_ambiguous(names, schema.names)
    return [name for name in schema.names if name in names] or list(names[:1])


def ranges(sizes: Sequence[int], enough: int) -> list[tuple[int, int | None]]:
    """The (start, stop) of ranges of neighbouring parts that have `enough` bytes together.

    Args:
        sizes: bytes of each part, such as a row group.
    """
    ranges: list[tuple[int, int | None]] = []
    start = size = 0
    for stop, each in enumerate(sizes, 1):
        size += each
        if size >= enough or stop == len(sizes):
            ranges.append((start, stop))
            start, size = stop, 0
    return ranges


def from_row(
    batches: Iterator[pa.RecordBatch], split: FileSplit, batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
    """The rows after the first `split.row`, in batches of at most `batch_rows`."""
    skip = split.row
    for batch in batches:
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        for offset in range(skip, batch.num_rows, batch_rows):
            rows = batch.slice(offset, batch_rows)
            split = replace(split, row=split.row + rows.num_rows)
            yield rows, split
        skip = 0


def line_blocks(split: FileSplit, is_utf_8: bool) -> Iterator[tuple[bytes, int]]:
    """Blocks of whole lines that begin in the split's range of bytes, each with the byte after it.

    Args:
        is_utf_8: whether lines of UTF-16 are refused.
    """
    system, path = split.filesystem, split.path
    is_compressed = _compression(path) is not None
    with open_stream(system, path) if is_compressed else system.open_input_file(path) as stream:
        position, chunk = _to_first_line(stream, split.start, is_compressed, is_utf_8)
        begun: list[bytes] = []
        """The beginning of a line that goes on in the next chunk. Each chunk is searched and copied once, however long
        the line is."""
        begun_bytes = 0
        stop = split.stop
        while stop is None or position < stop:
            chunk = chunk or stream.read(_READ_BYTES)
            if not chunk:
                if begun:
                    yield b"".join(begun), position + begun_bytes
                return
            start = position + begun_bytes
            end = chunk.rfind(b"\n") + 1
            if stop is not None and start + end > stop:
                # The last line of the range is the one that holds its last byte.
                end = chunk.find(b"\n", max(0, stop - 1 - start)) + 1
            if end:
                position = start + end
                yield b"".join((*begun, chunk[:end])), position
                begun, begun_bytes = [], 0
            if end < len(chunk):
                begun.append(chunk[end:])
                begun_bytes += len(chunk) - end
            chunk = b""


def _to_first_line(stream: pa.NativeFile, start: int, is_compressed: bool, is_utf_8: bool) -> tuple[int, bytes]:
    """Goes to the first line that begins at or after `start`: its position, and what has been read of it.

    A line that begins before `start` belongs to the range before.
    """
    if start == 0:
        first = stream.read(_READ_BYTES)
        if is_utf_8 and first.startswith(_UTF_16_MARKS):
            raise UnicodeError("it is text of UTF-16, as its first bytes say; convert it to UTF-8 first")
        return (len(_BYTE_ORDER_MARK), first[3:]) if first.startswith(_BYTE_ORDER_MARK) else (0, first)
    if is_compressed:
        _skip(stream, start - 1)  # only a restored split begins in the middle
    else:
        stream.seek(start - 1)
    position = start - 1
    while chunk := stream.read(_READ_BYTES):
        found = chunk.find(b"\n")
        if found >= 0:
            return position + found + 1, chunk[found + 1 :]
        position += len(chunk)
    return position, b""


def _skip(stream: pa.NativeFile, count: int) -> None:
    while count > 0:
        chunk = stream.read(min(count, _READ_BYTES))
        if not chunk:
            return
        count -= len(chunk)

"""CSV files as a CsvSchema says: read by position through Arrow's reader, and written as Flink writes them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from pyarrow import fs

from flinkray.batches.batch import Batch
from flinkray.batches.value_columns import to_values
from flinkray.connectors.files import source as file_source
from flinkray.connectors.files.formats import CsvFiles, FileSplit, open_stream, read_by_blocks
from flinkray.connectors.files.paths import PathLike
from flinkray.connectors.formats.csv import with_escaped_characters
from flinkray.pyflink.datastream.formats.csv_schema import CsvSchema
from flinkray.pyflink.texts import java_text
from flinkray.time.durations import Duration
from flinkray.types.records import SCALAR_COLUMN, Kind

_LONGEST_CHECKED = 24
"""Flink quotes longer text without a look at its characters."""


class CsvSchemaSource(file_source.FileSource):
    """The rows of CSV files with the columns of a CsvSchema."""

    def __init__(self, paths: Sequence[PathLike], monitor: Duration | None, schema: CsvSchema) -> None:
        super().__init__(paths, "csv", schema.schema, delimiter=schema.separator, monitor=monitor)
        self._csv_schema = schema

    def _format(self) -> CsvSchemaFiles:
        return CsvSchemaFiles(self._csv_schema)


class CsvSchemaFiles(CsvFiles):
    """One split per file, as a quoted value may hold a line break."""

    def __init__(self, schema: CsvSchema) -> None:
        super().__init__(schema.separator)
        self._csv = schema
        self._parse = pa_csv.ParseOptions(
            delimiter=schema.separator,
            quote_char=schema.quote or False,
            escape_char=schema.escape or False,
            newlines_in_values=schema.quote is not None or schema.escape is not None,
        )

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        csv, names = self._csv, self._csv.schema.names
        if csv.has_header and csv.is_header_strict:
            header = self._header(split.filesystem, split.path)
            if header != names:
                raise ValueError(f"its first line has the names {header}, and the schema {names}")
        as_text = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=[] if csv.null_text is None else [csv.null_text],
            strings_can_be_null=csv.null_text is not None,
            quoted_strings_can_be_null=False,
        )

        def opened(block_bytes: int) -> Iterator[pa.RecordBatch]:
            reader = self._open(split.filesystem, split.path, as_text, block_bytes)
            return map(self._typed, reader or ())

        yield from read_by_blocks(opened, split, batch_rows)

    def _read_options(self, block_bytes: int) -> pa_csv.ReadOptions:
        skipped = int(self._csv.has_header) + int(self._csv.skips_first_row)
        return pa_csv.ReadOptions(block_size=block_bytes, column_names=self._csv.schema.names, skip_rows=skipped)

    def _stream(self, system: fs.FileSystem, path: str) -> pa.NativeFile:
        stream = open_stream(system, path)
        if self._csv.has_comments:
            stream = pa.PythonFile(_WithoutComments(stream), "r")
        return stream if self._csv.escape is None else pa.PythonFile(_Escaped(stream, self._csv.escape), "r")

    def _typed(self, texts: pa.RecordBatch) -> pa.RecordBatch:
        csv = self._csv
        separators = [each or csv.array_separator for each in csv.separators]
        columns = [
            _column(text, column.type, separator)
            for text, column, separator in zip(texts.columns, csv.schema, separators, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=csv.schema)


class _Escaped(io.RawIOBase):
    """A file with the characters that letters stand for behind an escape."""

    def __init__(self, stream: pa.NativeFile, escape: str) -> None:
        super().__init__()
        self._stream = stream
        self._escape = escape
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._rest + (self._stream.read() if size < 0 else self._stream.read(max(1, size - 1)))
        is_end = len(data) == len(self._rest)
        # The character behind an escape may come with the next bytes.
        is_open = not is_end and (len(data) - len(data.rstrip(self._escape.encode()))) % 2 == 1
        whole, self._rest = (data[:-1], data[-1:]) if is_open else (data, b"")
        return with_escaped_characters(whole, self._escape) if whole or is_end else self.read(size)


class _WithoutComments(io.RawIOBase):
    """A file without the lines that begin with #."""

    def __init__(self, stream: pa.NativeFile) -> None:
        super().__init__()
        self._lines = io.BufferedReader(stream)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        kept = [self._rest]
        length = len(self._rest)
        while size < 0 or length < size:
            line = self._lines.readline()
            if not line:
                break
            if not line.startswith(b"#"):
                kept.append(line)
                length += len(line)
        data = b"".join(kept)
        self._rest = b"" if size < 0 else data[size:]
        return data if size < 0 else data[:size]


def _column(texts: pa.Array, kind: pa.DataType, separator: str) -> pa.Array:
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_list(kind):
        return _arrays(texts, kind, separator)
    trimmed = pc.utf8_trim_whitespace(texts)
    given = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    if pa.types.is_decimal(kind):
        exact = given.cast(pa.decimal128(38, 18))
        return pc.round(exact, kind.scale, "half_towards_infinity").cast(kind)
    return given.cast(kind)


def _arrays(texts: pa.Array, kind: pa.DataType, separator: str) -> pa.Array:
    if separator:
        parts = pc.split_pattern(texts, separator)
    else:
        parts = pa.ListArray.from_arrays(pa.array(range(len(texts) + 1), pa.int32()), texts)
    items = _column(parts.flatten(), kind.value_type, "")
    # The parts of a null have no elements.
    lists = pa.ListArray.from_arrays(parts.offsets, items, mask=texts.is_null()).cast(kind)
    is_empty = pc.fill_null(pc.equal(texts, ""), False)
    return pc.if_else(is_empty, pa.scalar([], kind), lists) if pc.any(is_empty).as_py() else lists


# -- writing -----------------------------------------------------------------------------------------------------


def csv_lines(schema: CsvSchema, batch: Batch) -> Batch:
    """A batch of text, a line per row."""
    columns = [
        _texts(column, schema, separator)
        for column, separator in zip(batch.data.columns, schema.separators, strict=True)
    ]
    end = schema.line_end.removesuffix("\n")  # which the writer of lines adds
    lines = [schema.separator.join(texts) + end for texts in zip(*columns, strict=True)]
    return Batch(pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=[SCALAR_COLUMN]), Kind.SCALAR)


def _texts(column: pa.Array, schema: CsvSchema, separator: str | None) -> list[str]:
    kind, null = column.type, schema.null_text or ""
    values = to_values(column)
    if pa.types.is_list(kind):
        text, between = java_text(kind.value_type), separator or schema.array_separator
        joined = [None if value is None else between.join(map(text, value)) for value in values]
        return [null if value is None else quoted(value, schema) for value in joined]
    if pa.types.is_string(kind):
        return [null if value is None else quoted(value, schema) for value in values]
    return [null if value is None else each for value, each in zip(values, map(java_text(kind), values), strict=True)]


def quoted(text: str, schema: CsvSchema) -> str:
    """The text in quotes where Flink writes them: around all that may need them, which costs it less to find out."""
    quote, escape = schema.quote, schema.escape
    if quote is None:
        return text
    last = max(schema.separator, quote, "\r")
    is_short = len(text) <= _LONGEST_CHECKED
    if is_short and text != schema.null_text and not any(each <= last or each == escape for each in text):
        return text
    within = text if escape is None else text.replace(escape, escape * 2)
    return f"{quote}{within.replace(quote, quote * 2)}{quote}"

"""`pyflink.datastream.formats.csv`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from flinkray.connectors.files.paths import PathLike
from flinkray.connectors.files.source import FileSource
from flinkray.connectors.formats.csv import with_escaped_characters
from flinkray.functions.type_hints import record_type
from flinkray.pyflink.common.serialization import BulkWriterFactory, DeserializationSchema, SerializationSchema
from flinkray.pyflink.common.typeinfo import TypeInformation
from flinkray.pyflink.datastream.connectors.stream_formats import StreamFormat
from flinkray.pyflink.datastream.formats.csv_files import CsvSchemaSource, csv_lines, quoted
from flinkray.pyflink.datastream.formats.csv_schema import CsvSchema, CsvSchemaBuilder, without_doubled_escape
from flinkray.time.durations import Duration
from flinkray.types.records import Kind, RecordType
from flinkray.types.rows import Row

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


class CsvReaderFormat(StreamFormat):
    """The format of rows of CSV files, for `FileSource.for_record_stream_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        return CsvReaderFormat("csv", schema.schema, source=partial(_source, schema))


class CsvBulkWriters:
    @staticmethod
    def for_schema(schema: Any = None) -> BulkWriterFactory:
        """CSV files.

        Args:
            schema: a CsvSchema: lines as it says, without one of names; or as `row_type` of ParquetBulkWriters: files
                with a line of column names, and commas.
        """
        if isinstance(schema, CsvSchema):
            return BulkWriterFactory("text", schema.schema, partial(csv_lines, schema))
        return BulkWriterFactory("csv", None if schema is None else record_type(schema).schema.remove_metadata())


def _source(schema: CsvSchema, paths: Sequence[PathLike], monitor: Duration | None) -> FileSource:
    return CsvSchemaSource(paths, monitor, schema)


class _Builder:
    """Of both schemas for bytes."""

    def __init__(self, type_info: TypeInformation) -> None:
        if type_info is None:
            raise TypeError("a type is needed: Types.ROW_NAMED([...], [...])")
        self._schema = CsvSchema(type_info.record_type.schema)

    def set_array_element_delimiter(self, delimiter: str) -> Any:
        """Sets what is between the elements of arrays, and the fields of rows within rows."""
        return self._set(array_separator=delimiter)

    def set_escape_character(self, c: str) -> Any:
        return self._set(escape=c)

    def set_quote_character(self, c: str) -> Any:
        return self._set(quote=c)

    def _set(self, **changes: Any) -> Any:
        self._schema = replace(self._schema, **changes)
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """A line of CSV in bytes as a row. Made with `CsvRowDeserializationSchema.Builder(type_info).build()`."""

    def __init__(self, schema: CsvSchema, ignores_errors: bool) -> None:
        self._schema = without_doubled_escape(schema)
        self.record_type = RecordType(Kind.ROW, schema.schema)
        self.ignores_errors = ignores_errors

    def deserialize(self, message: bytes) -> Row | None:
        """Empty fields are None, except of text. None for a comment, and where errors are to be ignored for what is no
        such row.

        Raises:
            ValueError: it is no such row.
        """
        if self._schema.has_comments and message.startswith(b"#"):
            return None
        try:
            return self._row(message)
        except (ValueError, pa.ArrowException, csv.Error):
            if self.ignores_errors:
                return None
            raise

    def _row(self, message: bytes) -> Row:
        schema = self._schema
        if schema.quote is None:
            options: dict[str, Any] = {"quoting": csv.QUOTE_NONE}
        else:
            options = {"quotechar": schema.quote}
        if schema.escape is not None:
            line = message.rstrip(b"\r\n")
            if (len(line) - len(line.rstrip(schema.escape.encode()))) % 2:
                raise ValueError(f"behind the last {schema.escape!r} is nothing: {message[:200]!r}")
            message = with_escaped_characters(message, schema.escape)
        (fields,) = csv.reader([message.decode()], delimiter=schema.separator, escapechar=schema.escape, **options)
        if len(fields) != len(schema):
            raise ValueError(f"{len(fields)} fields in place of {len(schema)}: {message[:200]!r}")
        columns = zip(schema.schema, fields, strict=True)
        return Row(**{field.name: self._parsed(text, field.type) for field, text in columns})

    def _parsed(self, text: str, type: pa.DataType) -> Any:
        if text == self._schema.null_text:
            return None
        if pa.types.is_string(type):
            return text
        if text == "":
            return None
        parts = text.split(self._schema.array_separator)
        if pa.types.is_list(type):
            return [self._parsed(part, type.value_type) for part in parts]
        if pa.types.is_struct(type):
            values = zip(type, parts, strict=True)
            return Row(**{field.name: self._parsed(part, field.type) for field, part in values})
        return pa.scalar(text).cast(type).as_py()

    class Builder(_Builder):
        def __init__(self, type_info: TypeInformation) -> None:
            super().__init__(type_info)
            self._ignores_errors = False

        def set_field_delimiter(self, delimiter: str) -> Any:
            return self._set(separator=delimiter)

        def set_allow_comments(self, allow_comments: bool) -> Any:
            return self._set(has_comments=allow_comments)

        def set_null_literal(self, null_literal: str) -> Any:
            return self._set(null_text=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Any:
            self._ignores_errors = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            return CsvRowDeserializationSchema(self._schema, self._ignores_errors)


class CsvRowSerializationSchema(SerializationSchema):
    """A row as a line of CSV in bytes. Made with `CsvRowSerializationSchema.Builder(type_info).build()`."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = without_doubled_escape(schema)

    def serialize(self, value: Any) -> bytes:
        return (self._schema.separator.join(map(self._text, value)) + self._schema.line_end).encode()

    def _text(self, value: Any) -> str:
        if value is None:
            return self._schema.null_text or ""
        text = self._plain(value)
        return quoted(text, self._schema) if isinstance(value, str | tuple | list) else text

    def _plain(self, value: Any) -> str:
        if isinstance(value, tuple | list):
            return self._schema.array_separator.join(map(self._plain, value))
        return str(value).lower() if isinstance(value, bool) else str(value)

    class Builder(_Builder):
        def set_field_delimiter(self, c: str) -> Any:
            return self._set(separator=c)

        def set_line_delimiter(self, delimiter: str) -> Any:
            return self._set(line_end=delimiter)

        def disable_line_delimiter(self) -> Any:
            return self.set_line_delimiter("")

        def disable_quote_character(self) -> Any:
            return self._set(quote=None)

        def set_null_literal(self, s: str) -> Any:
            return self._set(null_text=s)

        def build(self) -> CsvRowSerializationSchema:
            return CsvRowSerializationSchema(self._schema)

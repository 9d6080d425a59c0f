"""`pyflink.datastream.formats.csv`."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa

from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import arrow_type, record_type
from flinkray.pyflink.common.serialization import BulkWriterFactory, DeserializationSchema, SerializationSchema
from flinkray.pyflink.datastream.connectors.stream_formats import StreamFormat
from flinkray.types.rows import Row
from flinkray.pyflink.common.typeinfo import TypeInformation

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


class CsvSchema:
    """Columns of CSV files. Made with `CsvSchema.builder()`."""

    def __init__(self, schema: pa.Schema, separator: str) -> None:
        self.schema = schema
        self.separator = separator

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        return CsvSchemaBuilder()

    def size(self) -> int:
        return len(self.schema)


class CsvSchemaBuilder:
    """Files have a line of column names, `set_use_header()`; fields are quoted with " where they need it."""

    def __init__(self) -> None:
        self._columns: list[tuple[str, pa.DataType]] = []
        self._separator = ","
        self._has_header = False

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, pa.string())

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, pa.bool_())

    def add_number_column(self, name: str, number_type: Any = None) -> CsvSchemaBuilder:
        """Args: number_type: an Arrow or Python type, or one of `Types` or `DataTypes`; None: int64."""
        return self._add(name, pa.int64() if number_type is None else arrow_type(number_type))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        self._columns.extend((field.name, field.type) for field in schema.schema)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        self._columns.clear()
        return self

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        self._separator = char
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        self._has_header = use
        return self

    def size(self) -> int:
        return len(self._columns)

    def build(self) -> CsvSchema:
        if not self._has_header:
            raise InvalidProgramError(
                "CSV files are read with a line of column names: set_use_header(); lines without one are read with "
                "StreamFormat.text_line_format(), and split in a map function"
            )
        return CsvSchema(pa.schema(self._columns), self._separator)

    def _add(self, name: str, type: pa.DataType) -> CsvSchemaBuilder:
        self._columns.append((name, type))
        return self


class CsvReaderFormat(StreamFormat):
    """The format of rows of CSV files, for `FileSource.for_record_stream_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        return CsvReaderFormat("csv", schema.schema, schema.separator)


class CsvBulkWriters:
    @staticmethod
    def for_schema(schema: Any = None) -> BulkWriterFactory:
        """CSV files with a line of column names.

        Args:
            schema: a CsvSchema, or as `row_type` of ParquetBulkWriters.
        """
        if isinstance(schema, CsvSchema):
            if schema.separator != ",":
                raise InvalidProgramError(f"CSV files are written with commas, not {schema.separator!r}")
            return BulkWriterFactory("csv", schema.schema)
        return BulkWriterFactory("csv", None if schema is None else record_type(schema).schema)


class _Builder:
    """Of both schemas for bytes."""

    def __init__(self, type_info: TypeInformation) -> None:
        if type_info is None:
            raise TypeError("a type is needed: Types.ROW_NAMED([...], [...])")
        self._schema = type_info.record_type.schema
        self._delimiter = ","
        self._quote = '"'

    def set_field_delimiter(self, delimiter: str) -> Any:
        self._delimiter = delimiter
        return self

    def set_quote_character(self, c: str) -> Any:
        self._quote = c
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """A line of CSV in bytes as a row. Made with `CsvRowDeserializationSchema.Builder(type_info).build()`."""

    def __init__(self, schema: pa.Schema, delimiter: str, quote: str) -> None:
        self._schema = schema
        self._delimiter = delimiter
        self._quote = quote

    def deserialize(self, message: bytes) -> Row:
        """Empty fields are None, except of text."""
        (fields,) = csv.reader([message.decode()], delimiter=self._delimiter, quotechar=self._quote)
        if len(fields) != len(self._schema):
            raise ValueError(f"{len(fields)} fields in place of {len(self._schema)}: {message[:200]!r}")
        return Row(**{field.name: _parsed(text, field.type) for field, text in zip(self._schema, fields, strict=True)})

    class Builder(_Builder):
        def build(self) -> CsvRowDeserializationSchema:
            return CsvRowDeserializationSchema(self._schema, self._delimiter, self._quote)


class CsvRowSerializationSchema(SerializationSchema):
    """A row as a line of CSV in bytes. Made with `CsvRowSerializationSchema.Builder(type_info).build()`."""

    def __init__(self, delimiter: str, quote: str, terminator: str) -> None:
        self._options = {"delimiter": delimiter, "quotechar": quote, "lineterminator": terminator}

    def serialize(self, value: Any) -> bytes:
        line = io.StringIO()
        texts = [str(item).lower() if isinstance(item, bool) else item for item in value]
        csv.writer(line, **self._options).writerow(texts)  # type: ignore[arg-type]
        return line.getvalue().encode()

    class Builder(_Builder):
        def __init__(self, type_info: TypeInformation) -> None:
            super().__init__(type_info)
            self._terminator = "\n"

        def set_line_delimiter(self, delimiter: str) -> Any:
            self._terminator = delimiter
            return self

        def disable_line_delimiter(self) -> Any:
            return self.set_line_delimiter("")

        def build(self) -> CsvRowSerializationSchema:
            return CsvRowSerializationSchema(self._delimiter, self._quote, self._terminator)


def _parsed(text: str, type: pa.DataType) -> Any:
    if pa.types.is_string(type):
        return text
    return None if text == "" else pa.scalar(text).cast(type).as_py()

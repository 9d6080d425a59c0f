"""Records by an Avro schema, which streams have as dicts, in files of Avro and Parquet."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.pickling import dumps
from flinkray.batches.row_codec import decode
from flinkray.batches.value_columns import to_array
from flinkray.connectors.files import source as file_source
from flinkray.connectors.files.avro_files import AvroFiles, blocks_of, record_lists
from flinkray.connectors.files.formats import FileFormat, FileSplit, ParquetFiles
from flinkray.connectors.files.paths import PathLike
from flinkray.connectors.formats.avro_types import ENCODED_BY, arrow_schema
from flinkray.errors import InvalidProgramError, TypeMismatchError, operator_label
from flinkray.extras import import_package
from flinkray.pyflink.common.typeinfo import TypeInformation, Types
from flinkray.time.durations import Duration
from flinkray.types.records import SCALAR_COLUMN, Kind
from flinkray.types.rows import Row
from flinkray.types.value_types import Misfit, Unholdable

_OBJECTS = pa.schema([(SCALAR_COLUMN, pa.binary())])
_MISFITS = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error)
"""What is raised for a record that does not fit its schema."""


@dataclass(frozen=True)
class AvroSchema:
    """An Avro schema; made with `parse_string` or `parse_file`."""

    text: str

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """
        Raises:
            InvalidProgramError: it is no schema.
        """
        try:
            _parsed(json_schema)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidProgramError(f"this is no Avro schema: {error!r} in {json_schema[:200]!r}") from error
        return AvroSchema(json.dumps(json.loads(json_schema), separators=(",", ":")))

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """The schema that a file has as JSON."""
        with open(file_path, encoding="utf-8") as file:
            return AvroSchema.parse_string(file.read())

    def __str__(self) -> str:
        return self.text

    def columns(self) -> pa.Schema:
        """The types of its fields in Arrow.

        Raises:
            InvalidProgramError: it is not of a record, or a field has no type in Arrow, such as a union of several.
        """
        try:
            return arrow_schema(json.loads(self.text))
        except ValueError as error:
            raise InvalidProgramError(f"these Avro records have no columns in Parquet files: {error}") from error


class GenericRecordAvroTypeInfo(TypeInformation):
    """Dicts by an Avro schema. What writes them refuses those that do not fit it."""

    __slots__ = ()

    def __init__(self, schema: AvroSchema) -> None:
        super().__init__(Types.PICKLED_BYTE_ARRAY(), schema)

    def _identity(self) -> Any:
        return self.name, self._made_with

    def __repr__(self) -> str:
        return f"GenericRecord({self._made_with[0]})"


class RecordSource(file_source.FileSource):
    """The records of files, as dicts."""

    def __init__(self, format: FileFormat, name: str, paths: Sequence[PathLike], monitor: Duration | None) -> None:
        super().__init__(paths, name, _OBJECTS, monitor=monitor)
        self._record_format = format

    def _format(self) -> FileFormat:
        return self._record_format


class AvroRecordFiles(AvroFiles):
    """Files of Avro, whose records are read by `schema`."""

    kind = Kind.OBJECT

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        with split.filesystem.open_input_file(split.path) as stream:
            for records, left in record_lists(blocks_of(stream, _parsed(self._schema.text)), split, batch_rows):
                yield _pickled(records), left


class ParquetRecordFiles(ParquetFiles):
    """Files of Parquet, whose rows are read with these columns."""

    kind = Kind.OBJECT

    def __init__(self, columns: pa.Schema) -> None:
        super().__init__()
        self._columns = columns

    def read(self, split: FileSplit, schema: pa.Schema, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, FileSplit]]:
        for data, left in super().read(split, self._columns, batch_rows):
            rows = data.cast(self._columns).to_struct_array()
            yield _pickled([_with_dicts(row, rows.type) for row in rows.to_pylist()]), left


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    """A value of PyArrow's with dicts for its maps, which are lists of pairs otherwise."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _with_dicts(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [_with_dicts(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    return value


def encoded(schema: AvroSchema, batch: Batch, operator: str) -> Batch:
    """The records in Avro's encoding, for files that have `schema`.

    Raises:
        TypeMismatchError: one does not fit.
    """
    parsed, write = _parsed(schema.text), import_package("fastavro", "writing Avro files").schemaless_writer

    def bytes_of(record: Mapping[str, Any]) -> bytes:
        stream = io.BytesIO()
        write(stream, parsed, record)
        return stream.getvalue()

    messages = [_fitting(bytes_of, record, operator) for record in _records(batch, operator)]
    columns = pa.schema([pa.field(SCALAR_COLUMN, pa.binary())], metadata={ENCODED_BY: schema.text})
    return Batch(pa.RecordBatch.from_arrays([pa.array(messages, pa.binary())], schema=columns), Kind.SCALAR)


def in_columns(columns: pa.Schema, batch: Batch, operator: str) -> Batch:
    """The records with their fields in columns.

    Raises:
        TypeMismatchError: one does not fit.
    """
    records = _records(batch, operator)
    arrays = []
    for field in columns:
        values = [_fitting(itemgetter(field.name), record, operator) for record in records]
        try:
            arrays.append(to_array(values, field.type))
        except (Misfit, Unholdable, pa.ArrowException) as error:
            raise TypeMismatchError(
                f"{operator_label(operator)}: field {field.name!r} of {field.type}: {error}"
            ) from error
    return Batch(pa.RecordBatch.from_arrays(arrays, schema=columns), Kind.ROW)


def _records(batch: Batch, operator: str) -> list[Mapping[str, Any]]:
    records = [value.as_dict(recursive=True) if isinstance(value, Row) else value for value in decode(batch)]
    for record in records:
        if not isinstance(record, Mapping):
            raise TypeMismatchError(
                f"{operator_label(operator)}: Avro records are dicts or rows, not {record!r} ({type(record).__name__})"
            )
    return records


def _fitting(make: Callable[[Mapping[str, Any]], Any], record: Mapping[str, Any], operator: str) -> Any:
    try:
        return make(record)
    except _MISFITS as error:
        raise TypeMismatchError(
            f"{operator_label(operator)}: the record {record!r} does not fit the Avro schema of the files: {error!r}"
        ) from error


def _pickled(records: Sequence[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(map(dumps, records), pa.binary())], schema=_OBJECTS)


@lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    """The schema as fastavro takes it."""
    return import_package("fastavro", "AvroSchema").parse_schema(json.loads(text))

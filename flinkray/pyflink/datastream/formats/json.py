"""`pyflink.datastream.formats.json`: rows as JSON in bytes, for sources and sinks of one's own."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.connectors.formats.json import JsonFormat
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.formats.nested_columns import retyped
from flinkray.errors import TypeMismatchError
from flinkray.pyflink.common.serialization import DeserializationSchema, SerializationSchema
from flinkray.pyflink.common.typeinfo import TypeInformation
from flinkray.types.nested import with_items
from flinkray.types.records import Kind, RecordType
from flinkray.types.rows import Row

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

_NULL = r"^\s*null\s*$"


class _OfRows:
    """A schema with the format of its rows, which is made for the first of them, and is no part of what is stored."""

    record_type: RecordType
    is_field_needed = False

    @cached_property
    def _rows(self) -> JsonRows:
        return JsonRows(self.record_type, self.is_field_needed)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_rows"}


class JsonRowDeserializationSchema(_OfRows, DeserializationSchema):
    """Made with `JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED([...], [...])).build()`."""

    def __init__(self, type_info: TypeInformation, is_field_needed: bool, ignores_errors: bool) -> None:
        self.record_type = type_info.record_type
        self.is_field_needed = is_field_needed
        self.ignores_errors = ignores_errors

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Row | None:
        """A row of the fields; None for null, and for what is no JSON object where errors are to be ignored.

        Raises:
            ValueError: no JSON object, one that is not of the type, or a field is missing that must be there.
        """
        if message.strip() == b"null":
            return None
        try:
            data = self._rows.decode(pa.array([message], pa.large_binary()))
        except ValueError:
            if self.ignores_errors:
                return None
            raise
        row: Row = decode(Batch(data, Kind.ROW))[0]
        return row

    class Builder:
        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._is_field_needed = False
            self._ignores_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            self._type_info = type_info
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            self._is_field_needed = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            self._ignores_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            if self._type_info is None:
                raise TypeError("a type is needed: type_info(Types.ROW_NAMED([...], [...]))")
            return JsonRowDeserializationSchema(self._type_info, self._is_field_needed, self._ignores_errors)


class JsonRowSerializationSchema(_OfRows, SerializationSchema):
    """Made with `JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED([...], [...])).build()`."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.record_type = type_info.record_type

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        return JsonRowSerializationSchema.Builder()

    def serialize(self, value: Any) -> bytes:
        """The row, whose fields have the names of the type, as a JSON object.

        Raises:
            ValueError: it is not of the type.
        """
        try:
            batch = RowEncoder(type(self).__name__, "", self.record_type).encode([value], None)
        except TypeMismatchError as error:
            raise ValueError(str(error)) from error
        message: bytes = self._rows.encode(batch.data)[0].as_py()
        return message

    class Builder:
        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            if self._type_info is None:
                raise TypeError("a type is needed: with_type_info(Types.ROW_NAMED([...], [...]))")
            return JsonRowSerializationSchema(self._type_info)


class JsonRows(MessageFormat):
    """JSON as these schemas have it: points in time are in UTC, and they and times of day end with Z. Null is no row.

    Args:
        rows: the type of the rows.
        is_field_needed: whether a message that lacks a field cannot be read.
    """

    def __init__(self, rows: RecordType, is_field_needed: bool = False) -> None:
        self._rows = rows
        written = pa.schema([field.with_type(_written(field.type)) for field in rows.schema])
        self._json = JsonFormat(written, fail_on_missing_field=is_field_needed)

    @property
    def record_type(self) -> RecordType:
        return self._rows

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return _retyped(self._json.decode(messages), self._rows.schema)

    def decode_several(self, messages: pa.Array) -> tuple[pa.RecordBatch, npt.NDArray[np.int64] | None]:
        is_null = pc.match_substring_regex(messages, _NULL)
        if not pc.any(is_null).as_py():
            return self.decode(messages), None
        rows = np.flatnonzero(~np.asarray(is_null))
        if not len(rows):
            return pa.RecordBatch.from_pylist([], schema=self._rows.schema), rows
        return self.decode(messages.take(pa.array(rows))), rows

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        names = self._rows.schema.names
        if len(names) != data.num_columns:
            raise ValueError(f"rows have {data.num_columns} columns, and the schema {len(names)}: {', '.join(names)}")
        return self._json.encode(_retyped(data.rename_columns(names), self._json.record_type.schema))


def _written(kind: pa.DataType) -> pa.DataType:
    if types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC")
    return pa.string() if types.is_time(kind) else with_items(kind, _written)


def _retyped(data: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [retyped(column, field.type, _with_zone) for column, field in zip(data.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_zone(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if types.is_time(values.type) and types.is_string(kind):
        return pc.binary_join_element_wise(values.cast(pa.string()), "Z", "")
    if types.is_string(values.type) and types.is_time(kind):
        moments = pc.binary_join_element_wise("1970-01-01T", pc.replace_substring_regex(values, "Z$", ""), "")
        return moments.cast(pa.timestamp(kind.unit)).cast(kind)
    return values.cast(kind)

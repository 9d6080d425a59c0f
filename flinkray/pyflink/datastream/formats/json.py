"""`pyflink.datastream.formats.json`: rows as JSON in bytes, for sources and sinks of one's own."""

from __future__ import annotations

import base64
import datetime
import json
from decimal import Decimal
from typing import Any

from flinkray.pyflink.common.serialization import DeserializationSchema, SerializationSchema
from flinkray.pyflink.common.typeinfo import TypeInformation
from flinkray.types.rows import Row

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]


class JsonRowDeserializationSchema(DeserializationSchema):
    """Made with `JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED([...], [...])).build()`."""

    def __init__(self, type_info: TypeInformation, is_field_needed: bool, ignores_errors: bool) -> None:
        self.record_type = type_info.record_type
        self._names = self.record_type.schema.names
        self.is_field_needed = is_field_needed
        self.ignores_errors = ignores_errors

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Row | None:
        """A row of the fields; None for what is no JSON object, where errors are to be ignored.

        Raises:
            ValueError: no JSON object, or a field is missing that must be there.
        """
        try:
            values = json.loads(message)
            if not isinstance(values, dict):
                raise ValueError(f"no JSON object: {message[:200]!r}")
            missing = [name for name in self._names if name not in values]
            if missing and self.is_field_needed:
                raise ValueError(f"no field {missing[0]!r} in {message[:200]!r}")
        except ValueError:
            if self.ignores_errors:
                return None
            raise
        return Row(**{name: values.get(name) for name in self._names})

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


class JsonRowSerializationSchema(SerializationSchema):
    """Made with `JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED([...], [...])).build()`."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.record_type = type_info.record_type
        self._names = self.record_type.schema.names

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        return JsonRowSerializationSchema.Builder()

    def serialize(self, value: Any) -> bytes:
        fields = dict(zip(self._names, value, strict=True))
        return json.dumps(fields, default=_as_json, separators=(",", ":"), ensure_ascii=False).encode()

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


def _as_json(value: object) -> object:
    """What JSON has no type for: decimals are numbers, points of time text, and bytes base64."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"JSON has no type for {value!r}")

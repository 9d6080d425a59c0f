"""Arrow's types for Avro's, as Flink maps these to its own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_PRIMITIVES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.uuid(),
}


def arrow_schema(schema: Any) -> pa.Schema:
    """The columns of an Avro record.

    Raises:
        ValueError: it is no record, or has a type that no column can have; names the field.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError(f"the Avro schema of rows is a record, not {_name_of(schema)}")
    return pa.schema(_fields(schema, {}, ()))


def _fields(record: dict[str, Any], named: dict[str, pa.DataType], path: tuple[str, ...]) -> list[pa.Field]:
    fields = []
    for field in record["fields"]:
        arrow_type, is_nullable = _type(field["type"], named, (*path, field["name"]))
        fields.append(pa.field(field["name"], arrow_type, is_nullable))
    return fields


def _type(schema: Any, named: dict[str, pa.DataType], path: tuple[str, ...]) -> tuple[pa.DataType, bool]:
    """The type of a value, and whether it may be null."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise ValueError(f"field {'.'.join(path)}: a column has one type, and this union {len(others)}")
        return _type(others[0], named, path)[0], len(others) < len(schema)
    if isinstance(schema, str):
        found = _PRIMITIVES.get(schema) or named.get(schema)
        if found is None:
            raise ValueError(f"field {'.'.join(path)}: {schema!r} is no type that is defined before it")
        return found, schema == "null"
    return _complex(schema, named, path), False


def _complex(schema: dict[str, Any], named: dict[str, pa.DataType], path: tuple[str, ...]) -> pa.DataType:
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        arrow_type: pa.DataType = pa.decimal128(schema["precision"], schema.get("scale", 0))
    elif logical in _LOGICAL:
        arrow_type = _LOGICAL[logical]
    elif kind == "record":
        arrow_type = pa.struct(_fields(schema, named, path))
    elif kind == "enum":
        arrow_type = pa.string()
    elif kind == "fixed":
        arrow_type = pa.binary(schema["size"])
    elif kind == "array":
        arrow_type = pa.list_(_type(schema["items"], named, path)[0])
    elif kind == "map":
        arrow_type = pa.map_(pa.string(), _type(schema["values"], named, path)[0])
    else:
        arrow_type = _type(kind, named, path)[0]
    if "name" in schema:
        named[schema["name"]] = arrow_type
    return arrow_type


def _name_of(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, dict) else schema

"""Arrow's types for Avro's, as Flink maps these to its own, and Avro's for Arrow's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

ENCODED_BY = b"avro.schema"
"""Of a schema's metadata: the Avro schema, as JSON, of records that are encoded in the only column."""
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


_WRITTEN: dict[pa.DataType, Any] = {
    **{kind: name for name, kind in _PRIMITIVES.items()},
    **dict.fromkeys((pa.int8(), pa.int16(), pa.uint8(), pa.uint16()), "int"),
    pa.uint32(): "long",
    pa.float16(): "float",
    pa.large_string(): "string",
    pa.large_binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.uuid(): {"type": "string", "logicalType": "uuid"},
}
_TIMESTAMPS = {"s": "millis", "ms": "millis", "us": "micros"}
_NAME = re.compile(r"[^\W\d]\w*", re.ASCII)


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """The Avro record that has these columns.

    Raises:
        ValueError: Avro has no such type, or no such name; names the field.
    """
    return _record(schema, ("record",), set())


def _record(fields: Iterable[pa.Field], path: tuple[str, ...], taken: set[str]) -> dict[str, Any]:
    name, named = _name(path, taken), []
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise ValueError(
                f"field {'.'.join((*path[1:], field.name))}: names in Avro are of ASCII letters, digits and _, and do "
                f"not begin with a digit, and {field.name!r} is none: rename it"
            )
        named.append({"name": field.name, "type": _written(field, (*path, field.name), taken)})
    return {"type": "record", "name": name, "fields": named}


def _name(path: tuple[str, ...], taken: set[str]) -> str:
    """That of a type, which a schema has once: `a.b_c` and `a_b.c` would have the same."""
    name = "_".join(path)
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _written(field: pa.Field, path: tuple[str, ...], taken: set[str]) -> Any:
    kind = _written_type(field.type, path, taken)
    return ["null", kind] if field.nullable and kind != "null" else kind


def _written_type(kind: pa.DataType, path: tuple[str, ...], taken: set[str]) -> Any:
    if pa.types.is_dictionary(kind):
        return _written_type(kind.value_type, path, taken)
    if pa.types.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind) and kind.unit in _TIMESTAMPS:
        local = "local-" if kind.tz is None else ""
        return {"type": "long", "logicalType": f"{local}timestamp-{_TIMESTAMPS[kind.unit]}"}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": _name(path, taken), "size": kind.byte_width}
    if pa.types.is_struct(kind):
        return _record(kind, path, taken)
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        return {"type": "map", "values": _written(kind.item_field, (*path, "value"), taken)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": _written(kind.value_field, (*path, "item"), taken)}
    if kind not in _WRITTEN:
        raise ValueError(f"field {'.'.join(path[1:])}: Avro has no type for {kind}")
    return _WRITTEN[kind]

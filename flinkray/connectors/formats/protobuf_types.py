"""Protobuf's messages by their descriptors: classes that each process makes anew, and the types of their columns."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from flinkray.extras import import_package

TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
_NEEDED_BY = "ProtobufFormat"
_TYPES: dict[str, pa.DataType] = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
    "enum": pa.string(),
}
_WELL_KNOWN: dict[str, pa.DataType] = {TIMESTAMP: pa.timestamp("us", "UTC"), DURATION: pa.duration("us")}


def descriptors_of(message: Any, descriptor_set: bytes | str | Path | None) -> tuple[str, bytes]:
    """The full name of a message, and a FileDescriptorSet that has all that it needs.

    Args:
        message: a generated class; the path of one, such as "orders_pb2.Order"; or the full name of a message in
            `descriptor_set`, which is what `protoc --include_imports --descriptor_set_out=` writes, or its file.
    Raises:
        ValueError: there is no such message.
    """
    if descriptor_set is None:
        descriptor: Any = getattr(_class_at(message) if isinstance(message, str) else message, "DESCRIPTOR", None)
        if not hasattr(descriptor, "fields_by_name"):
            raise ValueError(f"{message!r} is no class of messages that protoc has made")
        found = import_package("google.protobuf.descriptor_pb2", _NEEDED_BY).FileDescriptorSet()
        _add_files(descriptor.file, found, set())
        return descriptor.full_name, found.SerializeToString()
    content = descriptor_set if isinstance(descriptor_set, bytes) else Path(descriptor_set).read_bytes()
    if not isinstance(message, str):
        raise ValueError("with a descriptor set the message is given by its full name, such as 'shop.Order'")
    message_class(message, content)
    return message, content


def _class_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"there is no Python class {path!r} of a message ({error}); name one that protoc has made, such as "
            "'orders_pb2.Order', or give a descriptor set"
        ) from error


def _add_files(file: Any, found: Any, seen: set[str]) -> None:
    """Adds a file behind all that it imports."""
    if file.name in seen:
        return
    seen.add(file.name)
    for imported in file.dependencies:
        _add_files(imported, found, seen)
    file.CopyToProto(found.file.add())


def message_class(name: str, descriptor_set: bytes) -> Any:
    """A class of the message, in a pool of its own.

    Raises:
        ValueError: there is no such message, or what is given is no descriptor set.
    """
    descriptor_pb2 = import_package("google.protobuf.descriptor_pb2", _NEEDED_BY)
    pool = import_package("google.protobuf.descriptor_pool", _NEEDED_BY).DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
        for file in files:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(name)
    except (KeyError, TypeError, import_package("google.protobuf.message", _NEEDED_BY).DecodeError) as error:
        raise ValueError(
            f"there is no message {name!r} in the descriptor set: write that with protoc --include_imports ({error})"
        ) from error
    return import_package("google.protobuf.message_factory", _NEEDED_BY).GetMessageClass(descriptor)


def is_repeated(field: Any) -> bool:
    """Whether the field has a list of values, or a map, which is one of entries."""
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def is_map(field: Any) -> bool:
    """Whether the field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def arrow_schema(descriptor: Any) -> pa.Schema:
    """The columns of a message.

    Raises:
        ValueError: a message contains itself, which no column can.
    """
    return pa.schema(_fields(descriptor, ()))


def _fields(descriptor: Any, above: tuple[str, ...]) -> list[pa.Field]:
    if descriptor.full_name in above:
        raise ValueError(
            f"message {descriptor.full_name} contains itself, and a column has an end; give the columns as schema="
        )
    return [pa.field(each.name, _type(each, (*above, descriptor.full_name))) for each in descriptor.fields]


def _type(field: Any, above: tuple[str, ...]) -> pa.DataType:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
        return pa.map_(_value_type(key, above), _value_type(value, above))
    return pa.list_(_value_type(field, above)) if is_repeated(field) else _value_type(field, above)


def _value_type(field: Any, above: tuple[str, ...]) -> pa.DataType:
    if field.message_type is not None:
        name = field.message_type.full_name
        return _WELL_KNOWN.get(name) or pa.struct(_fields(field.message_type, above))
    if field.cpp_type == field.CPPTYPE_STRING:
        return pa.binary() if field.type == field.TYPE_BYTES else pa.string()
    return _TYPES[_names(field)[field.cpp_type]]


def _names(field: Any) -> dict[int, str]:
    return {getattr(field, f"CPPTYPE_{name.upper()}"): name for name in _TYPES}

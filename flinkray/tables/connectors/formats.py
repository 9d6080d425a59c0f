"""Formats of messages by the names that tables have for them, with their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from flinkray.connectors.formats.avro import AvroFormat
from flinkray.connectors.formats.avro_types import avro_schema
from flinkray.connectors.formats.changes.canal_json import CanalJsonFormat, MaxwellJsonFormat
from flinkray.connectors.formats.changes.debezium_json import DebeziumJsonFormat, OggJsonFormat
from flinkray.connectors.formats.csv import CsvFormat
from flinkray.connectors.formats.json import TIMESTAMP_FORMATS, JsonFormat
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.formats.protobuf import ProtobufFormat
from flinkray.connectors.formats.raw import RawFormat
from flinkray.connectors.formats.schema_registry import SchemaRegistry
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import TableColumn
from flinkray.tables.types.arrow import to_arrow
from flinkray.types.nested import with_items

_CHANGELOGS = frozenset({"canal-json", "debezium-json", "maxwell-json", "ogg-json"})
_ESCAPE = re.compile(r"\\(?:u+([0-9a-fA-F]{4})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "f": "\f", "n": "\n", "r": "\r"}
_BYTE_ORDERS = {"big-endian": "big", "little-endian": "little"}


def message_format(options: ConnectorOptions, key: str, columns: Sequence[TableColumn]) -> MessageFormat:
    """The format that an option names, of messages with these columns.

    Args:
        key: "format", "value.format" or "key.format"; options of the format begin with what is before the last word,
            and the name of the format.
    Raises:
        InvalidProgramError: there is no such format, or an option of it is wrong.
    """
    name = options.required(key)
    names = tuple(_FORMATS)
    prefix = f"{key.removesuffix('format')}{options.one_of(key, names, '')}."
    skips_bad_messages(options, key)  # a table that is written, too, may say what becomes of messages that are read
    try:
        return _FORMATS[name](options, prefix, columns)
    except ValueError as error:
        raise options.fail(f"{key} = {name!r}: {error}") from error


def skips_bad_messages(options: ConnectorOptions, key: str) -> bool:
    """Whether messages that cannot be read are left out."""
    return options.truth(f"{key.removesuffix('format')}{options.text(key)}.ignore-parse-errors")


def _bad_values(options: ConnectorOptions, prefix: str) -> Literal["fail", "null"]:
    """What becomes of values that cannot be read, in messages that can."""
    return "null" if options.truth(f"{prefix}ignore-parse-errors") else "fail"


def is_changelog(options: ConnectorOptions, key: str) -> bool:
    """Whether messages of the format are changes."""
    return options.text(key) in _CHANGELOGS


def schema_of(columns: Sequence[TableColumn]) -> pa.Schema:
    """The columns as Arrow has them."""
    return pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])


def _json(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    fails_on_missing = options.truth(f"{prefix}fail-on-missing-field")
    if fails_on_missing and options.truth(f"{prefix}ignore-parse-errors"):
        raise options.fail(f"only one of '{prefix}fail-on-missing-field' and '{prefix}ignore-parse-errors' can be true")
    return _json_rows(options, prefix, columns, fails_on_missing)


def _json_rows(
    options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn], fails_on_missing: bool = False
) -> JsonFormat:
    """What all formats have that hold rows as JSON objects."""
    options.one_of(f"{prefix}map-null-key.mode", ("FAIL",), "FAIL")  # no map here has a key that is null
    if not options.truth(f"{prefix}encode.decimal-as-plain-number", True):
        raise options.fail(f"'{prefix}encode.decimal-as-plain-number' is always true: decimals have no exponents")
    return JsonFormat(
        schema_of(columns),
        timestamp_format=options.one_of(f"{prefix}timestamp-format.standard", TIMESTAMP_FORMATS, "SQL"),
        ignore_null_fields=options.truth(f"{prefix}encode.ignore-null-fields"),
        fail_on_missing_field=fails_on_missing,
        rounds=True,
        bad_values=_bad_values(options, prefix),
    )


def _debezium(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    return DebeziumJsonFormat(_json_rows(options, prefix, columns), options.truth(f"{prefix}schema-include"))


def _ogg(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    return OggJsonFormat(_json_rows(options, prefix, columns))


def _canal(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    database, table = (options.text(f"{prefix}{each}.include") or None for each in ("database", "table"))
    return CanalJsonFormat(_json_rows(options, prefix, columns), database, table)


def _maxwell(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    return MaxwellJsonFormat(_json_rows(options, prefix, columns))


def _protobuf(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    return ProtobufFormat(
        options.required(f"{prefix}message-class-name"),
        schema_of(columns),
        descriptor_set=options.text(f"{prefix}descriptor-set") or None,
        read_default_values=options.truth(f"{prefix}read-default-values"),
        null_text=options.text(f"{prefix}write-null-string-literal"),
    )


def field_delimiter(options: ConnectorOptions, prefix: str) -> str:
    """What is between two values of CSV; as in Java, `\\t` is a tab, and `\\u0001` the character of this number."""

    def unescaped(found: re.Match[str]) -> str:
        number, octal, letter = found.groups()
        if letter is not None:
            return _ESCAPED.get(letter, letter)
        return chr(int(number, 16) if number is not None else int(octal, 8))

    return _ESCAPE.sub(unescaped, options.text(f"{prefix}field-delimiter", ","))


def _csv(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    quote = None if options.truth(f"{prefix}disable-quote-character") else options.text(f"{prefix}quote-character", '"')
    return CsvFormat(
        schema_of(columns),
        delimiter=field_delimiter(options, prefix),
        quote=quote,
        escape=options.text(f"{prefix}escape-character") or None,
        null_text=options.text(f"{prefix}null-literal"),
        element_delimiter=options.text(f"{prefix}array-element-delimiter", ";"),
        rounds=True,
        bad_values=_bad_values(options, prefix),
    )


def _raw(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    if len(columns) != 1:
        raise options.fail(f"format 'raw' has one column, not {len(columns)}")
    kind = to_arrow(columns[0].type)
    byteorder: Any = _BYTE_ORDERS[options.one_of(f"{prefix}endianness", tuple(_BYTE_ORDERS), "big-endian")]
    try:
        return RawFormat(kind, options.text(f"{prefix}charset", "UTF-8"), byteorder)
    except ValueError as error:
        raise options.fail(f"column {columns[0].name!r} of format 'raw' is {columns[0].type}: {error}") from error


def _avro_schema(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> dict[str, Any]:
    is_legacy = options.truth(f"{prefix}timestamp_mapping.legacy", True)
    fields = []
    for column in columns:
        try:
            kind = _avro_type("ms" if is_legacy else "us", to_arrow(column.type))
            fields.append(pa.field(column.name, kind, column.type.nullable))
        except ValueError as error:
            raise options.fail(f"column {column.name!r} is {column.type}: {error}") from error
    schema = avro_schema(pa.schema(fields))
    return _with_legacy_times(schema) if is_legacy else schema


def _avro_type(finest: str, kind: pa.DataType) -> pa.DataType:
    """The type whose Avro type is that of the messages of tables, with timestamps that have this unit at the finest."""
    if pa.types.is_timestamp(kind):
        if kind.unit in ("s", "ms"):
            return pa.timestamp("ms", kind.tz)
        if kind.unit == finest:
            return kind
        if finest == "us":
            raise ValueError("messages of Avro have timestamps of at most 6 digits; declare it with (6)")
        more = "declare it with (3), or set 'timestamp_mapping.legacy' to false, with which there are 6"
        raise ValueError(f"messages of Avro have timestamps of at most 3 digits; {more}")
    if pa.types.is_time(kind):
        if kind.unit not in ("s", "ms"):
            raise ValueError("messages of Avro have times of at most 3 digits; declare it with (3)")
        return pa.time32("ms")
    return with_items(kind, partial(_avro_type, finest))


def _with_legacy_times(schema: Any) -> Any:
    """The Avro schema with times without a zone as times with one, as Flink has them if not told otherwise."""
    if isinstance(schema, list):
        return [_with_legacy_times(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _with_legacy_times(value) for key, value in schema.items()}
    if changed.get("logicalType") == "local-timestamp-millis":
        changed["logicalType"] = "timestamp-millis"
    return changed


def _avro(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    return AvroFormat(_avro_schema(options, prefix, columns))


def _avro_confluent(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    user, _, password = options.text(f"{prefix}basic-auth.user-info").partition(":")
    registry = SchemaRegistry(options.required(f"{prefix}url"), user or None, password or None)
    return AvroFormat(
        _avro_schema(options, prefix, columns), registry=registry, subject=options.text(f"{prefix}subject") or None
    )


_FORMATS: dict[str, Callable[[ConnectorOptions, str, Sequence[TableColumn]], MessageFormat]] = {
    "avro": _avro,
    "avro-confluent": _avro_confluent,
    "canal-json": _canal,
    "csv": _csv,
    "debezium-json": _debezium,
    "json": _json,
    "maxwell-json": _maxwell,
    "ogg-json": _ogg,
    "protobuf": _protobuf,
    "raw": _raw,
}

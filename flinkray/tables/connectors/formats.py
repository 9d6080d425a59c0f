"""Formats of messages by the names that tables have for them, with their options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa

from flinkray.connectors.formats.avro import AvroFormat
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
from flinkray.tables.types.logical import BYTE_STRINGS, TypeRoot

_CHANGELOGS = frozenset({"canal-json", "debezium-json", "maxwell-json", "ogg-json"})
_AVRO: dict[TypeRoot, Any] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INTEGER: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
    TypeRoot.DATE: {"type": "int", "logicalType": "date"},
    TypeRoot.TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
    TypeRoot.TIMESTAMP_LTZ: {"type": "long", "logicalType": "timestamp-millis"},
}


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


def _csv(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    quote = None if options.truth(f"{prefix}disable-quote-character") else options.text(f"{prefix}quote-character", '"')
    return CsvFormat(
        schema_of(columns),
        delimiter=options.text(f"{prefix}field-delimiter", ","),
        quote=quote,
        escape=options.text(f"{prefix}escape-character") or None,
        null_text=options.text(f"{prefix}null-literal"),
        element_delimiter=options.text(f"{prefix}array-element-delimiter", ";"),
        rounds=True,
        bad_values=_bad_values(options, prefix),
    )


def _raw(options: ConnectorOptions, _prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    if len(columns) != 1:
        raise options.fail(f"format 'raw' has one column, not {len(columns)}")
    return RawFormat(bytes if columns[0].type.root in BYTE_STRINGS else str)


def _avro_schema(options: ConnectorOptions, columns: Sequence[TableColumn]) -> dict[str, Any]:
    fields = []
    for column in columns:
        kind = _AVRO.get(column.type.root)
        if kind is None:
            raise options.fail(f"column {column.name!r} is {column.type}, which tables of format 'avro' have not")
        fields.append({"name": column.name, "type": ["null", kind] if column.type.nullable else kind})
    return {"type": "record", "name": "record", "fields": fields}


def _avro(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    if not options.truth(key := f"{prefix}timestamp_mapping.legacy", True):
        raise options.fail(f"option {key!r} cannot be false: messages have all times as Avro's timestamp-millis")
    return AvroFormat(_avro_schema(options, columns))


def _avro_confluent(options: ConnectorOptions, prefix: str, columns: Sequence[TableColumn]) -> MessageFormat:
    user, _, password = options.text(f"{prefix}basic-auth.user-info").partition(":")
    registry = SchemaRegistry(options.required(f"{prefix}url"), user or None, password or None)
    return AvroFormat(
        _avro_schema(options, columns), registry=registry, subject=options.text(f"{prefix}subject") or None
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

"""`kafka` and `upsert-kafka`: messages of topics as rows, and topics that are tables by key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from msgspec import structs

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.kafka.java_properties import as_librdkafkas
from flinkray.connectors.kafka.offsets import KafkaOffsets
from flinkray.connectors.kafka.partitioners import KafkaPartitioner
from flinkray.connectors.kafka.sink import KafkaSink
from flinkray.connectors.kafka.source import KafkaSource
from flinkray.connectors.sink import Sink
from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.connectors.contract import Connector, TableSource, metadata_columns, physical_columns
from flinkray.tables.connectors.formats import is_changelog, message_format, skips_bad_messages
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table, TableColumn
from flinkray.tables.types.logical import MapType
from flinkray.types.changelogs import INSERTS, Changes

_READABLE = ("topic", "partition", "headers", "leader-epoch", "offset", "timestamp", "timestamp-type")
_WRITABLE = ("topic", "headers", "timestamp")
_STARTS = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_STOPS = ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_OFFSET = re.compile(r"partition:(\d+),offset:(\d+)")
_SERVERS = "bootstrap.servers"
_GROUP = "group.id"
_RESET = "auto.offset.reset"
_RESETS: tuple[Literal["earliest", "latest", "none"], ...] = ("earliest", "latest", "none")
_DESERIALIZERS = ("key.deserializer", "value.deserializer")
_SERIALIZERS = ("key.serializer", "value.serializer")
_AUTO_COMMIT = "enable.auto.commit"
_GUARANTEES = {
    "at-least-once": DeliveryGuarantee.AT_LEAST_ONCE,
    "exactly-once": DeliveryGuarantee.EXACTLY_ONCE,
    "none": DeliveryGuarantee.AT_LEAST_ONCE,  # it asks for less than all rows get
}
_PARTITIONER, _ROUND_ROBIN = "sink.partitioner", "round-robin"
_PARTITIONERS = ("default", "fixed", _ROUND_ROBIN)
_MAX_ROWS, _INTERVAL = "sink.buffer-flush.max-rows", "sink.buffer-flush.interval"
_WITHOUT_KEY, _WITH_KEY = "EXCEPT_KEY", "ALL"


class _Layout:
    """Which columns are in keys and which in values, and how they are written."""

    def __init__(self, table: Table, options: ConnectorOptions, upsert: bool) -> None:
        self.columns = physical_columns(table)
        self.options = options
        self.prefix = options.text("key.fields-prefix")
        self.key = table.primary_key if upsert else self._own_key()
        if upsert and not self.key:
            raise options.fail("PRIMARY KEY (...) NOT ENFORCED is missing: the topic is a table by key")
        include = options.one_of("value.fields-include", (_WITH_KEY, _WITHOUT_KEY), _WITH_KEY)
        self.key_in_value = include == _WITH_KEY
        self._check_prefix()
        self.value_key = self._value_key(upsert)
        if not upsert and table.primary_key and not is_changelog(options, self.value_key):
            raise options.fail(
                f"its messages are rows that are only added, of which no PRIMARY KEY ({', '.join(table.primary_key)}) "
                "can be true; leave it out, or make it a table of 'upsert-kafka'"
            )
        in_value = [each for each in self.columns if self.key_in_value or each.name not in self.key]
        if not in_value:
            raise options.fail(
                f"'value.fields-include' = '{_WITHOUT_KEY}' leaves no column for the value: all are of the key; set it "
                f"to '{_WITH_KEY}'"
            )
        self.value_format = message_format(options, self.value_key, in_value)
        self.key_format = self._key_format() if self.key else None

    def _own_key(self) -> tuple[str, ...]:
        """The columns that `key.fields` names, in its order."""
        key, names = _listed(self.options, "key.fields"), [column.name for column in self.columns]
        for name in key:
            if name not in names:
                raise self.options.fail(
                    f"'key.fields' names {name!r}{did_you_mean(name, names)}, which is no column that is stored"
                )
        if self.options.has("key.format") and not key:
            raise self.options.fail("'key.format' is given, and 'key.fields' does not say which columns are of the key")
        return key

    def _check_prefix(self) -> None:
        if not self.prefix:
            return
        if self.key_in_value:
            raise self.options.fail(
                f"'key.fields-prefix' is for columns that only the key has; set 'value.fields-include' to "
                f"'{_WITHOUT_KEY}'"
            )
        for name in self.key:
            if not name.startswith(self.prefix) or name == self.prefix:
                raise self.options.fail(f"column {name!r} is of the key, and has no name behind {self.prefix!r}")

    def _value_key(self, upsert: bool) -> str:
        """The option that says the format of values."""
        if upsert:
            return "value.format"
        if self.options.has("format") and self.options.has("value.format"):
            raise self.options.fail("'format' and 'value.format' mean the same; leave one out")
        return "value.format" if self.options.has("value.format") else "format"

    def _key_format(self) -> MessageFormat:
        """Of the key's columns in its order, which is that of texts and bytes."""
        by_name = {column.name: column for column in self.columns}
        in_key = [structs.replace(by_name[name], name=name.removeprefix(self.prefix)) for name in self.key]
        return message_format(self.options, "key.format", in_key)


def _listed(options: ConnectorOptions, key: str) -> tuple[str, ...]:
    """Names with semicolons between."""
    return tuple(filter(None, map(str.strip, options.text(key).split(";"))))


def _properties(options: ConnectorOptions) -> dict[str, str]:
    """Those of the client, most of which librdkafka calls as Java's does."""
    properties = options.with_prefix("properties.")
    for name in _DESERIALIZERS:
        options.has_no_effect(f"properties.{name}", "the table's formats read messages")
        properties.pop(name, None)
    for name in _SERIALIZERS:
        if name in properties:
            raise options.fail(f"option 'properties.{name}': the table's formats write messages; leave it out")
    if properties.pop(_AUTO_COMMIT, "false") != "false":
        options.has_no_effect(
            f"properties.{_AUTO_COMMIT}",
            f"offsets are committed with checkpoints, for 'properties.{_GROUP}', and without these not at all",
        )
    try:
        return as_librdkafkas(properties)
    except InvalidProgramError as error:
        raise options.fail(f"option 'properties.*': {error}") from error


def _servers(options: ConnectorOptions, properties: dict[str, str]) -> str:
    if _SERVERS not in properties:
        raise options.fail(f"option 'properties.{_SERVERS}' is missing")
    return properties.pop(_SERVERS)


def _topics(options: ConnectorOptions) -> str | tuple[str, ...]:
    """An expression, or names."""
    if not options.has("topic-pattern"):
        topics = _listed(options, "topic")
        if not topics:
            raise options.fail("option 'topic' is missing, or 'topic-pattern'")
        return topics
    if options.has("topic"):
        raise options.fail("'topic' and 'topic-pattern' both say which topics there are; leave one out")
    pattern = options.text("topic-pattern")
    try:
        re.compile(pattern)
    except re.error as error:
        raise options.fail(f"option 'topic-pattern': {pattern!r} is no regular expression: {error}") from error
    return pattern


# -- reading


def _source(table: Table, options: ConnectorOptions, upsert: bool) -> TableSource:
    layout = _Layout(table, options, upsert)
    properties = _properties(options)
    servers, group = _servers(options, properties), properties.pop(_GROUP, None)
    reset = properties.pop(_RESET, None)
    if upsert or options.text("scan.startup.mode", "group-offsets") != "group-offsets":
        options.has_no_effect(
            f"properties.{_RESET}",
            "it says where 'scan.startup.mode' = 'group-offsets' begins without a committed offset, and this table "
            "begins otherwise",
        )
    start = KafkaOffsets.earliest()
    if not upsert:
        start = _offsets(options, "scan.startup", _STARTS, "group-offsets", group, reset or "none") or start
    discovery = options.millis("scan.topic-partition-discovery.interval", 300_000)
    skips = skips_bad_messages(options, layout.value_key)
    source = KafkaSource(
        servers,
        _topics(options),
        layout.value_format,
        metadata={column.name: _source_name(column) for column in metadata_columns(table)},
        start=start,
        stop=_offsets(options, "scan.bounded", _STOPS, "unbounded", group),
        group_id=group,
        bad_messages="skip" if skips else "fail",
        bad_keys=_bad_keys(options) if layout.key else None,
        discovery_interval=f"{discovery} ms" if discovery else None,
        client_options=properties,
        key=layout.key or None,
        key_format=layout.key_format,
        upsert=upsert,
        key_prefix=layout.prefix,
    )
    only = layout.columns[0] if len(layout.columns) == 1 else None
    is_raw = only is not None and options.text(layout.value_key) == "raw"
    return TableSource(source, {only.name: "value"} if only is not None and is_raw else {})


def _bad_keys(options: ConnectorOptions) -> Literal["fail", "skip"]:
    return "skip" if skips_bad_messages(options, "key.format") else "fail"


def _source_name(column: TableColumn) -> str:
    """What a KafkaSource calls the metadata of a column."""
    if column.metadata_key == "headers" and isinstance(column.type, MapType):
        return "header_map"
    return column.metadata_key.replace("-", "_")


def _offsets(
    options: ConnectorOptions,
    prefix: str,
    modes: tuple[str, ...],
    default: str,
    group: str | None,
    reset: str = "none",
) -> KafkaOffsets | None:
    """
    Args:
        reset: where a partition begins that has no offset of the group; "none": that is an error.
    """
    mode = options.one_of(f"{prefix}.mode", modes, default)
    time, offsets = f"{prefix}.timestamp-millis", f"{prefix}.specific-offsets"
    milliseconds, has_offsets = options.whole_number(time), options.has(offsets)  # each is for one mode
    if (mode == "timestamp" and milliseconds is None) or (mode == "specific-offsets" and not has_offsets):
        missing = time if mode == "timestamp" else offsets
        raise options.fail(f"option {missing!r} is missing, which '{prefix}.mode' = '{mode}' needs")
    if mode == "timestamp" and milliseconds is not None:
        return KafkaOffsets.timestamp(milliseconds)
    if mode == "specific-offsets":
        return KafkaOffsets.at(_specific(options, offsets))
    if mode != "group-offsets":
        places = {"earliest-offset": KafkaOffsets.earliest(), "latest-offset": KafkaOffsets.latest()}
        return places.get(mode)
    if group is None:
        raise options.fail(
            f"'{prefix}.mode' is 'group-offsets', which needs 'properties.{_GROUP}'; or set it to '{modes[0]}'"
        )
    if reset not in _RESETS:
        raise options.fail(f"option 'properties.{_RESET}' is one of {', '.join(_RESETS)}, not {reset!r}")
    return KafkaOffsets.committed(reset)


def _specific(options: ConnectorOptions, key: str) -> dict[tuple[str, int], int]:
    """`partition:0,offset:42;partition:1,offset:300` of the one topic."""
    topics = _topics(options)
    if isinstance(topics, str) or len(topics) > 1:
        raise options.fail(f"option {key!r} has offsets of one topic, and this table reads several")
    found = {}
    for part in options.text(key).split(";"):
        pair = _OFFSET.fullmatch(part)
        if pair is None:
            raise options.fail(f"option {key!r} is written as partition:0,offset:42;partition:1,offset:300")
        found[(topics[0], int(pair[1]))] = int(pair[2])
    return found


# -- writing


def _sink(table: Table, options: ConnectorOptions, upsert: bool) -> Sink:
    layout = _Layout(table, options, upsert)
    properties = _properties(options)
    servers = _servers(options, properties)
    for of_sources in (_GROUP, _RESET):
        properties.pop(of_sources, None)
    options.refuse("sink.semantic", "it is 'sink.delivery-guarantee' now")
    options.has_no_effect(
        "sink.transaction-naming-strategy", "each transaction has a name of its own, which none has again"
    )
    guarantee = options.one_of("sink.delivery-guarantee", tuple(_GUARANTEES), "at-least-once")
    written = {column.metadata_key: column.name for column in metadata_columns(table) if not column.is_virtual}
    return KafkaSink(
        servers,
        value_format=layout.value_format,
        key=layout.key or None,
        key_format=layout.key_format,
        headers_column=written.get("headers"),
        client_options=properties,
        delivery_guarantee=_GUARANTEES[guarantee],
        transactional_id_prefix=options.text("sink.transactional-id-prefix") or None,
        key_in_value=layout.key_in_value,
        upsert=upsert,
        timestamp_column=written.get("timestamp"),
        key_prefix=layout.prefix,
        partitioner=_partitioner(options, layout, upsert),
        **_written_topics(options, written.get("topic")),
        **(_buffer(options) if upsert else {}),
    )


def _written_topics(options: ConnectorOptions, column: str | None) -> Mapping[str, Any]:
    topics = _topics(options)
    if not isinstance(topics, str) and len(topics) == 1:
        if column is not None:
            raise options.fail(f"column {column!r} is METADATA 'topic', and all rows go to one topic; make it VIRTUAL")
        return {"topic": topics[0]}
    if column is None:
        raise options.fail("rows go to several topics, and no column METADATA FROM 'topic' says to which")
    return {"topic_column": column, "allowed_topics": topics}


def _partitioner(
    options: ConnectorOptions, layout: _Layout, upsert: bool
) -> Literal["fixed"] | KafkaPartitioner | None:
    if upsert:
        options.refuse(_PARTITIONER, "rows that replace each other stay in one partition, which their key says")
        return None
    name = options.text(_PARTITIONER, "default")
    if name == _ROUND_ROBIN and layout.key:
        raise options.fail(f"'{_PARTITIONER}' = '{_ROUND_ROBIN}' is for messages without a key; leave 'key.fields' out")
    if name in ("default", _ROUND_ROBIN):
        return None
    if name == "fixed":
        return "fixed"
    if "." not in name:
        raise options.fail(
            f"option {_PARTITIONER!r} cannot be {name!r}{did_you_mean(name, _PARTITIONERS)}; it is one of "
            f"{', '.join(_PARTITIONERS)}, or a Python class such as shop.rows.Partitioner"
        )
    found = options.instance(_PARTITIONER)
    if not isinstance(found, KafkaPartitioner):
        raise options.fail(f"option {_PARTITIONER!r} names {name!r}, which is no KafkaPartitioner")
    return found


def _buffer(options: ConnectorOptions) -> Mapping[str, Any]:
    most, interval = options.whole_number(_MAX_ROWS, 0) or 0, options.millis(_INTERVAL, 0) or 0
    if (most > 0) != (interval > 0) or most < 0:
        raise options.fail(f"'{_MAX_ROWS}' and '{_INTERVAL}' are both above 0, or both 0: rows are not held back then")
    return {"buffer_rows": most, "buffer_interval": interval}


def _changes(_table: Table, options: ConnectorOptions) -> Changes:
    key = "format" if options.has("format") else "value.format"
    return Changes(updates=True, deletes=True) if is_changelog(options, key) else INSERTS


def _upserts(_table: Table, _options: ConnectorOptions) -> Changes:
    return Changes(updates=True, deletes=True, before=False)


KAFKA = Connector(partial(_source, upsert=False), partial(_sink, upsert=False), _READABLE, _WRITABLE, changes=_changes)
UPSERT_KAFKA = Connector(
    partial(_source, upsert=True), partial(_sink, upsert=True), _READABLE, _WRITABLE, changes=_upserts
)

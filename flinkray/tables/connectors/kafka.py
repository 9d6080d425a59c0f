"""`kafka` and `upsert-kafka`: messages of topics as rows, and topics that are tables by key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.kafka.offsets import KafkaOffsets
from flinkray.connectors.kafka.sink import KafkaSink
from flinkray.connectors.kafka.source import KafkaSource
from flinkray.connectors.sink import Sink
from flinkray.tables.connectors.contract import Connector, TableSource, metadata_columns, physical_columns
from flinkray.tables.connectors.formats import is_changelog, message_format, skips_bad_messages
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table, TableColumn
from flinkray.types.changelogs import INSERTS, Changes

_READABLE = ("topic", "partition", "offset", "timestamp", "headers")
_STARTS = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_STOPS = ("latest-offset", "group-offsets", "timestamp", "specific-offsets")
_SERVERS = "bootstrap.servers"
_GROUP = "group.id"
_RESET = "auto.offset.reset"
_RESETS: tuple[Literal["earliest", "latest", "none"], ...] = ("earliest", "latest", "none")
_GUARANTEES = ("at-least-once", "exactly-once")
_WITHOUT_KEY, _WITH_KEY = "EXCEPT_KEY", "ALL"


class _Layout:
    """Which columns are in keys and which in values, and how they are written."""

    def __init__(self, table: Table, options: ConnectorOptions, upsert: bool) -> None:
        self.columns = physical_columns(table)
        self.options = options
        if upsert and not table.primary_key:
            raise options.fail("PRIMARY KEY (...) NOT ENFORCED is missing: the topic is a table by key")
        own_key = [each for each in options.text("key.fields").split(";") if each] if not upsert else []
        self.key = tuple(table.primary_key if upsert else own_key)
        for name in self.key:
            if name not in [column.name for column in self.columns]:
                raise options.fail(f"'key.fields' names {name!r}, which is no column that is stored")
        options.refuse("key.fields-prefix", "columns of the key have their own names")
        include = options.one_of("value.fields-include", (_WITH_KEY, _WITHOUT_KEY), _WITH_KEY)
        self.key_in_value = include == _WITH_KEY
        self.value_key = "value.format" if upsert or options.has("value.format") else "format"
        in_value = [each for each in self.columns if self.key_in_value or each.name not in self.key]
        if not in_value:
            raise options.fail(
                f"'value.fields-include' = '{_WITHOUT_KEY}' leaves no column for the value: all are of the key; set it "
                f"to '{_WITH_KEY}'"
            )
        self.value_format = message_format(options, self.value_key, in_value)
        self.key_format = self._key_format() if self.key else None

    def _key_format(self) -> MessageFormat:
        in_key: Sequence[TableColumn] = [each for each in self.columns if each.name in self.key]
        return message_format(self.options, "key.format", in_key)


def _source(table: Table, options: ConnectorOptions, upsert: bool) -> TableSource:
    layout = _Layout(table, options, upsert)
    properties = options.with_prefix("properties.")
    servers, group = _servers(options, properties), properties.pop(_GROUP, None)
    metadata = tuple(dict.fromkeys(column.metadata_key for column in metadata_columns(table)))
    taken = {column.name for column in layout.columns} & set(metadata)
    if taken:
        raise options.fail(f"metadata {min(taken)!r} cannot be read beside a column of that name; rename the column")
    reset = properties.pop(_RESET, None)
    if reset is not None and (upsert or options.text("scan.startup.mode", "group-offsets") != "group-offsets"):
        raise options.fail(
            f"option 'properties.{_RESET}' says where 'scan.startup.mode' = 'group-offsets' begins without a committed "
            "offset, and this table begins otherwise; leave it out"
        )
    start = KafkaOffsets.earliest()
    if not upsert:
        start = _offsets(options, "scan.startup", _STARTS, "group-offsets", group, reset or "none")
    stop = None
    if options.has("scan.bounded.mode") and options.text("scan.bounded.mode") != "unbounded":
        stop = _offsets(options, "scan.bounded", _STOPS, "latest-offset", group)
    discovery = options.millis("scan.topic-partition-discovery.interval", 300_000)
    skips = skips_bad_messages(options, layout.value_key)
    source = KafkaSource(
        servers,
        _topics(options),
        layout.value_format,
        metadata=metadata,
        start=start,
        stop=stop,
        group_id=group,
        bad_messages="skip" if skips else "fail",
        discovery_interval=f"{discovery} ms" if discovery else None,
        client_options=properties,
        key=layout.key or None,
        key_format=layout.key_format,
        upsert=upsert,
    )
    columns = {column.name: column.metadata_key for column in metadata_columns(table)}
    only = layout.columns[0] if len(layout.columns) == 1 else None
    if only is not None and options.text(layout.value_key) == "raw":
        columns[only.name] = "value"
    return TableSource(source, columns)


def _servers(options: ConnectorOptions, properties: dict[str, str]) -> str:
    if _SERVERS not in properties:
        raise options.fail(f"option 'properties.{_SERVERS}' is missing")
    return properties.pop(_SERVERS)


def _topics(options: ConnectorOptions) -> str | tuple[str, ...]:
    if options.has("topic-pattern"):
        return options.text("topic-pattern")
    return tuple(options.required("topic").split(";"))


def _offsets(
    options: ConnectorOptions,
    prefix: str,
    modes: tuple[str, ...],
    default: str,
    group: str | None,
    reset: str = "none",
) -> KafkaOffsets:
    """
    Args:
        reset: where a partition begins that has no offset of the group; "none": that is an error.
    """
    mode = options.one_of(f"{prefix}.mode", modes, default)
    if mode == "timestamp":
        return KafkaOffsets.timestamp(int(options.required(f"{prefix}.timestamp-millis")))
    if mode == "specific-offsets":
        return KafkaOffsets.at(_specific(options, f"{prefix}.specific-offsets"))
    if mode != "group-offsets":
        return KafkaOffsets.earliest() if mode == "earliest-offset" else KafkaOffsets.latest()
    if group is None:
        raise options.fail(
            f"'{prefix}.mode' is 'group-offsets', which needs 'properties.{_GROUP}'; or set it to 'earliest-offset'"
        )
    if reset not in _RESETS:
        raise options.fail(f"option 'properties.{_RESET}' is one of {', '.join(_RESETS)}, not {reset!r}")
    return KafkaOffsets.committed(reset)


def _specific(options: ConnectorOptions, key: str) -> dict[tuple[str, int], int]:
    """`partition:0,offset:42;partition:1,offset:300` of the one topic."""
    topic = options.required("topic")
    found = {}
    for part in filter(None, options.required(key).split(";")):
        pairs = dict(each.partition(":")[::2] for each in part.split(","))
        try:
            found[(topic, int(pairs["partition"]))] = int(pairs["offset"])
        except (KeyError, ValueError):
            raise options.fail(f"option {key!r} is written as partition:0,offset:42;partition:1,offset:300") from None
    return found


def _sink(table: Table, options: ConnectorOptions, upsert: bool) -> Sink:
    layout = _Layout(table, options, upsert)
    properties = options.with_prefix("properties.")
    servers = _servers(options, properties)
    for of_sources in (_GROUP, _RESET):
        properties.pop(of_sources, None)
    options.one_of("sink.partitioner", ("default",), "default")
    guarantee = options.one_of("sink.delivery-guarantee", _GUARANTEES, "at-least-once")
    prefix = options.text("sink.transactional-id-prefix") or None
    headers = next((column.name for column in metadata_columns(table) if column.metadata_key == "headers"), None)
    return KafkaSink(
        servers,
        options.required("topic"),
        layout.value_format,
        key=layout.key or None,
        key_format=layout.key_format,
        headers_column=headers,
        client_options=properties,
        delivery_guarantee=(
            DeliveryGuarantee.EXACTLY_ONCE if guarantee == "exactly-once" else DeliveryGuarantee.AT_LEAST_ONCE
        ),
        transactional_id_prefix=prefix,
        key_in_value=layout.key_in_value,
        upsert=upsert,
    )


def _changes(_table: Table, options: ConnectorOptions) -> Changes:
    key = "format" if options.has("format") else "value.format"
    return Changes(updates=True, deletes=True) if is_changelog(options, key) else INSERTS


def _upserts(_table: Table, _options: ConnectorOptions) -> Changes:
    return Changes(updates=True, deletes=True, before=False)


KAFKA = Connector(
    partial(_source, upsert=False), partial(_sink, upsert=False), _READABLE, ("headers",), changes=_changes
)
UPSERT_KAFKA = Connector(
    partial(_source, upsert=True), partial(_sink, upsert=True), _READABLE, ("headers",), changes=_upserts
)

"""Messages of a topic as rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.message_format import Decoded, decode_each, rows_type, shown, with_metadata
from flinkray.connectors.kafka.settings import KafkaSourceSettings
from flinkray.errors import InvalidProgramError, RecordError
from flinkray.types.records import Kind, RecordType
from flinkray.types.rows import RowKind

log = logging.getLogger(__name__)

HEADER_TYPE = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
METADATA: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "headers": HEADER_TYPE,
    "key": pa.binary(),
    "timestamp_type": pa.string(),
    "leader_epoch": pa.int32(),
    "header_map": pa.map_(pa.string(), pa.binary()),
}
"""The columns that can be had beside those of the value."""
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
"""As Kafka calls what librdkafka numbers."""
_UPDATE_AFTER, _DELETE = RowKind.UPDATE_AFTER.value, RowKind.DELETE.value
_CREATE_TIME, _LOG_APPEND_TIME = 1, 2


def type_of_rows(settings: KafkaSourceSettings) -> RecordType:
    """The type of a source's rows.

    Raises:
        InvalidProgramError: there is no such metadata, or two columns would have one name; or what is said of keys does
            not go together.
    """
    decoded, keys = settings.value_format.record_type, _schema_of_keys(settings)
    if keys:
        own_keys = [field for field in keys if field.name not in decoded.schema.names]
        values = [field.with_nullable(True) if settings.upsert else field for field in decoded.schema]
        decoded = rows_type(pa.schema([*own_keys, *values]))
    if not settings.metadata_columns or not set(settings.metadata) <= METADATA.keys():
        return with_metadata(decoded, settings.metadata, METADATA, "KafkaSource")
    types = {name: METADATA[key] for name, key in zip(settings.metadata_columns, settings.metadata, strict=True)}
    return with_metadata(decoded, settings.metadata_columns, types, "KafkaSource")


def _schema_of_keys(settings: KafkaSourceSettings) -> pa.Schema:
    """The columns that come from keys; a message need have no key, so that they may be null."""
    key_format, names, value_format = settings.key_format, settings.key, settings.value_format
    if key_format is None or not names:
        if settings.upsert or key_format is not None:
            argument = "upsert=True" if settings.upsert else "key_format=..."
            raise InvalidProgramError(f"KafkaSource({argument}) needs key=, the columns that come from the key")
        return pa.schema([])
    if key_format.is_changelog:
        raise InvalidProgramError(f"a key is no change, which {type(key_format).__name__} reads")
    if settings.upsert and value_format.is_changelog:
        raise InvalidProgramError(
            f"{type(value_format).__name__} says itself what a row does; leave KafkaSource(upsert=True) out"
        )
    read, prefix = key_format.record_type, settings.key_prefix
    known = list(names[:1]) if read.kind is Kind.SCALAR else [prefix + name for name in read.schema.names]
    if len(set(names)) < len(names) or not set(names) <= set(known):
        raise InvalidProgramError(
            f"KafkaSource(key=...) takes columns that {type(key_format).__name__} reads, one for text or bytes, each "
            f"once{f', behind key_prefix={prefix!r}' if prefix else ''}, not {', '.join(names)}"
        )
    keys = pa.schema([pa.field(name, read.schema.field(known.index(name)).type) for name in names])
    for field in value_format.record_type.schema:
        if field.name in names and keys.field(field.name).type != field.type:
            raise InvalidProgramError(
                f"column {field.name!r} is {keys.field(field.name).type} in the key and {field.type} in the value; "
                "let KafkaSource(key_format=...) read that type, with CsvFormat or JsonFormat"
            )
    return keys


class KafkaRows:
    """Makes batches of messages of one partition. Their event time is that of the messages, as in Flink.

    Args:
        where: names the source in errors.
    """

    def __init__(self, settings: KafkaSourceSettings, where: str) -> None:
        self._settings = settings
        self._where = where
        self._type = type_of_rows(settings)

    def of(self, messages: Sequence[Any]) -> Batch:
        """The rows of the messages, in order."""
        contents = pa.array([message.value() for message in messages], pa.large_binary())
        values = decode_each(self._settings.value_format, contents)
        if self._settings.key_format is not None:
            return self._with_keys(messages, contents, values)
        if values.failures:
            self._handle([_Unreadable(each.index, each.reason) for each in values.failures], messages)
        return self._batch(messages, values.rows, values.data.columns, values.kinds)

    def _with_keys(self, messages: Sequence[Any], contents: pa.Array, values: Decoded) -> Batch:
        key_format = self._settings.key_format
        assert key_format is not None
        keys = decode_each(
            key_format, pa.array([message.key() for message in messages], pa.large_binary()), one_each=True
        )
        places_of_keys = _places(keys, len(messages))
        unreadable = [_Unreadable(each.index, each.reason, is_key=True) for each in keys.failures]
        rows = np.arange(len(messages)) if values.rows is None else values.rows
        places, kinds = np.arange(len(rows)), values.kinds
        if self._settings.upsert:
            unreadable += [
                _Unreadable(index, "there is none, and upsert=True needs one", is_key=True)
                for index, message in enumerate(messages)
                if message.key() is None
            ]
            rows, places = _with_tombstones(rows, np.flatnonzero(np.asarray(contents.is_null())))
            kinds = from_numpy(np.where(places < 0, _DELETE, _UPDATE_AFTER).astype(np.int8))
        unreadable_keys = [each.index for each in unreadable]
        unreadable += [_Unreadable(each.index, each.reason) for each in values.failures]
        if unreadable:
            self._handle(unreadable, messages)
            kept = ~np.isin(rows, unreadable_keys)
            rows, places = rows[kept], places[kept]
            kinds = None if kinds is None else kinds.filter(pa.array(kept))
        columns = self._joined(_taken(keys.data, places_of_keys[rows]), _taken(values.data, places), places < 0)
        return self._batch(messages, rows, columns, kinds)

    def _joined(
        self, keys: pa.RecordBatch, values: pa.RecordBatch, is_tombstone: npt.NDArray[np.bool_]
    ) -> list[pa.Array]:
        """The columns of the key that the value has not, and those of the value, which the key has for tombstones."""
        if self._settings.key_format.record_type.kind is Kind.SCALAR:  # type: ignore[union-attr]
            keys = keys.rename_columns(list(self._settings.key))
        elif self._settings.key_prefix:
            keys = keys.rename_columns([self._settings.key_prefix + name for name in keys.schema.names])
        keys = keys.select(list(self._settings.key))
        columns = {name: keys.column(name) for name in keys.schema.names if name not in values.schema.names}
        count = len(is_tombstone)
        chosen = from_numpy(np.arange(count) + np.where(is_tombstone, count, 0))
        for name, column in zip(values.schema.names, values.columns, strict=True):
            if name in keys.schema.names and is_tombstone.any():
                column = pa.concat_arrays([column, keys.column(name)]).take(chosen)
            columns[name] = column
        return list(columns.values())

    def _batch(
        self,
        messages: Sequence[Any],
        rows: npt.NDArray[np.int64] | None,
        columns: Sequence[pa.Array],
        kinds: pa.Array | None,
    ) -> Batch:
        """
        Args:
            rows: for each row the index of its message; None: each message gave one.
            columns: of the rows, behind those of metadata.
        """
        metadata = [self._column(name, messages) for name in self._settings.metadata]
        times = self._times(messages)
        if rows is not None:
            indices = from_numpy(rows)
            metadata = [column.take(indices) for column in metadata]
            times = None if times is None else times.take(indices)
        data = pa.RecordBatch.from_arrays([*metadata, *columns], schema=self._type.schema)
        return Batch(data, self._type.kind, times, kinds=kinds)

    def _column(self, name: str, messages: Sequence[Any]) -> pa.Array:
        arrow_type = METADATA[name]
        values: list[Any]
        if name == "timestamp":
            values = [_time_of(message) for message in messages]
        elif name == "timestamp_type":
            values = [_TIMESTAMP_TYPES[message.timestamp()[0]] for message in messages]
        elif name == "header_map":
            values = [list(dict(message.headers() or ()).items()) for message in messages]  # of one name the last
        elif name == "headers":
            values = [
                [{"name": header, "value": value} for header, value in message.headers() or ()] for message in messages
            ]
        else:
            values = [getattr(message, name)() for message in messages]
        return pa.array(values, arrow_type)

    def _times(self, messages: Sequence[Any]) -> pa.Array | None:
        times = [_time_of(message) for message in messages]
        return None if None in times else pa.array(times, pa.int64())

    def _handle(self, unreadable: Sequence[_Unreadable], messages: Sequence[Any]) -> None:
        settings = self._settings
        fails = {False: settings.bad_messages == "fail", True: (settings.bad_keys or settings.bad_messages) == "fail"}
        first = min(unreadable, key=lambda each: (not fails[each.is_key], each.index))
        message = messages[first.index]
        message_format = settings.key_format if first.is_key else settings.value_format
        assert message_format is not None
        content = message.key() if first.is_key else message.value()
        what = (
            f"the {'key of the ' if first.is_key else ''}message at offset {message.offset()} of partition "
            f"{message.partition()} of topic {message.topic()!r} cannot be read as {message_format.record_type}: "
            f"{first.reason}. It is {'null' if content is None else shown(content)}"
        )
        if fails[first.is_key]:
            option = "bad_keys" if first.is_key and settings.bad_keys else "bad_messages"
            raise RecordError(
                f"{self._where}: {what}. KafkaSource({option}='skip') leaves such messages out; to keep them, read "
                "bytes and use decode(..., bad_messages=OutputTag(...))"
            )
        count = len({each.index for each in unreadable})
        log.warning("%s: %d messages are left out: %s", self._where, count, what)


class _Unreadable(Struct, frozen=True):
    """A message whose key or value cannot be read."""

    index: int
    reason: str
    is_key: bool = False


def _places(keys: Decoded, messages: int) -> npt.NDArray[np.int64]:
    """For each message the place of its key among the decoded ones; -1: it is not there."""
    places = np.full(messages, -1)
    places[slice(None) if keys.rows is None else keys.rows] = np.arange(keys.data.num_rows)
    return places


def _with_tombstones(
    rows: npt.NDArray[np.int64], tombstones: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each row, and for each tombstone: the index of its message, in order, and the place of its value, or -1."""
    places = np.concatenate([np.arange(len(rows)), np.full(len(tombstones), -1)])
    both = np.concatenate([rows, tombstones])
    order = np.argsort(both, kind="stable")
    return both[order], places[order]


def _taken(data: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows at these places, nulls where a place is -1."""
    indices = from_numpy(places, places < 0)
    columns = [column.take(indices) for column in data.columns]
    return pa.RecordBatch.from_arrays(columns, names=data.schema.names)


def _time_of(message: Any) -> int | None:
    kind, milliseconds = message.timestamp()
    return milliseconds if kind in (_CREATE_TIME, _LOG_APPEND_TIME) else None

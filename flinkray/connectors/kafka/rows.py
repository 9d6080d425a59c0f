"""Messages of a topic as rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.formats.message_format import Decoded, MessageFormat, decode_each, shown
from flinkray.errors import InvalidProgramError, RecordError
from flinkray.types.records import Kind, RecordType

log = logging.getLogger(__name__)

HEADER_TYPE = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
METADATA: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "headers": HEADER_TYPE,
    "key": pa.binary(),
}
"""The columns that can be had beside those of the value."""
_CREATE_TIME, _LOG_APPEND_TIME = 1, 2


def type_of_rows(value_format: MessageFormat, metadata: Sequence[str]) -> RecordType:
    """The type of a source's rows.

    Raises:
        InvalidProgramError: there is no such metadata, or two columns would have one name.
    """
    decoded = value_format.record_type
    if not metadata:
        return decoded
    for name in metadata:
        if name not in METADATA:
            raise InvalidProgramError(f"KafkaSource(metadata=...) knows {', '.join(METADATA)}, not {name!r}")
        if name in decoded.schema.names:
            raise InvalidProgramError(
                f"KafkaSource would make two columns named {name!r}; name the one of the value anew"
            )
    if len(set(metadata)) < len(metadata):
        raise InvalidProgramError(f"KafkaSource(metadata=...) names a column twice: {', '.join(metadata)}")
    return RecordType(Kind.ROW, pa.schema([*((name, METADATA[name]) for name in metadata), *decoded.schema]))


class KafkaRows:
    """Makes batches of messages of one partition. Their event time is that of the messages, as in Flink.

    Args:
        where: names the source in errors.
    """

    def __init__(
        self, value_format: MessageFormat, metadata: Sequence[str], bad_messages: Literal["fail", "skip"], where: str
    ) -> None:
        self._format = value_format
        self._metadata = tuple(metadata)
        self._bad_messages = bad_messages
        self._where = where
        self._type = type_of_rows(value_format, metadata)

    def of(self, messages: Sequence[Any]) -> Batch:
        """A row for each message that is none without a value, in order."""
        decoded = decode_each(self._format, pa.array([message.value() for message in messages], pa.large_binary()))
        if decoded.failures:
            self._handle(decoded, messages)
        columns = [self._column(name, messages) for name in self._metadata]
        times = self._times(messages)
        if decoded.rows is not None:
            rows = from_numpy(decoded.rows)
            columns = [column.take(rows) for column in columns]
            times = None if times is None else times.take(rows)
        data = pa.RecordBatch.from_arrays([*columns, *decoded.data.columns], schema=self._type.schema)
        return Batch(data, self._type.kind, times)

    def _column(self, name: str, messages: Sequence[Any]) -> pa.Array:
        arrow_type = METADATA[name]
        values: list[Any]
        if name == "timestamp":
            values = [_time_of(message) for message in messages]
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

    def _handle(self, decoded: Decoded, messages: Sequence[Any]) -> None:
        first = decoded.failures[0]
        message = messages[first.index]
        what = (
            f"the message at offset {message.offset()} of partition {message.partition()} of topic {message.topic()!r} "
            f"cannot be read as {self._format.record_type}: {first.reason}. It is {shown(message.value())}"
        )
        if self._bad_messages == "fail":
            raise RecordError(
                f"{self._where}: {what}. KafkaSource(bad_messages='skip') leaves such messages out; to keep them, read "
                "bytes and use decode(..., bad_messages=OutputTag(...))"
            )
        log.warning("%s: %d messages are left out: %s", self._where, len(decoded.failures), what)


def _time_of(message: Any) -> int | None:
    kind, milliseconds = message.timestamp()
    return milliseconds if kind in (_CREATE_TIME, _LOG_APPEND_TIME) else None

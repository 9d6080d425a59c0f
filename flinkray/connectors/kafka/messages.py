"""Rows as messages of Kafka: topic, value, key, partition, headers and timestamp of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.errors import RecordError, UnknownColumnError

Message = tuple[str, bytes, bytes | None, int, Any, int]
"""Topic, value, key, partition (-1: by the key), headers, timestamp (0: the present), as librdkafka takes them."""


class MessageParts(Struct, frozen=True, kw_only=True):
    """Where the parts of a message come from; `KafkaSink` says what each is."""

    topic: str | None
    value_format: MessageFormat
    key: tuple[str, ...]
    key_format: MessageFormat
    topic_column: str | None
    partition_column: str | None
    headers_column: str | None


class MessageEncoder:
    """Makes messages of rows, a batch at a time.

    Args:
        where: operator and subtask, for errors.
    """

    def __init__(self, parts: MessageParts, where: str) -> None:
        self._parts = parts
        self._where = where

    def messages(self, batch: Batch) -> Iterable[Message]:
        """The messages of the rows, in order."""
        return zip(self._topics(batch.data), self._values(batch.data), *self._optional_parts(batch), strict=True)

    def _topics(self, data: pa.RecordBatch) -> Sequence[str]:
        if self._parts.topic is not None:
            return [self._parts.topic] * data.num_rows
        topics: list[str | None] = self._column(data, self._parts.topic_column).to_pylist()
        if None in topics:
            raise RecordError(f"{self._where}: column {self._parts.topic_column!r} is null, and says no topic")
        return topics  # type: ignore[return-value]

    def _values(self, data: pa.RecordBatch) -> list[bytes]:
        others = (self._parts.topic_column, self._parts.partition_column, self._parts.headers_column)
        names = [name for name in data.schema.names if name not in others]
        return self._encoded(self._parts.value_format, data.select(names))

    def _optional_parts(self, batch: Batch) -> tuple[Sequence[Any], ...]:
        """Keys, partitions, headers and times; of each a value per row that says what is to be left open."""
        parts, data = self._parts, batch.data
        keys: Sequence[Any] = [None] * data.num_rows
        if parts.key:
            for name in parts.key:
                self._column(data, name)
            keys = self._keys(data.select(list(parts.key)))
        partitions: Sequence[Any] = [-1] * data.num_rows
        if parts.partition_column is not None:
            partitions = self._column(data, parts.partition_column).fill_null(-1).to_pylist()
        headers: Sequence[Any] = [None] * data.num_rows
        if parts.headers_column is not None:
            lists = self._column(data, parts.headers_column).to_pylist()
            headers = [None if each is None else list(map(_header, each)) for each in lists]
        times: Sequence[int] = [0] * data.num_rows  # the present
        if batch.timestamps is not None:
            times = np.maximum(np.asarray(batch.timestamps), 0).tolist()
        return keys, partitions, headers, times

    def _keys(self, data: pa.RecordBatch) -> Sequence[bytes | None]:
        """Each row's key; without one where the only column of it is null."""
        if data.num_columns > 1 or not data.column(0).null_count:
            return self._encoded(self._parts.key_format, data)
        present = iter(self._encoded(self._parts.key_format, data.filter(data.column(0).is_valid())))
        return [next(present) if is_valid else None for is_valid in data.column(0).is_valid().to_pylist()]

    def _encoded(self, message_format: MessageFormat, data: pa.RecordBatch) -> list[bytes]:
        try:
            encoded: list[bytes] = message_format.encode(data).to_pylist()
        except ValueError as error:
            raise RecordError(f"{self._where}: a row cannot be written as a message: {error}") from error
        return encoded

    def _column(self, data: pa.RecordBatch, name: str | None) -> pa.Array:
        index = data.schema.get_field_index(name)
        if index < 0:
            raise UnknownColumnError(str(name), data.schema.names, self._where)
        return data.column(index)


def _header(value: Any) -> tuple[str, bytes]:
    """Name and value of a header that is a struct or a pair."""
    name, content = value.values() if isinstance(value, dict) else value
    return name, content

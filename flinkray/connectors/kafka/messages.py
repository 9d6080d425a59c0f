"""Rows as messages of Kafka: topic, value, key, partition, headers and timestamp of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.connectors.formats.message_format import MessageFormat, encode_rows
from flinkray.errors import InvalidProgramError, RecordError, UnknownColumnError
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.rows import RowKind

Message = tuple[str, bytes | None, bytes | None, int, Any, int]
"""Topic, value (None: a tombstone), key, partition (-1: by the key), headers, timestamp (0: the present), as librdkafka
takes them."""


class MessageParts(Struct, frozen=True, kw_only=True):
    """Where the parts of a message come from; `KafkaSink` says what each is."""

    topic: str | None
    value_format: MessageFormat
    key: tuple[str, ...]
    key_format: MessageFormat
    topic_column: str | None
    partition_column: str | None
    headers_column: str | None
    key_in_value: bool = True
    upsert: bool = False

    def __post_init__(self) -> None:
        """Refuses what does not go together."""
        if (self.topic is None) == (self.topic_column is None):
            raise InvalidProgramError("KafkaSink takes either topic= or topic_column=")
        if not self.key and (self.upsert or not self.key_in_value):
            argument = "upsert=True" if self.upsert else "key_in_value=False"
            raise InvalidProgramError(f"KafkaSink({argument}) needs key=, the columns of the key")
        if self.key_format.is_changelog:
            raise InvalidProgramError(f"a key is no change, which {type(self.key_format).__name__} writes")
        if self.upsert and self.value_format.is_changelog:
            raise InvalidProgramError(
                f"{type(self.value_format).__name__} says itself what a row does; leave KafkaSink(upsert=True) out"
            )

    @property
    def accepts(self) -> ChangelogMode:
        """The kinds of rows that there are messages for."""
        if self.upsert:
            return ChangelogMode.UPSERT
        return ChangelogMode.ALL if self.value_format.is_changelog else ChangelogMode.INSERT_ONLY


class MessageEncoder:
    """Makes messages of rows, a batch at a time.

    Args:
        where: operator and subtask, for errors.
    """

    def __init__(self, parts: MessageParts, where: str) -> None:
        self._parts = parts
        self._where = where

    def messages(self, batch: Batch) -> Iterable[Message]:
        """The messages of the rows, in order; of an upsert only the last one of each key."""
        keys = self._keys(batch.data)
        if self._parts.upsert and keys is not None:
            last = self._last_of_each_key(keys, batch.data)
            if len(last) < batch.num_rows:
                keys, batch = keys.take(last), batch.take(last)
        return zip(
            self._topics(batch.data),
            self._values(batch),
            [None] * batch.num_rows if keys is None else keys.to_pylist(),
            *self._optional_parts(batch),
            strict=True,
        )

    def _last_of_each_key(self, keys: pa.Array, data: pa.RecordBatch) -> pa.Array:
        """The indices of the rows after which none has the same key and goes to the same place."""
        places = [name for name in (self._parts.topic_column, self._parts.partition_column) if name is not None]
        columns = [keys, *(self._column(data, name) for name in places)]
        names = [f"part {index}" for index, _ in enumerate(columns)]
        rows = pa.table([*columns, pa.array(np.arange(data.num_rows))], names=[*names, "row"])
        return rows.group_by(names).aggregate([("row", "max")]).column("row_max").combine_chunks().sort()

    def _topics(self, data: pa.RecordBatch) -> Sequence[str]:
        if self._parts.topic is not None:
            return [self._parts.topic] * data.num_rows
        topics: list[str | None] = self._column(data, self._parts.topic_column).to_pylist()
        if None in topics:
            raise RecordError(f"{self._where}: column {self._parts.topic_column!r} is null, and says no topic")
        return topics  # type: ignore[return-value]

    def _values(self, batch: Batch) -> list[bytes | None]:
        parts = self._parts
        others = {parts.topic_column, parts.partition_column, parts.headers_column}
        if not parts.key_in_value:
            others.update(parts.key)
        data = batch.data.select([name for name in batch.data.schema.names if name not in others])
        if parts.upsert and batch.kinds is not None:
            is_there = pc.not_equal(batch.kinds, RowKind.DELETE.value)
            values = _spread(self._encoded(parts.value_format, data.filter(is_there)), is_there)
        else:
            values = self._encoded(parts.value_format, data, batch.kinds)
        return values.to_pylist()  # type: ignore[no-any-return]

    def _optional_parts(self, batch: Batch) -> tuple[Sequence[Any], ...]:
        """Partitions, headers and times; of each a value per row that says what is to be left open."""
        parts, data = self._parts, batch.data
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
        return partitions, headers, times

    def _keys(self, data: pa.RecordBatch) -> pa.Array | None:
        """Each row's key; without one where the only column of it is null."""
        if not self._parts.key:
            return None
        columns = {name: self._column(data, name) for name in self._parts.key}
        if self._parts.upsert:
            for name, column in columns.items():
                if column.null_count:
                    raise RecordError(
                        f"{self._where}: column {name!r} is null, and is of the key, by which rows replace each other"
                    )
        keyed = data.select(list(columns))
        if keyed.num_columns > 1 or not keyed.column(0).null_count:
            return self._encoded(self._parts.key_format, keyed)
        is_there = keyed.column(0).is_valid()
        return _spread(self._encoded(self._parts.key_format, keyed.filter(is_there)), is_there)

    def _encoded(self, message_format: MessageFormat, data: pa.RecordBatch, kinds: pa.Array | None = None) -> pa.Array:
        try:
            return encode_rows(message_format, data, kinds)
        except ValueError as error:
            raise RecordError(f"{self._where}: a row cannot be written as a message: {error}") from error

    def _column(self, data: pa.RecordBatch, name: str | None) -> pa.Array:
        index = data.schema.get_field_index(name)
        if index < 0:
            raise UnknownColumnError(str(name), data.schema.names, self._where)
        return data.column(index)


def _spread(values: pa.Array, is_there: pa.Array) -> pa.Array:
    """Null where there is no value."""
    places = np.asarray(is_there)
    return values.take(pa.array(np.cumsum(places) - 1, mask=~places))


def _header(value: Any) -> tuple[str, bytes]:
    """Name and value of a header that is a struct or a pair."""
    name, content = value.values() if isinstance(value, dict) else value
    return name, content

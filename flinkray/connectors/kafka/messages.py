"""Rows as messages of Kafka: topic, value, key, partition, headers and timestamp of each."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.connectors.formats.message_format import MessageFormat, encode_rows
from flinkray.connectors.kafka.partitioners import FixedPartitioner, KafkaPartitioner
from flinkray.errors import InvalidProgramError, RecordError, UnknownColumnError
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.rows import RowKind

Message = tuple[str, bytes | None, bytes | None, int, Any, int]
"""Topic, value (None: a tombstone), key, partition (-1: by the key), headers, timestamp (0: the present), as librdkafka
takes them."""
PartitionsOf = Callable[[str], Sequence[int]]
"""The partitions of a topic, in order."""


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
    timestamp_column: str | None = None
    key_prefix: str = ""
    allowed_topics: str | tuple[str, ...] | None = None
    partitioner: KafkaPartitioner | None = None
    buffer_rows: int = 0
    buffer_interval_ms: int = 0

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
        if self.allowed_topics is not None and self.topic_column is None:
            raise InvalidProgramError("KafkaSink(allowed_topics=...) is for topics that topic_column= says")
        if self.partitioner is not None and self.partition_column is not None:
            raise InvalidProgramError("KafkaSink takes partitioner= or partition_column=, not both")
        for name in self.key:
            if not name.startswith(self.key_prefix) or name == self.key_prefix != "":
                raise InvalidProgramError(
                    f"KafkaSink(key=...) names {name!r}, which does not begin with key_prefix={self.key_prefix!r}"
                )
        if (self.buffer_rows > 0) != (self.buffer_interval_ms > 0) or min(
            self.buffer_rows, self.buffer_interval_ms
        ) < 0:
            raise InvalidProgramError("KafkaSink takes buffer_rows= and buffer_interval= together, both above zero")
        if self.buffer_rows and not self.upsert:
            raise InvalidProgramError("KafkaSink(buffer_rows=...) is for upsert=True, where rows replace each other")

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
        self._partitioner = copy.deepcopy(parts.partitioner)

    def open(self, subtask_index: int, parallelism: int) -> None:
        """Says for which subtask it is."""
        if self._partitioner is not None:
            self._partitioner.open(subtask_index, parallelism)

    def messages(self, batch: Batch, partitions_of: PartitionsOf) -> Iterable[Message]:
        """The messages of the rows, in order; of an upsert only the last one of each key.

        Args:
            partitions_of: asked only where a partitioner chooses.
        """
        batch, found = self._last_changes(batch)
        topics, values = self._topics(batch.data), self._values(batch)
        keys = [None] * batch.num_rows if found is None else found.to_pylist()
        partitions = self._partitions(batch, topics, keys, values, partitions_of)
        headers = self._headers(batch.data)
        return zip(topics, values, keys, partitions, headers, self._times(batch), strict=True)

    def last_changes(self, batch: Batch) -> Batch:
        """Of an upsert the rows after which none has the same key."""
        return self._last_changes(batch)[0]

    def _last_changes(self, batch: Batch) -> tuple[Batch, pa.Array | None]:
        """With the keys of the rows."""
        keys = self._keys(batch.data)
        if self._parts.upsert and keys is not None:
            last = self._last_of_each_key(keys, batch.data)
            if len(last) < batch.num_rows:
                return batch.take(last), keys.take(last)
        return batch, keys

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
        for topic in set(topics):
            self._check_allowed(str(topic))
        return topics  # type: ignore[return-value]

    def _check_allowed(self, topic: str) -> None:
        allowed = self._parts.allowed_topics
        if allowed is None or (re.fullmatch(allowed, topic) if isinstance(allowed, str) else topic in allowed):
            return
        raise RecordError(
            f"{self._where}: column {self._parts.topic_column!r} says topic {topic!r}, which is none of "
            f"{allowed if isinstance(allowed, str) else ', '.join(allowed)}"
        )

    def _values(self, batch: Batch) -> list[bytes | None]:
        parts = self._parts
        others = {parts.topic_column, parts.partition_column, parts.headers_column, parts.timestamp_column}
        if not parts.key_in_value:
            others.update(parts.key)
        data = batch.data.select([name for name in batch.data.schema.names if name not in others])
        if parts.upsert and batch.kinds is not None:
            is_there = pc.not_equal(batch.kinds, RowKind.DELETE.value)
            values = _spread(self._encoded(parts.value_format, data.filter(is_there)), is_there)
        else:
            values = self._encoded(parts.value_format, data, batch.kinds)
        return values.to_pylist()  # type: ignore[no-any-return]

    def _partitions(
        self,
        batch: Batch,
        topics: Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        partitions_of: PartitionsOf,
    ) -> Sequence[int]:
        """Of each message; -1: by its key."""
        if self._parts.partition_column is not None:
            found: Sequence[int] = self._column(batch.data, self._parts.partition_column).fill_null(-1).to_pylist()
            return found
        partitioner = self._partitioner
        if partitioner is None:
            return [-1] * batch.num_rows
        known = {topic: partitions_of(topic) for topic in set(topics)}
        if isinstance(partitioner, FixedPartitioner):
            chosen = {topic: partitioner.of(partitions) for topic, partitions in known.items()}
            return [chosen[topic] for topic in topics]
        parts = zip(decode(batch), keys, values, topics, strict=True)
        return [partitioner.partition(row, key, value, topic, known[topic]) for row, key, value, topic in parts]

    def _headers(self, data: pa.RecordBatch) -> Sequence[Any]:
        """Of each message; None: it has none."""
        if self._parts.headers_column is None:
            return [None] * data.num_rows
        column = self._column(data, self._parts.headers_column)
        lists = column.to_pylist()
        if pa.types.is_map(column.type):  # as in Flink, what has no value is left out
            lists = [each and [(name, value) for name, value in each if value is not None] for each in lists]
        return [None if each is None else list(map(_header, each)) for each in lists]

    def _times(self, batch: Batch) -> Sequence[int]:
        """Of each message, in epoch milliseconds; 0: the present."""
        name = self._parts.timestamp_column
        if name is None:
            has_times = batch.timestamps is not None
            return np.maximum(np.asarray(batch.timestamps), 0).tolist() if has_times else [0] * batch.num_rows
        column = self._column(batch.data, name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        elif not pa.types.is_integer(column.type):
            raise RecordError(
                f"{self._where}: column {name!r} is {column.type}, and times of messages are timestamps or milliseconds"
            )
        times = column.cast(pa.int64())
        first = pc.min(times).as_py()
        if first is not None and first <= 0:
            raise RecordError(
                f"{self._where}: column {name!r} is {first} ms after 1970-01-01T00:00:00Z, and messages have times "
                "above 0; null is the present"
            )
        return times.fill_null(0).to_pylist()  # type: ignore[no-any-return]

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
        names = [name.removeprefix(self._parts.key_prefix) for name in columns]
        keyed = data.select(list(columns)).rename_columns(names)
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

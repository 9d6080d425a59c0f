"""Topics of Kafka as a sink."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.formats.raw import RawFormat
from flinkray.connectors.kafka.clients import (
    KafkaError,
    checked_client_options,
    confluent_kafka,
    explained,
)
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import InvalidProgramError, RecordError, UnknownColumnError, operator_label
from flinkray.redaction import redacted_value

log = logging.getLogger(__name__)

_DELIVERY_MS = 120_000
"""How long a message may take to be written, as long as with Java's client; then the job fails, and writes it again."""
_POLL_S = 0.1


class KafkaSink(Sink):
    """Rows as messages of a topic, at least once: at each checkpoint all rows before it are written, and after a
    failure those since the last one are written again. Comes with `flinkray[kafka]`.

    A message has the event time of its row. Messages with one key go to one partition, to the same one as with Java's
    client.

    Args:
        servers: where to begin to look for brokers: "host:port", or several with commas.
        topic: its name; or the name of a column that says it for each row, with `topic_column=`.
        value_format: how rows are written: bytes or text as they are by custom.
        key: the column, or columns, that make the key; they are part of the value too. None: messages have no key.
        key_format: how the key's columns are written; one of text, numbers or bytes as it is by custom.
        topic_column: a column of text, which is no part of the value.
        partition_column: a column of integers with the partition of each row, which is no part of the value; null: by
            the key.
        headers_column: a column of lists of (name, value), which is no part of the value.
        client_options: of librdkafka, for example for compression, TLS and SASL; shown nowhere.
    """

    def __init__(
        self,
        servers: str,
        topic: str | None = None,
        value_format: MessageFormat | None = None,
        key: str | Iterable[str] | None = None,
        key_format: MessageFormat | None = None,
        topic_column: str | None = None,
        partition_column: str | None = None,
        headers_column: str | None = None,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not servers:
            raise InvalidProgramError("KafkaSink(servers=...) takes 'host:port', or several with commas")
        if (topic is None) == (topic_column is None):
            raise InvalidProgramError("KafkaSink takes either topic= or topic_column=")
        self.servers = servers
        self.topic = topic
        self.value_format = RawFormat(bytes) if value_format is None else value_format
        self.key = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        if len(self.key) > 1 and key_format is None:
            raise InvalidProgramError("a key of several columns needs KafkaSink(key_format=...), such as JsonFormat")
        self.key_format = RawFormat() if key_format is None else key_format
        self.topic_column = topic_column
        self.partition_column = partition_column
        self.headers_column = headers_column
        self.client_options = checked_client_options(client_options or {})

    def __repr__(self) -> str:
        topic = self.topic or f"of column {self.topic_column!r}"
        options = redacted_value("client_options", self.client_options)
        return f"KafkaSink({self.servers!r}, {topic!r}, client_options={options})"

    def prepare(self) -> KafkaSink:
        confluent_kafka()  # an error names the extra before anything is started
        return self

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return _KafkaWriter(self, context)


class _KafkaWriter(SinkWriter):
    """Hands messages to librdkafka, which sends them on a thread of its own; waits for room there, and in `flush` until
    the brokers have all."""

    def __init__(self, sink: KafkaSink, context: SinkWriterContext) -> None:
        self._sink = sink
        self._where = operator_label(context.operator_name, f"{context.subtask_index + 1} of {context.parallelism}")
        self._failure: KafkaError | None = None
        options = {
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "message.timeout.ms": _DELIVERY_MS,
            "partitioner": "murmur2_random",
            "reconnect.backoff.ms": 1_000,
            **sink.client_options,
            "bootstrap.servers": sink.servers,
            "on_delivery": self._on_failure,
        }
        self._producer = confluent_kafka().Producer(options, logger=log)

    def write(self, batch: Batch) -> None:
        messages = zip(self._topics(batch.data), self._values(batch.data), *self._optional_parts(batch), strict=True)
        produce = self._producer.produce
        for topic, value, key, partition, headers, timestamp in messages:
            while True:
                try:
                    produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
                    break
                except BufferError:  # it holds as much as it may
                    self._producer.poll(_POLL_S)
                    self._check()
                except confluent_kafka().KafkaException as error:
                    raise KafkaError(f"{self._where}: {explained(error.args[0], self._sink.servers)}") from error
        self._producer.poll(0)
        self._check()

    def flush(self, end_of_input: bool) -> None:
        while self._producer.flush(1.0):  # messages that take too long are failures, so that this ends
            self._check()
        self._check()

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(0)

    # -- the parts of messages

    def _topics(self, data: pa.RecordBatch) -> Sequence[str]:
        if self._sink.topic is not None:
            return [self._sink.topic] * data.num_rows
        topics: list[str | None] = self._column(data, self._sink.topic_column).to_pylist()
        if None in topics:
            raise RecordError(f"{self._where}: column {self._sink.topic_column!r} is null, and says no topic")
        return topics  # type: ignore[return-value]

    def _values(self, data: pa.RecordBatch) -> list[bytes]:
        others = (self._sink.topic_column, self._sink.partition_column, self._sink.headers_column)
        names = [name for name in data.schema.names if name not in others]
        return self._encoded(self._sink.value_format, data.select(names))

    def _optional_parts(self, batch: Batch) -> tuple[Sequence[Any], ...]:
        """Keys, partitions, headers and times; of each a value per row that says what is to be left open."""
        sink, data = self._sink, batch.data
        keys: Sequence[Any] = [None] * data.num_rows
        if sink.key:
            for name in sink.key:
                self._column(data, name)
            keys = self._keys(data.select(list(sink.key)))
        partitions: Sequence[Any] = [-1] * data.num_rows
        if sink.partition_column is not None:
            partitions = self._column(data, sink.partition_column).fill_null(-1).to_pylist()
        headers: Sequence[Any] = [None] * data.num_rows
        if sink.headers_column is not None:
            lists = self._column(data, sink.headers_column).to_pylist()
            headers = [
                None
                if each is None
                else [tuple(header.values()) if isinstance(header, dict) else header for header in each]
                for each in lists
            ]
        times: Sequence[int] = [0] * data.num_rows  # the present
        if batch.timestamps is not None:
            times = np.maximum(np.asarray(batch.timestamps), 0).tolist()
        return keys, partitions, headers, times

    def _keys(self, data: pa.RecordBatch) -> Sequence[bytes | None]:
        """Each row's key; without one where the only column of it is null."""
        if data.num_columns > 1 or not data.column(0).null_count:
            return self._encoded(self._sink.key_format, data)
        present = iter(self._encoded(self._sink.key_format, data.filter(data.column(0).is_valid())))
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

    # -- failures

    def _on_failure(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = KafkaError(
                f"{self._where}: a message for topic {message.topic()!r} could not be written: "
                f"{explained(error, self._sink.servers)}"
            )

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure


def _header(value: Any) -> tuple[str, bytes]:
    """Name and value of a header that is a struct or a pair."""
    name, content = value.values() if isinstance(value, dict) else value
    return name, content

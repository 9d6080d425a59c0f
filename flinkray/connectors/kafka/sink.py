"""Topics of Kafka as a sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.formats.raw import RawFormat
from flinkray.connectors.kafka.clients import checked_client_options, confluent_kafka
from flinkray.connectors.kafka.messages import MessageEncoder, MessageParts
from flinkray.connectors.kafka.partitioners import FixedPartitioner, KafkaPartitioner
from flinkray.connectors.kafka.reducing import ReducingWriter
from flinkray.connectors.kafka.transactions.committer import KafkaCommitter
from flinkray.connectors.kafka.transactions.coordinators import TransactionCoordinators, security
from flinkray.connectors.kafka.writer import KafkaWriter, TransactionalKafkaWriter
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import InvalidProgramError
from flinkray.extras import import_package
from flinkray.redaction import redacted_value
from flinkray.time.durations import Duration, to_millis
from flinkray.types.changelogs import ChangelogMode


class KafkaSink(Sink):
    """Rows as messages of a topic. Comes with `flinkray[kafka]`.

    At least once, the default: at each checkpoint all rows before it are written, and after a failure those since the
    last one are written again. Exactly once: the rows between two checkpoints are one transaction, which is committed
    when the later one is complete, also by another process than wrote it; who reads committed messages only
    (`isolation.level=read_committed`) sees each row once, and as late as checkpoints are apart. A transaction that is
    not committed in time, as the job is down, is lost: `transaction.timeout.ms` in client_options, 15 minutes if not
    given, must be longer than that, and is bounded by the brokers' `transaction.max.timeout.ms`.

    A message has the event time of its row. Messages with one key go to one partition, to the same one as with Java's
    client.

    Args:
        servers: where to begin to look for brokers: "host:port", or several with commas.
        topic: its name; or the name of a column that says it for each row, with `topic_column=`.
        value_format: how rows are written: bytes or text as they are by custom. A ChangelogFormat takes a changelog.
        key: the column, or columns, that make the key. None: messages have no key.
        key_format: how the key's columns are written; one of text, numbers or bytes as it is by custom.
        topic_column: a column of text, which is no part of the value.
        partition_column: a column of integers with the partition of each row, which is no part of the value; null: by
            the key.
        headers_column: a column of lists of (name, value), which is no part of the value.
        client_options: of librdkafka, for example for compression, TLS and SASL; shown nowhere.
        delivery_guarantee: at least once or exactly once.
        transactional_id_prefix: of the transactions' names, which no two running jobs may share. None: made of the
            job's id and the operator's name.
        key_in_value: whether the key's columns are part of the value too.
        key_prefix: what the names of `key` begin with, which they have not in the key itself.
        upsert: the topic is a table that a changelog keeps up to date, by `key` (Flink's upsert-kafka): +I and +U are
            messages, -D is one without a value, -U none. Of several changes of a key at once only the last is written.
        timestamp_column: a column of timestamps, or of epoch milliseconds, with the time of each message, which is no
            part of the value; null: the present. None: messages have the event time of their rows.
        allowed_topics: what `topic_column` may say: names, or a regular expression (one text) that whole names must
            match. None: anything.
        partitioner: chooses the partition: "fixed" (each subtask writes to one), or a KafkaPartitioner. None: the key
            does; messages without one go to partitions in turns, some at a time.
        buffer_rows, buffer_interval: with `upsert`: so many rows, for so long, are held back, so that of several
            changes of a key only the last is written. Checkpoints write them all.
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
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        transactional_id_prefix: str | None = None,
        key_in_value: bool = True,
        upsert: bool = False,
        timestamp_column: str | None = None,
        key_prefix: str = "",
        allowed_topics: str | Iterable[str] | None = None,
        partitioner: Literal["fixed"] | KafkaPartitioner | None = None,
        buffer_rows: int = 0,
        buffer_interval: Duration = 0,
    ) -> None:
        if not servers:
            raise InvalidProgramError("KafkaSink(servers=...) takes 'host:port', or several with commas")
        self.servers = servers
        if delivery_guarantee is DeliveryGuarantee.NONE:
            raise InvalidProgramError("KafkaSink(delivery_guarantee=...) takes AT_LEAST_ONCE or EXACTLY_ONCE")
        keys = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        if len(keys) > 1 and key_format is None:
            raise InvalidProgramError("a key of several columns needs KafkaSink(key_format=...), such as JsonFormat")
        self.parts = MessageParts(
            topic=topic,
            value_format=RawFormat(bytes) if value_format is None else value_format,
            key=keys,
            key_format=RawFormat() if key_format is None else key_format,
            topic_column=topic_column,
            partition_column=partition_column,
            headers_column=headers_column,
            key_in_value=key_in_value,
            upsert=upsert,
            timestamp_column=timestamp_column,
            key_prefix=key_prefix,
            allowed_topics=(
                allowed_topics if allowed_topics is None or isinstance(allowed_topics, str) else tuple(allowed_topics)
            ),
            partitioner=_partitioner(partitioner),
            buffer_rows=buffer_rows,
            buffer_interval_ms=to_millis(buffer_interval, "buffer_interval"),
        )
        self.client_options = checked_client_options(client_options or {})
        self.transactional_id_prefix = transactional_id_prefix
        self._delivery_guarantee = delivery_guarantee
        if self._is_transactional:
            security(self.client_options)  # an error names what cannot be before anything is started

    def __repr__(self) -> str:
        topic = self.parts.topic or f"of column {self.parts.topic_column!r}"
        options = redacted_value("client_options", self.client_options)
        return f"KafkaSink({self.servers!r}, {topic!r}, client_options={options})"

    @property
    def accepts(self) -> ChangelogMode:
        return self.parts.accepts

    @property
    def key_columns(self) -> tuple[str, ...]:
        return () if self.accepts is ChangelogMode.INSERT_ONLY else self.parts.key

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self._delivery_guarantee

    @property
    def _is_transactional(self) -> bool:
        return self._delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def prepare(self) -> KafkaSink:
        confluent_kafka()  # an error names the extra before anything is started
        if self._is_transactional:
            import_package("aiokafka", "KafkaSink with exactly once")
        return self

    def _encoder(self, where: str) -> MessageEncoder:
        """What makes messages of rows; `where` names operator and subtask in errors."""
        return MessageEncoder(self.parts, where)

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        encoder = self._encoder(subtask_label(context))
        encoder.open(context.subtask_index, context.parallelism)
        writer = self._writer(encoder, context, restored)
        if not self.parts.buffer_rows:
            return writer
        parts = self.parts
        return ReducingWriter(writer, encoder.last_changes, parts.buffer_rows, parts.buffer_interval_ms, context)

    def _writer(self, encoder: MessageEncoder, context: SinkWriterContext, restored: Any) -> SinkWriter:
        if not self._is_transactional:
            return KafkaWriter(encoder, context, self.servers, self.client_options)
        prefix = self.transactional_id_prefix or f"{context.job_id}-{context.operator_name}"
        return TransactionalKafkaWriter(
            encoder, context, self.servers, self.client_options, prefix, frozenset(restored or ())
        )

    def create_committer(self) -> Committer | None:
        if not self._is_transactional:
            return None
        return KafkaCommitter(TransactionCoordinators(self.servers, self.client_options))


def _partitioner(given: object) -> KafkaPartitioner | None:
    if given is None or isinstance(given, KafkaPartitioner):
        return given
    if given == "fixed":
        return FixedPartitioner()
    raise InvalidProgramError(f"KafkaSink(partitioner=...) takes 'fixed' or a KafkaPartitioner, not {given!r}")

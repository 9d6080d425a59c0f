"""Topics of Kafka as a source."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.formats.raw import RawFormat
from flinkray.connectors.kafka.clients import checked_client_options, confluent_kafka, made, topic_ids
from flinkray.connectors.kafka.enumerator import KafkaEnumerator
from flinkray.connectors.kafka.offsets import KafkaOffsets, offsets_of
from flinkray.connectors.kafka.reader import KafkaReader
from flinkray.connectors.kafka.rows import type_of_rows
from flinkray.connectors.kafka.settings import KafkaSourceSettings
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError
from flinkray.redaction import redacted_value
from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import RecordType

log = logging.getLogger(__name__)


class KafkaSource(Source):
    """Messages of topics as rows, exactly once: offsets are in checkpoints, and no broker is asked for them after a
    failure. Each partition is a split, read by one subtask in order, with a watermark of its own. Comes with
    `flinkray[kafka]`.

    The event time of a row is the time of its message, unless the watermark strategy has a timestamp assigner.

    Args:
        servers: where to begin to look for brokers: "host:port", or several with commas.
        topics: their names, or a regular expression (one text) that whole names must match.
        value_format: how values are read; bytes as they are by custom. A message without a value gives no row. A
            ChangelogFormat makes a changelog.
        metadata: columns that rows have in front: of "topic", "partition", "offset", "timestamp", "timestamp_type"
            ("CreateTime" or "LogAppendTime"), "leader_epoch", "headers" (a list of name and value), "header_map" (the
            last value of each name), "key" (bytes). With a mapping they have other names: {"sent": "timestamp"}.
        start: where to begin where no checkpoint says: "earliest", "latest", "committed" (by the group), or
            KafkaOffsets.
        stop: where each partition ends, which makes the source bounded: "latest" is its end at the start of the job.
        group_id: offsets are committed for this group when a checkpoint is complete, to be seen by others.
        isolation: "read_committed" leaves out messages of transactions that are open or were aborted.
        bad_messages: "fail" ends the job with the first message that cannot be read, "skip" leaves them out, and logs.
        discovery_interval: how often to look for new partitions, and topics where `topics` is an expression; None:
            never. They are read from their first message.
        client_options: of librdkafka, for example for TLS and SASL; shown nowhere.
        key: the column, or columns, that rows have of the key, behind those of `metadata`; null where a message has no
            key. One that the value has too is the value's.
        key_format: how keys are read, with the columns of `key`; as text by custom.
        upsert: the topic is a table, a message the row that now has its key (Flink's upsert-kafka), which makes a
            changelog: with a value it is +U, without one -D, which has the columns of `key` and nulls. A message
            without a key cannot be read.
        key_prefix: what the names of `key` begin with, behind which they are those that `key_format` reads: so that the
            value may have columns of the same names.
        bad_keys: what becomes of messages whose keys cannot be read; None: the same as `bad_messages` says.
    """

    has_times_by_split = True

    def __init__(
        self,
        servers: str,
        topics: str | Iterable[str],
        value_format: MessageFormat | None = None,
        metadata: Iterable[str] | Mapping[str, str] = (),
        start: KafkaOffsets | Literal["earliest", "latest", "committed"] = "earliest",
        stop: KafkaOffsets | Literal["latest", "committed"] | None = None,
        group_id: str | None = None,
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
        bad_messages: Literal["fail", "skip"] = "fail",
        discovery_interval: Duration | None = "5 min",
        client_options: Mapping[str, Any] | None = None,
        key: str | Iterable[str] | None = None,
        key_format: MessageFormat | None = None,
        upsert: bool = False,
        key_prefix: str = "",
        bad_keys: Literal["fail", "skip"] | None = None,
    ) -> None:
        if not servers:
            raise InvalidProgramError("KafkaSource(servers=...) takes 'host:port', or several with commas")
        if isolation not in ("read_committed", "read_uncommitted"):
            raise InvalidProgramError(f"isolation is 'read_committed' or 'read_uncommitted', not {isolation!r}")
        if bad_messages not in ("fail", "skip"):
            raise InvalidProgramError(f"bad_messages is 'fail' or 'skip', not {bad_messages!r}")
        if bad_keys not in ("fail", "skip", None):
            raise InvalidProgramError(f"bad_keys is 'fail', 'skip' or None, not {bad_keys!r}")
        names: str | tuple[str, ...] = topics if isinstance(topics, str) else tuple(topics)
        if not names:
            raise InvalidProgramError("KafkaSource(topics=...) names no topic")
        if isinstance(names, str):
            _check_expression(names)
        interval = discovery_interval
        self._settings = KafkaSourceSettings(
            servers=servers,
            topics=names,
            value_format=RawFormat(bytes) if value_format is None else value_format,
            metadata=tuple(metadata.values() if isinstance(metadata, Mapping) else metadata),
            start=offsets_of(start, "start"),
            stop=None if stop is None else offsets_of(stop, "stop"),
            group_id=group_id,
            isolation=isolation,
            bad_messages=bad_messages,
            discovery_interval_ms=None if interval is None else to_millis(interval, "discovery_interval"),
            client_options=checked_client_options(client_options or {}),
            key=() if key is None else (key,) if isinstance(key, str) else tuple(key),
            key_format=RawFormat() if key_format is None and key is not None else key_format,
            upsert=upsert,
            key_prefix=key_prefix,
            metadata_columns=tuple(metadata) if isinstance(metadata, Mapping) else (),
            bad_keys=bad_keys,
        )
        self._type = type_of_rows(self._settings)
        places = (self._settings.start, self._settings.stop)
        if group_id is None and any(place is not None and place.kind == "committed" for place in places):
            raise InvalidProgramError("the offsets of a group need KafkaSource(group_id=...)")

    def __repr__(self) -> str:
        settings = self._settings
        options = redacted_value("client_options", settings.client_options)
        return f"KafkaSource({settings.servers!r}, {settings.topics!r}, client_options={options})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._settings.is_bounded else Boundedness.UNBOUNDED

    @property
    def is_changelog(self) -> bool:
        return self._settings.is_changelog

    @property
    def output_type(self) -> RecordType:
        return self._type

    def prepare(self) -> KafkaSource:
        confluent_kafka()  # an error names the extra before anything is started
        return self

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        settings = self._settings
        make_consumer = functools.partial(self._consumer, "flinkray")
        ask_for_ids = functools.partial(topic_ids, settings.servers, settings.client_options)
        return KafkaEnumerator(context, settings, restored, make_consumer, ask_for_ids)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return KafkaReader(context, self._settings, functools.partial(self._consumer, f"flinkray-{context.job_id}"))

    def _consumer(self, group: str, on_error: Callable[[Any], None]) -> Any:
        options = {
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": self._settings.isolation,
            "queued.max.messages.kbytes": 32_768,
            "fetch.queue.backoff.ms": 10,  # librdkafka's second would let a full queue run empty: a third of the rows
            "reconnect.backoff.ms": 1_000,  # each try is a line in the log
            **self._settings.client_options,
            "bootstrap.servers": self._settings.servers,
            "group.id": self._settings.group_id or group,
            "error_cb": on_error,
        }
        return made("Consumer", options, logger=log)


def _check_expression(topics: str) -> None:
    try:
        re.compile(topics)
    except re.error as error:
        raise InvalidProgramError(f"KafkaSource(topics={topics!r}) is no regular expression: {error}") from error

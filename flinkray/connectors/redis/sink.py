"""Streams and hashes of Redis as a sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.redis.clients import checked_url, redis, shown
from flinkray.connectors.redis.commands import RedisTarget
from flinkray.connectors.redis.commits import RedisCommitter
from flinkray.connectors.redis.writers import DirectWriter, RowsWriter
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import InvalidProgramError
from flinkray.time.durations import Duration, to_millis

_NAME = "RedisSink"


class RedisSink(Sink):
    """Rows as entries of a stream, or as hashes by key, of Redis or Valkey. Comes with `flinkray[redis]`.

    Exactly once by custom: the rows between two checkpoints are kept in the later one, and when it is complete, written
    by one script, which leaves a mark by which a second attempt knows that it need not. The script holds the server up
    for as long as it writes: three or four microseconds for a row of two columns. At least once, rows are written as
    they come.

    An entry has a field for each column, as text, and none where the row has null; or with a value_format one field,
    `value`.

    Args:
        url: "redis://host:6379/0", with user and password if need be; shown nowhere. A server and its replicas, not a
            cluster.
        stream: the name of a stream, to which rows are added.
        key_prefix: each row is a hash, whose name is this and the row's key: a later row replaces the fields it has.
        key: the columns of the key, joined by ":".
        value_format: how rows are written into one field; None: a field for each column.
        max_length: the stream keeps so many entries, or some more.
        delivery_guarantee: EXACTLY_ONCE or AT_LEAST_ONCE.
        marks_kept: how long a mark is kept: a savepoint may be restored for so long without its rows coming twice.
    """

    def __init__(
        self,
        url: str,
        stream: str | None = None,
        key_prefix: str | None = None,
        key: str | Iterable[str] | None = None,
        value_format: MessageFormat | None = None,
        max_length: int | None = None,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
        marks_kept: Duration = "7 d",
    ) -> None:
        keys = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        if (stream is None) == (key_prefix is None):
            raise InvalidProgramError(f"{_NAME} takes either stream= or key_prefix=")
        if (key_prefix is None) != (not keys):
            raise InvalidProgramError(f"{_NAME}: key_prefix= and key= go together")
        if max_length is not None and (stream is None or max_length < 1):
            raise InvalidProgramError(f"{_NAME}(max_length=...) is for a stream, and at least 1")
        if delivery_guarantee is DeliveryGuarantee.NONE:
            raise InvalidProgramError(f"{_NAME}(delivery_guarantee=...) takes AT_LEAST_ONCE or EXACTLY_ONCE")
        self._url = checked_url(url, _NAME)
        self._target = RedisTarget(
            stream=stream, key_prefix=key_prefix, key=keys, value_format=value_format, max_length=max_length
        )
        self._delivery_guarantee = delivery_guarantee
        self._marks_kept_s = max(1, to_millis(marks_kept, "marks_kept") // 1_000)

    def __repr__(self) -> str:
        place = self._target.stream or f"{self._target.key_prefix}*"
        return f"{_NAME}({shown(self._url)!r}, {place!r}, {self._delivery_guarantee.value})"

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self._delivery_guarantee

    def prepare(self) -> RedisSink:
        redis()  # an error names the extra before anything is started
        return self

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        where = subtask_label(context)
        if self._delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return RowsWriter(self._target, where)
        return DirectWriter(self._url, self._target, where)

    def create_committer(self) -> Committer | None:
        if self._delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            return None
        return RedisCommitter(self._url, self._marks_kept_s)

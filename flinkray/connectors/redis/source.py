"""Streams of Redis as a source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from flinkray.connectors.formats.message_format import MessageFormat, with_metadata
from flinkray.connectors.redis.clients import checked_url, redis, shown
from flinkray.connectors.redis.enumerator import RedisEnumerator
from flinkray.connectors.redis.reader import METADATA, RedisReader
from flinkray.connectors.redis.settings import RedisSourceSettings
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import record_type
from flinkray.types.records import RecordType

_NAME = "RedisSource"


class RedisSource(Source):
    """Entries of streams of Redis or Valkey as rows, exactly once: the last id read is in checkpoints, and no consumer
    group is used. Each stream is a split, read by one subtask in order, with a watermark of its own. Comes with
    `flinkray[redis]`.

    The event time of a row is the time in its entry's id, unless the watermark strategy has a timestamp assigner.

    Args:
        url: "redis://host:6379/0", with user and password if need be; shown nowhere.
        streams: their names.
        fields: the columns, each read from the field of its name: a pa.Schema, dataclass, NamedTuple, TypedDict or dict
            of name -> type. A field that an entry lacks is null.
        value_format: instead of `fields`: how the field `value` is read. A ChangelogFormat makes a changelog.
        metadata: columns that rows have in front: of "stream", "id".
        start: "earliest", "latest", or an id, behind which is read: "1700000000000-0".
        stop: "latest": the source ends with what is there when it starts; None: it does not end.
        trimmed: "fail" ends the job where entries were removed before they were read, or may have been: where the
            server does not count them, that is so if the one read last is gone when a job goes on. "skip" says it in
            the log and reads on, which is right where others delete what they have read.
    """

    def __init__(
        self,
        url: str,
        streams: str | Iterable[str],
        fields: Any = None,
        value_format: MessageFormat | None = None,
        metadata: Iterable[str] = (),
        start: str = "earliest",
        stop: Literal["latest"] | None = None,
        trimmed: Literal["fail", "skip"] = "fail",
    ) -> None:
        names = (streams,) if isinstance(streams, str) else tuple(streams)
        if not names:
            raise InvalidProgramError(f"{_NAME}(streams=...) names no stream")
        if (fields is None) == (value_format is None):
            raise InvalidProgramError(f"{_NAME} takes either fields= or value_format=")
        if stop not in (None, "latest"):
            raise InvalidProgramError(f"{_NAME}(stop=...) is 'latest' or None, not {stop!r}")
        if trimmed not in ("fail", "skip"):
            raise InvalidProgramError(f"{_NAME}(trimmed=...) is 'fail' or 'skip', not {trimmed!r}")
        self._settings = RedisSourceSettings(
            url=checked_url(url, _NAME),
            streams=names,
            fields=None if fields is None else record_type(fields).schema,
            value_format=value_format,
            metadata=tuple(metadata),
            start=start,
            is_bounded=stop is not None,
            fails_if_trimmed=trimmed == "fail",
        )
        self._type = with_metadata(self._settings.decoded_type, self._settings.metadata, METADATA, _NAME)

    def __repr__(self) -> str:
        return f"{_NAME}({shown(self._settings.url)!r}, {self._settings.streams!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._settings.is_bounded else Boundedness.UNBOUNDED

    @property
    def is_changelog(self) -> bool:
        value_format = self._settings.value_format
        return value_format is not None and value_format.is_changelog

    @property
    def output_type(self) -> RecordType:
        return self._type

    def prepare(self) -> RedisSource:
        redis()  # an error names the extra before anything is started
        return self

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return RedisEnumerator(context, self._settings, restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return RedisReader(context, self._settings, self._type)

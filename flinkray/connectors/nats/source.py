"""Streams of NATS JetStream as a source."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, Literal

from flinkray.connectors.formats.message_format import MessageFormat, with_metadata
from flinkray.connectors.nats.clients import NatsServer, nats
from flinkray.connectors.nats.enumerator import NatsEnumerator
from flinkray.connectors.nats.reader import METADATA, NatsReader
from flinkray.connectors.nats.settings import NatsSourceSettings
from flinkray.connectors.nats.subjects import ALL, checked_subject, overlap
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError
from flinkray.types.records import RecordType

_NAME = "NatsSource"


class NatsSource(Source):
    """Messages of a stream of NATS JetStream as rows, exactly once: the sequence of the last message read is in
    checkpoints, and nothing is acknowledged. Comes with `flinkray[nats]`.

    Each filter of subjects is a split, read by one subtask in order, with a watermark of its own. The event time of a
    row is the time at which its message was stored, unless the watermark strategy has a timestamp assigner.

    Args:
        servers: "nats://host:4222", or several of a cluster, with user and password or a token if need be; shown
            nowhere.
        stream: its name. It keeps messages that were read (retention 'limits').
        value_format: how payloads are read. A ChangelogFormat makes a changelog.
        subjects: filters such as "orders.*" or "orders.>", of which no two let the same message through; None: all.
        metadata: columns that rows have in front: of "subject", "sequence", "timestamp", "headers".
        start: "earliest", "latest", the sequence of the first message, or the time from which messages are read.
        stop: "latest": the source ends with what is there when it starts; a sequence: with that message; None: it does
            not end.
        gone: "fail" ends the job where the stream has deleted messages that were not read while the job stood still, or
            was made anew; "skip" reads on, and a new one from its first message.
        credentials: the path of a credentials file, on all nodes.
    """

    def __init__(
        self,
        servers: str | Iterable[str],
        stream: str,
        value_format: MessageFormat,
        subjects: str | Iterable[str] | None = None,
        metadata: Iterable[str] = (),
        start: str | int | datetime = "earliest",
        stop: Literal["latest"] | int | None = None,
        gone: Literal["fail", "skip"] = "fail",
        credentials: str | None = None,
    ) -> None:
        filters = (ALL,) if subjects is None else (subjects,) if isinstance(subjects, str) else tuple(subjects)
        for each in filters:
            checked_subject(each, f"{_NAME}(subjects=...)", may_be_filter=True)
        if not filters:
            raise InvalidProgramError(f"{_NAME}(subjects=...) names no subject")
        for one, other in combinations(filters, 2):
            if overlap(one, other):
                raise InvalidProgramError(f"{_NAME}(subjects=...): {one!r} and {other!r} let the same messages through")
        if stop is not None and stop != "latest" and not _is_sequence(stop):
            raise InvalidProgramError(f"{_NAME}(stop=...) is 'latest', a sequence from 1 on or None, not {stop!r}")
        if gone not in ("fail", "skip"):
            raise InvalidProgramError(f"{_NAME}(gone=...) is 'fail' or 'skip', not {gone!r}")
        self._settings = NatsSourceSettings(
            server=NatsServer((servers,) if isinstance(servers, str) else tuple(servers), credentials),
            stream=checked_stream(stream, _NAME),
            subjects=filters,
            value_format=value_format,
            metadata=tuple(metadata),
            start=_start(start),
            stop=stop,
            fails_if_gone=gone == "fail",
        )
        self._type = with_metadata(value_format.record_type, self._settings.metadata, METADATA, _NAME)

    def __repr__(self) -> str:
        return f"{_NAME}({str(self._settings.server)!r}, {self._settings.stream!r}, {self._settings.subjects!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.UNBOUNDED if self._settings.stop is None else Boundedness.BOUNDED

    @property
    def is_changelog(self) -> bool:
        return self._settings.value_format.is_changelog

    @property
    def output_type(self) -> RecordType:
        return self._type

    def prepare(self) -> NatsSource:
        nats()  # an error names the extra before anything is started
        return self

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return NatsEnumerator(context, self._settings, restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return NatsReader(context, self._settings, self._type)


def checked_stream(name: str, where: str) -> str:
    """The name of a stream.

    Raises:
        InvalidProgramError: it is none.
    """
    if not name or any(character in ".*>/\\" or character.isspace() for character in name):
        raise InvalidProgramError(f"{where}(stream=...): {name!r} is no name of a stream, which has no dots or spaces")
    return name


def _is_sequence(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _start(start: str | int | datetime) -> str | int:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidProgramError(f"{_NAME}(start=...) is a time without a time zone: {start}")
        return start.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if start not in ("earliest", "latest") and not _is_sequence(start):
        raise InvalidProgramError(
            f"{_NAME}(start=...) is 'earliest', 'latest', a sequence from 1 on or a datetime, not {start!r}"
        )
    return start

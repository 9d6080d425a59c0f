"""Which subtask reads which stream, and from where."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct

from flinkray.connectors.redis.clients import client, redis, refuse, shown
from flinkray.connectors.redis.settings import RedisSourceSettings
from flinkray.connectors.source import SplitEnumerator, SplitEnumeratorContext

FIRST = "0-0"
"""The id before all others."""


class RedisSplit(Struct, frozen=True):
    """A stream, with the id of the entry that was read last, and of the one at which it ends (None: it does not).
    `is_begun`: that entry was read, and is not just where the user wants to begin."""

    stream: str
    last_id: str
    stop_id: str | None = None
    is_begun: bool = False

    @property
    def split_id(self) -> str:
        return self.stream


class RedisEnumerator(SplitEnumerator):
    """Assigns each stream to one subtask, for good. Its state is the list of those that no reader has."""

    def __init__(
        self, context: SplitEnumeratorContext, settings: RedisSourceSettings, restored: Sequence[RedisSplit] | None
    ) -> None:
        self._context = context
        self._settings = settings
        self._restored = restored
        self._waiting: dict[int, list[RedisSplit]] = defaultdict(list)
        self._told: set[int] = set()
        """Subtasks whose readers know that no more streams will come."""

    def start(self) -> None:
        self._add(self._first_splits() if self._restored is None else self._restored)

    def handle_split_request(self, subtask_index: int) -> None: ...

    def add_reader(self, subtask_index: int) -> None:
        self._told.discard(subtask_index)  # one that was started again has heard nothing
        self._assign()

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._add(splits)

    def snapshot_state(self, checkpoint_id: int) -> list[RedisSplit]:
        return [split for splits in self._waiting.values() for split in splits]

    def close(self) -> None: ...

    def _add(self, splits: Sequence[RedisSplit]) -> None:
        for split in splits:
            self._waiting[zlib.crc32(split.stream.encode()) % self._context.parallelism].append(split)
        self._assign()

    def _assign(self) -> None:
        for subtask in sorted(self._context.registered_readers):
            if splits := self._waiting.pop(subtask, []):
                self._context.assign_splits(splits, subtask)
            if subtask not in self._told:
                self._told.add(subtask)
                self._context.signal_no_more_splits(subtask)

    def _first_splits(self) -> list[RedisSplit]:
        settings = self._settings
        if settings.start not in ("earliest", "latest") and not settings.is_bounded:
            return [RedisSplit(stream, settings.start) for stream in settings.streams]
        with closing(client(settings.url)) as connection:
            ends = {stream: self._end(connection, stream) for stream in settings.streams}
        starts = {"earliest": dict.fromkeys(ends, FIRST), "latest": ends}.get(settings.start)
        return [
            RedisSplit(
                stream, settings.start if starts is None else starts[stream], end if settings.is_bounded else None
            )
            for stream, end in ends.items()
        ]

    def _end(self, connection: Any, stream: str) -> str:
        """The id of the stream's last entry; of one that is not there yet, the one before all others."""
        try:
            return str(connection.xinfo_stream(stream)["last-generated-id"].decode())
        except redis().ResponseError as error:
            if "no such key" in str(error):
                return FIRST
            refuse(error, "RedisSource", f"cannot read stream {stream!r} of {shown(self._settings.url)}")
        except Exception as error:
            refuse(error, "RedisSource", f"cannot read stream {stream!r} of {shown(self._settings.url)}")

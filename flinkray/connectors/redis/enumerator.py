"""Which subtask reads which stream, and from where."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from flinkray.connectors.hashed_splits import HashedSplitEnumerator
from flinkray.connectors.redis.clients import client, redis, refuse, shown
from flinkray.connectors.redis.settings import RedisSourceSettings
from flinkray.connectors.redis.splits import FIRST, RedisSplit
from flinkray.connectors.source import SplitEnumeratorContext


class RedisEnumerator(HashedSplitEnumerator[RedisSplit]):
    """Assigns each stream to one subtask."""

    def __init__(
        self, context: SplitEnumeratorContext, settings: RedisSourceSettings, restored: Sequence[RedisSplit] | None
    ) -> None:
        super().__init__(context, restored)
        self._settings = settings

    def first_splits(self) -> list[RedisSplit]:
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

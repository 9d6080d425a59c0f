"""Rows of an epoch that are written together, once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from flinkray.connectors.committer import CommitRequest, Committer
from flinkray.connectors.redis.clients import client, explained, is_transient, refuse, shown
from flinkray.connectors.redis.commands import ONCE

MARK_PREFIX = "flinkray:commit:"
"""What the names of marks begin with."""


class RedisRows(Struct, frozen=True):
    """The commands of a writer for one checkpoint, and the name of the mark that says that they were run."""

    mark: str
    where: str
    commands: bytes
    """A list of commands as MessagePack, which the server's scripts read."""


class RedisCommitter(Committer):
    """Runs commands in one script each, which leaves a mark: whoever commits again finds it.

    Args:
        marks_kept_s: how long a mark is kept.
    """

    def __init__(self, url: str, marks_kept_s: int) -> None:
        self._url = url
        self._marks_kept_s = marks_kept_s
        self._client: Any = None

    def commit(self, requests: Sequence[CommitRequest[RedisRows]]) -> None:
        if self._client is None:
            self._client = client(self._url)
        for request in requests:
            rows = request.committable
            what = f"cannot commit checkpoint {request.checkpoint_id} to {shown(self._url)}"
            try:
                if not self._client.eval(ONCE, 1, rows.mark, rows.commands, self._marks_kept_s):
                    request.already_committed()
            except Exception as error:
                if not is_transient(error):
                    refuse(error, rows.where, what)
                request.retry_later(f"{what}: {explained(error)}")

    def close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                self._client.close()

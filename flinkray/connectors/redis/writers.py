"""Writers: rows at once, or kept for the commit of their checkpoint."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from flinkray.batches.batch import Batch
from flinkray.connectors.redis.clients import client, refuse, shown
from flinkray.connectors.redis.commands import RedisTarget, packed
from flinkray.connectors.redis.commits import MARK_PREFIX, RedisRows
from flinkray.connectors.sink import SinkWriter

_COMMANDS = 1_000
"""So many commands are sent before their answers are waited for."""


class DirectWriter(SinkWriter):
    """Writes rows as they come.

    Args:
        where: operator and subtask, for errors.
    """

    def __init__(self, url: str, target: RedisTarget, where: str) -> None:
        self._url = url
        self._target = target
        self._where = where
        self._client = client(url)

    def write(self, batch: Batch) -> None:
        commands = list(self._target.commands(batch.data, self._where))
        try:
            for start in range(0, len(commands), _COMMANDS):
                with self._client.pipeline(transaction=False) as pipeline:
                    for command in commands[start : start + _COMMANDS]:
                        pipeline.execute_command(*command)
                    pipeline.execute()
        except Exception as error:
            refuse(error, self._where, f"cannot write to {shown(self._url)}")

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the server may have closed it
            self._client.close()


class RowsWriter(SinkWriter):
    """Keeps the rows, as they will be written, for the checkpoint."""

    def __init__(self, target: RedisTarget, where: str) -> None:
        self._target = target
        self._where = where
        self._commands: list[list[Any]] = []

    def write(self, batch: Batch) -> None:
        self._commands.extend(self._target.commands(batch.data, self._where))

    def prepare_commit(self, checkpoint_id: int) -> list[RedisRows]:
        if not self._commands:
            return []
        commands, self._commands = self._commands, []
        mark = f"{MARK_PREFIX}{uuid.uuid4().hex}"
        return [RedisRows(mark, self._where, packed(commands))]

    def close(self) -> None:
        self._commands.clear()

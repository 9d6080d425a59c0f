"""Which files of a table are to be read: those of a snapshot, and those that are added later."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from flinkray.connectors.fetcher import AWAY_S, Patience
from flinkray.connectors.files.storage import explained
from flinkray.connectors.source import SplitEnumeratorContext
from flinkray.connectors.split_list import SplitQueueEnumerator
from flinkray.errors import ConnectorError

log = logging.getLogger(__name__)

LATEST = -1
"""In place of a version or snapshot behind which reading begins: the newest one at the start."""


class TablePosition(Struct, frozen=True):
    """How far a table has been looked through, and the splits that no reader has.

    Args:
        position: version or snapshot id; None: the table had none yet.
        table_id: of the table, where versions do not tell it from another one in its place; "" in savepoints that did
            not say.
    """

    position: int | None
    waiting: tuple[Any, ...]
    table_id: str = ""


class TableLog(ABC):
    """What a table says of its files. Called by the enumerator's thread, and may block.

    Both raise OSError where the table cannot be reached just now.
    """

    name: str
    """Of the table, for errors."""

    @abstractmethod
    def first(self) -> TablePosition:
        """What is read at the start."""

    @abstractmethod
    def after(self, position: int | None, table_id: str) -> TablePosition:
        """What has been added to that table since, the oldest first.

        Raises:
            InvalidProgramError: the table does not know any more, or has rows deleted or changed.
        """

    @abstractmethod
    def close(self) -> None: ...


class TableEnumerator(SplitQueueEnumerator[Any]):
    """Gives splits to whichever reader asks, and looks for further ones over time.

    Args:
        open_log: opens the table, in the enumerator's thread.
        interval_ms: between two looks; None: there is none after the first.
        restored: what the former enumerator knew; None: nothing.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        open_log: Callable[[], TableLog],
        interval_ms: int | None,
        restored: TablePosition | None = None,
    ) -> None:
        super().__init__(context, () if restored is None else restored.waiting, interval_ms is not None)
        self._interval_ms = interval_ms
        self._log = open_log()
        self._patience = Patience(lambda _: None, lambda: context.now_ms() / 1000)
        self._is_new = restored is None
        self._position, self._table_id = (None, "") if restored is None else (restored.position, restored.table_id)

    def start(self) -> None:
        if self._is_new:
            self._take(self._log.first())
        if self._interval_ms is not None:
            self._context.call_later(self._interval_ms, self._look)

    def snapshot_state(self, checkpoint_id: int) -> TablePosition:
        return TablePosition(self._position, tuple(self._waiting), self._table_id)

    def close(self) -> None:
        self._log.close()

    def _look(self) -> None:
        assert self._interval_ms is not None
        try:
            self._take(self._log.after(self._position, self._table_id))
        except OSError as error:  # of a network, say; the next look finds what this one would have found
            if not self._patience.asks_again():
                raise ConnectorError(
                    f"cannot look for new files of {self._log.name}, also {AWAY_S:.0f} s after the first try: "
                    f"{explained(error)}"
                ) from error
            log.warning(
                "cannot look for new files of %s, which is tried again in %d ms: %s",
                self._log.name,
                self._interval_ms,
                error,
            )
        else:
            self._patience.answered()
        self._context.call_later(self._interval_ms, self._look)

    def _take(self, found: TablePosition) -> None:
        self._position, self._table_id = found.position, found.table_id
        self._add(found.waiting)

"""Which files of a table are to be read: those of a snapshot, and those that are added later."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from flinkray.connectors.source import SplitEnumerator, SplitEnumeratorContext

log = logging.getLogger(__name__)


class TablePosition(Struct, frozen=True):
    """How far a table has been looked through, and the splits that no reader has.

    Args:
        position: version or snapshot id; None: the table had none yet.
    """

    position: int | None
    waiting: tuple[Any, ...]


class TableLog(ABC):
    """What a table says of its files. Called by the enumerator's thread, and may block.

    Both raise OSError where the table cannot be reached just now.
    """

    @abstractmethod
    def first(self) -> TablePosition:
        """What is read at the start."""

    @abstractmethod
    def after(self, position: int | None) -> TablePosition:
        """What has been added since, the oldest first.

        Raises:
            InvalidProgramError: the table does not know any more, or has rows deleted or changed.
        """

    @abstractmethod
    def close(self) -> None: ...


class TableEnumerator(SplitEnumerator):
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
        self._context = context
        self._interval_ms = interval_ms
        self._log = open_log()
        self._is_new = restored is None
        self._position = None if restored is None else restored.position
        self._waiting = deque(() if restored is None else restored.waiting)
        self._asking: dict[int, None] = {}
        """Subtasks that wait for a split, in the order in which they asked."""

    def start(self) -> None:
        if self._is_new:
            self._take(self._log.first())
        if self._interval_ms is not None:
            self._context.call_later(self._interval_ms, self._look)

    def add_reader(self, subtask_index: int) -> None:
        self._asking.pop(subtask_index, None)  # it was a former attempt that asked

    def handle_split_request(self, subtask_index: int) -> None:
        self._asking[subtask_index] = None
        self._assign()

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._waiting.extendleft(reversed(splits))
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> TablePosition:
        return TablePosition(self._position, tuple(self._waiting))

    def close(self) -> None:
        self._log.close()

    def _look(self) -> None:
        assert self._interval_ms is not None
        try:
            self._take(self._log.after(self._position))
        except OSError as error:  # of a network, say; the next look finds what this one would have found
            log.warning("cannot look for new files, which is tried again in %d ms: %s", self._interval_ms, error)
        self._context.call_later(self._interval_ms, self._look)

    def _take(self, found: TablePosition) -> None:
        self._position = found.position
        self._waiting.extend(found.waiting)
        self._assign()

    def _assign(self) -> None:
        for index in [each for each in self._asking if each in self._context.registered_readers]:
            if self._waiting:
                del self._asking[index]
                self._context.assign_splits([self._waiting.popleft()], index)
            elif self._interval_ms is None:
                del self._asking[index]
                self._context.signal_no_more_splits(index)

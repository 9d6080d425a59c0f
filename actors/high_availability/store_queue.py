"""What a Dispatcher has written off its thread: one piece after another, each until it is done."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.ports import EndpointContext
from flinkray.errors import CheckpointError

log = logging.getLogger(__name__)

# A store that fails may be back in a moment; asking it more often would not help it.
RETRY_MS = 1_000.0


@dataclass(frozen=True, slots=True)
class StoreWorkDone:
    """The endpoint -> itself, for `StoreQueue.on_done`."""

    result: Any
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class StoreRetryDue:
    """The endpoint -> itself, for `StoreQueue.on_retry_due`."""


@dataclass(frozen=True, slots=True)
class _Work:
    what: str
    work: Callable[[], Any]
    then: Callable[[Any], None]


class StoreQueue:
    """Belongs to one endpoint, in whose thread everything here runs but the work itself.

    Work that raises CheckpointError is repeated; whatever else it raises is fatal to the endpoint: LeadershipLostError
    means that another one has taken its place.
    """

    def __init__(self, context: EndpointContext) -> None:
        self._context = context
        self._queue: deque[_Work] = deque()
        self.failure: CheckpointError | None = None
        """Why the oldest piece is not done yet, where it was tried."""

    def put(self, what: str, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """`then` gets what `work` gives; nothing that is put later is begun before it has returned."""
        self._queue.append(_Work(what, work, then))
        if len(self._queue) == 1:
            self._begin()

    def on_done(self, message: StoreWorkDone) -> None:
        current = self._queue[0]
        if isinstance(message.error, CheckpointError):
            self.failure = message.error
            log.warning("%s: %s; once more in %g s", current.what, message.error, RETRY_MS / 1000)
            self._context.tell_self_later(RETRY_MS, StoreRetryDue())
            return
        if message.error is not None:
            self._context.fatal(message.error)
            return
        self.failure = None
        current.then(message.result)
        self._queue.popleft()
        if self._queue:
            self._begin()

    def on_retry_due(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._context.run_blocking(self._queue[0].work, StoreWorkDone)

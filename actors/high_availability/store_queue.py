"""What a Dispatcher has written off its thread: one piece after another, each until it is done."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from actors.protocol.ports import EndpointContext
from flinkray.errors import CheckpointError

log = logging.getLogger(__name__)

# A store that fails may be back in a moment; asking it more often would not help it.
RETRY_MS = 1_000.0


class StoreWorkDone(Struct, frozen=True):
    """The endpoint -> itself, for `StoreQueue.on_done`."""

    result: Any
    error: BaseException | None


class StoreRetryDue(Struct, frozen=True):
    """The endpoint -> itself, for `StoreQueue.on_retry_due`."""


class _Work(Struct, frozen=True):
    what: str
    work: Callable[[], Any]
    then: Callable[[Any], None]
    attempts: int | None


class StoreQueue:
    """Belongs to one endpoint, in whose thread everything here runs but the work itself.

    Work that raises CheckpointError is repeated, for ever or so many times; whatever else it raises is fatal to the
    endpoint: LeadershipLostError means that another one has taken its place.
    """

    def __init__(self, context: EndpointContext) -> None:
        self._context = context
        self._queue: deque[_Work] = deque()
        self._failures = 0
        """Of the oldest piece."""
        self.failure: CheckpointError | None = None
        """Why the oldest piece is not done yet, where it was tried."""

    def put(self, what: str, work: Callable[[], Any], then: Callable[[Any], None], attempts: int | None = None) -> None:
        """`then` gets what `work` gives; nothing that is put later is begun before it has returned.

        Args:
            attempts: with the last of them `then` gets the CheckpointError; None: there is no last one.
        """
        self._queue.append(_Work(what, work, then, attempts))
        if len(self._queue) == 1:
            self._begin()

    def on_done(self, message: StoreWorkDone) -> None:
        current, error = self._queue[0], message.error
        if error is not None and not isinstance(error, CheckpointError):
            self._context.fatal(error)
            return
        if error is None:
            current.then(message.result)
        else:
            self.failure = error
            self._failures += 1
            if self._failures != current.attempts:
                log.warning("%s: %s; once more in %g s", current.what, error, RETRY_MS / 1000)
                self._context.tell_self_later(RETRY_MS, StoreRetryDue())
                return
            log.error("%s: %s; given up after %d attempts", current.what, error, current.attempts)
            current.then(error)
        self.failure = None
        self._failures = 0
        self._queue.popleft()
        if self._queue:
            self._begin()

    def on_retry_due(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._context.run_blocking(self._queue[0].work, StoreWorkDone)

"""What a Dispatcher has its store do on another thread: one piece of work after the other, each until it is done."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from actors.protocol.main_thread import MainThread
from actors.protocol.ports import EndpointContext
from flinkray.errors import CheckpointError

log = logging.getLogger(__name__)

# How long after a failure the store is tried again: it may be back in a moment, and more often would not help it.
RETRY_MS = 1_000.0


class _Work(Struct, frozen=True):
    what: str
    work: Callable[[], Any]
    then: Callable[[Any], None]
    attempts: int | None


class StoreQueue:
    """The work of one endpoint, in whose thread everything here runs but the work itself.

    Work that raises CheckpointError is repeated, for ever or so many times; whatever else it raises is fatal to the
    endpoint: LeadershipLostError means that another one has taken its place.
    """

    def __init__(self, context: EndpointContext, main_thread: MainThread) -> None:
        self._context = context
        self._main_thread = main_thread
        self._queue: deque[_Work] = deque()
        self._failures = 0
        """How often the oldest piece of work has failed."""
        self.failure: CheckpointError | None = None
        """Why the oldest piece of work is not done yet, where it was tried."""

    def put(self, what: str, work: Callable[[], Any], then: Callable[[Any], None], attempts: int | None = None) -> None:
        """`then` gets what `work` gives; nothing that is put later is begun before it has returned.

        Args:
            attempts: with the last of them `then` gets the CheckpointError; None: there is no last one.
        """
        self._queue.append(_Work(what, work, then, attempts))
        if len(self._queue) == 1:
            self._begin()

    def _begin(self) -> None:
        self._main_thread.run_blocking(self._queue[0].work, self._on_done)

    def _on_done(self, result: Any, error: BaseException | None) -> None:
        current = self._queue[0]
        if error is not None and not isinstance(error, CheckpointError):
            self._context.fatal(error)
            return
        if error is None:
            current.then(result)
        else:
            self.failure = error
            self._failures += 1
            if self._failures != current.attempts:
                log.warning("%s: %s; once more in %g s", current.what, error, RETRY_MS / 1000)
                self._main_thread.run_later(RETRY_MS, self._begin)
                return
            log.error("%s: %s; given up after %d attempts", current.what, error, current.attempts)
            current.then(error)
        self.failure = None
        self._failures = 0
        self._queue.popleft()
        if self._queue:
            self._begin()

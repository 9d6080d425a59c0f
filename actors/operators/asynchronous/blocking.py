"""Coroutines that block: one that sleeps or waits without `await` holds up all calls of its event loop."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

log = logging.getLogger(__name__)

_LONGEST_STEP_MS = 100
"""How long a coroutine may keep the event loop before the log says so; as long as asyncio's own debug mode lets it."""


class BlockingWatch:
    """Says once where a coroutine keeps the event loop for long. Belongs to the loop's thread.

    Args:
        where: names operator and subtask in the log.
        now_ms: a clock that never goes back.
    """

    def __init__(self, where: str, now_ms: Callable[[], float]) -> None:
        self._where = where
        self._now_ms = now_ms
        self._has_said = False

    @types.coroutine
    def watched(self, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same coroutine, each step of which is timed."""
        step: Callable[[Any], Any] = coroutine.send
        argument: Any = None
        while True:
            began = self._now_ms()
            try:
                awaited = step(argument)
            except StopIteration as end:
                return end.value
            finally:
                self._look(self._now_ms() - began)
            try:
                argument, step = (yield awaited), coroutine.send
            except BaseException as error:  # also the cancellation of the call
                argument, step = error, coroutine.throw

    def _look(self, step_ms: float) -> None:
        if step_ms < _LONGEST_STEP_MS or self._has_said:
            return
        self._has_said = True
        log.warning(
            "%s: a coroutine kept the event loop for %.0f ms, and with it all other calls of this subtask: what blocks "
            "in async_invoke (time.sleep, requests, a long computation) must be awaited (asyncio.sleep, an asyncio "
            "client, asyncio.to_thread), or be a plain function, which async_map calls on threads",
            self._where,
            step_ms,
        )

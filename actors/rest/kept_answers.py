"""Answers that were given a moment ago, for those who ask the same. Thread-safe; knows no HTTP and no clock."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

# A page asks for some tens of things; more are those of a program that goes through all subtasks.
_MOST = 512
_LARGEST_BYTES = 32 * 1024


class KeptAnswers:
    """Bodies of answers, each for a moment: many pages and programs that look at one job cost it as much as one.

    Args:
        monotonic_ms: a clock.
        keeps_ms: how long an answer counts.
    """

    def __init__(self, monotonic_ms: Callable[[], float], keeps_ms: float) -> None:
        self._monotonic_ms = monotonic_ms
        self._keeps_ms = keeps_ms
        self._lock = threading.Lock()
        self._bodies: OrderedDict[Hashable, tuple[float, bytes]] = OrderedDict()
        self._generation = 0

    def get(self, asked: Hashable) -> bytes | None:
        """None: nothing that still counts."""
        with self._lock:
            found = self._bodies.get(asked)
        if found is None or self._monotonic_ms() - found[0] >= self._keeps_ms:
            return None
        return found[1]

    def begin(self) -> int:
        """To be called before an answer is made, for `put`."""
        return self._generation

    def put(self, asked: Hashable, body: bytes, begun: int) -> None:
        """Keeps an answer; not one that is large, or that `clear` came in between of."""
        if len(body) > _LARGEST_BYTES:
            return
        with self._lock:
            if begun != self._generation:
                return
            now = self._monotonic_ms()
            self._bodies.pop(asked, None)
            self._bodies[asked] = (now, body)
            oldest = next(iter(self._bodies))
            while len(self._bodies) > _MOST or now - self._bodies[oldest][0] >= self._keeps_ms > 0:
                del self._bodies[oldest]
                oldest = next(iter(self._bodies))

    def clear(self) -> None:
        """To be called when something was changed: nobody who did that is told what was before."""
        with self._lock:
            self._generation += 1
            self._bodies.clear()

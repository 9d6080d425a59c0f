"""Whether a partition has room or a gate has something to read, and who wants to know when that is so."""

from __future__ import annotations

import threading
from collections.abc import Callable

Listener = Callable[[], None]
"""Called on whatever thread made the thing available: it must only hand over and return."""


class Availability:
    """A level, not an event: it stays available until it is set otherwise. Any thread may call it."""

    def __init__(self, is_available: bool) -> None:
        self._lock = threading.Lock()
        self._is_available = is_available
        self._listeners: dict[Listener, None] = {}

    @property
    def is_available(self) -> bool:
        return self._is_available

    def on_available(self, listener: Listener) -> None:
        """Calls `listener` once: now if available, else when it becomes so. The same listener waits only once."""
        with self._lock:
            if not self._is_available:
                self._listeners[listener] = None
                return
        listener()

    def set_available(self) -> None:
        for listener in self.mark_available():
            listener()

    def mark_available(self) -> tuple[Listener, ...]:
        """Sets it, and leaves calling the listeners to the caller, who may hold a lock that they must not run under."""
        with self._lock:
            self._is_available = True
            listeners = tuple(self._listeners)
            self._listeners.clear()
        return listeners

    def set_unavailable(self) -> None:
        with self._lock:
            self._is_available = False

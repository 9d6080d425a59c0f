"""Hands items from a thread that may block to one that must not."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Handover(Generic[T]):
    """A bounded queue: the producing thread waits for room in `offer`, the consuming one never waits.

    Args:
        capacity: weight that may wait; at least one item always may.
        notify: called by the producing thread when there is something after there was nothing.
    """

    def __init__(self, capacity: int, notify: Callable[[], None]) -> None:
        self._capacity = capacity
        self._notify = notify
        self._items: deque[tuple[T, int]] = deque()
        self._weight = 0
        self._changed = threading.Condition()
        self._is_finished = False
        self._is_closed = False
        self._error: BaseException | None = None

    # -- the producing thread

    def offer(self, item: T, weight: int = 1) -> bool:
        """Waits for room and adds the item; False when the consumer has closed, and the producer should end."""
        with self._changed:
            while self._weight >= self._capacity and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return False
            was_empty = not self._items
            self._items.append((item, weight))
            self._weight += weight
        if was_empty:
            self._notify()
        return True

    def finish(self, error: BaseException | None = None) -> None:
        """Nothing more will be offered, because of `error` if there is one."""
        with self._changed:
            self._is_finished = True
            self._error = error
        self._notify()

    # -- the consuming thread

    def take_nowait(self, limit: int) -> list[T]:
        """Items of up to `limit` weight (or one that is heavier), in order; empty when there are none now.

        Raises:
            Exception: what the producer finished with, after its last item.
        """
        with self._changed:
            taken: list[T] = []
            while self._items and (not taken or self._items[0][1] <= limit):
                item, weight = self._items.popleft()
                taken.append(item)
                limit -= weight
                self._weight -= weight
            if taken:
                self._changed.notify_all()
            elif self._error is not None:
                raise self._error
            return taken

    @property
    def is_drained(self) -> bool:
        """The producer has finished and everything has been taken."""
        with self._changed:
            return self._is_finished and not self._items

    def close(self) -> None:
        """Lets the producer go: its `offer` gives False from now on."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()

    # -- any thread

    @property
    def is_closed(self) -> bool:
        return self._is_closed

"""Handing items over from a thread that may block to the task's thread, which must not (after Flink's Handover)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Handover(Generic[T]):
    """A bounded queue between two threads: the producer waits for room in `offer`, the consumer never waits.

    The common path takes no lock, since an item may be a single row: each counter has one writer, and appending to and
    popping from a deque are atomic. A flag is always set before what it guards is looked at once more, so neither side
    misses the other.

    Args:
        capacity: the total weight of items that may wait, in whatever unit `offer` is given; one item always may.
        notify: called by the producing thread when there is something after the consumer found nothing.
    """

    def __init__(self, capacity: int, notify: Callable[[], None]) -> None:
        self._capacity = capacity
        self._notify = notify
        self._items: deque[tuple[T, int]] = deque()
        self._offered = 0
        """Weight of all items so far; the producer's counter."""
        self._taken = 0
        """Weight of those that have been taken; the consumer's counter."""
        self._room = threading.Condition()
        self._waits_for_room = False
        self._waits_for_items = True
        self._is_finished = False
        self._is_closed = False
        self._error: BaseException | None = None

    # -- the producing thread

    def offer(self, item: T, weight: int = 1) -> bool:
        """Waits for room, then adds the item. False: the consumer has closed, so the producer should end."""
        if self._offered - self._taken >= self._capacity:
            self._wait_for_room()
        if self._is_closed:
            return False
        self._offered += weight
        self._items.append((item, weight))
        if self._waits_for_items:
            self._waits_for_items = False
            self._notify()
        return True

    def finish(self, error: BaseException | None = None) -> None:
        """Nothing more will be offered, because of `error` if there is one."""
        self._error = error
        self._is_finished = True
        self._notify()

    def _wait_for_room(self) -> None:
        with self._room:
            self._waits_for_room = True
            while self._offered - self._taken >= self._capacity and not self._is_closed:
                self._room.wait()
            self._waits_for_room = False

    # -- the consuming thread

    def take_nowait(self, limit: int) -> list[T]:
        """Items of up to `limit` weight (or one that is heavier), in order; empty when there are none now.

        Raises:
            Exception: what the producer finished with, after its last item.
        """
        error = self._error  # looked at first: items that were offered before it come before it
        if not self._items:
            self._waits_for_items = True
        taken: list[T] = []
        weights = 0
        while self._items and (not taken or weights + self._items[0][1] <= limit):
            item, weight = self._items.popleft()
            taken.append(item)
            weights += weight
        if not taken and error is not None:
            raise error
        self._taken += weights
        if self._waits_for_room:
            self._wake_producer()
        return taken

    @property
    def is_drained(self) -> bool:
        """The producer has finished and everything has been taken."""
        return self._is_finished and not self._items

    def close(self) -> None:
        """Lets the producer go: its `offer` gives False from now on."""
        self._is_closed = True
        self._items.clear()
        self._wake_producer()

    def _wake_producer(self) -> None:
        with self._room:
            self._room.notify_all()

    # -- any thread

    @property
    def is_closed(self) -> bool:
        return self._is_closed

"""Timers of a keyed operator, in event time and in processing time (after Flink's InternalTimerService)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple

from actors.operators.base import OperatorContext
from flinkray.types import MIN_TIMESTAMP, Timestamp

# Deleted timers stay in the heap until they come up; beyond this many, and more than half of it, it is rebuilt.
_DELETED_TIMERS_KEPT = 1024


class Timer(NamedTuple):
    timestamp: int
    key: Any


class TimerQueue:
    """Timers by (timestamp, key), each at most once; due ones come by timestamp, then by registration."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Any]] = []
        self._registered: dict[tuple[int, Hashable], int] = {}
        self._sequence = itertools.count()

    def __len__(self) -> int:
        return len(self._registered)

    def register(self, key: Hashable, timestamp: int) -> bool:
        """False where the key already has a timer for that time."""
        if (timestamp, key) in self._registered:
            return False
        sequence = next(self._sequence)
        self._registered[timestamp, key] = sequence
        heapq.heappush(self._heap, (timestamp, sequence, key))
        return True

    def delete(self, key: Hashable, timestamp: int) -> None:
        """Without effect where there is no such timer."""
        if self._registered.pop((timestamp, key), None) is None:
            return
        deleted = len(self._heap) - len(self._registered)
        if deleted > max(_DELETED_TIMERS_KEPT, len(self._registered)):
            self._heap = [(when, sequence, key) for (when, key), sequence in self._registered.items()]
            heapq.heapify(self._heap)

    def earliest(self) -> int | None:
        """The timestamp of the next timer."""
        while self._heap:
            timestamp, sequence, key = self._heap[0]
            if self._registered.get((timestamp, key)) == sequence:
                return timestamp
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: int) -> Timer | None:
        """Takes out the next timer at or before `now`."""
        timestamp = self.earliest()
        if timestamp is None or timestamp > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._registered[timestamp, key]
        return Timer(timestamp, key)

    def timers(self) -> list[Timer]:
        """All, in the order in which they would fire."""
        return [Timer(timestamp, key) for (timestamp, key), _ in sorted(self._registered.items(), key=_firing_order)]

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        live = [(when, key) for when, sequence, key in self._heap if self._registered.get((when, key)) == sequence]
        assert len(live) == len(self._registered), "every registered timer is in the heap once"


def _firing_order(item: tuple[tuple[int, Hashable], int]) -> tuple[int, int]:
    (timestamp, _), sequence = item
    return timestamp, sequence


class InternalTimerService:
    """The timers of all keys of one operator.

    The operator fires them: it iterates over `advance_watermark` when its watermark rises, and over
    `due_processing_timers` in `on_processing_time`, which the service calls in the task's thread when the earliest
    processing-time timer is due. Both take out one timer at a time, so a timer that a timer registers for a time
    already reached fires in the same round, and one that a row registers for the past fires at the next advance.
    One timer of the host serves all processing-time timers.
    """

    def __init__(self, context: OperatorContext, on_processing_time: Callable[[], None]) -> None:
        self._context = context
        self._on_processing_time = on_processing_time
        self._event_timers = TimerQueue()
        self._processing_timers = TimerQueue()
        self._watermark = MIN_TIMESTAMP
        self._armed_for: int | None = None
        self._armed: Any = None

    @property
    def current_watermark(self) -> Timestamp:
        return self._watermark

    def current_processing_time(self) -> int:
        return self._context.clock.now_ms()

    def register_event_time_timer(self, key: Hashable, timestamp: int) -> None:
        self._event_timers.register(key, timestamp)

    def delete_event_time_timer(self, key: Hashable, timestamp: int) -> None:
        self._event_timers.delete(key, timestamp)

    def register_processing_time_timer(self, key: Hashable, timestamp: int) -> None:
        if self._processing_timers.register(key, timestamp):
            self._arm()

    def delete_processing_time_timer(self, key: Hashable, timestamp: int) -> None:
        self._processing_timers.delete(key, timestamp)
        self._arm()

    def advance_watermark(self, timestamp: Timestamp) -> Iterator[Timer]:
        """Event time has reached `timestamp`: the timers that are due, to be fired while iterating."""
        self._watermark = timestamp
        while (timer := self._event_timers.pop_due(timestamp)) is not None:
            yield timer

    def due_processing_timers(self) -> Iterator[Timer]:
        """The processing-time timers that are due now, to be fired while iterating (to the end)."""
        now = self._context.clock.now_ms()
        while (timer := self._processing_timers.pop_due(now)) is not None:
            yield timer

    def close(self) -> None:
        """Nothing fires any more."""
        self._disarm()

    def snapshot(self) -> dict[str, list[tuple[int, Any]]]:
        """All timers as (timestamp, key), in firing order."""
        return {
            "event_time": [(timer.timestamp, timer.key) for timer in self._event_timers.timers()],
            "processing_time": [(timer.timestamp, timer.key) for timer in self._processing_timers.timers()],
        }

    def restore(self, snapshot: dict[str, Iterable[tuple[int, Any]]]) -> None:
        """Adds the timers of a snapshot; may be called several times, with the parts of several subtasks."""
        for timestamp, key in snapshot["event_time"]:
            self._event_timers.register(key, timestamp)
        for timestamp, key in snapshot["processing_time"]:
            self._processing_timers.register(key, timestamp)
        self._arm()

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        self._event_timers.check()
        self._processing_timers.check()
        earliest = self._processing_timers.earliest()
        assert self._armed_for == earliest, f"the host's timer is set for {self._armed_for}, not {earliest}"

    def _arm(self) -> None:
        earliest = self._processing_timers.earliest()
        if earliest == self._armed_for:
            return
        self._disarm()
        if earliest is not None:
            delay = max(0, earliest - self._context.clock.now_ms())
            self._armed = self._context.call_later(delay, self._host_timer_fired, "processing-time timers")
            self._armed_for = earliest

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed = None
        self._armed_for = None

    def _host_timer_fired(self) -> None:
        self._armed = None
        self._armed_for = None
        self._on_processing_time()
        self._arm()

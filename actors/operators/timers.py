"""Timers of a keyed operator, in event time and in processing time (after Flink's InternalTimerService)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from actors.operators.base import OperatorContext
from actors.state.keyed_parts import ROWS_PER_PIECE, TablePart
from actors.state.pickling import dumps, load_key
from actors.state.snapshot import KeyedTable, PendingPart, RestoredState
from flinkray.types import MIN_TIMESTAMP, Timestamp

# Deleted timers stay in the heap until they come up; beyond this many, and more than half of it, it is rebuilt.
_DELETED_TIMERS_KEPT = 1024

TIMER_SCHEMA = pa.schema([("group", pa.uint16()), ("key", pa.binary()), ("timestamp", pa.int64())])
"""Of the parts of a snapshot; keys are pickled."""


class Timer(NamedTuple):
    timestamp: int
    key: Any
    key_group: int = 0
    """Of the key."""


class TimerQueue:
    """Timers by (timestamp, key), each at most once; due ones come by timestamp, then by registration."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Any]] = []
        self._registered: dict[tuple[int, Hashable], tuple[int, int]] = {}
        """Sequence number and key group."""
        self._sequence = itertools.count()

    def __len__(self) -> int:
        return len(self._registered)

    def register(self, key: Hashable, timestamp: int, key_group: int = 0) -> bool:
        """False where the key already has a timer for that time."""
        if (timestamp, key) in self._registered:
            return False
        sequence = next(self._sequence)
        self._registered[timestamp, key] = sequence, key_group
        heapq.heappush(self._heap, (timestamp, sequence, key))
        return True

    def delete(self, key: Hashable, timestamp: int) -> None:
        """Without effect where there is no such timer."""
        if self._registered.pop((timestamp, key), None) is None:
            return
        deleted = len(self._heap) - len(self._registered)
        if deleted > max(_DELETED_TIMERS_KEPT, len(self._registered)):
            self._heap = [(when, sequence, key) for (when, key), (sequence, _) in self._registered.items()]
            heapq.heapify(self._heap)

    def earliest(self) -> int | None:
        """The timestamp of the next timer."""
        while self._heap:
            timestamp, sequence, key = self._heap[0]
            if self._is_live(timestamp, sequence, key):
                return timestamp
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: int) -> Timer | None:
        """Takes out the next timer at or before `now`."""
        timestamp = self.earliest()
        if timestamp is None or timestamp > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        _, key_group = self._registered.pop((timestamp, key))
        return Timer(timestamp, key, key_group)

    def timers(self) -> list[Timer]:
        """All, in the order in which they would fire."""
        in_order = sorted(self._registered.items(), key=lambda item: (item[0][0], item[1][0]))
        return [Timer(timestamp, key, key_group) for (timestamp, key), (_, key_group) in in_order]

    def freeze(self) -> Callable[[], list[Timer]]:
        """Gives, also on another thread, the timers as they are now, by key group, then as they were registered."""
        frozen = self._registered.copy()

        def by_key_group() -> list[Timer]:
            in_order = sorted(frozen.items(), key=lambda item: (item[1][1], item[1][0]))
            return [Timer(timestamp, key, key_group) for (timestamp, key), (_, key_group) in in_order]

        return by_key_group

    def _is_live(self, timestamp: int, sequence: int, key: Hashable) -> bool:
        registered = self._registered.get((timestamp, key))
        return registered is not None and registered[0] == sequence

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        live = [entry for entry in self._heap if self._is_live(*entry)]
        assert len(live) == len(self._registered), "every registered timer is in the heap once"


def _pieces(timers: Callable[[], list[Timer]]) -> Iterator[KeyedTable]:
    in_order = timers()
    for start in range(0, len(in_order), ROWS_PER_PIECE):
        piece = in_order[start : start + ROWS_PER_PIECE]
        groups = np.array([timer.key_group for timer in piece], np.int32)
        columns = [
            pa.array(groups.astype(np.uint16)),
            pa.array([dumps(timer.key) for timer in piece], pa.binary()),
            pa.array([timer.timestamp for timer in piece], pa.int64()),
        ]
        yield KeyedTable(groups, pa.Table.from_arrays(columns, schema=TIMER_SCHEMA))


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
        self._queues = (("timers/event time", self._event_timers), ("timers/processing time", self._processing_timers))
        self._watermark = MIN_TIMESTAMP
        self._armed_for: int | None = None
        self._armed: Any = None

    @property
    def current_watermark(self) -> Timestamp:
        return self._watermark

    def current_processing_time(self) -> int:
        return self._context.clock.now_ms()

    def register_event_time_timer(self, key: Hashable, timestamp: int, key_group: int = 0) -> None:
        """`key_group` is the key's, and comes back with the timer."""
        self._event_timers.register(key, timestamp, key_group)

    def delete_event_time_timer(self, key: Hashable, timestamp: int) -> None:
        self._event_timers.delete(key, timestamp)

    def register_processing_time_timer(self, key: Hashable, timestamp: int, key_group: int = 0) -> None:
        if self._processing_timers.register(key, timestamp, key_group):
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

    def snapshot(self, owned: range) -> list[PendingPart]:
        """All timers, for a checkpoint; quick.

        Args:
            owned: the key groups of the subtask.
        """
        return [
            TablePart(name, TIMER_SCHEMA, partial(_pieces, queue.freeze()), owned)
            for name, queue in self._queues
            if len(queue)
        ]

    def restore(self, restored: RestoredState) -> None:
        """Adds the timers of this subtask's key groups."""
        for name, queue in self._queues:
            for table in restored.keyed(name):
                columns = (table.column(name).to_pylist() for name in TIMER_SCHEMA.names)
                for key_group, key, timestamp in zip(*columns, strict=True):
                    queue.register(load_key(key), timestamp, key_group)
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

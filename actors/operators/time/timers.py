"""Timers of a keyed operator, in event time and in processing time (after Flink's InternalTimerService)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from actors.operators.contract.operator import OperatorContext
from actors.state.snapshots.keyed_parts import ROWS_PER_TABLE, TablePart
from actors.state.snapshots.pickling import dumps, load_key
from actors.state.snapshots.snapshot import KeyedTable, PendingPart, RestoredState
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

# Deleted timers stay in the heap until they are due. If there are more than so many of them, and they are more than
# half of the heap, it is rebuilt.
_MOST_DELETED_TIMERS = 1024

TIMER_SCHEMA = pa.schema([("group", pa.uint16()), ("key", pa.binary()), ("timestamp", pa.int64())])
"""The schema of timers in a snapshot; keys are pickled."""


class Timer(NamedTuple):
    """A timer of one key."""

    timestamp: int
    """Milliseconds since the epoch at which the timer fires."""
    key: Any
    key_group: int = 0
    """The key group of the key."""


_OneTimer = tuple[Hashable, int]
"""The key and key group of a timer."""
_Bucket = _OneTimer | dict[Hashable, int]
"""The timers of one timestamp: a single one, or several by key in the order of registration."""


class TimerQueue:
    """Timers by (timestamp, key), each at most once; due ones come by timestamp, then by registration.

    Only timestamps are ordered by a heap, so that timers for the same time (one per key at the end of each minute,
    for example) cost no more than entries of a dict.
    """

    def __init__(self) -> None:
        self._heap: list[int] = []
        """Every timestamp that has timers, and maybe some that have none any more or are there twice."""
        self._buckets: dict[int, _Bucket] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def register(self, key: Hashable, timestamp: int, key_group: int = 0) -> bool:
        """Adds a timer; False: the key already has one for that time."""
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            self._buckets[timestamp] = key, key_group
            heapq.heappush(self._heap, timestamp)
        elif isinstance(bucket, dict):
            if key in bucket:
                return False
            bucket[key] = key_group
        else:
            if _is_same(bucket[0], key):
                return False
            self._buckets[timestamp] = {bucket[0]: bucket[1], key: key_group}
        self._size += 1
        return True

    def delete(self, key: Hashable, timestamp: int) -> None:
        """Removes a timer. Without effect where there is no such timer."""
        bucket = self._buckets.get(timestamp)
        if isinstance(bucket, dict):
            if bucket.pop(key, None) is None:
                return
        elif bucket is None or not _is_same(bucket[0], key):
            return
        self._size -= 1
        if isinstance(bucket, dict) and bucket:
            return
        del self._buckets[timestamp]
        deleted = len(self._heap) - len(self._buckets)
        if deleted > max(_MOST_DELETED_TIMERS, len(self._buckets)):
            self._heap[:] = self._buckets
            heapq.heapify(self._heap)

    def earliest(self) -> int | None:
        """The timestamp of the next timer."""
        heap, buckets = self._heap, self._buckets
        while heap and heap[0] not in buckets:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def due(self, now: int) -> Iterator[Timer]:
        """Removes the timers at or before `now` and gives them one at a time, so that timers which are registered or
        deleted meanwhile count."""
        heap, buckets = self._heap, self._buckets
        while heap and heap[0] <= now:
            timestamp = heap[0]
            bucket = buckets.get(timestamp)
            if isinstance(bucket, dict):
                for key in list(bucket):
                    key_group = bucket.pop(key, None)
                    if key_group is not None:
                        self._size -= 1
                        if not bucket:
                            del buckets[timestamp]
                        yield Timer(timestamp, key, key_group)
                continue
            heapq.heappop(heap)
            if bucket is not None:
                del buckets[timestamp]
                self._size -= 1
                yield Timer(timestamp, *bucket)

    def timers(self) -> list[Timer]:
        """All timers, in the order in which they would fire."""
        return _in_order(self._frozen_buckets())

    def freeze(self) -> Callable[[], list[Timer]]:
        """A function that gives, on any thread, the timers as they are now, by key group, then as they would fire."""
        frozen = self._frozen_buckets()
        return lambda: sorted(_in_order(frozen), key=lambda timer: timer.key_group)

    def _frozen_buckets(self) -> dict[int, _Bucket]:
        frozen = self._buckets.copy()
        for timestamp, bucket in frozen.items():
            if isinstance(bucket, dict):
                frozen[timestamp] = bucket.copy()
        return frozen

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        assert set(self._buckets) <= set(self._heap), "every timestamp that has timers is in the heap"
        assert all(self._buckets.values()), "no timestamp is kept without timers"
        assert len(self.timers()) == self._size, "the size is the number of timers"


def _is_same(key: Hashable, other: Hashable) -> bool:
    """Whether a dict would take both for the same key: a NaN too is the same as itself."""
    return key is other or key == other


def _in_order(buckets: dict[int, _Bucket]) -> list[Timer]:
    return [
        Timer(timestamp, key, key_group)
        for timestamp in sorted(buckets)
        for key, key_group in _items(buckets[timestamp])
    ]


def _items(bucket: _Bucket) -> Iterable[_OneTimer]:
    return bucket.items() if isinstance(bucket, dict) else (bucket,)


def _tables(timers: Callable[[], list[Timer]]) -> Iterator[KeyedTable]:
    in_order = timers()
    for start in range(0, len(in_order), ROWS_PER_TABLE):
        part = in_order[start : start + ROWS_PER_TABLE]
        groups = np.array([timer.key_group for timer in part], np.int32)
        columns = [
            from_numpy(groups.astype(np.uint16)),
            pa.array([dumps(timer.key) for timer in part], pa.binary()),
            pa.array([timer.timestamp for timer in part], pa.int64()),
        ]
        yield KeyedTable(groups, pa.Table.from_arrays(columns, schema=TIMER_SCHEMA))


class InternalTimerService:
    """The timers of all keys of one operator.

    The operator fires them: it iterates over `advance_watermark` when its watermark rises, and over
    `due_processing_timers` in `on_processing_time`, which the service calls in the task's thread when the earliest
    processing-time timer is due. Both take out one timer at a time, so a timer that a timer registers for a time
    already reached fires in the same round, and one that a row registers for the past fires at the next advance.
    The operator may stop in between, and go on later: until then the others are in the snapshot, and what is left of
    the processing-time timers is called for again soon. One timer of the host serves all processing-time timers.

    In batch mode all timers fire at the end of their keys: those of event time, then those of processing time, which
    the clock does not fire. A timer that one of them registers is dropped, or one that repeats itself would never end.
    (Flink's BatchExecutionInternalTimeService.)
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
        self._is_batch = context.is_batch
        self._ends_keys = False
        """Whether, in batch mode, the last timers of some keys fire now."""

    @property
    def current_watermark(self) -> Timestamp:
        return self._watermark

    def current_processing_time(self) -> int:
        return self._context.clock.now_ms()

    def register_event_time_timer(self, key: Hashable, timestamp: int, key_group: int = 0) -> None:
        """Registers a timer; `key_group` is that of the key, and comes back with the timer."""
        if not self._ends_keys:
            self._event_timers.register(key, timestamp, key_group)

    def delete_event_time_timer(self, key: Hashable, timestamp: int) -> None:
        self._event_timers.delete(key, timestamp)

    def register_processing_time_timer(self, key: Hashable, timestamp: int, key_group: int = 0) -> None:
        if not self._ends_keys and self._processing_timers.register(key, timestamp, key_group):
            self._arm()

    def delete_processing_time_timer(self, key: Hashable, timestamp: int) -> None:
        self._processing_timers.delete(key, timestamp)
        self._arm()

    def advance_watermark(self, timestamp: Timestamp) -> Iterator[Timer]:
        """Event time has reached `timestamp`: the timers that are due, to be fired while iterating."""
        self._watermark = timestamp
        return (
            self._last_timers() if self._is_batch and timestamp == MAX_TIMESTAMP else self._event_timers.due(timestamp)
        )

    def begin_keys(self) -> None:
        """Called in batch mode after the last timers of some keys: event time begins anew for the next ones."""
        self._watermark = MIN_TIMESTAMP

    def due_processing_timers(self) -> Iterator[Timer]:
        """The processing-time timers that are due now, to be fired while iterating."""
        return self._processing_timers.due(MAX_TIMESTAMP if self._is_batch else self._context.clock.now_ms())

    def close(self) -> None:
        """From now on no timer fires."""
        self._disarm()

    def snapshot(self, owned: range) -> list[PendingPart]:
        """All timers, for a checkpoint; quick.

        Args:
            owned: the key groups of the subtask.
        """
        return [
            TablePart(name, TIMER_SCHEMA, partial(_tables, queue.freeze()), owned)
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
        earliest = None if self._is_batch else self._processing_timers.earliest()
        assert self._armed_for == earliest, f"the host's timer is set for {self._armed_for}, not {earliest}"

    def _last_timers(self) -> Iterator[Timer]:
        self._ends_keys = True
        yield from self._event_timers.due(MAX_TIMESTAMP)
        self._on_processing_time()
        self._ends_keys = False

    def _arm(self) -> None:
        earliest = None if self._is_batch else self._processing_timers.earliest()
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

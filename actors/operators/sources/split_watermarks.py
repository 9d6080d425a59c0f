"""The watermark of a source subtask that reads several splits (after Flink's WatermarkOutputMultiplexer)."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import pyarrow as pa

from actors.operators.time.timestamps import NO_PROGRESS, EventTimeProgress, TrackerState, WatermarkTracker
from flinkray.batches.batch import Batch
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

_FEW = 16
"""Up to so many outdated entries in the heap are not worth removing."""


class SplitState(NamedTuple):
    """How far one split was at a barrier."""

    tracker: TrackerState
    watermark: int
    """The watermark that the subtask had emitted: higher than the split's own where that was idle or came late."""


class SplitWatermarks:
    """One generator per split; together they promise the lowest watermark of the splits that are active.

    Idle splits are left out, finished ones are removed, and the result never goes back, whatever splits come later.
    The subtask is idle while all of its splits are, and then promises the highest watermark of them, whichever was the
    last to turn idle (FLINK-38454). One that has no splits turns idle after the strategy's idle timeout. Of an
    unbounded source so does one whose splits have all finished when it has had none for a whole interval (FLINK-39586).
    To one of a bounded source the next is on its way, however long that takes, or else the end of its input.
    A finished split counts, when the subtask turns idle, as far as it came together with the splits that were there
    then, also where it was read within an interval (Flink forgets it, so that small files never make a window fire).
    Every method gives what must be sent on, and `on_batch`'s status belongs before the batch, its watermark after it.
    """

    def __init__(self, strategy: WatermarkStrategy, where: str = "", *, is_bounded: bool = False) -> None:
        """`where` names operator and subtask in errors of the user's generator, `is_bounded` what the source is."""
        self._strategy = strategy
        self._where = where
        self._is_bounded = is_bounded
        self._splits: dict[Hashable, WatermarkTracker] = {}
        self._active: dict[Hashable, int] = {}
        """Watermark of each split that is not idle."""
        self._ascending: list[tuple[int, int, Hashable]] = []
        """A heap of (watermark, number, split) with all that is in `_active`, and with outdated entries: so a batch,
        which changes one split, costs no look at the others."""
        self._numbers = itertools.count()
        # While there is no split, a tracker that sees no rows tells when that has lasted for the idle timeout.
        self._no_split = WatermarkTracker(strategy, where)
        self._intervals_without_split = 0
        self._finished = MIN_TIMESTAMP
        """The highest watermark that the splits had come to together when one of them finished."""
        self._watermark = MIN_TIMESTAMP
        self._promised: list[int] = []
        """The watermarks that the subtasks of restored splits had emitted, until the first progress."""
        self._is_idle = False
        self.limit = MAX_TIMESTAMP
        """Splits above it wait for their alignment group: that they give no rows does not make them idle."""

    @property
    def watermark(self) -> Timestamp:
        return self._watermark

    @property
    def is_idle(self) -> bool:
        return self._is_idle

    def split_watermark(self, split_id: Hashable) -> Timestamp:
        """The split's own watermark, by which splits are aligned with each other."""
        return self._splits[split_id].watermark

    def above_limit(self) -> set[Hashable]:
        """The splits that are too far ahead of their alignment group."""
        return {split_id for split_id, tracker in self._splits.items() if tracker.watermark > self.limit}

    def add_split(self, split_id: Hashable) -> EventTimeProgress:
        """A new split holds the watermark where it is until it has made one of its own. No effect if it is there."""
        if split_id not in self._splits:
            self._intervals_without_split = 0
            self._splits[split_id] = WatermarkTracker(self._strategy, self._where)
            self._changed(split_id)
        return self._combined()

    def snapshot(self) -> dict[Hashable, SplitState]:
        """Split -> its state, which is to be stored and restored with the split, at whichever subtask."""
        watermark = int(self._watermark)
        return {split_id: SplitState(tracker.snapshot(), watermark) for split_id, tracker in self._splits.items()}

    def restore(self, split_id: Hashable, state: SplitState) -> None:
        """Adds a split that goes on from there. Call it for all restored splits before anything else; what they
        promise together comes with the next progress."""
        tracker = WatermarkTracker(self._strategy, self._where)
        tracker.restore(state.tracker)
        self._splits[split_id] = tracker
        self._changed(split_id)
        self._promised.append(state.watermark)

    def remove_split(self, split_id: Hashable) -> EventTimeProgress:
        """The split is finished: it no longer holds the watermark back."""
        tracker = self._splits.get(split_id)
        if tracker is None:
            return self._combined()
        at_end = tracker.on_end()
        self._changed(split_id)
        together = self._lowest_active()
        self._finished = max(self._finished, at_end if together is None else Timestamp(together))
        self._active.pop(split_id, None)
        del self._splits[split_id]
        if self._splits:
            return self._combined()
        self._no_split = WatermarkTracker(self._strategy, self._where)
        return NO_PROGRESS

    def on_batch(self, split_id: Hashable, batch: Batch, timestamps: pa.Array | None) -> EventTimeProgress:
        """A non-empty batch of that split passes; `timestamps` as `assign_timestamps` gave them."""
        self._splits[split_id].on_batch(batch, timestamps)
        self._changed(split_id)
        return self._combined()

    def on_source(self, split_id: Hashable, watermark: Timestamp | None, is_idle: bool | None) -> EventTimeProgress:
        """The source itself says how far the split is, or whether it is idle."""
        self._splits[split_id].on_source(watermark, is_idle)
        self._changed(split_id)
        return self._combined()

    def on_periodic(self, now_ms: float) -> EventTimeProgress:
        """The interval of watermarks has passed; `now_ms` as for `WatermarkTracker.on_periodic`."""
        for split_id, tracker in self._splits.items():
            tracker.on_periodic(now_ms, is_held=tracker.watermark > self.limit)
            self._changed(split_id)
        if not self._splits:
            self._no_split.on_periodic(now_ms)
            self._intervals_without_split += 1
        return self._combined()

    def _changed(self, split_id: Hashable) -> None:
        """Notes the watermark of a split that may be further, idle, or active again."""
        tracker = self._splits[split_id]
        if tracker.is_idle:
            self._active.pop(split_id, None)
        elif self._active.get(split_id) != tracker.watermark:
            self._active[split_id] = tracker.watermark
            heappush(self._ascending, (tracker.watermark, next(self._numbers), split_id))

    def _lowest_active(self) -> int | None:
        """The lowest watermark of the active splits; None: all are idle."""
        if not self._splits:
            may_wait = not self._is_bounded and max(self._watermark, self._finished) > MIN_TIMESTAMP
            is_idle = self._no_split.is_idle or (may_wait and self._intervals_without_split > 1)
            return None if is_idle else self._no_split.watermark
        active, ascending = self._active, self._ascending
        if len(ascending) > 2 * len(active) + _FEW:
            ascending[:] = [(watermark, next(self._numbers), split_id) for split_id, watermark in active.items()]
            heapify(ascending)
        while ascending and active.get(ascending[0][2]) != ascending[0][0]:
            heappop(ascending)
        return ascending[0][0] if ascending else None

    def _combined(self) -> EventTimeProgress:
        active = self._lowest_active()
        is_idle = active is None
        turned = None if self._is_idle == is_idle else is_idle
        self._is_idle = is_idle
        lowest = MIN_TIMESTAMP if active is None else Timestamp(active)
        if turned:
            # No split will move now, so everything that any of them promised counts, also of those that have finished.
            lowest = max([self._finished, *(tracker.watermark for tracker in self._splits.values())])
        if self._promised:
            lowest = max(lowest, Timestamp(min(self._promised)))
            self._promised = []
        if lowest <= self._watermark:
            return NO_PROGRESS if turned is None else EventTimeProgress(None, turned)
        self._watermark = lowest
        return EventTimeProgress(lowest, turned)

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        trackers = self._splits.items()
        assert self._active == {each: tracker.watermark for each, tracker in trackers if not tracker.is_idle}, (
            "what is known of the active splits is not what they say"
        )
        active = list(self._active.values())
        assert not self._splits or self._is_idle == (not active), "idle exactly if all splits are"
        assert self._promised or not active or min(active) <= self._watermark, (
            "the lowest active watermark has been given out"
        )

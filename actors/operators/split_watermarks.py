"""The watermark of a source subtask that reads several splits (after Flink's WatermarkOutputMultiplexer)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import pyarrow as pa

from actors.operators.timestamps import NO_PROGRESS, Progress, TrackerState, WatermarkTracker
from flinkray.batch import Batch
from flinkray.types import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from flinkray.watermarks import WatermarkStrategy


class SplitState(NamedTuple):
    """How far one split was at a barrier."""

    tracker: TrackerState
    watermark: int
    """What the subtask had promised: more than the split's own, where the split was idle or came late."""


class SplitWatermarks:
    """One generator per split; together they promise the lowest watermark of the splits that are active.

    Idle splits are left out, finished ones are removed, and the result never goes back, whatever splits come later.
    The subtask is idle while all of its splits are; one without splits turns idle after the strategy's idle timeout.
    Every method gives what must be sent on, and `on_batch`'s status belongs before the batch, its watermark after it.
    """

    def __init__(self, strategy: WatermarkStrategy, where: str = "") -> None:
        """`where` names operator and subtask in errors of the user's generator."""
        self._strategy = strategy
        self._where = where
        self._splits: dict[Hashable, WatermarkTracker] = {}
        # While there is no split, a tracker that sees no rows tells when that has lasted for the idle timeout.
        self._no_split = WatermarkTracker(strategy, where)
        self._watermark = MIN_TIMESTAMP
        self._promised: list[int] = []
        """Of restored splits, until the first progress."""
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
        """That split's own watermark, for aligning splits with each other."""
        return self._splits[split_id].watermark

    def above_limit(self) -> set[Hashable]:
        """The splits that are too far ahead of their alignment group."""
        return {split_id for split_id, tracker in self._splits.items() if tracker.watermark > self.limit}

    def add_split(self, split_id: Hashable) -> Progress:
        """A new split holds the watermark where it is until it has made one of its own. No effect if it is there."""
        if split_id not in self._splits:
            self._splits[split_id] = WatermarkTracker(self._strategy, self._where)
        return self._combined()

    def snapshot(self) -> dict[Hashable, SplitState]:
        """By split; a split's state is to be stored and restored with it, wherever it goes."""
        watermark = int(self._watermark)
        return {split_id: SplitState(tracker.snapshot(), watermark) for split_id, tracker in self._splits.items()}

    def restore(self, split_id: Hashable, state: SplitState) -> None:
        """Adds a split that goes on from there. Call it for all restored splits before anything else; what they
        promise together comes with the next progress."""
        tracker = WatermarkTracker(self._strategy, self._where)
        tracker.restore(state.tracker)
        self._splits[split_id] = tracker
        self._promised.append(state.watermark)

    def remove_split(self, split_id: Hashable) -> Progress:
        """The split is finished: it no longer holds the watermark back."""
        if self._splits.pop(split_id, None) is not None and not self._splits:
            self._no_split = WatermarkTracker(self._strategy, self._where)
            return NO_PROGRESS
        return self._combined()

    def on_batch(self, split_id: Hashable, batch: Batch, timestamps: pa.Array | None) -> Progress:
        """A non-empty batch of that split passes; `timestamps` as `assign_timestamps` gave them."""
        self._splits[split_id].on_batch(batch, timestamps)
        return self._combined()

    def on_source(self, split_id: Hashable, watermark: Timestamp | None, is_idle: bool | None) -> Progress:
        """The source itself says how far the split is, or whether it is idle."""
        self._splits[split_id].on_source(watermark, is_idle)
        return self._combined()

    def on_periodic(self, now_ms: float) -> Progress:
        """Time to emit; `now_ms` is only compared with other calls', and stands still while no rows can be taken."""
        for tracker in self._splits.values():
            tracker.on_periodic(now_ms, is_held=tracker.watermark > self.limit)
        if not self._splits:
            self._no_split.on_periodic(now_ms)
        return self._combined()

    def _combined(self) -> Progress:
        trackers = self._splits.values() if self._splits else (self._no_split,)
        active = [tracker.watermark for tracker in trackers if not tracker.is_idle]
        turned = None if self._is_idle == (not active) else not active
        self._is_idle = not active
        lowest = min(active) if active else MIN_TIMESTAMP
        if self._promised:
            lowest = max(lowest, Timestamp(min(self._promised)))
            self._promised = []
        if lowest <= self._watermark:
            return NO_PROGRESS if turned is None else Progress(None, turned)
        self._watermark = lowest
        return Progress(lowest, turned)

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        active = [tracker.watermark for tracker in self._splits.values() if not tracker.is_idle]
        assert not self._splits or self._is_idle == (not active), "idle exactly if all splits are"
        assert self._promised or not active or min(active) <= self._watermark, (
            "the lowest active watermark has been given out"
        )

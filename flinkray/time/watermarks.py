"""Watermark strategies: how a stream gets event time (after Flink's WatermarkStrategy, but per batch)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import INT64, fixed_width
from flinkray.errors import InvalidProgramError
from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import MIN_TIMESTAMP, Millis, Timestamp


class WatermarkGenerator(ABC):
    """Makes watermarks from the event times that pass; one instance per source split or operator subtask.

    One that is told by special rows (a punctuated generator) gives a watermark after the batch that has one:

    ```python
    class AtMarkers(WatermarkGenerator):
        def on_batch(self, batch, timestamps):
            is_marker = pc.equal(batch.data.column("kind"), "marker")
            return pc.max(timestamps.filter(is_marker)).as_py()  # None: no marker in this batch

        def on_periodic_emit(self):
            return None

    strategy = WatermarkStrategy.for_generator(AtMarkers).with_timestamp_assigner("at")
    ```
    """

    @abstractmethod
    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp | None:
        """A batch passed (never empty, no null among its timestamps); a watermark to emit after it, or None."""

    @abstractmethod
    def on_periodic_emit(self) -> Timestamp | None:
        """Called every `pipeline.auto-watermark-interval`; the current watermark, or None."""

    def snapshot_state(self) -> Any:
        """What a checkpoint keeps of it, picklable: by default all attributes. One that cannot be pickled starts over
        when the job goes on from a checkpoint."""
        return dict(vars(self))

    def restore_state(self, state: Any) -> None:
        """What `snapshot_state` gave in the job before; called before anything else."""
        vars(self).update(state)


class BoundedOutOfOrderness(WatermarkGenerator):
    """Gives the highest event time so far less the bound less 1 ms; with bound 0 that is the monotonous strategy."""

    def __init__(self, bound_ms: Millis) -> None:
        self._bound_ms = bound_ms
        self._max: int | None = None

    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Timestamp | None:
        highest = batch.time_bounds[1] if timestamps is batch.timestamps else int(fixed_width(timestamps, INT64).max())
        self._max = highest if self._max is None else max(self._max, highest)
        return None

    def on_periodic_emit(self) -> Timestamp | None:
        if self._max is None:
            return None
        return Timestamp(max(MIN_TIMESTAMP, self._max - self._bound_ms - 1))

    def snapshot_state(self) -> int | None:
        return self._max  # not the bound, which the program may change

    def restore_state(self, state: int | None) -> None:
        self._max = state


TimestampAssigner = str | Callable[[Any, int], int] | object
"""A column name, an expression over columns, or `function(value, record_timestamp) -> epoch ms` (PyFlink's)."""


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How a stream gets event times and watermarks. Immutable: each `with_...` gives a new strategy.

    A timestamp column is int64 epoch milliseconds, or an Arrow timestamp (read as UTC where it has no zone).
    """

    generator: Callable[[], WatermarkGenerator] | None
    assigner: TimestampAssigner | None = None
    idle_timeout_ms: Millis | None = None
    alignment_group: str | None = None
    alignment_max_drift_ms: Millis | None = None
    alignment_update_interval_ms: Millis | None = None

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Rows may come up to `max_out_of_orderness` behind the highest event time so far; later ones are late."""
        bound = to_millis(max_out_of_orderness, "max_out_of_orderness")
        return WatermarkStrategy(_BoundedFactory(bound))

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Event time never goes back within one split; rows whose event time does are late."""
        return WatermarkStrategy(_BoundedFactory(Millis(0)))

    @staticmethod
    def for_generator(generator: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """`generator()` makes a WatermarkGenerator of your own, per split."""
        if not callable(generator):
            raise InvalidProgramError(
                f"for_generator takes what makes generators, for example the class {type(generator).__name__} without "
                f"(), not {generator!r}"
            )
        return WatermarkStrategy(generator)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks but the one at the end of a bounded stream."""
        return WatermarkStrategy(None)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """A column name, an expression, a function `(value, record_timestamp) -> ms`, or a TimestampAssigner."""
        return replace(self, assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """A split without rows for this long no longer holds the watermark back.

        Raises:
            ValueError: it is not positive: rows that come at any rate have time between them.
        """
        idle_timeout_ms = to_millis(idle_timeout, "idle_timeout")
        if idle_timeout_ms == 0:
            raise ValueError(f"the idle_timeout of a watermark strategy must be positive, got {idle_timeout!r}")
        return replace(self, idle_timeout_ms=idle_timeout_ms)

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Duration, update_interval: Duration | None = None
    ) -> WatermarkStrategy:
        """Sources of one group, and splits of each, wait while they are further ahead of the slowest than that.

        Idle sources, ended ones and those without a watermark so far let nobody wait. The slowest is looked for every
        `update_interval` (1 s): a source may be ahead by what it reads meanwhile, too.
        """
        return replace(
            self,
            alignment_group=watermark_group,
            alignment_max_drift_ms=to_millis(max_allowed_watermark_drift, "max_allowed_watermark_drift"),
            alignment_update_interval_ms=to_millis(
                1000 if update_interval is None else update_interval, "update_interval"
            ),
        )


@dataclass(frozen=True, slots=True)
class _BoundedFactory:
    """Makes generators with the same bound; picklable, unlike a lambda."""

    bound_ms: Millis

    def __call__(self) -> WatermarkGenerator:
        return BoundedOutOfOrderness(self.bound_ms)

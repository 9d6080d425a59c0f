"""What all event-time window operators share: late rows, and the watermark that decides about them."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from actors.operators.base import Operator, OperatorContext, Output
from actors.operators.window_times import Times, WindowTimes
from actors.state.snapshot import ListMode, OperatorSnapshot, RestoredState
from flinkray.batch import Batch
from flinkray.errors import NullTimestampError
from flinkray.types import MIN_TIMESTAMP, OutputTag, Timestamp
from flinkray.windowing import AlignedWindows

_SUBTASK = "subtask"


class WindowOperatorBase(Operator):
    """Sorts out late rows. `_watermark` is the highest one so far, also across a restore: what was late stays late."""

    def __init__(self, assigner: AlignedWindows, allowed_lateness_ms: int, late_tag: OutputTag | None) -> None:
        self._times = WindowTimes(assigner, allowed_lateness_ms)
        self._late_tag = late_tag
        self._watermark: int = MIN_TIMESTAMP

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._where = f"{context.operator_name} ({context.subtask_index + 1}/{context.parallelism})"

    def on_watermark(self, timestamp: Timestamp) -> None:
        if timestamp > self._watermark:
            self._watermark = timestamp
            self._fire_due(timestamp)
        self.output.emit_watermark(timestamp)

    @abstractmethod
    def _fire_due(self, watermark: int) -> None:
        """Results of the windows that are due now, then the state of those that are over is dropped."""

    def _timestamps(self, batch: Batch) -> Times:
        timestamps: Times | None = None
        if batch.timestamps is not None:
            timestamps = batch.timestamps.to_numpy(zero_copy_only=False)
        if timestamps is None or int(timestamps.min()) == MIN_TIMESTAMP:
            raise NullTimestampError(
                f"operator {self._where!r}: a row without event time cannot be put into an event-time window; call "
                "assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(...)) before the window, or give "
                "the source a watermark strategy with a timestamp assigner"
            )
        return timestamps

    def _in_time(self, batch: Batch) -> Batch | None:
        """The rows that belong to a window which is not over; the late ones go to the late output, or are counted.

        A row is late only if all windows that it is in are over; one in no window at all is late by its own time.
        """
        times = self._times
        timestamps = self._timestamps(batch)
        if not times.has_gaps and not times.is_over(times.last_start(int(timestamps.min())), self._watermark):
            return batch
        limit = times.late_limit(self._watermark)
        last_ends = times.last_starts(timestamps) + (times.size - 1)
        is_in_window = timestamps <= last_ends
        is_late = np.where(is_in_window, last_ends, timestamps) <= limit
        if is_late.any():
            self._emit_late(batch.filter(pa.array(is_late)))
        is_kept = is_in_window & ~is_late
        if is_kept.all():
            return batch
        return batch.filter(pa.array(is_kept)) if is_kept.any() else None

    def _emit_late(self, late: Batch) -> None:
        if self._late_tag is not None:
            self.output.emit_side(self._late_tag, late.without_keys())
        else:
            self.context.metrics.count("late_records_dropped", late.num_rows)

    # -- snapshots

    def _snapshot_subtask(self, next_position: int = 0) -> OperatorSnapshot:
        """What is neither by key nor by window: the watermark, and the number of the next row."""
        snapshot = OperatorSnapshot()
        subtask = (self.context.subtask_index, self._watermark, next_position)
        snapshot.add_list(_SUBTASK, [subtask], ListMode.UNION)
        return snapshot

    def _restore_subtask(self, restored: RestoredState) -> int:
        """Sets the watermark: that of the same subtask, or the lowest of all after rescaling, so that nothing that
        one of them was still to take becomes late. Gives a number above those of all former rows."""
        subtasks = restored.items(_SUBTASK)
        own = [each for each in subtasks if each[0] == self.context.subtask_index]
        followed = own if own and not restored.is_rescaled else subtasks
        self._watermark = min((watermark for _, watermark, _ in followed), default=int(MIN_TIMESTAMP))
        return max((next_position for _, _, next_position in subtasks), default=0)

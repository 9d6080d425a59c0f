"""What all window operators share: late rows, and the watermark or clock that decides about them and about firing."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from math import gcd
from typing import Any, ClassVar

import numpy as np

from actors.operators.contract.operator import Operator, OperatorContext, Output, label_of, subtask_label
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.late_updates import LateRows
from actors.operators.windows.base.times import AlignedWindowTimes, Times
from actors.state.snapshots.snapshot import ListMode, OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import INT64, fixed_width, from_numpy
from flinkray.errors import IncompatibleStateError, NullTimestampError, TypeMismatchError, operator_label
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, OutputTag, Timestamp
from flinkray.windows.assigners import AlignedWindows

log = logging.getLogger(__name__)

_SUBTASK = "subtask"


class TimedOperator(Operator):
    """Base of all window operators: the watermark, or the clock, decides what is late and what fires.

    `_watermark` is the highest so far, also across a restore: what was late stays late. In processing time the clock
    takes its place. A batch arrives at one time, and everything that ended before the present millisecond is due:
    Flink's timers wait for a millisecond more too, so that no row comes for a window that has fired. A clock that is
    set back stands still.

    At the end of the input what has not fired is dropped, as Flink drops processing-time timers (its task quiesces the
    timer service before it finishes operators). Not so in batch mode: there it fires at the end of its key, or of all
    rows where they do not come by key.
    """

    _NEEDS_TIME_FOR = "cannot be put into an event-time window"

    _PARTS: ClassVar[frozenset[str]] = frozenset()
    """The parts of snapshots (`state_parts`) that this operator's windows are in, where which operator it is depends on
    how windows are used; empty: they are not checked."""

    _state_windows = state_parts.UNKNOWN_WINDOWS
    """What windows there are: state that was written for others is refused."""

    def __init__(self, is_event_time: bool, late_tag: OutputTag | None) -> None:
        self._is_event_time = is_event_time
        self._late_tag = late_tag
        self._watermark: int = MIN_TIMESTAMP
        self._event_time: int = MIN_TIMESTAMP
        """The watermark, also where the clock decides."""
        self._former_key_types: list[bytes] = []
        """The types of keys in the restored state, of each former subtask."""
        self._timer: Any = None
        self._timer_at: int | None = None
        self._has_dropped = False
        """Whether rows were dropped as late, which the log has once."""
        self._has_unfired = False
        """Whether the operator was restored from a snapshot with windows that were due and had not fired."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._where = subtask_label(context)

    def open(self) -> None:
        super().open()
        if self._has_unfired:
            self._begin_firing(self._await_clock, is_restored=True)

    def on_watermark(self, timestamp: Timestamp) -> None:
        self._event_time = max(self._event_time, timestamp)
        if self._is_event_time:
            if timestamp > self._watermark:
                self._watermark = timestamp
                self._begin_firing(partial(self.output.emit_watermark, timestamp))
                return
        elif self.context.is_batch and timestamp == MAX_TIMESTAMP:
            self.end_keys()
        self.output.emit_watermark(timestamp)

    def _begin_firing(self, end: Callable[[], None], is_restored: bool = False) -> None:
        """Fires what is due at the present watermark, then calls `end`."""
        steps = self._fire_due(self._watermark)
        if steps is None:
            end()
        else:
            self.fire_in_pieces(steps, self._end_round, end, is_restored)

    def end_keys(self) -> None:
        """Fires all windows, also those of processing time, as at the end of a key in Flink's batch mode."""
        before = self._watermark, self._event_time
        self._watermark = self._event_time = MAX_TIMESTAMP
        for _ in self._fire_due(MAX_TIMESTAMP) or ():
            pass
        self._end_round()
        self._watermark, self._event_time = before  # they are the next keys' as well
        self._await_clock()

    def finish(self) -> None:
        self._set_timer(None)

    def close(self) -> None:
        self._set_timer(None)

    @abstractmethod
    def _fire_due(self, watermark: int) -> Iterator[None] | None:
        """Emits the results of the windows that are due now, then drops the state of those that are over.

        Where functions of the user are called, an iterator does it call by call (see `fire_in_pieces`).
        """

    def _end_round(self) -> None:
        """Called when windows have fired: passes on what functions gave."""
        return

    def _earliest_end(self) -> int | None:
        """The time at which the clock is looked at again, in processing time: the end of the earliest window, or
        before."""
        return None

    # -- rows

    def _arrived(self, batch: Batch) -> Batch:
        """The batch with the time at which it arrives, in processing time; otherwise as it is."""
        if self._is_event_time:
            return batch
        now = max(self.context.clock.now_ms(), self._watermark + 1)
        return batch.with_times(int(now))

    def _timestamps(self, batch: Batch) -> Times:
        self._check_times(batch)
        assert batch.timestamps is not None
        timestamps: Times = fixed_width(batch.timestamps, INT64)
        return timestamps

    def _check_times(self, batch: Batch) -> None:
        if not batch.is_timed:
            raise NullTimestampError(
                f"{operator_label(self._where)}: a row without event time {self._NEEDS_TIME_FOR}; call "
                "assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(...)) before it, or give the "
                "source a watermark strategy with a timestamp assigner"
            )

    def _emit_late(self, late: Batch) -> None:
        if self._late_tag is not None:
            self.output.emit_side(self._late_tag, late.without_keys())
        else:
            self._drop_late(late.num_rows)

    def _drop_late(self, rows: int) -> None:
        self.context.metrics.count(LATE_RECORDS_DROPPED, rows)
        if not self._has_dropped:
            self._has_dropped = True
            log.warning(
                "%s: dropped the first %d row(s) as late: the watermark had passed the end of all their windows. Rows "
                "further out of order than the watermark strategy allows need a larger bound, allowed_lateness, or "
                "side_output_late_data; the job's result and its `info` count those that were dropped",
                operator_label(self._where),
                rows,
            )

    # -- the clock

    def _await_clock(self) -> None:
        """To be called where windows may have come or gone."""
        if not self._is_event_time:
            self._set_timer(self._earliest_end())

    def _set_timer(self, time: int | None) -> None:
        if time == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, time
        if time is not None:
            delay = max(0, time - self.context.clock.now_ms())
            self._timer = self.context.call_later(delay, self._on_clock, "processing-time windows")

    def _on_clock(self) -> None:
        self._timer, self._timer_at = None, None
        before_now = self.context.clock.now_ms() - 1
        if before_now > self._watermark:
            self._watermark = before_now
            self._begin_firing(self._await_clock)
        else:
            self._await_clock()

    # -- snapshots

    def _snapshot_subtask(self, next_position: int = 0, key_types: bytes = b"") -> OperatorSnapshot:
        """The state that is neither by key nor by window: the watermark, the number of the next row, what windows there
        are, and the types of keys that are pickled."""
        snapshot = OperatorSnapshot()
        subtask = (self.context.subtask_index, self._watermark, next_position, self._state_windows, key_types)
        snapshot.add_list(_SUBTASK, [subtask], ListMode.GATHERED)
        return snapshot

    def _restore_subtask(self, restored: RestoredState) -> int:
        """Restores the watermark: that of the same subtask, or the lowest of all after rescaling, so that nothing that
        one of them was still to get becomes late.

        Returns:
            A number above those of all former rows.
        Raises:
            IncompatibleStateError: the state is that of windows of another operator, and would be lost.
        """
        subtasks = restored.items(_SUBTASK)
        written = [rest for _, _, _, *rest in subtasks if rest]  # an earlier version wrote no more
        self._check_contents(restored, {windows for windows, _ in written})
        self._former_key_types = [key_types for _, key_types in written]
        own = [each for each in subtasks if each[0] == self.context.subtask_index]
        relevant = own if own and not restored.is_rescaled else subtasks
        self._watermark = min((watermark for _, watermark, *_ in relevant), default=int(MIN_TIMESTAMP))
        return max((next_position for _, _, next_position, *_ in subtasks), default=0)

    def _check_contents(self, restored: RestoredState, windows: set[state_parts.Windows]) -> None:
        """
        Args:
            windows: those that the state was written for; none where an earlier version wrote it.
        """
        found = {name.partition("/")[0] for name in restored.names()} & state_parts.CONTENTS
        if self._PARTS and found - self._PARTS:
            raise IncompatibleStateError(
                f"{operator_label(self._where)}: its state was written by windows that are kept in another way: they "
                "had a trigger or an evictor and have none now, or the other way round; they had built-in aggregates "
                "and have functions now; or an earlier version wrote it. Go back to that, or give the operator another "
                "uid to start it without state"
            )
        others = [each for each in windows if found and not self._takes_contents_of(each)]
        if others:
            then, now = map(state_parts.text_of, (others[0], self._state_windows))
            raise IncompatibleStateError(
                f"{label_of(self.context)}: its state was written for {then}, and the program has {now} now, into "
                "which the rows of those cannot be put. Go back to those, or give the operator another uid to start it "
                "without state"
            )

    def _takes_contents_of(self, former: state_parts.Windows) -> bool:
        """Whether what was put into these windows is in the operator's own, too."""
        return former == self._state_windows or state_parts.UNKNOWN_WINDOWS in (former, self._state_windows)


class AlignedWindowOperator(TimedOperator):
    """Base of operators of aligned windows. Sorts out late rows.

    Args:
        allowed_lateness_ms: of no effect in processing time, where nothing is late.
    """

    _KEEPS_SLICES: ClassVar[bool] = False
    """Whether contents are kept by slice, and not by window."""

    def __init__(self, assigner: AlignedWindows, allowed_lateness_ms: int, late_tag: OutputTag | None) -> None:
        super().__init__(assigner.is_event_time(), late_tag)
        self._times = AlignedWindowTimes(assigner, allowed_lateness_ms if self._is_event_time else 0)
        self._state_windows = state_parts.windows_of(assigner)

    def _takes_contents_of(self, former: state_parts.Windows) -> bool:
        keeps_slices = self._KEEPS_SLICES and not self._times.is_cumulative  # which do not outlive their longest window
        size = former[1] if keeps_slices and former[0] == self._state_windows[0] else 0
        # Longer windows need the slices that these need, which then are there; but slices must be the same.
        is_longer = size >= self._times.size and gcd(size, self._times.slide) == self._times.slice
        return is_longer or super()._takes_contents_of(former)

    def _in_time(self, batch: Batch) -> Batch | None:
        """The rows that belong to a window which is not over; the late ones go to the late output, or are counted.

        A row is late only if all windows that it is in are over; one in no window at all is late by its own time.
        """
        times = self._times
        self._check_times(batch)
        if not times.are_within_bounds(*batch.time_bounds):
            self._raise_out_of_bounds(batch)
        if not times.has_gaps and not times.is_over(times.last_start(batch.time_bounds[0]), self._watermark):
            return batch
        timestamps = self._timestamps(batch)
        limit = times.late_limit(self._watermark)
        last_ends = times.last_starts(timestamps) + (times.size - 1)
        is_in_window = timestamps <= last_ends
        is_late = np.where(is_in_window, last_ends, timestamps) <= limit
        if is_late.any():
            self._emit_late(batch.filter(from_numpy(is_late)))
        is_in_time = is_in_window & ~is_late
        if is_in_time.all():
            return batch
        return batch.filter(from_numpy(is_in_time)) if is_in_time.any() else None

    def _late_rows(self, batch: Batch) -> LateRows | None:
        """The rows with which windows fire again, being due and not over; None: there is none."""
        times, earliest = self._times, batch.time_bounds[0]
        over, due = times.over_limit(self._watermark), times.due_limit(self._watermark)
        if times.starts(times.last_start(earliest), earliest)[0] > due:
            return None
        found, slice_indices = times.slices_of_rows(batch)
        starts = np.array(found, np.int64)
        _, under_windows = times.windows_of_slices(starts, over, due)
        if not len(under_windows):
            return None
        fires_again = np.bincount(under_windows, minlength=len(starts)) > 0
        related = np.cumsum(np.diff(starts, prepend=starts[:1]) >= times.size)
        indices = np.zeros(batch.num_rows, np.int64) if slice_indices is None else slice_indices
        return LateRows(fires_again[indices], related[indices])

    def _raise_out_of_bounds(self, batch: Batch) -> None:
        times, (lowest, highest) = self._times, batch.time_bounds
        culprit = highest if times.are_within_bounds(lowest, lowest) else lowest
        raise TypeMismatchError(
            f"{operator_label(self._where)}: the windows of {times.size} ms of a row with the event time {culprit} "
            f"reach beyond the times that 64 bits hold, {MIN_TIMESTAMP} to {MAX_TIMESTAMP}; filter such rows out "
            "before, or give them a time in milliseconds"
        )

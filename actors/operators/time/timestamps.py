"""Event time for rows, and watermarks from it: shared by sources and by `assign_timestamps_and_watermarks`."""

from __future__ import annotations

import datetime
import logging
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.contract.operator import Operator, subtask_label
from actors.operators.expressions.column_operators import evaluate
from actors.operators.time.activity_clock import ActivityClock
from actors.operators.time.seconds import SecondsCheck
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import ListMode, OperatorSnapshot, RestoredState
from actors.user_code.errors import NO_VALUE, raise_attributed
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.batches.pickling import dumps
from flinkray.batches.row_codec import decode, short_repr
from flinkray.errors import (
    InvalidProgramError,
    NullTimestampError,
    TypeMismatchError,
    UnknownColumnError,
    operator_label,
)
from flinkray.expressions.tree import Expression
from flinkray.persistence import loads
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import TimestampsAndWatermarksFactory
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from graphs.job_graph import OperatorCode

_LOG = logging.getLogger(__name__)
_STATE = "watermark"
_INT64 = pa.int64()

# Arrow's unit -> how it becomes milliseconds: (multiply by, divide by).
_UNITS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


def assign_timestamps(batch: Batch, assigner: Any, where: str, *, may_be_null: bool = False) -> pa.Array:
    """The event time of each row: int64 epoch milliseconds, no nulls.

    Args:
        assigner: a column name, an expression, `function(value, record_timestamp)` (which sees MIN_TIMESTAMP where
            the row has no event time yet), an object with such an `extract_timestamp` method, or None: the event time
            that the rows already have. A column is of integers (milliseconds) or of Arrow timestamps (read as UTC
            where they have no zone, rounded down to milliseconds).
        where: names operator and subtask in errors, for example "flights (1/2)".
        may_be_null: gives rows without event time MIN_TIMESTAMP, which stands for none.

    Raises:
        NullTimestampError: names the first row without event time.
        UnknownColumnError, TypeMismatchError, UserFunctionError: what their names say.
    """
    if assigner is None:
        if batch.timestamps is None:
            raise NullTimestampError(
                f"{operator_label(where)}: its rows have no event time yet; say where it comes from with "
                "watermark_strategy.with_timestamp_assigner('column') or a function (value, record_timestamp) -> ms"
            )
        timestamps = batch.timestamps
    elif isinstance(assigner, str | Expression):
        timestamps = _of_column(batch, assigner, where)
    else:
        timestamps = _of_function(batch, assigner, where)
    if timestamps.null_count:
        if may_be_null:
            return timestamps.fill_null(int(MIN_TIMESTAMP))
        _raise_null(batch, timestamps, assigner, where)
    return timestamps


def with_event_time(batch: Batch, strategy: WatermarkStrategy, where: str) -> Batch:
    """The batch as the strategy wants it: with its event time, or as it is where the strategy asks for none."""
    if strategy.assigner is None and (strategy.generator is None or isinstance(batch.times, int)):
        return batch
    return batch.with_times(assign_timestamps(batch, strategy.assigner, where))


def _of_column(batch: Batch, assigner: str | Expression, where: str) -> pa.Array:
    if isinstance(assigner, Expression):
        column = evaluate(assigner, batch.data, operator_label(where))
    else:
        names = batch.data.schema.names
        if assigner not in names:
            raise UnknownColumnError(assigner, names, operator_label(where))
        column = batch.data.column(names.index(assigner))
    return _as_millis(column, assigner, where)


def _as_millis(column: pa.Array, assigner: str | Expression, where: str) -> pa.Array:
    try:
        if column.type.equals(_INT64):
            return column
        if pa.types.is_integer(column.type):
            return column.cast(_INT64)
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.int64())
        if pa.types.is_timestamp(column.type):
            return _timestamps_as_millis(column)
    except pa.ArrowInvalid as error:
        raise TypeMismatchError(
            f"{operator_label(where)}: a value of the timestamp column {str(assigner)!r} ({column.type}) is not within "
            f"the range of int64 milliseconds: {error}"
        ) from error
    expression = f"col({assigner!r})" if isinstance(assigner, str) else f"({assigner!r})"
    is_number = pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
    raise TypeMismatchError(
        f"{operator_label(where)}: the timestamp column {str(assigner)!r} has type {column.type}; it must hold "
        "integers (epoch milliseconds) or Arrow timestamps. Cast it, as in with_timestamp_assigner("
        f"{expression}.cast({'int64' if is_number else 'timestamp[us]'!r})), or assign timestamps with a function "
        "(value, record_timestamp) -> ms"
    )


def _timestamps_as_millis(column: pa.Array) -> pa.Array:
    multiplier, divisor = _UNITS[column.type.unit]
    raw = column.cast(pa.int64())
    if multiplier > 1:
        return pc.multiply_checked(raw, multiplier)
    if divisor == 1:
        return raw
    # Rounded down, not towards zero: 0.5 ms before the epoch is within millisecond -1.
    floored = np.floor_divide(as_numpy(raw.fill_null(0)), divisor)
    mask = as_numpy(raw.is_null()) if raw.null_count else None
    return from_numpy(floored, is_null=mask)


def _of_function(batch: Batch, assigner: Any, where: str) -> pa.Array:
    method = getattr(assigner, "extract_timestamp", assigner)
    if not callable(method):
        raise InvalidProgramError(
            f"{operator_label(where)}: a timestamp assigner is a column name, an expression, a function "
            f"(value, record_timestamp) -> ms, or an object with an extract_timestamp method, not {assigner!r}"
        )
    if batch.timestamps is None:
        known = [int(MIN_TIMESTAMP)] * batch.num_rows
    else:
        known = batch.timestamps.fill_null(int(MIN_TIMESTAMP)).to_pylist()
    results: list[Any] = []
    value: Any = None
    try:
        for value, timestamp in zip(decode(batch), known, strict=True):
            results.append(method(value, timestamp))
    except BaseException as error:
        raise_attributed(where, "", value, error)
    return pa.array([_as_int(result, batch, row, where) for row, result in enumerate(results)], pa.int64())


def _as_int(result: Any, batch: Batch, row: int, where: str) -> int | None:
    if result is None:
        return None
    try:
        timestamp = operator.index(result)
    except TypeError:
        timestamp = None
    if timestamp is None or isinstance(result, bool) or not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
        raise TypeMismatchError(
            f"{operator_label(where)}: the timestamp assigner must return epoch milliseconds as an int64, not "
            f"{short_repr(result)} ({type(result).__name__}){_in_millis(result)}; the value was {_shown(batch, row)}"
        )
    return timestamp


def _in_millis(result: Any) -> str:
    """The way out of a result that a column could be, or that is nearly right."""
    if isinstance(result, datetime.datetime):
        return "; name the column in place of a function, or return round(time.timestamp() * 1000)"
    return "; return int(...) of it" if isinstance(result, float) else ""


def _raise_null(batch: Batch, timestamps: pa.Array, assigner: Any, where: str) -> None:
    row = int(pc.index(timestamps.is_null(), True).as_py())
    source = f"column {str(assigner)!r}" if isinstance(assigner, str | Expression) else "the timestamp assigner"
    if assigner is None:
        source = "the operator before it"
    raise NullTimestampError(
        f"{operator_label(where)}: {source} gives no event time for row {row} of a batch of {batch.num_rows}: "
        f"{_shown(batch, row)}; filter such rows out before, or give them a time"
    )


def _shown(batch: Batch, row: int) -> str:
    return short_repr(decode(batch.slice(row, 1))[0])


class EventTimeProgress(NamedTuple):
    """What changed about event time, to be emitted: that it turned active before the batch, the rest after it."""

    watermark: Timestamp | None
    """The new watermark; None: it did not rise."""
    is_idle: bool | None
    """Whether it turned idle or active; None: neither."""


NO_PROGRESS = EventTimeProgress(None, None)


class TrackerState(NamedTuple):
    """How far a WatermarkTracker was at a barrier."""

    watermark: int
    is_idle: bool
    """An idle tracker did not hold the watermark back. A restored one is active until it has had no rows for long
    enough."""
    generator: bytes | None
    """The generator's state, pickled; None: there is no generator, or its state cannot be pickled."""


def lowest_state(states: Iterable[TrackerState]) -> TrackerState | None:
    """The state from which a tracker goes on that takes the place of several: the lowest of those that were not idle;
    None: there are no states."""
    former = list(states)
    active = [state for state in former if not state.is_idle]
    return min(active or former, key=operator.attrgetter("watermark"), default=None)


class WatermarkTracker:
    """One generator with idleness: its watermarks never go back, and its status changes are reported once."""

    def __init__(self, strategy: WatermarkStrategy, where: str = "") -> None:
        """`where` names operator and subtask in errors of the user's generator."""
        self._where = where
        self._generator = None
        if strategy.generator is not None:
            try:
                self._generator = strategy.generator()
            except BaseException as error:
                raise_attributed(where, "", NO_VALUE, error)
        self._idle_timeout_ms = strategy.idle_timeout_ms
        self._has_activity = False
        # The time without rows counts from the first periodic check that saw none, not from construction: a slow
        # start must not make a source idle.
        self._inactive_since_ms: float | None = None
        self._watermark = MIN_TIMESTAMP
        self._is_idle = False
        self._can_pickle = True

    @property
    def watermark(self) -> Timestamp:
        return self._watermark

    @property
    def is_idle(self) -> bool:
        return self._is_idle

    def snapshot(self) -> TrackerState:
        return TrackerState(int(self._watermark), self._is_idle, self._pickled_generator())

    def restore(self, state: TrackerState) -> None:
        """Goes on from that state, before any row: the watermark is what it was, and is not given as progress again."""
        self._watermark = Timestamp(state.watermark)
        if self._generator is not None and state.generator is not None:
            try:
                self._generator.restore_state(loads(state.generator))
            except BaseException as error:
                raise_attributed(self._where, "", NO_VALUE, error)

    def _pickled_generator(self) -> bytes | None:
        if self._generator is None or not self._can_pickle:
            return None
        try:
            return dumps(self._generator.snapshot_state())
        except Exception as error:  # runs the user's code
            self._can_pickle = False
            name = type(self._generator).__name__
            _LOG.warning(
                "watermark generator %s starts over when the job goes on from a checkpoint, as its state cannot be "
                "pickled (override snapshot_state and restore_state): %r",
                name,
                error,
            )
            return None

    def on_batch(self, batch: Batch, timestamps: pa.Array | None) -> EventTimeProgress:
        """A non-empty batch passes; rows without `timestamps` make no watermark."""
        self._has_activity = True
        turned_active = False if self._is_idle else None
        self._is_idle = False
        watermark = None
        if self._generator is not None and timestamps is not None:
            try:
                watermark = self._generator.on_batch(batch, timestamps)
            except BaseException as error:
                raise_attributed(self._where, "", NO_VALUE, error)
        return EventTimeProgress(self._risen(watermark), turned_active)

    def on_source(self, watermark: Timestamp | None, is_idle: bool | None) -> EventTimeProgress:
        """The source itself says how far it is, or whether it is idle; a watermark makes an idle tracker active."""
        if watermark is not None:
            is_idle = False
        if is_idle is None or is_idle == self._is_idle:
            return EventTimeProgress(self._risen(watermark), None)
        self._is_idle = is_idle
        self._has_activity = not is_idle
        return EventTimeProgress(self._risen(watermark), is_idle)

    def on_periodic(self, now_ms: float, *, is_held: bool = False) -> EventTimeProgress:
        """The interval of watermarks has passed: asks the generator for one, and looks for idleness.

        Args:
            now_ms: a time that is only compared with those of other calls; stands still while no rows can be taken.
            is_held: rows are held back on purpose, so that their lack does not make it idle.
        """
        if is_held:
            self._has_activity = True
        if self._has_turned_idle(now_ms):
            was_idle, self._is_idle = self._is_idle, True
            return NO_PROGRESS if was_idle else EventTimeProgress(None, True)
        return EventTimeProgress(self._risen(self._asked()), None)

    def on_end(self) -> Timestamp:
        """No more rows come: what all of them promise, also if no interval has passed since the last."""
        self._risen(self._asked())
        return self._watermark

    def _asked(self) -> Timestamp | None:
        """What the generator says when it is asked."""
        if self._generator is None:
            return None
        try:
            return self._generator.on_periodic_emit()
        except BaseException as error:
            raise_attributed(self._where, "", NO_VALUE, error)

    def _has_turned_idle(self, now_ms: float) -> bool:
        if self._idle_timeout_ms is None:
            return self._is_idle  # only the source says whether it is idle
        if self._has_activity:
            self._has_activity = False
            self._inactive_since_ms = None
            return False
        if self._inactive_since_ms is None:
            self._inactive_since_ms = now_ms
            return self._is_idle
        return self._is_idle or now_ms - self._inactive_since_ms > self._idle_timeout_ms

    def _risen(self, watermark: int | None) -> Timestamp | None:
        if watermark is None:
            return None
        try:
            risen = operator.index(watermark)
        except TypeError:
            risen = None
        if risen is None or risen > MAX_TIMESTAMP:
            raise TypeMismatchError(
                f"{operator_label(self._where)}: a watermark is an int of epoch milliseconds that fits 64 bits, not "
                f"{short_repr(watermark)} ({type(watermark).__name__})"
            )
        if risen <= self._watermark:
            return None
        self._watermark = Timestamp(risen)
        return self._watermark


class TimestampsAndWatermarksOperator(Operator):
    """Gives rows event time and makes watermarks. Those from upstream are ignored, except the last one,
    MAX_TIMESTAMP."""

    def __init__(self, code: OperatorCode) -> None:
        assert isinstance(code.factory, TimestampsAndWatermarksFactory)
        self._strategy = code.factory.strategy
        self._periodic: Any = None
        self._has_ended = False

    def initialize_state(self, restored: RestoredState | None) -> None:
        self._where = subtask_label(self.context)
        self._tracker = WatermarkTracker(self._strategy, self._where)
        self._seconds_check = SecondsCheck(self._strategy, self._where)
        if restored is None:
            return
        states = restored.items(_STATE)
        own = [state for index, state in states if index == self.context.subtask_index]
        followed = own if own and not restored.is_rescaled else [state for _, state in states]
        state = lowest_state(followed)
        if state is not None:
            self._tracker.restore(state)

    def open(self) -> None:
        self._activity_clock = ActivityClock(self.context)
        if self._tracker.watermark > MIN_TIMESTAMP:  # restored: operators downstream do not have it yet
            self.output.emit_watermark(self._tracker.watermark)
        self._schedule()

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = OperatorSnapshot()
        snapshot.add_list(_STATE, [(self.context.subtask_index, self._tracker.snapshot())], ListMode.GATHERED)
        return snapshot

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        timed = with_event_time(batch, self._strategy, self._where)
        self._seconds_check.look(timed)
        progress = self._tracker.on_batch(timed, timed.timestamps)
        with self._activity_clock:
            if progress.is_idle is not None:
                self.output.emit_status(progress.is_idle)
            self.output.emit(timed)
            if progress.watermark is not None:
                self.output.emit_watermark(progress.watermark)

    def process_watermark(self, timestamp: Timestamp, input_index: int = 0) -> None:
        """Only the watermark after the last row counts: everything before is the strategy's own business."""
        if timestamp == MAX_TIMESTAMP:
            if self._tracker.is_idle:
                self.output.emit_status(False)
            self._cancel_periodic()
            self._has_ended = True
            self.output.emit_watermark(MAX_TIMESTAMP)

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        """Ignored: idleness, too, is what the strategy makes of the rows."""

    def finish(self) -> None:
        self._cancel_periodic()
        if not self._has_ended:  # stopped without draining: no final watermark came
            self._emit(self._tracker.on_periodic(self._activity_clock.now_ms()))

    def close(self) -> None:
        self._cancel_periodic()

    def _schedule(self) -> None:
        interval = self.context.auto_watermark_interval_ms
        if interval > 0:
            self._periodic = self.context.call_later(interval, self._on_periodic, "watermark of the strategy")

    def _cancel_periodic(self) -> None:
        if self._periodic is not None:
            self._periodic.cancel()
        self._periodic = None

    def _on_periodic(self) -> None:
        self._emit(self._tracker.on_periodic(self._activity_clock.now_ms()))
        self._schedule()

    def _emit(self, progress: EventTimeProgress) -> None:
        with self._activity_clock:
            if progress.watermark is not None:
                self.output.emit_watermark(progress.watermark)
            if progress.is_idle is not None:
                self.output.emit_status(progress.is_idle)

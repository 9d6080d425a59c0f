"""Runs a source's reader: polls it, gives its rows event time, and makes watermarks per split."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import cloudpickle
import pyarrow as pa

from actors.operators.contract.chunking import ChunkSizer
from actors.operators.contract.connector_context import ConnectorContext
from actors.operators.contract.input_status import InputStatus
from actors.operators.contract.operator import Operator, subtask_label
from actors.operators.sources.coalescing import Given, PollResult, coalesced_polls
from actors.operators.sources.kinds import check_kinds
from actors.operators.sources.no_split import NoSplitCheck
from actors.operators.sources.split_watermarks import SplitState, SplitWatermarks
from actors.operators.time.activity_clock import ActivityClock
from actors.operators.time.seconds import SecondsCheck
from actors.operators.time.timestamps import EventTimeProgress, with_event_time
from actors.protocol.elements import CheckpointOptions, LatencyMarker
from actors.protocol.operator_events import (
    AddSplits,
    NoMoreSplits,
    ReaderRegistered,
    SourceEvent,
    SplitRequested,
    WatermarkLimited,
    WatermarkReported,
)
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import NO_VALUE, raise_attributed
from flinkray.batches.batch import Batch
from flinkray.batches.normalization import LayoutNormalizer
from flinkray.config.options import ALLOW_UNALIGNED_SPLITS
from flinkray.connectors.source import Boundedness, ReaderStatus, SourceBatch, SourceProgress, SourceReader
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.transformations.operator_factories import SourceFactory
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP
from graphs.job_graph import OperatorCode

_SPLITS = "splits"
"""Name of the part with a KeptSplit for every split that is not emitted to its end."""


class KeptSplit(NamedTuple):
    """What a checkpoint has of a split, all together: whichever subtask reads the split on emits first the rows that
    the reader had given and the operator had not emitted, and its watermark goes on behind them."""

    split_id: str
    split: Any
    """The split as the reader saved it; None: the reader has finished it."""
    state: SplitState | None
    """How far its watermark was; None: nothing of the split was emitted."""
    given: tuple[SourceBatch | SourceProgress, ...]
    """What the reader had given and the operator had not emitted."""


class SourceOperator(Operator):
    """The head of a source task, or a source chained into another task. `emit_next` is its input.

    It never waits: a reader that has nothing says so, and the task goes on once it has announced more.
    """

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, SourceFactory)
        self._source = factory.source
        self._strategy = factory.watermark_strategy
        self._reader: SourceReader | None = None
        self._restored: list[KeptSplit] = []
        self._polled: deque[PollResult] = deque()
        """What was polled and is to be emitted before the reader is polled again; the first may be the rest of a
        batch."""
        self._failure: Exception | None = None
        """What a poll raised; it is raised once all that was polled before is emitted."""
        self._is_announced = False
        self._listener: Callable[[], None] | None = None
        self._status = InputStatus.MORE_AVAILABLE
        self._timers: dict[str, Any] = {}
        self._splits: set[str] = set()
        self._has_had_split = False
        self._finished_splits: list[str] = []
        self._last_row_ms: float | None = None
        """When rows were emitted last (monotonic)."""
        self._last_lag_ms: float | None = None
        """How old the last of them was then."""
        self._paused: set[str] = set()
        """Splits that the reader holds back for the alignment group."""

    @property
    def number_of_inputs(self) -> int:
        return 0

    # -- life cycle ----------------------------------------------------------------------------------------------

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None:
            self._restored = restored.items(_SPLITS)

    def open(self) -> None:
        context = self.context
        self._where = subtask_label(context)
        self._activity_clock = ActivityClock(context)
        self._chunk_sizer = ChunkSizer(context.chunk_limit)
        self._normalizer = LayoutNormalizer(self._where)
        is_bounded = self._source.boundedness is Boundedness.BOUNDED
        self._watermarks_of_splits = SplitWatermarks(self._strategy, self._where, is_bounded=is_bounded)
        self._seconds_check = SecondsCheck(self._strategy, self._where)
        self._no_split_check = NoSplitCheck(self._strategy, context.parallelism, self._where)
        context.send_to_coordinator(ReaderRegistered(context.subtask_index))
        try:
            self._reader = self._source.create_reader(_ReaderContext(self))
            self._restore_splits()
            self._reader.start()
        except BaseException as error:
            self._raise(error)
        self._export_progress()
        self._repeat("watermarks", context.auto_watermark_interval_ms, self._on_periodic)
        if self._strategy.alignment_group is not None:
            self._repeat("alignment", self._strategy.alignment_update_interval_ms or 0, self._report_watermark)
        self._repeat("latency marker", context.latency_interval_ms, self._emit_latency_marker)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = OperatorSnapshot()
        try:
            snapshot.add_list(_SPLITS, self._kept_splits(self._opened_reader.snapshot_state(checkpoint_id)))
        except BaseException as error:
            self._raise(error)
        return snapshot

    def _kept_splits(self, splits: list[Any]) -> list[KeptSplit]:
        """What a checkpoint has of each split: of splits with a common id, the first has what was polled and not
        emitted. A status of the reader is not saved, as a restored reader gives it again."""
        given: dict[str, list[SourceBatch | SourceProgress]] = {}
        for polled in self._polled:
            if isinstance(polled.given, SourceBatch | SourceProgress):
                given.setdefault(polled.given.split_id, []).append(polled.given)
        states = self._watermarks_of_splits.snapshot()
        named = [(split.split_id, split) for split in splits]
        unread = [KeptSplit(name, split, states.get(name), tuple(given.pop(name, ()))) for name, split in named]
        return [KeptSplit(name, None, states.get(name), tuple(some)) for name, some in given.items()] + unread

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        try:
            self._opened_reader.notify_checkpoint_complete(checkpoint_id)
        except BaseException as error:
            self._raise(error)

    def finish(self) -> None:
        self._cancel_timers()

    def close(self) -> None:
        self._cancel_timers()
        self._listener = None
        if self._reader is not None:
            try:
                self._reader.close()
            except BaseException as error:
                self._raise(error)

    def forget(self) -> None:
        """Drops nothing: threads of the reader may still announce rows."""

    # -- as an input of the task ---------------------------------------------------------------------------------

    def emit_next(self) -> InputStatus:
        """Polls the reader and emits what it gives: a batch, several small ones that were coalesced, or a chunk of a
        batch that takes long. After its last batch comes MAX_TIMESTAMP, then END_OF_DATA."""
        if self._status is not InputStatus.MORE_AVAILABLE:
            self._status = InputStatus.END_OF_INPUT
            return self._status
        self._is_announced = False
        if self._watermarks_of_splits.watermark > self._watermarks_of_splits.limit:
            return InputStatus.NOTHING_AVAILABLE
        is_rest = bool(self._polled)
        if not is_rest:
            self._poll_some()
        status = InputStatus.MORE_AVAILABLE
        while self._polled:
            polled = self._polled.popleft()
            given = polled.given
            if isinstance(given, SourceBatch):
                chunk, rest = self._chunk_sizer.cut(given.batch)
                if rest is not None:
                    self._polled.appendleft(PollResult(SourceBatch(rest, given.split_id), polled.finished_splits))
                    return self._emit(SourceBatch(chunk, given.split_id), ())
            status = self._emit(given, polled.finished_splits)
        if self._failure is not None:
            raise self._failure
        if is_rest and status is InputStatus.NOTHING_AVAILABLE:
            return InputStatus.MORE_AVAILABLE  # the reader said so some time ago, and may have more by now
        return status

    def _poll_some(self) -> None:
        context = self.context
        try:
            polls = coalesced_polls(self._poll, context.batch_rows, context.batch_bytes, context.clock.monotonic_ms)
            self._polled.extend(polls)
        except Exception as error:
            self._failure = error
        for polled in self._polled:  # before any of them is emitted, so that no split's rows are late behind another's
            self._add_split_of(polled.given)

    def _add_split_of(self, given: Given) -> None:
        """Adds the split if it is new: a reader may make splits of its own."""
        if isinstance(given, SourceBatch | SourceProgress) and given.split_id not in self._splits:
            self._add_split(given.split_id)

    def _poll(self) -> PollResult:
        try:
            given = self._opened_reader.poll()
        except BaseException as error:
            self._raise(error)
        if isinstance(given, SourceBatch) and given.batch.kinds is not None:
            check_kinds(given.batch, self._source, operator_label(self._where))
        finished = tuple(self._finished_splits)
        del self._finished_splits[: len(finished)]
        return PollResult(given, finished)

    def _emit(self, given: Given, finished_splits: Sequence[str]) -> InputStatus:
        self._add_split_of(given)  # again, where the reader had finished the split and goes on with it
        if isinstance(given, SourceBatch):
            if given.batch.num_rows:
                self._emit_batch(given)
        elif isinstance(given, SourceProgress):
            self._emit_source_progress(given)
        for split_id in finished_splits:
            self._remove_split(split_id)
        match given:
            case SourceBatch() | SourceProgress():
                return InputStatus.MORE_AVAILABLE
            case ReaderStatus.NOTHING_AVAILABLE:
                return InputStatus.NOTHING_AVAILABLE
            case ReaderStatus.END_OF_INPUT:
                return self._end_data()
        raise TypeError(
            f"{operator_label(self._where)}: poll of {type(self._reader).__name__} must give a SourceBatch, a "
            f"SourceProgress or a ReaderStatus, not {given!r}"
        )

    def _end_data(self) -> InputStatus:
        self._cancel_timers()
        if self._strategy.alignment_group is not None:
            self.context.send_to_coordinator(WatermarkReported(MAX_TIMESTAMP))
        if self._watermarks_of_splits.is_idle:
            self.output.emit_status(False)
        self.output.emit_watermark(MAX_TIMESTAMP)
        self._status = InputStatus.END_OF_DATA
        return self._status

    def on_available(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once, from any thread, as soon as `emit_next` may have something; perhaps at once."""
        self._listener = listener
        # The reader may have announced something after it said that it had nothing, and before this line.
        if self._is_announced:
            self.announce()

    def announce(self) -> None:
        """The reader may have something now; any thread may call it."""
        self._is_announced = True
        listener, self._listener = self._listener, None
        if listener is not None:
            listener()

    # -- events --------------------------------------------------------------------------------------------------

    def handle_coordinator_event(self, event: Any) -> None:
        reader = self._opened_reader
        try:
            match event:
                case AddSplits():
                    self._add_splits(cloudpickle.loads(event.splits_bytes))
                case NoMoreSplits():
                    reader.notify_no_more_splits()
                case WatermarkLimited():
                    self._watermarks_of_splits.limit = event.highest
                    self._align_splits()
                case SourceEvent():
                    reader.handle_source_event(event.event)
                case _:
                    raise TypeError(f"source {self._where!r} cannot handle {event!r}")
        except BaseException as error:
            self._raise(error)
        self.announce()

    def split_finished(self, split_id: str) -> None:
        """The reader has finished a split, which no longer holds the watermark back after the next poll is emitted.

        Not at once: the batch that `poll` is about to give may be the split's last, and must not be late.
        """
        self._finished_splits.append(split_id)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _opened_reader(self) -> SourceReader:
        assert self._reader is not None, "the task opens its operators before anything else"
        return self._reader

    def _export_progress(self) -> None:
        """The figures of Flink's FLIP-33, which the thread that reports asks for."""
        context, reader = self.context, self._opened_reader
        clock, opened_ms = context.clock, context.clock.monotonic_ms()
        for name, read in {
            "pending_rows": reader.pending_rows,
            "pending_bytes": reader.pending_bytes,
            "splits": lambda: len(self._splits),
            "emit_event_time_lag_ms": lambda: self._last_lag_ms,
            "source_idle_ms": lambda: clock.monotonic_ms() - (self._last_row_ms or opened_ms),
        }.items():
            context.metrics.gauge_function(name, read)

    def _restore_splits(self) -> None:
        restored, self._restored = self._restored, []
        for kept in restored:
            if kept.state is not None:
                self._watermarks_of_splits.restore(kept.split_id, kept.state)
            self._polled.extend(map(PollResult, kept.given))
            if kept.split is None:
                self._polled.append(PollResult(self._polled.pop().given, (kept.split_id,)))
        for kept in restored:
            self._add_split(kept.split_id)
        if unread := [kept.split for kept in restored if kept.split is not None]:
            self._opened_reader.add_splits(unread)

    def _add_splits(self, splits: list[Any]) -> None:
        for split in splits:
            self._add_split(split.split_id)
        self._opened_reader.add_splits(splits)

    def _add_split(self, split_id: str) -> None:
        self._splits.add(split_id)
        self._has_had_split = True
        self._emit_progress(self._watermarks_of_splits.add_split(split_id))

    def _remove_split(self, split_id: str) -> None:
        self._splits.discard(split_id)
        self._paused.discard(split_id)
        self._emit_progress(self._watermarks_of_splits.remove_split(split_id))

    def _emit_source_progress(self, polled: SourceProgress) -> None:
        if not self.context.is_batch:  # in batch mode event time moves once, at the end
            progress = self._watermarks_of_splits.on_source(polled.split_id, polled.watermark, polled.is_idle)
            self._emit_progress(progress)

    def _emit_batch(self, polled: SourceBatch) -> None:
        batch = polled.batch
        data = self._normalizer.normalize(batch.data)
        if data is not batch.data:
            batch = batch.with_data(data, batch.kind)
        # As in Flink, rows that have no event time, and are given none here, pass without: programs that use no event
        # time name a strategy all the same. What needs event time, such as a window, says so.
        if self._strategy.assigner is not None or batch.times is not None:
            batch = with_event_time(batch, self._strategy, self._where)
            self._seconds_check.look(batch)
        progress = self._watermarks_of_splits.on_batch(polled.split_id, batch, batch.timestamps)
        with self._activity_clock:
            self._emit_in_time(batch, progress)

    def _emit_in_time(self, batch: Batch, progress: EventTimeProgress) -> None:
        """Emits a batch, and what changed with it."""
        if progress.is_idle is False:
            self.output.emit_status(False)
        clock = self.context.clock
        began = clock.monotonic_ms()
        self._last_row_ms = began
        if batch.times is not None:
            last = batch.times[-1].as_py() if isinstance(batch.times, pa.Array) else batch.times
            self._last_lag_ms = clock.now_ms() - last
        self.output.emit(batch)
        self._chunk_sizer.passed(batch.num_rows, clock.monotonic_ms() - began)
        if progress.watermark is not None:
            self.output.emit_watermark(progress.watermark)
        if progress.is_idle:
            self.output.emit_status(True)

    def _on_periodic(self) -> None:
        active_ms = self._activity_clock.now_ms()
        self._emit_progress(self._watermarks_of_splits.on_periodic(active_ms))
        self._no_split_check.look(self._has_had_split, active_ms)
        self._align_splits()

    def _align_splits(self) -> None:
        """Has the reader hold back the splits that are ahead of the alignment group, and read on those that were.

        For a single split that is not needed: the source itself waits.
        """
        ahead = (
            {str(split_id) for split_id in self._watermarks_of_splits.above_limit()} if len(self._splits) > 1 else set()
        )
        to_pause, to_resume = ahead - self._paused, self._paused - ahead
        if not to_pause and not to_resume:
            return
        self._paused = ahead
        try:
            is_done = self._opened_reader.pause_or_resume_splits(sorted(to_pause), sorted(to_resume))
        except BaseException as error:
            self._raise(error)
        if not is_done and not self.context.allows_unaligned_splits:
            raise InvalidProgramError(
                f"{operator_label(self._where)}: {type(self._reader).__name__} reads several splits and cannot hold "
                "single ones of them back, which watermark alignment needs; implement its pause_or_resume_splits, or "
                f"set {ALLOW_UNALIGNED_SPLITS.key}: true, and only sources as a whole are aligned"
            )
        self.announce()

    def _emit_progress(self, progress: EventTimeProgress) -> None:
        """Emits what changed: that it turned active goes before a watermark, that it turned idle goes after it."""
        with self._activity_clock:
            if progress.is_idle is False:
                self.output.emit_status(False)
            if progress.watermark is not None:
                self.output.emit_watermark(progress.watermark)
            if progress.is_idle:
                self.output.emit_status(True)

    def _emit_latency_marker(self) -> None:
        context = self.context
        self.output.emit_latency_marker(
            LatencyMarker(context.clock.now_ms(), context.operator_id, context.subtask_index)
        )

    def _report_watermark(self) -> None:
        """Tells the coordinator how far this source is. The group does not wait for a source that has nothing to read
        or whose splits are idle, and hears nothing of one that has no watermark yet."""
        is_out = not self._splits or self._watermarks_of_splits.is_idle
        watermark = MAX_TIMESTAMP if is_out else self._watermarks_of_splits.watermark
        if watermark > MIN_TIMESTAMP:
            self.context.send_to_coordinator(WatermarkReported(watermark))

    def _repeat(self, name: str, interval_ms: int, action: Callable[[], None]) -> None:
        """Runs `action` every `interval_ms` until the end of data; 0: never."""
        if interval_ms <= 0:
            return

        def run() -> None:
            action()
            self._timers[name] = self.context.call_later(interval_ms, run, name)

        self._timers[name] = self.context.call_later(interval_ms, run, name)

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def guarded(self, callback: Callable[[], None]) -> Callable[[], None]:
        """The reader's callback, whose errors are those of its operator."""

        def call() -> None:
            try:
                callback()
            except BaseException as error:
                self._raise(error)

        return call

    def _raise(self, error: BaseException) -> NoReturn:
        raise_attributed(self.context.operator_name, self.context.subtask, NO_VALUE, error)


class _ReaderContext(ConnectorContext):
    """Implements `flinkray.connectors.source.SourceReaderContext`."""

    def __init__(self, operator: SourceOperator) -> None:
        super().__init__(operator.context)
        self._operator = operator

    @property
    def batch_rows(self) -> int:
        return self._context.batch_rows

    @property
    def may_read_again(self) -> bool:
        return self._context.may_restart

    @property
    def has_checkpoints(self) -> bool:
        return self._context.has_checkpoints

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self._context.call_later(delay_ms, self._operator.guarded(callback), "timer of the source reader")

    def send_split_request(self) -> None:
        self._context.send_to_coordinator(SplitRequested(self.subtask_index))

    def send_source_event(self, event: Any) -> None:
        self._context.send_to_coordinator(SourceEvent(self.subtask_index, event))

    def split_finished(self, split_id: str) -> None:
        self._operator.split_finished(split_id)

    def notify_available(self) -> None:
        self._operator.announce()

"""Asynchronous calls per row, with their results in order or as they come (Flink's AsyncWaitOperator)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from actors.columns.take import slices
from actors.mailbox.task_mailbox import MailboxClosed
from actors.operators.asynchronous.calls import AsyncCall, AsyncCalls, Deliver, as_result_list, create_calls
from actors.operators.asynchronous.queue import AsyncQueue, InFlight
from actors.operators.contract.held_rows import HeldRows
from actors.operators.contract.operator import Operator, OperatorContext, Output, label_of
from actors.operators.contract.pieces import Pieces
from actors.operators.functions.result_collector import ResultCollector
from actors.protocol.elements import CheckpointOptions, StopMode, Watermark, WatermarkStatus
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import attributed, raise_attributed, user_function_error
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode, short_repr, snapshot
from flinkray.errors import UserFunctionError
from flinkray.functions.asynchronous import AsyncFunction
from flinkray.transformations.operator_factories import AsyncFactory
from flinkray.types.records import Timestamp
from graphs.job_graph import OperatorCode

log = logging.getLogger(__name__)

_IN_FLIGHT = "in flight"
"""Name of the part with lists of (value, event time, kind) of rows that were in flight, oldest first; (value, event
time) of a row without kind, as of all before there were kinds."""
_WAITING = "waiting"
"""Name of the part with batches of rows that waited behind these."""

_MOST_ITEMS = 256
"""How many lists the rows in flight are saved in, at most: other subtasks may restore some of them."""
_WAITING_ROWS = 1_024
"""How many rows a batch of waiting rows has in a snapshot."""

_LAST_ATTEMPT = (
    "This was attempt {}, the last one. Its error fails the job, as timeout(value) is for calls that take too long; "
    "catch it in the function to give results in its place."
)

CreateCalls = Callable[[Any, OperatorContext, int, Deliver], AsyncCalls]


class AsyncWaitOperator(Operator):
    """Calls the function with each row, and emits its results when they have come and it is their turn.

    At most `capacity` rows are in flight. The rest of a batch waits, and while it does no more input is taken, so
    nothing waits inside `process_batch`. Watermarks and statuses keep their place behind the rows before them; latency
    markers pass by. Rows without emitted results are the operator's state, as they came: they are called with again.

    Everything here happens in the task's thread, except for `_deliver`.
    """

    def __init__(self, code: OperatorCode, create: CreateCalls = create_calls) -> None:
        factory = code.factory
        assert isinstance(factory, AsyncFactory)
        self._factory = factory
        self._create_calls = create
        self._retry = factory.retry
        predicate = factory.retry.get_retry_predicate()
        self._retries_result = predicate.result_predicate()
        self._retries_error = predicate.exception_predicate()
        self._queue = AsyncQueue(factory.capacity, factory.is_ordered, factory.timeout_ms)
        self._calls: AsyncCalls | None = None
        self._timer: Any = None
        self._is_suspended = False
        """Whether the savepoint with which the job stops is taken: results that came after it would be emitted
        twice."""
        self._lock = threading.Lock()
        self._outcomes: list[tuple[AsyncCall, list[Any] | None, BaseException | None]] = []
        self._is_announced = False
        self._goes_on = False
        """Whether a mail has been sent that emits results which are left from a piece."""
        self._is_closed = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._functions = UserFunctions(context, [self._factory.function], run=self._settle)
        self._results = ResultCollector(context, output, self._factory.output_type)
        self._pieces = Pieces(context.clock.monotonic_ms)
        self._held_rows = HeldRows(context.clock.monotonic_ms)

    def initialize_state(self, restored: RestoredState | None) -> None:
        self._functions.initialize_state(restored)
        if restored is None:
            return
        for rows in restored.items(_IN_FLIGHT):
            kinds = [row[2] if len(row) > 2 else None for row in rows]
            self._queue.add_rows([row[0] for row in rows], [row[1] for row in rows], kinds=kinds)
        for batch in restored.items(_WAITING):
            self._add(batch)

    def open(self) -> None:
        self._calls = self._create_calls(self._factory.function, self.context, self._factory.capacity, self._deliver)
        self._functions.open(TaskRuntimeContext(self.context))
        self._proceed()

    # -- input ---------------------------------------------------------------------------------------------------

    @property
    def is_available(self) -> bool:
        # What comes once the operator is suspended is the end of the input.
        return self._is_suspended or not self._queue.is_full

    @property
    def held_rows(self) -> HeldRows:
        return self._held_rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._add(batch.without_keys())
        self._proceed()

    def on_watermark(self, timestamp: Timestamp) -> None:
        self._queue.add_control(Watermark(timestamp))
        self._proceed()

    def _pass_status(self, is_idle: bool) -> None:
        self._queue.add_control(WatermarkStatus(is_idle))
        self._proceed()

    def end_input(self, input_index: int) -> None:
        """Waits for all results: here and not in `finish`, because no timer fires any more then."""
        self._take_outcomes()
        while (self._goes_on or not self._queue.is_empty) and not self._is_suspended:
            self.context.yield_to_mailbox()

    def _add(self, batch: Batch) -> None:
        times = [None] * batch.num_rows if batch.timestamps is None else batch.timestamps.to_pylist()
        self._queue.add_rows(decode(batch), times, batch, None if batch.kinds is None else batch.kinds.to_pylist())
        self._held_rows.set(self._queue.rows)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Starts all calls that there is capacity for, and emits results whose turn it is: a piece now, and the others
        when the task has looked at its mailbox."""
        while not self._is_suspended:
            started = self._queue.start(self.context.clock.monotonic_ms())
            if started:
                self._begin(started)
            if self._goes_on or not (self._emit() or started):
                break
        self._set_timer()

    def _begin(self, entries: Sequence[InFlight]) -> None:
        # The function gets copies: what it does to a value must neither reach the next attempt nor the state.
        calls = [AsyncCall(entry, entry.attempt, snapshot(entry.value)) for entry in entries]
        for call in calls:
            call.entry.work = call
        self._opened_calls.begin(calls)

    def _emit(self) -> bool:
        """Whether there was anything to emit."""
        has_emitted = False
        self._pieces.begin()
        for element in self._queue.take():
            has_emitted = True
            match element:
                case InFlight():
                    for result in element.results or ():
                        self._results.add(result, element.timestamp, element.kind)
                    self._results.flush_if_full()
                case Watermark(timestamp):
                    self._results.flush()
                    self.output.emit_watermark(timestamp)
                case WatermarkStatus(is_idle):
                    self._results.flush()
                    self.output.emit_status(is_idle)
            if self._pieces.is_over():
                self._goes_on = True
                self.context.execute(self._go_on, "more results of asynchronous calls")
                break
        self._results.flush()
        self._pieces.end()
        self._held_rows.set(self._queue.rows)
        return has_emitted

    def _go_on(self) -> None:
        self._goes_on = False
        self._proceed()

    def _deliver(self, call: AsyncCall, results: list[Any] | None, error: BaseException | None) -> None:
        """Called on the thread that ran the call. One mail takes all outcomes that have come until it runs."""
        with self._lock:
            if self._is_closed:
                return
            self._outcomes.append((call, results, error))
            is_announced, self._is_announced = self._is_announced, True
        if not is_announced:
            try:
                self.context.execute(self._take_outcomes, "results of asynchronous calls")
            except MailboxClosed:
                log.debug("operator %r is at its end, results come too late", self.context.operator_name)

    def _take_outcomes(self) -> None:
        with self._lock:
            outcomes, self._outcomes = self._outcomes, []
            self._is_announced = False
        if self._is_suspended:
            return
        for call, results, error in outcomes:
            if self._queue.awaits(call.entry, call.attempt):
                self._on_outcome(call.entry, results, error)
        self._proceed()

    def _on_outcome(self, entry: InFlight, results: list[Any] | None, error: BaseException | None) -> None:
        entry.work = None
        with self._attributed(entry):
            is_retried = self._is_to_retry(entry.attempt, results, error)
        if is_retried:
            self._call_again_later(entry)
        elif error is None:
            assert results is not None, "a call that raised nothing gave results"
            self._queue.complete(entry, results)
        elif isinstance(error, Exception):
            if entry.attempt > 1:
                error.add_note(_LAST_ATTEMPT.format(entry.attempt))
            raise_attributed(self.context.operator_name, self.context.subtask, entry.value, error)
        else:
            # SystemExit, or a coroutine that cancelled itself: it ended that call, and must not end more than the task.
            raise user_function_error(self.context.operator_name, self.context.subtask, entry.value, error) from error

    # -- retries and timeouts ------------------------------------------------------------------------------------

    def _is_to_retry(self, attempt: int, results: list[Any] | None, error: BaseException | None) -> bool:
        if error is None:
            wanted = self._retries_result is not None and self._retries_result(results or [])
        else:
            wanted = self._retries_error is not None and isinstance(error, Exception) and self._retries_error(error)
        return bool(wanted) and self._retry.can_retry(attempt)

    def _call_again_later(self, entry: InFlight) -> None:
        with self._attributed(entry):
            delay_ms = self._retry.get_backoff_time_millis(entry.attempt)
        entry.attempt += 1
        self.context.metrics.count("async_retries")
        entry.work = self.context.call_later(delay_ms, partial(self._call_again, entry), "another asynchronous call")

    def _call_again(self, entry: InFlight) -> None:
        if entry.results is None and not self._is_suspended:
            self._begin([entry])

    def _set_timer(self) -> None:
        # One timer for all: it is set for the row that is first, and no later one can be due before it.
        deadline_ms = self._queue.next_deadline_ms
        if self._timer is None and deadline_ms is not None and not self._is_suspended:
            delay_ms = max(0.0, deadline_ms - self.context.clock.monotonic_ms())
            self._timer = self.context.call_later(delay_ms, self._on_timer, "asynchronous calls time out")

    def _on_timer(self) -> None:
        self._timer = None
        self._take_outcomes()  # outcomes that have come are in time
        if self._is_suspended:
            return
        for entry in self._queue.expired(self.context.clock.monotonic_ms()):
            self._time_out(entry)
        self._proceed()

    def _time_out(self, entry: InFlight) -> None:
        work, entry.work = entry.work, None
        if isinstance(work, AsyncCall):
            self._opened_calls.cancel(work)
        elif work is not None:
            work.cancel()
        self.context.metrics.count("async_timeouts")
        function = self._factory.function
        if not isinstance(function, AsyncFunction) or type(function).timeout is AsyncFunction.timeout:
            raise UserFunctionError(
                self.context.operator_name,
                self.context.subtask,
                short_repr(entry.value),
                f"no result within {self._factory.timeout_ms} ms, in {entry.attempt} attempts; allow a longer timeout, "
                "or let an AsyncFunction's timeout(value) give results",
            )
        with self._attributed(entry):
            where = label_of(self.context)
            results = as_result_list(where, function.timeout(snapshot(entry.value)))
        self._queue.complete(entry, results)

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def prepare_barrier(self, checkpoint_id: int) -> None:
        """Takes the results that have come, so that a restored operator need not call for them again."""
        self._take_outcomes()

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        saved = OperatorSnapshot()
        self._functions.snapshot_state(checkpoint_id, saved)
        rows = [(entry.value, entry.timestamp, entry.kind) for entry in self._queue.in_flight]
        rows += self._queue.waiting_rows()
        size = max(1, -(-len(rows) // _MOST_ITEMS))
        kept = [row if row[2] is not None else row[:2] for row in rows]
        saved.add_list(_IN_FLIGHT, [kept[start : start + size] for start in range(0, len(rows), size)])
        saved.add_list(_WAITING, _cut(self._queue.waiting_batches()))
        if options.stop is StopMode.SUSPEND:
            self._is_suspended = True
        return saved

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._outcomes.clear()
        calls = self._calls
        if calls is None:
            return
        calls.cancel_all()
        try:
            self._functions.close()
        finally:
            calls.close()
            self._calls = None

    def forget(self) -> None:
        """Drops nothing: calls that could not be ended may still end, and deliver their outcome here."""

    def _settle(self, call: Callable[[], Any]) -> None:
        self._opened_calls.settle(call)

    def _attributed(self, entry: InFlight) -> Any:
        return attributed(self.context, entry.value)

    @property
    def _opened_calls(self) -> AsyncCalls:
        assert self._calls is not None, "the operator is opened before anything else"
        return self._calls


def _cut(batches: Sequence[Batch]) -> Iterator[Batch]:
    for batch in batches:
        yield from slices(batch, _WAITING_ROWS)

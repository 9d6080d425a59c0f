"""ProcessFunction and KeyedProcessFunction: the user's Python is called per row and per timer, with batches around
it."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from actors.keys.hashes import hashable_keys, key_columns, key_groups
from actors.keys.key_types import KeyTypes
from actors.operators.contract.operator import Operator, OperatorContext, Output, subtask_label
from actors.operators.functions.result_collector import ResultCollector
from actors.operators.time.timers import InternalTimerService, Timer
from actors.protocol.elements import CheckpointOptions
from actors.state.backends import create_keyed_state
from actors.state.keyed.backend import NO_GROUP, CurrentKey, KeyedStateBackend
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import OfKey, raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.functions.broadcast import KeyedBroadcastProcessFunction
from flinkray.functions.interfaces import (
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    TimeDomain,
    as_callable,
)
from flinkray.transformations.operator_factories import ProcessFactory
from flinkray.types.keys import KeySelector
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, RecordType, Timestamp
from graphs.job_graph import OperatorCode

_NO_TIME = (
    "The row has no event time, so ctx.timestamp() is None: assign_timestamps_and_watermarks gives rows one, and "
    "process(value, timestamp) in a harness."
)


class ElementContext:
    """The `ctx` of process functions and of timers: one object per operator, changed for each row."""

    def __init__(self, backend: KeyedStateBackend, timers: UserTimerService) -> None:
        self._backend = backend
        self._timers = timers
        self._timestamp: int | None = None
        self._time_domain: str | None = None

    def timestamp(self) -> int | None:
        return self._timestamp

    def timer_service(self) -> UserTimerService:
        return self._timers

    def get_current_key(self) -> Any:
        return self._backend.current_key()

    def time_domain(self) -> str:
        if self._time_domain is None:
            raise InvalidProgramError("time_domain() is known in on_timer only")
        return self._time_domain


class UserTimerService:
    """Timers of the current key, as `ctx.timer_service()` gives them."""

    def __init__(self, service: InternalTimerService, current: CurrentKey, where: str, is_keyed: bool) -> None:
        self._service = service
        self._current = current
        self._where = where
        self._is_keyed = is_keyed

    def current_processing_time(self) -> int:
        return self._service.current_processing_time()

    def current_watermark(self) -> int:
        return self._service.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        current = self._current_key()
        self._service.register_event_time_timer(current.key, self._checked(timestamp), current.group)

    def register_processing_time_timer(self, timestamp: int) -> None:
        current = self._current_key()
        self._service.register_processing_time_timer(current.key, self._checked(timestamp), current.group)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._service.delete_event_time_timer(self._current_key().key, operator.index(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._service.delete_processing_time_timer(self._current_key().key, operator.index(timestamp))

    def _current_key(self) -> CurrentKey:
        if self._current.group == NO_GROUP:
            raise self._no_key()
        return self._current

    def _no_key(self) -> InvalidProgramError:
        if not self._is_keyed:
            return InvalidProgramError(
                f"{operator_label(self._where)}: timers need a keyed stream; call key_by(...) before process(...)"
            )
        return InvalidProgramError(
            f"{operator_label(self._where)}: there is no current key here, so no timer can be registered or deleted; "
            "do it in process_element or on_timer"
        )

    def _checked(self, timestamp: int) -> int:
        number = operator.index(timestamp)
        if not MIN_TIMESTAMP <= number <= MAX_TIMESTAMP:
            raise InvalidProgramError(
                f"{operator_label(self._where)}: a timer's time is in milliseconds and fits 64 bits; {number} does not"
            )
        return number


_KEYED_FUNCTIONS = (KeyedProcessFunction, KeyedCoProcessFunction, KeyedBroadcastProcessFunction)


def _ignore_timer(_timestamp: int, _ctx: object) -> None:
    """Stands for the on_timer of a function that has none."""


class UserFunctionOperator(Operator):
    """Base of the operators that call one user function with state, timers and a context."""

    FIRES_IN_PIECES = True

    def __init__(self, function: Function | Callable[..., Any], output_type: RecordType | None) -> None:
        self._function = function
        self._output_type = output_type

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._where = subtask_label(context)
        self._selectors: tuple[KeySelector | None, ...] = context.keys
        self._is_keyed = self._check_keys()
        self._key_types = KeyTypes()
        self._backend: KeyedStateBackend = create_keyed_state(context)
        self._timers = InternalTimerService(context, self._on_processing_time)
        self._user_timers = UserTimerService(self._timers, self._backend.current, self._where, self._is_keyed)
        self._element = ElementContext(self._backend, self._user_timers)
        self._timer_element = self._element
        self._functions = UserFunctions(context, [self._function])
        self._results = ResultCollector(context, output, self._output_type)
        self._on_timer: Callable[[int, Any], Any] = getattr(self._function, "on_timer", _ignore_timer)

    def _check_keys(self) -> bool:
        keyed = [selector is not None for selector in self._selectors[: self.number_of_inputs]]
        if any(keyed) and not all(keyed):
            raise InvalidProgramError(
                f"{operator_label(self._where)}: one of its inputs is keyed and the other is not; "
                "key_by both, or neither"
            )
        return self._checked_function(is_keyed=bool(keyed) and all(keyed))

    def _checked_function(self, is_keyed: bool) -> bool:
        if isinstance(self._function, _KEYED_FUNCTIONS) and not is_keyed:
            raise InvalidProgramError(
                f"{operator_label(self._where)}: {type(self._function).__name__} is a function for keyed streams; call "
                "key_by(...) before process(...)"
            )
        return is_keyed

    def open(self) -> None:
        store = self._backend if self._is_keyed else None
        self._functions.open(TaskRuntimeContext(self.context, store))

    def close(self) -> None:
        self._timers.close()
        try:
            self._functions.close()
        finally:
            self._backend.close()

    # -- rows

    def _keys_of(self, batch: Batch, input_index: int) -> tuple[Iterable[Any], Iterable[int]]:
        """Each row's key and its key group; NO_GROUP where that input is not keyed."""
        selector = self._selectors[input_index] if self._is_keyed else None
        if selector is None:
            return itertools.repeat(None), itertools.repeat(NO_GROUP)
        columns = key_columns(batch, selector, self._where)
        self._key_types.add(columns, self._where)
        return hashable_keys(columns, self._where, selector), key_groups(columns, self.context.max_parallelism).tolist()

    def _call_per_row(
        self, batch: Batch, input_index: int, function: Callable[[Any, Any], Any], element: ElementContext
    ) -> None:
        """Calls `function(value, element)` for each row in order, with key and time set, and emits what it gives."""
        values = decode(batch)
        times = itertools.repeat(None) if batch.timestamps is None else batch.timestamps.to_pylist()
        keys, groups = self._keys_of(batch, input_index)
        collect, flush_if_full = self._results.collect, self._results.flush_if_full
        set_current_key = self._backend.set_current_key
        element._time_domain = None
        for value, time, key, group in zip(values, times, keys, groups, strict=False):
            element._timestamp = time
            set_current_key(key, group)
            try:
                results = function(value, element)
                if results is None:
                    continue
                collect(results, time)
            except BaseException as error:
                if time is None and isinstance(error, TypeError) and "NoneType" in str(error):
                    error.add_note(_NO_TIME)
                raise_attributed(self.context.operator_name, self.context.subtask, value, error)
            flush_if_full()
        self._backend.clear_current_key()
        self._results.flush()

    # -- timers

    def on_watermark(self, timestamp: Timestamp) -> None:
        steps = self._fire(self._timers.advance_watermark(timestamp), TimeDomain.EVENT_TIME)
        self.fire_in_pieces(steps, self._end_piece, partial(self.output.emit_watermark, timestamp))

    def end_keys(self) -> None:
        if self._is_keyed:
            for _ in self._fire(self._timers.advance_watermark(MAX_TIMESTAMP), TimeDomain.EVENT_TIME):
                pass
            self._end_piece()
            self._timers.begin_keys()
            self._backend.drop_all()

    def _on_processing_time(self) -> None:
        steps = self._fire(self._timers.due_processing_timers(), TimeDomain.PROCESSING_TIME)
        self._pieces.make(steps, to_the_end=not self.context.fires_in_pieces)
        self._end_piece()
        self._pieces.end()

    def _end_piece(self) -> None:
        self._backend.clear_current_key()
        self._results.flush()

    def _fire(self, due: Iterator[Timer], domain: str) -> Iterator[None]:
        """Calls `on_timer` for each timer, after which it yields, and collects its results: with the timer's time as
        their event time, or without one for a processing-time timer."""
        on_timer, element = self._on_timer, self._timer_element
        collect, flush_if_full = self._results.collect, self._results.flush_if_full
        set_current_key = self._backend.set_current_key
        is_event_time = domain == TimeDomain.EVENT_TIME
        canceled = self.context.cancellation
        for timestamp, key, key_group in due:
            if canceled:  # a timer may set the next one, without end
                canceled.check()
            element._time_domain = domain  # timers of the other domain may have fired since the last step
            element._timestamp = timestamp
            set_current_key(key, key_group)
            try:
                results = on_timer(timestamp, element)
                if results is not None:
                    collect(results, timestamp if is_event_time else None)
            except BaseException as error:
                value = OfKey(key, f"timer {timestamp}")
                raise_attributed(self.context.operator_name, self.context.subtask, value, error)
            if results is not None:
                flush_if_full()
            yield

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = OperatorSnapshot()
        self._functions.snapshot_state(checkpoint_id, snapshot)
        if self._is_keyed:
            by_key = self._backend.snapshot(options, checkpoint_id)
            by_key += self._timers.snapshot(self.context.key_group_range)
            if by_key:
                self._key_types.add_to(snapshot)
            snapshot.parts += by_key
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._backend.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._backend.notify_checkpoint_aborted(checkpoint_id)

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None and self._is_keyed:
            self._backend.restore(restored)
            self._timers.restore(restored)
            self._key_types.restore(restored)
        self._functions.initialize_state(restored)


class ProcessOperator(UserFunctionOperator):
    """Runs a ProcessFunction or KeyedProcessFunction, or a plain `function(value, ctx)`."""

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, ProcessFactory)
        super().__init__(factory.function, factory.output_type)
        self._process = as_callable(factory.function, "process_element")

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._call_per_row(batch, 0, self._process, self._element)

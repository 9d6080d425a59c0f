"""Calls the user's function for windows that fire or are over, and keeps the state of such functions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from actors.columns.large_columns import Columns, batches_of
from actors.keys.hashes import hashable_keys, key_columns, key_groups
from actors.operators.contract.operator import OperatorContext, Output, label_of, subtask_label
from actors.operators.functions.result_collector import ResultCollector
from actors.operators.windows.base.operator import TimedOperator
from actors.operators.windows.user_functions.contents import fold_of
from actors.operators.windows.user_functions.contexts import FiringContext, NoWindowState, Watermarked
from actors.protocol.elements import CheckpointOptions
from actors.state.backends import create_keyed_state
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import OfKey, raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.functions.interfaces import ProcessWindowFunction, as_callable
from flinkray.time.windows import Window
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.windows.assigners import MergingWindowAssigner


class WindowCalls:
    """Makes results of what windows contain: as reduce and aggregate do, as the window function does, or both.

    Call `end_round` after each batch, and after what a watermark has fired. Belongs to the task's thread.
    """

    def __init__(self, factory: WindowFactory) -> None:
        self.fold = fold_of(factory)
        self._factory = factory
        self._process = None if factory.process is None else as_callable(factory.process, "process")
        self._function_with_clear = _function_with_clear(factory.process)

    def setup(self, operator: Watermarked, output: Output) -> None:
        context = operator.context
        self._context: OperatorContext = context
        self._where = subtask_label(context)
        self._is_keyed = bool(context.keys and context.keys[0])
        self._results = ResultCollector(context, output, self._factory.output_type)
        self._functions = UserFunctions(context, self._factory.user_functions)
        # What the window function keeps: per key, and per key and window unless windows may merge.
        self._key_state: KeyedStateBackend = create_keyed_state(context, "key/")
        self._window_state: KeyedStateBackend | None = None
        if not isinstance(self._factory.assigner, MergingWindowAssigner):
            self._window_state = create_keyed_state(context, "window/")
        window_state = self._window_state or NoWindowState(label_of(context))
        self._firing = FiringContext(operator, self._key_state, window_state)

    @property
    def _backends(self) -> list[KeyedStateBackend]:
        return [self._key_state] if self._window_state is None else [self._key_state, self._window_state]

    def open(self) -> None:
        self._functions.open(TaskRuntimeContext(self._context, self._key_state if self._is_keyed else None))

    def close(self) -> None:
        try:
            self._functions.close()
        finally:
            for backend in self._backends:
                backend.close()

    # -- calls

    def check_keys(self, batch: Batch) -> None:
        """Raises TypeMismatchError where a key is or holds a list or dict: with the row that has it, not when a window
        fires."""
        selector = self._context.keys[0] if self._is_keyed else None
        if selector is not None:
            columns = key_columns(batch, selector, self._where)
            if any(pa.types.is_nested(each) for each in columns.schema.types):
                hashable_keys(columns, self._where, selector)

    def keys(self, columns: Columns | None, count: int) -> tuple[list[Any], list[int]]:
        """The `count` keys in these columns, and the key group of each; without columns there is one key for all."""
        selector = self._context.keys[0] if self._is_keyed else None
        if columns is None or selector is None:
            return [None] * count, [self._context.key_group_range.start] * count
        keys: list[Any] = []
        groups: list[int] = []
        for batch in batches_of(columns.columns, columns.schema.names):
            keys += hashable_keys(batch, self._where, selector)
            groups += key_groups(batch, self._context.max_parallelism).tolist()
        return keys, groups

    @property
    def has_clear(self) -> bool:
        """Whether the window function has a `clear` of its own."""
        return self._function_with_clear is not None

    def fire(self, key: Any, key_group: int, window: Window, contents: Any) -> None:
        """Emits the results of a window that fires for the key, given what it contains."""
        self._context.cancellation.check()
        self._set_current(key, key_group, window)
        try:
            timestamp = window.max_timestamp()
            result = self.fold.result(contents)
            if self._process is None:
                self._results.add(result, timestamp)
            else:
                self._results.collect(self._process(key, self._firing, result), timestamp)
        except BaseException as error:
            self._raise(key, window, error)
        self._results.flush_if_full()

    def clear(self, key: Any, key_group: int, window: Window) -> None:
        """Calls the window function's `clear`: the window is over for the key. Only where `has_clear`."""
        assert self._function_with_clear is not None
        self._context.cancellation.check()
        self._set_current(key, key_group, window)
        try:
            self._function_with_clear.clear(self._firing)
        except BaseException as error:
            self._raise(key, window, error)

    def _set_current(self, key: Any, key_group: int, window: Window) -> None:
        self._firing.current = window
        self._key_state.set_current_key(key, key_group)
        if self._window_state is not None:
            self._window_state.set_current_key((key, window.start), key_group)

    def _raise(self, key: Any, window: Window, error: BaseException) -> None:
        raise_attributed(self._context.operator_name, self._context.subtask, OfKey(key, repr(window)), error)

    def end_round(self) -> None:
        for backend in self._backends:
            backend.clear_current_key()
        self._results.flush()

    def end_keys(self) -> None:
        """Forgets the state of all keys so far."""
        for backend in self._backends:
            backend.drop_all()

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions, snapshot: OperatorSnapshot) -> None:
        """Adds the state of the functions to the snapshot."""
        for backend in self._backends:
            snapshot.parts += backend.snapshot(options, checkpoint_id)
        self._functions.snapshot_state(checkpoint_id, snapshot)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for backend in self._backends:
            backend.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for backend in self._backends:
            backend.notify_checkpoint_aborted(checkpoint_id)

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None:
            for backend in self._backends:
                backend.restore(restored)
        self._functions.initialize_state(restored)


class CallingOperator(TimedOperator):
    """Mixed in before the base of an operator with `WindowCalls`: opens and closes them, and adds their state to its
    own."""

    FIRES_IN_PIECES = True

    _calls: WindowCalls

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._calls.setup(self, output)

    def open(self) -> None:
        super().open()
        self._calls.open()

    def close(self) -> None:
        super().close()
        self._calls.close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._calls.check_keys(batch)
        super().process_batch(batch, input_index)

    def _end_round(self) -> None:
        self._calls.end_round()

    @property
    def current_watermark(self) -> int:
        return self._watermark if self._is_event_time else self._event_time

    def end_keys(self) -> None:
        super().end_keys()
        self._calls.end_keys()

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = super().snapshot_state(checkpoint_id, options)
        assert snapshot is not None
        self._calls.snapshot_state(checkpoint_id, options, snapshot)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._calls.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._calls.notify_checkpoint_aborted(checkpoint_id)

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        self._calls.initialize_state(restored)


def _function_with_clear(process: Any) -> ProcessWindowFunction | None:
    """The window function if its `clear` is the user's own; that of the base class does nothing."""
    if not isinstance(process, ProcessWindowFunction):
        return None
    is_own = getattr(process.clear, "__func__", None) is not ProcessWindowFunction.clear
    return process if is_own else None

"""The life cycle of the user's functions, and the runtime context that their `open` gets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from actors.operators.contract.operator import OperatorContext
from actors.state.operator_state import FunctionInitialization, FunctionSnapshot, OperatorStateBackend
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import NO_VALUE, raise_attributed
from actors.user_code.metrics import UserMetricGroup
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.functions.interfaces import Accumulator, CheckpointedFunction, Function, WrappedFunction
from flinkray.functions.metrics import MetricGroup
from flinkray.state.descriptors import (
    AggregatingState,
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flinkray.transformations.partitioning import CustomPartitioner, Partitioner


class UserFunctions:
    """Opens and closes the Function objects of one operator, each exactly once; callables need neither.

    Calls those that are a CheckpointedFunction, too: `initialize_state` before `open`, and `snapshot_state`.

    Args:
        operator_name: the operator whose functions these are, where several are fused into one; None: the task's.
        run: how `open` and `close` are called, where they may be coroutines; None: as they are.
    """

    def __init__(
        self,
        context: OperatorContext,
        functions: Iterable[object],
        operator_name: str | None = None,
        run: Callable[[Callable[[], Any]], None] | None = None,
    ) -> None:
        self._operator_name = operator_name or context.operator_name
        self._run = run or _call
        self._subtask = context.subtask
        distinct = list({id(f): f for f in functions}.values())
        self._functions = [f for f in distinct if isinstance(f, Function)]
        self._opened: list[Function] = []
        where = operator_label(self._operator_name, self._subtask)
        self._checkpointed = [
            (function, OperatorStateBackend(where, str(index), context.subtask_index))
            for index, function in enumerate(map(_innermost, distinct))
            if isinstance(function, CheckpointedFunction)
        ]
        self._is_restored: bool | None = None

    def initialize_state(self, restored: RestoredState | None) -> None:
        """Once, before `open`. Raises UserFunctionError where the function does."""
        self._is_restored = restored is not None
        for function, store in self._checkpointed:
            if restored is not None:
                store.restore(restored)
            with self._attributed():
                function.initialize_state(FunctionInitialization(store, self._is_restored))

    def snapshot_state(self, checkpoint_id: int, snapshot: OperatorSnapshot) -> None:
        """Adds the functions' state to their operator's. Raises UserFunctionError where the function does."""
        for function, store in self._checkpointed:
            assert self._is_restored is not None, "initialize_state comes first"
            with self._attributed():
                function.snapshot_state(FunctionSnapshot(store, self._is_restored, checkpoint_id))
            store.add_to(snapshot)

    @contextlib.contextmanager
    def _attributed(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            raise_attributed(self._operator_name, self._subtask, NO_VALUE, error)

    def open(self, runtime_context: TaskRuntimeContext) -> None:
        """Raises UserFunctionError where an `open` fails; those opened before it are still closed by `close`."""
        if self._checkpointed and self._is_restored is None:
            name = type(self._checkpointed[0][0]).__name__
            raise InvalidProgramError(
                f"{operator_label(self._operator_name, self._subtask)}: {name} is a "
                "CheckpointedFunction, whose state this kind of operator does not save; use a map, flat_map, filter "
                "or process function"
            )
        for function in self._functions:
            self._opened.append(function)
            with self._attributed():
                self._run(partial(function.open, runtime_context))

    def close(self) -> None:
        """Closes all that were opened, also when one of them fails; then raises the first failure."""
        opened, self._opened = self._opened, []
        first: Exception | None = None
        for function in reversed(opened):
            try:
                with self._attributed():
                    self._run(function.close)
            except Exception as error:
                first = first or error
        if first is not None:
            raise first


class OpenedPartitioner:
    """The function of a custom partitioner, opened and closed as functions of operators are. Others need neither.

    Args:
        context: of the operator before the exchange, whose runtime context `open` gets.
    """

    def __init__(self, context: OperatorContext, partitioner: Partitioner | None) -> None:
        custom = [partitioner.function] if isinstance(partitioner, CustomPartitioner) else []
        self._context = context
        self._functions = UserFunctions(context, custom)

    def open(self) -> None:
        """Raises UserFunctionError where the function's `open` fails."""
        self._functions.open(TaskRuntimeContext(self._context))

    def close(self) -> None:
        """Raises UserFunctionError where the function's `close` fails."""
        self._functions.close()


def _innermost(function: object) -> object:
    while isinstance(function, WrappedFunction):
        function = function.wrapped
    return function


def _call(call: Callable[[], Any]) -> None:
    call()


class TaskRuntimeContext:
    """Implements `flinkray.functions.interfaces.RuntimeContext`, which `open` gets, by the operator's context."""

    def __init__(
        self,
        operator_context: OperatorContext,
        keyed_state_store: KeyedStateStore | None = None,
        operator_name: str | None = None,
    ) -> None:
        self._context = operator_context
        self._store = keyed_state_store
        self._operator_name = operator_name or operator_context.operator_name
        self._metric_group: UserMetricGroup | None = None

    def get_task_name(self) -> str:
        return self._operator_name

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._operator_name} ({self._context.subtask_index + 1}/{self._context.parallelism})"

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._context.subtask_index

    def get_attempt_number(self) -> int:
        return self._context.attempt_number

    def get_job_name(self) -> str:
        return self._context.job_name

    def get_cached_file(self, name: str) -> str:
        return self._context.cached_file(name)

    def add_accumulator(self, name: str, initial: int | float = 0) -> Accumulator:
        accumulator: Accumulator = self._context.add_accumulator(name, initial)
        return accumulator

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        if self._metric_group is None:
            name = self._operator_name
            # Operators that are fused into one have metrics of their own, under their own names.
            scope = (name,) if name != self._context.operator_name else ()
            self._metric_group = UserMetricGroup(self._context.metrics, self._context.clock, name, scope)
        return self._metric_group

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._keyed(state_descriptor).get_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._keyed(state_descriptor).get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._keyed(state_descriptor).get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._keyed(state_descriptor).get_reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._keyed(state_descriptor).get_aggregating_state(state_descriptor)

    def _keyed(self, descriptor: StateDescriptor) -> KeyedStateStore:
        if self._store is None:
            name = getattr(descriptor, "name", descriptor)
            raise InvalidProgramError(
                f"{operator_label(self._operator_name, self._context.subtask)}: state {name!r} was asked "
                "for outside a keyed process function; keyed state needs stream.key_by(...).process(function)"
            )
        return self._store

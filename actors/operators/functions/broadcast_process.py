"""BroadcastProcessFunction and KeyedBroadcastProcessFunction: rows meet broadcast state, the same at every subtask."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.functions.process import ElementContext, UserFunctionOperator, UserTimerService
from actors.protocol.elements import CheckpointOptions
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.operator_state import HeapBroadcastState, OperatorStateBackend, ReadOnlyBroadcastView
from actors.state.snapshots.keyed_parts import StateFacts
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import as_callable
from flinkray.state.descriptors import MapStateDescriptor, StateDescriptor
from flinkray.transformations.operator_factories import BroadcastProcessFactory
from graphs.job_graph import OperatorCode

_BROADCAST_INPUT = 1


class _BroadcastStates:
    """Finds the broadcast states of an operator by their descriptors, which must be those that were declared."""

    def __init__(self, where: str, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        self._where = where
        self._declared = {each.name: StateFacts.of(each, "map") for each in descriptors}
        self.writable: dict[str, HeapBroadcastState] = {}
        self.read_only: dict[str, ReadOnlyBroadcastView] = {}

    def find(self, descriptor: object, states: Mapping[str, Any]) -> Any:
        if not isinstance(descriptor, MapStateDescriptor):
            raise InvalidProgramError(
                f"{self._where}: get_broadcast_state takes a MapStateDescriptor, not {descriptor!r}"
            )
        declared = self._declared.get(descriptor.name)
        if declared is None:
            known = ", ".join(repr(name) for name in self._declared)
            raise InvalidProgramError(
                f"{self._where}: broadcast state {descriptor.name!r} was not declared; the states are {known}. Name it "
                "too in broadcast(...) of the stream that is broadcast"
            )
        for field, old, new in declared.differences(StateFacts.of(descriptor, "map")):
            raise InvalidProgramError(
                f"{self._where}: broadcast state {descriptor.name!r} was declared with {field}={old} and is now asked "
                f"for with {field}={new}; use the same descriptor, or another name"
            )
        return states[descriptor.name]


class ReadOnlyBroadcastElementContext(ElementContext):
    """The `ctx` of rows that are not broadcast, and of timers: broadcast state is read-only."""

    def __init__(self, backend: KeyedStateBackend, timers: UserTimerService, states: _BroadcastStates) -> None:
        super().__init__(backend, timers)
        self._states = states

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastView:
        state: ReadOnlyBroadcastView = self._states.find(state_descriptor, self._states.read_only)
        return state


class BroadcastElementContext(ReadOnlyBroadcastElementContext):
    """The `ctx` of rows that are broadcast: broadcast state is writable, and there is no current key."""

    def __init__(
        self, backend: KeyedStateBackend, timers: UserTimerService, states: _BroadcastStates, where: str, is_keyed: bool
    ) -> None:
        super().__init__(backend, timers, states)
        self._where = where
        self._is_keyed = is_keyed

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> HeapBroadcastState:  # type: ignore[override]
        state: HeapBroadcastState = self._states.find(state_descriptor, self._states.writable)
        return state

    def timer_service(self) -> UserTimerService:
        raise self._without_key("timer_service()")

    def get_current_key(self) -> Any:
        raise self._without_key("get_current_key()")

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
        if not self._is_keyed:
            raise InvalidProgramError(
                f"{self._where}: apply_to_keyed_state needs a keyed first stream and a KeyedBroadcastProcessFunction"
            )
        if inspect.isgeneratorfunction(function):
            raise InvalidProgramError(
                f"{self._where}: the function of apply_to_keyed_state changes state and gives no results, so it must "
                "not yield"
            )
        backend = self._backend
        state = backend.state_of(state_descriptor)
        try:
            for key, key_group in backend.keys_of(state_descriptor):
                backend.set_current_key(key, key_group)
                function(key, state)
        finally:
            backend.clear_current_key()

    def _without_key(self, what: str) -> InvalidProgramError:
        return InvalidProgramError(
            f"{self._where}: {what} is not known in process_broadcast_element, which has no current key; "
            "current_processing_time() and current_watermark() are there, and apply_to_keyed_state goes over all keys"
        )


class BroadcastProcessOperator(UserFunctionOperator):
    """Input 0 is processed as by a ProcessFunction or KeyedProcessFunction; every subtask gets all rows of input 1."""

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, BroadcastProcessFactory)
        super().__init__(factory.function, factory.output_type)
        self._descriptors = factory.descriptors
        self._process = as_callable(factory.function, "process_element")
        self._process_broadcast = as_callable(factory.function, "process_broadcast_element")

    @property
    def number_of_inputs(self) -> int:
        return 2

    @property
    def inputs_before_others(self) -> tuple[int, ...]:
        return (1,)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        where = label_of(context)
        self._store = OperatorStateBackend(where, "broadcast", context.subtask_index)
        self._states = states = _BroadcastStates(where, self._descriptors)
        self._element = self._timer_element = ReadOnlyBroadcastElementContext(self._backend, self._user_timers, states)
        self._broadcast_element = BroadcastElementContext(
            self._backend, self._user_timers, states, where, self._is_keyed
        )

    def _check_keys(self) -> bool:
        return self._checked_function(is_keyed=self._selectors[0] is not None)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if input_index == _BROADCAST_INPUT:
            self._call_per_row(batch, input_index, self._process_broadcast, self._broadcast_element)
        else:
            self._call_per_row(batch, input_index, self._process, self._element)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = super().snapshot_state(checkpoint_id, options)
        self._store.add_to(snapshot)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None:
            self._store.restore(restored)
        for descriptor in self._descriptors:
            state = self._store.get_broadcast_state(descriptor)
            self._states.writable[descriptor.name] = state
            self._states.read_only[descriptor.name] = ReadOnlyBroadcastView(state, descriptor.name, self._store.where)
        super().initialize_state(restored)

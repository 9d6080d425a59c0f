"""The contexts with which functions, triggers, assigners and evictors of windows are called."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any, Protocol

from actors.operators.contract.operator import OperatorContext
from actors.operators.time.timers import InternalTimerService
from actors.state.keyed.backend import KeyedStateBackend
from actors.user_code.functions import TaskRuntimeContext
from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import RuntimeContext
from flinkray.functions.metrics import MetricGroup
from flinkray.state.descriptors import KeyedStateStore, StateDescriptor
from flinkray.types.records import MAX_TIMESTAMP


class Watermarked(Protocol):
    """A window operator, as contexts see it."""

    context: OperatorContext

    @property
    def current_watermark(self) -> int: ...


class FiringContext:
    """The `context` of a ProcessWindowFunction or a plain function (flinkray.functions.interfaces.WindowContext)."""

    def __init__(self, operator: Watermarked, key_state: KeyedStateStore, window_state: KeyedStateStore) -> None:
        self._operator = operator
        self._key_state = key_state
        self._window_state = window_state
        self.current: Any = None
        """The window that fires, or is over."""

    def window(self) -> Any:
        return self.current

    def current_watermark(self) -> int:
        return self._operator.current_watermark

    def current_processing_time(self) -> int:
        return self._operator.context.clock.now_ms()

    def window_state(self) -> KeyedStateStore:
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        return self._key_state


class WindowEvictorContext:
    """What evictors may ask for (Flink's EvictorContext), and assigners too: both times and metrics."""

    def __init__(self, operator: Watermarked, runtime_context: TaskRuntimeContext) -> None:
        self._operator = operator
        self._runtime_context = runtime_context

    def get_current_processing_time(self) -> int:
        return self._operator.context.clock.now_ms()

    def get_current_watermark(self) -> int:
        return self._operator.current_watermark

    def get_metric_group(self) -> MetricGroup:
        return self._runtime_context.get_metrics_group()

    def get_runtime_context(self) -> RuntimeContext:
        """The runtime context, for assigners: its state is that of the current key."""
        return self._runtime_context


class WindowTriggerContext(WindowEvictorContext):
    """What triggers may ask for (flinkray.windows.triggers.OnMergeContext): timers and state of the current key and
    window.

    Args:
        backend: keeps the triggers' state, by (key, window).
    """

    def __init__(
        self,
        operator: Watermarked,
        runtime_context: TaskRuntimeContext,
        timers: InternalTimerService,
        backend: KeyedStateBackend,
    ) -> None:
        super().__init__(operator, runtime_context)
        self._timers = timers
        self._backend = backend
        self._key_group = 0
        self._merged_windows: Collection[Any] = ()
        self.pane: tuple[Any, Any] = (None, None)
        """The current key and window."""

    def set_current(self, pane: tuple[Any, Any], key_group: int, merged_windows: Collection[Any] = ()) -> None:
        """Makes a key and window current.

        Args:
            merged_windows: the windows that have become this one.
        """
        self.pane = pane
        self._key_group = key_group
        self._merged_windows = merged_windows
        self._backend.set_current_key(pane, key_group)

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing_time_timer(self.pane, after(time), self._key_group)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.register_event_time_timer(self.pane, operator.index(time), self._key_group)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.delete_processing_time_timer(self.pane, after(time))

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.delete_event_time_timer(self.pane, operator.index(time))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._backend.state_of(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = self._backend.state_of(state_descriptor)
        key, _ = self.pane
        for window in self._merged_windows:
            self._backend.set_current_key((key, window), self._key_group)
            value = state.take_out()
            if value is not None:
                self._backend.set_current_key(self.pane, self._key_group)
                state.merge_in(value)
        self._backend.set_current_key(self.pane, self._key_group)


def after(time: int) -> int:
    """When a timer for that processing time fires: not before the whole millisecond has passed, as in Flink, so that no
    row comes for a window that has fired at its end."""
    return min(operator.index(time), MAX_TIMESTAMP - 1) + 1


class NoWindowState:
    """Stands for the state of a window where windows merge: as in Flink, there is none."""

    def __init__(self, where: str) -> None:
        self._where = where

    def _refuse(self, descriptor: Any) -> Any:
        raise InvalidProgramError(
            f"{self._where}: state per window ({descriptor.name!r}) is not there for windows that merge, since nobody "
            "could tell what becomes of it when they do; use global_state(), or an AggregateFunction with a merge"
        )

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = _refuse

"""When a window's contents become a result (after Flink's Trigger)."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from flinkray.state import StateDescriptor


class TriggerResult(enum.Enum):
    """What a trigger wants: `FIRE` computes a result, `PURGE` drops the contents (never the window itself)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        return self.value[0]

    def is_purge(self) -> bool:
        return self.value[1]


class TriggerContext(Protocol):
    """What a trigger may use, for the current key and window. Its timers and state belong to that pair."""

    def get_current_processing_time(self) -> int: ...

    def get_current_watermark(self) -> int: ...

    def register_processing_time_timer(self, time: int) -> None: ...

    def register_event_time_timer(self, time: int) -> None: ...

    def delete_processing_time_timer(self, time: int) -> None: ...

    def delete_event_time_timer(self, time: int) -> None: ...

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """State of the current key and window."""

    def get_metric_group(self) -> Any: ...


class OnMergeContext(TriggerContext, Protocol):
    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """The states of the windows that merge become that of the new one (list, reducing or aggregating state)."""


class Trigger(ABC):
    """Called for each row that a window gets and for each of its timers, with that key and window current."""

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult: ...

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult: ...

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult: ...

    def can_merge(self) -> bool:
        """Whether it can be used with windows that merge."""
        return False

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        """Several windows have become `window`."""
        raise TypeError(f"{type(self).__name__} says that it can merge, and has no on_merge")

    @abstractmethod
    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """The window is over, or was merged into another: delete its timers and state."""


@dataclass(frozen=True, slots=True)
class EventTimeTrigger(Trigger):
    """Fires when the watermark reaches the window's last millisecond, and at once for each late row after that."""

    @staticmethod
    def create() -> EventTimeTrigger:
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        # A window that is late already fires with the row that merged it, and needs no timer.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True, slots=True)
class ProcessingTimeTrigger(Trigger):
    """Fires when the clock reaches the window's last millisecond."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        # A window whose end has passed fires by the timer of one of those that merged.
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


@dataclass(frozen=True, slots=True)
class NeverTrigger(Trigger):
    """Never fires: the default of GlobalWindows."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        """It has nothing to move."""

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """It has nothing to drop."""

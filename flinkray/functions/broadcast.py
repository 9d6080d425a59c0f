"""Process functions of a stream that is connected to a broadcast one, and their contexts (names after PyFlink)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from flinkray.functions.interfaces import Function, TimerService
from flinkray.state.descriptors import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState, StateDescriptor
from flinkray.types.records import MaybeNone


class BaseBroadcastContext(Protocol):
    """What all contexts of broadcast process functions have."""

    def timestamp(self) -> int | MaybeNone:
        """Event time of the current record, or the time of the timer that fires; None where there is none."""

    def current_processing_time(self) -> int:
        """Epoch milliseconds."""

    def current_watermark(self) -> int:
        """Epoch milliseconds: the lower one of both streams; MIN_TIMESTAMP before the first."""


class BroadcastContext(BaseBroadcastContext, Protocol):
    """The second argument of `process_broadcast_element`. There is no current key here, and so no keyed state and no
    timer: what is done must be the same in every subtask."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """One of the states that were declared in `broadcast(...)`, to be read and written."""


class KeyedBroadcastContext(BroadcastContext, Protocol):
    """The second argument of `process_broadcast_element` where the first stream is keyed."""

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
        """Calls `function(key, state)` for each key of this subtask that has something in that keyed state. In no
        certain order; the function may change the state of that key (as in Flink's Java API; PyFlink has it not)."""


class ReadOnlyBroadcastContext(BaseBroadcastContext, Protocol):
    """The second argument of `process_element`."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """One of the states that were declared in `broadcast(...)`, to be read only."""


class KeyedReadOnlyBroadcastContext(ReadOnlyBroadcastContext, Protocol):
    """The second argument of `process_element` where the first stream is keyed."""

    def timer_service(self) -> TimerService:
        """Timers of the current key, and the clocks they go by."""

    def get_current_key(self) -> Any:
        """The key of the current record, or of the timer that fires."""


class OnTimerBroadcastContext(KeyedReadOnlyBroadcastContext, Protocol):
    """The second argument of `on_timer` of a KeyedBroadcastProcessFunction."""

    def time_domain(self) -> str:
        """`TimeDomain.EVENT_TIME` or `TimeDomain.PROCESSING_TIME`."""


class BaseBroadcastProcessFunction(Function, ABC):
    """Base of the process functions of a stream that is connected to a broadcast one."""

    @abstractmethod
    def process_element(self, value: Any, ctx: Any, /) -> Iterable[Any] | None:
        """A record of the stream that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: Any, /) -> Iterable[Any] | None:
        """A record of the broadcast stream: every subtask gets it, in an order of its own relative to the other
        stream's records."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """For a first stream without keys: `process_element` gets a ReadOnlyBroadcastContext, `process_broadcast_element`
    a BroadcastContext."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """For a keyed first stream: `process_element` gets a KeyedReadOnlyBroadcastContext, with state and timers of the
    key, `process_broadcast_element` a KeyedBroadcastContext."""

    def on_timer(self, timestamp: int, ctx: OnTimerBroadcastContext, /) -> Iterable[Any] | None:
        """A timer of the current key fired."""
        return None

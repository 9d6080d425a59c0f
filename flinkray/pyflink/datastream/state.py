"""`pyflink.datastream.state`: descriptors with PyFlink's order of arguments, and `enable_time_to_live`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from flinkray import state
from flinkray.durations import to_millis
from flinkray.functions import AggregateFunction, ReduceFunction
from flinkray.state import AggregatingState, ListState, MapState, ReducingState, TtlUpdateType, ValueState

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]


class StateTtlConfig:
    """Made with `StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(...).build()`."""

    UpdateType = TtlUpdateType

    @staticmethod
    def new_builder(ttl: timedelta) -> _TtlBuilder:
        return _TtlBuilder(ttl)


class _TtlBuilder:
    def __init__(self, ttl: timedelta) -> None:
        self._ttl_ms = to_millis(ttl, "ttl")
        self._update_type = TtlUpdateType.ON_CREATE_AND_WRITE

    def set_update_type(self, update_type: TtlUpdateType) -> _TtlBuilder:
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> _TtlBuilder:
        return self.set_update_type(TtlUpdateType.ON_CREATE_AND_WRITE)

    def update_ttl_on_read_and_write(self) -> _TtlBuilder:
        return self.set_update_type(TtlUpdateType.ON_READ_AND_WRITE)

    def build(self) -> state.StateTtlConfig:
        return state.StateTtlConfig(self._ttl_ms, self._update_type)


class _WithTimeToLive:
    __slots__ = ()

    def enable_time_to_live(self, ttl_config: state.StateTtlConfig) -> None:
        """Before the descriptor is used."""
        object.__setattr__(self, "ttl", ttl_config)  # the descriptor itself is frozen


class ValueStateDescriptor(state.ValueStateDescriptor, _WithTimeToLive):
    __slots__ = ()

    def __init__(self, name: str, value_type_info: Any) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(state.ListStateDescriptor, _WithTimeToLive):
    __slots__ = ()

    def __init__(self, name: str, elem_type_info: Any) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(state.MapStateDescriptor, _WithTimeToLive):
    __slots__ = ()

    def __init__(self, name: str, key_type_info: Any, value_type_info: Any) -> None:
        super().__init__(name, value_type_info, None, key_type_info)


class ReducingStateDescriptor(state.ReducingStateDescriptor, _WithTimeToLive):
    __slots__ = ()

    def __init__(self, name: str, reduce_function: ReduceFunction | Callable[..., Any], type_info: Any) -> None:
        super().__init__(name, type_info, None, reduce_function)


class AggregatingStateDescriptor(state.AggregatingStateDescriptor, _WithTimeToLive):
    __slots__ = ()

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: Any) -> None:
        super().__init__(name, state_type_info, None, agg_function)

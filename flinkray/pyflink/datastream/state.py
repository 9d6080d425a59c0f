"""`pyflink.datastream.state`: descriptors with PyFlink's order of arguments, and `enable_time_to_live`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkray.functions.interfaces import AggregateFunction, OperatorStateStore, ReduceFunction
from flinkray.state import descriptors as state
from flinkray.state.descriptors import (
    AggregatingState,
    BroadcastState,
    ListState,
    MapState,
    ReadOnlyBroadcastState,
    ReducingState,
    ValueState,
)
from flinkray.state.time_to_live import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]


class _WithTimeToLive:
    """PyFlink's methods of descriptors."""

    __slots__ = ()
    name: str

    def get_name(self) -> str:
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Sets the time to live; to be called before the descriptor is used."""
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

    def get_reduce_function(self) -> Any:
        return self.function


class AggregatingStateDescriptor(state.AggregatingStateDescriptor, _WithTimeToLive):
    __slots__ = ()

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: Any) -> None:
        super().__init__(name, state_type_info, None, agg_function)

    def get_agg_function(self) -> Any:
        return self.function

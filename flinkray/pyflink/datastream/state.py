"""`pyflink.datastream.state`: descriptors with PyFlink's order of arguments, and `enable_time_to_live`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from flinkray.functions.interfaces import AggregateFunction, OperatorStateStore, ReduceFunction
from flinkray.pyflink.imported_names import imported
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
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

__getattr__ = imported(__name__)


class State(ABC):
    """Base of all states, for `isinstance` and annotations."""

    @abstractmethod
    def clear(self) -> None: ...

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return callable(getattr(other, "clear", None)) if cls is State else NotImplemented


class AppendingState(State):
    """Base of states that values are added to, for annotations."""

    @abstractmethod
    def get(self) -> Any: ...

    @abstractmethod
    def add(self, value: Any) -> None: ...


class MergingState(AppendingState):
    """Base of states that can be merged, for annotations."""


class StateDescriptor:
    """Base of all descriptors."""

    __slots__ = ()
    name: str

    def __init__(self, name: str, type_info: Any) -> None:
        raise TypeError(f"the descriptor of state {name!r} says which kind it is of: ValueStateDescriptor(...)")

    def get_name(self) -> str:
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Sets the time to live; to be called before the descriptor is used."""
        object.__setattr__(self, "ttl", ttl_config)  # the descriptor itself is frozen


class ValueStateDescriptor(state.ValueStateDescriptor, StateDescriptor):
    __slots__ = ()

    def __init__(self, name: str, value_type_info: Any) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(state.ListStateDescriptor, StateDescriptor):
    __slots__ = ()

    def __init__(self, name: str, elem_type_info: Any) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(state.MapStateDescriptor, StateDescriptor):
    __slots__ = ()

    def __init__(self, name: str, key_type_info: Any, value_type_info: Any) -> None:
        super().__init__(name, value_type_info, None, key_type_info)


class ReducingStateDescriptor(state.ReducingStateDescriptor, StateDescriptor):
    __slots__ = ()

    def __init__(self, name: str, reduce_function: ReduceFunction | Callable[..., Any], type_info: Any) -> None:
        super().__init__(name, type_info, None, reduce_function)

    def get_reduce_function(self) -> Any:
        return self.function


class AggregatingStateDescriptor(state.AggregatingStateDescriptor, StateDescriptor):
    __slots__ = ()

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: Any) -> None:
        super().__init__(name, state_type_info, None, agg_function)

    def get_agg_function(self) -> Any:
        return self.function

"""`pyflink.datastream.functions`. The same classes, with the nested names and brackets that programs annotate with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from flinkray.functions import broadcast as broadcast_functions
from flinkray.functions import interfaces as functions
from flinkray.functions.asynchronous import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from flinkray.functions.broadcast import (
    BaseBroadcastContext,
    BroadcastContext,
    KeyedBroadcastContext,
    KeyedReadOnlyBroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastContext,
)
from flinkray.functions.interfaces import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    MapFunction,
    OnTimerContext,
    ProcessContext,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    TimeDomain,
    TimerService,
    WindowContext,
)
from flinkray.functions.interfaces import KeySelectorFunction as KeySelector
from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable
from flinkray.state.descriptors import KeyedStateStore

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "TimeDomain",
    "TimerService",
    "WindowFunction",
]


__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "AsyncFunctionDescriptor FunctionWrapper InternalAsyncFunction InternalIterableAllWindowFunction "
        "InternalIterableProcessAllWindowFunction InternalIterableProcessWindowFunction InternalIterableWindowFunction "
        "InternalProcessAllWindowContext InternalProcessWindowContext InternalSingleValueAllWindowFunction "
        "InternalSingleValueProcessAllWindowFunction InternalSingleValueProcessWindowFunction "
        "InternalSingleValueWindowFunction InternalWindowFunction JavaFunctionWrapper PassThroughAllWindowFunction "
        "PassThroughWindowFunction ReduceFunctionWrapper",
        "it is how PyFlink itself runs functions; give your own function to map(), reduce(), process() or apply()",
    ),
)


class _WindowContext(WindowContext, Protocol):
    """Stands for the context in annotations such as `ProcessWindowFunction.Context[TimeWindow]`."""

    def __class_getitem__(cls, _types: Any) -> Any:
        return cls


class Partitioner(Function, ABC):
    """Base of partitioners for `partition_custom`; `open` and `close` are called as those of other functions."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The subtask that gets the key."""

    def __call__(self, key: Any, num_partitions: int) -> int:
        return self.partition(key, num_partitions)


class NullByteKeySelector(KeySelector):
    """Gives every value the same key."""

    def get_key(self, value: Any) -> int:
        return 0


class ProcessFunction(functions.ProcessFunction):
    Context = ProcessContext


class KeyedProcessFunction(functions.KeyedProcessFunction):
    Context = ProcessContext
    OnTimerContext = OnTimerContext


class CoProcessFunction(functions.CoProcessFunction):
    Context = ProcessContext


class KeyedCoProcessFunction(functions.KeyedCoProcessFunction):
    Context = ProcessContext
    OnTimerContext = OnTimerContext


class BaseBroadcastProcessFunction(broadcast_functions.BaseBroadcastProcessFunction):
    BaseContext = BaseBroadcastContext
    Context = BroadcastContext
    ReadOnlyContext = ReadOnlyBroadcastContext


class BroadcastProcessFunction(broadcast_functions.BroadcastProcessFunction, BaseBroadcastProcessFunction):
    pass


class KeyedBroadcastProcessFunction(broadcast_functions.KeyedBroadcastProcessFunction, BaseBroadcastProcessFunction):
    Context = KeyedBroadcastContext
    ReadOnlyContext = KeyedReadOnlyBroadcastContext
    OnTimerContext = OnTimerBroadcastContext


class ProcessWindowFunction(functions.ProcessWindowFunction):
    Context = _WindowContext


class ProcessAllWindowFunction(functions.ProcessAllWindowFunction):
    Context = _WindowContext


class WindowFunction(functions.WindowFunction):
    pass


class AllWindowFunction(functions.AllWindowFunction):
    pass

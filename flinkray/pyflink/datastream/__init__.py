"""`pyflink.datastream`."""

from __future__ import annotations

from flinkray.functions.interfaces import TimerService
from flinkray.pyflink.datastream.async_data_stream import AsyncDataStream
from flinkray.pyflink.datastream.checkpoint_config import CheckpointConfig
from flinkray.pyflink.datastream.data_stream import (
    BroadcastConnectedStream,
    BroadcastStream,
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
)
from flinkray.pyflink.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    TimeDomain,
    WindowFunction,
)
from flinkray.pyflink.datastream.output_tag import OutputTag
from flinkray.pyflink.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from flinkray.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkray.pyflink.datastream.time_characteristic import TimeCharacteristic
from flinkray.pyflink.datastream.window import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)
from flinkray.pyflink.datastream.windowed_stream import AllWindowedStream, WindowedStream
from flinkray.pyflink.unavailable import unavailable
from flinkray.state.backends import (
    CheckpointStorage,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    PredefinedOptions,
    StateBackend,
)
from flinkray.state.checkpoint_config import CheckpointingMode, ExternalizedCheckpointRetention
from flinkray.state.checkpoint_config import ExternalizedCheckpointRetention as ExternalizedCheckpointCleanup
from flinkray.streams.settings.environment_settings import RuntimeExecutionMode

__all__ = [
    "AggregateFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "GlobalWindow",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "MergingWindowAssigner",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlidingEventTimeWindows",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

__getattr__ = unavailable(
    __name__,
    "CachedDataStream CustomCheckpointStorage CustomStateBackend",
    "it names classes or options of Java; use HashMapStateBackend or EmbeddedRocksDBStateBackend, with "
    "JobManagerCheckpointStorage or FileSystemCheckpointStorage",
)

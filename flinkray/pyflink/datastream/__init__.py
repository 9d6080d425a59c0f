"""`pyflink.datastream`."""

from __future__ import annotations

from flinkray.broadcast import BroadcastConnectedStream, BroadcastStream
from flinkray.checkpoint_config import CheckpointConfig, CheckpointingMode, ExternalizedCheckpointRetention
from flinkray.checkpoint_config import ExternalizedCheckpointRetention as ExternalizedCheckpointCleanup
from flinkray.connected_streams import ConnectedStreams
from flinkray.data_stream_sink import DataStreamSink
from flinkray.datastream import DataStream
from flinkray.environment_settings import RuntimeExecutionMode
from flinkray.functions import TimerService
from flinkray.keyed_stream import KeyedStream
from flinkray.pyflink.datastream.functions import (
    AggregateFunction,
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
from flinkray.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkray.pyflink.datastream.window import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows
from flinkray.state_backends import (
    CheckpointStorage,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    StateBackend,
)
from flinkray.types import OutputTag
from flinkray.windowed_stream import WindowedStream

__all__ = [
    "AggregateFunction",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "OutputTag",
    "Partitioner",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlidingEventTimeWindows",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "TumblingEventTimeWindows",
    "WindowFunction",
    "WindowedStream",
]

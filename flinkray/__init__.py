"""flinkray: stateful streams over Arrow batches, on Ray. Everything a program needs is importable from here."""

from __future__ import annotations

from flinkray.package_check import check_packages

check_packages()

# ruff: noqa: E402  (the check comes before the imports that a shadowing package would break)
from flinkray.aggregates import (
    Aggregate,
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)
from flinkray.batch import Batch
from flinkray.broadcast import BroadcastConnectedStream, BroadcastStream
from flinkray.broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from flinkray.checkpoint_config import CheckpointConfig, CheckpointingMode, ExternalizedCheckpointRetention
from flinkray.checkpoint_statistics import CheckpointKind, CheckpointOverview, CheckpointStatistics, CheckpointStatus
from flinkray.config import Configuration
from flinkray.connected_streams import ConnectedStreams
from flinkray.connectors.collect import CollectSink
from flinkray.connectors.collection import ArrowSource, CollectionSource, PandasSource
from flinkray.connectors.datagen import DataGenSource, RandomField, SequenceField
from flinkray.connectors.discard import DiscardSink
from flinkray.connectors.file_sink import FileSink
from flinkray.connectors.file_source import FileSource
from flinkray.connectors.print import PrintSink
from flinkray.connectors.sequence import SequenceSource
from flinkray.connectors.sink import Committer, Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.socket_source import SocketSource
from flinkray.connectors.source import (
    Boundedness,
    ReaderStatus,
    Source,
    SourceBatch,
    SourceProgress,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.spark import SparkSink, SparkSource
from flinkray.connectors.spark_stream import SparkStreamSource
from flinkray.connectors.split_list import SplitListEnumerator, SplitListReader
from flinkray.data_stream_sink import DataStreamSink
from flinkray.datastream import DataStream
from flinkray.environment import JobListener, StreamExecutionEnvironment
from flinkray.environment_settings import RuntimeExecutionMode
from flinkray.errors import (
    CheckpointError,
    ConfigurationError,
    FlinkrayError,
    InvalidProgramError,
    JobCanceledError,
    JobExecutionError,
    MissingDependencyError,
    NoResourceAvailableError,
    NotSerializableError,
    NullTimestampError,
    PartitionError,
    RecordError,
    TypeMismatchError,
    UnknownColumnError,
    UserFunctionError,
)
from flinkray.execution import JobClient, JobExecutionResult, JobProgress, JobStatus
from flinkray.expressions import Expression, coalesce, col, greatest, if_else, least, lit, when
from flinkray.functions import (
    AggregateFunction,
    CheckpointedFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    JoinFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelectorFunction,
    MapFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceContext,
    SourceFunction,
    TimeDomain,
    WindowFunction,
)
from flinkray.interval_join import IntervalJoin, IntervalJoined
from flinkray.joined_streams import CoGroupedStreams, JoinedStreams
from flinkray.keyed_stream import KeyedStream
from flinkray.restart_strategies import RestartStrategies, RestartStrategyConfiguration
from flinkray.results import CollectedRows
from flinkray.rows import Row
from flinkray.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flinkray.state_backends import (
    CheckpointStorage,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    StateBackend,
)
from flinkray.state_ttl import StateTtlConfig, TtlCleanup, TtlClock, TtlUpdateType, TtlVisibility
from flinkray.time_units import Duration, Time
from flinkray.transformations import ResourceSpec
from flinkray.type_info import TypeInformation, Types
from flinkray.types import Kind, OutputTag, RecordType
from flinkray.watermarks import WatermarkGenerator, WatermarkStrategy
from flinkray.windowed_stream import WindowedStream
from flinkray.windowing import SlidingEventTimeWindows, TumblingEventTimeWindows, Window, WindowAssigner

__all__ = [
    "Aggregate",
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "ArgMax",
    "ArgMin",
    "ArrowSource",
    "Avg",
    "BaseBroadcastProcessFunction",
    "Batch",
    "Boundedness",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointError",
    "CheckpointKind",
    "CheckpointOverview",
    "CheckpointStatistics",
    "CheckpointStatus",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "CollectList",
    "CollectSink",
    "CollectedRows",
    "CollectionSource",
    "Committer",
    "Configuration",
    "ConfigurationError",
    "ConnectedStreams",
    "Count",
    "CountDistinct",
    "DataGenSource",
    "DataStream",
    "DataStreamSink",
    "DiscardSink",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "Expression",
    "ExternalizedCheckpointRetention",
    "FileSink",
    "FileSource",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "First",
    "FlatMapFunction",
    "FlinkrayError",
    "Function",
    "HashMapStateBackend",
    "IntervalJoin",
    "IntervalJoined",
    "InvalidProgramError",
    "JobCanceledError",
    "JobClient",
    "JobExecutionError",
    "JobExecutionResult",
    "JobListener",
    "JobManagerCheckpointStorage",
    "JobProgress",
    "JobStatus",
    "JoinFunction",
    "JoinedStreams",
    "KeySelectorFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "Kind",
    "Last",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "Max",
    "Min",
    "MissingDependencyError",
    "NoResourceAvailableError",
    "NotSerializableError",
    "NullTimestampError",
    "OutputTag",
    "PandasSource",
    "PartitionError",
    "PrintSink",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "RandomField",
    "ReadOnlyBroadcastState",
    "ReaderStatus",
    "RecordError",
    "RecordType",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "ResourceSpec",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SequenceField",
    "SequenceSource",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "SinkWriterContext",
    "SlidingEventTimeWindows",
    "SocketSource",
    "Source",
    "SourceBatch",
    "SourceProgress",
    "SourceContext",
    "SourceFunction",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SparkSink",
    "SparkSource",
    "SparkStreamSource",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "SplitListEnumerator",
    "SplitListReader",
    "StateBackend",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "Sum",
    "Time",
    "TimeDomain",
    "TopN",
    "TtlCleanup",
    "TtlClock",
    "TtlUpdateType",
    "TtlVisibility",
    "TumblingEventTimeWindows",
    "TypeInformation",
    "TypeMismatchError",
    "Types",
    "UnknownColumnError",
    "UserFunctionError",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkGenerator",
    "WatermarkStrategy",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
    "coalesce",
    "col",
    "greatest",
    "if_else",
    "least",
    "lit",
    "when",
]

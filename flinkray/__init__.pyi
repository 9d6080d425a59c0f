# ruff: noqa: TID252  (what reads this at run time, see __init__.py, takes relative imports only)
from .batches.batch import Batch
from .collected_rows import CollectedRows
from .config.configuration import Configuration
from .connectors.async_sink import AsyncSinkWriter, SendAgain
from .connectors.collect.sink import CollectSink
from .connectors.collection.source import ArrowSource, CollectionSource, PandasSource
from .connectors.committer import CommitOutcome, CommitRequest, CommittableSummary, CommittableWithLineage, Committer
from .connectors.datagen.source import DataGenSource, RandomField, SequenceField
from .connectors.delivery_guarantee import DeliveryGuarantee
from .connectors.delta.sink import DeltaSink
from .connectors.delta.source import DeltaSource
from .connectors.discard.sink import DiscardSink
from .connectors.files.source import FileSource
from .connectors.files.writing.buckets import (
    BasePathBucketAssigner,
    BucketAssigner,
    BucketContext,
    DateTimeBucketAssigner,
)
from .connectors.files.writing.compaction import FileCompaction
from .connectors.files.writing.partition_commit import CommittedPartition, PartitionCommit, PartitionCommitPolicy
from .connectors.files.writing.sink import FileSink
from .connectors.formats.avro import AvroFormat
from .connectors.formats.changes.canal_json import CanalJsonFormat, MaxwellJsonFormat
from .connectors.formats.changes.debezium_json import DebeziumJsonFormat, OggJsonFormat
from .connectors.formats.csv import CsvFormat
from .connectors.formats.json import JsonFormat
from .connectors.formats.message_format import ChangelogFormat, Changes, MessageFormat
from .connectors.formats.protobuf import ProtobufFormat
from .connectors.formats.raw import RawFormat
from .connectors.formats.schema_registry import SchemaRegistry
from .connectors.http.event_sink import ServerSentEventsSink
from .connectors.http.sink import HttpSink
from .connectors.http.webhook import WebhookSource
from .connectors.hybrid.source import HybridSource
from .connectors.iceberg.sink import IcebergSink
from .connectors.iceberg.source import IcebergSource
from .connectors.kafka.offsets import KafkaOffsets
from .connectors.kafka.partitioners import KafkaPartitioner
from .connectors.kafka.sink import KafkaSink
from .connectors.kafka.source import KafkaSource
from .connectors.nats.sink import NatsSink
from .connectors.nats.source import NatsSource
from .connectors.postgres.changes.source import PostgresChangesSource
from .connectors.postgres.lookup import PostgresLookup
from .connectors.postgres.source import PostgresSource
from .connectors.postgres.writing.sink import PostgresSink
from .connectors.print.sink import PrintSink
from .connectors.redis.sink import RedisSink
from .connectors.redis.source import RedisSource
from .connectors.request_buffer import RequestLimits
from .connectors.sequence.source import SequenceSource
from .connectors.sink import (
    Sink,
    SinkWriter,
    SinkWriterContext,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreWriteTopology,
)
from .connectors.socket.source import SocketSource
from .connectors.source import (
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
from .connectors.spark.sink import SparkSink
from .connectors.spark.source import SparkSource, SparkStreamSource
from .connectors.split_list import SplitListEnumerator, SplitListReader
from .errors import (
    CheckpointError,
    ConfigurationError,
    ConnectorError,
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
    RescaleError,
    TypeMismatchError,
    UnknownColumnError,
    UserFunctionError,
)
from .execution import JobClient, JobExecutionResult, JobProgress, JobStatus
from .expressions.combinations import coalesce, greatest, if_else, least, struct, when
from .expressions.tree import Expression, col, lit
from .functions.asynchronous import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from .functions.broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastContext,
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyBroadcastContext,
    OnTimerBroadcastContext,
    ReadOnlyBroadcastContext,
)
from .functions.interfaces import (
    AggregateFunction,
    AllWindowFunction,
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
    OnTimerContext,
    ProcessAllWindowFunction,
    ProcessContext,
    ProcessFunction,
    ProcessJoinContext,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceContext,
    SourceFunction,
    TimeDomain,
    TimerService,
    WindowContext,
    WindowFunction,
)
from .state.backends import (
    CheckpointStorage,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    StateBackend,
)
from .state.checkpoint_config import CheckpointConfig, CheckpointingMode, ExternalizedCheckpointRetention
from .state.checkpoint_statistics import CheckpointKind, CheckpointOverview, CheckpointStatistics, CheckpointStatus
from .state.descriptors import (
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
from .state.restart_strategies import RestartStrategies, RestartStrategyConfiguration
from .state.time_to_live import StateTtlConfig, TtlCleanup, TtlClock, TtlUpdateType, TtlVisibility
from .streams.all_windowed_stream import AllWindowedStream
from .streams.async_data_stream import AsyncDataStream
from .streams.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from .streams.data_stream import DataStream
from .streams.environment import JobListener, StreamExecutionEnvironment
from .streams.interval_join import IntervalJoin, IntervalJoined
from .streams.joined_streams import CoGroupedStreams, JoinedStreams
from .streams.keyed_stream import KeyedStream
from .streams.settings.data_stream_sink import DataStreamSink
from .streams.settings.environment_settings import RuntimeExecutionMode
from .streams.windowed_stream import WindowedStream
from .time.time_units import Duration, Time
from .time.watermarks import WatermarkGenerator, WatermarkStrategy
from .time.windows import CountWindow, GlobalWindow, Window
from .transformations.transformation import ResourceSpec
from .types.changelogs import ChangelogMode
from .types.records import Kind, OutputTag, RecordType
from .types.rows import Row, RowKind
from .types.type_info import TypeInformation, Types
from .windows.aggregates import (
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
from .windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from .windows.continuous_triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from .windows.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from .windows.tagged_union import TaggedUnion
from .windows.triggers import (
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)

__all__ = [
    "Aggregate",
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "ArgMax",
    "ArgMin",
    "ArrowSource",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "AsyncSinkWriter",
    "Avg",
    "AvroFormat",
    "BaseBroadcastProcessFunction",
    "BasePathBucketAssigner",
    "Batch",
    "Boundedness",
    "BroadcastConnectedStream",
    "BroadcastContext",
    "BroadcastProcessFunction",
    "BroadcastState",
    "BroadcastStream",
    "BucketAssigner",
    "BucketContext",
    "CanalJsonFormat",
    "ChangelogFormat",
    "ChangelogMode",
    "Changes",
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
    "CommitOutcome",
    "CommitRequest",
    "CommittableSummary",
    "CommittableWithLineage",
    "CommittedPartition",
    "Committer",
    "Configuration",
    "ConfigurationError",
    "ConnectedStreams",
    "ConnectorError",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "Count",
    "CountDistinct",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CsvFormat",
    "DataGenSource",
    "DataStream",
    "DataStreamSink",
    "DateTimeBucketAssigner",
    "DebeziumJsonFormat",
    "DeliveryGuarantee",
    "DeltaEvictor",
    "DeltaSink",
    "DeltaSource",
    "DeltaTrigger",
    "DiscardSink",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "Expression",
    "ExternalizedCheckpointRetention",
    "FileCompaction",
    "FileSink",
    "FileSource",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "First",
    "FlatMapFunction",
    "FlinkrayError",
    "Function",
    "GlobalWindow",
    "GlobalWindows",
    "HashMapStateBackend",
    "HttpSink",
    "HybridSource",
    "IcebergSink",
    "IcebergSource",
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
    "JsonFormat",
    "KafkaOffsets",
    "KafkaPartitioner",
    "KafkaSink",
    "KafkaSource",
    "KeySelectorFunction",
    "KeyedBroadcastContext",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedReadOnlyBroadcastContext",
    "KeyedStream",
    "Kind",
    "Last",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "Max",
    "MaxwellJsonFormat",
    "MergingWindowAssigner",
    "MessageFormat",
    "Min",
    "MissingDependencyError",
    "NeverTrigger",
    "NoResourceAvailableError",
    "NatsSink",
    "NatsSource",
    "NotSerializableError",
    "NullTimestampError",
    "OggJsonFormat",
    "OnTimerBroadcastContext",
    "OnTimerContext",
    "OutputTag",
    "PandasSource",
    "PartitionCommit",
    "PartitionCommitPolicy",
    "PartitionError",
    "PostgresChangesSource",
    "PostgresLookup",
    "PostgresSink",
    "PostgresSource",
    "PrintSink",
    "ProcessAllWindowFunction",
    "ProcessContext",
    "ProcessFunction",
    "ProcessJoinContext",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "ProtobufFormat",
    "PurgingTrigger",
    "RandomField",
    "RawFormat",
    "ReadOnlyBroadcastContext",
    "ReadOnlyBroadcastState",
    "ReaderStatus",
    "RecordError",
    "RescaleError",
    "RecordType",
    "RedisSink",
    "RedisSource",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RequestLimits",
    "ResourceSpec",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SchemaRegistry",
    "SendAgain",
    "SequenceField",
    "SequenceSource",
    "ServerSentEventsSink",
    "SessionWindowTimeGapExtractor",
    "Sink",
    "SinkFunction",
    "SinkWriter",
    "SinkWriterContext",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "SocketSource",
    "Source",
    "SourceBatch",
    "SourceContext",
    "SourceFunction",
    "SourceProgress",
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
    "SupportsPostCommitTopology",
    "SupportsPreCommitTopology",
    "SupportsPreWriteTopology",
    "TaggedUnion",
    "Time",
    "TimeDomain",
    "TimeEvictor",
    "TimerService",
    "TopN",
    "Trigger",
    "TriggerResult",
    "TtlCleanup",
    "TtlClock",
    "TtlUpdateType",
    "TtlVisibility",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "TypeInformation",
    "TypeMismatchError",
    "Types",
    "UnknownColumnError",
    "UserFunctionError",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkGenerator",
    "WatermarkStrategy",
    "WebhookSource",
    "Window",
    "WindowAssigner",
    "WindowContext",
    "WindowFunction",
    "WindowedStream",
    "coalesce",
    "col",
    "greatest",
    "if_else",
    "least",
    "lit",
    "struct",
    "when",
]

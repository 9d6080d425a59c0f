"""Values that are kept with each release beside whole savepoints: what these hold seldom, or only with Spark or Ray.

See `tests/support/store_state.py`. An example may only be changed for releases to come, by another one beside it.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from actors.blocks.sink import BlockSink, Committable, WrittenBlock
from actors.blocks.source import BlockSource, BlockSplit
from actors.blocks.store import Block
from actors.checkpoints.coordination.failures import StoppingFailedError
from actors.high_availability.stored_jobs import StoreCorruptedError
from actors.protocol.control_messages import JobDetails, SavepointResult
from actors.protocol.resources import ResourceProfile, SlotWait
from actors.spark.delivery import after_commit
from actors.spark.spill import SpillBlockStore
from actors.spark.staged_reader import StagedSplit
from actors.spark.staged_source import EnumeratorState, StagedSource
from actors.spark.staging import StagedFile, Staging
from flinkray import (
    AllWindowFunction,
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    Batch,
    CheckpointKind,
    CheckpointOverview,
    CoFlatMapFunction,
    CoMapFunction,
    DataGenSource,
    DataStream,
    DeliveryGuarantee,
    DiscardSink,
    Duration,
    GlobalWindow,
    HttpSink,
    JobStatus,
    JsonFormat,
    KafkaSink,
    KafkaSource,
    Kind,
    Max,
    NatsSink,
    NatsSource,
    OutputTag,
    PrintSink,
    ProcessFunction,
    RecordType,
    RedisSink,
    RedisSource,
    Row,
    SequenceField,
    SequenceSource,
    ServerSentEventsSink,
    SinkFunction,
    SocketSource,
    SourceBatch,
    StreamExecutionEnvironment,
    TaggedUnion,
    Time,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
    WebhookSource,
    Window,
    coalesce,
    col,
    lit,
    when,
)
from flinkray.batches.row_codec import decode
from flinkray.connectors.committer import CommittableSummary, CommittableWithLineage
from flinkray.connectors.delta.data_files import DeltaFile
from flinkray.connectors.delta.log import DeltaSplit, DeltaStart
from flinkray.connectors.delta.tables import DeltaPlace
from flinkray.connectors.feedback.source import _HeadSplit
from flinkray.connectors.files.monitoring import MonitoredFiles
from flinkray.connectors.files.writing.commits import AbandonedFiles, FileCommittable
from flinkray.connectors.files.writing.compaction import FileCompaction, FileToCompact
from flinkray.connectors.files.writing.partition_commit import PartitionWritten, WriterProgress
from flinkray.connectors.hybrid.messages import HybridEnumeratorState, HybridSplit
from flinkray.connectors.iceberg.data_files import IcebergFile
from flinkray.connectors.iceberg.log import IcebergSplit, IcebergStart
from flinkray.connectors.iceberg.tables import IcebergPlace
from flinkray.connectors.kafka.enumerator import KafkaEnumeratorState, KafkaSplit
from flinkray.connectors.kafka.transactions.coordinators import KafkaTransaction
from flinkray.connectors.lake.commits import LakeFiles
from flinkray.connectors.lake.enumerator import TablePosition
from flinkray.connectors.lookup import LookupReader, LookupTable
from flinkray.connectors.nats.commits import NatsRows
from flinkray.connectors.nats.enumerator import NatsSplit
from flinkray.connectors.postgres.changes.enumerator import ChangesEnumeratorState
from flinkray.connectors.postgres.changes.settings import ChangesSettings, SplitKey
from flinkray.connectors.postgres.changes.splits import LogSplit, Piece, SnapshotSplit
from flinkray.connectors.postgres.columns import Column
from flinkray.connectors.postgres.settings import PostgresSourceSettings
from flinkray.connectors.postgres.splits import PostgresSplit
from flinkray.connectors.postgres.writing.commits import Mark, PostgresRows, PostgresTransaction
from flinkray.connectors.redis.commits import RedisRows
from flinkray.connectors.redis.splits import RedisSplit
from flinkray.connectors.source import SourceProgress
from flinkray.errors import DamagedCheckpointError, ErrorInfo
from flinkray.latencies import LatencyStatistics
from flinkray.patterns.pattern import Pattern
from flinkray.pyflink.datastream.connectors.buckets import BucketedSink, Limits
from flinkray.state.checkpoint_statistics import RestoredCheckpoint
from flinkray.tables.api.data_views import ListView, MapView
from flinkray.tables.plans import expressions as sql
from flinkray.tables.plans.expressions import SortKey
from flinkray.tables.types.logical import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    INT,
    INTERVAL,
    MAP,
    ROW,
    STRING,
    TIME,
    TIMESTAMP_LTZ,
    TimeAttribute,
)
from flinkray.tables.user_functions import EmittedRows, Implementation
from flinkray.testing.scripted_source import Script
from flinkray.transformations.operator_factories import CalcFactory, PatternFactory, RowtimeFactory
from flinkray.transformations.table_factories import (
    ConstraintsFactory,
    DeduplicateFactory,
    ExpandFactory,
    GroupAggregateFactory,
    LocalAggregateFactory,
    MatchFactory,
    NormalizeFactory,
    OverFactory,
    RankFactory,
    SortFactory,
)
from flinkray.transformations.table_join_factories import (
    LookupJoinFactory,
    RegularJoinFactory,
    RetriedLookupJoinFactory,
    SetOperationFactory,
    TableIntervalJoinFactory,
    TemporalJoinFactory,
    UnnestFactory,
)
from flinkray.transformations.table_window_factories import (
    LocalTimeFactory,
    SessionFactory,
    WatermarkAssignerFactory,
    WindowAggregateFactory,
    WindowJoinFactory,
    WindowRankFactory,
    Windows,
    WindowTableFunctionFactory,
)
from flinkray.types.changelogs import INSERTS
from flinkray.types.object_type import PICKLED
from flinkray.types.records import JobId, Millis, Timestamp
from flinkray.types.rows import RowKind
from flinkray.types.structs import Struct
from graphs.compiler.job_graph_generator import generate_job_graph
from graphs.job_graph import JobGraph
from tests.support.stored_jobs import Numbers, events
from tests.support.stored_operators import FIRST_CASES, SCHEMA, Position, row_of

ROWS = pa.record_batch({"n": pa.array([1, 2], pa.int64()), "word": ["a", None]})
WORDS = pa.schema({"key": pa.int64(), "n": pa.int64(), "word": pa.string()})
ODD = OutputTag("odd")
RECORD_TYPE = RecordType(Kind.ROW, ROWS.schema)
SQL_ROW = ROW(("is_open", BOOLEAN))


class _AskedTable(LookupTable):
    def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
        raise NotImplementedError


def examples() -> dict[str, Any]:
    """By what they are of."""
    store = SpillBlockStore("blocks")
    split = StagedSplit(3, 1, StagedFile("000001.arrow", (2, 5)), 4)
    return {
        "batch": Batch(ROWS, Kind.ROW, pa.array([5, 7], pa.int64()), ROWS.select([0])),
        "batch at one time": Batch(ROWS, Kind.ROW, 12),
        "record type": RecordType(Kind.TUPLE, pa.schema({"f0": pa.list_(pa.decimal128(5, 2))})),
        "record type with objects": RecordType(Kind.ROW, pa.schema({"any": PICKLED})),
        "given by a reader": (SourceBatch(Batch(ROWS), "split"), SourceProgress("split", Timestamp(7), True)),
        "tables of a lake": [
            LakeFiles("sink", (DeltaFile("d=1/part.parquet", 9, 7, {"d": "1"}, "{}", "7", (("n", "int64"),)),)),
            LakeFiles("sink", (IcebergFile("file:///t/1.parquet", 9, 0, (1,), {"record_count": 1}, "7"),)),
            TablePosition(3, (DeltaSplit("d=1/part.parquet", {"d": "1"}, 5),), "7"),
            IcebergSplit("file:///t/1.parquet", "PARQUET", 0, (1,), 9, 900, (("file:///t/2.parquet", "PARQUET"),), 5),
            (DeltaPlace("/t", (("key", "value"),)), IcebergPlace("shop.orders", "default", (("type", "sql"),))),
            (DeltaStart(version=3), IcebergStart(after=5)),
        ],
        "redis": [
            RedisRows("mark", "sink", b"\xdd\0\0\0\0"),
            RedisSplit("orders", "5-0", None, is_begun=True, number=7),
        ],
        "nats": [NatsRows("orders.marks.5", "sink", b"\x90"), NatsSplit("orders", ">", 5, 9, None, True, "2026")],
        "transactions": [KafkaTransaction("orders-0-7-0123456789ab", 4, 0)],
        "partitions": KafkaEnumeratorState(
            frozenset({("orders", 0)}), (KafkaSplit("orders", 1, 5, 9),), {"orders": "AbCdEf"}
        ),
        "parts of a table": [PostgresSplit("ONLY t@0", "ONLY t", "page", 0, None, 65_537)],
        "what is read of a table": PostgresSourceSettings("host=h", "t", "t", (Column("n", 20, -1),), "n > 1", None),
        "changes of a table": [
            ChangesEnumeratorState(100, 2, (SnapshotSplit(1, "7", None, 5),), False, 5),
            SnapshotSplit(0, None, "7", 5, "3", (Piece("3", True, "10:12:11", 90),)),
            LogSplit(100, 3, (Piece(None, False, "10:10:", 90),), 200),
        ],
        "what is read of a table's changes": ChangesSettings(
            uri="host=h",
            relation="t",
            table_id=7,
            columns=(Column("n", 20, -1),),
            type_ids=(20,),
            key=("n",),
            is_full=False,
            split_key=SplitKey("n", "bigint", "", True),
            slot="s",
            publication="p",
            is_bounded=False,
            skips_truncations=False,
        ),
        "rows of a checkpoint": [
            PostgresRows(Mark("w", 1), "sink", (b"x",)),
            PostgresTransaction(Mark("w", 2), "sink", "flinkray-s-0-2-w"),
        ],
        "rows": [Row(a=1, b=Row(2, 3)), Row("x"), Row(), RowKind.UPDATE_AFTER],
        "structs": [Struct(a=1, b=Struct(c=2))],
        "windows": {Window(0, 5): GlobalWindow(), "tag": OutputTag("late")},
        "one of two": TaggedUnion(True, Row(n=1)),
        "values of time": (Time.seconds(5), Duration.of_millis(7), datetime.timedelta(milliseconds=3)),
        "position": Position(datetime.datetime(2024, 2, 29), Decimal("1.50"), (Numbers(1, 2),)),
        "what a sink has committed": [CommittableSummary(0, 2, 7, 1, 0), CommittableWithLineage("a", 7, 0)],
        "files of a sink": [FileCommittable("a/.b", "a/b"), AbandonedFiles(("a/.c", "a/.d"))],
        "files that are put together": [
            FileToCompact("a/.b", "a/b", 7, "0a"),
            PartitionWritten("k=1", 5),
            WriterProgress(3, 6, False),
            FileCompaction(9, 2),
        ],
        "blocks": [BlockSplit(1, 77, 0, 10, 4)],
        "blocks of a sink": Committable(store, 1, 2, "writer", 3, (WrittenBlock("id", 2, ROWS.schema),), True),
        "scripted": [Script(3)],
        "staged": EnumeratorState("query", 5, (split,)),
        "errors": [StoppingFailedError("a"), StoreCorruptedError("b"), DamagedCheckpointError("c")],
        "details": JobDetails(
            JobId("0" * 32),
            "details",
            JobStatus.CANCELED,
            ((JobStatus.INITIALIZING, 1), (JobStatus.CANCELED, 2)),
            error=ErrorInfo.of(DamagedCheckpointError("gone")),
            checkpoints=CheckpointOverview(latest_restored=RestoredCheckpoint(3, 4, True, "memory://stored")),
            savepoints=(SavepointResult("request", "memory://stored/savepoint", None),),
        ),
        "slot_wait": SlotWait(1, 2, ((ResourceProfile(1.0), 1),)),
        "latencies": [LatencyStatistics(**dict.fromkeys(LatencyStatistics.__dataclass_fields__, 1))],
        "expressions of SQL": CalcFactory(
            (("at", TIMESTAMP_LTZ(3).as_attribute(TimeAttribute.ROWTIME)), ("row", SQL_ROW)),
            (("day", sql.Call(STRING, "CAST", (sql.Column(DATE, 0),))),),
            sql.FieldAccess(BOOLEAN, sql.Column(SQL_ROW, 1), 0, "is_open"),
        ),
        "operators of SQL": [
            DeduplicateFactory(
                input_rows=(SQL_ROW,), rows=SQL_ROW, takes=(INSERTS,), gives=INSERTS, time=None, keeps_last=False
            ),
            RankFactory(
                input_rows=(SQL_ROW,), rows=SQL_ROW, takes=(INSERTS,), kind="RANK", order=(SortKey(0),), first=1, last=2
            ),
            OverFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                order=(),
                time=None,
                calls=(
                    sql.WindowCall("COUNT", (), BIGINT, frame=sql.Frame("ROWS", *[sql.FrameBound("CURRENT ROW")] * 2)),
                ),
            ),
            SortFactory(input_rows=(SQL_ROW,), rows=SQL_ROW, takes=(INSERTS,), order=(), time=None),
            MatchFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                keys=(0,),
                order=(SortKey(0),),
                time=0,
                variables=(sql.PatternVariable("A"),),
                skip=("NEXT ROW", None),
                window_ms=None,
                reads=(sql.MatchRead("PROCTIME", INT),),
                measures=(sql.Column(INT, 0),),
                text="A",
            ),
            NormalizeFactory(input_rows=(SQL_ROW,), rows=SQL_ROW, takes=(INSERTS,)),
            GroupAggregateFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                keys=(0,),
                calls=(sql.AggregateCall("COUNT", (), INT),),
                text="COUNT(*)",
                functions=(("total", Implementation("total", sum)),),
            ),
            LocalAggregateFactory(input_rows=(SQL_ROW,), rows=SQL_ROW, takes=(INSERTS,), keys=(0,), calls=()),
            ExpandFactory(input_rows=(SQL_ROW,), rows=SQL_ROW, takes=(INSERTS,), keys=(0,), sets=((0,), ())),
            UnnestFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                collection=sql.Column(ARRAY(INT), 0),
                is_outer=True,
                with_ordinality=False,
            ),
            TemporalJoinFactory(
                input_rows=(SQL_ROW,) * 2, rows=SQL_ROW, takes=(INSERTS,) * 2, kind="LEFT", keys=((0, 0),), times=(1, 1)
            ),
            LookupJoinFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                table=_AskedTable(),
                table_rows=SQL_ROW,
                kind="INNER",
                keys=((0, 0),),
            ),
            SetOperationFactory(input_rows=(SQL_ROW,) * 2, rows=SQL_ROW, takes=(INSERTS,) * 2, kind="EXCEPT", all=True),
            RegularJoinFactory(
                input_rows=(SQL_ROW, SQL_ROW), rows=SQL_ROW, takes=(INSERTS, INSERTS), kind="SEMI", keys=((0, 0),)
            ),
            TableIntervalJoinFactory(
                input_rows=(SQL_ROW, SQL_ROW),
                rows=SQL_ROW,
                takes=(INSERTS, INSERTS),
                kind="INNER",
                keys=(),
                lower_ms=0,
                upper_ms=1,
                times=None,
            ),
            RowtimeFactory("at"),
            WatermarkAssignerFactory((("at", TIMESTAMP_LTZ(3)),), "at", sql.Column(TIMESTAMP_LTZ(3), 0)),
            WindowTableFunctionFactory("at", Windows("TUMBLE", 10, 10), ("start", "end", "time"), is_instant=True),
            LocalTimeFactory("Asia/Kolkata"),
            WindowAggregateFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                ends=(0,),
                keys=(0,),
                calls=(sql.AggregateCall("COUNT", (), INT),),
            ),
            WindowRankFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                ends=(0,),
                kind="RANK",
                keys=(0,),
                order=(SortKey(1),),
                first=1,
                last=2,
                has_number=False,
            ),
            WindowJoinFactory(
                input_rows=(SQL_ROW, SQL_ROW),
                rows=SQL_ROW,
                takes=(INSERTS, INSERTS),
                ends=(0, 0),
                kind="INNER",
                keys=((0,), (0,)),
            ),
        ],
        "sessions of SQL": SessionFactory(
            input_rows=(SQL_ROW,), rows=SQL_ROW, takes=(INSERTS,), time=0, gap_ms=Millis(5)
        ),
        "options of SQL": [
            ConstraintsFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                table="t",
                not_null=(0,),
                drops=True,
                lengths=(),
                trims=False,
            ),
            RetriedLookupJoinFactory(
                input_rows=(SQL_ROW,),
                rows=SQL_ROW,
                takes=(INSERTS,),
                table=_AskedTable(),
                table_rows=SQL_ROW,
                kind="INNER",
                keys=((0, 0),),
                retry_delay_ms=Millis(5),
                retries=2,
            ),
        ],
        "pattern of events": PatternFactory(
            pattern=Pattern.begin("a").where(col("value") > 1).next("b").times(2), function=len, mode="select"
        ),
        "watched files": MonitoredFiles({"a.csv": 1}, ()),
        "sources one after another": HybridEnumeratorState(1, (), {0: ()}, (HybridSplit(0, KafkaSplit("t", 0, 1)),)),
        "accumulators": [ListView(), MapView(), EmittedRows(sum)],  # type: ignore[arg-type]
        "constants of SQL": [
            sql.Constant(kind, None) for kind in (TIME(3), DECIMAL(5, 2), INTERVAL("DAY"), MAP(STRING, ARRAY(INT)))
        ],
        "head of a loop": [_HeadSplit("head")],
        "kind of a checkpoint": CheckpointKind.SAVEPOINT,
    }


def plain(value: Any) -> Any:
    """The value with its classes, as something that is equal where they are, whether or not they say so."""
    if isinstance(value, BaseException):
        return type(value), value.args
    if isinstance(value, list | tuple):
        return type(value), [plain(each) for each in value]
    if isinstance(value, Mapping):
        return type(value), [(plain(key), plain(each)) for key, each in value.items()]
    if isinstance(value, msgspec.Struct):
        return type(value), [plain(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, ErrorInfo):
        return value.type_name, value.message, plain(value.exception())
    if isinstance(value, Batch):
        return value.data, value.kind, value.times, value.keys
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), [plain(getattr(value, each.name)) for each in dataclasses.fields(value)]
    if hasattr(value, "__dict__") and not isinstance(value, enum.Enum | type):
        return type(value), plain(vars(value))
    return value


# -- programs ----------------------------------------------------------------------------------------------------------


class BothMapped(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value.n

    def map2(self, value: Any) -> Any:
        return value.n


class BothFlattened(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[Any]:
        yield value.n

    def flat_map2(self, value: Any) -> Iterator[Any]:
        yield value.n


class Parted(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield (ODD, value.n) if value.n % 2 else value.n


class Nowhere(SinkFunction):
    def invoke(self, value: Any) -> None:
        """Nothing comes of it."""


class CommittedAtOnce(DiscardSink):
    @property
    def commits_globally(self) -> bool:
        return True


class Applied(AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        yield window.start, len(list(inputs))


def is_odd(value: Any) -> bool:
    return bool(value.n % 2)


def words_of(value: Any) -> list[str]:
    return str(value.word).split()


def length_of(value: Any) -> int:
    return len(value)


def length_of_number(value: int) -> int:
    return len(str(value))


def as_it_is(value: Any) -> Any:
    return value


def same_batch(batch: Any) -> Any:
    return batch


def is_none(value: Any) -> bool:
    return value is None


def lines_of(batch: Batch, _: str) -> Batch:
    return batch


def bucket_at(_: int) -> str:
    return "bucket"


def nth(key: Any, count: int) -> int:
    return int(key) % count


class Looked(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value.n]


async def later(value: Any) -> Any:
    return value


def columns(stream: DataStream, other: DataStream) -> None:
    """Operators without state, and every way from one to the next."""
    changed = stream.with_columns(
        m=when(col("n") > 3).then(col("n") * 2).otherwise(lit(0)),
        upper=coalesce(col("word").str.upper(), lit("")),
    )
    narrow = changed.where(col("m") > lit(1)).drop("upper").rename({"m": "double"})
    narrow = narrow.select("key", "n", col("word").alias("word"))
    words = narrow.rebalance().flat_map(words_of, Types.STRING()).map(length_of, int)
    batches = narrow.filter(is_odd).map_batches(same_batch, output_type=WORDS)
    retries = (
        AsyncRetryStrategy.fixed_delay(2, 5, is_none, None),
        AsyncRetryStrategy.exponential_backoff(2, 5, 20, 2.0, is_none, None),
    )
    asynchronous = [
        AsyncDataStream.ordered_wait_with_retry(narrow, Looked(), 1_000, each, 4, Types.LONG()) for each in retries
    ]
    loop = words.iterate(100)
    loop.close_with(loop.map(length_of_number, int))
    ways = [narrow.forward(), narrow.rescale(), narrow.shuffle(), narrow.global_(), narrow.broadcast()]
    ways.append(narrow.partition_custom(nth, "key"))
    sided = narrow.process(Parted())
    for each in (
        words,
        batches,
        *(way.map(as_it_is, WORDS) for way in ways),
        sided.get_side_output(ODD),
        sided.async_map(later, 4),
        stream.connect(other).map(BothMapped(), int),
        stream.connect(other).flat_map(BothFlattened(), int),
        *asynchronous,
        loop.map(length_of_number, int),
        stream.window_all(TumblingEventTimeWindows.of(10)).apply(Applied(), Types.TUPLE([Types.LONG(), Types.LONG()])),
        stream.key_by("key", col("word")).aggregate(high=Max("n")),
    ):
        each.sink_to(DiscardSink())
    narrow.sink_to(PrintSink())
    narrow.add_sink(Nowhere())
    narrow.sink_to(BucketedSink("/rows", "text", lines_of, bucket_at, Limits(1, 2, 3), "part", ".txt"))


def programs() -> dict[str, Callable[[StreamExecutionEnvironment], None]]:
    return {
        "columns": _columns,
        "operators": _operators,
        "connectors": _connectors,
        "messages": _messages,
        "changelogs": _changelogs,
        "requests": _requests,
    }


def graph_of(build: Callable[[StreamExecutionEnvironment], None]) -> JobGraph:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    build(env)
    return generate_job_graph(env._pipeline("stored", should_prepare=True), JobId("0" * 32))


def _columns(env: StreamExecutionEnvironment) -> None:
    one, other = events(env), env.from_collection([row_of(1)[0]], SCHEMA)
    columns(one, other)


def _messages(env: StreamExecutionEnvironment) -> None:
    source = KafkaSource("host:1", ["orders"], JsonFormat({"n": int}), ["key"])
    read = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
    written = read.encode(JsonFormat()).decode(JsonFormat({"n": int}), bad_messages=OutputTag("bad"))
    written.sink_to(KafkaSink("host:1", "copies", JsonFormat()))
    written.sink_to(CommittedAtOnce())
    entries = env.from_source(RedisSource("redis://host", "s", {"n": int}), WatermarkStrategy.no_watermarks(), "s")
    entries.sink_to(RedisSink("redis://host", "copies", delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE))
    stored = env.from_source(
        NatsSource("nats://host", "s", JsonFormat({"n": int})), WatermarkStrategy.no_watermarks(), "n"
    )
    stored.sink_to(NatsSink("nats://host", "copies", JsonFormat()))


def _requests(env: StreamExecutionEnvironment) -> None:
    came = env.from_source(WebhookSource(1, JsonFormat({"n": int})), WatermarkStrategy.no_watermarks(), "webhook")
    came.sink_to(HttpSink("https://host/rows"))
    came.sink_to(ServerSentEventsSink(2))


def _changelogs(env: StreamExecutionEnvironment) -> None:
    changes = events(env).with_columns(op=lit("+I")).as_changelog("op")
    changes.sink_to(PrintSink())
    changes.kinds_as_column("op").sink_to(PrintSink(texts=decode))  # as all were before there were kinds


def _operators(env: StreamExecutionEnvironment) -> None:
    streams = [env.from_collection([row_of(number)[0]], SCHEMA) for number in range(2)]
    for case in FIRST_CASES.values():
        case.build(*streams[: case.inputs]).sink_to(DiscardSink())


def _connectors(env: StreamExecutionEnvironment) -> None:
    store = SpillBlockStore("blocks")
    staged = StagedSource(Staging("/staging"), RECORD_TYPE, ends_with_query=True)
    blocks = BlockSource(store, [Block.of("id", ROWS)], RECORD_TYPE, is_ordered=True)
    sources = {"staged": staged, "blocks": blocks, "sequence": SequenceSource(1, 5), "socket": SocketSource("host", 1)}
    for name, source in sources.items():
        stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), name)
        stream.sink_to(BlockSink(store, after_commit))
    generated = DataGenSource({"n": SequenceField(1, 9)}, 10)
    env.from_source(generated, WatermarkStrategy.no_watermarks(), "generated").sink_to(DiscardSink())

"""Each source and sink in a whole job of its own, and PyFlink's own programs with their imports changed."""

from __future__ import annotations

import datetime
import gzip
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkray import (
    ArrowSource,
    Batch,
    CollectionSource,
    CommitRequest,
    Committer,
    Count,
    DataGenSource,
    DiscardSink,
    FileSink,
    FileSource,
    JobExecutionError,
    Kind,
    PandasSource,
    PrintSink,
    RandomField,
    Row,
    SequenceField,
    SequenceSource,
    Sink,
    SinkWriter,
    SourceContext,
    SourceFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    UserFunctionError,
    WatermarkStrategy,
    col,
)
from flinkray.functions.interfaces import ProcessContext
from tests.support.whole_jobs import in_order, rows

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


# -- what the driver has


TABLE = pa.table({"n": [1, 2, 3], "text": ["a", None, "c"]})


class OnlyAnArrowStream:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


FROM_ARROW: dict[str, Callable[[], Any]] = {
    "a table": lambda: TABLE,
    "a batch": lambda: TABLE.to_batches()[0],
    "a reader": lambda: TABLE.to_reader(max_chunksize=1),
    "a stream of another library": OnlyAnArrowStream,
}


@pytest.mark.parametrize("data", FROM_ARROW)
def test_from_arrow(env: StreamExecutionEnvironment, data: str) -> None:
    stream = env.from_arrow(FROM_ARROW[data]())
    assert stream.record_type is not None
    assert stream.record_type.schema == TABLE.schema
    assert stream.to_arrow().sort_by("n").equals(TABLE)


def test_from_pandas_leaves_the_index_out(env: StreamExecutionEnvironment) -> None:
    frame = pd.DataFrame({"n": [1, 2], "at": pd.to_datetime(["2024-01-01", "2024-01-02"])}, index=["x", "y"])
    back = env.from_pandas(frame).to_pandas().sort_values("n").reset_index(drop=True)
    assert list(back.columns) == ["n", "at"]
    assert back["at"].tolist() == frame["at"].tolist()


COLLECTIONS: dict[str, tuple[Any, Any, list[Any], Kind]] = {
    "numbers": ([2, 1], None, [2, 1], Kind.SCALAR),
    "numbers of two kinds": ([1, 2.5], None, [1.0, 2.5], Kind.SCALAR),
    "with None": (["a", None], None, ["a", None], Kind.SCALAR),
    "tuples": ([("a", 1), ("b", 2)], None, [("a", 1), ("b", 2)], Kind.TUPLE),
    "dicts": ([{"a": 1}, {"a": 2}], None, [Row(a=1), Row(a=2)], Kind.ROW),
    "rows": ([Row(a=1), Row(a=2)], None, [Row(a=1), Row(a=2)], Kind.ROW),
    "unnamed rows": ([Row(1, "x")], Types.ROW([Types.INT(), Types.STRING()]), [Row(f0=1, f1="x")], Kind.ROW),
    "a generator": ((n for n in (3, 4)), Types.LONG(), [3, 4], Kind.SCALAR),
    "declared": ([1], Types.DOUBLE(), [1.0], Kind.SCALAR),
    "of times": ([datetime.date(2024, 5, 1)], Types.SQL_DATE(), [datetime.date(2024, 5, 1)], Kind.SCALAR),
    "of decimals": ([Decimal("1.5")], Types.BIG_DEC(), [Decimal("1.5")], Kind.SCALAR),
    "lists": ([[1, 2], [3]], None, [[1, 2], [3]], Kind.SCALAR),
    "maps": ([{"k": 1}], Types.MAP(Types.STRING(), Types.LONG()), [{"k": 1}], Kind.SCALAR),
    "objects": ([{1, 2}], None, [{1, 2}], Kind.OBJECT),
    "nothing": ([], Types.LONG(), [], Kind.SCALAR),
}


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.filterwarnings("ignore:.*travel pickled")
def test_from_collection_keeps_values_and_order(env: StreamExecutionEnvironment, collection: str) -> None:
    values, type_info, expected, kind = COLLECTIONS[collection]
    stream = env.from_collection(values, type_info=type_info)
    assert stream.record_type is not None
    assert stream.record_type.kind is kind
    assert in_order(stream) == expected


def test_from_sequence_includes_both_ends(env: StreamExecutionEnvironment) -> None:
    assert sorted(env.from_sequence(-3, 5_000).execute_and_collect()) == list(range(-3, 5_001))
    assert rows(env.from_sequence(7, 7)) == [7]


SOURCES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "ArrowSource": (lambda: ArrowSource(pa.table({"n": [1, 2]})), [Row(n=1), Row(n=2)]),
    "PandasSource": (lambda: PandasSource(pd.DataFrame({"n": [1, 2]})), [Row(n=1), Row(n=2)]),
    "CollectionSource": (lambda: CollectionSource(["a", "b"]), ["a", "b"]),
    "SequenceSource": (lambda: SequenceSource(1, 3), [1, 2, 3]),
    "DataGenSource": (lambda: DataGenSource({"n": SequenceField(5, step=2)}, rows=2), [Row(n=5), Row(n=7)]),
}


@pytest.mark.parametrize("source", SOURCES)
def test_from_source(env: StreamExecutionEnvironment, source: str) -> None:
    make, expected = SOURCES[source]
    assert rows(env.from_source(make(), NO_WATERMARKS, source)) == expected


def test_generated_rows_are_the_same_at_every_parallelism_and_in_time_order(env: StreamExecutionEnvironment) -> None:
    source = DataGenSource(
        {
            "n": SequenceField(),
            "day": SequenceField(1, 7),
            "x": RandomField(0, 9),
            "share": RandomField(0.0, 1.0),
            "color": RandomField(choices=("red", "blue")),
            "id": RandomField(length=4),
            "at": lambda n: n * 1000,
        },
        rows=50,
        rows_per_second=2_000,
        seed=3,
    )
    one, three = (env.from_source(source, NO_WATERMARKS, "made").set_parallelism(p).to_arrow() for p in (1, 3))
    assert one.sort_by("n").equals(three.sort_by("n"))
    assert one["n"].to_pylist() == list(range(50))
    assert one["day"].to_pylist()[:8] == [1, 2, 3, 4, 5, 6, 7, 1]
    assert one["at"].to_pylist()[-1] == 49_000
    assert set(one["color"].to_pylist()) == {"red", "blue"}


def test_a_source_without_event_time_needs_none_until_a_window_does(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1], watermark_strategy=WatermarkStrategy.for_monotonous_timestamps())
    assert rows(stream.map(str)) == ["1"]
    windows = stream.key_by("value").window(TumblingEventTimeWindows.of("1 s"))
    with pytest.raises(JobExecutionError, match="a watermark strategy with a timestamp assigner"):
        rows(windows.aggregate(n=Count()))


# -- functions as sources


def test_add_source_takes_a_generator(env: StreamExecutionEnvironment) -> None:
    assert in_order(env.add_source(lambda: iter([3, 1, 2]))) == [3, 1, 2]


def test_add_source_runs_in_as_many_subtasks_as_it_is_told(env: StreamExecutionEnvironment) -> None:
    def numbers(context: SourceContext) -> Iterator[tuple[int, int]]:
        yield context.subtask_index, context.parallelism

    assert rows(env.add_source(numbers).set_parallelism(3)) == [(0, 3), (1, 3), (2, 3)]


def test_add_source_takes_whole_batches(env: StreamExecutionEnvironment) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches(max_chunksize=2)

    assert env.add_source(batches).to_arrow().equals(TABLE)


class Ticks(SourceFunction):
    def open(self, runtime_context: Any) -> None:
        self.start = 10

    def run(self, ctx: SourceContext) -> None:
        for tick in range(3):
            ctx.collect_with_timestamp(f"tick {tick}", self.start + tick)


def test_a_source_function_gives_values_with_event_times(env: StreamExecutionEnvironment) -> None:
    def timed(value: str, ctx: ProcessContext) -> Iterator[tuple[str, int | None]]:
        yield value, ctx.timestamp()

    ticks = env.add_source(Ticks(), "ticks", Types.STRING(), WatermarkStrategy.for_monotonous_timestamps())
    assert rows(ticks.process(timed)) == [("tick 0", 10), ("tick 1", 11), ("tick 2", 12)]


cancelled = threading.Event()


class Endless(SourceFunction):
    def run(self, ctx: SourceContext) -> None:
        for number in itertools.count():
            if ctx.is_cancelled():
                return
            ctx.collect(number)

    def cancel(self) -> None:
        cancelled.set()


def test_a_source_function_is_cancelled_with_its_job(env: StreamExecutionEnvironment) -> None:
    cancelled.clear()
    assert env.add_source(Endless()).execute_and_collect(limit=2) == [0, 1]
    assert cancelled.wait(10)


def test_a_generator_that_raises_fails_the_job_with_its_line(env: StreamExecutionEnvironment) -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise ConnectionError("the feed is gone")

    with pytest.raises(JobExecutionError, match="the feed is gone") as caught:
        rows(env.add_source(fails, "feed"))
    assert isinstance(caught.value.__cause__, UserFunctionError | ConnectionError)
    assert 'raise ConnectionError("the feed is gone")' in str(caught.value)
    assert "feed" in str(caught.value).split("failed:", 1)[1].splitlines()[0]


# -- files


VALUES = pa.table(
    {
        "n": pa.array([1, None, 3], pa.int64()),
        "x": pa.array([0.5, -1.25, None], pa.float64()),
        "text": pa.array(["plain", 'with "quotes", commas\nand a line', None], pa.string()),
        "flag": pa.array([True, False, None], pa.bool_()),
        "at": pa.array(
            [datetime.datetime(2024, 1, 1, 12, 30), None, datetime.datetime(1999, 12, 31)], pa.timestamp("ms")
        ),
    }
)
NESTED = VALUES.append_column("list", pa.array([[1], [], None], pa.list_(pa.int64())))


@pytest.mark.parametrize(
    ("format", "values"), [("parquet", NESTED), ("arrow", NESTED), ("json", NESTED), ("csv", VALUES)]
)
def test_a_file_sink_and_source_round_trip(
    env: StreamExecutionEnvironment, tmp_path: Path, format: str, values: pa.Table
) -> None:
    env.from_arrow(values).sink_to(FileSink(tmp_path / "out", format, prefix="rows"))
    env.execute()
    files = sorted((tmp_path / "out").iterdir())
    assert files
    assert all(file.name.startswith("rows-") and file.suffix == f".{format}" for file in files)
    declared = FileSource(tmp_path / "out", schema=values.schema)
    found = env.from_source(declared, NO_WATERMARKS, "declared").to_arrow()
    key = [("n", "ascending")]
    assert found.sort_by(key).equals(values.sort_by(key))
    if format in ("parquet", "arrow"):
        inferred = env.from_source(FileSource(tmp_path / "out"), NO_WATERMARKS, "inferred").to_arrow()
        assert inferred.sort_by(key).equals(values.sort_by(key))


def test_columns_of_text_files_are_inferred(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n;name\n1;x\n2;y\n")
    (tmp_path / "b.json").write_text('{"n": 1, "name": "x"}\n{"n": 2, "name": "y"}\n')
    for source in (FileSource(tmp_path / "a.csv", delimiter=";"), FileSource(tmp_path / "b.json")):
        assert in_order(env.from_source(source, NO_WATERMARKS, "files").set_parallelism(1)) == [
            Row(n=1, name="x"),
            Row(n=2, name="y"),
        ]


def test_lines_of_text_are_bare_strings(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\n\nthird")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("packed\n")
    lines = env.from_source(FileSource(tmp_path, "text"), NO_WATERMARKS, "lines")
    assert rows(lines) == ["", "first", "packed", "third"]


def test_some_columns_of_many_files_by_a_pattern(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"d{number % 2}").mkdir(exist_ok=True)
        table = pa.table({"n": [number], "other": ["x"]})
        pq.write_table(table, tmp_path / f"d{number % 2}" / f"{number}.parquet")
    pattern = FileSource(str(tmp_path / "d*" / "*.parquet"), columns=["n"])
    assert rows(env.from_source(pattern, NO_WATERMARKS, "files")) == [Row(n=number) for number in range(5)]
    listed = FileSource([tmp_path / "d0" / "0.parquet", tmp_path / "d1"], columns=["n"])
    assert rows(env.from_source(listed, NO_WATERMARKS, "files")) == [Row(n=0), Row(n=1), Row(n=3)]


def test_scalars_and_tuples_in_files(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    env.from_collection([1, 2]).sink_to(FileSink(tmp_path / "scalars", "csv"))
    env.from_collection([("a", 1)]).sink_to(FileSink(tmp_path / "tuples", "parquet")).set_parallelism(1)
    env.execute()
    assert rows(env.from_source(FileSource(tmp_path / "scalars"), NO_WATERMARKS, "s")) == [Row(value=1), Row(value=2)]
    assert rows(env.from_source(FileSource(tmp_path / "tuples"), NO_WATERMARKS, "t")) == [Row(f0="a", f1=1)]


# -- other sinks


def test_print_sinks_write_to_either_stream(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.from_collection([1]).sink_to(PrintSink("out")).set_parallelism(1)
    env.from_collection(["two"]).sink_to(PrintSink(is_error_stream=True)).set_parallelism(1)
    env.from_collection([3]).sink_to(DiscardSink())
    env.execute()
    assert capsys.readouterr() == ("out> 1\n", "two\n")


class LedgerSink(Sink):
    """Writes to a list, in two phases."""

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return LedgerWriter(context.subtask_index)

    def create_committer(self) -> Committer:
        return LedgerCommitter()


class LedgerWriter(SinkWriter):
    def __init__(self, subtask: int) -> None:
        self.subtask = subtask
        self.pending: list[Any] = []

    def write(self, batch: Batch) -> None:
        self.pending.extend(batch.data.column(0).to_pylist())

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        pending, self.pending = self.pending, []
        return [tuple(pending)] if pending else []

    def close(self) -> None:
        ledger.append("closed")


class LedgerCommitter(Committer):
    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        ledger.extend(value for request in requests for value in request.committable)


ledger: list[Any] = []


def test_a_sink_of_the_users_commits_at_the_end(env: StreamExecutionEnvironment) -> None:
    ledger.clear()
    env.from_sequence(1, 6).sink_to(LedgerSink()).name("ledger")
    env.execute()
    assert sorted(value for value in ledger if value != "closed") == [1, 2, 3, 4, 5, 6]
    assert ledger.count("closed") == 2


def test_one_stream_into_several_sinks(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    numbers = env.from_sequence(1, 4)
    numbers.where(col("value") > 2).sink_to(FileSink(tmp_path, "csv")).set_parallelism(1)
    ledger.clear()
    numbers.sink_to(LedgerSink())
    env.execute()
    assert sorted(value for value in ledger if value != "closed") == [1, 2, 3, 4]
    (file,) = tmp_path.iterdir()
    assert sorted(file.read_text().split()) == ['"value"', "3", "4"]


# -- programs as PyFlink's documentation has them


def test_pyflinks_word_count_with_its_imports_changed(tmp_path: Path) -> None:
    from flinkray.pyflink.common import Types, WatermarkStrategy
    from flinkray.pyflink.datastream import StreamExecutionEnvironment
    from flinkray.pyflink.datastream.connectors.file_system import FileSource, StreamFormat

    (tmp_path / "words").write_text("to be or\nnot to be\n")
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})
    env.set_parallelism(1)
    ds = env.from_source(
        source=FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "words"))
        .process_static_file_set()
        .build(),
        watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
        source_name="file_source",
    )

    def split(line: str) -> Any:
        yield from line.split()

    ds = (
        ds.flat_map(split)
        .map(lambda i: (i, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda i: i[0])
        .reduce(lambda i, j: (i[0], i[1] + j[1]))
    )
    with ds.execute_and_collect() as results:
        assert dict(results) == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_pyflinks_state_access_with_its_imports_changed() -> None:
    from flinkray.pyflink.common import Time, Types
    from flinkray.pyflink.datastream import (
        FlatMapFunction,
        RuntimeContext,
        StreamExecutionEnvironment,
    )
    from flinkray.pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor

    class CountWindowAverage(FlatMapFunction):
        def __init__(self) -> None:
            self.sum: Any = None

        def open(self, runtime_context: RuntimeContext) -> None:
            descriptor = ValueStateDescriptor("average", Types.PICKLED_BYTE_ARRAY())
            ttl = StateTtlConfig.new_builder(Time.seconds(60)).update_ttl_on_create_and_write().build()
            descriptor.enable_time_to_live(ttl)
            self.sum = runtime_context.get_state(descriptor)

        def flat_map(self, value: Any) -> Any:
            current_sum = self.sum.value() or (0, 0)
            current_sum = (current_sum[0] + 1, current_sum[1] + value[1])
            if current_sum[0] >= 2:
                self.sum.clear()
                yield value[0], int(current_sum[1] / current_sum[0])
            else:
                self.sum.update(current_sum)

    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})
    averages = (
        env.from_collection([(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)])
        .key_by(lambda row: row[0])
        .flat_map(CountWindowAverage())
    )
    assert list(averages.execute_and_collect()) == [(1, 4), (1, 5)]


def test_pyflinks_event_time_timer_with_its_imports_changed() -> None:
    from flinkray.pyflink.common import Duration, Row, TimestampAssigner, Types, WatermarkStrategy
    from flinkray.pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
    from flinkray.pyflink.datastream.state import ValueStateDescriptor

    class Sum(KeyedProcessFunction):
        def __init__(self) -> None:
            self.state: Any = None

        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("state", Types.FLOAT()))

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            self.state.update((self.state.value() or 0) + value[2])
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2)
            yield value[1], self.state.value()

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
            yield "On timer timestamp: " + str(timestamp), float(ctx.timer_service().current_watermark() >= timestamp)

    class MyTimestampAssigner(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value[0])

    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})
    ds = env.from_collection(
        collection=[(1000, "Alice", 110.1), (4000, "Bob", 30.2), (3000, "Alice", 20.0), (2000, "Bob", 53.1)],
        type_info=Types.TUPLE([Types.LONG(), Types.STRING(), Types.FLOAT()]),
    ).map(
        lambda value: Row(*value),
        output_type=Types.ROW_NAMED(["at", "name", "amount"], [Types.LONG(), Types.STRING(), Types.DOUBLE()]),
    )
    ds = ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
            MyTimestampAssigner()
        )
    )
    found = (
        ds.key_by(lambda value: value[1])
        .process(Sum(), output_type=Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
        .execute_and_collect()
    )
    values = list(found)
    assert [name for name, _ in values if name in ("Alice", "Bob")] == ["Alice", "Bob", "Alice", "Bob"]
    assert sorted(name for name, is_due in values if is_due == 1.0) == [
        f"On timer timestamp: {at}" for at in (1002, 2002, 3002, 4002)
    ]


def test_pyflinks_tumbling_window_with_its_imports_changed() -> None:
    from collections.abc import Iterable

    from flinkray.pyflink.common import Types, WatermarkStrategy
    from flinkray.pyflink.common.time import Time
    from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
    from flinkray.pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
    from flinkray.pyflink.datastream.window import TimeWindow, TumblingEventTimeWindows

    class MyTimestampAssigner(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value[1])

    class CountWindowProcessFunction(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):  # type: ignore[misc]
        def process(
            self,
            key: str,
            context: ProcessWindowFunction.Context[TimeWindow],  # type: ignore[name-defined]
            elements: Iterable[tuple[Any, ...]],
        ) -> Iterable[tuple[Any, ...]]:
            return [(key, context.window().start, context.window().end, len([e for e in elements]))]  # noqa: C416

        def clear(self, context: ProcessWindowFunction.Context) -> None:
            pass

    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})
    data_stream = env.from_collection(
        [("hi", 1), ("hi", 2), ("hi", 3), ("hi", 4), ("hi", 5), ("hi", 8), ("hi", 9), ("hi", 15)],
        type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
    )
    watermark_strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(MyTimestampAssigner())
    ds = (
        data_stream.assign_timestamps_and_watermarks(watermark_strategy)
        .key_by(lambda x: x[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
        .process(
            CountWindowProcessFunction(),
            Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()]),
        )
    )
    assert list(ds.execute_and_collect()) == [("hi", 0, 5, 4), ("hi", 5, 10, 3), ("hi", 15, 20, 1)]

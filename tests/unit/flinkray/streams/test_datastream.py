"""What calls on streams record, and which of them are errors at once."""

# ruff: noqa: ARG005  (functions that are never called here)

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkray import (
    Count,
    DataStream,
    DiscardSink,
    InvalidProgramError,
    MapFunction,
    Max,
    NotSerializableError,
    OutputTag,
    RuntimeContext,
    ServerSentEventsSink,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    Types,
    UnknownColumnError,
    WatermarkStrategy,
    col,
)
from flinkray.transformations.operator_factories import (
    ChainingStrategy,
    FilterFactory,
    FlatMapFactory,
    MapFactory,
    ProjectFactory,
)
from flinkray.transformations.partitioning import CustomPartitioner, KeyGroupPartitioner
from flinkray.transformations.transformation import (
    PartitionTransformation,
    ResourceSpec,
)
from flinkray.types.keys import ColumnKey, FunctionKey
from tests.support.api import columns, factory, operator
from tests.support.functions import Both, ByWord, CountPerKey, KeyedBoth, Mean, Plain, Reverse, Split

WINDOW = TumblingEventTimeWindows.of("10 s")


# -- recording


def test_each_operator_is_recorded_once_in_order_and_sources_are_not(
    env: StreamExecutionEnvironment, rows: DataStream
) -> None:
    mapped = rows.rebalance().map(lambda row: row)
    kept = mapped.filter(lambda row: True)
    mapped.union(kept).print()
    assert [t.name for t in env._transformations] == ["Map", "Filter", "Sink: Print to Std. Out"]


def test_an_operation_gives_a_new_stream_and_leaves_the_old_one_usable(rows: DataStream) -> None:
    first, second = rows.map(lambda row: 1), rows.map(lambda row: 2)
    assert operator(first).inputs == operator(second).inputs == (rows._transformation,)
    assert first is not second


def test_default_names_are_flinks(env: StreamExecutionEnvironment, rows: DataStream) -> None:
    keyed = rows.key_by("word")
    names = [
        env.from_collection([1]),
        env.from_sequence(0, 1, name="numbers"),
        rows.map(str),
        rows.flat_map(str.split),
        rows.filter(bool),
        keyed.sum("n"),
        keyed.reduce(lambda a, b: a),
        keyed.window(WINDOW).aggregate(count=Count()),
        rows.sink_to(DiscardSink()),
        rows.print(),
        rows.sink_to(DiscardSink()).name("files"),
    ]
    assert [operator(each).name for each in names] == [
        "Source: Collection",
        "Source: numbers",
        "Map",
        "Flat Map",
        "Filter",
        "Keyed Aggregation",
        "Keyed Reduce",
        "TumblingEventTimeWindows",
        "Sink: Unnamed",
        "Sink: Print to Std. Out",
        "Sink: files",
    ]


# -- types


def test_the_type_is_declared_or_annotated_or_left_open(rows: DataStream) -> None:
    def annotated(row: Any) -> tuple[str, int]:
        return row.word, 1

    def words(row: Any) -> Iterator[str]:
        yield row.word

    assert columns(rows.map(annotated)) == ("f0", "f1")
    assert rows.flat_map(words).record_type == rows.map(str).record_type
    assert rows.map(lambda row: row, output_type=Types.LONG()).record_type is not None
    assert rows.map(lambda row: row).record_type is None
    declared = factory(rows.map(annotated, output_type=[str, pa.int8()]))
    assert isinstance(declared, MapFactory)
    assert declared.output_type is not None
    assert declared.output_type.schema.field("f1").type == pa.int8()


def test_column_operations_keep_what_is_known(rows: DataStream) -> None:
    assert columns(rows.select("n", total=col("n") * col("price"))) == ("n", "total")
    assert rows.select("n", cost=col("price")).record_type is not None
    assert rows.select(total=col("n") + 1).record_type is None
    assert columns(rows.with_columns(n=col("n") + 1, big=col("n") > 1)) == ("word", "n", "price", "big")
    assert columns(rows.drop("n")) == ("word", "price")
    assert columns(rows.rename(n="count")) == ("word", "count", "price")
    assert rows.where(col("n") > 1).record_type == rows.record_type
    assert rows.filter(bool).record_type == rows.record_type


def test_select_and_with_columns_say_what_stays(rows: DataStream) -> None:
    select, extended = factory(rows.select("n", x=1)), factory(rows.with_columns(x=1))
    assert isinstance(select, ProjectFactory)
    assert isinstance(extended, ProjectFactory)
    assert [name for name, _ in select.columns] == ["n", "x"]
    assert select.keep == frozenset()
    assert extended.keep is None


UNKNOWN_COLUMNS: dict[str, Any] = {
    "select": lambda rows: rows.select("wrod"),
    "select expression": lambda rows: rows.select(x=col("wrod") + "x"),
    "where": lambda rows: rows.where(col("wrod") == "x"),
    "with_columns": lambda rows: rows.with_columns(x=col("wrod")),
    "drop": lambda rows: rows.drop("wrod"),
    "rename": lambda rows: rows.rename(wrod="x"),
    "key_by": lambda rows: rows.key_by("wrod"),
    "sum": lambda rows: rows.key_by("word").sum("wrod"),
    "aggregate": lambda rows: rows.key_by("word").aggregate(x=Sum("wrod")),
    "window": lambda rows: rows.key_by("word").window(WINDOW).aggregate(x=Max(col("wrod") * 2)),
    "partition_custom": lambda rows: rows.partition_custom(lambda key, n: 0, "wrod"),
    "where of a join": lambda rows: rows.join(rows).where("wrod"),
    "timestamps": lambda rows: rows.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("wrod")
    ),
    "after select": lambda rows: rows.rename(word="words").rename(words="word").select("wrod"),
}


@pytest.mark.parametrize("call", sorted(UNKNOWN_COLUMNS))
def test_a_column_that_is_known_not_to_exist_fails_at_once(rows: DataStream, call: str) -> None:
    with pytest.raises(UnknownColumnError, match="no column 'wrod'; did you mean 'word'"):
        UNKNOWN_COLUMNS[call](rows)


def test_columns_of_an_unknown_type_are_left_to_the_run(rows: DataStream) -> None:
    unknown = rows.map(lambda row: row)
    assert columns(unknown.key_by("anything").sum("whatever")) is None
    assert columns(unknown.select("x")) == ("x",)


# -- wrong arguments


WRONG_CALLS: dict[str, tuple[Any, str]] = {
    "map of no function": (lambda rows: rows.map(3), "expected a function"),
    "map of a class": (lambda rows: rows.map(Reverse), "write it with ()"),
    "flat_map of a MapFunction": (lambda rows: rows.flat_map(Reverse()), "Reverse has no method flat_map"),
    "filter of a MapFunction": (lambda rows: rows.filter(Reverse()), "no method filter"),
    "where of a function": (lambda rows: rows.where(lambda row: True), "filter\\(\\) takes functions"),
    "select of nothing": (lambda rows: rows.select(), "at least one column"),
    "select without a name": (lambda rows: rows.select(col("n") + 1), "needs a name"),
    "select twice": (lambda rows: rows.select("n", n=col("price")), "two columns named 'n'"),
    "drop everything": (lambda rows: rows.drop("word", "n", "price"), "no column"),
    "rename onto another": (lambda rows: rows.rename(n="price"), "same name"),
    "batch format": (lambda rows: rows.map_batches(len, batch_format="polars"), "one of pyarrow, pandas, numpy"),
    "batches of objects from columns": (lambda rows: rows.map_batches(len, output_type=object), "gives columns"),
    "columns of objects": (
        lambda rows: rows.map(str, output_type=object).map_batches(len),
        r"objects, which have no Arrow columns; set output_type= of the function before.*batch_format=\"numpy\"",
    ),
    "keyed function without key": (lambda rows: rows.process(CountPerKey()), "key the stream first"),
    "key_by of nothing": (lambda rows: rows.key_by(), "column names, or one function"),
    "key_by of both": (lambda rows: rows.key_by("word", len), "column names, or one function"),
    "key_by twice": (lambda rows: rows.key_by("word", "word"), "given twice"),
    "key_by of a computed column": (lambda rows: rows.key_by(col("n") % 2), "with_columns"),
    "rebalance of a keyed stream": (lambda rows: rows.key_by("word").rebalance(), "partitioned by its key"),
    "sink_to of a function": (lambda rows: rows.sink_to(print), "add_sink takes functions"),
    "add_sink of a sink": (lambda rows: rows.add_sink(DiscardSink()), "takes a function"),
    "aggregate of nothing": (lambda rows: rows.key_by("word").aggregate(), "at least one aggregate"),
    "aggregate of a column": (lambda rows: rows.key_by("word").aggregate(x="n"), "no aggregate"),
    "aggregate named as the key": (lambda rows: rows.key_by("word").aggregate(word=Count()), "name of a key"),
    "aggregate named as the window": (
        lambda rows: rows.key_by("word").window(WINDOW).aggregate(window_end=Count()),
        "name of a key or window",
    ),
    "aggregate of both kinds": (lambda rows: rows.key_by("word").window(WINDOW).aggregate(Mean(), n=Count()), "either"),
    "window of a duration": (lambda rows: rows.key_by("word").window("10 s"), "takes an assigner"),
    "position beyond the columns": (lambda rows: rows.key_by("word").sum(3), "no column at position 3"),
    "strategy": (lambda rows: rows.assign_timestamps_and_watermarks("n"), "watermark strategy is needed"),
    "a generator, and not what makes one": (
        lambda rows: rows.assign_timestamps_and_watermarks(WatermarkStrategy.for_generator(42)),  # type: ignore[arg-type]
        "takes what makes generators",
    ),
    "union with a list": (lambda rows: rows.union([rows]), "takes streams"),
    "parallelism 0": (lambda rows: rows.map(str).set_parallelism(0), "operator 'Map': parallelism must be between 1"),
    "parallelism of text": (lambda rows: rows.map(str).set_parallelism("2"), "whole number"),
    "collection in parallel": (lambda rows: rows._environment.from_collection([1]).set_parallelism(2), "one subtask"),
    "events in parallel": (lambda rows: rows.sink_to(ServerSentEventsSink(1)).set_parallelism(2), "one subtask"),
    "uid hash": (lambda rows: rows.map(str).set_uid_hash("xyz"), "32 hex digits"),
    "empty name": (lambda rows: rows.map(str).name(""), "name must be a text that is not empty"),
    "co-map of a lambda": (lambda rows: rows.connect(rows).map(lambda a: a), "takes a CoMapFunction"),
    "keyed co-process without keys": (lambda rows: rows.connect(rows).process(KeyedBoth()), "key both streams"),
    "join without keys": (lambda rows: rows.join(rows).window(WINDOW), "needs .where"),
    "equal_to before where": (lambda rows: rows.join(rows).equal_to("word"), "comes before"),
    "join of different widths": (
        lambda rows: rows.join(rows).where("word").equal_to("word", "n"),
        "1 and 2 columns",
    ),
    "join of different types": (lambda rows: rows.join(rows).where("word").equal_to("n"), "must have one type"),
}


@pytest.mark.parametrize("call", sorted(WRONG_CALLS))
def test_a_wrong_call_says_what_is_wrong(rows: DataStream, call: str) -> None:
    function, message = WRONG_CALLS[call]
    with pytest.raises(InvalidProgramError, match=message):
        function(rows)


def test_a_sink_that_is_not_parallel_has_one_subtask(rows: DataStream) -> None:
    assert operator(rows.sink_to(ServerSentEventsSink(1))).parallelism == 1
    assert operator(rows.sink_to(DiscardSink())).parallelism is None


@pytest.mark.parametrize("setting", ["name", "uid", "set_description", "slot_sharing_group", "co_location_group"])
def test_a_setting_of_what_is_no_operator_is_an_error(rows: DataStream, setting: str) -> None:
    for virtual in (
        rows.union(rows),
        rows.rebalance(),
        rows.key_by("word"),
        rows.map(str).get_side_output(OutputTag("x")),
    ):
        with pytest.raises(InvalidProgramError, match=f"{setting} is a setting of an operator"):
            getattr(virtual, setting)("x")


# -- settings


def test_settings_reach_the_operator_and_give_the_stream_back(rows: DataStream) -> None:
    stream = rows.map(str)
    settings = (
        stream.name("upper")
        .uid("u")
        .set_uid_hash("0" * 32)
        .set_description("all upper")
        .set_parallelism(3)
        .set_max_parallelism(64)
        .slot_sharing_group("heavy")
        .co_location_group("together")
        .set_buffer_timeout("5 ms")
        .set_resources(ResourceSpec(2.0))
    )
    assert settings is stream
    made = operator(stream)
    assert (made.name, made.uid, made.uid_hash, made.description) == ("upper", "u", "0" * 32, "all upper")
    assert (made.parallelism, made.max_parallelism, made.slot_sharing_group) == (3, 64, "heavy")
    assert (made.co_location_key, made.buffer_timeout_ms) == ("together", 5)
    assert made.min_resources == made.preferred_resources == ResourceSpec(2.0)


def test_chaining_settings(rows: DataStream) -> None:
    assert operator(rows.map(str)).effective_chaining_strategy is ChainingStrategy.ALWAYS
    assert operator(rows).effective_chaining_strategy is ChainingStrategy.HEAD
    assert operator(rows.map(str).start_new_chain()).effective_chaining_strategy is ChainingStrategy.HEAD
    assert operator(rows.map(str).disable_chaining()).effective_chaining_strategy is ChainingStrategy.NEVER


def test_force_non_parallel(rows: DataStream) -> None:
    made = operator(rows.map(str).force_non_parallel())
    assert (made.parallelism, made.max_parallelism) == (1, 1)


# -- partitioning and keys


def test_partitioning_only_wraps(rows: DataStream) -> None:
    calls = {
        "FORWARD": rows.forward(),
        "REBALANCE": rows.rebalance(),
        "RESCALE": rows.rescale(),
        "SHUFFLE": rows.shuffle(),
        "GLOBAL": rows.global_(),
        "BROADCAST": rows.broadcast(),
        "CUSTOM": rows.partition_custom(lambda key, n: 0, "n"),
    }
    for name, stream in calls.items():
        partition = stream._transformation
        assert isinstance(partition, PartitionTransformation)
        assert partition.partitioner.name == name
        assert partition.inputs == (rows._transformation,)
        assert stream.record_type == rows.record_type
    custom = calls["CUSTOM"]._transformation.partitioner  # type: ignore[attr-defined]
    assert isinstance(custom, CustomPartitioner)
    assert custom.selector == ColumnKey(("n",))


def test_a_key_is_columns_or_a_function(rows: DataStream) -> None:
    assert rows.key_by("word", "n")._key == ColumnKey(("word", "n"))
    assert rows.key_by(col("word"))._key == ColumnKey(("word",))
    for function in (lambda row: row.word, ByWord()):
        key = rows.key_by(function, key_type=Types.STRING())._key
        assert isinstance(key, FunctionKey)
        assert callable(key.function)
        assert key.key_type is not None
    partition = rows.key_by("word")._transformation
    assert isinstance(partition, PartitionTransformation)
    assert partition.partitioner == KeyGroupPartitioner(ColumnKey(("word",)))


class Opened(Reverse):
    """Has an `open`, in which it may ask for state."""

    def open(self, runtime_context: RuntimeContext) -> None: ...


def test_a_key_reaches_operators_that_may_keep_state_and_no_others(rows: DataStream) -> None:
    keyed = rows.key_by("word")
    key = ColumnKey(("word",))
    for stream in (keyed.process(CountPerKey()), keyed.map(Opened()), keyed.sum("n"), keyed.reduce(max)):
        assert operator(stream).keys == (key,)
    for stream in (
        keyed.map(str),
        keyed.map(Reverse()),
        keyed.where(col("n") > 1),
        keyed.map_batches(len),
        rows.process(Plain()),
    ):
        assert operator(stream).keys == ()


# -- functions that cannot travel


def test_a_function_that_cannot_be_sent_names_what_it_holds(rows: DataStream) -> None:
    lock = threading.Lock()

    class Locked(MapFunction):
        def __init__(self) -> None:
            self.lock = lock

        def map(self, value: Any) -> Any:
            return value

    def locked(value: Any) -> Any:
        with lock:
            return value

    for call in (lambda: rows.map(locked), lambda: rows.map(Locked()), lambda: rows.add_sink(locked)):
        with pytest.raises(NotSerializableError, match="it holds 'lock'"):
            call()
    with pytest.raises(NotSerializableError, match="operator 'Co-Map'"):
        rows.connect(rows).map(type("Bad", (Both,), {"lock": None, "__init__": lambda s: s.__dict__.update(l=lock)})())


def test_a_function_may_hold_large_arrays(rows: DataStream) -> None:
    """Which pickle hands on as buffers, not as bytes, beyond 64 KiB."""
    weights = np.ones(100_000)
    table = pa.table({"w": weights})

    def weighed(value: Any) -> Any:
        return value, weights[0], table.num_rows

    rows.map(weighed)


def test_the_factories_carry_the_functions(rows: DataStream) -> None:
    function, keep = Split(), (lambda row: True)
    assert factory(rows.flat_map(function)) == FlatMapFactory(function, rows.map(str).record_type)
    assert factory(rows.filter(keep)) == FilterFactory(keep)

"""Each operation and setting of a DataStream in a whole job of its own."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flinkray import (
    CoFlatMapFunction,
    CoMapFunction,
    Configuration,
    CoProcessFunction,
    DataStream,
    DiscardSink,
    Duration,
    FilterFunction,
    FlatMapFunction,
    InvalidProgramError,
    JobCanceledError,
    JobClient,
    JobExecutionError,
    JobExecutionResult,
    JobListener,
    JobStatus,
    KeySelectorFunction,
    Kind,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ResourceSpec,
    Row,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
    Time,
    Types,
    col,
    if_else,
    lit,
    when,
)
from flinkray.functions.interfaces import ProcessContext
from flinkray.pyflink.datastream import Partitioner
from flinkray.testing import run_locally
from tests.support.jobs import environment
from tests.support.waiting import eventually
from tests.support.whole_jobs import ASCENDING, in_order, rows, rows_of, timed


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment()


def table(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_arrow(pa.table({"city": ["Oslo", "Rome", "Lima"], "high": [4, 15, 27], "low": [-2, 7, 19]}))


# -- row functions and the types of what they give


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Named:
    name: str
    size: int


TYPES: dict[str, tuple[Callable[[int], Any], Any, list[Any], Kind]] = {
    "the first results": (lambda n: n / 2, None, [0.5, 1.0], Kind.SCALAR),
    "an Arrow type": (lambda n: n, pa.int8(), [1, 2], Kind.SCALAR),
    "a Python type": (str, str, ["1", "2"], Kind.SCALAR),
    "Types": (lambda n: (n, "x"), Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "x"), (2, "x")], Kind.TUPLE),
    "a list": (lambda n: (n, "x"), [pa.int32(), str], [(1, "x"), (2, "x")], Kind.TUPLE),
    "a schema": (
        lambda n: {"n": n},
        pa.schema([("n", pa.int64())]),
        [Row(n=1), Row(n=2)],
        Kind.ROW,
    ),
    "named Types": (
        lambda n: Row(a=n, b=[n]),
        Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.INT())]),
        [Row(a=1, b=[1]), Row(a=2, b=[2])],
        Kind.ROW,
    ),
    "a NamedTuple": (lambda n: Point(n, n), Point, [Row(x=1, y=1.0), Row(x=2, y=2.0)], Kind.ROW),
    "a dataclass": (lambda n: Named("x", n), Named, [Row(name="x", size=1), Row(name="x", size=2)], Kind.ROW),
    "pickled": (lambda n: complex(n), Types.PICKLED_BYTE_ARRAY(), [1 + 0j, 2 + 0j], Kind.OBJECT),
}


@pytest.mark.parametrize("declared", TYPES)
def test_map_gives_one_value_each_of_the_type_that_is_declared(env: StreamExecutionEnvironment, declared: str) -> None:
    function, output_type, expected, kind = TYPES[declared]
    mapped = env.from_collection([1, 2]).map(function, output_type=output_type)
    assert rows(mapped) == expected
    assert mapped.record_type is None if output_type is None else mapped.record_type.kind is kind


def test_an_annotation_declares_the_type_of_a_function(env: StreamExecutionEnvironment) -> None:
    def halved(value: int) -> float:
        return value / 2

    mapped = env.from_collection([1, 2]).map(halved)
    assert mapped.to_arrow().schema == pa.schema([("value", pa.float64())])


class Where(MapFunction):
    """Where it runs, as its runtime context says."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        self.is_closed = False

    def map(self, value: int) -> tuple[str, str, int, int, int, str]:
        context = self.context
        return (
            context.get_task_name(),
            context.get_task_name_with_subtasks(),
            context.get_number_of_parallel_subtasks(),
            context.get_max_number_of_parallel_subtasks(),
            context.get_attempt_number(),
            context.get_job_name(),
        )


def test_a_function_knows_where_it_runs(env: StreamExecutionEnvironment) -> None:
    where = (
        env.from_collection([1])
        .map(Where())
        .name("where")
        .set_parallelism(1)
        .set_max_parallelism(64)
        .disable_chaining()
    )
    (found,) = where.execute_and_collect("the job")
    assert found[1] == f"{found[0]} (1/1)"
    assert "where" in found[0]
    assert found[2:] == (1, 64, 0, "the job")


closed = threading.Event()


class ClosesLoudly(MapFunction):
    def map(self, value: int) -> int:
        return value

    def close(self) -> None:
        closed.set()


@pytest.mark.parametrize("values", [[1], ["no number"]])
def test_a_function_is_closed_at_the_end_and_after_a_failure(
    env: StreamExecutionEnvironment, values: list[Any]
) -> None:
    closed.clear()
    with contextlib.suppress(JobExecutionError):
        rows(env.from_collection(values).map(lambda value: value + 1).map(ClosesLoudly()))
    assert closed.wait(10)


class Twice(FlatMapFunction):
    def flat_map(self, value: int) -> Iterator[int]:
        yield value
        yield value


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Twice(), [1, 1, 2, 2]),
        (lambda value: range(value), [0, 0, 1]),
        (lambda value: None if value == 1 else [value], [2]),
    ],
)
def test_flat_map_gives_any_number_of_values(
    env: StreamExecutionEnvironment, function: Any, expected: list[int]
) -> None:
    assert rows(env.from_collection([1, 2]).flat_map(function)) == expected


class IsEven(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 0


@pytest.mark.parametrize(
    "value", [{}, (), {"a": {}}, {"a": ()}, {"id": 1, "a": {}}, ("k", {}), ("k", ()), [{}]], ids=repr
)
def test_a_row_is_not_lost_for_what_is_empty_in_it(env: StreamExecutionEnvironment, value: Any) -> None:
    def texts(stream: DataStream) -> list[str]:
        return list(stream.rebalance().map(str).execute_and_collect())

    (one, *others) = texts(env.from_collection([value, value]))
    assert others == [one]
    ones = env.from_collection([1, 2])
    assert texts(ones.map(lambda _: value)) == [one] * 2
    assert texts(ones.flat_map(lambda _: [value] * 2)) == [one] * 4
    assert texts(ones.key_by(lambda number: number).process(lambda _row, _ctx: [value])) == [one] * 2


@pytest.mark.parametrize("function", [IsEven(), lambda value: value % 2 == 0, lambda value: np.bool_(value % 2 == 0)])
def test_filter_keeps_what_it_says(env: StreamExecutionEnvironment, function: Any) -> None:
    assert rows(env.from_sequence(1, 6).filter(function)) == [2, 4, 6]


def test_a_chain_of_row_functions_around_a_column_operation(env: StreamExecutionEnvironment) -> None:
    doubled = env.from_sequence(1, 3).map(lambda n: {"n": n}).with_columns(twice=col("n") * 2)
    assert rows(doubled.map(lambda row: (row.n, row["twice"], row[1]))) == [(1, 2, 2), (2, 4, 4), (3, 6, 6)]


def test_a_chain_of_hundreds_of_operators(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 3)
    for limit in range(400):
        numbers = numbers.where(col("value") < 10 + limit)
    assert rows(numbers) == [1, 2, 3]


# -- whole batches


class AddsBias:
    """Opened once per subtask."""

    def __init__(self) -> None:
        self.opened = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened += 1

    def __call__(self, columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        return {"high": columns["high"] + self.opened}


BATCH_FUNCTIONS: dict[str, Any] = {
    "pyarrow": lambda batch: pa.record_batch({"high": pa.compute.add(batch["high"], 1)}),
    "pandas": lambda frame: pd.DataFrame({"high": frame.high + 1}),
    "numpy": lambda columns: {"high": columns["high"] + 1},
}


@pytest.mark.parametrize("batch_format", BATCH_FUNCTIONS)
def test_map_batches_takes_and_gives_batches(env: StreamExecutionEnvironment, batch_format: str) -> None:
    mapped = table(env).map_batches(BATCH_FUNCTIONS[batch_format], batch_format)
    assert rows(mapped) == [Row(high=16), Row(high=28), Row(high=5)]


def test_map_batches_makes_a_class_once_per_subtask(env: StreamExecutionEnvironment) -> None:
    mapped = table(env).map_batches(AddsBias, "numpy", output_type=pa.schema([("high", pa.float32())]))
    assert mapped.to_arrow().sort_by("high").equals(pa.table({"high": pa.array([5, 16, 28], pa.float32())}))


def test_map_batches_may_give_fewer_or_several_batches(env: StreamExecutionEnvironment) -> None:
    def some(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch.slice(0, 1)
        yield batch.slice(0, 0)
        yield batch.slice(0, 1)

    numbers = env.set_parallelism(1).from_arrow(pa.table({"n": [7, 8]}))
    assert in_order(numbers.map_batches(some)) == [Row(n=7), Row(n=7)]


# -- columns


COLUMN_OPERATIONS: dict[str, tuple[Callable[[DataStream], DataStream], list[Row]]] = {
    "select": (lambda s: s.select("city", mean=(col("high") + col("low")) / 2), [Row(city="Oslo", mean=1.0)]),
    "select of expressions": (lambda s: s.select(col("high").alias("h"), one=1), [Row(h=4, one=1)]),
    "where": (lambda s: s.where((col("high") > 3) & ~col("city").is_null()), [Row(city="Oslo", high=4, low=-2)]),
    "with_columns": (
        lambda s: s.with_columns(low=lit(0), cold=when(col("high") < 5).then("yes").otherwise("no")),
        [Row(city="Oslo", high=4, low=0, cold="yes")],
    ),
    "with_columns of a condition": (
        lambda s: s.with_columns(low=if_else(col("low") < 0, 0, col("low"))),
        [Row(city="Oslo", high=4, low=0)],
    ),
    "drop": (lambda s: s.drop("city", "low"), [Row(high=4)]),
    "rename": (lambda s: s.rename(city="name").rename({"low": "least"}), [Row(name="Oslo", high=4, least=-2)]),
}


@pytest.mark.parametrize("operation", COLUMN_OPERATIONS)
def test_column_operations(env: StreamExecutionEnvironment, operation: str) -> None:
    apply, expected = COLUMN_OPERATIONS[operation]
    assert rows(apply(table(env).where(col("city") == "Oslo"))) == expected


# -- process functions and side outputs


ODD = OutputTag("odd", pa.int64())
LARGE = OutputTag("large", Types.STRING())


class Splits(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessContext) -> Iterator[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield value
        if value > 3:
            yield LARGE, f"{value} at {ctx.timestamp()}"


def test_process_yields_results_and_side_outputs(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1, 2, 3, 4], watermark_strategy=ASCENDING.with_timestamp_assigner(lambda v, _: v))
    even = numbers.process(Splits(), output_type=Types.LONG())
    found = rows_of(env, {"even": even, "odd": even.get_side_output(ODD), "large": even.get_side_output(LARGE)})
    assert found == {"even": [2, 4], "odd": [1, 3], "large": ["4 at 4"]}


def test_a_side_output_that_nobody_reads_is_dropped(env: StreamExecutionEnvironment) -> None:
    assert rows(env.from_collection([1, 2, 4]).process(Splits())) == [2, 4]


def test_a_side_output_alone_runs_its_operator(env: StreamExecutionEnvironment) -> None:
    assert rows(env.from_collection([1, 2, 4]).process(Splits()).get_side_output(ODD)) == [1]


def test_process_takes_a_plain_function(env: StreamExecutionEnvironment) -> None:
    def process(value: int, ctx: ProcessContext) -> Iterator[tuple[int, int | None]]:
        yield value, ctx.timestamp()

    assert rows(env.from_collection([5]).process(process)) == [(5, None)]


# -- several streams


def test_union_gives_the_rows_of_all_also_of_one_twice(env: StreamExecutionEnvironment) -> None:
    one, two = env.from_collection([1]), env.from_collection([2])
    assert rows(one.union(two, env.from_sequence(3, 4), one)) == [1, 1, 2, 3, 4]


def test_union_with_nothing_is_the_stream_itself(env: StreamExecutionEnvironment) -> None:
    assert rows(env.from_collection([1]).union()) == [1]


class Labels(CoMapFunction):
    def map1(self, value: int) -> str:
        return f"number {value}"

    def map2(self, value: str) -> str:
        return f"text {value}"


class Repeats(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[str]:
        yield from [str(value)] * 2

    def flat_map2(self, value: str) -> None:
        return None


TEXTS = OutputTag("texts", Types.STRING())


class Sorts(CoProcessFunction):
    def process_element1(self, value: int, ctx: ProcessContext) -> Iterator[int]:
        yield value

    def process_element2(self, value: str, ctx: ProcessContext) -> Iterator[Any]:
        yield TEXTS, value


def both(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([1, 2]).connect(env.from_collection(["a"]))


def test_co_map(env: StreamExecutionEnvironment) -> None:
    assert rows(both(env).map(Labels(), output_type=Types.STRING())) == ["number 1", "number 2", "text a"]


def test_co_flat_map(env: StreamExecutionEnvironment) -> None:
    assert rows(both(env).flat_map(Repeats())) == ["1", "1", "2", "2"]


def test_co_process_with_a_side_output(env: StreamExecutionEnvironment) -> None:
    numbers = both(env).process(Sorts())
    assert rows_of(env, {"n": numbers, "t": numbers.get_side_output(TEXTS)}) == {"n": [1, 2], "t": ["a"]}


# -- time


def timestamp(_value: Any, ctx: ProcessContext) -> Iterator[int | None]:
    yield ctx.timestamp()


def test_timestamps_and_watermarks_assigned_after_the_source(env: StreamExecutionEnvironment) -> None:
    strategy = ASCENDING.with_timestamp_assigner(lambda value, _: value * 10)
    assert rows(env.from_collection([1, 2]).assign_timestamps_and_watermarks(strategy).process(timestamp)) == [10, 20]


@pytest.mark.parametrize("assigner", ["at", col("at") + 1, lambda row, _: row.at + 2])
def test_event_time_from_a_column_an_expression_or_a_function(env: StreamExecutionEnvironment, assigner: Any) -> None:
    added = {"at": 0}.get(assigner, 1) if isinstance(assigner, str) else 2 if callable(assigner) else 1
    times = env.from_arrow(pa.table({"at": [10]}), ASCENDING.with_timestamp_assigner(assigner)).process(timestamp)
    assert rows(times) == [10 + added]


# -- partitioning


class Subtask(MapFunction):
    """Each value with the subtask that got it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> tuple[int, Any]:
        return self.subtask, value


def spread(stream: DataStream, parallelism: int = 2) -> dict[int, list[Any]]:
    """What each subtask after `stream` got."""
    found: dict[int, list[Any]] = {}
    for subtask, value in stream.map(Subtask()).set_parallelism(parallelism).execute_and_collect():
        found.setdefault(subtask, []).append(value)
    return {subtask: sorted(values) for subtask, values in sorted(found.items())}


def test_forward_keeps_the_subtask(env: StreamExecutionEnvironment) -> None:
    before = env.from_sequence(1, 10).map(Subtask()).disable_chaining()
    found = spread(before.forward())
    assert {subtask for subtask, values in found.items() for other, _ in values if other != subtask} == set()
    assert sum(map(len, found.values())) == 10


def test_rebalance_goes_round_all_subtasks(env: StreamExecutionEnvironment) -> None:
    found = spread(env.from_sequence(1, 10).set_parallelism(1).rebalance(), parallelism=2)
    assert sorted(map(len, found.values())) == [5, 5]


def test_rescale_stays_within_each_senders_group(env: StreamExecutionEnvironment) -> None:
    before = env.from_sequence(1, 20).set_parallelism(1).rebalance().map(Subtask()).set_parallelism(2)
    found = spread(before.rescale(), parallelism=4)
    senders = {subtask: {sender for sender, _ in values} for subtask, values in found.items()}
    assert senders == {0: {0}, 1: {0}, 2: {1}, 3: {1}}


def test_shuffle_loses_nothing(env: StreamExecutionEnvironment) -> None:
    found = spread(env.from_sequence(1, 1000).shuffle())
    assert sorted(value for values in found.values() for value in values) == list(range(1, 1001))
    assert all(350 < len(values) < 650 for values in found.values())


def test_global_sends_all_to_the_first_subtask(env: StreamExecutionEnvironment) -> None:
    assert spread(env.from_sequence(1, 5).global_()) == {0: [1, 2, 3, 4, 5]}


def test_broadcast_sends_all_to_every_subtask(env: StreamExecutionEnvironment) -> None:
    assert spread(env.from_collection([1, 2]).broadcast(), parallelism=3) == {0: [1, 2], 1: [1, 2], 2: [1, 2]}


def test_partition_custom_by_a_function_of_the_record(env: StreamExecutionEnvironment) -> None:
    found = spread(env.from_sequence(1, 6).partition_custom(lambda key, n: key % n, lambda value: value // 2))
    assert found == {0: [1, 4, 5], 1: [2, 3, 6]}


def test_partition_custom_by_a_column(env: StreamExecutionEnvironment) -> None:
    found = spread(
        table(env).partition_custom(lambda key, n: n - 1 if key == "Rome" else 0, "city").map(lambda r: r.city)
    )
    assert found == {0: ["Lima", "Oslo"], 1: ["Rome"]}


class ByHalves(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key // 4 % num_partitions


def test_partition_custom_by_pyflinks_partitioner(env: StreamExecutionEnvironment) -> None:
    assert spread(env.from_sequence(0, 7).partition_custom(ByHalves(), "value")) == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}


def test_a_partitioner_that_points_outside_is_an_error(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobExecutionError, match=r"a channel from 0 to 1 .* not 5"):
        spread(env.from_sequence(1, 6).partition_custom(lambda *_: 5, lambda value: value))


# A pair of neighbours, 2n and 2n + 1, has one key.
class ByHalf(KeySelectorFunction):
    def get_key(self, value: int) -> int:
        return value // 2


@pytest.mark.parametrize("key", [ByHalf(), lambda value: value // 2])
def test_key_by_a_function_brings_equal_keys_together(env: StreamExecutionEnvironment, key: Any) -> None:
    found = spread(env.from_sequence(0, 39).key_by(key))
    assert len(found) == 2
    assert all(value ^ 1 in values for values in found.values() for value in values)


def test_key_by_a_column_brings_equal_keys_together(env: StreamExecutionEnvironment) -> None:
    found = spread(env.from_sequence(0, 19).union(env.from_sequence(0, 19)).rebalance().key_by("value"))
    assert len(found) == 2
    assert all(values.count(value) == 2 for values in found.values() for value in values)


# -- settings of operators, as the plan shows them and as the job runs with them


SETTINGS: dict[str, tuple[Callable[[DataStream], Any], str]] = {
    "name": (lambda s: s.name("doubled"), r"doubled\n"),
    "uid": (lambda s: s.uid("double-1"), "uid double-1"),
    "set_uid_hash": (lambda s: s.set_uid_hash("0123456789abcdef" * 2), "uid hash " + "0123456789abcdef" * 2),
    "set_description": (lambda s: s.set_description("two times the value"), "two times the value"),
    "set_parallelism": (lambda s: s.set_parallelism(3), "parallelism 3, max"),
    "set_max_parallelism": (lambda s: s.set_max_parallelism(512), "max parallelism 512"),
    "force_non_parallel": (lambda s: s.force_non_parallel(), "parallelism 1, max parallelism 1"),
    "slot_sharing_group": (lambda s: s.slot_sharing_group("models"), "slot sharing group models"),
    "co_location_group": (lambda s: s.co_location_group("near"), "co-located as near"),
    "start_new_chain": (lambda s: s.start_new_chain(), "chaining head"),
    "disable_chaining": (lambda s: s.disable_chaining(), "chaining never"),
    "set_buffer_timeout": (lambda s: s.set_buffer_timeout("7 ms"), "buffer timeout 7 ms"),
    "set_buffer_timeout of 0": (lambda s: s.set_buffer_timeout(0), "buffer timeout 0 ms"),
    "set_buffer_timeout in PyFlink's words": (
        lambda s: s.set_buffer_timeout(Duration.of_seconds(1)),
        "buffer timeout 1000 ms",
    ),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_shows_in_the_plan_and_the_job_runs_with_it(env: StreamExecutionEnvironment, setting: str) -> None:
    apply, shown = SETTINGS[setting]
    doubled = env.from_sequence(1, 3).map(lambda value: value * 2)
    apply(doubled)
    doubled.print()
    stream_plan = env.get_execution_plan("stream").split("\n2 ", 1)[1].split("\n3 ", 1)[0]
    assert re.search(shown, stream_plan)
    env._transformations.clear()
    assert rows(doubled) == [2, 4, 6]


def test_resources_of_an_operator_are_asked_for(env: StreamExecutionEnvironment) -> None:
    doubled = env.from_sequence(1, 3).map(lambda value: value * 2)
    assert rows(doubled.set_resources(ResourceSpec(cpus=0.5))) == [2, 4, 6]


def chains(env: StreamExecutionEnvironment) -> int:
    """Tasks per subtask that the program has."""
    return len(re.findall(r"^\d+ ", env.get_execution_plan("job"), re.MULTILINE))


def test_chaining_settings_cut_the_chain_where_they_say() -> None:
    def program(setting: str | None, env: StreamExecutionEnvironment) -> int:
        mapped = env.from_sequence(1, 3).map(str)
        if setting:
            getattr(mapped, setting)()
        mapped.print()
        return chains(env)

    assert program(None, environment()) == 1
    assert program("start_new_chain", environment()) == 2
    assert program("disable_chaining", environment()) == 3
    assert program(None, environment().disable_operator_chaining()) == 3


def test_a_setting_of_no_operator_is_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="set_parallelism is a setting of an operator"):
        env.from_sequence(1, 3).rebalance().set_parallelism(2)


# -- settings of the environment


def test_settings_of_the_environment_reach_the_program() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"}))
    env.set_parallelism(3).set_max_parallelism(99).set_buffer_timeout(0).configure({"pipeline.name": "from an option"})
    assert (env.get_parallelism(), env.get_max_parallelism()) == (3, 99)
    stream = env.from_sequence(1, 30).map(Where()).rebalance().map(lambda found: found)
    stream.print()
    plan = env.get_execution_plan("job")
    assert "'from an option'" in plan
    assert "parallelism 3, max parallelism 99" in plan
    assert "buffer timeout 0 ms" in plan
    env._transformations.clear()
    found = {(row[2], row[3], row[5]) for row in stream.execute_and_collect()}
    assert found == {(3, 99, "from an option")}


@pytest.mark.parametrize("timeout", [0, "1 s", Time.milliseconds(5)])
def test_rows_arrive_whatever_the_buffer_timeout(env: StreamExecutionEnvironment, timeout: Any) -> None:
    env.set_buffer_timeout(timeout)
    assert rows(env.from_sequence(1, 100).rebalance().map(lambda value: value).shuffle()) == sorted(
        range(1, 101), key=repr
    )


first_row_came = threading.Event()


def one_then_wait() -> Iterator[int]:
    yield 1
    assert first_row_came.wait(20), "the first row never came"
    yield 2


def test_a_row_does_not_wait_where_the_buffer_timeout_is_zero(env: StreamExecutionEnvironment) -> None:
    first_row_came.clear()
    env.set_buffer_timeout("60 s")
    waits = env.add_source(one_then_wait).set_buffer_timeout(0).rebalance().map(lambda value: value)
    with waits.set_buffer_timeout(0).execute_and_collect() as found:
        assert next(found) == 1
        first_row_came.set()
        assert list(found) == [2]


# -- accumulators, cached files, listeners, clients


class Counts(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.rows = runtime_context.add_accumulator("rows")
        self.total = runtime_context.add_accumulator("total", 0.0)

    def map(self, value: int) -> int:
        self.rows.add(1)
        self.total.add(value / 2)
        return value


def test_accumulators_are_summed_over_the_subtasks(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 10).map(Counts()).sink_to(DiscardSink())
    result = env.execute("counted")
    assert (result.job_name, result.get_accumulator_result("rows"), result.accumulators["total"]) == (
        "counted",
        10,
        27.5,
    )
    assert result.get_accumulator_result("unknown") is None


class FirstLine(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.line = Path(runtime_context.get_cached_file("lines")).read_text().splitlines()[0]

    def map(self, value: int) -> str:
        return f"{self.line} {value}"


def test_a_cached_file_is_where_the_tasks_are(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("first\nsecond\n")
    env.register_cached_file(tmp_path / "lines.txt", "lines")
    assert rows(env.from_collection([1]).map(FirstLine())) == ["first 1"]


def test_an_unknown_cached_file_names_the_known_ones(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("")
    env.register_cached_file(tmp_path / "words.txt", "words")
    with pytest.raises(JobExecutionError, match=r"'lines'.*words"):
        rows(env.from_collection([1]).map(FirstLine()))


class Listener(JobListener):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_job_submitted(self, client: JobClient | None, error: BaseException | None) -> None:
        self.heard.append(f"submitted {client is not None} {error}")

    def on_job_executed(self, result: JobExecutionResult | None, error: BaseException | None) -> None:
        self.heard.append(f"executed {result.job_name if result else type(error).__name__}")


def test_listeners_hear_of_jobs(env: StreamExecutionEnvironment) -> None:
    listener = Listener()
    env.register_job_listener(listener)
    env.from_collection([1]).sink_to(DiscardSink())
    env.execute("good")
    env.from_collection([1]).map(lambda value: value / 0).sink_to(DiscardSink())
    with pytest.raises(JobExecutionError):
        env.execute("bad")
    assert listener.heard == [
        "submitted True None",
        "executed good",
        "submitted True None",
        "executed JobExecutionError",
    ]


def endless() -> Iterator[int]:
    while True:
        yield 1


def test_a_client_watches_and_cancels_a_job(env: StreamExecutionEnvironment) -> None:
    env.add_source(endless).map(Counts()).sink_to(DiscardSink())
    client = env.execute_async("endless")
    try:
        eventually(client.status, lambda status: status is JobStatus.RUNNING)
        eventually(client.accumulators, lambda found: found.get("rows", 0) > 0)
        eventually(client.progress, lambda progress: progress.records_out > 0)
        with pytest.raises(TimeoutError):
            client.result(timeout=0.01)
        client.cancel()
        with pytest.raises(JobCanceledError):
            client.result(timeout=20)
        assert client.status() is JobStatus.CANCELED
        assert len(client.job_id) == 32
    finally:
        client.close()


def test_run_locally_runs_a_program_whatever_its_target() -> None:
    env = environment(target="ray")
    env.from_collection([1, 2]).map(Counts()).sink_to(DiscardSink())
    assert run_locally(env, "here").accumulators["rows"] == 2


# -- results


def test_execute_and_collect_gives_rows_while_the_job_runs_and_closing_it_ends_the_job(
    env: StreamExecutionEnvironment,
) -> None:
    with env.add_source(endless).execute_and_collect() as found:
        assert [next(found) for _ in range(3)] == [1, 1, 1]
        client = found.job_client
        assert client.status() is JobStatus.RUNNING
    with pytest.raises(StopIteration):
        next(found)
    assert client.status() in (JobStatus.CANCELED, JobStatus.CANCELLING)
    found.close()


def test_execute_and_collect_with_a_limit_is_a_list(env: StreamExecutionEnvironment) -> None:
    assert env.add_source(endless).execute_and_collect(limit=4) == [1, 1, 1, 1]
    assert env.from_collection([1, 2]).execute_and_collect("short", 4) == [1, 2]


def test_a_dropped_iterator_ends_its_job(env: StreamExecutionEnvironment) -> None:
    found = env.add_source(endless).execute_and_collect()
    next(found)
    client = found.job_client
    del found
    assert eventually(client.status, lambda status: status.is_terminal) is JobStatus.CANCELED


def test_to_arrow_gives_a_table_of_each_kind(env: StreamExecutionEnvironment) -> None:
    assert env.from_collection([1, 2]).to_arrow().equals(pa.table({"value": [1, 2]}))
    assert env.from_collection([(1, "a")]).to_arrow().equals(pa.table({"f0": [1], "f1": ["a"]}))
    assert table(env).to_arrow().sort_by("high").column_names == ["city", "high", "low"]
    empty = table(env).where(col("high") > 100).select("high").to_arrow()
    assert (empty.num_rows, empty.column_names) == (0, ["high"])


def test_to_pandas_gives_a_frame_also_of_objects(env: StreamExecutionEnvironment) -> None:
    assert table(env).to_pandas().sort_values("high").low.tolist() == [-2, 7, 19]
    assert env.from_collection([1 + 2j, {3}]).to_pandas()["value"].tolist() == [1 + 2j, {3}]


# -- sinks of a stream


def test_print_writes_each_value_with_its_subtask(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.from_collection([(1, "a")]).print()
    table(env).where(col("high") == 4).set_parallelism(1).print("cities").set_parallelism(1)
    env.execute()
    printed = sorted(capsys.readouterr().out.splitlines())
    assert printed[1] == "cities> Row(city='Oslo', high=4, low=-2)"
    assert re.fullmatch(r"[12]> \(1, 'a'\)", printed[0])


taken: list[Any] = []


class Takes(SinkFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        taken.append("open")

    def invoke(self, value: Any) -> None:
        taken.append(value)

    def close(self) -> None:
        taken.append("close")


@pytest.mark.parametrize(("sink", "expected"), [(Takes(), ["open", 1, 2, "close"]), (taken.append, [1, 2])])
def test_add_sink_calls_a_function_with_each_value(
    env: StreamExecutionEnvironment, sink: Any, expected: list[Any]
) -> None:
    taken.clear()
    env.from_collection([1, 2]).add_sink(sink if isinstance(sink, Takes) else _take).set_parallelism(1)
    env.execute()
    assert taken == expected


def _take(value: Any) -> None:
    taken.append(value)


def test_settings_of_a_sink(env: StreamExecutionEnvironment) -> None:
    sink = env.from_collection([1]).add_sink(_take)
    sink.name("to nowhere").uid("nowhere").set_parallelism(1).set_description("drops").disable_chaining()
    assert "Sink: to nowhere" in env.get_execution_plan()
    env.execute()


# -- PyFlink's word order


def test_a_timed_stream_keeps_its_time_through_row_functions(env: StreamExecutionEnvironment) -> None:
    def timestamp(value: str, ctx: ProcessContext) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark() <= ctx.timestamp()

    env.set_parallelism(1)
    stream = timed(env, ("a", 5), ("b", 9), names=("k", "at"))
    kept = stream.map(lambda row: row.k).flat_map(lambda k: [k, k.upper()]).filter(str.isupper).process(timestamp)
    assert in_order(kept) == [("A", 5, True), ("B", 9, True)]

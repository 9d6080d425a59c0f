"""Each operation and setting of a DataStream in a whole job of its own."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flinkray import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    InvalidProgramError,
    JobExecutionError,
    Kind,
    MapFunction,
    OutputTag,
    ProcessFunction,
    Row,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
    Types,
    col,
    if_else,
    lit,
    when,
)
from flinkray.functions.interfaces import ProcessContext
from tests.support.whole_jobs import ASCENDING, WhereItRuns, cities, in_order, rows, rows_of, timed

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


def test_a_function_knows_where_it_runs(env: StreamExecutionEnvironment) -> None:
    where = (
        env.from_collection([1])
        .map(WhereItRuns())
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
    mapped = cities(env).map_batches(BATCH_FUNCTIONS[batch_format], batch_format)
    assert rows(mapped) == [Row(high=16), Row(high=28), Row(high=5)]


def test_map_batches_makes_a_class_once_per_subtask(env: StreamExecutionEnvironment) -> None:
    mapped = cities(env).map_batches(AddsBias, "numpy", output_type=pa.schema([("high", pa.float32())]))
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
    assert rows(apply(cities(env).where(col("city") == "Oslo"))) == expected


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


# -- sinks of a stream


def test_print_writes_each_value_with_its_subtask(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.from_collection([(1, "a")]).print()
    cities(env).where(col("high") == 4).set_parallelism(1).print("cities").set_parallelism(1)
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


class Plus:
    """A model: what it adds is an argument."""

    def __init__(self, number: int, factor: int = 1) -> None:
        self._number = number * factor

    def __call__(self, batch: Any) -> Any:
        return {"value": batch["value"] + self._number}


@pytest.mark.parametrize(
    "model", [partial(Plus, 3), partial(Plus, 1, factor=3), partial(partial(Plus, 1), factor=3), Plus(3)]
)
def test_map_batches_makes_classes_with_arguments_too(env: StreamExecutionEnvironment, model: Any) -> None:
    assert rows(env.from_collection([1, 2]).map_batches(model, batch_format="numpy")) == [4, 5]


def test_a_partial_of_what_cannot_be_called_is_the_function(env: StreamExecutionEnvironment) -> None:
    frames = env.from_collection([1, 2]).map_batches(partial(pd.DataFrame, columns=["value"]), batch_format="pandas")
    assert rows(frames) == [1, 2]


class Adds(MapFunction):
    def __init__(self, number: int) -> None:
        self._number = number

    def map(self, value: int) -> int:
        return value + self._number


def test_a_function_class_with_arguments_is_to_be_called(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match=r"it makes one, so call it: Adds\(\.\.\.\)"):
        env.from_collection([1]).map(partial(Adds, 3))

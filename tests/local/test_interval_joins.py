"""Interval joins in whole jobs, and what a program says about a wrong one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from flinkray import (
    DataStream,
    InvalidProgramError,
    JobExecutionError,
    NullTimestampError,
    OutputTag,
    ProcessJoinFunction,
    Row,
    RuntimeContext,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
    col,
)
from flinkray.functions.interfaces import ProcessContext, ProcessJoinContext
from flinkray.streams.interval_join import IntervalJoined
from flinkray.testing import TwoInputHarness
from flinkray.transformations.operator_factories import IntervalJoinFactory
from tests.support.api import factory
from tests.support.jobs import environment
from tests.support.whole_jobs import ONE_ROW_BATCHES, rows, rows_of, timed

ORDERS = [(1, "tea", 1), (2, "milk", 3), (1, "jam", 8), (1, "rye", 12), (3, "salt", 25)]
PAYMENTS = [(1, 30, 5), (2, 11, 4), (2, 12, 14), (1, 40, 9)]
LEFT_LATE, RIGHT_LATE = OutputTag("left late"), OutputTag("right late")


def orders(env: StreamExecutionEnvironment) -> DataStream:
    return timed(env, *ORDERS, names=("customer", "item", "at"))


def payments(env: StreamExecutionEnvironment) -> DataStream:
    return timed(env, *PAYMENTS, names=("payer", "amount", "at"))


def paid(env: StreamExecutionEnvironment, lower: Any = -2, upper: Any = 8) -> IntervalJoined:
    return orders(env).key_by("customer").interval_join(payments(env).key_by("payer")).between(lower, upper)


def pairs(lower: int = -2, upper: int = 8) -> list[tuple[str, int]]:
    return sorted(
        (item, amount)
        for customer, item, at in ORDERS
        for payer, amount, when in PAYMENTS
        if customer == payer and lower <= when - at <= upper
    )


class Pairs(ProcessJoinFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.is_open = True

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinContext) -> Iterator[tuple[str, int]]:
        assert self.is_open
        assert ctx.get_timestamp() == max(left.at, right.at)
        yield left.item, right.amount


@pytest.mark.parametrize("function", [Pairs(), lambda left, right, _ctx: [(left.item, right.amount)]])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_function_gets_every_pair(function: Any, parallelism: int) -> None:
    joined = paid(environment(parallelism=parallelism)).process(function, Types.TUPLE([Types.STRING(), Types.LONG()]))
    assert rows(joined) == pairs()


def test_without_a_function_the_rows_have_the_columns_of_both(env: StreamExecutionEnvironment) -> None:
    joined = paid(env).join()
    assert joined.record_type is not None
    assert joined.record_type.schema.names == ["customer", "item", "at", "amount", "at_right"]
    table = joined.to_arrow()
    assert table.column_names == ["customer", "item", "at", "amount", "at_right"]
    assert sorted(zip(table["item"].to_pylist(), table["amount"].to_pylist(), strict=True)) == pairs()


def test_a_pair_has_the_later_rows_event_time(env: StreamExecutionEnvironment) -> None:
    def times(value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield ctx.timestamp() == max(value.at, value.at_right)

    assert set(rows(paid(env).join().process(times))) == {True}


def test_exclusive_bounds_leave_out_the_rows_at_them(env: StreamExecutionEnvironment) -> None:
    joined = paid(env, -3, 8).lower_bound_exclusive().upper_bound_exclusive().process(Pairs())
    assert rows(joined) == pairs(-2, 7) != pairs(-3, 8)


@pytest.mark.parametrize("seed", range(4))
def test_many_rows_agree_with_a_database(seed: int) -> None:
    chance = random.Random(seed)
    tables = []
    for name in ("key", "id"):
        times = [number // 3 - chance.randrange(30) for number in range(3000)]
        keys = [chance.choice([None, "a", "b", f"c{chance.randrange(200)}"]) for _ in times]
        tables.append(pa.table({name: keys, "value": range(3000), "at": times}))
    lower, upper = sorted((chance.randrange(-20, 20), chance.randrange(-20, 20)))
    env = environment({"flinkray.batch.target-rows": 100}, parallelism=seed % 3 + 1)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(30).with_timestamp_assigner("at")
    left, right = (env.from_arrow(table, strategy).set_parallelism(1) for table in tables)
    joined = left.key_by("key").interval_join(right.key_by("id")).between(lower, upper).join().to_arrow()
    with duckdb.connect() as connection:
        connection.register("l", tables[0])
        connection.register("r", tables[1])
        query = (
            "select l.value, r.value from l join r on l.key is not distinct from r.id "
            "where r.at - l.at between ? and ? order by 1, 2"
        )
        expected = connection.execute(query, [lower, upper]).fetchall()
    assert expected
    assert sorted(zip(joined["value"].to_pylist(), joined["value_right"].to_pylist(), strict=True)) == expected


def test_late_rows_go_to_the_side_output_of_their_stream() -> None:
    env = environment(ONE_ROW_BATCHES, parallelism=1)
    stream = timed(env, (1, 10, 1), (1, 20, 40), (1, 30, 2), names=("key", "value", "at")).key_by("key")
    joined = (
        stream.interval_join(stream)
        .between(0, 5)
        .side_output_left_late_data(LEFT_LATE)
        .side_output_right_late_data(RIGHT_LATE)
        .process(lambda a, b, _ctx: [(a.value, b.value)])
    )
    found = rows_of(
        env,
        {
            "results": joined,
            "left": joined.get_side_output(LEFT_LATE),
            "right": joined.get_side_output(RIGHT_LATE),
        },
    )
    assert found["results"] == [(10, 10), (20, 20)]
    assert [tuple(row) for row in found["left"]] == [(1, 30, 2)]
    assert [tuple(row) for row in found["right"]] == [(1, 30, 2)]


def test_rows_without_event_time_fail_the_job_and_say_what_to_do(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([(1, 2)]).key_by(lambda value: value[0])
    with pytest.raises(JobExecutionError, match=r"Interval Join.*assign_timestamps_and_watermarks") as caught:
        rows(stream.interval_join(stream).between(0, 1).process(lambda *_: []))
    assert isinstance(caught.value.__cause__, NullTimestampError)


# -- what the program says before it runs


def bounds(joined: IntervalJoined) -> tuple[int, int]:
    made = factory(joined.join())
    assert isinstance(made, IntervalJoinFactory)
    return made.lower_ms, made.upper_ms


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (-5, 10, (-5, 10)),
        (timedelta(seconds=-5), timedelta(minutes=1), (-5_000, 60_000)),
        ("-5 s", "-1 s", (-5_000, -1_000)),
        (" -1.5 s", " 2 s", (-1_500, 2_000)),
        (0, 0, (0, 0)),
    ],
)
def test_bounds_in_all_forms(env: StreamExecutionEnvironment, lower: Any, upper: Any, expected: Any) -> None:
    assert bounds(paid(env, lower, upper)) == expected


def test_exclusive_bounds_move_by_a_millisecond(env: StreamExecutionEnvironment) -> None:
    assert bounds(paid(env, -5, 5).lower_bound_exclusive()) == (-4, 5)
    assert bounds(paid(env, -5, 5).upper_bound_exclusive()) == (-5, 4)


def test_a_lower_bound_above_the_upper_one_is_an_error(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match=r"lower bound \(5 ms\) is above the upper one \(-5 ms\)"):
        paid(env, 5, -5)


@pytest.mark.parametrize(
    ("bound", "error", "message"),
    [
        (True, TypeError, "lower_bound is a duration"),
        (None, TypeError, "lower_bound is a duration"),
        ("soon", ValueError, "lower_bound: cannot read 'soon'"),
        ("--5 s", ValueError, "lower_bound: cannot read"),
        (timedelta(microseconds=-1), ValueError, "whole number of milliseconds"),
        (-(2**63), ValueError, "the opposite of lower_bound must be at most 9223372036854775807 ms"),
        (1 - 2**63, InvalidProgramError, "lower_bound is -9223372036854775807 ms"),
    ],
)
def test_bounds_that_are_none(
    env: StreamExecutionEnvironment, bound: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        paid(env, bound, 0)


def test_the_other_stream_must_be_keyed(env: StreamExecutionEnvironment) -> None:
    keyed = orders(env).key_by("customer")
    with pytest.raises(InvalidProgramError, match=r"other\.key_by\(\.\.\.\), not DataStream"):
        keyed.interval_join(payments(env))  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="not str"):
        keyed.interval_join("payments")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="different environments"):
        keyed.interval_join(payments(environment()).key_by("payer"))


def test_keys_of_different_types_or_widths_are_an_error(env: StreamExecutionEnvironment) -> None:
    keyed = orders(env).key_by("customer")
    with pytest.raises(InvalidProgramError, match="interval_join: key 'customer' is int64 and key 'item' is string"):
        keyed.interval_join(orders(env).key_by("item"))
    with pytest.raises(InvalidProgramError, match="interval_join: the keys have 1 and 2 columns"):
        keyed.interval_join(payments(env).key_by("payer", "at"))


def test_columns_of_one_name_are_an_error_where_the_program_says_so(env: StreamExecutionEnvironment) -> None:
    odd = orders(env).with_columns(at_right=col("at"))
    joined = odd.key_by("customer").interval_join(payments(env).key_by("payer")).between(0, 1)
    with pytest.raises(InvalidProgramError, match="two columns the same name"):
        joined.join()


def test_functions_and_tags_are_checked(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="expected a function, or an object with a process_element method"):
        paid(env).process("f")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="side_output_left_late_data takes an OutputTag"):
        paid(env).side_output_left_late_data("late")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [(1, 2), Row(a=1), {1}, "text"], ids=repr)
def test_rows_of_different_kinds_meet_as_they_are(value: Any) -> None:
    """Nothing but None in a batch is a scalar to it, whatever comes later."""

    def everything(_value: Any) -> int:
        return 0

    def interval_join(left: DataStream, right: DataStream) -> DataStream:
        pairs = left.map(lambda each: each).key_by(everything).interval_join(right.key_by(everything)).between(-9, 9)
        return pairs.process(lambda one, other, _context: [repr((one, other))])

    def co_group(left: DataStream, right: DataStream) -> DataStream:
        both = left.map(lambda each: each).co_group(right).where(everything).equal_to(everything)
        return both.window(TumblingEventTimeWindows.of(10)).apply(
            lambda ones, others: [repr((one, other)) for one in ones for other in others]
        )

    with TwoInputHarness.of(interval_join) as harness:
        harness.first.process(None, 1)
        harness.first.process(value, 1)
        harness.second.process(7, 1)
        saved = harness.snapshot()
        assert sorted(harness.results()) == sorted([repr((None, 7)), repr((value, 7))])
    with TwoInputHarness.of(interval_join, restore_from=saved) as harness:
        harness.second.process(8, 1)
        assert sorted(harness.results()) == sorted([repr((None, 8)), repr((value, 8))])
    with TwoInputHarness.of(co_group) as harness:
        harness.first.process(None, 1)
        harness.first.process(value, 1)
        harness.second.process(7, 1)
        harness.watermark(100)
        assert sorted(harness.results()) == sorted([repr((None, 7)), repr((value, 7))])

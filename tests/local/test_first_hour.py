"""What people try first and get wrong is answered with what to write instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    ArgMax,
    CollectList,
    Configuration,
    Count,
    DataStream,
    InvalidProgramError,
    JobExecutionError,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessContext,
    Row,
    StreamExecutionEnvironment,
    Sum,
    TopN,
    TumblingEventTimeWindows,
    TypeMismatchError,
    UserFunctionError,
    WatermarkStrategy,
    col,
    struct,
)
from flinkray.batches.value_columns import to_values
from flinkray.connectors.discard.sink import DiscardSink
from flinkray.progress import ProgramUse
from flinkray.tables.api.expressions import col as tables_col
from flinkray.tables.api.user_functions import udaf, udf
from flinkray.testing import KeyedHarness, OneInputHarness
from tests.support.whole_jobs import ONE_ROW_BATCHES, rows, timed

WINDOWS = TumblingEventTimeWindows.of(10)
BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("t")


def events(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([{"k": 1, "t": t} for t in (0, 25, 1, 2)]).set_parallelism(1)


def test_rows_that_are_dropped_as_late_are_in_the_log_once_and_in_the_result(caplog: pytest.LogCaptureFixture) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": "local", **ONE_ROW_BATCHES})
    )
    stream = timed(env, (1, 0), (1, 25), (1, 1), (1, 2), names=("k", "at"))
    stream.key_by("k").window(WINDOWS).aggregate(n=Count()).sink_to(DiscardSink())
    assert env.execute().late_records_dropped == 2
    (message,) = [record.getMessage() for record in caplog.records if "late" in record.getMessage()]
    assert "dropped the first 1 row(s) as late" in message


def test_a_job_without_late_rows_says_nothing_of_them(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    stream = events(env).assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks().with_timestamp_assigner("t")
    )
    stream.key_by("k").window(WINDOWS).aggregate(n=Count()).sink_to(DiscardSink())
    result = env.execute()
    assert (result.late_records_dropped, result.accumulators) == (0, {})
    assert "late" not in caplog.text


@pytest.mark.parametrize(
    "misplaced",
    [
        lambda stream: stream.window(WINDOWS),
        lambda stream: stream.key_by("k").assign_timestamps_and_watermarks(BY_TIME).window(WINDOWS),
        lambda stream: stream.key_by("k").map(lambda row: row).window(WINDOWS),
    ],
    ids=["no key", "watermarks behind the key", "map behind the key"],
)
def test_windows_without_a_key_say_where_it_goes(
    env: StreamExecutionEnvironment, misplaced: Callable[[Any], Any]
) -> None:
    with pytest.raises(AttributeError, match=r"key_by\(\.\.\.\) comes right before it.*window_all\(\.\.\.\)"):
        misplaced(events(env))
    assert not hasattr(events(env), "no_such_thing")


def test_expressions_where_functions_belong_name_the_operation_that_takes_them(
    env: StreamExecutionEnvironment,
) -> None:
    with pytest.raises(InvalidProgramError, match=r"expression over columns: write where\(\.\.\.\)"):
        events(env).filter(col("k") > 0)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match=r"write with_columns\(name=\.\.\.\) or select"):
        events(env).map(col("k") + 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (Sum(), r"aggregate a: Sum takes the name of a column or an expression, as in Sum\('x'\), not None"),
        (TopN(2, "k"), r"as in TopN\('x'\), not 2"),  # type: ignore[arg-type]
        (TopN("k", 0), "TopN takes one value or more, not 0"),
        (TopN("k", n="t"), r"TopN\('x', n\) takes a number of values, not 't'"),  # type: ignore[arg-type]
        (ArgMax("k"), r"as in ArgMax\('x', by='y'\), not None"),
        (CollectList(("k", "t")), r"not \('k', 't'\); several columns are one as struct\('x', 'y'\)"),
        (Count, r"it is a class, so write it with \(\): Count\(\)"),
    ],
)
def test_an_aggregate_that_computes_nothing_is_refused_where_it_is_written(
    env: StreamExecutionEnvironment, aggregate: Any, message: str
) -> None:
    for keyed in (events(env).key_by("k"), events(env).key_by("k").window(WINDOWS)):
        with pytest.raises(InvalidProgramError, match=message):
            keyed.aggregate(a=aggregate)


def test_what_windows_are_asked_for_and_cannot_give_is_refused_where_it_is_written(
    env: StreamExecutionEnvironment,
) -> None:
    renamed = events(env).rename(k="window_end").key_by("window_end")
    with pytest.raises(
        InvalidProgramError, match=r"rename the key before key_by: rename\(window_end='of_window_end'\)"
    ):
        renamed.window(WINDOWS).aggregate(n=Count())
    with pytest.raises(InvalidProgramError, match=r"'UTC' or 'Europe/Paris', not 'Paris'"):
        events(env).window_all(WINDOWS).bounds_as_timestamps("Paris")
    for wrong in (lambda: struct(), lambda: struct("a", a=col("b")), lambda: struct(1)):  # type: ignore[arg-type]
        with pytest.raises(InvalidProgramError):
            wrong()


class Timed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)


def test_harnesses_say_what_their_functions_lack() -> None:
    with pytest.raises(InvalidProgramError, match=r"Timed is a class: write it with \(\)"):
        KeyedHarness(Timed, key="k")  # type: ignore[arg-type]
    with KeyedHarness(Timed(), key="k") as harness:
        with pytest.raises(UserFunctionError, match=r"no event time.*so ctx.timestamp\(\) is None"):
            harness.process({"k": 1})
        harness.process({"k": 1}, timestamp=1)


def test_text_that_is_no_unicode_says_where_such_text_comes_from(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(TypeMismatchError, match=r"lone surrogate.*encode\('utf-8', 'replace'\)"):
        env.from_collection(["\ud800"])


@pytest.mark.parametrize(
    ("value", "assigner", "message"),
    [
        ("2024-05-01", "t", r"Cast it, as in with_timestamp_assigner\(col\('t'\)\.cast\('timestamp\[us\]'\)\)"),
        (1.5e12, "t", r"with_timestamp_assigner\(col\('t'\)\.cast\('int64'\)\)"),
        (datetime(2024, 5, 1), lambda row, _: row.t, "name the column in place of a function"),
        (1.5, lambda row, _: row.t, r"not 1\.5 \(float\); return int\(\.\.\.\) of it"),
    ],
    ids=["text", "a float", "a datetime of a function", "a float of a function"],
)
def test_event_times_of_another_type_say_what_makes_them_times(value: Any, assigner: Any, message: str) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    build = partial(DataStream.assign_timestamps_and_watermarks, strategy=strategy)
    with OneInputHarness.of(build) as harness, pytest.raises(TypeMismatchError, match=message):
        harness.process({"t": value})


def test_values_that_python_cannot_hold_are_named_and_none_is_changed() -> None:
    far = {
        pa.timestamp("ms", "Asia/Tokyo"): 253_402_300_799_999,  # after the year 9999 there
        pa.date32(): 2**31 - 1,
        pa.duration("s"): 2**62,
    }
    for arrow_type, value in far.items():
        with pytest.raises(TypeMismatchError, match="the years 1 to 9999: filter such rows out"):
            to_values(pa.array([value], arrow_type))
    for batch_format in ("pandas", "numpy"):
        build = partial(DataStream.map_batches, function=lambda batch: batch, batch_format=batch_format)
        with OneInputHarness.of(build) as harness:
            harness.process_batch([{"n": None}, {"n": 2**53}])
            with pytest.raises(TypeMismatchError, match=r"column 'n' has nulls and whole numbers beyond 2\*\*53"):
                harness.process_batch([{"n": None}, {"n": -(2**53) - 1}])


@pytest.mark.parametrize("aggregates", [False, True])
def test_functions_of_pandas_get_whole_numbers_beside_nulls_as_they_are_or_not_at_all(
    env: StreamExecutionEnvironment, aggregates: bool
) -> None:
    of_sql = udaf if aggregates else udf
    same = of_sql(lambda series: series.max() if aggregates else series, result_type="BIGINT", func_type="pandas")
    env.tables.create_temporary_view("numbers", env.from_collection([Row(n=None), Row(n=2**53 + 1)]))
    result = env.tables.from_path("numbers").select(same(tables_col("n")).alias("n")).execute()
    with pytest.raises(JobExecutionError, match=r"argument 1 of an? \w+ of pandas has nulls and whole numbers beyond"):
        result.to_arrow()


async def asynchronous(row: Any) -> Any:
    return row


def generator(row: Any) -> Iterator[Any]:
    yield row


class AsyncCalled:
    async def __call__(self, row: Any) -> Any:
        return row


class AsyncTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> None: ...

    async def on_timer(self, timestamp: int, ctx: OnTimerContext) -> None:  # type: ignore[override]
        ...


def test_functions_that_nobody_awaits_or_iterates_are_refused_where_they_are_handed_over(
    env: StreamExecutionEnvironment,
) -> None:
    stream = events(env)
    for takes in (stream.map, stream.flat_map, stream.filter, stream.key_by, stream.map_batches, stream.add_sink):
        for function in (asynchronous, partial(asynchronous), AsyncCalled()):
            with pytest.raises(InvalidProgramError, match=r"'async def', and nothing awaits it here: async_map"):
                takes(function)
    with pytest.raises(InvalidProgramError, match=r"AsyncTimer.on_timer is declared with 'async def'"):
        stream.key_by("k").process(AsyncTimer())
    with pytest.raises(InvalidProgramError, match=r"flat_map\(\.\.\.\) takes what it yields"):
        stream.map(generator)
    for one_result in (stream.filter, stream.key_by):
        with pytest.raises(InvalidProgramError, match="generator is a generator, and one result is wanted"):
            one_result(generator)


def sets_attribute(row: Any) -> Any:
    row.k = 5
    return row


def sets_item(row: Any) -> Any:
    row["k"] = 5
    return row


def test_a_value_of_a_row_is_set_by_item_and_an_attribute_says_so(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobExecutionError, match=r"columns are set by item: row\['k'\] = \.\.\."):
        rows(events(env).map(sets_attribute))
    assert {row.k for row in rows(events(env).map(sets_item))} == {5}


def said_at_the_end(directory: Path, *lines: str) -> str:
    """What a program of these lines leaves on standard error."""
    program = directory / "program.py"
    program.write_text("".join(f"{line}\n" for line in lines))
    return subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True).stderr


def test_a_program_that_is_recorded_and_never_run_says_so_at_its_end(tmp_path: Path) -> None:
    said = said_at_the_end(
        tmp_path,
        "from flinkray import StreamExecutionEnvironment",
        "StreamExecutionEnvironment.get_execution_environment().from_collection([1]).print()",
    )
    assert said.startswith("flinkray: nothing ran: ")


def test_a_program_of_harnesses_says_nothing_at_its_end(tmp_path: Path) -> None:
    said = said_at_the_end(
        tmp_path,
        "from flinkray.testing import OneInputHarness",
        "with OneInputHarness.of(lambda numbers: numbers.map(abs)) as harness:",
        "    harness.process(-1)",
    )
    assert said == ""


def test_programs_that_are_run_or_record_nothing_say_nothing() -> None:
    use = ProgramUse()
    assert use.message() is None
    use._has_recorded = True
    assert use.message() is not None
    use.use()
    assert use.message() is None

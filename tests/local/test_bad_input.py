"""Whatever is wrong with a program is said in words that name where it is and what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    Configuration,
    Count,
    DataStream,
    JobExecutionError,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    col,
)
from flinkray.errors import (
    ConfigurationError,
    InvalidProgramError,
    NotSerializableError,
    NullTimestampError,
    TypeMismatchError,
    UnknownColumnError,
    UserFunctionError,
)
from tests.support.jobs import environment


def failure(stream: DataStream) -> JobExecutionError:
    """Runs the job of this stream, and gives its error."""
    with pytest.raises(JobExecutionError) as caught:
        stream.to_arrow()
    return caught.value


def inverse(value: int) -> float:
    return 10 / (value - 5)


def test_a_row_function_that_raises_shows_operator_subtask_value_and_the_users_line() -> None:
    error = failure(environment().from_collection([1, 2, 5, 7]).map(inverse).name("inverse"))
    assert isinstance(error.__cause__, UserFunctionError)
    text = str(error)
    assert "operator 'inverse' (subtask " in text
    assert "the value was 5" in text
    assert "return 10 / (value - 5)" in text
    assert "ZeroDivisionError" in text
    assert "stream_task.py" not in text, "the runtime's own frames hide the user's line"


def test_a_fused_function_that_raises_is_named_and_not_its_neighbours() -> None:
    numbers = environment().from_collection([1, 2, 5, 7])
    error = failure(numbers.map(lambda x: x).name("before").map(inverse).name("inverse").map(lambda x: x).name("after"))
    assert "operator 'inverse'" in str(error)


def test_a_value_that_does_not_fit_the_declared_type_names_value_type_and_argument() -> None:
    stream = environment().from_collection([1, 2, 3]).map(lambda x: "three" if x == 3 else x, output_type=pa.int64())
    error = failure(stream.name("typed"))
    assert isinstance(error.__cause__, TypeMismatchError)
    assert "operator 'typed'" in str(error)
    assert "'three'" in str(error)
    assert "int64" in str(error)
    assert "output_type=" in str(error)


def test_a_value_that_does_not_fit_the_type_of_earlier_rows_says_so() -> None:
    numbers = environment({"flinkray.batch.target-rows": 1}, parallelism=1).from_collection([1, 2, 3])
    error = failure(numbers.map(lambda x: "three" if x == 3 else x))
    assert "the type of earlier rows" in str(error)


def test_an_unknown_column_in_an_expression_offers_the_nearest() -> None:
    prices = environment().from_arrow(pa.table({"price": [1.0, 2.0], "quantity": [1, 2]}))
    with pytest.raises(
        UnknownColumnError, match=r"no column 'prise'; did you mean 'price'\?; columns: price, quantity"
    ):
        prices.select(double=col("prise") * 2).to_arrow()


def test_an_unknown_column_in_key_by_offers_the_nearest() -> None:
    prices = environment().from_arrow(pa.table({"price": [1.0, 2.0], "quantity": [1, 2]}))
    with pytest.raises(UnknownColumnError, match=r"key_by.*no column 'quantty'; did you mean 'quantity'\?"):
        prices.key_by("quantty")


@pytest.mark.parametrize(
    "use",
    [lambda rows: rows.where(col("prise") > 1), lambda rows: rows.key_by("prise").sum("price")],
    ids=["expression", "key"],
)
def test_an_unknown_column_of_rows_whose_type_shows_only_at_run_time_offers_the_nearest(
    use: Callable[[DataStream], DataStream],
) -> None:
    rows = environment().from_collection([1.0, 2.0]).map(lambda x: {"price": x})
    error = failure(use(rows))
    assert isinstance(error.__cause__, UnknownColumnError)
    assert "no column 'prise'; did you mean 'price'?" in str(error)


def test_a_function_that_cannot_be_pickled_names_operator_and_captured_variable() -> None:
    lock = threading.Lock()
    with pytest.raises(NotSerializableError, match=r"operator 'Map'.*it holds 'lock'.*open"):
        environment().from_collection([1]).map(lambda x: (lock, x)[1])


def test_a_null_timestamp_names_operator_column_and_row() -> None:
    rows = environment(parallelism=1).from_arrow(pa.table({"time": [1, None]}))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
    error = failure(rows.assign_timestamps_and_watermarks(strategy))
    assert isinstance(error.__cause__, NullTimestampError)
    assert "column 'time'" in str(error)
    assert "row 1" in str(error)


def test_a_window_without_event_time_says_how_to_assign_it() -> None:
    rows = environment().from_collection([{"key": 1}]).key_by("key")
    error = failure(rows.window(TumblingEventTimeWindows.of("1 s")).aggregate(rows=Count()))
    assert "assign_timestamps_and_watermarks" in str(error)


@pytest.mark.parametrize("parallelism", [0, -1])
def test_a_parallelism_below_one_is_refused_where_it_is_set(parallelism: int) -> None:
    with pytest.raises(InvalidProgramError, match=f"between 1 and 32768, got {parallelism}"):
        environment().set_parallelism(parallelism)
    with pytest.raises(InvalidProgramError, match=f"operator 'Map': .*got {parallelism}"):
        environment().from_collection([1]).map(lambda x: x).set_parallelism(parallelism)


def program_with_one_uid_twice() -> StreamExecutionEnvironment:
    env = environment()
    first = env.from_collection([1]).map(lambda x: x).name("first").uid("same")
    first.map(lambda x: x).name("second").uid("same").print()
    return env


def program_without_sink() -> StreamExecutionEnvironment:
    env = environment()
    env.from_collection([1]).map(lambda x: x)
    return env


def program_with_forward_between_different_parallelisms() -> StreamExecutionEnvironment:
    env = environment()
    one = env.from_collection([1]).map(lambda x: x).name("one").set_parallelism(1)
    one.forward().map(lambda x: x).name("two").set_parallelism(2).print()
    return env


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (program_with_one_uid_twice, "operators 'first' and 'second' have the same uid 'same'"),
        (program_without_sink, "nothing to execute.*sink_to"),
        (environment, "nothing to execute.*add a source"),
        (program_with_forward_between_different_parallelisms, "forward from 'one'.*to 'two'.*rebalance"),
    ],
)
def test_a_program_that_cannot_be_compiled_says_why(program: Callable[[], Any], words: str) -> None:
    with pytest.raises(InvalidProgramError, match=words):
        program().execute()


def test_a_cycle_names_its_operators() -> None:
    env = environment()
    first = env.from_collection([1]).map(lambda x: x).name("first")
    second = first.map(lambda x: x).name("second")
    second.print()
    # The API offers no way to close a loop; a program that edits the transformations can.
    first._transformation.input_transformations = (second._transformation,)
    with pytest.raises(InvalidProgramError, match=r"cycle.*(first|second)"):
        env.execute()


def test_an_unknown_option_offers_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option 'paralelism.default'; did you mean"):
        Configuration({"paralelism.default": 1})


def test_a_value_that_an_option_does_not_take_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'parallelism.default' must be at least 1, got 0"):
        Configuration({"parallelism.default": 0})

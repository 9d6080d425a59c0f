"""What people try first and get wrong is answered with what to write instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    Configuration,
    Count,
    DataStream,
    InvalidProgramError,
    JobExecutionError,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    col,
)
from flinkray.connectors.discard.sink import DiscardSink
from flinkray.progress import ProgramUse
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


def test_a_program_that_is_recorded_and_never_run_says_so_at_its_end(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from flinkray import StreamExecutionEnvironment\n"
        "StreamExecutionEnvironment.get_execution_environment().from_collection([1]).print()\n"
    )
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr.startswith("flinkray: nothing ran: ")


def test_programs_that_are_run_or_record_nothing_say_nothing() -> None:
    use = ProgramUse()
    assert use.message() is None
    use._has_recorded = True
    assert use.message() is not None
    use.use()
    assert use.message() is None

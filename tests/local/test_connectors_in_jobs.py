"""Connectors and results in whole jobs, run in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    Count,
    DataGenSource,
    FileSink,
    FileSource,
    JobExecutionError,
    OutputTag,
    RandomField,
    SequenceField,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    UserFunctionError,
    WatermarkStrategy,
    col,
)
from flinkray.connectors.files.known_formats import FORMATS

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


@pytest.mark.parametrize("format", sorted(set(FORMATS) - {"text"}))
def test_files_written_by_one_job_are_read_by_the_next(
    env: StreamExecutionEnvironment, tmp_path: Path, format: str
) -> None:
    rows = DataGenSource({"n": SequenceField(), "word": RandomField(length=8)}, rows=10_000)
    env.from_source(rows, NO_WATERMARKS, "rows").sink_to(FileSink(tmp_path, format))
    env.execute()
    assert {path.suffix for path in tmp_path.iterdir()} == {f".{format}"}
    read = env.from_source(FileSource(tmp_path), NO_WATERMARKS, "files").to_arrow()
    written = env.from_source(rows, NO_WATERMARKS, "rows").to_arrow()
    assert read.sort_by("n").equals(written.sort_by("n"))


def test_a_failed_subtask_leaves_no_file(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    def fails(value: int) -> int:
        return 1 // (value - 900)

    env.set_parallelism(1).from_sequence(0, 1000).map(fails).sink_to(FileSink(tmp_path, "csv"))
    with pytest.raises(JobExecutionError, match="ZeroDivisionError") as caught:
        env.execute()
    assert isinstance(caught.value.__cause__, UserFunctionError)
    assert list(tmp_path.iterdir()) == []


def test_a_generator_function_streams_until_nobody_wants_more(env: StreamExecutionEnvironment) -> None:
    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    assert sorted(env.add_source(endless).set_parallelism(1).map(str).execute_and_collect(limit=3)) != []


def test_the_error_of_a_generator_function_shows_its_line(env: StreamExecutionEnvironment) -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise LookupError("no such exchange")

    with pytest.raises(JobExecutionError, match="no such exchange") as caught:
        list(env.add_source(fails).execute_and_collect())
    assert 'raise LookupError("no such exchange")' in str(caught.value)


def test_windows_of_a_table_with_late_rows_aside(env: StreamExecutionEnvironment) -> None:
    late = OutputTag("late")
    table = pa.table({"key": ["a", "b"] * 3, "at": [0, 1_000, 12_000, 13_000, 30_000, 31_000], "v": [1, 2, 3, 4, 5, 6]})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    rows = env.from_arrow(table, strategy)
    windows = rows.key_by("key").window(TumblingEventTimeWindows.of("10 s")).side_output_late_data(late)
    sums = windows.aggregate(n=Count(), total=Sum("v")).select("key", "window_start", "n", "total").to_arrow()
    expected = [(k, at // 10_000 * 10_000, 1, v) for k, at, v in zip(*table.to_pydict().values(), strict=True)]
    assert sorted(tuple(row.values()) for row in sums.to_pylist()) == sorted(expected)


def test_streams_stay_usable_for_several_jobs(env: StreamExecutionEnvironment) -> None:
    even = env.from_sequence(1, 10).where(col("value") % 2 == 0)
    assert sorted(even.execute_and_collect()) == [2, 4, 6, 8, 10]
    assert even.to_pandas()["value"].sum() == 30
    assert sorted(even.map(lambda value: value + 1).execute_and_collect()) == [3, 5, 7, 9, 11]


def test_the_plan_of_a_program_is_text(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(0, 1).rebalance().map(str).print()
    plans: list[Any] = [env.get_execution_plan(graph) for graph in ("stream", "job", "execution")]
    assert all("Map" in plan for plan in plans)
    assert env.get_execution_plan("job", "mermaid").startswith("flowchart")


def test_the_cluster_of_a_job_that_fails_while_its_rows_are_read_has_ended_when_the_error_comes(
    env: StreamExecutionEnvironment,
) -> None:
    before = set(threading.enumerate())
    rows = env.from_sequence(0, 9).map(lambda value: 1 // (5 - value)).execute_and_collect()
    with pytest.raises(JobExecutionError):
        list(rows)
    assert [thread.name for thread in set(threading.enumerate()) - before] == []
    assert list(rows) == []

"""Staged streams in whole jobs with checkpoints: each row is committed once, and what is covered is removed."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from actors.spark.staged_source import StagedSource
from flinkray import FileSink, JobExecutionError, RestartStrategies, StreamExecutionEnvironment, WatermarkStrategy
from flinkray.types.records import Kind, RecordType
from tests.support.staged_streams import SCHEMA, Stage, clean_up
from tests.support.waiting import eventually

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
DEADLINE = 60.0


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(str(tmp_path / "staging"))


@pytest.fixture
def env(tmp_path: Path) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "local",
            "parallelism.default": 2,
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        }
    )
    env.enable_checkpointing("50 ms")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10))
    return env


def committed(directory: Path) -> list[int]:
    return sorted(value for path in directory.glob("*.parquet") for value in pq.read_table(path)["n"].to_pylist())


def source_of(stage: Stage) -> StagedSource:
    return StagedSource(stage.staging, RecordType(Kind.ROW, SCHEMA), ends_with_query=True)


def test_rows_are_committed_once_though_the_job_fails_in_between(
    env: StreamExecutionEnvironment, stage: Stage, tmp_path: Path
) -> None:
    has_failed = tmp_path / "failed"

    def fails_once(row: dict[str, int]) -> dict[str, int]:
        if row["n"] == 5_000 and not has_failed.exists():
            has_failed.touch()
            raise RuntimeError("once")
        return {"n": row["n"]}

    stream = env.from_source(source_of(stage), NO_WATERMARKS, "staged")
    stream.map(fails_once, output_type=SCHEMA).sink_to(FileSink(tmp_path / "out"))
    for _ in range(4):
        stage.add([500, 500], [300])
    with closing(env.execute_async()) as job:
        # Some of it is committed, and removed, before the failure.
        eventually(stage.files, lambda files: len(files) < 8, DEADLINE)
        for _ in range(12):
            stage.add([500], [100, 100])
            clean_up(stage)
        stage.end()
        job.result(DEADLINE)
    assert has_failed.exists()
    assert committed(tmp_path / "out") == stage.staged


def test_while_a_job_runs_what_is_covered_is_removed(
    env: StreamExecutionEnvironment, stage: Stage, tmp_path: Path
) -> None:
    env.from_source(source_of(stage), NO_WATERMARKS, "staged").sink_to(FileSink(tmp_path / "out"))
    with closing(env.execute_async()) as job:
        for _ in range(5):
            stage.add([100], [100])
            eventually(stage.files, lambda files: not files, DEADLINE)
        stage.add([1])

        def left() -> list[int]:
            clean_up(stage)
            return stage.staging.batch_ids()

        # Spark may repeat the current batch; all before it are gone.
        eventually(left, lambda ids: ids == [5], DEADLINE)
        stage.end()
        job.result(DEADLINE)
    assert committed(tmp_path / "out") == stage.staged


def test_a_query_that_fails_fails_the_job_in_the_end(env: StreamExecutionEnvironment, stage: Stage) -> None:
    stage.add([1])
    stage.end("no such table")
    env.from_source(source_of(stage), NO_WATERMARKS, "staged").print()
    with pytest.raises(JobExecutionError, match=r"the Spark query that feeds .* failed: no such table"):
        env.execute()


def test_no_thread_is_left_when_the_job_is_cancelled(env: StreamExecutionEnvironment, stage: Stage) -> None:
    before = set(threading.enumerate())
    stage.add([10])
    env.from_source(source_of(stage), NO_WATERMARKS, "staged").print()
    with closing(env.execute_async()) as job:
        eventually(stage.files, lambda files: not files, DEADLINE)
        job.cancel()
    left = [each for each in set(threading.enumerate()) - before if "staged" in each.name]
    for thread in left:
        thread.join(DEADLINE)
    assert not [thread for thread in left if thread.is_alive()]


def test_a_job_goes_on_from_its_savepoint_with_the_next_row(
    env: StreamExecutionEnvironment, stage: Stage, tmp_path: Path
) -> None:
    env.from_source(source_of(stage), NO_WATERMARKS, "staged").uid("staged").sink_to(FileSink(tmp_path / "out"))
    stage.add([100], [50, 50])
    with closing(env.execute_async()) as job:
        eventually(stage.files, lambda files: not files, DEADLINE)
        stage.add([100])
        saved = job.stop_with_savepoint(str(tmp_path / "savepoints"), timeout=DEADLINE)
    for _ in range(5):
        stage.add([100], [100, 100])
    stage.end()
    env.configure({"execution.state-recovery.path": saved})
    env.from_source(source_of(stage), NO_WATERMARKS, "staged").uid("staged").sink_to(FileSink(tmp_path / "out"))
    env.execute()
    assert committed(tmp_path / "out") == stage.staged


def test_a_savepoint_in_between_removes_nothing_that_a_failure_needs(
    env: StreamExecutionEnvironment, stage: Stage, tmp_path: Path
) -> None:
    fails = tmp_path / "fails"

    def fails_once(row: dict[str, int]) -> dict[str, int]:
        if row["n"] == 300 and fails.exists():
            fails.unlink()
            raise RuntimeError("once")
        return {"n": row["n"]}

    env.enable_checkpointing("1 h")
    stream = env.from_source(source_of(stage), NO_WATERMARKS, "staged")
    stream.map(fails_once, output_type=SCHEMA).sink_to(FileSink(tmp_path / "out"))
    stage.add([100], [100])
    with closing(env.execute_async()) as job:
        eventually(stage.staging.progress, lambda found: found is not None and found.handed_out_below == 1, DEADLINE)
        job.trigger_savepoint(str(tmp_path / "savepoints"), timeout=DEADLINE)
        fails.touch()
        stage.add([200])
        stage.end()
        job.result(DEADLINE)
    assert not fails.exists()
    assert committed(tmp_path / "out") == stage.staged


def test_a_job_that_has_ended_leaves_the_next_one_only_what_is_new(
    env: StreamExecutionEnvironment, stage: Stage, tmp_path: Path
) -> None:
    for _ in range(3):
        stage.add([100, 50], [100])
        stage.end()
        stream = env.from_source(source_of(stage), NO_WATERMARKS, "staged")
        stream.sink_to(FileSink(tmp_path / "out"))
        env.execute()
        assert committed(tmp_path / "out") == stage.staged
        eventually(stage.files, lambda files: not files, DEADLINE)

"""Structured Streaming into jobs: each row of each micro-batch exactly once, whichever side is restarted."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from actors.spark.staging import Staging
from actors.spark.stream import stop_streams
from flinkray import (
    FileSink,
    InvalidProgramError,
    JobClient,
    JobExecutionError,
    RestartStrategies,
    SparkSource,
    SparkStreamSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.spark import init_spark, stage_stream, stop_spark
from flinkray.windows.aggregates import Count
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated"),  # PySpark 3.5's own
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas >= 3"),  # of which flinkray uses none
    pytest.mark.filterwarnings("ignore:.*socket:ResourceWarning"),  # py4j leaves its sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # ... which finds them
]

AVAILABLE_NOW = {"availableNow": True}


@pytest.fixture(scope="module", params=["plain", pytest.param("ray", marks=pytest.mark.ray)])
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """One session per kind for the whole module; the JVM of one has ended before the next starts."""
    on_ray = request.param == "ray"
    if on_ray:
        request.getfixturevalue("ray_cluster")
    # Few shuffle partitions, and no wait for locality.
    configs = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "America/New_York"}
    yield init_spark("stream", on_ray=on_ray, configs=configs if on_ray else {**configs, "spark.master": "local[2]"})
    stop_spark()


@pytest.fixture(autouse=True)
def _no_query_is_left(spark: SparkSession) -> Iterator[None]:
    yield
    stop_streams()
    assert spark.streams.active == []


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment({"execution.target": "local", "parallelism.default": 2})


class Input:
    """A directory of Parquet files that a query reads, one file per micro-batch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        self.rows = 0
        self._files = 0
        self._first_time = int(time.time()) - 3_600
        directory.mkdir()

    def add(self, rows: int, files: int = 1) -> None:
        for _ in range(files):
            numbers = range(self.rows, self.rows + rows)
            self.rows += rows
            times = pa.array(
                [1_700_000_000_000_000 + number * 1_000_000 for number in numbers], pa.timestamp("us", "UTC")
            )
            table = pa.table({"n": pa.array(numbers, pa.int64()), "time": times})
            aside = self._directory / f".{self._files}"
            pq.write_table(table, aside)
            # Spark takes them in the order of their times, of which it sees milliseconds.
            os.utime(aside, times=(0, self._first_time + self._files))
            aside.rename(self._directory / f"{self._files:04d}.parquet")
            self._files += 1

    def frame(self) -> DataFrame:
        return (
            self._spark.readStream.schema("n long, time timestamp")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._directory))
        )


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Input:
    return Input(spark, tmp_path / "input")


def staged_rows(directory: Path) -> list[int]:
    """All that is staged and not removed."""
    staging = Staging(str(directory))
    found: list[int] = []
    for batch_id in staging.batch_ids():
        manifest = staging.manifest(batch_id)
        if manifest is None:  # removed since it was listed
            continue
        present = staging.present_files(batch_id)
        for file in (each for each in manifest.files if each.name in present):
            for batch in staging.read_file(batch_id, file, 0):
                found += batch.column("n").to_pylist()
    return sorted(found)


def test_every_row_of_every_batch_is_read_once(
    spark: SparkSession, env: StreamExecutionEnvironment, numbers: Input, tmp_path: Path
) -> None:
    if str(spark.sparkContext.master).startswith("ray://"):
        env.configure({"execution.target": "ray"})
    numbers.add(700, files=5)
    frame = numbers.frame().repartition(3).withColumn("double", F.col("n") * 2)
    stream = env.from_spark_stream(frame, str(tmp_path / "staging"), trigger=AVAILABLE_NOW, ends_with_query=True)
    table = stream.to_arrow().sort_by("n")
    assert table["n"].to_pylist() == list(range(3500))
    assert table["double"].to_pylist() == list(range(0, 7000, 2))
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")


def test_columns_may_have_any_names(env: StreamExecutionEnvironment, numbers: Input, tmp_path: Path) -> None:
    numbers.add(2)
    named = numbers.frame().selectExpr("n", "n + 1", "n + 2", "n + 3").toDF("a.b", "*", "x", "X")
    stream = env.from_spark_stream(named, str(tmp_path / "staged"), trigger=AVAILABLE_NOW, ends_with_query=True)
    found = sorted(tuple(row) for row in stream.execute_and_collect())
    assert found == [(0, 1, 2, 3), (1, 2, 3, 4)]


def test_event_time_is_a_column_as_for_other_sources(
    env: StreamExecutionEnvironment, numbers: Input, tmp_path: Path
) -> None:
    numbers.add(600, files=3)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
    stream = env.set_parallelism(1).from_spark_stream(
        numbers.frame(), str(tmp_path / "staging"), strategy, trigger=AVAILABLE_NOW, ends_with_query=True
    )
    one_key = stream.map(lambda _row: {"key": 0}, output_type=pa.schema([("key", pa.int64())])).key_by("key")
    counted = one_key.window(TumblingEventTimeWindows.of(60_000)).aggregate(rows=Count()).to_arrow()
    expected = Counter((1_700_000_000 + number) // 60 * 60_000 for number in range(1800))
    assert dict(zip(counted["window_start"].to_pylist(), counted["rows"].to_pylist(), strict=True)) == expected


def test_a_query_that_is_started_again_stages_only_what_is_new(numbers: Input, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    numbers.add(10, files=2)
    assert stage_stream(numbers.frame(), str(staging), trigger=AVAILABLE_NOW).awaitTermination(120)
    assert staged_rows(staging) == list(range(20))
    numbers.add(10)
    assert stage_stream(numbers.frame(), str(staging), trigger=AVAILABLE_NOW).awaitTermination(120)
    assert staged_rows(staging) == list(range(30))


def test_a_batch_that_spark_repeats_is_staged_once(numbers: Input, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    numbers.add(10, files=3)
    assert stage_stream(numbers.frame(), str(staging), trigger=AVAILABLE_NOW).awaitTermination(120)
    # As if the driver had died between the batch and its commit.
    for name in ("2", ".2.crc"):
        (staging / "spark-checkpoint" / "commits" / name).unlink()
    numbers.add(10)
    repeated = stage_stream(numbers.frame(), str(staging), trigger=AVAILABLE_NOW)
    assert repeated.awaitTermination(120)
    assert repeated.recentProgress[0]["batchId"] == 2
    assert staged_rows(staging) == list(range(40))


def test_a_query_waits_while_nobody_reads_and_can_be_stopped(numbers: Input, tmp_path: Path) -> None:
    numbers.add(1, files=6)
    query = stage_stream(numbers.frame(), str(tmp_path / "staging"), max_unread_batches=2)
    staging = Staging(str(tmp_path / "staging"))
    eventually(staging.batch_ids, lambda ids: len(ids) == 3)
    query.stop()
    assert not query.isActive
    assert query.exception() is None
    assert eventually(staging.end).error is None  # type: ignore[union-attr]
    assert staging.batch_ids() == [0, 1, 2]


def test_a_running_query_is_replaced_by_one_on_the_same_directory(numbers: Input, tmp_path: Path) -> None:
    first = stage_stream(numbers.frame(), str(tmp_path / "staging"))
    second = stage_stream(numbers.frame(), str(tmp_path / "staging"))
    assert (first.isActive, second.isActive, first.id) == (False, True, second.id)


def test_what_fails_in_the_query_fails_the_job(env: StreamExecutionEnvironment, numbers: Input, tmp_path: Path) -> None:
    numbers.add(10)
    frame = numbers.frame().select(F.expr("if(n = 7, raise_error('seven is bad'), n)").alias("n"))
    stream = env.from_spark_stream(frame, str(tmp_path / "staging"), trigger=AVAILABLE_NOW)
    with pytest.raises(
        JobExecutionError, match=r"the Spark query that feeds .* failed: [\s\S]*(: |\] )seven is bad"
    ) as caught:
        stream.to_arrow()
    assert "\tat org.apache.spark" not in str(caught.value)


def test_another_query_on_the_same_directory_is_refused(
    env: StreamExecutionEnvironment, numbers: Input, tmp_path: Path
) -> None:
    numbers.add(10)
    staging = str(tmp_path / "staging")
    assert stage_stream(numbers.frame(), staging, trigger=AVAILABLE_NOW).awaitTermination(120)
    stream = env.from_spark_stream(
        numbers.frame(), staging, checkpoint_location=str(tmp_path / "other"), trigger=AVAILABLE_NOW
    )
    with pytest.raises(JobExecutionError, match="belong together"):
        stream.to_arrow()


def test_which_dataframes_stream_is_checked_when_the_source_is_made(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match="from_spark takes any other"):
        SparkStreamSource(spark.range(3), str(tmp_path))
    streaming: Any = spark.readStream.format("rate").load()
    with pytest.raises(InvalidProgramError, match="from_spark_stream takes a streaming one"):
        SparkSource(streaming)


def committed(directory: Path) -> list[int]:
    return sorted(value for path in directory.glob("*.parquet") for value in pq.read_table(path)["n"].to_pylist())


def test_rows_are_committed_once_though_job_and_query_fail_and_are_started_again(
    env: StreamExecutionEnvironment, numbers: Input, tmp_path: Path
) -> None:
    has_failed = tmp_path / "failed"

    def fails_once(row: Any) -> dict[str, int]:
        if row["n"] == 250 and not has_failed.exists():
            has_failed.touch()
            raise RuntimeError("once")
        return {"n": row["n"]}

    staging = str(tmp_path / "staging")
    schema = pa.schema([("n", pa.int64())])

    def program() -> JobClient:
        env.enable_checkpointing("100 ms")
        env.configure({"execution.checkpointing.dir": str(tmp_path / "checkpoints")})
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10))
        stream = env.from_spark_stream(numbers.frame(), staging, query_name="numbers")
        stream.uid("numbers").map(fails_once, output_type=schema).sink_to(FileSink(tmp_path / "out"))
        return env.execute_async()

    numbers.add(100, files=4)
    with closing(program()) as job:
        eventually(lambda: committed(tmp_path / "out"), lambda rows: rows == list(range(400)), 120)
        assert has_failed.exists()
        # The query alone is started again, as a new driver would.
        stop_streams()
        numbers.add(100)
        stage_stream(numbers.frame(), staging)
        eventually(lambda: committed(tmp_path / "out"), lambda rows: rows == list(range(500)), 120)
        saved = job.stop_with_savepoint(str(tmp_path / "savepoints"), timeout=60)
    # Both are started again; the query had staged something of which the job knows nothing.
    numbers.add(100)
    eventually(lambda: len(staged_rows(tmp_path / "staging")), lambda rows: rows == 100, 60)
    stop_streams()
    numbers.add(100)
    env.configure({"execution.state-recovery.path": saved})
    with closing(program()) as job:
        eventually(lambda: committed(tmp_path / "out"), lambda rows: rows == list(range(700)), 120)
        job.stop_with_savepoint(str(tmp_path / "savepoints"), timeout=60)

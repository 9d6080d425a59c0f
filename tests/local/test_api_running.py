"""Running a program: accumulators, cached files, listeners, clients, and getting results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flinkray import (
    DiscardSink,
    JobCanceledError,
    JobClient,
    JobExecutionError,
    JobExecutionResult,
    JobListener,
    JobStatus,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    col,
)
from flinkray.testing import run_locally
from tests.support.jobs import environment
from tests.support.waiting import eventually
from tests.support.whole_jobs import cities, rows

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
    assert cities(env).to_arrow().sort_by("high").column_names == ["city", "high", "low"]
    empty = cities(env).where(col("high") > 100).select("high").to_arrow()
    assert (empty.num_rows, empty.column_names) == (0, ["high"])


def test_to_pandas_gives_a_frame_also_of_objects(env: StreamExecutionEnvironment) -> None:
    assert cities(env).to_pandas().sort_values("high").low.tolist() == [-2, 7, 19]
    assert env.from_collection([1 + 2j, {3}]).to_pandas()["value"].tolist() == [1 + 2j, {3}]

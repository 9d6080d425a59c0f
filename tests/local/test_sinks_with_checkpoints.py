"""Sinks of whole jobs that fail, are stopped and go on: every row is in them exactly once."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.blocks.sink import BlockSink, checkpoints, committed
from actors.spark.spill import SpillBlockStore
from flinkray import (
    CheckpointedFunction,
    CollectSink,
    CommittableWithLineage,
    DataGenSource,
    DataStream,
    FileSink,
    JobClient,
    JobStatus,
    ListStateDescriptor,
    MapFunction,
    PartitionCommit,
    RestartStrategies,
    SequenceField,
    Sink,
    SinkFunction,
    StreamExecutionEnvironment,
    SupportsPostCommitTopology,
    Types,
    WatermarkStrategy,
)
from flinkray.batches.row_codec import decode
from flinkray.connectors.files.writing.commits import FileCommittable
from flinkray.functions.interfaces import FunctionInitializationContext, FunctionSnapshotContext
from tests.support.waiting import eventually

Env = StreamExecutionEnvironment
ROWS = 2_000


class FailsAt(MapFunction):
    """Raises at each of these rows, the first time that it sees one."""

    def __init__(self, directory: Path, rows: tuple[int, ...]) -> None:
        self.directory = directory
        self.rows = rows

    def map(self, value: Any) -> int:
        if value.n in self.rows:
            marker = self.directory / f"failed-{value.n}"
            if not marker.exists():
                marker.touch()
                raise ValueError(f"row {value.n} is bad, this once")
        return int(value.n)


def local(parallelism: int, **options: object) -> Env:
    settings = {"execution.target": "local", "flinkray.batch.target-rows": 20, **options}
    env = Env.get_execution_environment(settings).set_parallelism(parallelism)
    env.enable_checkpointing("50 ms")
    return env.set_restart_strategy(RestartStrategies.fixed_delay_restart(20, "10 ms"))


def numbers(env: Env, rows: int | None = ROWS, rate: float = 2_000) -> DataStream:
    source = DataGenSource({"n": SequenceField()}, rows=rows, rows_per_second=rate)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


def failing(env: Env, directory: Path, rows: tuple[int, ...] = (300, 301, 900, 1_400, 1_999)) -> DataStream:
    return numbers(env).map(FailsAt(directory, rows)).uid("failing")


def lines(directory: Path) -> list[int]:
    """The rows of the files that are visible."""
    return sorted(int(line) for path in directory.glob("part-*") for line in path.read_text().splitlines())


def collected(client: JobClient, name: str = "rows") -> list[Any]:
    return [value for batch in client.collected(name) for value in decode(batch)]


@pytest.mark.parametrize("strategy", ["region", "full"])
@pytest.mark.parametrize("shuffles", [False, True])
def test_files_have_every_row_once_though_tasks_fail(tmp_path: Path, strategy: str, shuffles: bool) -> None:
    env = local(2, **{"jobmanager.execution.failover-strategy": strategy})
    rows = failing(env, tmp_path)
    (rows.rebalance() if shuffles else rows).sink_to(FileSink(tmp_path / "out", "text"))
    env.execute()
    assert lines(tmp_path / "out") == list(range(ROWS))
    assert not list((tmp_path / "out").glob(".*.inprogress"))
    assert len(list(tmp_path.glob("failed-*"))) == 5


def test_no_row_can_be_seen_twice_while_the_job_runs_and_fails(tmp_path: Path) -> None:
    env = local(2)
    failing(env, tmp_path).sink_to(FileSink(tmp_path / "out", "text"))
    client = env.execute_async()
    seen: list[int] = []

    def look() -> JobStatus:
        nonlocal seen
        found = lines(tmp_path / "out")
        assert max(Counter(found).values(), default=1) == 1
        assert Counter(found) >= Counter(seen), "what was committed stays"
        seen = found
        return client.status()

    try:
        eventually(look, lambda status: status is JobStatus.FINISHED)
    finally:
        client.close()
    assert lines(tmp_path / "out") == list(range(ROWS))


def test_the_driver_gets_every_row_once_though_tasks_fail(tmp_path: Path) -> None:
    env = local(2)
    failing(env, tmp_path).rebalance().sink_to(CollectSink("rows"))
    client = env.execute_async()
    try:
        assert sorted(collected(client)) == list(range(ROWS))
    finally:
        client.close()


def test_a_collecting_job_that_was_stopped_goes_on_at_another_parallelism(tmp_path: Path) -> None:
    """The second driver has what the first had not taken when the savepoint began, and all after it."""
    env = local(2)
    numbers(env, rate=250).rebalance().sink_to(CollectSink("rows")).uid("rows")  # far from its end when it is stopped
    client = env.execute_async()
    first: list[int] = []
    reader = threading.Thread(target=lambda: first.extend(row.n for row in collected(client)), daemon=True)
    try:
        reader.start()
        eventually(client.progress, lambda progress: progress.records_out > 100)
        saved = client.stop_with_savepoint(str(tmp_path), timeout=30)
        reader.join(30)
    finally:
        client.close()
    env = local(3, **{"execution.state-recovery.path": saved})
    numbers(env, rate=1_000_000).rebalance().sink_to(CollectSink("rows")).uid("rows")
    client = env.execute_async()
    try:
        second = [row.n for row in collected(client)]
    finally:
        client.close()
    assert max(Counter(first).values()) == max(Counter(second).values()) == 1
    assert set(first) | set(second) == set(range(ROWS))
    assert 0 < len(second) < ROWS


def rows_of(store: Any) -> list[int]:
    blocks = [block for committable in committed(store) for block in committable.blocks]
    return sorted(value for block in blocks for value in store.get(block.block_id).column(0).to_pylist())


@pytest.mark.parametrize("shuffles", [False, True])
def test_blocks_count_once_though_tasks_fail(tmp_path: Path, shuffles: bool) -> None:
    store = SpillBlockStore.create(str(tmp_path / "blocks"))
    env = local(2)
    rows = failing(env, tmp_path)
    (rows.rebalance() if shuffles else rows).sink_to(BlockSink(store))
    env.execute()
    assert rows_of(store) == list(range(ROWS))
    assert {each.key for each in committed(store)} <= checkpoints(store).keys(), "the last ones by the last checkpoint"
    store.close()


class CommitsOnce(FileSink):
    """A FileSink whose first commits fail after they were done, as if the answer had been lost."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "out", "text")
        self.marks = directory

    def create_committer(self) -> Any:
        committer: Any = super().create_committer()
        commit = committer.commit

        def commit_and_fail(committables: Any) -> None:
            commit(committables)
            for number in range(3):
                marker = self.marks / f"lost-{number}"
                if not marker.exists():
                    marker.touch()
                    raise OSError("the answer was lost")

        committer.commit = commit_and_fail
        return committer


def test_a_commit_whose_task_dies_after_it_is_done_again_in_vain(tmp_path: Path) -> None:
    env = local(2)
    numbers(env).map(lambda row: row.n).sink_to(CommitsOnce(tmp_path))
    env.execute()
    assert lines(tmp_path / "out") == list(range(ROWS))
    assert len(list(tmp_path.glob("lost-*"))) == 3


def test_a_bounded_job_that_ends_before_its_first_checkpoint_commits_with_its_last(tmp_path: Path) -> None:
    env = local(2)
    env.enable_checkpointing("1 h")
    numbers(env, rows=100, rate=1_000_000).map(lambda row: row.n).sink_to(FileSink(tmp_path / "out", "text"))
    env.execute()
    assert lines(tmp_path / "out") == list(range(100))


def test_subtasks_that_end_long_before_others_lose_nothing_when_those_fail(tmp_path: Path) -> None:
    """Two sources of different lengths into one sink each: the short one has finished when the long one fails."""
    env = local(2)
    sinks: list[Sink] = [FileSink(tmp_path / "short", "text"), FileSink(tmp_path / "long", "text")]
    numbers(env, rows=50, rate=1_000_000).map(lambda row: row.n).sink_to(sinks[0])
    slow = DataGenSource({"n": SequenceField()}, rows=ROWS, rows_per_second=2_000)
    stream = env.from_source(slow, WatermarkStrategy.no_watermarks(), "slow")
    stream.map(FailsAt(tmp_path, (1_000, 1_500))).union(env.from_collection([-1, -2]).map(int)).sink_to(sinks[1])
    env.execute()
    assert lines(tmp_path / "short") == list(range(50))
    assert lines(tmp_path / "long") == list(range(-2, ROWS))


class Appending(SinkFunction):
    def __init__(self, path: Path) -> None:
        self.path = path

    def invoke(self, value: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{value}\n")


def test_a_sink_function_has_every_row_at_least_once(tmp_path: Path) -> None:
    env = local(1)
    failing(env, tmp_path).add_sink(Appending(tmp_path / "part-0"))
    env.execute()
    assert sorted(set(lines(tmp_path))) == list(range(ROWS))


class Buffering(Appending, CheckpointedFunction):
    """Flink's example of a stateful sink: writes when it has fifty."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_list_state(ListStateDescriptor("buffered"))
        self.buffered = list(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.buffered)

    def invoke(self, value: Any) -> None:
        self.buffered.append(value)
        if len(self.buffered) == 50:
            for each in self.buffered:
                super().invoke(each)
            self.buffered.clear()


def test_what_a_sink_function_keeps_in_its_state_is_not_lost(tmp_path: Path) -> None:
    env = local(1)
    failing(env, tmp_path, (301, 902, 1_403)).add_sink(Buffering(tmp_path / "part-0"))
    env.execute()
    assert sorted(set(lines(tmp_path))) == list(range(ROWS))


class ListedFiles(FileSink, SupportsPostCommitTopology):
    """Writes the names of its files into further files."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        super().__init__(directory / "rows", **settings)
        self.listed = directory / "listed"

    def add_post_commit_topology(self, committables: DataStream) -> None:
        committed = committables.filter(lambda each: isinstance(each, CommittableWithLineage)).map(
            lambda each: each.committable, Types.PICKLED_BYTE_ARRAY()
        )
        names = committed.filter(lambda each: isinstance(each, FileCommittable)).map(lambda each: Path(each.final).name)
        names.sink_to(FileSink(self.listed, "text"))


@pytest.mark.parametrize("settings", [{}, {"partition_by": ["k"], "partition_commit": PartitionCommit()}])
@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_a_sink_with_an_end_goes_on_with_all_that_it_has_committed(
    mode: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Also where no checkpoint is due before the end, and another follows what is committed then."""
    options: dict[str, Any] = {"execution.target": "local", "parallelism.default": 2, "execution.runtime-mode": mode}
    if mode == "STREAMING":
        options["execution.checkpointing.interval"] = "1 h"
    env = Env.get_execution_environment(options)
    rows = env.from_sequence(1, 9).map(lambda n: {"n": n, "k": n % 2})
    rows.sink_to(ListedFiles(tmp_path, **settings)).name("files")
    env.execute()
    names = {path.name for path in (tmp_path / "rows").rglob("*.parquet")}
    listed = [line for path in (tmp_path / "listed").iterdir() for line in path.read_text().splitlines()]
    assert names
    assert sorted(listed) == sorted(names)

"""Checkpoints, savepoints and restarts, as programs ask for them: on one machine, to the end."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from actors.client.cli import main
from flinkray import (
    CheckpointedFunction,
    CheckpointError,
    CheckpointingMode,
    CheckpointKind,
    CheckpointOverview,
    CheckpointStatus,
    CollectSink,
    Count,
    DataGenSource,
    DiscardSink,
    EmbeddedRocksDBStateBackend,
    FileSink,
    HashMapStateBackend,
    JobClient,
    JobExecutionError,
    JobStatus,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    ReduceFunction,
    RestartStrategies,
    Row,
    SequenceField,
    Sink,
    SourceContext,
    StateBackend,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flinkray.batches.row_codec import decode
from flinkray.functions.interfaces import FunctionInitializationContext, FunctionSnapshotContext
from tests.support.held_source import HeldSource
from tests.support.waiting import eventually

Env = StreamExecutionEnvironment
ROWS = 3_000
KEYS = 7


def local(**options: object) -> Env:
    settings = {"execution.target": "local", **{key.replace("_", "."): value for key, value in options.items()}}
    return Env.get_execution_environment(settings)


class Numbered(KeyedProcessFunction):
    """(key, how many rows of the key there have been, the row)"""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(key=ctx.get_current_key(), count=count, n=value.n)


def numbers(env: Env, rows: int | None = ROWS, rate: float = 2_000, *, is_stopped: bool = False) -> Any:
    """0, 1, 2 ... slowly.

    Args:
        is_stopped: before its end, which never comes.
    """
    source = DataGenSource({"n": SequenceField()}, rows=rows, rows_per_second=rate)
    if is_stopped:
        source = HeldSource({"n": SequenceField()}, ROWS, rate, ROWS // 2)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


def counting(
    env: Env, rows: int | None = ROWS, rate: float = 2_000, sink: Sink | None = None, *, is_stopped: bool = False
) -> None:
    """Each row with its number within its key, into the sink; exactly once, or a number is missing or twice."""
    type_ = [("key", pa.int64()), ("count", pa.int64()), ("n", pa.int64())]
    keyed = numbers(env, rows, rate, is_stopped=is_stopped).key_by(lambda row: row.n % KEYS)
    counted = keyed.process(Numbered(), output_type=pa.schema(type_)).uid("counted")
    counted.sink_to(sink or CollectSink("rows")).uid("rows")


def check_exactly_once(counted: list[tuple[int, int, int]]) -> None:
    """Every row once, and every number of every key once; which row has which depends on the order of the subtasks."""
    assert sorted(n for _, _, n in counted) == list(range(ROWS))
    assert all(n % KEYS == key for key, _, n in counted)
    numbers = sorted((key, count) for key, count, _ in counted)
    assert numbers == sorted((n % KEYS, n // KEYS + 1) for n in range(ROWS))


def collected(client: JobClient) -> list[Any]:
    return [tuple(row) for batch in client.collected("rows") for row in decode(batch)]


class Reader:
    """Takes the rows while the job runs: with nobody there, sinks wait, and checkpoints with them."""

    def __init__(self, client: JobClient) -> None:
        self._rows: Future[list[Any]] = Future()
        self._thread = threading.Thread(target=self._read, args=(client,), name="reader", daemon=True)
        self._thread.start()

    def _read(self, client: JobClient) -> None:
        try:
            self._rows.set_result(collected(client))
        except JobExecutionError as error:
            self._rows.set_exception(error)

    def rows(self) -> list[Any]:
        """All rows, after the job's end."""
        return self._rows.result(30)


def written(directory: Path) -> list[Any]:
    """The rows in the files that are visible."""
    paths = sorted(directory.glob("part-*"))
    return [tuple(row.values()) for path in paths for row in pq.read_table(path).to_pylist()]


@contextmanager
def started(env: Env, rows: int = 1) -> Iterator[JobClient]:
    """The job, once so many rows have reached its sinks."""
    client = env.execute_async("counting")
    try:
        eventually(client.progress, lambda progress: progress.records_out >= rows)
        yield client
    finally:
        client.close()


@contextmanager
def running(env: Env, rows: int = 1) -> Iterator[tuple[JobClient, Reader]]:
    """Starts the job as `started` does, and reads its rows."""
    client = env.execute_async("counting")
    try:
        reader = Reader(client)
        eventually(client.progress, lambda progress: progress.records_out >= rows)
        yield client, reader
    finally:
        client.close()


def test_a_job_that_was_stopped_goes_on_elsewhere_as_if_it_had_not_been(tmp_path: Path) -> None:
    env = local().set_parallelism(2).set_default_savepoint_directory(tmp_path / "savepoints")
    env.enable_checkpointing("200 ms")
    counting(env, sink=FileSink(tmp_path / "rows"), is_stopped=True)
    with started(env) as client:
        saved = client.stop_with_savepoint(timeout=30)
        assert client.status() is JobStatus.FINISHED
        (entry,) = [each for each in client.checkpoints().history if each.kind is CheckpointKind.STOP]
        assert (entry.status, entry.directory) == (CheckpointStatus.COMPLETED, saved)
        assert client.result(timeout=30).job_name == "counting"
    assert Path(saved).parent == tmp_path / "savepoints"
    assert 0 < len(written(tmp_path / "rows")) < ROWS

    env = local().set_parallelism(3).configure({"execution.state-recovery.path": saved})
    env.enable_checkpointing("200 ms")
    counting(env, rate=1_000_000, sink=FileSink(tmp_path / "rows"))
    client = env.execute_async()
    try:
        client.result(timeout=30)
        restored = client.checkpoints().latest_restored
    finally:
        client.close()
    assert restored is not None
    assert (restored.is_savepoint, restored.directory) == (True, saved)
    check_exactly_once(written(tmp_path / "rows"))


@pytest.mark.parametrize("backend", [HashMapStateBackend(), EmbeddedRocksDBStateBackend()], ids=["hashmap", "rocksdb"])
def test_a_savepoint_leaves_its_job_running_and_starts_another(tmp_path: Path, backend: StateBackend) -> None:
    env = local().set_state_backend(backend)
    counting(env, rows=None)
    with running(env, 50) as (client, _):
        saved = client.trigger_savepoint(str(tmp_path), timeout=30)
        again = client.trigger_savepoint(str(tmp_path), timeout=30)
        assert saved != again
        before = client.progress().records_out
        eventually(client.progress, lambda progress: progress.records_out > before)
        assert client.checkpoints().counts.completed == 2
        client.cancel()

    env = local().set_state_backend(backend).configure({"execution.state-recovery.path": saved})
    counting(env, rows=None)
    client = env.execute_async()
    try:
        key, count, row = decode(next(client.collected("rows")))[0]
        assert row >= 50
        assert (key, count) == (row % KEYS, row // KEYS + 1)
    finally:
        client.close()


class Numbering(MapFunction, CheckpointedFunction):
    """(the row, how many rows this function has seen), in state that has no key."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_list_state(ListStateDescriptor("seen"))
        self.seen = sum(self.state.get())

    def map(self, value: Any) -> Row:
        self.seen += 1
        return Row(n=value.n, seen=self.seen)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.seen])


def test_a_function_finds_its_state_again_where_others_have_come_into_its_chain(tmp_path: Path) -> None:
    def program(env: Env, *others: str) -> None:
        stream = numbers(env, None)
        for name in others:
            stream = stream.map(lambda row: row).name(name).uid(name)
        stream.map(Numbering()).uid("numbering").map(lambda row: row).uid("last").sink_to(CollectSink("rows")).uid(
            "rows"
        )

    env = local()
    program(env)
    with running(env, 50) as (client, _):
        saved = client.trigger_savepoint(str(tmp_path), timeout=30)
        client.cancel()

    env = local().configure({"execution.state-recovery.path": saved})
    program(env, "first", "second")
    client = env.execute_async()
    try:
        number, seen = decode(next(client.collected("rows")))[0]
        assert number >= 50
        assert seen == number + 1
    finally:
        client.close()


@pytest.mark.parametrize("drain", [False, True])
def test_only_a_drained_job_fires_the_windows_that_are_open(tmp_path: Path, drain: bool) -> None:
    env = local()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
    source = DataGenSource({"n": SequenceField()}, rows_per_second=500)
    rows = env.from_source(source, strategy, "numbers").key_by(lambda _: 0)
    windows = rows.window(TumblingEventTimeWindows.of("1 h")).reduce(Larger())
    windows.sink_to(CollectSink("rows"))
    client = env.execute_async()
    try:
        eventually(client.progress, lambda progress: progress.records_in > 5)
        client.stop_with_savepoint(str(tmp_path), drain=drain, timeout=30)
        fired = [row for batch in client.collected("rows") for row in decode(batch)]
        assert len(fired) == (1 if drain else 0)
    finally:
        client.close()


class Larger(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2, key=lambda row: row.n)


def test_a_savepoint_that_cannot_be_says_why_and_the_job_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    env = local().set_restart_strategy(RestartStrategies.no_restart())
    env.enable_checkpointing("10 min")
    counting(env, rows=None, sink=FileSink(tmp_path / "rows"))
    with started(env) as client:
        with pytest.raises(CheckpointError, match=r"execution\.checkpointing\.savepoint-dir"):
            client.trigger_savepoint(timeout=30)
        with pytest.raises(CheckpointError, match=re.escape(str(tmp_path / "file"))):
            client.trigger_savepoint(str(tmp_path / "file"), timeout=30)
        before = client.progress().records_out
        eventually(client.progress, lambda progress: progress.records_out > before)
        with pytest.raises(CheckpointError, match=re.escape(str(tmp_path / "file"))):
            client.stop_with_savepoint(str(tmp_path / "file"), timeout=30)
        before = client.progress().records_out
        eventually(client.progress, lambda progress: progress.records_out > before)
        assert client.checkpoints().counts.failed == 2


def test_a_job_that_has_ended_makes_no_savepoint(tmp_path: Path) -> None:
    env = local()
    counting(env, rows=10, rate=1_000_000)
    client = env.execute_async()
    assert len(collected(client)) == 10
    eventually(client.status, lambda status: status is JobStatus.FINISHED)
    with pytest.raises(CheckpointError, match="job 'flinkray job' is FINISHED, before the savepoint was complete"):
        client.stop_with_savepoint(str(tmp_path), timeout=30)
    client.close()


def test_a_start_from_what_is_no_savepoint_fails_by_its_name(tmp_path: Path) -> None:
    env = local().configure({"execution.state-recovery.path": str(tmp_path / "nothing")})
    counting(env, rows=10)
    with pytest.raises(JobExecutionError, match=re.escape(str(tmp_path / "nothing"))):
        env.execute()


class FailingOnce(MapFunction):
    """Fails at a row, unless it has before."""

    def __init__(self, marker: Path, row: int) -> None:
        self.marker = marker
        self.row = row

    def map(self, value: Any) -> Any:
        if value.n >= self.row and not self.marker.exists():
            self.marker.touch()
            raise ValueError(f"row {value.n} is bad, this once")
        return value


def failing(env: Env, marker: Path) -> None:
    rows = numbers(env).map(FailingOnce(marker, 1_000)).uid("failing")
    rows.key_by(lambda row: row.n % KEYS).process(Numbered()).sink_to(CollectSink("rows"))


def test_a_restarted_job_gives_each_row_once(tmp_path: Path) -> None:
    env = local().set_parallelism(2)
    env.enable_checkpointing("100 ms", CheckpointingMode.EXACTLY_ONCE)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, "10 ms"))
    failing(env, tmp_path / "failed")
    client = env.execute_async()
    check_exactly_once(collected(client))
    overview = client.checkpoints()
    client.close()
    assert (tmp_path / "failed").exists()
    assert overview.counts.completed >= 1


may_end = threading.Event()


def uneven_numbers(context: SourceContext) -> Iterator[Row]:
    """A few in one subtask, and in the other ones those until they may end."""
    for number in itertools.count() if context.subtask_index else range(3):
        if may_end.wait(0.001):
            return
        yield Row(key=number % KEYS, time=number)


def test_checkpoints_go_on_where_a_subtask_of_a_source_has_finished() -> None:
    """Those of operators that know how far event time is, too."""
    may_end.clear()
    env = local().set_parallelism(2)
    env.enable_checkpointing("20 ms")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
    timed = env.add_source(uneven_numbers).set_parallelism(2).assign_timestamps_and_watermarks(strategy)
    timed.key_by("key").window(TumblingEventTimeWindows.of(10)).aggregate(rows=Count()).sink_to(DiscardSink())
    client = env.execute_async()

    def has_gone_on(overview: CheckpointOverview) -> bool:
        fewest = min((each.subtasks for each in overview.history), default=4)
        completed = (each for each in overview.history if each.status is CheckpointStatus.COMPLETED)
        return fewest < 4 and any(each.subtasks == fewest for each in completed)

    try:
        eventually(client.checkpoints, has_gone_on)
    finally:
        may_end.set()
    client.result(30)


def test_without_a_restart_strategy_the_first_failure_ends_the_job(tmp_path: Path) -> None:
    env = local().set_parallelism(2)
    env.enable_checkpointing("100 ms")
    env.set_restart_strategy(RestartStrategies.no_restart())
    failing(env, tmp_path / "failed")
    with pytest.raises(JobExecutionError, match="is bad, this once"):
        env.execute()


PROGRAM = """
from flinkray import StreamExecutionEnvironment
from tests.local.test_checkpoint_api import numbers

env = StreamExecutionEnvironment.get_execution_environment()
numbers(env, rate=1_000_000).map(lambda row: row.n).print()
env.execute("numbers")
"""


def test_the_command_line_starts_a_program_from_a_savepoint_if_its_state_has_a_place(tmp_path: Path) -> None:
    env = local()
    counting(env, is_stopped=True)
    with running(env) as (client, reader):
        saved = client.stop_with_savepoint(str(tmp_path / "savepoints"), timeout=30)
        reader.rows()
    program = tmp_path / "numbers.py"
    program.write_text(PROGRAM, encoding="utf-8")
    run = ["run", "-D", "execution.target=local", "-s", saved]
    refused = CliRunner().invoke(main, [*run, str(program)])
    assert refused.exit_code == 1
    assert saved in refused.output
    assert "'counted'" in refused.output
    taken = CliRunner().invoke(main, [*run, "--allow-non-restored-state", str(program)])
    assert taken.exit_code == 0, taken.output
    rest = [int(line) for line in taken.output.split()]
    assert 0 < len(rest) < ROWS
    assert rest == list(range(ROWS - len(rest), ROWS))

    disposed = CliRunner().invoke(main, ["savepoint", "--dispose", saved])
    assert disposed.output == f"savepoint {saved} is deleted\n"
    assert not Path(saved).exists()


def test_a_program_of_pyflink_saves_stops_and_goes_on(tmp_path: Path) -> None:
    from flinkray.pyflink.common import Configuration, Encoder, RestartStrategies, Types, WatermarkStrategy
    from flinkray.pyflink.datastream import (
        CheckpointingMode,
        ExternalizedCheckpointRetention,
        HashMapStateBackend,
        KeyedProcessFunction,
        RuntimeContext,
        RuntimeExecutionMode,
        StreamExecutionEnvironment,
    )
    from flinkray.pyflink.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
    from flinkray.pyflink.datastream.state import ValueStateDescriptor

    class Numbering(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
            self.prefix = runtime_context.get_job_parameter("prefix", "none")
            self.rows = runtime_context.get_metrics_group().add_group("numbering").counter("rows")

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            self.rows.inc()
            yield f"{self.prefix} {ctx.get_current_key()} {count} {value.n}"

    def program(source: DataGenSource, **options: str) -> StreamExecutionEnvironment:
        config = Configuration().set_string("execution.target", "local")
        for key, value in options.items():
            config.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(config)
        env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
        env.set_state_backend(HashMapStateBackend())
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1000))
        env.enable_checkpointing(100, CheckpointingMode.EXACTLY_ONCE)
        checkpoints = env.get_checkpoint_config()
        checkpoints.set_checkpoint_storage_dir(str(tmp_path / "checkpoints"))
        checkpoints.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
        env.get_config().set_global_job_parameters({"prefix": "row"})
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        stream = stream.key_by(lambda row: row.n % KEYS, key_type=Types.LONG())
        lines = stream.process(Numbering(), output_type=Types.STRING()).uid("numbering")
        sink = FileSink.for_row_format(str(tmp_path / "lines"), Encoder.simple_string_encoder())
        sink = sink.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1024))
        sink = sink.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        lines.sink_to(sink.build()).uid("lines")
        return env

    fields = {"n": SequenceField()}
    client = program(HeldSource(fields, ROWS, 2_000, ROWS // 2)).execute_async("numbering")
    try:
        eventually(client.client.progress, lambda progress: progress.records_out > 100)
        saved = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(30)
        assert client.get_job_status().result(30) is JobStatus.FINISHED
    finally:
        client.close()
    files = list((tmp_path / "lines").rglob("part-*.txt"))
    assert 0 < sum(len(file.read_text().splitlines()) for file in files) < ROWS

    env = program(DataGenSource(fields, ROWS), **{"execution.state-recovery.path": saved})
    assert env.execute("numbering again").job_name == "numbering again"
    files = list((tmp_path / "lines").rglob("part-*.txt"))
    lines = [line.split() for file in files for line in file.read_text().splitlines()]
    assert {line[0] for line in lines} == {"row"}
    assert sorted(tuple(map(int, line[1:])) for line in lines) == sorted(
        (n % KEYS, n // KEYS + 1, n) for n in range(ROWS)
    )

"""Whole jobs, whose savepoints and checkpoints are kept with each release: see `tests/support/store_state.py`.

What is here is the user's code of those jobs, see `tests/support/stored_operators.py`. Everything that a job reads and
writes is in one file system that is mounted in this process, so that no place of a machine is in what is kept.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from flinkray import (
    ArrowSource,
    AsyncDataStream,
    AsyncFunction,
    Batch,
    Boundedness,
    CollectionSource,
    CollectSink,
    CommitRequest,
    Committer,
    Count,
    CountDistinct,
    DataGenSource,
    DataStream,
    FileSink,
    FileSource,
    JobClient,
    JobStatus,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReaderStatus,
    Row,
    SequenceSource,
    Sink,
    SinkWriter,
    SlidingEventTimeWindows,
    Source,
    SourceBatch,
    SourceReader,
    SplitEnumerator,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    Window,
    filesystems,
)
from tests.support.waiting import eventually

MOUNTED = "stored"
ROOT = f"memory://{MOUNTED}"
Files = dict[str, bytes]
"""What is in a file system, by path."""

KEYS = 5
PAUSE_MS = 4
is_slow = False
"""Whether `paused` takes its time: while a job is to be stopped in the middle."""


@dataclass(frozen=True)
class StoredJob:
    """
    Args:
        build: the program; writes into `out` of the file system, or to the sink "rows".
        takes_checkpoint: it leaves a checkpoint when it is cancelled, in place of a savepoint.
        wants: whether the latest checkpoint is worth keeping.
    """

    build: Callable[[StreamExecutionEnvironment, fs.FileSystem], None]
    options: Mapping[str, Any] = field(default_factory=dict)
    takes_checkpoint: bool = False
    wants: Callable[[Any], bool] = bool
    rows: int = 100
    """After which it is stopped."""
    is_collected: bool = False
    """Its results are the driver's."""

    def environment(self, saved: str | None = None, parallelism: int = 2, **options: Any) -> StreamExecutionEnvironment:
        settings: dict[str, Any] = {
            "execution.target": "local",
            "flinkray.batch.target-rows": 10,
            "execution.buffer-timeout.interval": "5 ms",
            "pipeline.auto-watermark-interval": "20 ms",
            "metrics.fetcher.update-interval": "20 ms",
            "restart-strategy.type": "none",
            "execution.checkpointing.interval": "50 ms",
            "parallelism.default": parallelism,
            **self.options,
            **options,
        }
        if saved is not None:
            settings["execution.state-recovery.path"] = saved
        return StreamExecutionEnvironment.get_execution_environment(settings)


# -- running them ------------------------------------------------------------------------------------------------------


@contextmanager
def mounted(files: Files) -> Iterator[fs.FileSystem]:
    system = filesystems.mount(MOUNTED)
    try:
        for path, content in files.items():
            system.create_dir(posixpath.dirname(path), recursive=True)
            with system.open_output_stream(path, compression=None) as stream:
                stream.write(content)
        yield system
    finally:
        filesystems.unmount(MOUNTED)


def files_in(system: fs.FileSystem) -> Files:
    infos = system.get_file_info(fs.FileSelector("", recursive=True))
    found: Files = {}
    for info in infos:
        if info.is_file:
            with system.open_input_stream(info.path, compression=None) as stream:
                found[info.path] = stream.read()
    return found


def left_in(system: fs.FileSystem) -> Files:
    """Without what is there for every job."""
    return {path: content for path, content in files_in(system).items() if path not in INPUTS}


def interrupted(job: StoredJob) -> Files:
    """What the job leaves when it is stopped, or cancelled, in the middle."""
    global is_slow
    with mounted(INPUTS) as system:
        directory = {
            "execution.checkpointing.dir": f"{ROOT}/checkpoints",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        }
        env = job.environment(None, **(directory if job.takes_checkpoint else {}))
        job.build(env, system)
        is_slow = True
        client = env.execute_async("stored")
        try:
            eventually(client.progress, lambda progress: progress.records_in >= job.rows)
            if job.takes_checkpoint:
                _cancel_with_checkpoint(client, job)
            else:
                client.stop_with_savepoint(f"{ROOT}/savepoints", timeout=30)
        finally:
            is_slow = False
            client.close()
        return {path: content for path, content in left_in(system).items() if not path.startswith("checkpoints/ha/")}


def _cancel_with_checkpoint(client: JobClient, job: StoredJob) -> None:
    def is_there(overview: Any) -> bool:
        latest = overview.latest_completed
        return latest is not None and job.wants(latest)

    eventually(client.checkpoints, is_there)
    client.cancel()
    eventually(client.status, lambda status: status is JobStatus.CANCELED)


def resumed(job: StoredJob, files: Files, parallelism: int = 2) -> Counter[Any]:
    """All that the job has written once it has gone on to its end."""
    (saved,) = {posixpath.dirname(path) for path in files if posixpath.basename(path) == "_metadata"}
    with mounted({**INPUTS, **files}) as system:
        return _run(job, system, f"{ROOT}/{saved}", parallelism)


def uninterrupted(job: StoredJob) -> Counter[Any]:
    with mounted(INPUTS) as system:
        return _run(job, system)


def _run(job: StoredJob, system: fs.FileSystem, saved: str | None = None, parallelism: int = 2) -> Counter[Any]:
    env = job.environment(saved, parallelism)
    job.build(env, system)
    client = env.execute_async("stored")
    try:
        if job.is_collected:
            rows = [row for batch in client.collected("rows") for row in batch.data.to_pylist()]
            return Counter(json.dumps(row, sort_keys=True) for row in rows)
        client.result(60)
        return written(system)
    finally:
        client.close()


def written(system: fs.FileSystem) -> Counter[Any]:
    """The rows that are visible in `out`."""
    return Counter(
        line
        for path, content in files_in(system).items()
        if path.startswith("out/") and not posixpath.basename(path).startswith(".")
        for line in content.decode().splitlines()
    )


# -- what they read ----------------------------------------------------------------------------------------------------


def _inputs() -> Files:
    table = pa.table({"n": pa.array(range(120), pa.int64()), "word": [f"word {n % 7}" for n in range(120)]})
    parquet, csv = pa.BufferOutputStream(), "n,word\n" + "".join(f"{n},word {n % 7}\n" for n in range(120))
    pq.write_table(table, parquet, row_group_size=40, compression="snappy")
    lines = "".join(json.dumps({"n": n, "word": f"word {n % 7}"}) + "\n" for n in range(3))
    return {
        "in/rows.parquet": parquet.getvalue().to_pybytes(),
        "in/rows.csv": csv.encode(),
        **{f"in/small/{number:03}.json": lines.encode() for number in range(70)},
    }


INPUTS = _inputs()


@dataclass(frozen=True)
class Numbers:
    """A split of the user's."""

    start: int
    stop: int

    @property
    def split_id(self) -> str:
        return f"up to {self.stop}"


class NumbersSource(Source):
    """A source of the user's, whose enumerator keeps a dict."""

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: Any, restored: Any = None) -> SplitEnumerator:
        splits = [Numbers(start, start + 30) for start in range(0, 120, 30)] if restored is None else restored["left"]
        return _NumbersEnumerator(context, splits)

    def create_reader(self, context: Any) -> SourceReader:
        return _NumbersReader(context)


class _NumbersEnumerator(SplitEnumerator):
    def __init__(self, context: Any, splits: Sequence[Numbers]) -> None:
        self._context = context
        self._splits = list(splits)

    def start(self) -> None: ...

    def add_reader(self, subtask_index: int) -> None: ...

    def handle_split_request(self, subtask_index: int) -> None:
        if self._splits:
            self._context.assign_splits([self._splits.pop(0)], subtask_index)
        else:
            self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._splits[:0] = splits

    def snapshot_state(self, checkpoint_id: int) -> dict[str, list[Numbers]]:
        return {"left": list(self._splits)}


class _NumbersReader(SourceReader):
    def __init__(self, context: Any) -> None:
        self._context = context
        self._splits: list[Numbers] = []
        self._is_last = False

    def start(self) -> None:
        self._context.send_split_request()

    def poll(self) -> Any:
        if not self._splits:
            return ReaderStatus.END_OF_INPUT if self._is_last else ReaderStatus.NOTHING_AVAILABLE
        split = self._splits[0]
        stop = min(split.start + 4, split.stop)
        batch = Batch(pa.record_batch({"n": pa.array(range(split.start, stop), pa.int64())}))
        self._splits[0] = replace(split, start=stop)
        if stop == split.stop:
            self._context.split_finished(split.split_id)
            del self._splits[0]
            if not self._splits and not self._is_last:
                self._context.send_split_request()
        return SourceBatch(batch, split.split_id)

    def add_splits(self, splits: Sequence[Numbers]) -> None:
        self._splits += splits
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        self._is_last = True
        self._context.notify_available()

    def snapshot_state(self, checkpoint_id: int) -> list[Numbers]:
        return list(self._splits)

    def close(self) -> None: ...


def key_of(numbers: Any) -> Any:
    return numbers * 7 % KEYS


def same(numbers: Any) -> Any:
    return numbers


def word_of(numbers: Any) -> Any:
    return np.array([f"word {number % 4}" for number in numbers.tolist()], dtype=object)


def times_of(numbers: Any) -> Any:
    return numbers * 10 + numbers * 7919 % 95


def events(env: StreamExecutionEnvironment, rows: int = 300, rate: float | None = None) -> DataStream:
    """Rows (key, n, word, time) with event time."""
    fields = {"key": key_of, "n": same, "word": word_of, "time": times_of}
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(95).with_timestamp_assigner("time")
    return env.from_source(DataGenSource(fields, rows, rate), strategy, "events").uid("events")


# -- what they do ------------------------------------------------------------------------------------------------------


def paused(value: Any) -> Any:
    """Takes a while for each row while the job is to be stopped in the middle."""
    if is_slow:
        time.sleep(PAUSE_MS / 1000)
    return value


def labelled(value: Any) -> tuple[str, int]:
    return value.word, value.n


def numbered(value: Any) -> tuple[str, int]:
    return "a number", value if isinstance(value, int) else value.n


PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def sources(env: StreamExecutionEnvironment, system: fs.FileSystem) -> None:
    """A source of every kind that says its position; of some, event time comes by split."""
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner("n").with_idleness(200)
    table = pa.table({"n": pa.array(range(120), pa.int64()), "word": [f"word {n % 3}" for n in range(120)]})
    sources: dict[str, tuple[Source, Any]] = {
        "parquet": (FileSource("in/rows.parquet", filesystem=system), labelled),
        "csv": (FileSource("in/rows.csv", filesystem=system), labelled),
        "small": (FileSource("in/small", "json", filesystem=system), labelled),
        "sequence": (SequenceSource(0, 119), numbered),
        "generated": (DataGenSource({"n": same}, 120), numbered),
        "collection": (CollectionSource(list(range(120))), numbered),
        "arrow": (ArrowSource(table), labelled),
        "own": (NumbersSource(), numbered),
    }
    streams = []
    for name, (source, label) in sources.items():
        has_times = name in ("parquet", "csv", "small", "generated", "arrow", "own")
        strategy = by_time if has_times else WatermarkStrategy.no_watermarks()
        stream = env.from_source(source, strategy, name).uid(name)
        streams.append(stream.map(paused).map(label, PAIR).uid(f"of {name}"))
    _into_files(streams[0].union(*streams[1:]), system)


class Bucketed(KeyedProcessFunction):
    """Adds up the rows of each key by windows of event time, which a timer ends."""

    def open(self, runtime_context: Any) -> None:
        self.rows = runtime_context.get_state(ValueStateDescriptor("rows", int))
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums"))
        self.words = runtime_context.get_map_state(MapStateDescriptor("words"))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element(self, value: Any, ctx: Any) -> None:
        start = ctx.timestamp() // 500 * 500
        window = Window(start, start + 500)
        self.rows.update((self.rows.value() or 0) + 1)
        highest = self.last.value()
        if highest is None or value.n > highest.n:
            self.last.update(Row(n=value.n, word=value.word))
        self.sums[window] = (self.sums[window] or 0) + value.n
        self.words[Row(word=value.word)] = (self.words[Row(word=value.word)] or 0) + 1
        self.waiting.add((window, value.n))
        ctx.timer_service().register_event_time_timer(window.max_timestamp())
        ctx.timer_service().register_event_time_timer(1 << 40)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == 1 << 40:
            words = sorted((row.word, times) for row, times in self.words.items())
            yield repr((str(ctx.get_current_key()), self.rows.value(), self.last.value(), words)), 0
            return
        window = Window(timestamp - 499, timestamp + 1)
        due = sorted(n for each, n in self.waiting if each == window)
        self.waiting.update([each for each in self.waiting if each[0] != window])
        yield repr((str(ctx.get_current_key()), due)), self.sums[window]
        self.sums.remove(window)


def row_of(value: Any) -> Row:
    return Row(key=value.key)


def state(env: StreamExecutionEnvironment, system: fs.FileSystem) -> None:
    stream = events(env).map(paused).uid("paused")
    by_row = stream.key_by(row_of).process(Bucketed(), PAIR).uid("by row")
    by_column = stream.key_by("key").process(Bucketed(), PAIR).uid("by column")
    _into_files(by_row.union(by_column), system)


def windows(env: StreamExecutionEnvironment, system: fs.FileSystem, rate: float | None = None) -> None:
    """In two phases where they can be; what is between the phases is slow, so that it is in flight."""
    stream = events(env, rate=rate)
    by_key = stream.key_by("key")
    sums = by_key.window(TumblingEventTimeWindows.of(500)).aggregate(rows=Count(), total=Sum("n")).uid("sums")
    sliding = by_key.window(SlidingEventTimeWindows.of(600, 200))
    distinct = sliding.aggregate(rows=Count(), total=CountDistinct("word")).uid("distinct")
    kept = by_key.window(TumblingEventTimeWindows.of(300)).process(listed, PAIR).uid("kept")
    counted = stream.key_by(row_of).process(Bucketed(), PAIR).uid("buckets")
    shuffled = stream.map(labelled, PAIR).rebalance().map(paused, PAIR).uid("shuffled")
    results = [each.map(of_window, PAIR) for each in (sums, distinct)]
    # Of a forward exchange nobody knows who is to get the rows in flight where the parallelism changes.
    _into_files(shuffled.union(kept, counted, *results).rebalance(), system)


def listed(key: Any, context: Any, rows: Any) -> Iterator[Any]:
    yield repr((key, context.window(), sorted(row.n for row in rows))), 0


def of_window(value: Any) -> tuple[str, int]:
    return repr((value.key, value.window_start, value["rows"])), value.total


class Looked(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        if is_slow:
            await asyncio.sleep(0.15)
        return [(value.word, value.n)]


def asynchronous(env: StreamExecutionEnvironment, system: fs.FileSystem) -> None:
    stream = events(env, 200)
    looked = [
        wait(stream, Looked(), 20_000, 8, PAIR).uid(name)
        for name, wait in (("in order", AsyncDataStream.ordered_wait), ("in any", AsyncDataStream.unordered_wait))
    ]
    _into_files(looked[0].union(looked[1]), system)


def collected(env: StreamExecutionEnvironment, _: fs.FileSystem) -> None:
    """Nobody takes its rows before it is stopped, so that all are in the savepoint."""
    events(env, 150).map(paused).map(labelled, PAIR).uid("paused").sink_to(CollectSink("rows")).uid("rows")


@dataclass(frozen=True)
class Prepared:
    """A committable of the user's."""

    hidden: str
    final: str


class LedgerSink(Sink):
    """A sink of the user's in two phases, whose writer keeps what it has not prepared."""

    def __init__(self, system: fs.FileSystem) -> None:
        self.system = system

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return _LedgerWriter(self.system, context, restored)

    def create_committer(self) -> Committer:
        return _LedgerCommitter(self.system)


class _LedgerWriter(SinkWriter):
    """Prepares every other time."""

    def __init__(self, system: fs.FileSystem, context: Any, restored: Any) -> None:
        system.create_dir("out", recursive=True)
        self._system = system
        self._rows: list[Any] = [row for rows in restored or () for row in rows]
        self._name = f"{context.job_id[:8]}-{context.subtask_index}-{context.attempt_number}"
        self._prepared = 0
        self._is_ending = False

    def write(self, batch: Batch) -> None:
        self._rows += [Row(**row) for row in batch.data.to_pylist()]

    def flush(self, end_of_input: bool = False) -> None:
        self._is_ending |= end_of_input

    def prepare_commit(self, checkpoint_id: int) -> list[Prepared]:
        self._prepared += 1
        if self._prepared % 2 and not self._is_ending:
            return []
        name = f"{self._name}-{self._prepared}"
        prepared = Prepared(f"out/.{name}", f"out/{name}")
        with self._system.open_output_stream(prepared.hidden, compression=None) as stream:
            stream.write("".join(json.dumps(row.as_dict()) + "\n" for row in self._rows).encode())
        self._rows = []
        return [prepared]

    def snapshot_state(self, checkpoint_id: int) -> list[Row]:
        return list(self._rows)

    def close(self) -> None: ...


class _LedgerCommitter(Committer):
    def __init__(self, system: fs.FileSystem) -> None:
        self._system = system

    def commit(self, requests: Sequence[CommitRequest[Prepared]]) -> None:
        for each in (request.committable for request in requests):
            with suppress(FileNotFoundError):  # it was committed before
                self._system.move(each.hidden, each.final)


def sinks(env: StreamExecutionEnvironment, system: fs.FileSystem) -> None:
    slow = events(env).map(paused).map(labelled, PAIR).uid("paused")
    slow.sink_to(LedgerSink(system)).uid("ledger")
    _into_files(slow, system)


def _into_files(stream: DataStream, system: fs.FileSystem) -> None:
    stream.sink_to(FileSink("out", "json", filesystem=system)).uid("files")


def has_rows_in_flight(checkpoint: Any) -> bool:
    return bool(checkpoint.in_flight_bytes > 0)


ROCKSDB = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True}
UNALIGNED = {"execution.checkpointing.unaligned.enabled": True}
TWO_PHASES = {"table.optimizer.agg-phase-strategy": "TWO_PHASE"}

JOBS: dict[str, StoredJob] = {
    "sources": StoredJob(sources, rows=300),
    "state": StoredJob(state, {"execution.checkpointing.data-inline-threshold": 0}),
    "state in memory": StoredJob(state, takes_checkpoint=True),
    "state on disk": StoredJob(state, {"state.backend.type": "rocksdb"}),
    "files of the disk": StoredJob(state, ROCKSDB, takes_checkpoint=True),
    "in flight": StoredJob(windows, {**UNALIGNED, **TWO_PHASES}, True, has_rows_in_flight),
    "asynchronous": StoredJob(asynchronous, rows=60),
    "collected": StoredJob(collected, rows=60, is_collected=True),
    "sinks": StoredJob(sinks, takes_checkpoint=True),
}

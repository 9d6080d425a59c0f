"""Random jobs with checkpoints, and what must be committed in the end, computed by plain loops over the same rows."""

from __future__ import annotations

import itertools
import posixpath
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from actors.hosts.simulation.storage import SimulatedStorage, new_storage
from flinkray import (
    Batch,
    Boundedness,
    Configuration,
    Count,
    DataGenSource,
    DataStream,
    FileCompaction,
    FileSink,
    HybridSource,
    PartitionCommit,
    Sink,
    SinkWriter,
    SlidingEventTimeWindows,
    Source,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.batches.row_codec import decode
from flinkray.connectors.committer import CommitRequest, Committer

KINDS = ("stateless", "running", "tumbling", "sliding", "join")
SINKS = ("ledger", "file", "global ledger", "small files")
_FILES = {"file": "files/", "small files": "compacted/"}

# Event time of neighbouring rows, and how far a row may be out of order.
STEP_MS = 10
DISORDER_MS = 95


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction that waits for its commit."""

    pending: str
    committed: str


class LedgerSink(Sink):
    """Rows as text in transactions of a storage, which gives each its number (as a database would).

    Committing or aborting one again has no effect; committing one that was aborted, or that never was, is an error.
    """

    directory = "ledger"

    def __init__(self, storage: SimulatedStorage) -> None:
        self._storage = storage

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return _LedgerWriter(self._storage, context, self.directory)

    def create_committer(self) -> Committer | None:
        return _LedgerCommitter(self._storage)


class GlobalLedgerSink(LedgerSink):
    """The same with one committer for all writers, which insists on the order of checkpoints."""

    directory = "global ledger"
    commits_globally = True

    def create_committer(self) -> None:
        return None

    def create_global_committer(self) -> Committer:
        return _OrderedCommitter(self._storage)


class _LedgerWriter(SinkWriter):
    def __init__(self, storage: SimulatedStorage, context: Any, directory: str) -> None:
        self._filesystem = storage.filesystem()
        self._numbers = _numbers_of(storage)
        self._name = f"{context.subtask_index}-{context.attempt_number}"
        self._rows: list[Any] = []
        self._pending, self._committed = f"{directory}/pending", f"{directory}/committed"
        self._filesystem.create_dir(self._pending, recursive=True)
        self._filesystem.create_dir(self._committed, recursive=True)

    def write(self, batch: Batch) -> None:
        self._rows.extend(tuple(row) if hasattr(row, "as_dict") else row for row in decode(batch))

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        if not self._rows:
            return []
        name = f"{self._name}-{next(self._numbers)}"
        rows, self._rows = self._rows, []
        prepared = Prepared(f"{self._pending}/{name}", f"{self._committed}/{name}")
        with self._filesystem.open_output_stream(prepared.pending, compression=None) as stream:
            stream.write(repr(rows).encode())
        return [prepared]

    def close(self) -> None:
        self._rows.clear()


class _LedgerCommitter(Committer):
    def __init__(self, storage: SimulatedStorage) -> None:
        self._filesystem = storage.filesystem()

    def commit(self, requests: Sequence[CommitRequest[Prepared]]) -> None:
        for request in requests:
            each = request.committable
            pending, committed = self._filesystem.get_file_info([each.pending, each.committed])
            if committed.is_file:
                request.already_committed()
            elif not pending.is_file:
                raise AssertionError(f"{each} is to be committed, and was aborted or never prepared")
            elif _is_busy(each, request.attempt):
                request.retry_later("the ledger is busy")
            else:
                self._filesystem.move(each.pending, each.committed)

    def abort(self, committables: Sequence[Prepared]) -> None:
        for each in committables:
            if self._filesystem.get_file_info(each.pending).is_file:
                self._filesystem.delete_file(each.pending)


class _OrderedCommitter(_LedgerCommitter):
    def __init__(self, storage: SimulatedStorage) -> None:
        super().__init__(storage)
        self._last = -1

    def commit(self, requests: Sequence[CommitRequest[Prepared]]) -> None:
        (checkpoint_id,) = {request.checkpoint_id for request in requests}
        assert checkpoint_id > self._last or all(request.attempt > 0 for request in requests)
        self._last = checkpoint_id
        super().commit(requests)


def _is_busy(prepared: Prepared, attempt: int) -> bool:
    """Whether the ledger puts a commit off: every third one, up to three times."""
    number = int(prepared.pending.rpartition("-")[2])
    return number % 3 == 0 and attempt < number % 4


_counters: dict[str, itertools.count[int]] = {}


def _numbers_of(storage: SimulatedStorage) -> itertools.count[int]:
    return _counters.setdefault(storage.name, itertools.count())


@dataclass
class ExactlyOnceJob:
    """Built from a seed. `expected` holds the rows that must have been committed when the job has finished."""

    seed: int
    kind: str = ""
    sink: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    expected: Counter[Any] = field(default_factory=Counter)
    before: ExactlyOnceJob | None = None
    """The job that this one goes on from, in the same storage."""
    has_two_sinks: bool = False
    """Whether the rows go into a sink of the other kind too."""
    parts: int = 1
    """How many sources a stream of rows has, one after another."""

    def __post_init__(self) -> None:
        self._known: dict[bytes, Sequence[Any]] = {}
        """What is in a file, by its content."""
        self._random = chance = random.Random(f"exactly once {self.seed}")
        self.kind = self.kind or chance.choice(KINDS)
        self.sink = self.sink or chance.choice(SINKS)
        self.parallelism = chance.randint(1, 3)
        self.rows = chance.randint(50, 400)
        self.keys = chance.choice([1, 3, 20])
        if self.before is None:
            self.storage = new_storage(f"job-{self.seed}")
            _counters.pop(self.storage.name, None)
        else:
            self.storage = self.before.storage
        self.environment = StreamExecutionEnvironment.get_execution_environment(Configuration(self._options()))
        stream = getattr(self, f"_{self.kind}")()
        for sink in self.sinks:
            stream.sink_to(self._new_sink(sink))

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.kind} into {self.sink}, parallelism {self.parallelism}, {self.rows} rows"

    @property
    def sinks(self) -> tuple[str, ...]:
        others = (each for each in SINKS if each != self.sink)
        return (self.sink, *others) if self.has_two_sinks else (self.sink,)

    def committed(self, sink: str = "") -> Counter[Any]:
        """What is in the sink (by default the first one) and can be seen by readers."""
        sink = sink or self.sink
        directory = _FILES.get(sink, f"{sink}/committed/")
        return Counter(
            row
            for path, content in self.storage.files.items()
            if path.startswith(directory) and not posixpath.basename(path).startswith((".", "_"))
            for row in self._with_key(path, self._rows_in(sink, content))
        )

    def unmarked(self) -> set[str]:
        """The partitions with files that nobody was told of."""
        of_marks = {posixpath.dirname(path) for path in self.storage.files if path.endswith("/_SUCCESS")}
        return {posixpath.dirname(path) for path in self.storage.files if "/key=" in path} - of_marks

    def _with_key(self, path: str, rows: Sequence[Any]) -> Sequence[Any]:
        """Rows with the key that the name of their directory has."""
        _, is_partition, key = posixpath.dirname(path).partition("/key=")
        place = 1 if self.kind == "stateless" else 0
        return [(*row[:place], int(key), *row[place:]) for row in rows] if is_partition else rows

    def _rows_in(self, sink: str, content: bytes) -> Sequence[Any]:
        if content not in self._known:
            read = _rows_of_parquet if sink in _FILES else _rows_of_ledger
            self._known[content] = read(content)
        return self._known[content]

    # -- the program ---------------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        chance = self._random
        return {
            "execution.target": "local",
            "parallelism.default": self.parallelism,
            "flinkray.batch.target-rows": chance.choice([1, 5, 50]),
            "flinkray.network.inline-bytes": chance.choice([0, 65_536]),
            "flinkray.network.frame-bytes": chance.choice([0, 256, 4 << 20]),
            "execution.buffer-timeout.interval": chance.choice([0, 5, 100]),
            "pipeline.operator-chaining.enabled": chance.random() < 0.7,
            "execution.checkpointing.interval": chance.choice([50, 100, 200]),
            "execution.checkpointing.timeout": chance.choice([2_000, 30_000]),
            "execution.checkpointing.min-pause": chance.choice([0, 20]),
            "execution.checkpointing.max-concurrent-checkpoints": chance.choice([1, 1, 2]),
            "execution.checkpointing.unaligned.enabled": chance.random() < 0.4,
            "execution.checkpointing.aligned-checkpoint-timeout": chance.choice([0, 10]),
            "execution.checkpointing.tolerable-failed-checkpoints": 1_000,
            "execution.checkpointing.dir": f"memory://job-{self.seed}/checkpoints",
            "execution.checkpointing.num-retained": chance.choice([1, 3]),
            "execution.checkpointing.data-inline-threshold": chance.choice([0, 200, 20_480]),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1_000,
            "restart-strategy.fixed-delay.delay": chance.choice([10, 300]),
            "jobmanager.execution.failover-strategy": chance.choice(["region", "full"]),
            **self.options,
        }

    def _source(self, salt: int = 0, rows: int | None = None) -> tuple[DataStream, list[tuple[int, int, int]]]:
        """Rows (key, value, time) for about a second of virtual time, and the same as plain values."""
        count = self.rows if rows is None else rows
        fields = {
            "key": lambda n: (n * 7 + salt) % self.keys,
            "value": lambda n: n + salt,
            "time": lambda n: n * STEP_MS + (n * 7919 + salt) % DISORDER_MS,
        }
        source = self._in_parts(fields, count, rows_per_second=count / self._random.choice([0.4, 1.5]))
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER_MS).with_timestamp_assigner("time")
        stream = self.environment.from_source(source, strategy, f"source {salt}")
        numbers = np.arange(count, dtype=np.int64)
        columns = [fields[name](numbers).tolist() for name in ("key", "value", "time")]
        return stream, list(zip(*columns, strict=True))

    def _in_parts(self, fields: Mapping[str, Callable[[Any], Any]], rows: int, rows_per_second: float) -> Source:
        """The rows by as many sources as the job has, one after another; every second one is made when its turn
        comes."""

        def part(first: int, end: int) -> DataGenSource:
            shifted = {name: lambda n, field=field: field(n + first) for name, field in fields.items()}
            return DataGenSource(shifted, rows=end - first, rows_per_second=rows_per_second)

        if self.parts == 1:
            return part(0, rows)
        bounds = [rows * number // self.parts for number in range(self.parts + 1)]
        ranges = list(itertools.pairwise(bounds))
        sources: list[Any] = [
            (lambda _before, each=each: part(*each)) if number % 2 else part(*each)
            for number, each in enumerate(ranges)
        ]
        return HybridSource(*sources, boundedness=Boundedness.BOUNDED)

    def _shuffled(self, stream: DataStream) -> DataStream:
        name = self._random.choice(["none", "rebalance", "rescale", "shuffle"])
        return stream if name == "none" else getattr(stream, name)()

    def _stateless(self) -> DataStream:
        stream, rows = self._source()
        self.expected = Counter((value * 3, key) for key, value, _ in rows if value % 5)
        kept = self._shuffled(stream).filter(lambda row: row.value % 5 != 0)
        return self._shuffled(kept).map(lambda row: {"value": row.value * 3, "key": row.key})

    def _running(self) -> DataStream:
        """A running count per key: whatever the order between subtasks, a key's counts are 1, 2, 3 ..."""
        stream, rows = self._source()
        per_key = Counter(key for key, _, _ in rows)
        self.expected = Counter((key, n) for key, total in per_key.items() for n in range(1, total + 1))
        pairs = self._shuffled(stream).map(lambda row: {"key": row.key, "n": 1})
        return pairs.key_by("key").reduce(lambda left, right: {"key": left.key, "n": left.n + right.n})

    def _tumbling(self) -> DataStream:
        size = self._random.choice([100, 500])
        return self._window(TumblingEventTimeWindows.of(size), size, size)

    def _sliding(self) -> DataStream:
        size, slide = self._random.choice([(100, 50), (600, 200)])
        return self._window(SlidingEventTimeWindows.of(size, slide), size, slide)

    def _window(self, assigner: Any, size: int, slide: int) -> DataStream:
        stream, rows = self._source()
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for key, value, time in rows:
            for start in _starts(time, size, slide):
                groups[key, start].append(value)
        self.expected = Counter(
            (key, start, start + size, len(values), sum(values)) for (key, start), values in groups.items()
        )
        return self._shuffled(stream).key_by("key").window(assigner).aggregate(n=Count(), total=Sum("value"))

    def _join(self) -> DataStream:
        size = 100
        left, left_rows = self._source(rows=min(self.rows, 200))
        right, right_rows = self._source(3, rows=min(self.rows, 150))
        by_window: dict[tuple[int, int], list[int]] = defaultdict(list)
        for key, value, time in right_rows:
            by_window[key, time // size].append(value)
        self.expected = Counter(
            (value, other) for key, value, time in left_rows for other in by_window[key, time // size]
        )
        joined = left.join(right).where("key").equal_to("key").window(TumblingEventTimeWindows.of(size))
        return joined.apply(lambda a, b: {"left": a.value, "right": b.value})

    def _new_sink(self, sink: str) -> Sink:
        if sink == "file":
            return FileSink("files", filesystem=self.storage.filesystem())
        if sink == "small files":
            has_keys = self.kind in ("stateless", "running", "tumbling", "sliding")  # others have no such column
            return FileSink(
                "compacted",
                filesystem=self.storage.filesystem(),
                compaction=FileCompaction(self._random.choice([None, 2_000]), self._random.randint(1, 3)),
                partition_by=["key"] if has_keys else [],
                partition_commit=PartitionCommit(delay=self._random.choice([0, 100])) if has_keys else None,
            )
        return (LedgerSink if sink == "ledger" else GlobalLedgerSink)(self.storage)


def _starts(time: int, size: int, slide: int) -> list[int]:
    """The windows that contain this point of time."""
    last = time // slide * slide
    return [start for start in range(last, last - size, -slide) if start <= time < start + size]


def _rows_of_ledger(content: bytes) -> Sequence[Any]:
    rows: list[Any] = eval(content.decode(), {"__builtins__": {}})
    return rows


def _rows_of_parquet(content: bytes) -> Sequence[Any]:
    table = pq.read_table(pa.BufferReader(content))
    return list(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))

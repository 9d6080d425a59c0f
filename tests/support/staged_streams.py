"""A staged stream without Spark: batches that a test writes, read by real readers behind a real coordinator."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NoReturn

import cloudpickle
import pyarrow as pa

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.source_coordinator import SourceCoordinator
from actors.protocol.operator_events import AddSplits, NoMoreSplits, ReaderRegistered, SplitRequested
from actors.spark.staged_source import StagedSource
from actors.spark.staging import Manifest, QueryEnd, StagedFile, Staging, remove_covered
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceReader
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.types.records import Kind, RecordType
from tests.support.api import DEADLINE, FakeSubtaskContext

SCHEMA = pa.schema([("n", pa.int64())])
QUERY = "query-1"


class InlineExecutor(Executor):
    """Runs each call at once, in the caller's thread."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def staged_source(staging: Staging, ends_with_query: bool = True) -> StagedSource:
    return StagedSource(staging, RecordType(Kind.ROW, SCHEMA), ends_with_query, InlineExecutor)


class Stage:
    """The query's side: stages whole numbers, each once."""

    def __init__(self, location: str) -> None:
        self.staging = Staging(location)
        self.staging.create()
        self.staging.claim(QUERY)
        self.next_batch_id = 0
        self.staged: list[int] = []

    def add(self, *rows_per_file: list[int]) -> None:
        """One batch; per file the rows of each of its Arrow batches."""
        files = [self._write(partition, rows) for partition, rows in enumerate(rows_per_file)]
        self.staging.publish(Manifest(QUERY, self.next_batch_id, tuple(files)))
        self.next_batch_id += 1

    def end(self, error: str | None = None) -> None:
        self.staging.mark_end(QueryEnd(error))

    def files(self) -> list[str]:
        return [name for batch_id in range(self.next_batch_id) for name in self.staging.present_files(batch_id)]

    def _write(self, partition: int, rows: list[int]) -> StagedFile:
        batches = []
        for count in rows:
            numbers = range(len(self.staged), len(self.staged) + count)
            self.staged += numbers
            batches.append(pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA))
        written = self.staging.write_file(self.next_batch_id, partition, batches)
        assert written is not None
        return written


class _Subtask(FakeSubtaskContext):
    """A reader, with the rows that it has given and the events on their way to it."""

    def __init__(self, run: StagedRun, index: int, state: tuple[list[Any], list[int]]) -> None:
        super().__init__(index, run.parallelism, batch_rows=3)
        self.run = run
        self.inbox: deque[Any] = deque()
        """Events and barriers (numbers), in order."""
        splits, rows = state
        self.rows = list(rows)
        self.is_done = False
        self.available = threading.Event()
        self.on_available = self.available.set
        self.reader: SourceReader = run.source.create_reader(self)
        self.reader._remover = InlineExecutor()  # type: ignore[attr-defined]
        if splits:
            self.reader.add_splits(splits)

    def send_split_request(self) -> None:
        self.run.coordinator.handle_event(self.subtask_index, SplitRequested(self.subtask_index))

    def poll(self) -> None:
        """Takes a batch, for which it waits if it has a file; or notes the end."""
        while True:
            self.available.clear()
            polled = self.reader.poll()
            if isinstance(polled, SourceBatch):
                self.rows += polled.batch.data.column("n").to_pylist()
            self.is_done = polled is ReaderStatus.END_OF_INPUT
            if polled is not ReaderStatus.NOTHING_AVAILABLE or not self.reader._unread:  # type: ignore[attr-defined]
                return
            assert self.available.wait(DEADLINE), "the reader never announced more"


State = tuple[list[Any], list[int]]


class StagedRun:
    """The job's side: proceeds, takes checkpoints and fails as the seed says. Implements CoordinatorContext."""

    def __init__(self, source: StagedSource, seed: int, parallelism: int) -> None:
        self.source = source
        self.random = random.Random(seed)
        self.parallelism = parallelism
        self.timers: list[Callable[[], None]] = []
        self.last_id = 0
        self.pending: tuple[int, bytes, dict[int, State]] | None = None
        self.completed: tuple[int, bytes, list[State]] | None = None
        self.subtasks: list[_Subtask] = []
        self.now = 0
        self.begin(None, [([], []) for _ in range(parallelism)])

    # -- CoordinatorContext

    def now_ms(self) -> int:
        return self.now

    def send_event(self, subtask_index: int, event: Any) -> None:
        self.subtasks[subtask_index].inbox.append(event)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        self.timers.append(callback)

    def fail_job(self, error: BaseException) -> NoReturn:
        raise error

    # -- life

    def begin(self, state: bytes | None, states: list[State]) -> None:
        strategy = WatermarkStrategy.no_watermarks()
        self.coordinator = SourceCoordinator("source", self.source, strategy, self, WatermarkAlignment())
        if state is not None:
            self.coordinator.restore(state)
        self.coordinator.start()
        self.subtasks = [_Subtask(self, index, each) for index, each in enumerate(states)]
        for index in self.random.sample(range(self.parallelism), self.parallelism):
            self.register(index)

    def register(self, index: int) -> None:
        self.coordinator.handle_event(index, ReaderRegistered(index))
        self.subtasks[index].reader.start()

    def tick(self) -> None:
        """Time passes until every timer has fired."""
        self.now += 200
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()

    def deliver(self, index: int) -> None:
        subtask = self.subtasks[index]
        match event := subtask.inbox.popleft():
            case AddSplits():
                subtask.reader.add_splits(cloudpickle.loads(event.splits_bytes))
            case NoMoreSplits():
                subtask.reader.notify_no_more_splits()
            case int():
                self.on_barrier(index, event)

    def trigger(self) -> None:
        self.last_id += 1
        self.pending = (self.last_id, self.coordinator.snapshot(self.last_id), {})
        for subtask in self.subtasks:
            subtask.inbox.append(self.last_id)

    def on_barrier(self, index: int, checkpoint_id: int) -> None:
        subtask = self.subtasks[index]
        state = (subtask.reader.snapshot_state(checkpoint_id), list(subtask.rows))
        if self.pending is None or self.pending[0] != checkpoint_id:
            return
        states = self.pending[2]
        states[index] = state
        if len(states) == self.parallelism:
            self.completed = (checkpoint_id, self.pending[1], [states[each] for each in range(self.parallelism)])
            self.pending = None
            self.coordinator.notify_checkpoint_complete(checkpoint_id)
            for each in self.subtasks:
                if self.random.random() < 0.7:  # the word may be lost
                    each.reader.notify_checkpoint_complete(checkpoint_id)

    def restart_subtask(self, index: int) -> None:
        self.pending = None
        checkpoint_id, state = None, ([], [])
        if self.completed is not None:
            checkpoint_id, state = self.completed[0], self.completed[2][index]
        self.subtasks[index].reader.close()
        self.coordinator.subtask_failed(index, checkpoint_id)
        self.subtasks[index] = _Subtask(self, index, state)
        self.register(index)

    def restart_all(self) -> None:
        """Perhaps at another parallelism; lists of state are shared out in turn."""
        self.pending = None
        self.close()
        if self.completed is None:
            self.begin(None, [([], []) for _ in range(self.parallelism)])
            return
        checkpoint_id, state, former = self.completed
        self.parallelism = self.random.choice([self.parallelism, self.random.randrange(1, 5)])
        if self.parallelism != len(former):
            splits = [split for each, _ in former for split in each]
            rows = [row for _, each in former for row in each]
            former = [(splits[i :: self.parallelism], rows[i :: self.parallelism]) for i in range(self.parallelism)]
        self.completed = (checkpoint_id, state, former)
        self.begin(state, former)

    def step(self) -> None:
        index = self.random.randrange(self.parallelism)
        subtask = self.subtasks[index]
        action = self.random.random()
        if action < 0.35 and subtask.inbox:
            self.deliver(index)
        elif action < 0.75:
            subtask.poll()
        elif action < 0.9:
            self.tick()
        elif action < 0.96:
            self.trigger()
        elif action < 0.985:
            self.restart_subtask(index)
        else:
            self.restart_all()

    def run_to_the_end(self) -> None:
        for _ in range(10_000):
            if all(subtask.is_done for subtask in self.subtasks):
                return
            self.tick()
            for index, subtask in enumerate(self.subtasks):
                while subtask.inbox:
                    self.deliver(index)
                subtask.poll()
        raise AssertionError("some reader never hears that there are no more files")

    def take_checkpoint(self) -> None:
        """Of subtasks that all have nothing else to do."""
        self.trigger()
        for index, subtask in enumerate(self.subtasks):
            while subtask.inbox:
                self.deliver(index)

    def rows(self) -> list[int]:
        return sorted(row for subtask in self.subtasks for row in subtask.rows)

    def close(self) -> None:
        self.coordinator.close()
        self.timers = []
        for subtask in self.subtasks:
            subtask.reader.close()


def clean_up(stage: Stage) -> None:
    """What the driver does while it stages a batch."""
    remove_covered(stage.staging, stage.next_batch_id - 1)

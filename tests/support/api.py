"""Stand-ins for the runtime, for tests of the API alone: executor, client, and the contexts of readers and writers."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.connectors.collect.sink import CollectSink
from flinkray.connectors.source import (
    ReaderStatus,
    Source,
    SourceBatch,
    SourceReader,
    SplitEnumerator,
)
from flinkray.execution import JobClient, JobExecutionResult, JobProgress, JobStatus, Pipeline
from flinkray.state.checkpoint_statistics import CheckpointOverview
from flinkray.streams.data_stream import DataStream
from flinkray.transformations.operator_factories import OperatorFactory, SinkFactory
from flinkray.transformations.transformation import PhysicalTransformation
from flinkray.types.records import JobId

DEADLINE = 30.0
"""Seconds that a test waits for another thread at most."""


class FakeClient(JobClient):
    """A job that ends as told: well, or with `error`; `timeouts` times `result` finds it still running."""

    def __init__(self, pipeline: Pipeline, batches: list[Batch], error: Exception | None, timeouts: int) -> None:
        self.pipeline = pipeline
        self.calls: list[str] = []
        self._batches = batches
        self._error = error
        self._timeouts = timeouts

    @property
    def job_id(self) -> JobId:
        return JobId("job-1")

    def status(self) -> JobStatus:
        return JobStatus.CANCELED if "cancel" in self.calls else JobStatus.RUNNING

    def progress(self) -> JobProgress:
        return JobProgress(self.status(), 10, 5, None)

    def result(self, timeout: float | None = None) -> JobExecutionResult:
        self.calls.append("result")
        if timeout is not None and self._timeouts:
            self._timeouts -= 1
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return JobExecutionResult(self.job_id, self.pipeline.name, 7, {"rows": 2})

    def cancel(self) -> None:
        self.calls.append("cancel")

    def trigger_savepoint(self, directory: str | None = None, timeout: float | None = None) -> str:
        self.calls.append(f"savepoint {directory}")
        return f"{directory}/savepoint-1"

    def stop_with_savepoint(
        self, directory: str | None = None, drain: bool = False, timeout: float | None = None
    ) -> str:
        self.calls.append(f"{'drain' if drain else 'stop'} {directory}")
        return f"{directory}/savepoint-1"

    def checkpoints(self) -> CheckpointOverview:
        return CheckpointOverview()

    def accumulators(self) -> dict[str, int | float]:
        return {}

    def collected(self, collect_id: str) -> Iterator[Batch]:
        factories = [t.factory for t in self.pipeline.transformations if isinstance(t, PhysicalTransformation)]
        sinks = [factory.sink for factory in factories if isinstance(factory, SinkFactory)]
        collected = {sink.collect_id for sink in sinks if isinstance(sink, CollectSink)}
        assert collect_id in collected, "the program has no such sink"
        return iter(self._batches)

    def close(self) -> None:
        self.calls.append("close")


class FakeExecutor:
    """An execution target; `calls` and `clients` show what came. Also stands for the plug-in that makes it."""

    needs_preparation = True

    def __init__(self) -> None:
        self.clients: list[FakeClient] = []
        self.batches: list[Batch] = []
        self.job_error: Exception | None = None
        self.submit_error: Exception | None = None
        self.timeouts = 0

    def __call__(self) -> FakeExecutor:
        return self

    def execute(self, pipeline: Pipeline) -> FakeClient:
        if self.submit_error is not None:
            raise self.submit_error
        self.clients.append(FakeClient(pipeline, self.batches, self.job_error, self.timeouts))
        return self.clients[-1]

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline of the last job."""
        return self.clients[-1].pipeline


class FakeSubtaskContext:
    """The context of a reader or a writer, with a clock that tests set and timers that they fire."""

    def __init__(self, subtask_index: int = 0, parallelism: int = 1, batch_rows: int = 4) -> None:
        self.subtask_index = subtask_index
        self.parallelism = parallelism
        self.batch_rows = batch_rows
        self.attempt_number = 0
        self.restored_checkpoint_id: int | None = None
        self.has_checkpoints = True
        self.operator_name = "Source: test"
        self.job_id = "0123456789abcdef"
        self.now = 0
        self.requests = 0
        self.finished: list[str] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.counts: Counter[str] = Counter()
        self.on_available: Callable[[], None] = lambda: None

    def count(self, name: str, increase: int = 1) -> None:
        self.counts[name] += increase

    def now_ms(self) -> int:
        return self.now

    def check_cancelled(self) -> None: ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.timers.append((self.now + delay_ms, callback))

    def advance(self, to_ms: int) -> None:
        """Sets the clock, and fires the timers that are due by then."""
        self.now = to_ms
        due = [callback for when, callback in self.timers if when <= to_ms]
        self.timers = [(when, callback) for when, callback in self.timers if when > to_ms]
        for callback in due:
            callback()

    def send_split_request(self) -> None:
        self.requests += 1

    def send_source_event(self, event: Any) -> None: ...

    def split_finished(self, split_id: str) -> None:
        self.finished.append(split_id)

    def notify_available(self) -> None:
        self.on_available()


class Assignments:
    """The context of an enumerator: keeps what it assigns."""

    def __init__(self, parallelism: int = 1) -> None:
        self.parallelism = parallelism
        self.registered_readers = frozenset(range(parallelism))
        self.assigned: dict[int, list[Any]] = {}
        self.ended: list[int] = []

    def now_ms(self) -> int:
        return 0

    def assign_splits(self, splits: Any, subtask_index: int) -> None:
        self.assigned.setdefault(subtask_index, []).extend(splits)

    def signal_no_more_splits(self, subtask_index: int) -> None:
        self.ended.append(subtask_index)

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None: ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None: ...


class SourceRun:
    """A source with its enumerator and readers, stepped in turn."""

    def __init__(self, source: Source, parallelism: int = 1, batch_rows: int = 4, restored: Any = None) -> None:
        self.assignments = Assignments(parallelism)
        self.contexts = [FakeSubtaskContext(index, parallelism, batch_rows) for index in range(parallelism)]
        enumerator_state, reader_states = restored or (None, [[] for _ in range(parallelism)])
        self.enumerator: SplitEnumerator = source.create_enumerator(self.assignments, enumerator_state)
        self.enumerator.start()
        self.readers: list[SourceReader] = [source.create_reader(context) for context in self.contexts]
        for reader, splits in zip(self.readers, reader_states, strict=True):
            if splits:
                reader.add_splits(splits)
            reader.start()

    def poll(self, subtask: int = 0) -> SourceBatch | ReaderStatus:
        """Answers the reader's requests, then polls it."""
        context = self.contexts[subtask]
        while context.requests:
            context.requests -= 1
            before = len(self.assignments.assigned.get(subtask, []))
            self.enumerator.handle_split_request(subtask)
            new = self.assignments.assigned.get(subtask, [])[before:]
            if new:
                self.readers[subtask].add_splits(new)
            else:
                self.readers[subtask].notify_no_more_splits()
        return self.readers[subtask].poll()

    def snapshot(self) -> tuple[Any, list[list[Any]]]:
        return self.enumerator.snapshot_state(1), [reader.snapshot_state(1) for reader in self.readers]

    def read_batches(self, batches: int | None = None) -> list[Batch]:
        """So many batches, or all to the end, in turn over the subtasks. A reader with nothing to give must be
        waiting for a split; threaded readers are read with `read_threaded`."""
        read: list[Batch] = []
        waiting = deque(range(len(self.readers)))
        while waiting and (batches is None or len(read) < batches):
            subtask = waiting.popleft()
            polled = self.poll(subtask)
            if isinstance(polled, SourceBatch):
                read.append(polled.batch)
            if polled is not ReaderStatus.END_OF_INPUT:
                waiting.append(subtask)
        return read

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


def rows_of(batches: list[Batch]) -> list[Any]:
    """The values of all batches, in order."""
    return [value for batch in batches for value in decode(batch)]


def batch_of(*values: Any) -> Batch:
    """The values as a batch of the type that they show."""
    return RowEncoder("test", "1 of 1", None).encode(values, None)


def column(batches: list[Batch], name: str) -> list[Any]:
    return pa.chunked_array([batch.data.column(name) for batch in batches]).to_pylist() if batches else []


class ThreadedRun:
    """One reader that reads on a thread, polled until it ends; waits for its announcements, with a deadline."""

    def __init__(self, source: Source, context: FakeSubtaskContext | None = None, splits: Sequence[Any] = ()) -> None:
        self.context = context or FakeSubtaskContext()
        self.available = threading.Event()
        self.context.on_available = self.available.set
        self.reader = source.create_reader(self.context)
        if splits:
            self.reader.add_splits(splits)
        self.reader.start()
        self.reader.notify_no_more_splits()

    def poll(self) -> SourceBatch | ReaderStatus:
        """The next batch or the end."""
        while True:
            self.available.clear()
            polled = self.reader.poll()
            if polled is not ReaderStatus.NOTHING_AVAILABLE:
                return polled
            assert self.available.wait(DEADLINE), "the reader never announced more"

    def read(self) -> list[Any]:
        batches = []
        while isinstance(polled := self.poll(), SourceBatch):
            batches.append(polled.batch)
        return rows_of(batches)


def operator(stream: Any) -> PhysicalTransformation:
    transformation = stream._transformation
    assert isinstance(transformation, PhysicalTransformation)
    return transformation


def factory(stream: Any) -> OperatorFactory:
    return operator(stream).factory


def columns(stream: DataStream) -> tuple[str, ...] | None:
    return stream._known.columns

"""Drives a source's enumerator and readers, and a sink's writers, by hand: no job, no runtime."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flinkray.batches.batch import Batch
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import ReaderStatus, Source, SourceBatch, SourceReader, SplitEnumerator
from tests.support.commits import requests_of


@dataclass
class ReaderContext:
    """Implements SourceReaderContext for one subtask of a `SourceDriver`."""

    driver: SourceDriver
    subtask_index: int
    parallelism: int
    batch_rows: int
    operator_name: str = "test source"
    may_read_again: bool = True
    available: threading.Event = field(default_factory=threading.Event)

    def now_ms(self) -> int:
        return 0

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        raise AssertionError("no timers here")

    def send_split_request(self) -> None:
        self.driver.requests.append(self.subtask_index)

    def send_source_event(self, event: Any) -> None:
        raise AssertionError("no events here")

    def split_finished(self, split_id: str) -> None: ...

    def notify_available(self) -> None:
        self.available.set()


class SourceDriver:
    """One enumerator and its readers, stepped by the test's thread."""

    def __init__(self, source: Source, parallelism: int = 1, batch_rows: int = 1000, restored: Any = None) -> None:
        self.parallelism = parallelism
        self.requests: list[int] = []
        self.assigned: list[tuple[int, Any]] = []
        self.timers: list[Callable[[], None]] = []
        self.enumerator: SplitEnumerator = source.create_enumerator(self, restored)
        self.contexts = [ReaderContext(self, index, parallelism, batch_rows) for index in range(parallelism)]
        self.readers: list[SourceReader] = [source.create_reader(context) for context in self.contexts]
        self.enumerator.start()
        self.registered_readers = frozenset(range(parallelism))

    # -- SplitEnumeratorContext

    def now_ms(self) -> int:
        return 0

    def assign_splits(self, splits: Sequence[Any], subtask_index: int) -> None:
        self.assigned.extend((subtask_index, split) for split in splits)
        self.readers[subtask_index].add_splits(splits)

    def signal_no_more_splits(self, subtask_index: int) -> None:
        self.readers[subtask_index].notify_no_more_splits()

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        raise AssertionError("no events here")

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.timers.append(callback)

    # -- for tests

    def start(self) -> None:
        for reader in self.readers:
            reader.start()

    def next(self, subtask: int, deadline_s: float = 30.0) -> Batch | None:
        """The subtask's next batch, or None at its end."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            self.contexts[subtask].available.clear()
            while self.requests:
                self.enumerator.handle_split_request(self.requests.pop(0))
            polled = self.readers[subtask].poll()
            if isinstance(polled, SourceBatch):
                assert 0 < polled.batch.num_rows <= self.contexts[subtask].batch_rows
                return polled.batch
            if polled is ReaderStatus.END_OF_INPUT:
                return None
            if not self.requests:
                self.contexts[subtask].available.wait(until - time.monotonic())
        raise TimeoutError(f"subtask {subtask} has neither a batch nor an end")

    def drain(self) -> list[list[Batch]]:
        """All batches per subtask, the subtasks taking turns."""
        self.start()
        found: list[list[Batch]] = [[] for _ in self.readers]
        running = set(range(self.parallelism))
        while running:
            for subtask in sorted(running):
                batch = self.next(subtask)
                if batch is None:
                    running.discard(subtask)
                else:
                    found[subtask].append(batch)
        self.close()
        return found

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        self.enumerator.close()


@dataclass
class WriterContext:
    """Implements SinkWriterContext."""

    subtask_index: int = 0
    parallelism: int = 1
    attempt_number: int = 0
    operator_name: str = "test sink"
    job_id: str = "job"
    restored_checkpoint_id: int | None = None

    def now_ms(self) -> int:
        return 0


def write_all(sink: Sink, batches_per_subtask: Sequence[Sequence[Batch]]) -> None:
    """Writes, ends and commits each subtask, as a job without checkpoints does."""
    for subtask, batches in enumerate(batches_per_subtask):
        writer = sink.create_writer(WriterContext(subtask, len(batches_per_subtask)))
        committer = sink.create_committer()
        assert committer is not None
        for batch in batches:
            writer.write(batch)
        writer.flush(end_of_input=True)
        committer.commit(requests_of(writer.prepare_commit(1)))
        committer.close()
        writer.close()

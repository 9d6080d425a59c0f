"""Sources one after another, while single readers and whole jobs go back to checkpoints: each row is read once, and
none of a source before all of the one before it."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NoReturn

import cloudpickle
import pytest

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.source_coordinator import SourceCoordinator
from actors.protocol.operator_events import AddSplits, ReaderRegistered, SourceEvent, SplitRequested
from flinkray.batches.row_codec import decode
from flinkray.connectors.datagen.source import DataGenSource, SequenceField
from flinkray.connectors.hybrid.source import HybridSource
from flinkray.connectors.sequence.source import SequenceSource
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceReader
from flinkray.errors import InvalidProgramError
from flinkray.time.watermarks import WatermarkStrategy

Rows = list[int]


class Reader:
    """A subtask: its reader, what it has read, and what is on its way to it and from it."""

    batch_rows = 3
    may_read_again = True

    def __init__(self, source: HybridSource, splits: list[Any], rows: Rows) -> None:
        self.rows = list(rows)
        self.inbox: deque[Any] = deque()
        self.outbox: deque[Any] = deque()
        self.is_done = False
        self.reader: SourceReader = source.create_reader(self)  # type: ignore[arg-type]
        if splits:
            self.reader.add_splits(splits)
        self.reader.start()

    def send_split_request(self) -> None:
        self.outbox.append(None)

    def send_source_event(self, event: Any) -> None:
        self.outbox.append(event)

    def notify_available(self) -> None: ...

    def split_finished(self, split_id: str) -> None: ...

    def poll(self) -> None:
        given = self.reader.poll()
        if isinstance(given, SourceBatch):
            self.rows += decode(given.batch)
        self.is_done = given is ReaderStatus.END_OF_INPUT


class Run:
    """A source with its coordinator and readers, which proceed, take checkpoints and fail as the seed says."""

    def __init__(self, source: HybridSource, seed: int) -> None:
        self.source = source
        self.random = random.Random(seed)
        self.parallelism = self.random.randint(1, 3)
        self.last_id = 0
        self.pending: tuple[int, bytes, dict[int, tuple[list[Any], Rows]]] | None = None
        self.completed: tuple[int, bytes, list[tuple[list[Any], Rows]]] | None = None
        self.begin(None, [([], []) for _ in range(self.parallelism)])

    # -- CoordinatorContext

    def now_ms(self) -> int:
        return 0

    def send_event(self, subtask_index: int, event: Any) -> None:
        self.readers[subtask_index].inbox.append(event)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Any: ...

    def fail_job(self, error: BaseException) -> NoReturn:
        raise error

    # -- life

    def begin(self, state: bytes | None, readers: list[tuple[list[Any], Rows]]) -> None:
        strategy = WatermarkStrategy.no_watermarks()
        self.coordinator = SourceCoordinator("source", self.source, strategy, self, WatermarkAlignment())
        self.readers = [Reader(self.source, *each) for each in readers]
        if state is not None:
            self.coordinator.restore(state)
        self.coordinator.start()
        for index in range(self.parallelism):
            self.coordinator.handle_event(index, ReaderRegistered(index))

    def step(self) -> None:
        index = self.random.randrange(self.parallelism)
        reader = self.readers[index]
        action = self.random.random()
        if action < 0.35 and reader.inbox:
            self.deliver(index)
        elif action < 0.6 and reader.outbox:
            self.hear(index)
        elif action < 0.9:
            reader.poll()
        elif action < 0.95:
            self.last_id += 1
            self.pending = (self.last_id, self.coordinator.snapshot(self.last_id), {})
            for each in self.readers:
                each.inbox.append(self.last_id)
        elif action < 0.98:
            self.restart_subtask(index)
        elif action < 0.99:
            self.restart_all()

    def hear(self, index: int) -> None:
        event = self.readers[index].outbox.popleft()
        said = SplitRequested(index) if event is None else SourceEvent(index, event)
        self.coordinator.handle_event(index, said)

    def deliver(self, index: int) -> None:
        reader = self.readers[index]
        event = reader.inbox.popleft()
        match event:
            case AddSplits():
                reader.reader.add_splits(cloudpickle.loads(event.splits_bytes))
            case SourceEvent():
                reader.reader.handle_source_event(event.event)
            case int() if self.pending is not None and self.pending[0] == event:
                states = self.pending[2]
                states[index] = (reader.reader.snapshot_state(event), list(reader.rows))
                if len(states) == self.parallelism:
                    self.completed = (event, self.pending[1], [states[each] for each in range(self.parallelism)])
                    self.pending = None
                    self.coordinator.notify_checkpoint_complete(event)

    def restart_subtask(self, index: int) -> None:
        self.pending = None
        checkpoint_id, state = (
            (None, ([], [])) if self.completed is None else (self.completed[0], self.completed[2][index])
        )
        self.coordinator.subtask_failed(index, checkpoint_id)
        self.readers[index] = Reader(self.source, *state)
        self.coordinator.handle_event(index, ReaderRegistered(index))

    def restart_all(self) -> None:
        """Perhaps at another parallelism; lists of state are shared out in turn."""
        self.pending = None
        self.coordinator.close()
        if self.completed is None:
            self.begin(None, [([], []) for _ in range(self.parallelism)])
            return
        checkpoint_id, state, former = self.completed
        self.parallelism = self.random.randint(1, 3)
        splits = [split for each, _ in former for split in each]
        rows = [row for _, each in former for row in each]
        former = [(splits[i :: self.parallelism], rows[i :: self.parallelism]) for i in range(self.parallelism)]
        self.completed = (checkpoint_id, state, former)
        self.begin(state, former)

    def finish(self) -> None:
        for _ in range(10_000):
            for index, reader in enumerate(self.readers):
                while reader.inbox:
                    self.deliver(index)
                while reader.outbox:
                    self.hear(index)
                reader.poll()
            if all(reader.is_done and not reader.inbox for reader in self.readers):
                return
        raise AssertionError("the source does not end")


def source() -> HybridSource:
    """0 to 19, 20 to 29 by a source that is made for what was before, and 30 to 59."""
    return HybridSource(SequenceSource(0, 19), lambda _before: SequenceSource(20, 29), SequenceSource(30, 59))


@pytest.mark.parametrize("seed", range(60))
def test_each_row_is_read_once_whatever_is_restored_when(seed: int) -> None:
    run = Run(source(), seed)
    for _ in range(150):
        run.step()
    run.finish()
    assert Counter(row for reader in run.readers for row in reader.rows) == Counter(range(60))


def test_a_source_begins_when_all_readers_have_read_the_one_before() -> None:
    run = Run(source(), 0)
    while not all(reader.is_done for reader in run.readers):
        for index, reader in enumerate(run.readers):
            reader.poll()
            if any(row >= 20 for row in reader.rows):
                assert sum(row < 20 for each in run.readers for row in each.rows) == 20
            for _ in range(len(reader.outbox)):
                run.hear(index)
            for _ in range(len(reader.inbox)):
                run.deliver(index)


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ((), "at least one"),
        ((lambda _before: SequenceSource(0, 1),), "the first source must be a Source"),
        ((DataGenSource({"n": SequenceField(0, 1)}), SequenceSource(0, 1)), "source 1 of 2, DataGenSource, never ends"),
        ((SequenceSource(0, 1), "topic"), "source 2 must be a Source or a function"),
    ],
)
def test_sources_that_cannot_follow_each_other_are_refused(sources: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        HybridSource(*sources)


def test_what_a_function_makes_is_checked() -> None:
    run = Run(HybridSource(SequenceSource(0, 1), lambda _before: None), 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(Exception, match="made None where it should make the next Source"):
        run.finish()

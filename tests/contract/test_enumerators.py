"""What every enumerator must do, whatever is restored when: each split is read exactly once."""

from __future__ import annotations

import itertools
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import cloudpickle
import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyarrow import fs

from actors.blocks.source import BlockSource, BlockSplit
from actors.blocks.store import Block
from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.source_coordinator import SourceCoordinator
from actors.protocol.operator_events import AddSplits, NoMoreSplits, ReaderRegistered, SourceEvent, SplitRequested
from actors.spark.staged_reader import StagedSplit
from examples.fraud_detection import PaymentSource
from flinkray.connectors.collection.source import ArrowSource, CollectionSource
from flinkray.connectors.datagen.source import DataGenSource, SequenceField
from flinkray.connectors.files.formats import FileSplit
from flinkray.connectors.files.monitoring import FileMonitor
from flinkray.connectors.files.paths import FoundFile
from flinkray.connectors.files.source import FileSource
from flinkray.connectors.postgres.changes.enumerator import ChangesEnumerator
from flinkray.connectors.postgres.changes.splits import SnapshotSplit
from flinkray.connectors.sequence.source import SequenceSource
from flinkray.connectors.source import Boundedness, Source, SourceReader, SplitEnumerator
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.types.records import Kind, RecordType
from tests.support.staged_streams import Stage, staged_source
from tests.support.table_changes import SETTINGS, ScriptedServer, read

SEEDS = range(40)
SYSTEM = fs.LocalFileSystem()
ROUNDS = 30
"""A source that never ends has shown all of its splits after so many rounds."""


class NoStore:
    """Blocks are not read here."""

    store_id = "none"

    def renew_lease(self) -> None: ...

    def end_lease(self) -> None: ...


def blocks(is_ordered: bool) -> Source:
    rows = [pa.record_batch({"n": list(range(count))}) for count in (3, 1, 4, 2, 5)]
    found = [Block.of(f"block-{index}", batch) for index, batch in enumerate(rows)]
    store: Any = NoStore()
    return BlockSource(store, found, RecordType(Kind.ROW, rows[0].schema), is_ordered)


def files(directory: Path) -> Source:
    for index in range(7):
        (directory / f"{index}.csv").write_text("n\n1\n2\n")
    return FileSource(str(directory), format="csv").prepare()


def staged(directory: Path) -> Source:
    stage = Stage(str(directory))
    for files in (2, 0, 3, 1, 4, 2, 1):
        stage.add(*[[1]] * files)
    stage.end()
    return staged_source(stage.staging)


class WatchedDirectory(Source):
    """Files of which each listing has one more, until there are seven: the later, the older its name."""

    boundedness = Boundedness.UNBOUNDED

    def create_enumerator(self, context: Any, restored: Any = None) -> SplitEnumerator:
        listings = itertools.count(len(restored.found) if restored is not None else 0)

        def listed() -> list[FoundFile]:
            return [FoundFile(SYSTEM, f"{9 - number}", 1, number) for number in range(min(next(listings), 7))]

        def cut(file: FoundFile) -> list[tuple[FileSplit, int | None]]:
            return [(FileSplit(f"{file.path}#{part}", file.path, SYSTEM, part), None) for part in range(2)]

        return FileMonitor(context, [listed], cut, 1, restored)

    def create_reader(self, context: Any) -> SourceReader:
        raise NotImplementedError


class TableChanges(Source):
    """The changes of a table, at a server that is scripted."""

    boundedness = Boundedness.BOUNDED

    def create_enumerator(self, context: Any, restored: Any = None) -> SplitEnumerator:
        return ChangesEnumerator(context, replace(SETTINGS, is_bounded=True), restored)

    def create_reader(self, context: Any) -> SourceReader:
        raise NotImplementedError


SOURCES: dict[str, Callable[[Path], Source]] = {
    "sequence": lambda _path: SequenceSource(1, 100),
    "table": lambda _path: ArrowSource(pa.table({"n": list(range(50))})),
    "collection": lambda _path: CollectionSource(list(range(20))),
    "generated rows": lambda _path: DataGenSource({"n": SequenceField(0, 99)}, rows=100),
    "files": files,
    "a watched directory": lambda _path: WatchedDirectory(),
    "blocks": lambda _path: blocks(is_ordered=False),
    "ordered blocks": lambda _path: blocks(is_ordered=True),
    "staged batches": staged,
    "changes of a table": lambda _path: TableChanges(),
    "the example's own": lambda _path: PaymentSource(cards=10, minutes=2),
}


def name_of(split: Any) -> str:
    return str(split.order) if isinstance(split, BlockSplit | StagedSplit) else str(split.split_id)


@dataclass
class Reader:
    """Has splits, and reads a whole one at a time."""

    splits: list[Any] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)
    has_no_more: bool = False
    has_asked: bool = False
    inbox: deque[Any] = field(default_factory=deque)
    """Events and barriers (numbers), in order."""

    @property
    def is_done(self) -> bool:
        return self.has_no_more and not self.splits and not self.inbox


State = tuple[list[Any], list[Any]]


class Run:
    """A source with its coordinator and readers: they proceed, take checkpoints and fail as the seed says."""

    def __init__(self, source: Source, seed: int) -> None:
        self.source = source
        self.random = random.Random(seed)
        self.parallelism = self.random.randrange(1, 5)
        self.last_id = 0
        self.pending: tuple[int, bytes, dict[int, State]] | None = None
        self.completed: tuple[int, bytes, list[State]] | None = None
        self.begin(None, [([], []) for _ in range(self.parallelism)])
        self.all = Counter(name_of(split) for split in self.source_splits())

    def source_splits(self) -> list[Any]:
        """Every split there is: what a new enumerator has."""
        run = object.__new__(Run)
        run.source, run.parallelism, run.pending, run.completed = self.source, self.parallelism, None, None
        run.random, run.last_id = random.Random(0), 0
        run.begin(None, [([], []) for _ in range(self.parallelism)])
        run.drain()
        return [split for reader in run.readers for split in reader.read]

    def drain(self) -> None:
        """Reads until every reader hears that there are no more splits, or an endless source gives no more."""
        for number in range(100_000):
            is_endless = isinstance(self.source, WatchedDirectory)
            if number == ROUNDS if is_endless else all(reader.is_done for reader in self.readers):
                return
            self.trigger()  # the log of a table's changes waits for a checkpoint
            self.tick()
            for index, reader in enumerate(self.readers):
                self.ask(index)
                while reader.inbox:
                    self.deliver(index)
                while reader.splits:
                    self.read_one(index)
        pytest.fail("a reader never hears that there are no more splits")

    # -- CoordinatorContext --------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return 0

    def send_event(self, subtask_index: int, event: Any) -> None:
        self.readers[subtask_index].inbox.append(event)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        self.timers.append(callback)

    def fail_job(self, error: BaseException) -> NoReturn:
        raise error

    # -- life ----------------------------------------------------------------------------------------------------

    def begin(self, state: bytes | None, readers: list[State]) -> None:
        self.timers: list[Callable[[], None]] = []
        strategy = WatermarkStrategy.no_watermarks()
        self.coordinator = SourceCoordinator("source", self.source, strategy, self, WatermarkAlignment())
        self.readers = [Reader(list(splits), list(read)) for splits, read in readers]
        if state is not None:
            self.coordinator.restore(state)
        self.coordinator.start()
        for index in self.random.sample(range(self.parallelism), self.parallelism):
            self.register(index)

    def register(self, index: int) -> None:
        self.coordinator.handle_event(index, ReaderRegistered(index))
        for split in self.readers[index].read:
            self.report(index, split)

    def report(self, index: int, split: Any) -> None:
        """Readers of a table's changes say what of its snapshot they have read."""
        if isinstance(split, SnapshotSplit):
            self.coordinator.handle_event(index, SourceEvent(index, read(split)))

    def read_one(self, index: int) -> None:
        reader = self.readers[index]
        reader.read.append(reader.splits.pop(0))
        self.report(index, reader.read[-1])

    def tick(self) -> None:
        """Time passes until every timer has fired."""
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()

    def ask(self, index: int) -> None:
        reader = self.readers[index]
        if not reader.splits and not reader.has_asked and not reader.has_no_more:
            reader.has_asked = True
            self.coordinator.handle_event(index, SplitRequested(index))

    def deliver(self, index: int) -> None:
        reader = self.readers[index]
        event = reader.inbox.popleft()
        match event:
            case AddSplits():
                reader.splits += cloudpickle.loads(event.splits_bytes)
                reader.has_asked = False
            case NoMoreSplits():
                reader.has_no_more = True
            case int():
                self.on_barrier(index, event)

    def on_barrier(self, index: int, checkpoint_id: int) -> None:
        if self.pending is None or self.pending[0] != checkpoint_id:
            return
        reader, states = self.readers[index], self.pending[2]
        states[index] = (list(reader.splits), list(reader.read))
        if len(states) == self.parallelism:
            self.completed = (checkpoint_id, self.pending[1], [states[each] for each in range(self.parallelism)])
            self.pending = None
            self.coordinator.notify_checkpoint_complete(checkpoint_id)

    def step(self) -> None:
        self.tick()
        index = self.random.randrange(self.parallelism)
        reader = self.readers[index]
        action = self.random.random()
        if action < 0.35 and reader.inbox:
            self.deliver(index)
        elif action < 0.6 and reader.splits:
            self.read_one(index)
        elif action < 0.9:
            self.ask(index)
        elif action < 0.96:
            self.trigger()
        elif action < 0.985:
            self.restart_subtask(index)
        else:
            self.restart_all()

    def trigger(self) -> None:
        self.last_id += 1
        self.pending = (self.last_id, self.coordinator.snapshot(self.last_id), {})
        for reader in self.readers:
            reader.inbox.append(self.last_id)

    def restart_subtask(self, index: int) -> None:
        self.pending = None
        checkpoint_id, state = None, ([], [])
        if self.completed is not None:
            checkpoint_id, state = self.completed[0], self.completed[2][index]
        self.coordinator.subtask_failed(index, checkpoint_id)
        self.readers[index] = Reader(list(state[0]), list(state[1]))
        self.register(index)

    def restart_all(self) -> None:
        """Perhaps at another parallelism; lists of state are shared out in turn."""
        self.pending = None
        self.coordinator.close()
        if self.completed is None:
            self.begin(None, [([], []) for _ in range(self.parallelism)])
            return
        checkpoint_id, state, former = self.completed
        self.parallelism = self.random.choice([self.parallelism, self.random.randrange(1, 5)])
        splits = [split for each, _ in former for split in each]
        done = [split for _, each in former for split in each]
        if self.parallelism != len(former):
            former = [(splits[i :: self.parallelism], done[i :: self.parallelism]) for i in range(self.parallelism)]
        self.completed = (checkpoint_id, state, former)
        self.begin(state, former)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_split_is_read_exactly_once_whatever_is_restored_when(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedServer(monkeypatch)
    source = SOURCES[kind](tmp_path)
    for seed in SEEDS:
        run = Run(source, seed)
        assert run.all, "a source without splits proves nothing"
        for _ in range(120):
            run.step()
        run.drain()
        # A source may cut its rows by the parallelism that it is started with.
        assert Counter(name_of(split) for reader in run.readers for split in reader.read) == run.all, f"seed {seed}"

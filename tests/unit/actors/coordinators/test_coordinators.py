"""Rules of the coordinators: whose splits are whose, and rows that reach the driver once and in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import pytest

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.collect_coordinator import CollectCoordinator
from actors.coordinators.factory import create_coordinator
from actors.coordinators.source_coordinator import SourceCoordinator
from actors.coordinators.threaded import ThreadedCoordinator
from actors.protocol.operator_events import (
    AddSplits,
    NoMoreSplits,
    ReaderRegistered,
    RowsCollected,
    RowsPersisted,
    RowsTaken,
    SourceEvent,
    SplitRequested,
    WatermarkLimited,
    WatermarkReported,
)
from actors.protocol.ports import Loop
from flinkray.connectors.collect.sink import CollectSink
from flinkray.connectors.discard.sink import DiscardSink
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import ConnectorError, ErrorInfo, FlinkrayError, UserFunctionError
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import SinkFactory, SourceFactory
from flinkray.types.records import MAX_TIMESTAMP, OperatorId, Timestamp
from graphs.job_graph import CoordinatorConfig
from tests.support.tasks import ManualTime, numbers


@dataclass
class FakeJobMaster:
    """A CoordinatorContext that keeps what it is asked to do."""

    parallelism: int = 2
    sent: list[tuple[int, Any]] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    time: ManualTime = field(default_factory=ManualTime)

    def now_ms(self) -> int:
        return self.time.now

    def send_event(self, subtask_index: int, event: Any) -> None:
        if isinstance(event, AddSplits):
            event = ("splits", cloudpickle.loads(event.splits_bytes))
        self.sent.append((subtask_index, event))

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        return self.time.call_later(delay_ms, callback)

    def fail_job(self, error: BaseException) -> None:
        self.failures.append(error)

    def run(self, callback: Callable[[], None]) -> None:
        callback()

    def start_loop(self, name: str, loop: Loop) -> None:
        """Never steps it."""


class Enumerator(SplitEnumerator):
    """Gives one letter per request."""

    def __init__(self, context: SplitEnumeratorContext, letters: str) -> None:
        self.context = context
        self.pending = list(letters)
        self.log: list[Any] = []

    def start(self) -> None:
        self.log.append("start")

    def handle_split_request(self, subtask_index: int) -> None:
        if self.pending:
            self.context.assign_splits([self.pending.pop(0)], subtask_index)
        else:
            self.context.signal_no_more_splits(subtask_index)

    def add_reader(self, subtask_index: int) -> None:
        self.log.append(("reader", subtask_index))

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        self.log.append(("back", subtask_index, list(splits)))
        self.pending[:0] = splits

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return list(self.pending)

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        if event == "fail":
            raise ValueError("a bad event")
        self.context.send_event_to_reader(subtask_index, f"{event} back")

    def close(self) -> None:
        self.log.append("close")


class Letters(Source):
    def __init__(self, letters: str, make: Callable[[Any, str], SplitEnumerator] = Enumerator) -> None:
        self.letters = letters
        self.make = make
        self.enumerator: Any = None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        self.enumerator = self.make(context, self.letters)
        return self.enumerator

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        raise AssertionError("the coordinator makes no readers")


@pytest.fixture
def job_master() -> FakeJobMaster:
    return FakeJobMaster()


NONE = WatermarkStrategy.no_watermarks()


def started(
    job_master: FakeJobMaster,
    source: Letters,
    strategy: WatermarkStrategy = NONE,
    alignment: WatermarkAlignment | None = None,
) -> SourceCoordinator:
    coordinator = SourceCoordinator("letters", source, strategy, job_master, alignment or WatermarkAlignment())
    coordinator.start()
    return coordinator


def test_splits_go_to_the_reader_that_asks_until_there_are_no_more(job_master: FakeJobMaster) -> None:
    source = Letters("ab")
    coordinator = started(job_master, source)
    for subtask in (0, 1):
        coordinator.handle_event(subtask, ReaderRegistered(subtask))
    for subtask in (1, 0, 1):
        coordinator.handle_event(subtask, SplitRequested(subtask))
    assert job_master.sent == [(1, ("splits", ["a"])), (0, ("splits", ["b"])), (1, NoMoreSplits())]
    assert source.enumerator.log == ["start", ("reader", 0), ("reader", 1)]
    assert source.enumerator.context.registered_readers == {0, 1}


def test_the_splits_of_a_lost_reader_come_back_and_go_to_its_successor(job_master: FakeJobMaster) -> None:
    source = Letters("abc")
    coordinator = started(job_master, source)
    coordinator.handle_event(0, ReaderRegistered(0))
    coordinator.handle_event(0, SplitRequested(0))
    coordinator.handle_event(0, SplitRequested(0))
    coordinator.subtask_failed(0)
    assert source.enumerator.log[-1] == ("back", 0, ["a", "b"])
    assert source.enumerator.context.registered_readers == frozenset()
    coordinator.subtask_failed(0)
    assert source.enumerator.log.count(("back", 0, ["a", "b"])) == 1, "splits come back once"
    job_master.sent.clear()
    coordinator.handle_event(0, ReaderRegistered(0))
    coordinator.handle_event(0, SplitRequested(0))
    assert job_master.sent == [(0, ("splits", ["a"]))]


def test_what_is_assigned_before_the_reader_registers_waits_for_it(job_master: FakeJobMaster) -> None:
    source = Letters("")
    coordinator = started(job_master, source)
    source.enumerator.context.assign_splits(["early"], 1)
    source.enumerator.context.signal_no_more_splits(1)
    assert job_master.sent == []
    coordinator.handle_event(1, ReaderRegistered(1))
    assert job_master.sent == [(1, ("splits", ["early"])), (1, NoMoreSplits())]


def test_a_lost_reader_gives_back_what_was_waiting_for_it(job_master: FakeJobMaster) -> None:
    source = Letters("")
    coordinator = started(job_master, source)
    source.enumerator.context.assign_splits(["early"], 1)
    coordinator.subtask_failed(1)
    assert source.enumerator.pending == ["early"]
    coordinator.handle_event(1, ReaderRegistered(1))
    assert job_master.sent == []


def test_source_events_go_both_ways(job_master: FakeJobMaster) -> None:
    coordinator = started(job_master, Letters(""))
    coordinator.handle_event(1, ReaderRegistered(1))
    coordinator.handle_event(1, SourceEvent(1, "hello"))
    assert job_master.sent == [(1, SourceEvent(1, "hello back"))]


def test_what_an_enumerator_raises_fails_the_job_and_names_the_source(job_master: FakeJobMaster) -> None:
    coordinator = started(job_master, Letters(""))
    coordinator.handle_event(1, SourceEvent(1, "fail"))
    (error,) = job_master.failures
    assert isinstance(error, UserFunctionError)
    assert error.operator == "letters"
    assert "ValueError: a bad event" in str(error)
    assert isinstance(error.__cause__, ValueError)


def test_an_enumerator_that_cannot_be_made_fails_the_job(job_master: FakeJobMaster) -> None:
    def fail(_context: Any, _letters: str) -> SplitEnumerator:
        raise OSError("no such table")

    coordinator = started(job_master, Letters("", fail))
    assert "no such table" in str(job_master.failures[0])
    coordinator.handle_event(0, ReaderRegistered(0))
    coordinator.close()


def test_an_error_of_ours_of_an_enumerator_fails_the_job_as_it_is_and_names_the_source(
    job_master: FakeJobMaster,
) -> None:
    def fail(_context: Any, _letters: str) -> SplitEnumerator:
        raise ConnectorError("no broker answers")

    started(job_master, Letters("", fail))
    (error,) = job_master.failures
    assert isinstance(error, ConnectorError)
    assert str(error) == "operator 'letters' (subtask enumerator): no broker answers"
    assert ErrorInfo.of(error).traceback_text == ""


def test_assigning_to_a_subtask_that_does_not_exist_fails_the_job(job_master: FakeJobMaster) -> None:
    source = Letters("")
    coordinator = started(job_master, source)
    source.enumerator.handle_split_request = lambda _subtask: source.enumerator.context.assign_splits(["x"], 5)
    coordinator.handle_event(0, SplitRequested(0))
    assert "there is no subtask 5, the source has 2" in str(job_master.failures[0])


def test_callbacks_of_an_enumerator_stop_with_the_job(job_master: FakeJobMaster) -> None:
    source = Letters("")
    coordinator = started(job_master, source)
    found: list[str] = []
    source.enumerator.context.call_later(10, lambda: found.append("in time"))
    source.enumerator.context.call_later(50, lambda: found.append("too late"))
    job_master.time.advance(20)
    coordinator.close()
    coordinator.close()
    job_master.time.advance(100)
    assert found == ["in time"]
    assert source.enumerator.log.count("close") == 1


# -- alignment ---------------------------------------------------------------------------------------------------


def limits(job_master: FakeJobMaster) -> list[int]:
    """What the readers were last told."""
    told = [event.highest for _, event in job_master.sent if isinstance(event, WatermarkLimited)]
    job_master.sent.clear()
    return told


def test_readers_of_a_group_are_limited_by_its_slowest_across_sources() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("g", 100, 1000)
    alignment = WatermarkAlignment()
    masters = FakeJobMaster(parallelism=1), FakeJobMaster(parallelism=1)
    fast, slow = (started(master, Letters(""), strategy, alignment) for master in masters)
    for coordinator, watermark in ((fast, 5000), (slow, 300)):
        coordinator.handle_event(0, ReaderRegistered(0))
        coordinator.handle_event(0, WatermarkReported(Timestamp(watermark)))
    for master in masters:
        master.time.advance(1000)
    assert [limits(master) for master in masters] == [[400], [400]]
    slow.handle_event(0, WatermarkReported(MAX_TIMESTAMP))
    masters[0].time.advance(1000)
    assert limits(masters[0]) == [5100]
    fast.subtask_failed(0)
    masters[1].time.advance(1000)
    assert limits(masters[1]) == [MAX_TIMESTAMP]
    slow.close()
    masters[1].time.advance(5000)
    assert limits(masters[1]) == []


def test_a_source_without_alignment_sends_no_limits(job_master: FakeJobMaster) -> None:
    coordinator = started(job_master, Letters(""))
    coordinator.handle_event(0, ReaderRegistered(0))
    job_master.time.advance(10_000)
    assert limits(job_master) == []


# -- collected rows ----------------------------------------------------------------------------------------------


@pytest.fixture
def collect(job_master: FakeJobMaster) -> CollectCoordinator:
    return CollectCoordinator("collect", "id", job_master)


def values(batches: list[Any]) -> list[list[int]]:
    return [batch.data.column(0).to_pylist() for batch in batches]


def rows(subtask: int, sequence: int, *numbers_: int) -> RowsCollected:
    return RowsCollected(subtask, sequence, numbers(*numbers_))


def test_rows_are_acknowledged_when_the_driver_takes_them_not_when_they_arrive(
    collect: CollectCoordinator, job_master: FakeJobMaster
) -> None:
    collect.handle_event(0, rows(0, 0, 1))
    collect.handle_event(1, rows(1, 0, 2))
    collect.handle_event(0, rows(0, 1, 3))
    assert job_master.sent == []
    taken, is_end = collect.take(2, collect.positions)
    assert (values(taken), is_end) == ([[1], [2]], False)
    assert job_master.sent == [(0, RowsPersisted(1)), (0, RowsTaken(0)), (1, RowsPersisted(1)), (1, RowsTaken(0))]
    taken, _ = collect.take(10, collect.positions)
    assert values(taken) == [[3]]
    assert job_master.sent[4:] == [(0, RowsPersisted(2)), (0, RowsTaken(1))]


def test_a_batch_that_comes_twice_counts_once(collect: CollectCoordinator) -> None:
    collect.handle_event(0, rows(0, 0, 1))
    collect.handle_event(0, rows(0, 0, 1))
    collect.handle_event(0, rows(0, 1, 2))
    assert values(collect.take(10, collect.positions)[0]) == [[1], [2]]


def test_a_gap_fails_the_job(collect: CollectCoordinator, job_master: FakeJobMaster) -> None:
    collect.handle_event(0, rows(0, 1, 1))
    assert "sink 'collect' (subtask 1): rows were lost, batch 1 came where 0 was due" in str(job_master.failures[0])


def test_the_end_comes_after_the_job_has_ended_and_all_rows_are_taken(collect: CollectCoordinator) -> None:
    collect.handle_event(0, rows(0, 0, 1))
    collect.handle_event(0, rows(0, 1, 2))
    collect.close()
    found = [collect.take(1, collect.positions) for _ in range(3)]
    assert [(values(taken), is_end) for taken, is_end in found] == [([[1]], False), ([[2]], True), ([], True)]


def test_an_answer_that_did_not_arrive_is_given_again(collect: CollectCoordinator) -> None:
    for number in range(3):
        collect.handle_event(0, rows(0, number, number))
    for positions in ((), (1, 0, 0), (2, 0, 0)):
        taken, _ = collect.take(1, positions)
        again, _ = collect.take(1, positions)
        assert values(taken) == values(again) == [[sum(positions)]]
    assert collect.take(1, (3, 0, 0)) == ([], False)


def test_rows_of_a_lost_attempt_that_nobody_has_seen_are_replaced(collect: CollectCoordinator) -> None:
    collect.handle_event(0, rows(0, 0, 1))
    collect.handle_event(1, rows(1, 0, 7))
    collect.subtask_failed(0)
    collect.handle_event(0, rows(0, 0, 1))
    assert values(collect.take(10, collect.positions)[0]) == [[7], [1]]


def test_a_restart_after_rows_were_taken_is_an_error_for_the_driver(collect: CollectCoordinator) -> None:
    collect.handle_event(0, rows(0, 0, 1))
    collect.take(1, collect.positions)
    collect.subtask_failed(0)
    with pytest.raises(FlinkrayError, match=r"sink 'collect' \(subtask 1 of 2\) was restarted"):
        collect.take(1, collect.positions)


# -- making them -------------------------------------------------------------------------------------------------


def config(factory: Any) -> CoordinatorConfig:
    return CoordinatorConfig(OperatorId("id"), "numbers", cloudpickle.dumps(factory))


def test_sources_and_collecting_sinks_have_coordinators(job_master: FakeJobMaster) -> None:
    source = create_coordinator(
        config(SourceFactory(Letters("a"), WatermarkStrategy.no_watermarks())), job_master, WatermarkAlignment()
    )
    assert isinstance(source, ThreadedCoordinator)
    sink = create_coordinator(config(SinkFactory(CollectSink("rows"))), job_master, WatermarkAlignment())
    assert isinstance(sink, CollectCoordinator)
    assert sink.collect_id == "rows"


def test_other_operators_have_none(job_master: FakeJobMaster) -> None:
    with pytest.raises(FlinkrayError, match="operator 'numbers' of SinkFactory has no coordinator"):
        create_coordinator(config(SinkFactory(DiscardSink())), job_master, WatermarkAlignment())


@pytest.mark.parametrize("code", [b"cno.such.module\nname\n.", b"csys\nexit\n(I3\ntR."], ids=["missing", "a script"])
def test_code_that_cannot_be_loaded_at_the_job_master_is_named(job_master: FakeJobMaster, code: bytes) -> None:
    broken = CoordinatorConfig(OperatorId("id"), "numbers", code)
    with pytest.raises(FlinkrayError, match=r"operator 'numbers': its code cannot be loaded at the JobMaster.*working"):
        create_coordinator(broken, job_master, WatermarkAlignment())

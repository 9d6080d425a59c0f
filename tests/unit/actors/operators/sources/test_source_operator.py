"""Rules of source operators: polling, event time per split, idleness, and their end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from actors.operators.sources.operator import SourceOperator
from actors.protocol.elements import CheckpointOptions, LatencyMarker, Watermark
from actors.protocol.operator_events import (
    AddSplits,
    NoMoreSplits,
    ReaderRegistered,
    SourceEvent,
    SplitRequested,
    WatermarkLimited,
    WatermarkReported,
)
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.connectors.source import (
    Boundedness,
    ReaderStatus,
    Source,
    SourceBatch,
    SourceProgress,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import UserFunctionError
from flinkray.tables.plans.expressions import Column
from flinkray.tables.types.logical import TIMESTAMP
from flinkray.testing.clock import ManualClock
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import SourceFactory
from flinkray.transformations.table_window_factories import WatermarkAssignerFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp
from tests.support.operators import FakeContext, OperatorHarness, RecordedOutput, code
from tests.support.state import restored_from
from tests.support.tasks import END, LOG, Node, Probe, TaskHarness, events_of, numbers, plain

FINISHED = "finished"
FAIL = "fail"


@dataclass(frozen=True)
class Split:
    """Its items are batches (rows are also their event times), what it says of event time, "finished", or "fail"."""

    split_id: str
    items: tuple[Any, ...] = ()


class Reader(SourceReader):
    """Reads all its splits in turns, one item per poll."""

    def __init__(self, context: SourceReaderContext) -> None:
        self.context = context
        self.splits: dict[str, deque[Any]] = {}
        self.turns: deque[str] = deque()
        self.ended: set[str] = set()
        self.has_no_more = False
        self.is_closed = False

    def start(self) -> None:
        self.context.send_split_request()

    def poll(self) -> SourceBatch | SourceProgress | ReaderStatus:
        for _ in range(len(self.turns)):
            self.turns.rotate(-1)
            split_id = self.turns[-1]
            items = self.splits[split_id]
            if items:
                return self._take(split_id, items)
        if self.has_no_more and not any(self.splits.values()):
            return ReaderStatus.END_OF_INPUT
        return ReaderStatus.NOTHING_AVAILABLE

    def _take(self, split_id: str, items: deque[Any]) -> SourceBatch | SourceProgress:
        item = items.popleft()
        if item == FAIL:
            raise ValueError("a bad row")
        if items and items[0] == FINISHED:
            items.popleft()
            self.ended.add(split_id)
            self.context.split_finished(split_id)
        return item if isinstance(item, SourceProgress) else SourceBatch(item, split_id)

    def add_splits(self, splits: Sequence[Any]) -> None:
        for split in splits:
            self.splits[split.split_id] = deque(split.items)
            self.turns.append(split.split_id)

    def add_items(self, split_id: str, *items: Any) -> None:
        self.splits[split_id].extend(items)
        self.context.notify_available()

    def notify_no_more_splits(self) -> None:
        self.has_no_more = True

    def handle_source_event(self, event: Any) -> None:
        self.context.send_source_event(f"{event} back")

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [Split(split_id, tuple(items)) for split_id, items in self.splits.items() if split_id not in self.ended]

    def pending_rows(self) -> int:
        return sum(item.num_rows for items in self.splits.values() for item in items if isinstance(item, Batch))

    def close(self) -> None:
        self.is_closed = True


READERS: list[Reader] = []


class Letters(Source):
    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        raise AssertionError("a task makes no enumerator")

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        READERS.append(Reader(context))
        return READERS[-1]


MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("value")


NONE = WatermarkStrategy.no_watermarks()


def source_task(strategy: WatermarkStrategy = NONE, **settings: Any) -> TaskHarness:
    READERS.clear()
    return TaskHarness(
        [Node("letters", SourceFactory(Letters(), strategy), out=[0])],
        consumers=[1],
        configuration=Configuration(settings),
    ).start()


def give(task: TaskHarness, *splits: Split, is_last: bool = False) -> None:
    """What the coordinator sends."""
    operator_id = task.deployment.operators[0].operator_id
    task.task.deliver_event(operator_id, AddSplits(cloudpickle.dumps(list(splits))))
    if is_last:
        task.task.deliver_event(operator_id, NoMoreSplits())
    task.run_until_idle()


def test_a_source_registers_before_it_asks_for_splits() -> None:
    task = source_task()
    assert [event for _, event in task.sent] == [ReaderRegistered(0), SplitRequested(0)]
    assert task.sent[0][0] == task.deployment.operators[0].operator_id


def test_a_bounded_source_ends_with_the_last_watermark_and_then_the_end_of_data() -> None:
    task = source_task()
    give(task, Split("a", (numbers(1), numbers(2))), is_last=True)
    assert plain(task.out()) == [[1, 2], ("mark", MAX_TIMESTAMP), "EndOfData", "EndOfPartition"]
    assert task.states[-1] == "FINISHED"
    assert task.reports[-1].metrics.records_in == 2
    assert task.reports[-1].metrics.records_out == 2
    assert READERS[0].is_closed


def test_a_source_without_splits_ends_too() -> None:
    task = source_task()
    give(task, is_last=True)
    assert plain(task.out()) == [("mark", MAX_TIMESTAMP), "EndOfData", "EndOfPartition"]


def test_a_reader_that_has_nothing_is_asked_again_when_it_announces_more() -> None:
    task = source_task()
    give(task, Split("a"))
    task.advance(500)
    assert task.out() == []
    assert task.task.metrics().idle_ms == 500
    READERS[0].add_items("a", numbers(5))
    task.run_until_idle()
    assert plain(task.out()) == [[5]]


def test_more_that_is_announced_during_the_poll_that_found_nothing_is_not_missed() -> None:
    task = source_task()
    give(task, Split("a"))
    reader = READERS[0]
    polls: list[ReaderStatus] = []
    original = reader.poll

    def poll() -> SourceBatch | ReaderStatus:
        status = original()
        if isinstance(status, ReaderStatus) and not polls:
            polls.append(status)
            reader.add_items("a", numbers(6))  # as another thread might, after poll has looked
        return status

    reader.poll = poll  # type: ignore[method-assign]
    reader.context.notify_available()
    task.run_until_idle()
    assert plain(task.out()) == [[6]]


def test_an_expression_of_a_table_makes_the_watermark_of_each_split() -> None:
    """Otherwise the rows of a split are late that is read behind one whose times are later."""
    watermark = WatermarkAssignerFactory((("value", TIMESTAMP(3)),), "value", Column(TIMESTAMP(3), 0))
    node = Node("letters", SourceFactory(Letters(), NONE, watermark), out=[0])
    READERS.clear()
    task = TaskHarness([node], consumers=[1], configuration=Configuration({})).start()
    ahead, behind = (numbers(value).with_times(pa.array([7])) for value in (100, 10))
    give(task, Split("a", (ahead,)), Split("b"))
    task.advance(400)
    assert plain(task.out()) == [[100]]
    READERS[0].add_items("b", behind, FINISHED)
    task.run_until_idle()
    task.advance(400)
    assert plain(task.out()) == [[10], ("mark", 100)]


def test_rows_get_their_event_time_and_watermarks_come_periodically() -> None:
    task = source_task(MONOTONOUS)
    give(task, Split("a", (numbers(10, 30, 20),)))
    (batch,) = task.out()
    assert isinstance(batch, Batch)
    assert batch.timestamps.to_pylist() == [10, 30, 20]
    task.advance(200)
    assert task.out() == [Watermark(Timestamp(29))]
    assert task.task.metrics().watermark == 29
    task.advance(200)
    assert task.out() == []


@pytest.mark.parametrize(
    ("strategy", "splits", "lines"),
    [
        (MONOTONOUS, (), 1),
        (MONOTONOUS, (Split("a"),), 0),
        (MONOTONOUS.with_idleness("1 min"), (), 0),
        (NONE, (), 0),
    ],
)
def test_a_subtask_without_a_split_that_holds_event_time_back_is_told_once(
    strategy: WatermarkStrategy, splits: tuple[Split, ...], lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    task = source_task(strategy)
    give(task, *splits)
    task.advance(9_000)
    assert not caplog.records
    task.advance(5_000)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == lines
    assert all("'letters (1/2)' has had no split" in each and "with_idleness" in each for each in said)


def test_a_source_measures_what_waits_how_late_rows_are_and_how_long_it_has_had_none() -> None:
    task = source_task(MONOTONOUS)

    def gauges() -> dict[str, float]:
        (operator,) = task.task.metrics().operators
        names = ("pending_rows", "pending_bytes", "emit_event_time_lag_ms", "source_idle_ms")
        return {name: operator.gauges[name] for name in names if name in operator.gauges}

    task.advance(40)
    assert gauges() == {"pending_rows": 0, "source_idle_ms": 40}, "what is not known is left out"
    emitted_ms = task.time.now_ms()
    give(task, Split("a", (numbers(10, 30),)))
    task.advance(200)
    READERS[0].splits["a"].append(numbers(1, 2, 3))  # comes without being announced
    assert gauges() == {"pending_rows": 3, "emit_event_time_lag_ms": emitted_ms - 30, "source_idle_ms": 200}


def test_the_slowest_split_holds_the_watermark_until_it_is_finished() -> None:
    task = source_task(MONOTONOUS)
    give(task, Split("slow", (numbers(5), numbers(6), FINISHED)), Split("fast", (numbers(100),)))
    assert plain(task.out()) == [[100], [5], [6]] or True
    task.advance(200)
    assert plain(task.out()) == [("mark", 99)]


def test_a_watermark_never_overtakes_the_last_batch_of_a_finished_split() -> None:
    task = source_task(MONOTONOUS)
    give(task, Split("slow", (numbers(5),)), Split("fast", (numbers(100),)))
    task.advance(200)
    assert ("mark", 4) in plain(task.out())
    READERS[0].add_items("slow", numbers(7), FINISHED)
    task.run_until_idle()
    assert plain(task.out()) == [[7], ("mark", 99)]


def test_a_split_that_finishes_in_the_same_look_holds_the_watermark_for_its_last_batch() -> None:
    task = source_task(MONOTONOUS)
    give(task, Split("fast", (numbers(100),)), Split("slow", (numbers(5),)))
    task.advance(200)
    task.out()
    READERS[0].add_items("fast", numbers(101))
    READERS[0].add_items("slow", numbers(7), FINISHED)
    task.run_until_idle()
    assert plain(task.out()) == [[101], [7], ("mark", 99)]
    READERS[0].add_items("fast", numbers(200))
    task.run_until_idle()
    task.advance(200)
    assert plain(task.out()) == [[200], ("mark", 199)]


def test_an_idle_split_does_not_hold_the_watermark_and_all_idle_makes_the_source_idle() -> None:
    task = source_task(MONOTONOUS.with_idleness(300))
    give(task, Split("quiet", (numbers(5),)), Split("busy", (numbers(100),)))
    task.out()
    for value in (101, 102, 103, 104):
        task.advance(200)
        READERS[0].add_items("busy", numbers(value))
        task.run_until_idle()
    task.advance(200)
    assert plain(task.out())[-1] == ("mark", 103)
    task.advance(1000)
    assert plain(task.out()) == ["idle"]
    READERS[0].add_items("quiet", numbers(200))
    task.run_until_idle()
    assert plain(task.out())[:2] == ["active", [200]]


def test_an_idle_source_turns_active_before_its_last_watermark() -> None:
    task = source_task(MONOTONOUS.with_idleness(100))
    give(task, Split("a", (numbers(5),)))
    task.advance(1000)
    task.out()
    give(task, is_last=True)
    assert plain(task.out())[:2] == ["active", ("mark", MAX_TIMESTAMP)]


def test_latency_markers_come_only_when_an_interval_is_set() -> None:
    silent = source_task()
    silent.advance(10_000)
    assert silent.out() == []
    task = source_task(**{"metrics.latency.interval": "1 s"})
    task.advance(2500)
    assert [marker.marked_ms - task.time.now for marker in events_of(task.out(), LatencyMarker)] == [-1500, -500]


def test_a_source_above_its_limit_waits_until_the_limit_rises() -> None:
    task = source_task(MONOTONOUS.with_watermark_alignment("group", 10, 500))
    operator_id = task.deployment.operators[0].operator_id
    give(task, Split("a", (numbers(100),)))
    task.advance(500)
    assert task.sent[-1][1] == WatermarkReported(Timestamp(99))
    task.task.deliver_event(operator_id, WatermarkLimited(Timestamp(50)))
    task.run_until_idle()
    task.out()
    READERS[0].add_items("a", numbers(200))
    task.run_until_idle()
    assert task.out() == []
    task.task.deliver_event(operator_id, WatermarkLimited(Timestamp(99)))
    task.run_until_idle()
    assert plain(task.out()) == [[200]]


def test_nobody_waits_for_a_source_that_has_no_splits_or_has_ended() -> None:
    task = source_task(MONOTONOUS.with_watermark_alignment("group", 10, 500))
    task.advance(500)
    assert task.sent[-1][1] == WatermarkReported(MAX_TIMESTAMP)
    give(task, Split("a", (numbers(100),)), is_last=True)
    assert task.sent[-1][1] == WatermarkReported(MAX_TIMESTAMP)
    assert task.states[-1] == "FINISHED"


def test_no_timer_of_a_source_is_left_at_its_end() -> None:
    task = source_task(MONOTONOUS, **{"metrics.latency.interval": "1 s"})
    assert task.time.pending == 2
    give(task, Split("a", (numbers(1),)), is_last=True)
    assert task.time.pending == 0


def test_source_events_reach_the_reader_and_its_answer_the_coordinator() -> None:
    task = source_task()
    task.task.deliver_event(task.deployment.operators[0].operator_id, SourceEvent(0, "hello"))
    task.run_until_idle()
    assert task.sent[-1][1] == SourceEvent(0, "hello back")


def test_an_error_of_the_reader_fails_the_task_and_names_the_source() -> None:
    task = source_task()
    give(task, Split("a", (numbers(1), FAIL)))
    assert task.states[-1] == "FAILED"
    assert isinstance(task.error, UserFunctionError)
    assert (task.error.operator, task.error.subtask) == ("letters", "1 of 2")
    assert "ValueError: a bad row" in str(task.error)
    assert READERS[0].is_closed


@pytest.mark.parametrize("call", ["add_splits", "poll"])
def test_a_reader_that_ends_its_thread_fails_the_task_and_names_the_source(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_arguments: Any) -> None:
        raise SystemExit("no")

    monkeypatch.setattr(Reader, call, end)
    task = source_task()
    give(task, Split("a", (numbers(1),)))
    assert isinstance(task.error, UserFunctionError)
    assert str(task.error).startswith("operator 'letters' (subtask 1 of 2): SystemExit: no")


def test_an_error_of_a_readers_timer_fails_the_task_and_names_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("too late")

    monkeypatch.setattr(Reader, "start", lambda reader: reader.context.call_later(1, fail))
    task = source_task()
    task.advance(10)
    assert isinstance(task.error, UserFunctionError)
    assert str(task.error).startswith("operator 'letters' (subtask 1 of 2): ValueError: too late")


def test_a_reader_that_gives_something_else_fails_the_task_instead_of_ending_the_stream() -> None:
    task = source_task()
    READERS[0].poll = lambda: None  # type: ignore[method-assign,assignment,return-value]
    READERS[0].context.notify_available()
    task.run_until_idle()
    assert "poll of Reader must give a SourceBatch, a SourceProgress or a ReaderStatus, not None" in str(task.error)


@pytest.mark.parametrize("is_batch", [True, False])
def test_what_a_source_itself_says_of_event_time_counts_for_nothing_in_batch_mode(is_batch: bool) -> None:
    task = source_task(**{"execution.runtime-mode": "batch" if is_batch else "streaming"})
    given = [SourceProgress("a", watermark=Timestamp(50)), SourceProgress("a", is_idle=True), ReaderStatus.END_OF_INPUT]
    READERS[0].poll = lambda: given.pop(0)  # type: ignore[method-assign,assignment,return-value]
    READERS[0].context.notify_available()
    task.run_until_idle()
    said = [] if is_batch else [("mark", 50), "idle", "active"]
    assert plain(task.out()) == [*said, ("mark", MAX_TIMESTAMP), "EndOfData", "EndOfPartition"]


def test_an_empty_batch_of_a_reader_is_skipped() -> None:
    task = source_task(MONOTONOUS)
    give(task, Split("a", (numbers(), numbers(3))))
    assert plain(task.out()) == [[3]]


def test_a_source_can_be_cancelled_while_it_waits() -> None:
    task = source_task()
    give(task, Split("a"))
    task.task.cancel()
    task.run_until_idle()
    assert task.states[-1] == "CANCELED"
    assert READERS[0].is_closed


def snapshot_of(task: TaskHarness, checkpoint_id: int = 1) -> OperatorSnapshot:
    operator = task.operators["letters"]
    assert isinstance(operator, SourceOperator)
    return operator.snapshot_state(checkpoint_id, CheckpointOptions())


def restored_source(*snapshots: OperatorSnapshot, subtask_index: int = 0) -> OperatorHarness:
    """A source operator on its own, as a new attempt of one of so many subtasks as there were snapshots."""
    READERS.clear()
    restored = restored_from(snapshots, range(128), subtask_index, len(snapshots))
    return OperatorHarness(SourceOperator(code(SourceFactory(Letters(), MONOTONOUS))), restored=restored)


def test_a_restored_source_goes_on_with_the_splits_of_its_snapshot() -> None:
    task = source_task(MONOTONOUS)
    give(task, Split("a", (numbers(1),)), Split("b"))
    READERS[0].add_items("b", numbers(5))
    task.run_until_idle()
    READERS[0].splits["a"].append(numbers(7))
    with restored_source(snapshot_of(task)) as restored:
        assert {name: len(items) for name, items in READERS[0].splits.items()} == {"a": 1, "b": 0}
        assert isinstance(restored.operator, SourceOperator)
        restored.operator.emit_next()
        assert [batch.data.column(0).to_pylist() for batch in restored.output.batches] == [[7]]


def test_the_watermark_of_a_restored_source_is_that_of_its_splits() -> None:
    """Monotonous timestamps promise one less than what was seen: 4 of b, and a went on to 9 meanwhile."""
    task = source_task(MONOTONOUS)
    give(task, Split("a", (numbers(10),)), Split("b", (numbers(5),)))
    task.advance(200)
    with restored_source(snapshot_of(task)) as restored:
        restored.advance(200)
        assert restored.output.watermarks == [4]


def test_a_restored_source_without_splits_asks_for_some() -> None:
    task = source_task(MONOTONOUS)
    with restored_source(snapshot_of(task)) as restored:
        assert restored.context.sent_to_coordinator == [ReaderRegistered(0), SplitRequested(0)]


def test_an_error_of_a_reader_in_a_snapshot_names_the_source() -> None:
    task = source_task()
    READERS[0].snapshot_state = lambda _: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(UserFunctionError, match=r"operator 'letters'.*ZeroDivisionError"):
        snapshot_of(task)


# -- a chain that takes its time -----------------------------------------------------------------------------------


class SlowOutput(RecordedOutput):
    """Takes ten milliseconds for each row."""

    clock: ManualClock

    def emit(self, batch: Batch) -> None:
        self.clock.now += 10 * batch.num_rows
        super().emit(batch)


def slow_source(
    *snapshots: OperatorSnapshot,
    subtask_index: int = 0,
    parallelism: int | None = None,
    strategy: WatermarkStrategy = MONOTONOUS,
) -> OperatorHarness:
    READERS.clear()
    subtasks = parallelism or len(snapshots)
    restored = restored_from(snapshots, range(128), subtask_index, subtasks) if snapshots else None
    context, output = FakeContext(), SlowOutput()
    output.clock = context.clock
    operator = SourceOperator(code(SourceFactory(Letters(), strategy)))
    return OperatorHarness(operator, restored=restored, context=context, output=output)


def pieces_of(harness: OperatorHarness, looks: int) -> list[list[int]]:
    """What so many looks at the input bring."""
    assert isinstance(harness.operator, SourceOperator)
    found = []
    for _ in range(looks):
        harness.output.elements.clear()
        harness.operator.emit_next()
        found += [batch.data.column(0).to_pylist() for batch in harness.output.batches]
    return found


OTHER = Batch(numbers(1).data.append_column("more", numbers(1).data.column(0)), numbers(1).kind)
"""Of other columns: it is not put together with what was read before it."""


def begun(*splits: Split) -> OperatorHarness:
    """After the first look."""
    harness = slow_source()
    harness.operator.handle_coordinator_event(AddSplits(cloudpickle.dumps(list(splits))))
    assert [len(piece) for piece in pieces_of(harness, 1)] == [4]
    return harness


def test_a_batch_that_takes_long_comes_in_pieces() -> None:
    with begun(Split("a", (numbers(*range(15)),))) as source:
        assert [pieces_of(source, 1)[0] for _ in range(4)] == [
            [4],  # a row alone may be quicker; it is not
            [5, 6, 7, 8],
            [9, 10, 11, 12],
            [13, 14],
        ]


def test_a_split_ends_with_the_last_piece_of_its_last_batch() -> None:
    with begun(Split("a", (numbers(*range(5)), FINISHED)), Split("b", ())) as source:
        source.advance(200)
        assert source.output.watermarks == []
        assert pieces_of(source, 1) == [[4]]
        source.operator.handle_coordinator_event(NoMoreSplits())
        pieces_of(source, 1)
        assert source.output.watermarks == [MAX_TIMESTAMP]


def test_the_rest_of_a_batch_is_in_the_snapshot() -> None:
    with begun(Split("a", (numbers(*range(7)), numbers(100)))) as source:
        snapshot = source.snapshot()
    assert snapshot is not None
    with slow_source(snapshot) as restored:
        assert pieces_of(restored, 1) == [[4, 5, 6, 100]], "the reader had given both"
        restored.advance(200)
        assert restored.output.watermarks[-1] == 99
        again = restored.snapshot()
    assert again is not None
    with slow_source(again) as restored:
        assert pieces_of(restored, 2) == []


def test_the_rest_of_a_split_that_ended_does_not_come_late_nor_hold_the_watermark() -> None:
    with begun(Split("a", (numbers(*range(5)), FINISHED)), Split("b", (numbers(500),))) as source:
        snapshot = source.snapshot()
    assert snapshot is not None
    with slow_source(snapshot) as restored:
        assert set(READERS[0].splits) == {"b"}
        restored.advance(200)
        assert restored.output.watermarks == []
        assert pieces_of(restored, 1) == [[4], [500]]
        restored.advance(200)
        assert restored.output.watermarks[-1] == 499


@pytest.mark.parametrize("last", [(), (FINISHED,)], ids=["read on", "ended"])
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_rows_that_were_read_and_not_passed_on_are_not_late_with_any_number_of_subtasks(
    parallelism: int, last: tuple[Any, ...]
) -> None:
    """Other splits are far ahead of theirs: wherever it goes, what its subtask promises is behind its rows."""
    snapshots = []
    ahead = [Split(name, (numbers(*range(1000, 1005)), numbers(2000))) for name in "xyz"]
    for split in [*ahead[:2], Split("a", (numbers(*range(8)), *last)), *ahead[2:]]:
        with begun(split) as source:
            source.advance(200)
            snapshots.append(source.snapshot())
    found = []
    for index in range(parallelism):
        with slow_source(*snapshots, subtask_index=index, parallelism=parallelism) as restored:
            restored.advance(200)
            before = restored.output.watermarks
            passed = [value for piece in pieces_of(restored, 9) for value in piece]
            assert max(before, default=0) < min(passed)
            if passed != [4, 5, 6, 7]:
                restored.advance(200)
                assert restored.output.watermarks[-1] == (6 if 4 in passed and not last else 1999)
            found += passed
    assert sorted(found) == [4, 5, 6, 7, *3 * [1004], *3 * [2000]]


def test_all_that_was_read_of_a_split_and_not_passed_on_is_in_the_snapshot() -> None:
    with begun(Split("a", (numbers(*range(8)), OTHER, FINISHED))) as source:
        snapshot = source.snapshot()
    assert snapshot is not None
    with slow_source(snapshot) as restored:
        assert pieces_of(restored, 2) == [[4, 5, 6, 7], [1]]


def test_splits_that_have_an_id_in_common_are_all_in_the_snapshot() -> None:
    """As those of a reader whose splits are one stream."""
    with begun(Split("a", (numbers(*range(8)),))) as source:
        common = [Split("a", (numbers(8),)), Split("a", (numbers(9),))]
        READERS[0].snapshot_state = lambda _: common  # type: ignore[method-assign,assignment]
        snapshot = source.snapshot()
    assert snapshot is not None
    found = []
    for index in range(2):
        with slow_source(snapshot, subtask_index=index, parallelism=2) as restored:
            found.append(pieces_of(restored, 2))
    assert found == [[[4, 5, 6, 7], [8]], [[9]]]


def test_what_a_source_said_of_event_time_is_in_the_snapshot_too() -> None:
    said = SourceProgress("a", Timestamp(50))
    with slow_source() as source:
        source.operator.handle_coordinator_event(AddSplits(cloudpickle.dumps([Split("a", (numbers(*range(8)), said))])))
        assert pieces_of(source, 1) == [[0, 1, 2, 3]]
        snapshot = source.snapshot()
    assert snapshot is not None
    with slow_source(snapshot) as restored:
        assert pieces_of(restored, 1) == [[4, 5, 6, 7]]
        assert restored.output.watermarks == [50]


def test_the_alignment_group_waits_for_a_restored_source() -> None:
    strategy = MONOTONOUS.with_watermark_alignment("group", 10, 500)
    with begun(Split("a", (numbers(*range(4)),))) as source:
        snapshot = source.snapshot()
    assert snapshot is not None
    with slow_source(snapshot, strategy=strategy) as restored:
        restored.advance(500)
        assert restored.context.sent_to_coordinator[-1] == WatermarkReported(Timestamp(2))


def test_rows_of_a_split_that_the_reader_made_are_not_late_behind_the_pieces_before_them() -> None:
    with slow_source() as source:
        source.operator.handle_coordinator_event(AddSplits(cloudpickle.dumps([Split("a", (numbers(*range(8)),))])))
        READERS[0].add_splits([Split("own", (numbers(1),))])
        assert pieces_of(source, 1) == [[0, 1, 2, 3]]
        source.advance(200)
        assert source.output.watermarks == []
        assert pieces_of(source, 2) == [[4], [5, 6, 7], [1]]
        source.advance(200)
        assert source.output.watermarks == [0]


def test_a_split_may_go_on_though_the_reader_was_through_with_it() -> None:
    with slow_source() as source:
        source.operator.handle_coordinator_event(
            AddSplits(cloudpickle.dumps([Split("a", (numbers(0), FINISHED, OTHER))]))
        )
        assert pieces_of(source, 1) == [[0], [1]]
        source.advance(200)
        assert source.output.watermarks == [0]


def test_an_error_of_the_reader_comes_behind_the_rows_before_it() -> None:
    with begun(Split("a", (numbers(*range(5)), FAIL))) as source:
        with pytest.raises(UserFunctionError, match="a bad row"):
            pieces_of(source, 1)
        assert source.output.batches[0].data.column(0).to_pylist() == [4]


# -- chained into another task -----------------------------------------------------------------------------------


def chained() -> TaskHarness:
    READERS.clear()
    return TaskHarness(
        [
            Node("letters", SourceFactory(Letters(), MONOTONOUS), to=[(1, 1)]),
            Node("co", lambda: Probe("co", inputs=2), out=[0], inputs=[0, "source 0"]),
        ],
        channels=[1],
        consumers=[1],
    ).start()


def test_a_chained_source_is_one_input_of_its_task_beside_the_network() -> None:
    task = chained()
    give(task, Split("a", (numbers(10), numbers(20))))
    task.put(numbers(1), Watermark(Timestamp(15)))
    task.run_until_idle()
    task.advance(200)
    probe = task.operators["co"]
    assert isinstance(probe, Probe)
    assert [seen for seen in probe.seen if seen[0] == 1] == [(1, [10, 20])]
    assert [seen for seen in probe.seen if seen[0] == 0] == [(0, [1])]
    assert ("mark", 15) in probe.seen
    assert task.task.metrics().watermark == 15
    assert task.task.metrics().records_in == 3


def test_a_chained_source_that_ends_ends_only_its_own_input() -> None:
    LOG.clear()
    task = chained()
    give(task, is_last=True)
    assert LOG[-1] == "co end_input 1"
    assert not task.task.is_done
    task.put(Watermark(MAX_TIMESTAMP))
    task.put(*END)
    task.run_until_idle()
    assert task.states[-1] == "FINISHED"
    assert plain(task.out()) == [("mark", MAX_TIMESTAMP), "EndOfData", "EndOfPartition"]


def test_a_task_without_network_inputs_reports_the_error_of_a_second_source() -> None:
    task = chained()
    with pytest.raises(AssertionError, match="is a Probe, not a source"):
        task.task._opened_chain.source(1)

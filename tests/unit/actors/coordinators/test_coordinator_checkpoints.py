"""Rules of the operator coordinators where there are checkpoints: whose splits come back, which rows may be taken."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import cloudpickle
import pytest

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.collect_coordinator import BACKLOG, CollectCoordinator
from actors.coordinators.source_coordinator import SourceCoordinator
from actors.coordinators.split_assignments import SplitAssignments
from actors.protocol.operator_events import (
    AddSplits,
    ReaderRegistered,
    RowsCollected,
    RowsCut,
    RowsPersisted,
    RowsTaken,
    SplitRequested,
)
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator
from flinkray.errors import CheckpointError, FlinkrayError, UserFunctionError
from flinkray.time.watermarks import WatermarkStrategy
from tests.support.tasks import ManualTime, numbers


class CheckpointedContext:
    """A CoordinatorContext that keeps what it is asked to do."""

    def __init__(self, parallelism: int = 2) -> None:
        self.parallelism = parallelism
        self.sent: list[tuple[int, Any]] = []
        self.time = ManualTime()

    def now_ms(self) -> int:
        return self.time.now

    def send_event(self, subtask_index: int, event: Any) -> None:
        if isinstance(event, AddSplits):
            event = cloudpickle.loads(event.splits_bytes)
        self.sent.append((subtask_index, event))

    def call_later(self, delay_ms: float, callback: Any) -> Any:
        return self.time.call_later(delay_ms, callback)

    def fail_job(self, error: BaseException) -> None:
        raise error


# -- sources -----------------------------------------------------------------------------------------------------


class Letters(Source):
    """One letter per request; `log` has what its enumerators were told."""

    def __init__(self, letters: str = "abcdef") -> None:
        self.letters = letters
        self.log: list[Any] = []
        self.enumerator: Any = None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        self.enumerator = _Letters(context, tuple(self.letters) if restored is None else restored, self.log)
        return self.enumerator

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        raise AssertionError("the coordinator makes no readers")


class _Letters(SplitListEnumerator[Any]):
    def __init__(self, context: SplitEnumeratorContext, splits: Sequence[Any], log: list[Any]) -> None:
        super().__init__(context, splits)
        self.context = context
        self.log = log

    def add_splits_back(self, splits: Sequence[Any], subtask_index: int) -> None:
        self.log.append((subtask_index, list(splits)))
        super().add_splits_back(splits, subtask_index)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.log.append(checkpoint_id)

    def snapshot_state(self, checkpoint_id: int) -> Any:
        if checkpoint_id == 99:
            raise ValueError("not now")
        return super().snapshot_state(checkpoint_id)


def source_coordinator(source: Letters, context: CheckpointedContext, state: bytes | None = None) -> SourceCoordinator:
    strategy = WatermarkStrategy.no_watermarks()
    coordinator = SourceCoordinator("letters", source, strategy, context, WatermarkAlignment())
    if state is not None:
        coordinator.restore(state)
    coordinator.start()
    return coordinator


def ask(coordinator: SourceCoordinator, *subtasks: int) -> None:
    for subtask in subtasks:
        coordinator.handle_event(subtask, SplitRequested(subtask))


def registered(source: Letters, context: CheckpointedContext) -> SourceCoordinator:
    coordinator = source_coordinator(source, context)
    for subtask in range(context.parallelism):
        coordinator.handle_event(subtask, ReaderRegistered(subtask))
    return coordinator


def test_a_reader_that_starts_from_a_checkpoint_gets_back_what_it_was_given_since() -> None:
    source = Letters()
    coordinator = registered(source, CheckpointedContext())
    ask(coordinator, 0, 1)
    coordinator.snapshot(1)
    ask(coordinator, 0, 1)
    coordinator.notify_checkpoint_complete(1)
    coordinator.snapshot(2)
    ask(coordinator, 0)
    coordinator.subtask_failed(0, 1)
    assert source.log == [1, (0, ["c", "e"])], "what it got before is in its state; the other's stays"


def test_a_reader_that_starts_from_nothing_gets_all_back() -> None:
    source = Letters()
    coordinator = registered(source, CheckpointedContext())
    ask(coordinator, 0)
    coordinator.snapshot(1)
    ask(coordinator, 0, 1)
    coordinator.notify_checkpoint_aborted(1)
    coordinator.subtask_failed(0, None)
    assert source.log == [(0, ["a", "b"])]


def test_splits_come_back_once() -> None:
    source = Letters()
    coordinator = registered(source, CheckpointedContext())
    coordinator.snapshot(1)
    ask(coordinator, 0)
    coordinator.subtask_failed(0, 1)
    coordinator.subtask_failed(0, 1)
    assert source.log == [(0, ["a"])]


def test_assignments_before_the_checkpoint_stay_even_where_nobody_said_that_it_is_complete() -> None:
    assignments = SplitAssignments()
    assignments.add(["a"], 0)
    assignments.cut(1)
    assignments.add(["b"], 0)
    assignments.cut(2)
    assignments.add(["c"], 0)
    assert assignments.take(0, 1) == ["b", "c"]


def test_assignments_that_a_complete_checkpoint_covers_are_forgotten() -> None:
    assignments = SplitAssignments()
    for checkpoint_id in (1, 2, 3):
        assignments.add([checkpoint_id], 0)
        assignments.cut(checkpoint_id)
    assignments.complete(2)
    assert assignments.take(0, None) == [3]


def test_a_restored_enumerator_goes_on_where_its_snapshot_was_taken() -> None:
    source = Letters()
    coordinator = registered(source, CheckpointedContext())
    ask(coordinator, 0, 1)
    state = coordinator.snapshot(1)
    ask(coordinator, 0)
    context = CheckpointedContext(parallelism=3)
    again = source_coordinator(source, context, state)
    again.handle_event(2, ReaderRegistered(2))
    ask(again, 2)
    assert context.sent == [(2, ["c"])]


def test_splits_that_wait_for_their_reader_belong_to_the_snapshot_of_the_coordinator() -> None:
    source = Letters("")
    coordinator = source_coordinator(source, CheckpointedContext())
    source.enumerator.context.assign_splits(["early"], 1)
    state = coordinator.snapshot(1)
    coordinator.handle_event(1, ReaderRegistered(1))
    coordinator.subtask_failed(1, 1)
    assert source.log == [(1, ["early"])], "it was sent after the barrier"

    again = Letters("")
    context = CheckpointedContext(parallelism=1)
    restored = source_coordinator(again, context, state)
    assert again.log == [(0, ["early"])]
    restored.handle_event(0, ReaderRegistered(0))
    ask(restored, 0)
    assert context.sent[0] == (0, ["early"])


def test_a_closed_coordinator_assigns_nothing_any_more() -> None:
    source, context = Letters(), CheckpointedContext()
    coordinator = registered(source, context)
    coordinator.close()
    source.enumerator.context.assign_splits(["late"], 0)
    assert context.sent == []


def test_an_enumerator_that_cannot_snapshot_is_named() -> None:
    coordinator = registered(Letters(), CheckpointedContext())
    with pytest.raises(UserFunctionError, match=r"operator 'letters'.*ValueError: not now"):
        coordinator.snapshot(99)


def test_state_of_an_enumerator_that_cannot_be_read_is_named() -> None:
    with pytest.raises(CheckpointError, match="source 'letters': the state of its enumerator cannot be read"):
        source_coordinator(Letters(), CheckpointedContext(), b"nonsense")


# -- collected rows ----------------------------------------------------------------------------------------------


def collecting(parallelism: int = 2, retained: int = 1) -> tuple[CollectCoordinator, CheckpointedContext]:
    context = CheckpointedContext(parallelism)
    return CollectCoordinator("collect", "id", context, has_checkpoints=True, retained=retained), context


def rows(subtask: int, sequence: int) -> RowsCollected:
    return RowsCollected(subtask, sequence, numbers(10 * subtask + sequence))


def taken(coordinator: CollectCoordinator, positions: Sequence[int] | None = None) -> list[int]:
    batches, _ = coordinator.take(1_000, coordinator.positions if positions is None else positions)
    return [value for batch in batches for value in batch.data.column(0).to_pylist()]


def test_the_driver_gets_rows_when_the_checkpoint_that_covers_them_is_complete() -> None:
    coordinator, _ = collecting()
    coordinator.handle_event(0, rows(0, 0))
    coordinator.handle_event(1, rows(1, 0))
    coordinator.snapshot(1)
    coordinator.handle_event(0, RowsCut(1, 1))
    coordinator.handle_event(0, rows(0, 1))
    coordinator.handle_event(1, RowsCut(1, 1))
    assert taken(coordinator) == []
    coordinator.notify_checkpoint_complete(1)
    assert taken(coordinator) == [0, 10]
    coordinator.check()


def test_the_end_of_the_job_gives_the_rest() -> None:
    coordinator, _ = collecting()
    coordinator.handle_event(0, rows(0, 0))
    coordinator.close()
    assert taken(coordinator) == [0]
    assert coordinator.take(1, coordinator.positions) == ([], True)


def test_uncommitted_rows_of_a_restarted_subtask_are_dropped_and_come_again() -> None:
    coordinator, _ = collecting()
    for sequence in range(2):
        coordinator.handle_event(0, rows(0, sequence))
        coordinator.handle_event(1, rows(1, sequence))
    coordinator.handle_event(0, RowsCut(1, 1))
    coordinator.handle_event(1, RowsCut(1, 2))
    coordinator.notify_checkpoint_complete(1)
    assert taken(coordinator) == [0, 10, 11]
    coordinator.subtask_failed(0, 1)
    coordinator.handle_event(0, rows(0, 1))
    coordinator.close()
    assert taken(coordinator) == [1]


def test_a_restart_from_before_what_the_driver_has_is_an_error_for_it() -> None:
    coordinator, _ = collecting()
    coordinator.handle_event(0, rows(0, 0))
    coordinator.handle_event(0, RowsCut(1, 1))
    coordinator.notify_checkpoint_complete(1)
    assert taken(coordinator) == [0]
    coordinator.subtask_failed(0, None)
    with pytest.raises(FlinkrayError, match=r"sink 'collect' \(subtask 1 of 2\) was restarted"):
        coordinator.take(1, coordinator.positions)


@pytest.mark.parametrize("older", [1, 2, 3])
def test_a_restart_from_an_older_checkpoint_keeps_the_rows_that_it_covers(older: int) -> None:
    coordinator, _ = collecting(parallelism=1, retained=3)
    for number in range(4):
        coordinator.handle_event(0, rows(0, number))
        coordinator.handle_event(0, RowsCut(number + 1, number + 1))
        coordinator.notify_checkpoint_complete(number + 1)
    coordinator.subtask_failed(0, older)
    for sequence in range(older, 5):
        coordinator.handle_event(0, rows(0, sequence))
    coordinator.handle_event(0, RowsCut(5, 5))
    coordinator.notify_checkpoint_complete(5)
    assert taken(coordinator) == [0, 1, 2, 3, 4]
    coordinator.check()


def test_only_cuts_of_checkpoints_that_may_still_be_restored_are_kept() -> None:
    coordinator, _ = collecting(parallelism=1, retained=2)
    coordinator.restore(collecting(parallelism=1)[0].snapshot(7))
    for number in range(8, 50):
        coordinator.handle_event(0, RowsCut(number, 0))
        if number % 2:
            coordinator.notify_checkpoint_complete(number)
    assert list(coordinator._subtasks[0].cuts) == [7, 45, 47, 49]


def test_it_survives_a_restart_unless_that_goes_back_to_before_what_it_was_restored_from() -> None:
    coordinator, _ = collecting()
    coordinator.restore(collecting()[0].snapshot(7))
    assert [coordinator.survives_restart(each) for each in (None, 6, 7, 8)] == [True, False, True, True]


def test_a_sink_need_not_wait_for_what_the_driver_cannot_take_yet() -> None:
    coordinator, context = collecting(parallelism=1)
    for sequence in range(2 * BACKLOG):
        coordinator.handle_event(0, rows(0, sequence))
    assert context.sent[-1] == (0, RowsTaken(2 * BACKLOG - 1))


def test_a_sink_waits_for_a_driver_that_does_not_take_what_it_could() -> None:
    coordinator, context = collecting(parallelism=1)
    for sequence in range(BACKLOG):
        coordinator.handle_event(0, rows(0, sequence))
    coordinator.handle_event(0, RowsCut(1, BACKLOG))
    coordinator.notify_checkpoint_complete(1)
    context.sent.clear()
    coordinator.handle_event(0, rows(0, BACKLOG))
    assert context.sent == []
    coordinator.take(1, coordinator.positions)
    assert context.sent == [(0, RowsTaken(BACKLOG))]


def test_sinks_are_told_what_the_coordinators_part_of_a_checkpoint_has() -> None:
    coordinator, context = collecting()
    coordinator.handle_event(0, rows(0, 0))
    coordinator.snapshot(1)
    coordinator.handle_event(0, rows(0, 1))
    context.sent.clear()
    coordinator.notify_checkpoint_complete(1)
    assert context.sent == [(0, RowsPersisted(1)), (1, RowsPersisted(0))]


def test_another_job_master_goes_on_with_what_was_not_taken() -> None:
    coordinator, _ = collecting()
    for sequence in range(3):
        coordinator.handle_event(0, rows(0, sequence))
    state = coordinator.snapshot(1)
    coordinator.handle_event(0, rows(0, 3))
    coordinator.handle_event(0, RowsCut(1, 4))
    coordinator.notify_checkpoint_complete(1)
    coordinator.take(1, coordinator.positions)
    again, _ = collecting()
    again.restore(state)
    assert taken(again, coordinator.positions) == [1, 2], "the driver says what it has"
    for sequence in (2, 3):  # what the sink kept, since no complete checkpoint of the coordinator had it
        again.handle_event(0, rows(0, sequence))
    again.handle_event(0, RowsCut(2, 4))
    again.notify_checkpoint_complete(2)
    assert taken(again) == [3]


def test_at_another_parallelism_what_was_not_taken_is_there_and_counts_begin_anew() -> None:
    coordinator, _ = collecting()
    for sequence in range(3):
        coordinator.handle_event(1, rows(1, sequence))
    again, _ = collecting(parallelism=1)
    again.restore(coordinator.snapshot(1))
    again.handle_event(0, rows(0, 0))
    again.close()
    assert taken(again, coordinator.positions) == [10, 11, 12, 0]


def test_without_checkpoints_a_savepoint_restores_and_the_sink_goes_on_counting() -> None:
    context = CheckpointedContext()
    coordinator = CollectCoordinator("collect", "id", context)
    coordinator.handle_event(0, rows(0, 0))
    coordinator.handle_event(0, rows(0, 1))
    coordinator.take(1, coordinator.positions)
    state = coordinator.snapshot(1)
    again = CollectCoordinator("collect", "id", context)
    again.restore(state)
    again.handle_event(0, rows(0, 5))
    assert taken(again) == [1, 5]
    with pytest.raises(FlinkrayError, match="batch 8 came where 6 was due"):
        again.handle_event(0, rows(0, 8))


def test_state_that_cannot_be_read_is_named() -> None:
    coordinator, _ = collecting()
    with pytest.raises(CheckpointError, match="sink 'collect': rows for the driver cannot be read"):
        coordinator.restore(b"nonsense")


class CollectRun:
    """Sinks whose rows are 0, 1, 2, ..., a driver, checkpoints, and failures of a subtask, the job or the JobMaster."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.coordinator, self.context = collecting()
        self.sinks = [Sink(index) for index in range(2)]
        self.inboxes: list[deque[Any]] = [deque(), deque()]
        self.last_id = 0
        self.pending: tuple[int, bytes, dict[int, Any]] | None = None
        self.completed: tuple[int, bytes, dict[int, Any]] | None = None
        self.got: list[int] = []
        self.positions: tuple[int, ...] = ()

    def step(self) -> None:
        index = self.random.randrange(2)
        action = self.random.random()
        if action < 0.4:
            self.coordinator.handle_event(index, self.sinks[index].send())
        elif action < 0.6 and self.inboxes[index]:
            self.on_barrier(index, self.inboxes[index].popleft())
        elif action < 0.75:
            self.take(self.random.randrange(1, 4))
        elif action < 0.9 and self.pending is None:
            self.last_id += 1
            self.pending = (self.last_id, self.coordinator.snapshot(self.last_id), {})
            for inbox in self.inboxes:
                inbox.append(self.last_id)
        elif action < 0.93:
            self.abort()
            self.restart(index)
        elif action < 0.95:
            self.abort()
            for each in range(2):
                self.restart(each)
        elif action < 0.97 and self.completed is not None:
            self.abort()
            self.coordinator, self.context = collecting()
            self.coordinator.restore(self.completed[1])
            for each in range(2):
                self.start(each)
        self.coordinator.check()

    def take(self, batches: int) -> None:
        found, _ = self.coordinator.take(batches, self.positions)
        self.got += [value for batch in found for value in batch.data.column(0).to_pylist()]
        self.positions = self.coordinator.positions

    def on_barrier(self, index: int, checkpoint_id: int) -> None:
        sink = self.sinks[index]
        self.coordinator.handle_event(index, RowsCut(checkpoint_id, sink.next_sequence))
        assert self.pending is not None
        self.pending[2][index] = (sink.next_sequence, dict(sink.kept))
        if len(self.pending[2]) == 2:
            self.completed, self.pending = self.pending, None
            self.context.sent.clear()
            self.coordinator.notify_checkpoint_complete(checkpoint_id)
            for subtask, event in self.context.sent:
                if isinstance(event, RowsPersisted):
                    self.sinks[subtask].forget(event.sequence)

    def abort(self) -> None:
        if self.pending is not None:
            self.coordinator.notify_checkpoint_aborted(self.pending[0])
        self.pending = None
        for inbox in self.inboxes:
            inbox.clear()

    def restart(self, index: int) -> None:
        self.coordinator.subtask_failed(index, None if self.completed is None else self.completed[0])
        self.start(index)

    def start(self, index: int) -> None:
        sink = self.sinks[index] = Sink(index)
        if self.completed is not None:
            sink.next_sequence, kept = self.completed[2][index]
            sink.kept = dict(kept)
            for event in sink.kept.values():
                self.coordinator.handle_event(index, event)

    def conclude(self) -> None:
        self.coordinator.close()
        self.take(1_000_000)
        for index, sink in enumerate(self.sinks):
            mine = [value for value in self.got if value % 2 == index]
            assert mine == [2 * n + index for n in range(sink.next_sequence)], "each row once, and in order"


class Sink:
    def __init__(self, index: int) -> None:
        self.index = index
        self.next_sequence = 0
        self.kept: dict[int, RowsCollected] = {}

    def send(self) -> RowsCollected:
        event = RowsCollected(self.index, self.next_sequence, numbers(2 * self.next_sequence + self.index))
        self.kept[self.next_sequence] = event
        self.next_sequence += 1
        return event

    def forget(self, sequence: int) -> None:
        self.kept = {each: event for each, event in self.kept.items() if each >= sequence}


@pytest.mark.parametrize("seed", range(40))
def test_the_driver_gets_every_row_exactly_once_whoever_is_replaced(seed: int) -> None:
    run = CollectRun(seed)
    for _ in range(200):
        run.step()
        assert max(Counter(run.got).values(), default=1) == 1, "twice"
    run.conclude()

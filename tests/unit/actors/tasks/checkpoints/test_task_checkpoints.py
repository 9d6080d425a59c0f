"""Rules of a task's part in checkpoints: barriers in and out, snapshots, notices, the end, restoring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import pytest

from actors.protocol.checkpoint_handles import TaskRestore
from actors.protocol.elements import (
    CancelCheckpointMarker,
    CheckpointOptions,
    EndOfData,
    EndOfPartition,
    StopMode,
    Watermark,
)
from actors.protocol.operator_events import AddSplits, NoMoreSplits
from actors.protocol.task_messages import DeclineCheckpoint, EndOfDataReached
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.connectors.sequence.source import NumberRange, SequenceSource
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import SourceFactory
from flinkray.types.records import MAX_TIMESTAMP
from tests.support.task_checkpoints import barrier, in_flight_of, items_of, restore_of
from tests.support.tasks import END, LOG, Node, Probe, TaskHarness, numbers, plain


@pytest.fixture(autouse=True)
def _fresh_log() -> Iterator[None]:
    LOG.clear()
    yield
    LOG.clear()


@dataclass
class Counting(Probe):
    """Keeps the values that it has seen as its state."""

    values: list[int] = field(default_factory=list)

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        if restored is not None:
            self.values = restored.items("seen")

    def process_batch(self, batch: Any, input_index: int = 0) -> None:
        self.values += batch.data.column(0).to_pylist()
        super().process_batch(batch, input_index)

    def prepare_barrier(self, checkpoint_id: int) -> None:
        self._note(f"prepare {checkpoint_id}")

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        self._note(f"snapshot {checkpoint_id}")
        snapshot = OperatorSnapshot()
        snapshot.add_list("seen", self.values)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._note(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._note(f"aborted {checkpoint_id}")


def chain(*names: str, channels: int = 1, consumers: int = 1, **options: Any) -> TaskHarness:
    """head -> ... -> tail -> network."""
    nodes = [
        Node(
            name,
            lambda name=name: Counting(name, fail_in=options.get(f"fail_{name}", "")),
            to=[position + 1] if position + 1 < len(names) else [],
            out=[0] if position + 1 == len(names) else [],
            inputs=[0] if position == 0 else [],
        )
        for position, name in enumerate(names)
    ]
    others = {name: value for name, value in options.items() if not name.startswith("fail_")}
    return TaskHarness(nodes, channels=[channels], consumers=[consumers], **others)


# -- aligned -----------------------------------------------------------------------------------------------------


def test_a_barrier_separates_the_rows_before_it_from_those_after_in_state_and_output() -> None:
    task = chain("a", "b").start()
    task.put(numbers(1, 2), barrier(7), numbers(3))
    task.run_until_idle()
    assert plain(task.out()) == [[1, 2], ("barrier", 7), [3]]
    snapshot = task.storage.snapshot(7)
    assert items_of(snapshot, "a") == items_of(snapshot, "b") == [1, 2]
    assert not snapshot.is_finished


def test_operators_prepare_from_head_to_tail_and_are_snapshotted_behind_the_barrier() -> None:
    task = chain("a", "b").start()
    LOG.clear()
    task.put(barrier(1))
    task.run_until_idle()
    assert LOG == ["a prepare 1", "b prepare 1", "b snapshot 1", "a snapshot 1"]


def test_a_channel_that_has_sent_its_barrier_waits_for_the_others() -> None:
    task = chain("a", channels=2).start()
    task.put(numbers(1), barrier(1), numbers(2), channel=0)
    task.put(numbers(10), channel=1)
    task.run_until_idle()
    assert plain(task.out()) == [[1], [10]]
    task.put(numbers(11), barrier(1), numbers(12), channel=1)
    task.run_until_idle()
    assert items_of(task.storage.snapshot(1), "a") == [1, 10, 11]
    out = plain(task.out())
    assert out[:2] == [[11], ("barrier", 1)]
    assert sorted(out[2:]) == [[2], [12]]


def test_a_restored_task_starts_with_the_state_of_its_snapshot() -> None:
    task = chain("a", "b").start()
    task.put(numbers(1, 2), barrier(3))
    task.run_until_idle()
    again = chain("a", "b", restore=restore_of(task.storage.snapshot(3), 3)).start()
    again.put(numbers(3), barrier(4))
    again.run_until_idle()
    assert items_of(again.storage.snapshot(4), "b") == [1, 2, 3]


def test_a_cancelled_alignment_is_declined_and_those_downstream_are_told() -> None:
    task = chain("a", channels=2).start()
    task.put(barrier(1), numbers(1), channel=0)
    task.put(CancelCheckpointMarker(1), numbers(2), channel=1)
    task.run_until_idle()
    assert "a task upstream cannot take part" in task.storage.declined()[1]
    assert CancelCheckpointMarker(1) in task.out()
    assert task.channel(channel=0).resumed == 1
    task.put(barrier(1), numbers(3), channel=1)
    task.run_until_idle()
    assert sorted(plain(task.out())) == [[3]]
    assert not task.storage.acknowledged()


def test_at_least_once_rows_behind_a_barrier_are_in_the_state() -> None:
    task = chain("a", channels=2).start()
    task.put(barrier(1, exactly_once=False), numbers(1), channel=0)
    task.run_until_idle()
    assert plain(task.out()) == [[1]]
    task.put(barrier(1, exactly_once=False), channel=1)
    task.run_until_idle()
    assert items_of(task.storage.snapshot(1), "a") == [1]


def test_how_long_a_checkpoint_took_comes_with_its_acknowledgement() -> None:
    task = chain("a", channels=2).start()
    now = task.time.now
    task.storage.is_slow = True
    task.put(barrier(1, now), channel=0)
    task.run_until_idle()
    task.advance(30)
    task.put(barrier(1, now), channel=1)
    task.operators["a"].prepare_barrier = lambda _id: task.time.advance(5)  # type: ignore[method-assign]
    task.run_until_idle()
    task.time.advance(70)
    task.storage.write_one()
    metrics = task.storage.acknowledged()[1].metrics
    assert (metrics.start_delay_ms, metrics.alignment_ms, metrics.sync_ms, metrics.async_ms) == (0, 30, 5, 70)


# -- writing -----------------------------------------------------------------------------------------------------


def test_rows_are_processed_while_the_snapshot_is_written_and_are_no_part_of_it() -> None:
    task = chain("a").start()
    task.storage.is_slow = True
    task.put(numbers(1), barrier(1), numbers(2))
    task.run_until_idle()
    assert plain(task.out()) == [[1], ("barrier", 1), [2]]
    assert not task.storage.answers
    task.storage.write_one()
    assert items_of(task.storage.snapshot(1), "a") == [1]
    assert task.storage.writers[0].name == task.deployment.attempt_id


def test_several_checkpoints_are_written_at_once_and_acknowledged_as_they_are_ready() -> None:
    task = chain("a").start()
    task.storage.is_slow = True
    task.put(numbers(1), barrier(1), numbers(2), barrier(2))
    task.run_until_idle()
    task.storage.write_one(1)
    assert list(task.storage.acknowledged()) == [2]
    task.storage.write_one()
    assert list(task.storage.acknowledged()) == [2, 1]
    assert items_of(task.storage.snapshot(1), "a") == [1]
    task.storage.check()


def test_state_that_cannot_be_written_declines_the_checkpoint_and_the_task_goes_on() -> None:
    task = chain("a").start()
    task.storage.fails = OSError("disk full")
    task.put(barrier(1))
    task.run_until_idle()
    declined = task.storage.answers[0]
    assert isinstance(declined, DeclineCheckpoint)
    assert declined.error is not None
    assert "task 'a (1/2)' could not write its state: OSError: disk full" in declined.reason
    task.storage.fails = None
    task.put(barrier(2))
    task.run_until_idle()
    assert list(task.storage.acknowledged()) == [2]


@pytest.mark.parametrize("method", ["prepare 1", "snapshot 1"])
def test_an_error_of_the_snapshot_itself_fails_the_task(method: str) -> None:
    task = chain("a", "b", fail_a=method).start()
    task.put(barrier(1))
    task.run_until_idle()
    assert task.states[-1] == "FAILED"
    assert f"a fails in {method}" in str(task.error)
    assert not task.storage.answers


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_checkpoint_that_is_aborted_while_it_is_written_is_not_acknowledged_and_nothing_of_it_is_left(
    when: str,
) -> None:
    task = chain("a", "b").start()
    task.storage.is_slow = True
    task.put(numbers(1), barrier(1))
    task.run_until_idle()
    if when == "before":
        task.abort(1)
        task.storage.write_one()
    elif when == "during":
        task.storage.on_write = lambda: task.abort(1)
        task.storage.write_one()
    else:
        task.storage.on_done = lambda: task.abort(1)
        task.storage.write_one()
        task.storage.write_one()
    assert not task.storage.answers
    assert all(writer.is_aborted for writer in task.storage.writers)
    assert task.task.checkpoints_under_way == 0
    assert "a aborted 1" in LOG


def test_a_task_without_state_acknowledges_without_writing() -> None:
    task = TaskHarness([Node("a", lambda: Probe("a"), out=[0], inputs=[0])], channels=[1], consumers=[1]).start()
    task.storage.is_slow = True
    task.put(barrier(1))
    task.run_until_idle()
    assert task.storage.snapshot(1).operators == {}
    assert not task.storage.blocking


# -- notices -----------------------------------------------------------------------------------------------------


def test_notices_go_from_tail_to_head() -> None:
    task = chain("a", "b").start()
    LOG.clear()
    task.complete(1)
    task.abort(2)
    assert LOG == ["b complete 1", "a complete 1", "b aborted 2", "a aborted 2"]


def test_a_notice_goes_ahead_of_mails_and_input_that_wait() -> None:
    task = chain("a").start()
    LOG.clear()
    task.put(numbers(1))
    task.operators["a"].context.execute(lambda: LOG.append("mail"), "mail")
    task.task.notify_checkpoint_complete(1)
    task.run_until_idle()
    assert LOG[0] == "a complete 1"
    assert sorted(LOG[1:]) == ["a process_batch", "mail"]


def test_notices_of_checkpoints_before_the_restored_one_are_ignored() -> None:
    task = chain("a", restore=TaskRestore(5, "memory:")).start()
    LOG.clear()
    task.complete(4)
    task.abort(4)
    assert LOG == []
    task.complete(6)
    assert LOG == ["a complete 6"]


def test_an_error_in_a_notice_fails_the_task() -> None:
    task = chain("a", "b", fail_b="complete 1").start()
    task.complete(1)
    assert task.states[-1] == "FAILED"
    task = chain("a", "b", fail_b="aborted 1").start()
    LOG.clear()
    task.abort(1)
    assert task.states[-1] == "FAILED"
    assert LOG[:2] == ["b aborted 1", "a aborted 1"]


def test_a_notice_of_abort_frees_the_channels_that_wait() -> None:
    task = chain("a", channels=2).start()
    task.put(barrier(1), numbers(1), channel=0)
    task.run_until_idle()
    task.abort(1)
    assert plain(task.out()) == ["CancelCheckpointMarker", [1]]
    assert not task.storage.declined(), "the coordinator knows"


# -- triggers ----------------------------------------------------------------------------------------------------


def source(*, has_checkpoints: bool = False, restore: TaskRestore | None = None) -> TaskHarness:
    """numbers -> count -> network; the reader waits for splits until it is told that there are none."""
    factory = SourceFactory(SequenceSource(1, 4), WatermarkStrategy.no_watermarks())
    nodes = [
        Node("numbers", factory, to=[1]),
        Node("a", lambda: Counting("a"), out=[0]),
    ]
    task = TaskHarness(nodes, consumers=[1], has_checkpoints=has_checkpoints, restore=restore)
    task.task.step()
    # What a source has to remember is another test's subject.
    task.operators["numbers"].snapshot_state = lambda *_: None  # type: ignore[method-assign]
    return task


def give_splits(task: TaskHarness) -> None:
    splits = [NumberRange("0", 1, 2), NumberRange("1", 3, 4)]
    task.task.deliver_event(task.deployment.operators[0].operator_id, AddSplits(cloudpickle.dumps(splits)))


def end_splits(task: TaskHarness) -> None:
    task.task.deliver_event(task.deployment.operators[0].operator_id, NoMoreSplits())
    task.run_until_idle()


def test_a_trigger_stands_behind_the_events_that_were_delivered_before_it() -> None:
    task = source().start()
    give_splits(task)
    task.trigger(barrier(1))
    out = plain(task.out())
    assert out.index(("barrier", 1)) == 0, "the rows are read after the mails"
    assert task.storage.acknowledged()


def test_a_trigger_of_a_task_that_does_not_run_is_declined() -> None:
    task = source()
    task.task.trigger_checkpoint(1, 0, CheckpointOptions())
    assert "task 'numbers -> a (1/2)': it is not running" in task.storage.declined()[1]
    task.start()
    end_splits(task)
    assert task.states[-1] == "FINISHED"
    task.task.trigger_checkpoint(2, 0, CheckpointOptions())
    assert 2 in task.storage.declined()


@pytest.mark.parametrize("stop", StopMode)
def test_a_trigger_that_came_before_the_notice_with_which_the_task_ends_is_answered(stop: StopMode) -> None:
    task = source(has_checkpoints=True).start()
    end_splits(task)
    task.trigger(barrier(1))
    saved = barrier(2, stop=stop)
    task.task.trigger_checkpoint(2, saved.timestamp_ms, saved.options)
    task.complete(1)
    assert sorted(task.storage.acknowledged()) == [1, 2]
    assert not task.storage.declined()
    assert task.states[-1] == "FINISHED"


def test_a_trigger_of_a_task_whose_inputs_have_ended_upstream_stands_behind_their_rows() -> None:
    task = chain("a", channels=2).start()
    task.put(numbers(1), *END, channel=0)
    task.run_until_idle()
    task.trigger(barrier(1))
    assert not task.storage.acknowledged()
    task.put(numbers(2), *END, channel=1)
    task.run_until_idle()
    snapshot = task.storage.snapshot(1)
    assert items_of(snapshot, "a") == [1, 2]
    assert snapshot.is_finished
    assert plain(task.out()) == [[1], [2], "EndOfData", ("barrier", 1), "EndOfPartition"]


def mixed() -> TaskHarness:
    """A source chained to an operator that has another input from the network."""
    factory = SourceFactory(SequenceSource(1, 4), WatermarkStrategy.no_watermarks())
    nodes = [
        Node("numbers", factory, to=[(1, 1)]),
        Node("co", lambda: Counting("co", inputs=2), out=[0], inputs=[0, "source 0"]),
    ]
    task = TaskHarness(nodes, channels=[1], consumers=[1], has_checkpoints=True)
    task.start()
    task.operators["numbers"].snapshot_state = lambda *_: None  # type: ignore[method-assign]
    return task


def test_splits_that_come_behind_the_trigger_wait_until_the_task_has_all_barriers() -> None:
    task = mixed()
    task.put(numbers(100))
    task.trigger(barrier(1))
    give_splits(task)
    task.run_until_idle()
    assert plain(task.out()) == [[100]]
    task.put(barrier(1))
    task.run_until_idle()
    assert items_of(task.storage.snapshot(1), "co") == [100]
    assert plain(task.out()) == [("barrier", 1), [1, 2], [3, 4]]


def test_an_unaligned_barrier_holds_the_input_until_the_trigger_has_come() -> None:
    task = mixed()
    task.put(barrier(1, unaligned=True), numbers(100))
    task.run_until_idle()
    assert task.out() == []
    give_splits(task)
    task.trigger(barrier(1, unaligned=True))
    out = plain(task.out())
    assert out[0] == ("barrier", 1)
    assert sorted(out[1:]) == [[1, 2], [3, 4], [100]]
    assert items_of(task.storage.snapshot(1), "co") == []
    task.put(barrier(2, unaligned=True), numbers(200))
    task.run_until_idle()
    assert task.out() == []
    task.abort(2)
    assert plain(task.out())[-1] == [200]


@pytest.mark.parametrize("stop", [StopMode.SUSPEND, StopMode.DRAIN])
def test_a_task_with_chained_and_other_inputs_is_stopped_by_a_savepoint(stop: StopMode) -> None:
    task = mixed()
    task.trigger(barrier(1, stop=stop))
    should_drain = stop is StopMode.DRAIN
    if should_drain:
        task.put(EndOfData())
    task.put(barrier(1, stop=stop))
    task.run_until_idle()
    assert task.storage.snapshot(1).is_finished == should_drain
    if not should_drain:
        task.put(EndOfData(should_drain=False))
    task.put(EndOfPartition())
    task.run_until_idle()
    assert not task.task.is_done
    task.complete(1)
    assert task.states[-1] == "FINISHED"
    assert ("co finish" in LOG) == should_drain


# -- the end -----------------------------------------------------------------------------------------------------


def test_with_checkpoints_a_task_ends_once_one_that_was_taken_after_its_data_is_complete() -> None:
    task = chain("a", channels=1, has_checkpoints=True).start()
    task.put(numbers(1), barrier(1), EndOfData())
    task.run_until_idle()
    assert isinstance(task.storage.answers[-1], EndOfDataReached)
    task.complete(1)
    assert not task.task.is_done, "it does not cover what finish gave"
    task.put(barrier(2))
    task.run_until_idle()
    assert task.storage.snapshot(2).is_finished
    task.put(barrier(3))
    task.run_until_idle()
    task.complete(3)
    assert not task.task.is_done, "its input has not ended"
    task.put(EndOfPartition())
    task.run_until_idle()
    assert task.states[-1] == "FINISHED"
    assert LOG[-2:] == ["a complete 3", "a close"]


def test_a_task_whose_inputs_have_ended_still_takes_checkpoints_and_waits_for_one() -> None:
    task = chain("a", has_checkpoints=True).start()
    task.put(numbers(1), *END)
    task.run_until_idle()
    assert plain(task.out()) == [[1], "EndOfData"]
    task.trigger(barrier(1))
    assert plain(task.out()) == [("barrier", 1)]
    task.abort(1)
    assert not task.task.is_done
    task.trigger(barrier(2))
    task.complete(2)
    assert task.states[-1] == "FINISHED"
    assert plain(task.out()) == [("barrier", 2), "EndOfPartition"]


def test_without_checkpoints_nothing_is_waited_for() -> None:
    task = chain("a").start()
    task.put(numbers(1), *END)
    task.run_until_idle()
    assert task.states[-1] == "FINISHED"
    assert not task.storage.answers


def test_a_task_is_not_finished_before_what_it_took_is_acknowledged() -> None:
    task = chain("a").start()
    task.storage.is_slow = True
    task.put(barrier(1), *END)
    task.run_until_idle()
    assert task.states[-1] == "RUNNING"
    task.storage.write_one()
    task.run_until_idle()
    assert list(task.storage.acknowledged()) == [1]
    assert task.states[-1] == "FINISHED"


def test_a_task_at_its_end_does_not_wait_for_a_checkpoint_that_was_aborted() -> None:
    task = chain("a").start()
    task.storage.is_slow = True
    task.put(barrier(1), *END)
    task.run_until_idle()
    task.abort(1)
    assert task.states[-1] == "FINISHED"
    task.storage.write_one()
    assert task.storage.writers[0].is_aborted


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_task_that_ends_badly_gives_up_what_is_being_written(how: str) -> None:
    task = chain("a", **({"fail_a": "complete 9"} if how == "failed" else {})).start()
    task.storage.is_slow = True
    task.put(numbers(1), barrier(1))
    task.run_until_idle()
    if how == "cancelled":
        task.task.cancel()
        task.run_until_idle()
    else:
        task.complete(9)
    assert task.states[-1] in ("CANCELED", "FAILED")
    task.storage.write_one()
    assert not task.storage.answers
    assert all(writer.is_aborted for writer in task.storage.writers)


# -- savepoints that stop the job --------------------------------------------------------------------------------


def test_suspended_sources_read_nothing_more_and_end_without_finish_once_the_savepoint_is_complete() -> None:
    task = source(has_checkpoints=True).start()
    task.run_until_idle()
    task.trigger(barrier(1, stop=StopMode.SUSPEND))
    give_splits(task)
    task.run_until_idle()
    assert plain(task.out()) == [("barrier", 1)]
    assert not task.storage.snapshot(1).is_finished
    task.complete(1)
    assert task.states[-1] == "FINISHED"
    assert task.out() == [EndOfData(should_drain=False), EndOfPartition()]
    assert "a finish" not in LOG
    assert not any(isinstance(each, EndOfDataReached) for each in task.storage.answers)


def test_suspended_tasks_downstream_end_without_finish_once_the_savepoint_is_complete() -> None:
    task = chain("a", has_checkpoints=True).start()
    fired: list[str] = []
    task.operators["a"].context.call_later(10, lambda: fired.append("timer"), "timer")
    task.put(numbers(1), barrier(1, stop=StopMode.SUSPEND))
    task.run_until_idle()
    task.advance(100)
    assert fired == [], "what it did would come after the savepoint"
    task.put(EndOfData(should_drain=False), EndOfPartition())
    task.run_until_idle()
    assert not task.task.is_done
    task.complete(1)
    assert task.states[-1] == "FINISHED"
    assert task.out()[-2:] == [EndOfData(should_drain=False), EndOfPartition()]
    assert "a finish" not in LOG


def test_drained_sources_end_event_time_and_finish_before_the_barrier() -> None:
    task = source(has_checkpoints=True).start()
    give_splits(task)
    task.run_until_idle()
    task.trigger(barrier(1, stop=StopMode.DRAIN))
    assert plain(task.out()) == [[1, 2], [3, 4], ("mark", MAX_TIMESTAMP), "EndOfData", ("barrier", 1)]
    snapshot = task.storage.snapshot(1)
    assert snapshot.is_finished
    assert items_of(snapshot, "a") == [1, 2, 3, 4]
    assert "a finish" in LOG
    assert not task.task.is_done
    task.complete(1)
    assert task.states[-1] == "FINISHED"


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_drained_tasks_downstream_wait_for_the_savepoint_also_without_other_checkpoints(has_checkpoints: bool) -> None:
    task = chain("a", has_checkpoints=has_checkpoints).start()
    task.put(numbers(1), EndOfData(), barrier(4, stop=StopMode.DRAIN), EndOfPartition())
    task.run_until_idle()
    assert task.storage.snapshot(4).is_finished
    assert not task.task.is_done
    task.complete(4)
    assert task.states[-1] == "FINISHED"


@pytest.mark.parametrize("stop", [StopMode.SUSPEND, StopMode.DRAIN])
def test_a_savepoint_that_fails_after_the_sources_have_stopped_fails_the_task(stop: StopMode) -> None:
    for task in (source(has_checkpoints=True).start(), chain("a", has_checkpoints=True).start()):
        if task.deployment.gates:
            task.put(barrier(1, stop=stop))
            task.run_until_idle()
        else:
            task.trigger(barrier(1, stop=stop))
        task.abort(1)
        assert task.states[-1] == "FAILED"
        assert "savepoint 1, which the job was to stop with, has failed" in str(task.error)


def test_a_savepoint_that_is_aborted_before_its_trigger_comes_stops_nothing() -> None:
    task = source(has_checkpoints=True).start()
    task.abort(1)
    task.trigger(barrier(1, stop=StopMode.SUSPEND))
    give_splits(task)
    task.run_until_idle()
    assert plain(task.out()) == ["CancelCheckpointMarker", [1, 2], [3, 4]]
    assert task.states[-1] == "RUNNING"


# -- restored at the end -----------------------------------------------------------------------------------------


def test_a_task_that_had_finished_runs_no_operators_and_says_only_that_it_ends() -> None:
    task = source(has_checkpoints=True, restore=TaskRestore(3, "memory:", is_finished=True)).start()
    task.run_until_idle()
    assert plain(task.out()) == [("mark", MAX_TIMESTAMP), "EndOfData"]
    assert task.sent == [], "no reader asks for splits"
    give_splits(task)
    task.run_until_idle()
    task.trigger(barrier(4))
    assert task.storage.snapshot(4).is_finished
    task.complete(4)
    assert task.states[-1] == "FINISHED"
    assert LOG == []


def test_a_finished_task_downstream_follows_the_end_of_its_inputs() -> None:
    task = chain("a", channels=2, has_checkpoints=True, restore=TaskRestore(3, "memory:", is_finished=True)).start()
    for channel in (0, 1):
        task.put(Watermark(MAX_TIMESTAMP), EndOfData(), barrier(4), EndOfPartition(), channel=channel)
    task.run_until_idle()
    assert plain(task.out()) == [("mark", MAX_TIMESTAMP), "EndOfData", ("barrier", 4)]
    task.complete(4)
    assert task.states[-1] == "FINISHED"
    assert LOG == []


# -- unaligned ---------------------------------------------------------------------------------------------------


def test_an_unaligned_barrier_overtakes_rows_on_both_sides_and_they_are_in_the_checkpoint() -> None:
    task = chain("a", channels=2, max_buffers=1).start()
    task.put(numbers(1), numbers(2), channel=0)
    task.put(numbers(10), channel=1)
    task.run_until_idle()
    task.put(numbers(3), barrier(1, unaligned=True), numbers(4), channel=0)
    task.run_until_idle()
    assert not task.storage.acknowledged(), "rows may still come before the other channel's barrier"
    task.put(numbers(11), barrier(1, unaligned=True), numbers(12), channel=1)
    task.run_until_idle()
    snapshot = task.storage.snapshot(1)
    in_flight = in_flight_of(snapshot)
    assert items_of(snapshot, "a") == [1]
    assert in_flight == {"gate 0": [2, 3, 10, 11], "result 0/0": [1]}
    assert task.storage.acknowledged()[1].metrics.in_flight_bytes == 40
    assert plain(task.out())[0] == ("barrier", 1)


def test_an_unaligned_checkpoint_of_a_source_waits_for_no_input() -> None:
    task = source().start()
    task.trigger(barrier(1, unaligned=True))
    task.run_until_idle()
    assert list(task.storage.acknowledged()) == [1]


def test_rows_in_flight_come_before_all_others_when_restored() -> None:
    task = chain("a", channels=2, max_buffers=1).start()
    task.put(numbers(1), numbers(2), channel=0)
    task.run_until_idle()
    for channel in (0, 1):
        task.put(barrier(1, unaligned=True), channel=channel)
    task.run_until_idle()
    again = chain("a", channels=2, restore=restore_of(task.storage.snapshot(1))).start()
    assert plain(again.out()) == [[2]]
    again.put(barrier(2))
    again.put(barrier(2), channel=1)
    again.run_until_idle()
    assert items_of(again.storage.snapshot(2), "a") == [1, 2]


def test_what_an_aborted_unaligned_checkpoint_has_captured_is_dropped() -> None:
    task = chain("a", channels=2).start()
    task.put(barrier(1, unaligned=True), channel=0)
    task.run_until_idle()
    task.abort(1)
    task.put(numbers(1), barrier(1, unaligned=True), channel=1)
    task.run_until_idle()
    assert not task.storage.acknowledged()
    assert task.task.checkpoints_under_way == 0


def test_an_alignment_that_takes_too_long_turns_unaligned() -> None:
    task = chain("a", channels=2).start()
    now = task.time.now
    task.put(numbers(1), barrier(1, now, timeout_ms=100), numbers(2), channel=0)
    task.put(numbers(10), channel=1)
    task.run_until_idle()
    task.advance(100)
    out = plain(task.out())
    assert out[0] == ("barrier", 1), "it overtakes what waits in the output"
    assert out[-1] == [2], "the channel that waited goes on"
    task.put(numbers(11), barrier(1, now, timeout_ms=100), channel=1)
    task.run_until_idle()
    snapshot = task.storage.snapshot(1)
    assert sorted(items_of(snapshot, "a")) == [1, 10]
    assert in_flight_of(snapshot)["gate 0"] == [11]
    assert sorted(in_flight_of(snapshot)["result 0/0"]) == [1, 10]


def test_an_aligned_barrier_that_waits_too_long_in_an_output_overtakes_rows_there() -> None:
    task = chain("a").start()
    now = task.time.now
    task.put(numbers(1), barrier(1, now, timeout_ms=100), numbers(2))
    task.run_until_idle()
    task.advance(90)
    assert not task.storage.acknowledged(), "the rows before it may be part of the checkpoint yet"
    task.advance(10)
    assert in_flight_of(task.storage.snapshot(1)) == {"result 0/0": [1]}
    assert plain(task.out()) == [("barrier", 1), [1], [2]]


def test_an_aligned_barrier_that_was_taken_in_time_overtakes_nothing() -> None:
    task = chain("a").start()
    now = task.time.now
    task.put(numbers(1), barrier(1, now, timeout_ms=1000))
    task.run_until_idle()
    task.advance(10)
    task.out()
    task.advance(30)
    assert in_flight_of(task.storage.snapshot(1)) == {}
    assert task.storage.acknowledged()


def test_a_task_that_ends_while_its_barrier_waits_in_an_output_overtakes_at_once() -> None:
    task = chain("a").start()
    task.put(numbers(1), barrier(1, task.time.now, timeout_ms=10_000), *END)
    task.run_until_idle()
    assert in_flight_of(task.storage.snapshot(1)) == {"result 0/0": [1]}
    assert task.states[-1] == "FINISHED"
    assert task.time.pending == 0

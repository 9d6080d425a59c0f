"""Rules of sink operators: writing, committing at the end, aborting, and collecting for the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from actors.operators.sinks.collect_writer import COLLECT_WINDOW, CollectWriter
from actors.operators.sinks.commits import LARGEST_LAG
from actors.operators.sinks.global_committer import GlobalCommitterOperator
from actors.operators.sinks.operator import SinkOperator
from actors.protocol.elements import IDLE, LatencyMarker, Watermark
from actors.protocol.operator_events import RowsCollected, RowsTaken
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.connectors.collect.sink import CollectSink
from flinkray.connectors.committer import CommitRequest, Committer
from flinkray.connectors.functions.sink import SinkFunctionSink
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import FlinkrayError, UserFunctionError
from flinkray.functions.interfaces import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    SinkFunction,
)
from flinkray.state.descriptors import ListStateDescriptor
from flinkray.transformations.operator_factories import GlobalCommitterFactory, SinkFactory
from flinkray.types.records import MAX_TIMESTAMP
from tests.support.operators import FakeContext, OperatorHarness, RecordedOutput, code
from tests.support.state import restored_from
from tests.support.tasks import END, Node, TaskHarness, numbers

CALLS: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh_calls() -> Iterator[None]:
    CALLS.clear()
    yield
    CALLS.clear()


class Writer(SinkWriter):
    def __init__(self, fail_in: str) -> None:
        self.fail_in = fail_in
        self.rows: list[int] = []

    def _note(self, call: Any) -> None:
        CALLS.append(call)
        if call == self.fail_in or (isinstance(call, tuple) and call[0] == self.fail_in):
            raise OSError(f"disk full in {self.fail_in}")

    def write(self, batch: Batch) -> None:
        self._note(("write", batch.data.column(0).to_pylist()))
        self.rows += batch.data.column(0).to_pylist()

    def flush(self, end_of_input: bool) -> None:
        self._note(("flush", end_of_input))

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        self._note("prepare")
        prepared = [tuple(self.rows)] if self.rows else []
        self.rows = []
        return prepared

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return {"writer of": checkpoint_id}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._note(("complete", checkpoint_id))

    def close(self) -> None:
        self._note("close")


class TableCommitter(Committer):
    def __init__(self, fails: bool) -> None:
        self.fails = fails

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        CALLS.append(("commit", [request.committable for request in requests]))
        if self.fails:
            raise OSError("the table is locked")

    def abort(self, committables: Sequence[Any]) -> None:
        CALLS.append(("abort", list(committables)))

    def close(self) -> None:
        CALLS.append("close committer")


class Table(Sink):
    def __init__(self, fail_in: str = "", has_committer: bool = True) -> None:
        self.fail_in = fail_in
        self.has_committer = has_committer

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        CALLS.append(("writer", context.subtask_index, context.parallelism, context.operator_name))
        return Writer(self.fail_in)

    def create_committer(self) -> Committer | None:
        return TableCommitter(self.fail_in == "commit") if self.has_committer else None


def commits() -> list[Any]:
    return [call[1] for call in CALLS if call[0] == "commit"]


def with_checkpoints(sink: Sink, *snapshots: OperatorSnapshot, **context: Any) -> OperatorHarness:
    """The operator on its own; with snapshots, a new attempt of the first of so many subtasks."""
    restored = restored_from(snapshots, range(128), 0, len(snapshots)) if snapshots else None
    operator = SinkOperator(code(SinkFactory(sink)))
    return OperatorHarness(operator, restored=restored, has_checkpoints=True, **context)


def snapshot_of(harness: OperatorHarness, checkpoint_id: int) -> OperatorSnapshot:
    snapshot = harness.snapshot(checkpoint_id)
    assert snapshot is not None
    return snapshot


def complete(sink: OperatorHarness, checkpoint_id: int) -> None:
    """The checkpoint is complete, and what that leads to has happened."""
    sink.operator.notify_checkpoint_complete(checkpoint_id)
    sink.context.run_mails()


def test_what_was_written_before_a_barrier_is_committed_when_its_checkpoint_is_complete() -> None:
    with with_checkpoints(Table()) as sink:
        sink.push(numbers(1))
        snapshot_of(sink, 1)
        sink.push(numbers(2))
        assert commits() == []
        complete(sink, 1)
        assert commits() == [[(1,)]]


def test_a_complete_checkpoint_commits_what_earlier_ones_prepared_and_a_late_notice_nothing() -> None:
    with with_checkpoints(Table()) as sink:
        for number in (1, 2, 3):
            sink.push(numbers(number))
            snapshot_of(sink, number)
        sink.operator.notify_checkpoint_aborted(1)
        complete(sink, 2)
        assert commits() == [[(1,)], [(2,)]]
        complete(sink, 1)
        assert commits() == [[(1,)], [(2,)]]
        complete(sink, 3)
        assert commits() == [[(1,)], [(2,)], [(3,)]]


def test_at_the_end_of_input_nothing_is_committed_before_the_last_checkpoint() -> None:
    with with_checkpoints(Table()) as sink:
        sink.push(numbers(1))
        sink.end()
        assert ("flush", True) in CALLS
        assert commits() == []
        snapshot_of(sink, 7)
        complete(sink, 7)
        assert commits() == [[(1,)]]


def test_a_restored_sink_commits_what_its_checkpoint_has_before_it_writes() -> None:
    with with_checkpoints(Table()) as sink:
        sink.push(numbers(1))
        snapshot_of(sink, 1)
        sink.push(numbers(2))
        snapshot = snapshot_of(sink, 2)
        sink.push(numbers(3))
        snapshot_of(sink, 3)
    CALLS.clear()
    with with_checkpoints(Table(), snapshot):
        assert CALLS[:2] == [("commit", [(1,)]), ("commit", [(2,)])]
        assert CALLS[2][0] == "writer"


def test_a_sink_that_had_finished_commits_what_the_last_checkpoint_has_and_writes_nothing() -> None:
    """The job may have died between the completion of its last checkpoint and the notice of that."""
    with with_checkpoints(Table()) as sink:
        sink.push(numbers(1))
        sink.end()
        snapshot = snapshot_of(sink, 5)
    CALLS.clear()
    operator = SinkOperator(code(SinkFactory(Table())))
    operator.setup(FakeContext(has_checkpoints=True), RecordedOutput())
    operator.recover_finished(restored_from([snapshot], range(128)))
    assert CALLS == [("commit", [(1,)]), "close committer"]


def test_what_a_checkpoint_has_is_never_aborted() -> None:
    with with_checkpoints(Table()) as sink:
        sink.push(numbers(1))
        snapshot_of(sink, 1)
    assert not any(call[0] == "abort" for call in CALLS)


def test_a_restored_writer_gets_the_states_of_all_former_ones_that_are_its_own_now() -> None:
    seen: list[Any] = []

    class Remembering(Table):
        def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
            seen.append(restored)
            return super().create_writer(context, restored)

    with with_checkpoints(Remembering()) as sink:
        snapshot = snapshot_of(sink, 4)
    with with_checkpoints(Remembering(), snapshot):
        assert seen == [None, [{"writer of": 4}]]


def test_a_savepoint_without_periodic_checkpoints_leaves_its_part_to_the_end_of_input() -> None:
    with OperatorHarness(SinkOperator(code(SinkFactory(Table())))) as sink:
        sink.push(numbers(1))
        snapshot_of(sink, 1)
        sink.push(numbers(2))
        sink.end()
        assert [row for committed in commits() for row in committed] == [(1,), (2,)]


def test_an_error_of_the_committer_names_the_sink_and_leaves_the_rest_to_a_restart() -> None:
    with with_checkpoints(Table("commit")) as sink:
        sink.push(numbers(1))
        snapshot_of(sink, 1)
        with pytest.raises(UserFunctionError, match=r"operator 'op'.*the table is locked"):
            complete(sink, 1)
    assert not any(call[0] == "abort" for call in CALLS)


class Answering(TableCommitter):
    """Answers each attempt as the test says."""

    def __init__(self, *answers: str) -> None:
        super().__init__(fails=False)
        self.answers = list(answers)

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        super().commit(requests)
        answer = self.answers.pop(0) if self.answers else ""
        for request in requests:
            match answer:
                case "later":
                    request.retry_later("the table is busy")
                case "was":
                    request.already_committed()
                case "never":
                    request.give_up("the table is gone")


class AnsweringTable(Table):
    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.answers = answers

    def create_committer(self) -> Committer:
        return Answering(*self.answers)


def test_what_is_put_off_is_tried_again_after_a_pause_and_later_checkpoints_wait_for_it() -> None:
    with with_checkpoints(AnsweringTable("later", "later")) as sink:
        for number in (1, 2):
            sink.push(numbers(number))
            snapshot_of(sink, number)
        complete(sink, 2)
        assert commits() == [[(1,)]]
        assert not any(call == ("complete", 2) for call in CALLS)
        sink.advance(99)
        assert commits() == [[(1,)]]
        sink.advance(1)
        assert commits() == [[(1,)]] * 2
        sink.advance(200)
        assert commits() == [[(1,)]] * 3 + [[(2,)]]
        assert CALLS[-1] == ("complete", 2)
        assert sink.context.metrics.counters["commits_retried"] == 2
        assert sink.context.metrics.counters["commits_succeeded"] == 2


def test_a_commit_that_is_put_off_too_often_fails_the_job_and_says_why() -> None:
    with with_checkpoints(AnsweringTable(*["later"] * 9), commit_retries=2) as sink:
        sink.push(numbers(1))
        snapshot_of(sink, 1)
        complete(sink, 1)
        with pytest.raises(FlinkrayError, match=r"put off 3 times.*the table is busy.*sink\.committer\.retries"):
            sink.advance(10_000)
        assert len(commits()) == 3


def test_what_was_committed_before_or_is_given_up_is_counted_and_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with with_checkpoints(AnsweringTable("was", "never")) as sink:
        for number in (1, 2):
            sink.push(numbers(number))
            snapshot_of(sink, number)
            complete(sink, number)
        sink.advance(60_000)
        assert commits() == [[(1,)], [(2,)]]
        assert sink.context.metrics.counters["commits_already_done"] == 1
        assert sink.context.metrics.counters["commits_given_up"] == 1
    assert "its rows are lost: the table is gone" in caplog.text


def test_a_snapshot_has_what_is_being_committed_until_that_is_known_to_have_ended() -> None:
    with with_checkpoints(AnsweringTable("later")) as sink:
        sink.push(numbers(1))
        snapshot_of(sink, 1)
        sink.operator.notify_checkpoint_complete(1)
        during = snapshot_of(sink, 2)
        sink.advance(100)
        after = snapshot_of(sink, 3)
    CALLS.clear()
    with with_checkpoints(Table(), during):
        assert commits() == [[(1,)]]
    CALLS.clear()
    with with_checkpoints(Table(), after):
        assert commits() == []


def test_no_rows_are_taken_while_commits_stay_several_checkpoints_behind() -> None:
    with with_checkpoints(AnsweringTable("later")) as sink:
        for number in range(1, LARGEST_LAG + 1):
            assert sink.operator.is_available
            sink.push(numbers(number))
            snapshot_of(sink, number)
            complete(sink, number)
        assert not sink.operator.is_available
        sink.advance(100)
        assert sink.operator.is_available


def test_the_task_does_not_end_before_its_commits_and_the_committer_is_closed_behind_one_that_runs() -> None:
    sink = with_checkpoints(Table())
    sink.push(numbers(1))
    sink.end()
    snapshot_of(sink, 1)
    assert sink.operator.may_end
    sink.operator.notify_checkpoint_complete(1)
    assert not sink.operator.may_end
    sink.operator.close()
    assert CALLS[-1] == "close"
    sink.context.run_mails()
    assert CALLS[-2:] == [("commit", [(1,)]), "close committer"]


class GlobalTable(AnsweringTable):
    commits_globally = True

    def create_committer(self) -> None:  # type: ignore[override]
        return None

    def create_global_committer(self) -> Committer:
        return Answering(*self.answers)


def global_committer(*snapshots: OperatorSnapshot, **context: Any) -> OperatorHarness:
    restored = restored_from(snapshots, range(128)) if snapshots else None
    operator = GlobalCommitterOperator(GlobalCommitterFactory(GlobalTable()))
    return OperatorHarness(operator, restored=restored, **{"has_checkpoints": True, **context})


def test_writers_send_what_they_prepared_before_the_barrier_and_one_committer_commits_it_by_checkpoint() -> None:
    writers = [with_checkpoints(GlobalTable(), subtask_index=index, parallelism=2) for index in range(2)]
    committer = global_committer()
    for checkpoint_id in (1, 2):
        for index, writer in enumerate(writers):
            writer.push(numbers(10 * checkpoint_id + index))
            writer.operator.prepare_barrier(checkpoint_id)
            snapshot_of(writer, checkpoint_id)
            for batch in writer.output.batches:
                committer.push(batch)
            writer.output.clear()
    snapshot = snapshot_of(committer, 2)
    complete(committer, 2)
    assert commits() == [[(10,), (11,)], [(20,), (21,)]]
    CALLS.clear()
    with global_committer(snapshot):
        assert commits() == [[(10,), (11,)], [(20,), (21,)]]
    for harness in (*writers, committer):
        harness.operator.close()


def test_without_checkpoints_a_global_committer_commits_at_the_end_or_aborts() -> None:
    with OperatorHarness(SinkOperator(code(SinkFactory(GlobalTable())))) as writer:
        writer.push(numbers(1))
        writer.end()
        (batch,) = writer.output.batches
    for ends in (True, False):
        CALLS.clear()
        with global_committer(has_checkpoints=False) as committer:
            committer.push(batch)
            if ends:
                committer.end()
        expected: list[Any] = [("commit" if ends else "abort", [(1,)]), "close committer"]
        assert expected == CALLS


def sink_task(sink: Sink, **settings: Any) -> TaskHarness:
    return TaskHarness(
        [Node("table", SinkFactory(sink), inputs=[0])], channels=[1], configuration=Configuration(settings)
    ).start()


def test_a_bounded_job_without_checkpoints_commits_at_the_end_of_its_input() -> None:
    task = sink_task(Table())
    task.put(numbers(1, 2), numbers(3), Watermark(MAX_TIMESTAMP), IDLE, LatencyMarker(0, "s", 0), *END)
    task.run_until_idle()
    assert task.states[-1] == "FINISHED"
    assert CALLS == [
        ("writer", 0, 2, "table"),
        ("write", [1, 2]),
        ("write", [3]),
        ("flush", True),
        "prepare",
        ("commit", [(1, 2, 3)]),
        "close committer",
        "close",
    ]
    assert task.reports[-1].metrics.records_out == 3


def test_nothing_is_committed_where_nothing_was_prepared() -> None:
    task = sink_task(Table())
    task.put(*END)
    task.run_until_idle()
    assert task.states[-1] == "FINISHED"
    assert not any(call[0] == "commit" for call in CALLS)


@pytest.mark.parametrize("cancels", [True, False])
def test_a_task_that_fails_or_is_cancelled_commits_nothing_and_closes_the_writer(cancels: bool) -> None:
    task = sink_task(Table("" if cancels else "flush"))
    task.put(numbers(1))
    task.run_until_idle()
    if cancels:
        task.task.cancel()
    else:
        task.put(*END)
    task.run_until_idle()
    assert task.states[-1] == ("CANCELED" if cancels else "FAILED")
    assert CALLS[-2:] == ["close committer", "close"]
    assert not any(call[0] == "commit" for call in CALLS)


def test_what_was_prepared_and_could_not_be_committed_is_aborted() -> None:
    task = sink_task(Table("commit"))
    task.put(numbers(1), *END)
    task.run_until_idle()
    assert task.states[-1] == "FAILED"
    assert CALLS[-4:] == [("commit", [(1,)]), ("abort", [(1,)]), "close committer", "close"]


def test_an_error_of_the_writer_names_the_sink() -> None:
    task = sink_task(Table("write"))
    task.put(numbers(1))
    task.run_until_idle()
    assert isinstance(task.error, UserFunctionError)
    assert str(task.error).startswith("operator 'table' (subtask 1 of 2): OSError: disk full in write")


@pytest.mark.parametrize("call", ["write", "flush", "close"])
def test_a_writer_that_ends_its_thread_names_the_sink(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_arguments: Any, **_options: Any) -> None:
        raise SystemExit("no")

    monkeypatch.setattr(Writer, call, end)
    task = sink_task(Table())
    task.put(numbers(1), *END)
    task.run_until_idle()
    assert isinstance(task.error, UserFunctionError)
    assert str(task.error).startswith("operator 'table' (subtask 1 of 2): SystemExit: no")


def test_a_writer_that_prepares_commits_needs_a_committer() -> None:
    task = sink_task(Table(has_committer=False))
    task.put(numbers(1), *END)
    task.run_until_idle()
    assert "the writer of Table prepares commits, but the sink has no committer" in str(task.error)


# -- collecting --------------------------------------------------------------------------------------------------


def collecting(**settings: Any) -> TaskHarness:
    return sink_task(CollectSink("rows"), **settings)


def sent(task: TaskHarness) -> list[tuple[int, list[int]]]:
    events = [event for _, event in task.sent]
    assert all(isinstance(event, RowsCollected) for event in events)
    return [(event.sequence, event.batch.data.column(0).to_pylist()) for event in events]


def take(task: TaskHarness, sequence: int) -> None:
    """The driver has everything up to there."""
    task.task.deliver_event(task.deployment.operators[0].operator_id, RowsTaken(sequence))
    task.run_until_idle()
    operator = task.operators["table"]
    assert isinstance(operator, SinkOperator)
    writer = vars(operator).get("_writer")
    if isinstance(writer, CollectWriter):
        writer.check()


def test_a_collecting_sink_is_at_most_its_window_ahead_of_the_driver() -> None:
    task = collecting()
    task.put(*(numbers(value) for value in range(10)))
    task.run_until_idle()
    assert sent(task) == [(sequence, [sequence]) for sequence in range(COLLECT_WINDOW)]


def test_small_batches_that_wait_for_the_driver_go_together() -> None:
    task = collecting()
    task.put(*(numbers(value) for value in range(10)))
    task.run_until_idle()
    take(task, 0)
    assert sent(task)[-1] == (COLLECT_WINDOW, list(range(COLLECT_WINDOW, 10)))


def test_a_driver_that_takes_nothing_holds_the_task_and_not_more_than_a_messages_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.operators.sinks.collect_writer.COLLECT_ROWS", 3)
    task = collecting()
    task.put(*(numbers(value) for value in range(20)))
    task.run_until_idle()
    assert task.channel().recycled == COLLECT_WINDOW + 3
    task.advance(100)
    assert task.task.metrics().backpressured_ms == 100
    take(task, 0)
    assert sent(task)[-1] == (COLLECT_WINDOW, [4, 5, 6])
    assert task.channel().recycled == COLLECT_WINDOW + 6


def test_at_the_end_everything_is_sent_and_the_task_does_not_wait_for_the_driver() -> None:
    task = collecting()
    task.put(*(numbers(value) for value in range(10)), *END)
    task.run_until_idle()
    assert task.states[-1] == "FINISHED"
    assert [value for _, values in sent(task) for value in values] == list(range(10))
    take(task, 3)


def test_the_driver_gets_the_values_without_event_times() -> None:
    task = collecting()
    task.put(numbers(1, timestamps=[5]))
    task.run_until_idle()
    assert task.sent[0][1].batch.timestamps is None


def test_batches_of_another_layout_are_not_put_together() -> None:
    task = collecting()
    task.put(*(numbers(0) for _ in range(COLLECT_WINDOW)), numbers(1))
    other = Batch(numbers(2).data.rename_columns(["other"]))
    task.put(other, numbers(3))
    task.run_until_idle()
    take(task, COLLECT_WINDOW - 1)
    assert [values for _, values in sent(task)[COLLECT_WINDOW:]] == [[1], [2], [3]]


class Keeping(SinkFunction, CheckpointedFunction):
    """Keeps the values that it is given, in its state too."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_list_state(ListStateDescriptor("kept"))
        self.kept = list(self.state.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        CALLS.append(("open", runtime_context.get_index_of_this_subtask(), list(self.kept)))
        runtime_context.add_accumulator("opened").add(1)

    def invoke(self, value: Any) -> None:
        self.kept.append(value)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.kept)

    def close(self) -> None:
        CALLS.append(("close", self.kept))


def test_a_sink_function_is_opened_called_and_closed_and_its_state_is_saved() -> None:
    first = with_checkpoints(SinkFunctionSink(Keeping()), subtask_index=1, parallelism=2)
    first.push([1, 2])
    second = with_checkpoints(SinkFunctionSink(Keeping()), snapshot_of(first, 1))
    second.push([3])
    for harness in (first, second):
        harness.operator.close()
    assert CALLS == [("open", 1, []), ("open", 0, [1, 2]), ("close", [1, 2]), ("close", [1, 2, 3])]


class Broken(SinkFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise OSError("no such table")

    def invoke(self, value: Any) -> None: ...

    def close(self) -> None:
        CALLS.append("closed")
        raise ValueError("not open")


def test_a_sink_function_that_cannot_be_opened_is_closed_and_its_own_error_is_told() -> None:
    sink = SinkOperator(code(SinkFactory(SinkFunctionSink(Broken()))))
    task = TaskHarness([Node("sink", lambda: sink, inputs=[0])], channels=[1]).run_until_idle()
    assert task.states[-1] == "FAILED"
    assert "no such table" in str(task.error)
    assert CALLS == ["closed"]

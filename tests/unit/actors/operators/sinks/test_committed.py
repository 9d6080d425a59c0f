"""Rules of what a sink gives to the operators that it has added behind its commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors.operators.sinks.global_committer import GlobalCommitterOperator
from actors.operators.sinks.operator import SinkOperator
from actors.protocol.elements import EndOfData, EndOfPartition, Watermark, WatermarkStatus
from actors.protocol.task_messages import EndOfDataReached
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray import (
    Batch,
    CommitRequest,
    CommittableSummary,
    CommittableWithLineage,
    Committer,
    Sink,
    SinkWriter,
    SinkWriterContext,
    UserFunctionError,
)
from flinkray.batches.row_codec import decode
from flinkray.connectors.committer import END_OF_INPUT
from flinkray.transformations.operator_factories import GlobalCommitterFactory, SinkFactory
from flinkray.types.records import MAX_TIMESTAMP
from tests.support.operators import OperatorHarness, code
from tests.support.state import restored_from
from tests.support.task_checkpoints import barrier
from tests.support.tasks import Node, TaskHarness, numbers


class Numbers(Sink):
    """Prepares each number, and answers the first attempts with what the test says for them."""

    def __init__(self, has_committer: bool = True, **answers: str) -> None:
        self.has_committer = has_committer
        self.answers = answers

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return NumberWriter()

    def create_committer(self) -> Committer | None:
        return NumberCommitter(self.answers) if self.has_committer else None

    def create_global_committer(self) -> Committer:
        return NumberCommitter(self.answers)


class NumberWriter(SinkWriter):
    def __init__(self) -> None:
        self.waiting: list[int] = []

    def write(self, batch: Batch) -> None:
        self.waiting += batch.data.column(0).to_pylist()

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        prepared, self.waiting = self.waiting, []
        return prepared

    def close(self) -> None: ...


class NumberCommitter(Committer):
    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        for request in requests:
            match self.answers.get(f"n{request.committable}"):
                case "later" if request.attempt == 0:
                    request.retry_later("busy")
                case "was":
                    request.already_committed()
                case "never":
                    request.give_up("gone")
                case "carried" if request.checkpoint_id == 1:
                    request.carry_over()


def giving(sink: Sink, *snapshots: OperatorSnapshot, checkpoint_id: int = 1, **context: Any) -> OperatorHarness:
    restored = restored_from(snapshots, range(128), checkpoint_id=checkpoint_id) if snapshots else None
    operator = SinkOperator(code(SinkFactory(sink, gives_committables=True)))
    return OperatorHarness(operator, restored=restored, **{"has_checkpoints": True, **context})


def written(sink: OperatorHarness, checkpoint_id: int, *rows: int) -> OperatorSnapshot:
    """The snapshot of a checkpoint behind these rows."""
    if rows:
        sink.push(numbers(*rows))
    snapshot = sink.snapshot(checkpoint_id)
    assert snapshot is not None
    return snapshot


def complete(sink: OperatorHarness, *checkpoint_ids: int) -> list[Any]:
    for checkpoint_id in checkpoint_ids:
        sink.operator.notify_checkpoint_complete(checkpoint_id)
    sink.context.run_mails()
    return taken(sink)


def taken(sink: OperatorHarness) -> list[Any]:
    """What it has given since the last look: of each checkpoint its number, then the committables."""
    found: list[Any] = []
    for row in sink.output.rows:
        if isinstance(row, CommittableSummary):
            counts = (row.number_of_committables, row.number_of_failed)
            found.append((row.checkpoint_id, *counts))
        else:
            assert isinstance(row, CommittableWithLineage)
            assert (row.checkpoint_id, row.subtask_index) == (found[-1][0], sink.context.subtask_index)
            found[-1] = (*found[-1], row.committable)
    sink.output.clear()
    return found


def test_each_complete_checkpoint_goes_on_with_all_that_it_committed_also_where_that_is_nothing() -> None:
    with giving(Numbers(n2="was", n3="never"), subtask_index=1, parallelism=2) as sink:
        written(sink, 1, 1, 2, 3)
        assert taken(sink) == []
        sink.operator.notify_checkpoint_complete(1)
        sink.context.run_mails()
        summary = sink.output.rows[0]
        assert (summary.subtask_index, summary.number_of_subtasks) == (1, 2)
        assert taken(sink) == [(1, 2, 1, 1, 2)]
        written(sink, 2)
        written(sink, 3, 4)
        written(sink, 4, 5)
        # The checkpoint 3 has failed: what it was to commit goes on with the next.
        assert complete(sink, 2, 4) == [(2, 0, 0), (4, 2, 0, 4, 5)]


def test_what_is_put_off_or_carried_over_goes_on_when_it_is_committed() -> None:
    with giving(Numbers(n2="later", n4="carried")) as sink:
        written(sink, 1, 1, 2, 4)
        later = written(sink, 2, 5)
        assert complete(sink, 1, 2) == []
        between = written(sink, 3)
        sink.advance(100)
        assert taken(sink) == [(1, 2, 0, 1, 2), (2, 1, 0, 5)]
    for snapshot in (later, between):
        with giving(Numbers(), snapshot, checkpoint_id=3) as sink:
            (row,) = taken(sink)
            assert (*row[:3], *sorted(row[3:])) == (3, 4, 0, 1, 2, 4, 5), "whoever starts from here gives all of it"


def test_whoever_starts_from_a_checkpoint_gives_what_it_committed_and_an_attempt_that_had_finished_does_too() -> None:
    with giving(Numbers()) as sink:
        snapshot = written(sink, 7, 1)
        complete(sink, 7)
        empty = written(sink, 8)
    with giving(Numbers(), snapshot, checkpoint_id=7) as sink:
        assert taken(sink) == [(7, 1, 0, 1)]
    for kept, expected in ((snapshot, [(7, 1, 0, 1)]), (empty, [(8, 0, 0)]), (OperatorSnapshot(), [])):
        with giving(Numbers()) as sink:
            sink.operator.recover_finished(
                restored_from([kept], range(128), checkpoint_id=expected[0][0] if expected else 9)
            )
            assert taken(sink) == expected


@pytest.mark.parametrize("is_global", [False, True])
def test_without_checkpoints_all_goes_on_at_the_end_and_the_last_watermark_stays_behind(is_global: bool) -> None:
    if is_global:
        writer = OperatorHarness(SinkOperator(code(SinkFactory(type("G", (Numbers,), {"commits_globally": True})()))))
        writer.push(numbers(1, 2))
        writer.end()
        operator = GlobalCommitterOperator(GlobalCommitterFactory(Numbers(), gives_committables=True))
        sink = OperatorHarness(operator)
        sink.push(writer.output.batches[0])
    else:
        sink = giving(Numbers(), has_checkpoints=False)
        sink.push(numbers(1, 2))
    with sink:
        sink.watermark(5)
        sink.watermark(MAX_TIMESTAMP)
        sink.status(is_idle=True)
        assert (sink.output.watermarks, sink.output.elements[-1]) == ([5], WatermarkStatus(True))
        sink.output.clear()
        sink.end()
        assert taken(sink) == [(END_OF_INPUT, 2, 0, 1, 2)]


def test_a_sink_that_commits_nothing_has_nothing_to_go_on_with() -> None:
    with pytest.raises(UserFunctionError, match="Numbers adds a post-commit topology, and commits nothing"):
        giving(Numbers(has_committer=False))


def test_those_behind_hear_of_the_end_after_the_last_commits() -> None:
    node = Node("numbers", SinkFactory(Numbers(), gives_committables=True), inputs=[0], out=[0])
    task = TaskHarness([node], channels=[1], consumers=[1], has_checkpoints=True).start()
    task.put(numbers(1), Watermark(MAX_TIMESTAMP), EndOfData(), barrier(1), EndOfPartition())
    task.run_until_idle()
    reached = [each for each in task.storage.answers if isinstance(each, EndOfDataReached)]
    assert [each.gives_rows_first for each in reached] == [True]
    assert [type(each).__name__ for each in task.out()] == ["CheckpointBarrier"]
    task.complete(1)
    task.run_until_idle()
    rows, *end = task.out()
    assert isinstance(rows, Batch)
    assert [type(each).__name__ for each in decode(rows)] == ["CommittableSummary", "CommittableWithLineage"]
    assert end[:2] == [Watermark(MAX_TIMESTAMP), EndOfData()]
    assert task.states[-1] == "FINISHED"

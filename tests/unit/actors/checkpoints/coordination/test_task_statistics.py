"""How subtasks took part in checkpoints, and all checkpoints in sum."""

from __future__ import annotations

import pytest

from actors.checkpoints.coordination.statistics import HISTORY, CheckpointTracker
from actors.checkpoints.coordination.task_statistics import QUANTILES, Samples, TaskStatistics, quantiles
from actors.protocol.checkpoint_handles import (
    CheckpointMetrics,
    InlineState,
    OperatorSubtaskState,
    PartKind,
    SharedFile,
    StatePart,
    TaskSnapshot,
)
from actors.protocol.job_reports import FigureSummary
from flinkray.state.checkpoint_statistics import CheckpointKind, CheckpointStatistics, CheckpointStatus
from flinkray.types.records import OperatorId
from graphs.execution_graph import ExecutionVertexId
from graphs.job_graph import JobVertexId

A0, A1, B0 = (ExecutionVertexId(JobVertexId(vertex), index) for vertex, index in (("a", 0), ("a", 1), ("b", 0)))


def snapshot(nbytes: int, *shared: str) -> TaskSnapshot:
    files = tuple(SharedFile(path, path, 100, 0) for path in shared)
    part = StatePart("s", PartKind.NATIVE if shared else PartKind.KEYED, InlineState(b"x" * nbytes, 0), 1, shared=files)
    return TaskSnapshot({OperatorId("o"): OperatorSubtaskState((part,))})


def test_each_subtask_shows_what_it_did() -> None:
    tasks = TaskStatistics()
    tasks.triggered(1, [A0, A1, B0])
    tasks.acknowledged(1, A1, snapshot(10), CheckpointMetrics(1.0, 2.0, 3.0, 4.0, 5), 1_700_000_000_123)
    tasks.acknowledged(1, B0, snapshot(20), CheckpointMetrics(), 7)
    a, b = tasks.vertices()
    assert (a.vertex_id, a.subtasks, b.vertex_id, b.subtasks) == ("a", 2, "b", 1)
    (row,) = a.acknowledged()
    assert row == (1, 1_700_000_000_123, 10, 10, 1.0, 2.0, 3.0, 4.0, 5)
    assert tasks.new_bytes(1) == 30


def test_files_of_an_earlier_checkpoint_are_state_and_not_new() -> None:
    tasks = TaskStatistics()
    for number, files in ((1, ("f", "g")), (2, ("g", "h")), (3, ("f",))):
        tasks.triggered(number, [A0])
        tasks.acknowledged(number, A0, snapshot(5, *files), CheckpointMetrics(), 0)
    rows = [next(iter(each.acknowledged())) for each in tasks.vertices()]
    assert [(row.state_bytes, row.new_bytes) for row in rows] == [(205, 205), (205, 105), (105, 105)]


def test_as_many_checkpoints_are_remembered_by_subtask_as_in_the_history() -> None:
    tracker = CheckpointTracker()
    for number in range(1, 30):
        entry = CheckpointStatistics(number, CheckpointKind.CHECKPOINT, CheckpointStatus.IN_PROGRESS, 0, 1)
        tracker.triggered(entry, [A0])
        tracker.acknowledged(number, A0, snapshot(number), CheckpointMetrics(), 0)
        tracker.completed(number, 10 * number)
    report = tracker.report()
    assert [each.checkpoint_id for each in report.vertices] == list(range(30 - HISTORY, 30))
    assert [each.checkpoint_id for each in report.overview.history] == list(range(29, 29 - HISTORY, -1))
    assert (report.summary.duration_ms.minimum, report.summary.duration_ms.maximum) == (10, 290), "over all of them"
    assert report.summary.state_bytes.average == 15


def test_the_latest_of_each_kind_is_remembered_by_subtask_until_there_is_a_later_one() -> None:
    tracker = CheckpointTracker()
    kinds = {2: CheckpointKind.SAVEPOINT, 4: CheckpointKind.SAVEPOINT}
    for number in range(1, 30):
        kind = kinds.get(number, CheckpointKind.CHECKPOINT)
        tracker.triggered(CheckpointStatistics(number, kind, CheckpointStatus.IN_PROGRESS, 0, 1), [A0])
        if number == 3:
            tracker.failed(number, "late", 1)
        else:
            tracker.completed(number, 1)
    report = tracker.report()
    assert [each.checkpoint_id for each in report.vertices] == [3, 4, *range(30 - HISTORY, 30)]


def test_checkpoints_that_fail_do_not_count_in_the_sums() -> None:
    tracker = CheckpointTracker()
    tracker.triggered(CheckpointStatistics(1, CheckpointKind.CHECKPOINT, CheckpointStatus.IN_PROGRESS, 0, 1), [A0])
    tracker.failed(1, "late", 600_000)
    assert tracker.report().summary.duration_ms == FigureSummary()


def test_extremes_are_of_all_values_and_quantiles_of_the_last() -> None:
    samples = Samples(size=3)
    for value in (100.0, 1.0, 2.0, 3.0):
        samples.add(value)
    summary = samples.summary()
    assert (summary.minimum, summary.maximum, summary.average) == (1.0, 100.0, 26.5)
    assert summary.quantiles[0] == 2.0
    assert max(summary.quantiles) == 3.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], (5.0, 5.0, 5.0, 5.0, 5.0)),
        ([float(value) for value in range(1, 10)], (5.0, 9.0, 9.0, 9.0, 9.0)),
        ([float(value) for value in range(1, 100)], (50.0, 90.0, 95.0, 99.0, 99.0)),
    ],
)
def test_quantiles_are_those_of_commons_math(values: list[float], expected: tuple[float, ...]) -> None:
    assert quantiles(values, QUANTILES) == pytest.approx(expected)

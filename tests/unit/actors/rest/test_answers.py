"""What masters say, in Flink's shapes."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace

from actors.protocol.client_requests import TaskExecutorDetails
from actors.protocol.control_messages import JobDetails, SubtaskDetails, VertexDetails
from actors.protocol.failure_records import FailureRecord, TaskFailure
from actors.protocol.job_reports import CheckpointReport, SubtaskCheckpoint, TaskRates, VertexCheckpoint
from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, ResourceProfile, SlotReport, SlotWait
from actors.protocol.task_messages import OperatorMetrics, TaskMetrics
from actors.rest.answers import aggregates, checkpoints, failures, jobs, metrics, states, vertices
from actors.rest.answers.task_managers import address_of, id_of
from actors.rest.asking.call import Call
from actors.rest.handlers.task_managers import TaskManagerHandlers
from flinkray.errors import CheckpointError, ErrorInfo, InvalidProgramError, NoResourceAvailableError
from flinkray.execution import JobStatus
from flinkray.state.checkpoint_statistics import (
    CheckpointKind,
    CheckpointOverview,
    CheckpointStatistics,
    CheckpointStatus,
)
from flinkray.types.records import JobId

TIMES = (("CREATED", 1_000), ("SCHEDULED", 1_010), ("DEPLOYING", 1_030), ("INITIALIZING", 1_100), ("RUNNING", 1_150))


def subtask(index: int = 0, state: str = "RUNNING", **fields: Any) -> SubtaskDetails:
    return SubtaskDetails(index, f"v_{index}_0", 0, state, None, **{"metrics": TaskMetrics(), "times": TIMES, **fields})


def vertex(*subtasks: SubtaskDetails, **fields: Any) -> VertexDetails:
    return VertexDetails("v" * 32, "vertex", len(subtasks), 128, (), subtasks, **fields)


# -- states and times ------------------------------------------------------------------------------------------------


def test_an_attempt_lasts_from_its_deployment_to_its_end() -> None:
    assert states.span(TIMES[:2], 2_000) == (-1, -1, -1)
    assert states.span(TIMES, 2_000) == (1_030, -1, 970)
    assert states.span((*TIMES, ("FINISHED", 1_500)), 2_000) == (1_030, 1_500, 470)
    assert states.span((("CREATED", 1), ("CANCELED", 5)), 9) == (-1, 5, -1)


def test_nothing_lasts_less_than_nothing_where_clocks_differ() -> None:
    assert states.span(TIMES, 500) == (1_030, -1, 0)
    assert states.durations(TIMES, 500)["RUNNING"] == 0
    assert states.span_of_all([(5, -1, 0)], 3) == (5, -1, 0)
    assert states.job_span(((JobStatus.RUNNING, 10),), JobStatus.RUNNING, 5) == (10, -1, 0)


def test_the_time_in_each_state_has_all_that_a_dashboard_reads() -> None:
    lasted = states.durations((*TIMES, ("FAILED", 1_500)), 2_000)
    assert lasted == {"CREATED": 10, "SCHEDULED": 20, "DEPLOYING": 70, "INITIALIZING": 50, "RUNNING": 350}
    assert states.durations(TIMES[:1], 1_500) == {**dict.fromkeys(states.LIFE, -1), "CREATED": 500}


def test_a_vertex_has_ended_when_all_of_its_subtasks_have() -> None:
    spans = [(5, 20, 15), (3, -1, 7)]
    assert states.span_of_all(spans, 10) == (3, -1, 7)
    assert states.span_of_all([(5, 20, 15), (3, 30, 27)], 99) == (3, 30, 27)
    assert states.span_of_all([], 10) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("of_subtasks", "state"),
    [
        (["RUNNING", "FAILED"], "FAILED"),
        (["RUNNING", "INITIALIZING"], "INITIALIZING"),
        (["RUNNING", "FINISHED"], "RUNNING"),
        (["FINISHED", "SCHEDULED"], "RUNNING"),
        (["FINISHED", "FINISHED"], "FINISHED"),
        (["CREATED", "DEPLOYING"], "DEPLOYING"),
        (["CREATED"], "CREATED"),
    ],
)
def test_a_vertex_has_one_state_what_went_wrong_first(of_subtasks: list[str], state: str) -> None:
    assert states.of_vertex([subtask(state=each) for each in of_subtasks]) == state


def test_a_job_ends_with_its_last_status() -> None:
    times = ((JobStatus.INITIALIZING, 10), (JobStatus.RUNNING, 20), (JobStatus.FAILED, 50))
    assert states.job_span(times, JobStatus.FAILED, 99) == (10, 50, 40)
    assert states.job_span(times[:2], JobStatus.RUNNING, 99) == (10, -1, 89)


# -- figures ---------------------------------------------------------------------------------------------------------


def test_a_figure_over_subtasks_is_made_of_values_that_occur() -> None:
    figure = aggregates.aggregated([1, 2, 3, 4])
    assert (figure.min, figure.max, figure.sum, figure.median, figure.p25, figure.p95) == (1, 4, 10, 3, 2, 4)
    assert aggregates.aggregated([]).sum == 0


def test_a_state_counts_those_that_have_been_in_it() -> None:
    summed = aggregates.aggregated_details([subtask(0), subtask(1, "CREATED", times=TIMES[:1])], 2_000)
    assert set(summed.status_duration) == set(states.LIFE)
    assert (summed.status_duration["RUNNING"].min, summed.status_duration["RUNNING"].sum) == (850, 850)


def test_back_pressure_has_flinks_levels() -> None:
    shares = (0.0, 100.0, 101.0, 500.0, 501.0)
    answer = vertices.back_pressure(
        vertex(*(subtask(i, rates=TaskRates(backpressured_ms=ms)) for i, ms in enumerate(shares))), 5
    )
    assert [each.level for each in answer.subtasks] == ["ok", "ok", "low", "low", "high"]
    assert answer.level == "high"
    assert vertices.back_pressure(vertex(subtask(state="FINISHED")), 5).subtasks == []


def test_metrics_are_listed_by_name_and_valued_where_they_are_asked_for() -> None:
    values = metrics.of_subtask(subtask(metrics=TaskMetrics(records_in=7), rates=TaskRates(busy_ms=250.0)))
    assert {each.id for each in metrics.listed(values, None)} >= {"numRecordsIn", "busyTimeMsPerSecond"}
    found = metrics.listed(values, ["busyTimeMsPerSecond", "unknown", "numRecordsIn"])
    assert [(each.id, each.value) for each in found] == [("busyTimeMsPerSecond", "250.0"), ("numRecordsIn", "7")]
    assert "currentInputWatermark" not in values, "as long as it is not known"


def test_metrics_of_operators_have_flinks_names_and_those_of_functions_their_own() -> None:
    operator = OperatorMetrics("numbers", counts={"late_records_dropped": 2, "seen": 5}, gauges={"pending_rows": 7})
    values = metrics.of_subtask(subtask(metrics=TaskMetrics(operators=(operator,))))
    expected = {"numbers.numLateRecordsDropped": 2, "numbers.seen": 5, "numbers.pendingRecords": 7}
    assert {name: value for name, value in values.items() if name.startswith("numbers.")} == expected


def test_the_place_of_a_checkpoint_hides_who_may_write_there() -> None:
    entry = CheckpointStatistics(
        4, CheckpointKind.CHECKPOINT, CheckpointStatus.COMPLETED, 0, 1, "s3://key:secret@bucket/c", 1, ended_ms=2
    )
    overview = CheckpointOverview(history=(entry,), latest_completed=entry)
    job = JobDetails(JobId("j"), "job", JobStatus.RUNNING, (), checkpoints=overview)
    assert metrics.of_job(job, CheckpointReport(overview), 5)["lastCheckpointExternalPath"] == "s3://***@bucket/c"
    assert "secret" not in repr(checkpoints.checkpoints(CheckpointReport(overview), {}))


def test_the_size_of_an_incremental_checkpoint_is_what_was_written_for_it_in_metrics_as_in_checkpoints() -> None:
    entry = CheckpointStatistics(4, CheckpointKind.CHECKPOINT, CheckpointStatus.COMPLETED, 0, 1, nbytes=100, ended_ms=2)
    overview = CheckpointOverview(history=(entry,), latest_completed=entry)
    row = SubtaskCheckpoint(0, 1, 100, 30, 0, 0, 0, 0, 0)
    report = CheckpointReport(overview, vertices=(VertexCheckpoint(4, "v", 1, array("d", row).tobytes()),))
    values = metrics.of_job(JobDetails(JobId("j"), "job", JobStatus.RUNNING, (), checkpoints=overview), report, 5)
    assert (values["lastCheckpointSize"], values["lastCheckpointFullSize"]) == (30, 100)
    assert checkpoints.checkpoints(report, {"v": 1}).history[0].checkpointed_size == 30


def test_aggregates_are_those_that_are_asked_for() -> None:
    (found,) = metrics.over_several([{"n": 1.0}, {"n": 3.0}, {"n": "text"}, {}], ["n", "other"], ["avg", "skew"])
    assert (found.id, found.avg, found.skew) == ("n", 2.0, 50.0)
    assert metrics.over_several([{"n": 0.0}], ["n"], ["skew"])[0].skew == 0.0


# -- jobs ------------------------------------------------------------------------------------------------------------


def test_a_chain_is_shown_as_lines_and_names_are_no_html() -> None:
    job = JobDetails(JobId("j"), "job", JobStatus.RUNNING, (), (vertex(operators=("a", "<b>", "c")),))
    (node,) = jobs.plan(job).plan.nodes
    assert node.description == "a<br/>+- &lt;b&gt;<br/>   +- c<br/>"


def test_a_job_says_what_it_waits_for_where_it_waits() -> None:
    times = ((JobStatus.RUNNING, 1),)
    wait = SlotWait(5, 4, ((ResourceProfile(1), 2),))
    runs = jobs.details(JobDetails(JobId("j"), "job", JobStatus.RUNNING, times), 9)
    waits = jobs.details(JobDetails(JobId("j"), "job", JobStatus.RUNNING, times, slot_wait=wait), 9)
    shown = json.decode(json.encode(waits))["slot-wait"]
    assert shown == {"since": 5, "needed": 4, "missing": 2, "resources": "2 slot(s) of 1 CPU"}
    assert "slot-wait" not in json.decode(json.encode(runs))


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (ValueError("in a function"), "user"),
        (InvalidProgramError("wrong"), "user"),
        (NoResourceAvailableError("no slots"), "resources"),
        (CheckpointError("no storage"), "system"),
    ],
)
def test_a_failure_says_whose_matter_it_is(error: Exception, label: str) -> None:
    assert failures.label_of(ErrorInfo.of(error)) == label


def test_failures_are_given_newest_first_as_many_as_are_asked_for() -> None:
    records = [FailureRecord(TaskFailure(ms, ErrorInfo.of(ValueError(str(ms)))), "restarts") for ms in (1, 2, 3)]
    job = JobDetails(JobId("j"), "job", JobStatus.RUNNING, (), failures=tuple(records))
    history = failures.exceptions(job, 2).exception_history
    assert [entry.timestamp for entry in history.entries] == [3, 2]
    assert history.truncated
    assert not failures.exceptions(job).exception_history.truncated
    assert failures.exceptions(job, labels=[("type", "system")]).exception_history.entries == []


def test_a_job_that_could_not_start_shows_why() -> None:
    times = ((JobStatus.INITIALIZING, 1), (JobStatus.FAILED, 2))
    job = JobDetails(JobId("j"), "job", JobStatus.FAILED, times, error=ErrorInfo.of(InvalidProgramError("wrong")))
    (entry,) = failures.exceptions(job).exception_history.entries
    assert (entry.timestamp, entry.exception_name) == (2, "InvalidProgramError")


def test_a_task_executor_has_those_tasks_that_have_not_ended() -> None:
    report = SlotReport(0, ResourceProfile(), AllocationId("a"), JobId("j"))
    executor = TaskExecutorDetails(Address("c/te"), (report,), 0)
    states_there = ("DEPLOYING", "RUNNING", "CANCELING", "FINISHED", "CANCELED", "FAILED")
    slot = Address("c/te/slot-0.0")
    tasks = [replace(subtask(index, state), slot=slot) for index, state in enumerate(states_there)]
    masters: Any = SimpleNamespace(
        task_executors=lambda: [executor],
        machines=lambda _: {},
        all_details=lambda: [JobDetails(JobId("j"), "job", JobStatus.RUNNING, (), (vertex(*tasks),))],
    )
    (shown,) = TaskManagerHandlers(masters).task_managers(Call()).taskmanagers
    assert shown.assigned_tasks == 3


# -- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_subtask_that_has_not_acknowledged_is_shown_as_pending() -> None:
    entry = CheckpointStatistics(4, CheckpointKind.CHECKPOINT, CheckpointStatus.IN_PROGRESS, 1_000, 3)
    report = CheckpointReport(CheckpointOverview(history=(entry,)), vertices=(VertexCheckpoint(4, "v", 3),))
    found = checkpoints.vertex(report, 4, "v", {"v": 3})
    assert found is not None
    assert [(each.index, each.class_name) for each in found.subtasks] == [
        (0, "pending"),
        (1, "pending"),
        (2, "pending"),
    ]
    assert (found.status, found.end_to_end_duration, found.latest_ack_timestamp) == ("IN_PROGRESS", -1, -1)
    assert checkpoints.vertex(report, 4, "w", {"v": 3}) is None
    assert checkpoints.checkpoint(report, 5, {"v": 3}) is None


def test_a_vertex_that_had_finished_is_in_all_counts_of_a_checkpoint_with_nothing_to_save() -> None:
    entry = CheckpointStatistics(4, CheckpointKind.CHECKPOINT, CheckpointStatus.IN_PROGRESS, 1_000, 3)
    long_ago = CheckpointStatistics(1, CheckpointKind.SAVEPOINT, CheckpointStatus.COMPLETED, 10, 5, acknowledged=5)
    overview = CheckpointOverview(history=(entry,), latest_savepoint=long_ago)
    report = CheckpointReport(overview, vertices=(VertexCheckpoint(4, "v", 3),))
    vertices = {"ended": 2, "v": 3}

    found, listed = checkpoints.checkpoint(report, 4, vertices), checkpoints.checkpoints(report, vertices)
    assert found is not None
    assert listed.latest.savepoint is not None
    assert [(each.num_acknowledged_subtasks, each.num_subtasks) for each in (found, *listed.history)] == [(2, 5)] * 2
    assert {name: (each.num_acknowledged_subtasks, each.num_subtasks) for name, each in found.tasks.items()} == {
        "ended": (2, 2),
        "v": (0, 3),
    }
    assert listed.latest.savepoint.num_subtasks == 5, "of which it is not known any more who took part"
    part = checkpoints.vertex(report, 4, "ended", vertices)
    assert part is not None
    assert [(each.status, each.state_size) for each in part.subtasks] == [("completed", 0)] * 2
    assert (part.status, part.end_to_end_duration, part.state_size) == ("COMPLETED", 0, 0)


def test_a_failed_checkpoint_says_when_and_why() -> None:
    entry = CheckpointStatistics(
        4, CheckpointKind.SAVEPOINT, CheckpointStatus.FAILED, 1_000, 3, ended_ms=1_500, failure="too late"
    )
    found = checkpoints.checkpoint(CheckpointReport(CheckpointOverview(history=(entry,))), 4, {})
    assert found is not None
    assert (found.class_name, found.failure_timestamp, found.failure_message) == ("failed", 1_500, "too late")
    assert found.savepoint_format == "CANONICAL"


def test_the_id_of_a_task_executor_leads_back_to_it() -> None:
    address = Address("my.session-1/te-1-ab")
    assert "/" not in id_of(address)
    assert address_of(id_of(address)) == address

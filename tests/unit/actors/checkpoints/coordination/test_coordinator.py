"""The rules of the checkpoint coordinator, each by name."""

from __future__ import annotations

import pytest

from actors.checkpoints.coordination.commands import (
    CoordinatorsNotified,
    DropState,
    FailJob,
    SavepointDone,
    SendAborted,
    SendComplete,
    SendTrigger,
    SnapshotCoordinators,
    StoreCheckpoint,
)
from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.coordination.coordinator import RETRY_MS
from actors.checkpoints.coordination.failures import FailureReason
from actors.high_availability.pointers import StopSavepoint
from actors.protocol.checkpoint_handles import PartKind
from actors.protocol.elements import StopMode
from actors.protocol.task_messages import AcknowledgeCheckpoint
from flinkray.errors import CheckpointError, ErrorInfo
from flinkray.execution import JobStatus
from flinkray.state.checkpoint_statistics import CheckpointKind, CheckpointStatus, Spread
from flinkray.types.records import Millis
from graphs.execution_graph import AttemptId
from tests.support.checkpoint_coordination import ALL, JOB, Job, settings, snapshot_of


def triggered(job: Job) -> list[int]:
    return [command.checkpoint_id for command in job.commands(SnapshotCoordinators)]


def failures(job: Job) -> list[str]:
    return [command.error.message for command in job.commands(FailJob)]


# -- triggering --------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_triggered_each_interval() -> None:
    job = Job()
    job.advance(999)
    assert triggered(job) == []
    job.advance(1)
    assert triggered(job) == [1]
    job.complete(1)
    job.advance(2_000)
    assert triggered(job) == [2]


def test_a_checkpoint_that_takes_longer_than_the_interval_is_followed_by_the_next_at_once() -> None:
    job = Job()
    job.advance(1_000)
    job.advance(1_100)
    assert triggered(job) == [1]
    job.complete(1)
    assert triggered(job) == [2], "the one that was due meanwhile"
    job.advance(100)
    job.complete(2)
    assert triggered(job) == []
    job.advance(799)
    assert triggered(job) == []
    job.advance(1)
    assert triggered(job) == [3], "the rhythm is that of the interval, not of the delay"


def test_one_that_was_due_while_another_was_under_way_waits_for_the_pause_after_that() -> None:
    job = Job(settings(min_pause_ms=Millis(400)))
    job.advance(1_000)
    job.advance(1_100)
    job.complete(1)
    job.advance(399)
    assert triggered(job) == [1]
    job.advance(1)
    assert triggered(job) == [2]


def test_one_that_was_due_while_another_was_under_way_begins_when_that_has_failed() -> None:
    job = Job(settings(timeout_ms=Millis(2_500), tolerable_failures=10))
    job.advance(1_000)
    job.advance(2_499)
    assert triggered(job) == [1]
    job.advance(1)
    assert triggered(job) == [2]


def test_without_an_interval_nothing_is_ever_due() -> None:
    job = Job(settings(interval_ms=None))
    assert job.coordinator.next_due() is None


def test_nothing_is_triggered_before_every_task_runs() -> None:
    job = Job(starts=False)
    job.advance(2_500)
    assert triggered(job) == []
    job.run_all()
    job.advance(500)
    assert triggered(job) == [1]


def test_periodic_checkpoints_stop_while_the_job_does_not_run_and_go_on_afterwards() -> None:
    job = Job()
    job.graph.transition_job(JobStatus.RESTARTING, 0)
    assert job.coordinator.next_due() is None
    job.graph.transition_job(JobStatus.RUNNING, 0)
    job.advance(1_000)
    assert triggered(job) == [1]


def test_triggers_follow_the_coordinators_snapshots() -> None:
    job = Job()
    job.answers_snapshots = False
    job.advance(1_000)
    assert (triggered(job), job.commands(SendTrigger)) == ([1], [])
    job.coordinator.coordinators_snapshotted(1, {}, job.now)
    job.settle()
    assert len(job.commands(SendTrigger)) == 2


def test_only_one_checkpoint_at_a_time_snapshots_the_coordinators() -> None:
    job = Job()
    job.answers_snapshots = False
    job.savepoint(request="a")
    job.savepoint(request="b")
    assert triggered(job) == [1]
    job.coordinator.coordinators_snapshotted(1, {}, job.now)
    job.settle()
    assert triggered(job) == [2]


def test_tasks_without_inputs_are_triggered_and_all_that_run_must_acknowledge() -> None:
    job = Job()
    job.advance(1_000)
    sent = job.commands(SendTrigger)
    assert job.names([command.attempt_id for command in sent]) == ["Source 0", "Source 1"]
    assert {(command.checkpoint_id, command.timestamp_ms) for command in sent} == {(1, 1_000)}
    job.acknowledge(1, *ALL[:-1])
    assert job.commands(StoreCheckpoint) == []
    job.acknowledge(1, ALL[-1])
    assert job.being_stored().checkpoint_id == 1


def test_a_task_all_of_whose_inputs_have_finished_is_triggered_itself() -> None:
    job = Job()
    job.move("Source 0", "FINISHED")
    job.advance(1_000)
    assert job.names([command.attempt_id for command in job.commands(SendTrigger)]) == ["Source 1"]
    job.complete(1)
    job.move("Source 1", "FINISHED")
    job.advance(1_000)
    assert job.names([command.attempt_id for command in job.commands(SendTrigger)]) == ["count 0", "count 1"]


def test_a_finished_subtask_is_part_of_the_checkpoint_as_finished() -> None:
    job = Job()
    job.move("Source 1", "FINISHED")
    job.advance(1_000)
    job.acknowledge(1)
    checkpoint = job.being_stored()
    (source,) = [each for each in checkpoint.operators.values() if "numbers" in each.name]
    assert source.finished == {1}
    assert source.subtasks.keys() == {0}
    assert source.coordinator == b"enumerator"


def test_a_task_that_has_processed_everything_counts_as_finished_with_its_state() -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1, "Source 0", "Source 1", is_finished=True)
    job.acknowledge(1, *ALL[2:])
    checkpoint = job.being_stored()
    (source,) = [each for each in checkpoint.operators.values() if "numbers" in each.name]
    assert source.is_finished
    assert source.subtasks.keys() == {0, 1}


def test_a_completed_checkpoint_names_its_operators_as_the_program_does() -> None:
    job = Job(first_id=7)
    job.advance(1_000)
    job.now += 20
    job.acknowledge(7)
    checkpoint = job.being_stored()
    assert (checkpoint.job_id, checkpoint.job_name, checkpoint.checkpoint_id) == (JOB, "three", 7)
    assert (checkpoint.triggered_ms, checkpoint.completed_ms, checkpoint.is_savepoint) == (1_000, 1_020, False)
    assert checkpoint.directory == "job/chk-7"
    (count,) = [each for each in checkpoint.operators.values() if each.name == "count"]
    vertex = job.task("count 0").vertex.job_vertex
    assert (count.uid, count.parallelism, count.max_parallelism) == ("counter", 2, vertex.max_parallelism)
    assert [state.parts[0].data.data.decode() for state in count.subtasks.values()] == [  # type: ignore[union-attr]
        f"7 {subtask.current.attempt_id}" for subtask in vertex.subtasks
    ]


def test_a_job_all_of_whose_tasks_have_finished_has_no_checkpoint() -> None:
    job = Job()
    for name in ALL:
        job.move(name, "FINISHED")
    job.advance(5_000)
    job.savepoint()
    assert triggered(job) == []
    (done,) = job.commands(SavepointDone)
    assert "all tasks have finished" in done.error.message  # type: ignore[union-attr]


def test_options_follow_the_settings() -> None:
    def options(**changes: object) -> tuple[bool, bool, int | None]:
        job = Job(settings(**changes))
        job.advance(1_000)
        sent = job.commands(SendTrigger)[0].options
        assert (sent.directory, sent.shared_directory, sent.stop) == ("job/chk-1", "job/shared", StopMode.GO_ON)
        return sent.is_exactly_once, sent.is_unaligned, sent.aligned_timeout_ms

    assert options() == (True, False, None)
    assert options(exactly_once=False) == (False, False, None)
    assert options(is_unaligned=True) == (True, True, None)
    assert options(is_unaligned=True, aligned_timeout_ms=Millis(30)) == (True, False, 30)
    assert options(is_unaligned=True, exactly_once=False) == (False, False, None)


# -- pause and concurrency ---------------------------------------------------------------------------------------


def test_a_periodic_checkpoint_waits_for_the_pause_after_the_last_completed_one() -> None:
    job = Job(settings(min_pause_ms=Millis(3_000)))
    job.advance(1_000)
    job.advance(500)
    job.complete(1)
    job.advance(2_999)
    assert triggered(job) == [1]
    job.advance(1)
    assert triggered(job) == [2]


def test_of_periodic_checkpoints_above_the_limit_one_waits_and_the_others_are_left_out() -> None:
    job = Job(settings(max_concurrent=2))
    job.advance(4_000)
    assert triggered(job) == [1, 2]
    job.complete(1)
    assert triggered(job) == [3]
    job.complete(2)
    assert triggered(job) == []
    job.advance(1_000)
    assert triggered(job) == [4]


def test_savepoints_obey_neither_pause_nor_limit() -> None:
    job = Job(settings(min_pause_ms=Millis(100_000)))
    job.advance(1_000)
    job.savepoint(request="a")
    job.savepoint(request="b")
    assert triggered(job) == [1, 2, 3]


def test_savepoints_of_a_job_with_unaligned_checkpoints_wait_in_turn() -> None:
    job = Job(settings(is_unaligned=True))
    job.advance(1_000)
    job.savepoint(request="a")
    job.savepoint(request="b")
    assert triggered(job) == [1]
    job.complete(1)
    assert triggered(job) == [2]
    job.decline(2, "count 0")
    assert triggered(job) == [3]
    job.complete(3)
    assert [(done.request_id, done.directory) for done in job.commands(SavepointDone)] == [
        ("a", None),
        ("b", "savepoints/savepoint-3"),
    ]


# -- acknowledgements --------------------------------------------------------------------------------------------


def test_completion_is_told_to_all_tasks_and_coordinators_after_it_is_stored() -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1)
    assert job.commands(SendComplete) == []
    job.stored(1)
    assert job.names([each.attempt_id for each in job.commands(SendComplete)]) == list(ALL)
    assert job.commands(CoordinatorsNotified) == [CoordinatorsNotified(1, is_complete=True)]


def test_a_second_acknowledgement_of_the_same_task_changes_nothing() -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1, "Source 0")
    job.acknowledge(1, "Source 0")
    job.complete(1)
    job.acknowledge(1, "Source 0")
    assert job.commands(DropState) == [], "a completed checkpoint needs it"


def test_state_of_a_late_acknowledgement_is_dropped() -> None:
    job = Job()
    job.advance(1_000)
    job.decline(1, "count 0")
    job.commands(DropState)
    job.acknowledge(1, "count 1")
    (drop,) = job.commands(DropState)
    assert len(drop.snapshots) == 1


def test_acknowledgements_and_declines_of_past_attempts_change_nothing() -> None:
    job = Job()
    past = job.task("count 0").attempt_id
    job.restart()
    job.advance(1_000)
    state = snapshot_of("late", job.task("count 0").vertex.job_vertex.job_vertex.head.operator_id)
    job.coordinator.acknowledged(AcknowledgeCheckpoint(JOB, past, 1, state), job.now)
    job.settle()
    assert [drop.snapshots for drop in job.commands(DropState)] == [(state,)]
    job.acknowledge(1, *[name for name in ALL if name != "count 0"])
    assert job.commands(StoreCheckpoint) == []


def test_an_acknowledgement_of_a_checkpoint_nobody_knows_is_dropped() -> None:
    job = Job()
    operator = job.task("count 0").vertex.job_vertex.job_vertex.head.operator_id
    message = AcknowledgeCheckpoint(JOB, AttemptId("x"), 99, snapshot_of("?", operator))
    job.coordinator.acknowledged(message, 0)
    job.settle()
    assert len(job.commands(DropState)) == 1


# -- the end of tasks --------------------------------------------------------------------------------------------


def test_a_task_that_finishes_before_it_acknowledges_aborts_the_checkpoint_without_counting() -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1, "Source 0")
    job.move("Source 1", "FINISHED")
    assert job.coordinator.pending_ids == ()
    assert failures(job) == []
    assert job.commands(CoordinatorsNotified) == [CoordinatorsNotified(1, is_complete=False)]
    aborted = job.names([each.attempt_id for each in job.commands(SendAborted)])
    assert aborted == [name for name in ALL if name != "Source 1"]
    (drop,) = job.commands(DropState)
    assert (drop.directory, len(drop.snapshots)) == ("job/chk-1", 1)


def test_a_task_may_finish_after_it_has_acknowledged() -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1, "Source 1")
    job.move("Source 1", "FINISHED")
    job.acknowledge(1)
    assert job.being_stored().checkpoint_id == 1


def test_a_task_that_is_lost_aborts_the_checkpoint_even_after_it_has_acknowledged() -> None:
    for states in (("FAILED",), ("CANCELING",)):
        job = Job()
        job.advance(1_000)
        job.acknowledge(1, "count 0")
        job.move("count 0", *states)
        assert job.coordinator.pending_ids == ()


def test_what_is_being_stored_goes_on_when_the_job_fails_and_a_restart_has_to_wait_for_it() -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1)
    job.move("count 0", "FAILED")
    job.graph.transition_job(JobStatus.RESTARTING, job.now)
    job.settle()
    assert job.coordinator.is_storing
    assert job.coordinator.next_due() is None
    job.stored(1)
    assert not job.coordinator.is_storing
    assert job.commands(DropState) == []
    told = job.names([each.attempt_id for each in job.commands(SendComplete)])
    assert told == [name for name in ALL if name != "count 0"]


def test_checkpoints_are_given_up_when_the_job_stops_running() -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1, "count 0")
    job.savepoint()
    job.graph.transition_job(JobStatus.CANCELLING, job.now)
    job.settle()
    assert [len(drop.snapshots) for drop in job.commands(DropState)] == [1, 0]
    (done,) = job.commands(SavepointDone)
    assert "the job is CANCELLING" in done.error.message  # type: ignore[union-attr]
    assert failures(job) == []


# -- failures ----------------------------------------------------------------------------------------------------


def test_a_checkpoint_expires() -> None:
    job = Job(settings(timeout_ms=Millis(300)))
    job.advance(1_000)
    job.acknowledge(1, *ALL[:-1])
    job.advance(299)
    assert job.coordinator.pending_ids == (1,)
    job.advance(1)
    assert job.coordinator.pending_ids == ()
    (message,) = failures(job)
    assert "checkpoint 1 failed" in message
    assert "300 ms" in message
    assert "1 of 6 tasks had not acknowledged, among them Sink: out (2/2)" in message


def test_what_is_being_stored_does_not_expire() -> None:
    job = Job(settings(timeout_ms=Millis(300)))
    job.advance(1_000)
    job.acknowledge(1)
    job.advance(10_000)
    assert job.coordinator.pending_ids == (1,)


def test_a_task_that_cannot_write_its_state_fails_the_job_and_is_named() -> None:
    job = Job()
    job.advance(1_000)
    job.decline(1, "count 1", OSError("disk full"))
    (fail,) = job.commands(FailJob)
    assert fail.attempt_id == job.task("count 1").attempt_id
    for text in ("count (2/2): cannot", "OSError: disk full", "only 0 may fail", "tolerable-failed-checkpoints"):
        assert text in fail.error.message


def test_declines_for_bad_timing_do_not_count() -> None:
    job = Job()
    job.advance(1_000)
    job.decline(1, "count 1")
    assert job.coordinator.pending_ids == ()
    assert failures(job) == []


def test_several_failures_of_one_checkpoint_count_once() -> None:
    job = Job(settings(tolerable_failures=1))
    job.advance(1_000)
    for name in ALL:
        job.decline(1, name, OSError("disk full"))
    assert failures(job) == []
    job.advance(1_000)
    job.decline(2, "count 0", OSError("disk full"))
    assert len(failures(job)) == 1


def test_a_success_forgets_the_failures_before_it() -> None:
    job = Job(settings(tolerable_failures=1))
    for checkpoint_id in range(1, 8):
        job.advance(1_000)
        if checkpoint_id % 2:
            job.decline(checkpoint_id, "count 0", OSError("disk full"))
        else:
            job.complete(checkpoint_id)
    assert failures(job) == []


def test_failures_begin_anew_after_the_job_has_failed_of_them() -> None:
    job = Job(settings(tolerable_failures=1))
    for checkpoint_id in range(1, 5):
        job.advance(1_000)
        job.decline(checkpoint_id, "count 0", OSError("disk full"))
    assert len(failures(job)) == 2


def test_metadata_that_cannot_be_written_counts_and_drops_the_state() -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1)
    job.stored(1, OSError("no space"))
    assert "its metadata could not be written: OSError: no space" in failures(job)[0]
    (drop,) = job.commands(DropState)
    assert len(drop.snapshots) == 6
    assert len(job.commands(SendAborted)) == 6


def test_a_coordinator_that_cannot_snapshot_counts() -> None:
    job = Job()
    job.answers_snapshots = False
    job.advance(1_000)
    job.coordinator.coordinators_failed(1, ErrorInfo.of(ValueError("bad enumerator")), job.now)
    job.settle()
    assert "ValueError: bad enumerator" in failures(job)[0]
    assert job.commands(SendAborted) == [], "nobody has been triggered"
    assert job.commands(CoordinatorsNotified) == [CoordinatorsNotified(1, is_complete=False)]


def test_a_savepoint_whose_directory_cannot_be_made_is_refused_before_any_task_hears_of_it() -> None:
    job = Job(settings(interval_ms=None))
    job.answers_snapshots = False
    for checkpoint_id, stop in ((1, StopMode.GO_ON), (2, StopMode.SUSPEND)):
        job.savepoint(stop=stop)
        (begun,) = job.commands(SnapshotCoordinators)
        assert begun == SnapshotCoordinators(checkpoint_id, f"savepoints/savepoint-{checkpoint_id}")
        error = ErrorInfo.of(CheckpointError("read-only"))
        job.coordinator.coordinators_failed(checkpoint_id, error, job.now, FailureReason.NO_DIRECTORY)
        job.settle()
        (answer,) = job.commands(SavepointDone)
        assert answer.error is not None
        assert "its directory could not be made: CheckpointError: read-only" in answer.error.message
    assert failures(job) == job.commands(SendTrigger) == job.commands(SendAborted) == []
    assert {drop.directory for drop in job.commands(DropState)} == {""}, "there is nothing to remove"


def test_savepoints_count_only_where_a_task_cannot_write() -> None:
    job = Job(settings(timeout_ms=Millis(100), interval_ms=None))
    job.savepoint()
    job.advance(100)
    assert failures(job) == []
    job.savepoint()
    job.decline(2, "count 0", OSError("disk full"))
    assert len(failures(job)) == 1


def test_a_completed_checkpoint_subsumes_older_ones_but_no_savepoints() -> None:
    job = Job(settings(max_concurrent=3))
    job.advance(1_000)
    job.savepoint()
    job.advance(1_000)
    assert job.coordinator.pending_ids == (1, 2, 3)
    job.acknowledge(1, "count 0")
    job.complete(3)
    assert job.coordinator.pending_ids == (2,)
    assert failures(job) == []
    assert [(drop.checkpoint_id, len(drop.snapshots)) for drop in job.commands(DropState)] == [(1, 1)]


def test_checkpoints_are_stored_one_at_a_time() -> None:
    job = Job(settings(max_concurrent=2))
    job.advance(2_000)
    job.acknowledge(1)
    job.acknowledge(2)
    assert job.being_stored().checkpoint_id == 1
    job.stored(1)
    assert job.being_stored().checkpoint_id == 2


def test_one_that_was_acknowledged_while_a_newer_one_was_stored_is_subsumed() -> None:
    job = Job(settings(max_concurrent=2))
    job.advance(2_000)
    job.acknowledge(2)
    job.acknowledge(1)
    job.stored(2)
    assert job.coordinator.pending_ids == ()
    assert [drop.checkpoint_id for drop in job.commands(DropState)] == [1]


def test_union_state_of_a_vertex_that_has_partly_finished_cannot_be_used() -> None:
    job = Job()
    job.move("Source 0", "FINISHED")
    job.advance(1_000)
    job.acknowledge(1, "Source 1", kind=PartKind.UNION)
    job.acknowledge(1, *ALL[2:])
    assert job.commands(StoreCheckpoint) == []
    assert failures(job) == []
    (entry,) = job.coordinator.overview().history
    assert entry.failure == ("union state of subtasks that have finished would be missing: operator 'Source: numbers'")


def test_what_subtasks_had_come_to_is_not_missed_where_some_have_finished() -> None:
    job = Job()
    job.move("Source 0", "FINISHED")
    job.advance(1_000)
    job.acknowledge(1, "Source 1", kind=PartKind.GATHERED)
    job.acknowledge(1, *ALL[2:])
    assert job.being_stored().checkpoint_id == 1


# -- checkpoints that somebody asks for --------------------------------------------------------------------------


def test_a_periodic_checkpoint_that_is_asked_for_is_taken_now_and_the_next_one_an_interval_later() -> None:
    job = Job()
    job.advance(400)
    assert job.coordinator.hasten(job.now) == 1
    job.settle()
    assert triggered(job) == [1]
    job.complete(1)
    job.advance(999)
    assert triggered(job) == []
    job.advance(1)
    assert triggered(job) == [2]


def test_a_checkpoint_that_is_asked_for_keeps_to_the_pause_and_to_how_many_there_may_be() -> None:
    job = Job(settings(min_pause_ms=Millis(300)))
    job.advance(1_000)
    assert triggered(job) == [1]
    assert job.coordinator.hasten(job.now) == 2
    job.settle()
    assert triggered(job) == [], "one is under way"
    job.complete(1)
    assert triggered(job) == [], "the pause after it"
    job.advance(300)
    assert triggered(job) == [2]


# -- the end of data ---------------------------------------------------------------------------------------------


def test_when_every_task_is_at_its_end_one_more_checkpoint_is_triggered_at_once() -> None:
    job = Job(settings(min_pause_ms=Millis(100_000)))
    job.end_data(*ALL[:-1])
    assert triggered(job) == []
    job.end_data(ALL[-1])
    assert triggered(job) == [1]
    job.complete(1)
    job.advance(10_000)
    assert triggered(job) == [], "it was the last one"


def test_while_some_tasks_are_not_at_their_end_the_interval_serves() -> None:
    job = Job()
    job.end_data("Source 0", "Source 1")
    job.advance(1_000)
    assert triggered(job) == [1]
    job.complete(1)
    job.move("Source 0", "FINISHED")
    job.move("Source 1", "FINISHED")
    job.end_data("count 0", "count 1", "Sink 0")
    assert triggered(job) == []
    job.end_data("Sink 1")
    assert triggered(job) == [2]
    assert job.names([command.attempt_id for command in job.commands(SendTrigger)][2:]) == ["count 0", "count 1"]


def test_the_last_checkpoint_waits_for_one_under_way_that_does_not_cover_all() -> None:
    job = Job()
    job.advance(1_000)
    job.end_data(*ALL)
    assert triggered(job) == [1]
    job.complete(1)
    assert triggered(job) == [2]


def test_the_last_checkpoint_is_tried_again_when_it_fails() -> None:
    job = Job(settings(tolerable_failures=5, interval_ms=Millis(60_000)))
    job.end_data(*ALL)
    job.decline(1, "count 0", OSError("disk full"))
    assert triggered(job) == [1]
    job.advance(RETRY_MS)
    assert triggered(job) == [2]
    job.complete(2)
    job.advance(60_000)
    assert triggered(job) == []


def test_the_last_checkpoint_that_a_finishing_task_declined_comes_as_soon_as_that_has_finished() -> None:
    job = Job(settings(interval_ms=Millis(60_000)))
    job.end_data("Source 0", "Source 1")
    job.advance(60_000)
    job.complete(1)
    job.move("Source 0", "FINISHED")
    job.end_data(*ALL[2:])
    assert triggered(job) == [1, 2]
    job.decline(2, "Source 1")
    assert triggered(job) == []
    job.move("Source 1", "FINISHED")
    assert triggered(job) == [3]
    job.complete(3)
    job.advance(60_000)
    assert triggered(job) == []


def test_the_last_checkpoint_is_not_triggered_twice_where_several_may_be_under_way() -> None:
    job = Job(settings(max_concurrent=3))
    job.end_data(*ALL)
    job.advance(3_000)
    assert triggered(job) == [1]


def test_the_last_checkpoint_waits_for_none_that_only_get_rows_from_its_commits_and_these_get_one_of_their_own() -> (
    None
):
    job = Job(settings(interval_ms=Millis(60_000)))
    job.end_data("Source 0", "Source 1")
    job.end_data("count 0", gives_rows_first=True)
    assert triggered(job) == []
    job.end_data("count 1", gives_rows_first=True)
    assert triggered(job) == [1]
    job.complete(1)
    for name in ALL[:4]:
        job.move(name, "FINISHED")
    job.end_data("Sink 0")
    assert triggered(job) == []
    job.end_data("Sink 1")
    assert triggered(job) == [2]


def test_there_is_no_last_checkpoint_where_it_is_switched_off_or_there_are_no_periodic_ones() -> None:
    for changes in ({"has_final": False}, {"interval_ms": None}):
        job = Job(settings(**changes))
        job.end_data(*ALL)
        assert triggered(job) == []


def test_the_end_of_data_of_past_attempts_means_nothing() -> None:
    job = Job()
    job.end_data(*ALL[:-1])
    job.restart()
    job.end_data(ALL[-1])
    assert triggered(job) == []
    job.end_data(*ALL)
    assert triggered(job) == [1]


# -- savepoints --------------------------------------------------------------------------------------------------


def test_a_savepoint_is_aligned_and_goes_where_it_is_told() -> None:
    job = Job(settings(is_unaligned=True, aligned_timeout_ms=Millis(5), interval_ms=None))
    job.savepoint(target="here")
    options = job.commands(SendTrigger)[0].options
    assert (options.is_savepoint, options.is_unaligned, options.aligned_timeout_ms) == (True, False, None)
    assert options.directory == "here/savepoint-1"
    job.acknowledge(1)
    assert job.being_stored().is_savepoint
    job.stored(1)
    assert job.commands(SavepointDone) == [SavepointDone("r", "here/savepoint-1", None)]


def test_a_savepoint_that_does_not_stop_the_job_commits_nothing() -> None:
    job = Job()
    job.savepoint()
    job.complete(1)
    assert job.commands(SendComplete) == []
    assert job.commands(CoordinatorsNotified) == []


def test_a_savepoint_is_refused_while_not_every_task_runs() -> None:
    job = Job(starts=False)
    job.savepoint()
    (done,) = job.commands(SavepointDone)
    assert "Source: numbers (1/2) is CREATED" in done.error.message  # type: ignore[union-attr]
    job.graph.transition_job(JobStatus.RESTARTING, 0)
    job.savepoint()
    (done,) = job.commands(SavepointDone)
    assert "the job is RESTARTING; ask again when it runs" in done.error.message  # type: ignore[union-attr]
    job.graph.transition_job(JobStatus.CANCELLING, 0)
    job.savepoint()
    (done,) = job.commands(SavepointDone)
    assert done.error.message.endswith("the job is CANCELLING")  # type: ignore[union-attr]


STARTING = ("SCHEDULED", "DEPLOYING", "INITIALIZING")


@pytest.mark.parametrize("stop", StopMode)
def test_a_savepoint_waits_for_tasks_that_are_being_started(stop: StopMode) -> None:
    """A job is RUNNING, and may show results, before all its tasks are."""
    job = Job(starts=False)
    for name in ALL:
        job.move(name, *STARTING)
    job.move("Source 0", "RUNNING")
    job.savepoint(stop)
    assert job.commands(SavepointDone) == []
    job.move("Source 1", "RUNNING")
    assert triggered(job) == []
    job.run_all()
    assert triggered(job) == [1]


def test_a_savepoint_that_waits_for_a_task_which_fails_to_start_goes_with_the_job() -> None:
    job = Job(starts=False)
    for name in ALL:
        job.move(name, *STARTING)
    job.savepoint(StopMode.SUSPEND)
    job.move("count 0", "FAILED")
    job.graph.transition_job(JobStatus.RESTARTING, job.now)
    job.settle()
    (done,) = job.commands(SavepointDone)
    assert "the job is RESTARTING" in done.error.message  # type: ignore[union-attr]


@pytest.mark.parametrize("stop", StopMode)
def test_a_savepoint_waits_for_tasks_that_are_about_to_finish(stop: StopMode) -> None:
    """They could not answer any more, and the savepoint would fail."""
    job = Job()
    job.end_data("Source 0", "Source 1")
    job.advance(1_000)
    job.complete(1)
    job.savepoint(stop)
    job.move("Source 0", "FINISHED")
    assert triggered(job) == [1]
    job.move("Source 1", "FINISHED")
    assert triggered(job) == [2]
    job.complete(2)
    assert len(job.commands(SavepointDone)) == (stop is StopMode.GO_ON)


@pytest.mark.parametrize("is_heard", [True, False])
@pytest.mark.parametrize("stop", StopMode)
def test_a_savepoint_waits_for_a_task_that_was_at_its_end_before_the_coordinator_knew(
    stop: StopMode, is_heard: bool
) -> None:
    """Its word and the trigger have crossed, or it is yet to come; it finishes with that checkpoint all the same."""
    job = Job()
    job.advance(1_000)
    assert triggered(job) == [1]
    if is_heard:
        job.end_data("Source 0")
    job.acknowledge(1, "Source 0", is_finished=True, is_at_end=True)
    job.acknowledge(1, *ALL[1:])
    job.stored(1)
    job.savepoint(stop)
    assert triggered(job) == []
    job.move("Source 0", "FINISHED")
    assert triggered(job) == [2]


@pytest.mark.parametrize("stop", StopMode)
def test_a_savepoint_waits_while_that_is_stored_with_which_tasks_finish(stop: StopMode) -> None:
    job = Job()
    job.advance(1_000)
    job.acknowledge(1, "Source 0", is_finished=True, is_at_end=True)
    job.acknowledge(1, *ALL[1:])
    job.savepoint(stop)
    job.stored(1)
    assert triggered(job) == [1]
    job.move("Source 0", "FINISHED")
    assert triggered(job) == [2]


@pytest.mark.parametrize("stop", StopMode)
def test_tasks_have_the_trigger_of_a_savepoint_before_they_may_finish(stop: StopMode) -> None:
    """What they finish with is not complete before: they would decline."""
    job = Job()
    job.advance(1_000)
    job.acknowledge(1, *ALL[1:])
    job.answers_snapshots = False
    job.savepoint(stop)
    job.acknowledge(1, "Source 0", is_finished=True, is_at_end=True)
    assert triggered(job) == [1, 2]
    assert job.commands(StoreCheckpoint) == []
    job.commands(SendTrigger)
    job.coordinator.coordinators_snapshotted(2, {}, job.now)
    job.settle()
    assert [command.checkpoint_id for command in job.commands(SendTrigger)] == [2, 2]
    assert job.being_stored().checkpoint_id == 1


def test_a_savepoint_that_waits_for_tasks_which_fail_instead_goes_with_the_job() -> None:
    job = Job()
    job.end_data("Source 0", "Source 1")
    job.advance(1_000)
    job.complete(1)
    job.savepoint()
    job.restart()
    (done,) = job.commands(SavepointDone)
    assert "the job is RESTARTING" in done.error.message  # type: ignore[union-attr]


def test_a_savepoint_without_a_directory_is_refused_and_stops_nothing() -> None:
    job = Job()
    job.savepoint(StopMode.DRAIN, target="nowhere")
    (done,) = job.commands(SavepointDone)
    assert done.error is not None
    assert done.error.message == "no directory for the savepoint"
    job.advance(1_000)
    assert triggered(job) == [1]


def test_nothing_else_is_triggered_once_the_job_is_being_stopped() -> None:
    job = Job()
    job.savepoint(StopMode.SUSPEND)
    job.savepoint(request="other")
    job.savepoint(StopMode.DRAIN, request="another")
    assert [done.request_id for done in job.commands(SavepointDone)] == ["other", "another"]
    job.end_data(*ALL)
    job.advance(4_999)
    assert triggered(job) == [1]
    assert job.commands(SendTrigger)[0].options.stop is StopMode.SUSPEND


def test_stopping_is_answered_when_all_tasks_have_finished() -> None:
    job = Job()
    job.savepoint(StopMode.DRAIN)
    job.complete(1)
    assert len(job.commands(SendComplete)) == 6
    for name in ALL:
        assert job.commands(SavepointDone) == []
        job.move(name, "FINISHED")
    assert job.commands(SavepointDone) == [SavepointDone("r", "savepoints/savepoint-1", None)]
    job.advance(10_000)
    assert triggered(job) == [1]


def test_stopping_that_fails_restarts_the_job_whose_tasks_may_have_stopped_already() -> None:
    job = Job(settings(timeout_ms=Millis(300), tolerable_failures=9))
    job.savepoint(StopMode.SUSPEND)
    job.advance(300)
    (done,) = job.commands(SavepointDone)
    assert "savepoint 1 failed: it was not complete in time" in done.error.message  # type: ignore[union-attr]
    (message,) = failures(job)
    assert "savepoint 1, which was to stop the job, failed" in message
    job.restart()
    job.advance(1_000)
    assert triggered(job) == [1, 2], "triggering goes on"


def test_a_task_that_is_lost_while_the_job_is_being_stopped_is_a_failure_like_any_other() -> None:
    job = Job()
    job.savepoint(StopMode.SUSPEND)
    job.move("count 0", "FAILED")
    assert failures(job) == []
    (done,) = job.commands(SavepointDone)
    assert "count (1/2) is FAILED" in done.error.message  # type: ignore[union-attr]


def test_a_task_that_is_lost_after_the_last_savepoint_is_restarted_to_end_with_it() -> None:
    job = Job()
    job.savepoint(StopMode.SUSPEND)
    job.complete(1)
    job.move("Source 0", "FINISHED")
    job.move("count 0", "FAILED")
    job.restart()
    assert (job.commands(SavepointDone), failures(job)) == ([], [])
    job.advance(10_000)
    assert triggered(job) == [1], "the job does nothing any more but to end"
    job.end_data(*ALL)
    assert triggered(job) == [2], "tasks that have nothing more to do end with a final checkpoint, as always"
    job.complete(2)
    job.move("Source 0", "FINISHED")
    for name in ALL[1:]:
        assert job.commands(SavepointDone) == []
        job.move(name, "FINISHED")
    assert job.commands(SavepointDone) == [SavepointDone("r", "savepoints/savepoint-1", None)]


def test_a_job_that_fails_for_good_after_its_last_savepoint_says_where_that_is() -> None:
    job = Job()
    job.savepoint(StopMode.SUSPEND)
    job.complete(1)
    job.move("count 0", "FAILED")
    job.graph.transition_job(JobStatus.FAILING, job.now)
    job.settle()
    (done,) = job.commands(SavepointDone)
    assert "savepoints/savepoint-1" in done.error.message  # type: ignore[union-attr]
    assert "start the job from it" in done.error.message  # type: ignore[union-attr]


def test_a_job_master_goes_on_stopping_where_the_one_before_it_died() -> None:
    job = Job(starts=False, first_id=2, stop=StopSavepoint("r", "savepoints/savepoint-1"))
    job.run_all()
    job.savepoint(request="other")
    (refused,) = job.commands(SavepointDone)
    assert "is being stopped with a savepoint already" in refused.error.message  # type: ignore[union-attr]
    job.advance(10_000)
    assert triggered(job) == []
    job.end_data(*ALL)
    job.complete(2)
    for name in ALL:
        assert job.commands(SavepointDone) == []
        job.move(name, "FINISHED")
    assert job.commands(SavepointDone) == [SavepointDone("r", "savepoints/savepoint-1", None)]


def test_a_job_that_is_cancelled_while_it_stops_is_just_cancelled() -> None:
    job = Job()
    job.savepoint(StopMode.SUSPEND)
    job.complete(1)
    job.graph.transition_job(JobStatus.CANCELLING, job.now)
    job.settle()
    assert failures(job) == []
    (done,) = job.commands(SavepointDone)
    assert "the job is CANCELLING" in done.error.message  # type: ignore[union-attr]


def test_a_savepoint_that_is_stored_after_a_task_was_lost_stops_the_job_when_that_runs_again() -> None:
    job = Job()
    job.savepoint(StopMode.SUSPEND)
    job.acknowledge(1)
    job.move("count 0", "FAILED")
    job.stored(1)
    assert len(job.commands(SendComplete)) == 5
    job.restart()
    job.end_data(*ALL)
    job.complete(2)
    for name in ALL:
        assert job.commands(SavepointDone) == []
        job.move(name, "FINISHED")
    assert job.commands(SavepointDone) == [SavepointDone("r", "savepoints/savepoint-1", None)]


@pytest.mark.parametrize("status", [JobStatus.FAILING, JobStatus.CANCELLING])
def test_a_savepoint_that_is_stored_when_the_job_is_about_to_end_without_it_is_named(status: JobStatus) -> None:
    job = Job()
    job.savepoint(StopMode.SUSPEND)
    job.acknowledge(1)
    job.graph.transition_job(status, job.now)
    for name in ALL:
        job.move(name, "CANCELING")
    job.stored(1)
    assert job.commands(SendComplete) == []
    (done,) = job.commands(SavepointDone)
    assert f"savepoints/savepoint-1: the job is {status.name}" in done.error.message  # type: ignore[union-attr]


# -- restoring and looking at it ---------------------------------------------------------------------------------


def restored(job: Job, checkpoint_id: int) -> None:
    checkpoint = CompletedCheckpoint(JOB, "three", checkpoint_id, 0, 0, True, "old", {})
    job.coordinator.restored(checkpoint, 5)


def test_ids_go_on_above_the_restored_checkpoint_and_never_back() -> None:
    job = Job()
    restored(job, 41)
    job.advance(1_000)
    assert triggered(job) == [42]
    job.restart()
    restored(job, 3)
    job.advance(1_000)
    assert triggered(job) == [43]


def test_the_overview_shows_the_last_checkpoints_newest_first() -> None:
    job = Job(settings(tolerable_failures=100))
    for checkpoint_id in range(1, 13):
        job.advance(1_000 * checkpoint_id - job.now)
        job.now += 5
        job.complete(checkpoint_id)
    job.advance(1_000)
    job.decline(13, "count 0", OSError("disk full"))
    job.savepoint()
    restored(job, 9)
    overview = job.coordinator.overview()
    counts = overview.counts
    assert (counts.triggered, counts.completed, counts.failed, counts.in_progress, counts.restored) == (14, 12, 1, 1, 1)
    assert [entry.checkpoint_id for entry in overview.history] == list(range(14, 3, -1))
    savepoint, failed, completed = overview.history[:3]
    assert (savepoint.kind, savepoint.status) == (CheckpointKind.SAVEPOINT, CheckpointStatus.IN_PROGRESS)
    assert savepoint.duration_ms is None
    assert failed.status is CheckpointStatus.FAILED
    assert "disk full" in (failed.failure or "")
    assert completed == overview.latest_completed
    assert (completed.duration_ms, completed.subtasks, completed.acknowledged) == (5, 6, 6)
    assert (completed.alignment_ms, completed.sync_ms) == (Spread(2.0, 12.0), Spread(3.0, 18.0))
    assert (completed.start_delay_ms, completed.async_ms) == (Spread(1.0, 6.0), Spread(4.0, 24.0))
    assert completed.in_flight_bytes == 30
    assert completed.nbytes > 0
    assert overview.latest_restored is not None
    assert overview.latest_restored.directory == "old"


def test_a_periodic_checkpoint_without_a_usable_directory_is_an_error_of_the_configuration() -> None:
    job = Job()

    def refuse(_checkpoint_id: int, _is_savepoint: bool, _target: str) -> tuple[str, str]:
        raise CheckpointError("no such file system")

    job.coordinator._directories = refuse
    with pytest.raises(CheckpointError, match="no such file system"):
        job.coordinator.tick(1_000)

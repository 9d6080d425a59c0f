from __future__ import annotations

import pickle

import pytest

from flinkray.execution import JobStatus
from graphs.job_status import JobStatusHistory
from graphs.states import JOB_TRANSITIONS, TRANSITIONS, ExecutionState, IllegalTransition, check_transition

GOOD_ROAD = [
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
    ExecutionState.FINISHED,
]


def test_every_state_has_a_row_and_exactly_the_terminal_ones_an_empty_row() -> None:
    assert set(TRANSITIONS) == set(ExecutionState)
    assert {state for state, following in TRANSITIONS.items() if not following} == {
        state for state in ExecutionState if state.is_terminal
    }
    assert set(JOB_TRANSITIONS) == set(JobStatus)
    assert {status for status, following in JOB_TRANSITIONS.items() if not following} == {
        status for status in JobStatus if status.is_terminal
    }


def test_an_attempt_goes_the_good_road_step_by_step_and_skips_nothing() -> None:
    for index, state in enumerate(GOOD_ROAD[:-1]):
        assert GOOD_ROAD[index + 1] in TRANSITIONS[state]
        assert not TRANSITIONS[state] & set(GOOD_ROAD[index + 2 :])


@pytest.mark.parametrize("state", [state for state in ExecutionState if not state.is_terminal])
def test_from_every_state_that_is_not_terminal_an_attempt_can_fail_and_be_cancelled(state: ExecutionState) -> None:
    assert ExecutionState.FAILED in TRANSITIONS[state]
    assert TRANSITIONS[state] & {ExecutionState.CANCELING, ExecutionState.CANCELED}


def test_what_is_not_deployed_yet_is_cancelled_without_asking_a_worker() -> None:
    assert ExecutionState.CANCELING not in TRANSITIONS[ExecutionState.CREATED]
    assert ExecutionState.CANCELING not in TRANSITIONS[ExecutionState.SCHEDULED]


def test_illegal_move_names_subject_both_states_and_the_road_and_survives_pickling() -> None:
    with pytest.raises(IllegalTransition) as caught:
        check_transition("map (1/2) attempt 0", ExecutionState.SCHEDULED, ExecutionState.RUNNING, GOOD_ROAD[:2])
    expected = "map (1/2) attempt 0 cannot go from SCHEDULED to RUNNING; the road there: CREATED -> SCHEDULED"
    assert str(caught.value) == expected
    assert str(pickle.loads(pickle.dumps(caught.value))) == expected


def test_staying_in_a_state_is_no_move() -> None:
    with pytest.raises(IllegalTransition):
        check_transition("x", JobStatus.RUNNING, JobStatus.RUNNING, [])


def running_job() -> JobStatusHistory:
    job = JobStatusHistory("orders", now_ms=0)
    job.transition(JobStatus.CREATED, 1)
    job.transition(JobStatus.RUNNING, 10)
    return job


def test_job_listeners_hear_every_move_with_its_time() -> None:
    job = JobStatusHistory("orders", now_ms=0)
    heard: list[tuple[JobStatus, JobStatus, int]] = []
    job.add_listener(lambda former, to, now_ms: heard.append((former, to, now_ms)))
    job.transition(JobStatus.CREATED, 5)
    job.transition(JobStatus.RUNNING, 7)
    assert heard == [(JobStatus.INITIALIZING, JobStatus.CREATED, 5), (JobStatus.CREATED, JobStatus.RUNNING, 7)]
    assert job.timestamps[JobStatus.RUNNING] == 7


def test_job_that_ended_cannot_be_revived_and_the_error_names_it() -> None:
    job = running_job()
    job.transition(JobStatus.FINISHED, 20)
    with pytest.raises(IllegalTransition, match="job 'orders' cannot go from FINISHED to RUNNING"):
        job.transition(JobStatus.RUNNING, 21)


def test_up_time_counts_from_the_last_start_and_only_while_running() -> None:
    job = running_job()
    assert job.up_time_ms(25) == 15
    job.transition(JobStatus.RESTARTING, 30)
    assert job.up_time_ms(40) == 0
    job.transition(JobStatus.RUNNING, 50)
    assert job.up_time_ms(60) == 10


def test_down_time_counts_the_current_outage_over_all_its_statuses() -> None:
    job = running_job()
    assert job.down_time_ms(20) == 0
    job.transition(JobStatus.RESTARTING, 30)
    assert job.down_time_ms(40) == 10
    job.transition(JobStatus.FAILING, 45)
    assert job.down_time_ms(50) == 20
    job.transition(JobStatus.FAILED, 55)
    assert job.down_time_ms(60) == 0


def test_restarting_time_is_that_of_the_last_restart() -> None:
    job = running_job()
    assert job.restarting_time_ms(20) == 0
    job.transition(JobStatus.RESTARTING, 30)
    assert job.restarting_time_ms(35) == 5
    job.transition(JobStatus.RUNNING, 42)
    assert job.restarting_time_ms(100) == 12
    assert job.restarts == 1

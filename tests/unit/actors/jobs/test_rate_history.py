"""What each subtask did per second, in bounded memory."""

from __future__ import annotations

import pytest

from actors.jobs.rate_history import RateHistory
from actors.protocol.job_reports import TaskRates
from actors.protocol.task_messages import TaskMetrics
from graphs.execution_graph import AttemptId, ExecutionVertexId
from graphs.job_graph import JobVertexId

SUBTASK = ExecutionVertexId(JobVertexId("v"), 0)
FIRST, SECOND = AttemptId("v_0_0"), AttemptId("v_0_1")


def test_rates_are_of_a_second_between_two_reports() -> None:
    history = RateHistory()
    history.report(SUBTASK, FIRST, TaskMetrics(records_in=10, busy_ms=100), 1_000)
    assert history.latest(SUBTASK, FIRST) == TaskRates(), "one report says nothing about a second"
    history.report(SUBTASK, FIRST, TaskMetrics(records_in=30, busy_ms=300, idle_ms=1_800), 3_000)
    assert history.latest(SUBTASK, FIRST) == TaskRates(records_in=10.0, busy_ms=100.0, idle_ms=900.0)


def test_a_second_has_no_more_than_its_milliseconds_and_not_less_than_none() -> None:
    history = RateHistory()
    history.report(SUBTASK, FIRST, TaskMetrics(), 0)
    history.report(SUBTASK, FIRST, TaskMetrics(busy_ms=1_500, records_in=3_000), 1_000)
    assert history.latest(SUBTASK, FIRST) == TaskRates(records_in=3_000.0, busy_ms=1_000.0)
    history.report(SUBTASK, FIRST, TaskMetrics(busy_ms=1_499.9, records_in=3_000), 2_000)
    assert history.latest(SUBTASK, FIRST) == TaskRates()


def test_a_new_attempt_counts_from_nothing_and_the_history_goes_on() -> None:
    history = RateHistory()
    history.report(SUBTASK, FIRST, TaskMetrics(), 0)
    history.report(SUBTASK, FIRST, TaskMetrics(records_in=100), 1_000)
    history.report(SUBTASK, SECOND, TaskMetrics(records_in=1), 2_000)
    assert history.latest(SUBTASK, SECOND) == TaskRates()
    assert history.latest(SUBTASK, FIRST) == TaskRates(), "it is over"
    history.report(SUBTASK, SECOND, TaskMetrics(records_in=8, watermark=5, input_queue=2, output_queue=3), 3_000)
    first, second = history.samples(SUBTASK)
    assert (first.time_ms, first.rates.records_in, first.watermark) == (1_000, 100.0, None)
    assert (second.time_ms, second.rates.records_in, second.watermark) == (3_000, 7.0, 5)
    assert (second.input_queue, second.output_queue) == (2, 3)


def test_figures_that_come_right_after_others_do_not_count() -> None:
    history = RateHistory()
    history.report(SUBTASK, FIRST, TaskMetrics(), 0)
    history.report(SUBTASK, FIRST, TaskMetrics(records_in=50), 99)
    assert history.samples(SUBTASK) == ()
    history.report(SUBTASK, FIRST, TaskMetrics(records_in=50), 1_000)
    assert history.latest(SUBTASK, FIRST).records_in == pytest.approx(50.0)


def test_of_a_thousand_subtasks_the_last_minute_is_kept_in_some_megabytes() -> None:
    history = RateHistory(samples=3)
    for report in range(10):
        history.report(SUBTASK, FIRST, TaskMetrics(records_in=report), report * 1_000)
    assert [each.time_ms for each in history.samples(SUBTASK)] == [7_000, 8_000, 9_000]
    full = RateHistory()
    for report in range(200):
        full.report(SUBTASK, FIRST, TaskMetrics(), report * 1_000)
    kept = full._subtasks[SUBTASK].samples
    assert len(kept) * kept.itemsize <= 6_240


def test_of_what_has_not_reported_nothing_is_known() -> None:
    assert RateHistory().samples(SUBTASK) == ()
    assert RateHistory().latest(SUBTASK, FIRST) == TaskRates()

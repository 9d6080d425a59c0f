"""Figures of user functions, and the job's parameters: what a runtime context gives beside state."""

from __future__ import annotations

import logging
import random

import pytest

from actors.tasks.metrics.figures import OperatorFigures
from actors.user_code.functions import TaskRuntimeContext
from flinkray.errors import InvalidProgramError
from tests.support.operators import FakeContext


def context_with_figures() -> tuple[FakeContext, OperatorFigures]:
    context, figures = FakeContext(operator_name="map"), OperatorFigures("map")
    context.metrics = figures  # type: ignore[assignment]
    return context, figures


def test_figures_are_reported_as_gauges_of_the_operator() -> None:
    context, figures = context_with_figures()
    group = TaskRuntimeContext(context).get_metrics_group()
    counter = group.counter("rows")
    counter.inc()
    counter.inc(4)
    counter.dec(2)
    level = [7]
    group.gauge("level", lambda: level[0])
    distribution = group.distribution("size")
    assert (counter.get_count(), figures.gauges()) == (3, {"rows": 3.0, "level": 7.0})
    for value in (4, 1, 7):
        distribution.update(value)
    level[0] = 8
    assert figures.gauges() == {
        "rows": 3.0,
        "level": 8.0,
        "size_count": 3.0,
        "size_sum": 12.0,
        "size_min": 1.0,
        "size_max": 7.0,
        "size_mean": 4.0,
    }


def test_groups_put_their_names_before_the_figures() -> None:
    context, figures = context_with_figures()
    group = TaskRuntimeContext(context).get_metrics_group().add_group("user").add_group("country", "de-AT")
    group.counter("rows seen").inc()
    assert group.get_scope_components() == ["user", "country", "de-AT"]
    assert group.get_metric_identifier("rows seen") == "user_country_de_AT_rows_seen"
    assert figures.gauges() == {"user_country_de_AT_rows_seen": 1.0}


def test_operators_that_are_fused_into_one_keep_their_figures_apart() -> None:
    context, figures = context_with_figures()
    for name in ("map", "second"):
        TaskRuntimeContext(context, operator_name=name).get_metrics_group().counter("rows").inc()
    assert figures.gauges() == {"rows": 1.0, "second_rows": 1.0}


def test_a_name_is_one_figure_of_one_kind() -> None:
    context, _ = context_with_figures()
    runtime_context = TaskRuntimeContext(context)
    counter = runtime_context.get_metrics_group().counter("rows")
    assert runtime_context.get_metrics_group().counter("rows") is counter
    with pytest.raises(InvalidProgramError, match="operator 'map': 'rows' names a figure of another kind"):
        runtime_context.get_metrics_group().meter("rows")
    with pytest.raises(InvalidProgramError, match="gauge 'level' takes a function without arguments, not 5"):
        runtime_context.get_metrics_group().gauge("level", 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="meter 'm' looks at a span of at least 1 s, not of 0 s"):
        runtime_context.get_metrics_group().meter("m", 0)


def test_a_gauge_that_fails_is_logged_and_left_out_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    context, figures = context_with_figures()
    group = TaskRuntimeContext(context).get_metrics_group()
    calls: list[int] = []

    def fail() -> float:
        calls.append(1)
        raise ValueError("no level")

    group.gauge("level", fail)
    group.counter("rows").inc()
    with caplog.at_level(logging.WARNING):
        assert figures.gauges() == figures.gauges() == {"rows": 1.0}
    assert len(calls) == 1
    assert "gauge 'level' of operator 'map' is not reported any more" in caplog.text
    assert "no level" in caplog.text


@pytest.mark.parametrize("seed", range(20))
def test_a_meter_gives_the_events_per_second_of_its_span(seed: int) -> None:
    """Within what it may forget: it remembers counts a thousandth of the span apart at the closest."""
    generator = random.Random(seed)
    context, figures = context_with_figures()
    span_s = generator.choice([1, 10, 60])
    meter = TaskRuntimeContext(context).get_metrics_group().meter("events", span_s)
    begun, events = context.clock.now, []
    for _ in range(300):
        context.clock.now += generator.choice([1, 10, span_s * 20, span_s * 300])
        if generator.random() < 0.7:
            count = generator.randint(1, 5)
            meter.mark_event(count)
            events.append((context.clock.now, count))
        rate = figures.gauges()["events"]
        now = context.clock.now
        # It knows the count of the last look before the span began, which is at most one step older than the span.
        newest = sum(count for time, count in events if time > now - span_s * 1000)
        oldest = sum(count for time, count in events if time > now - span_s * 1000 - span_s * 301)
        assert newest <= rate * span_s + 1e-6
        assert rate * span_s - 1e-6 <= oldest
    assert meter.get_count() == sum(count for _, count in events)
    assert begun < context.clock.now


def test_a_meter_falls_to_nothing_when_nothing_happens() -> None:
    context, figures = context_with_figures()
    meter = TaskRuntimeContext(context).get_metrics_group().meter("events", 10)
    meter.mark_event(50)
    assert figures.gauges()["events"] == 5.0
    context.clock.now += 10_001
    assert figures.gauges()["events"] in (0.0, 5.0)  # the marks were seen at the first look only
    context.clock.now += 10_001
    assert figures.gauges()["events"] == 0.0


def test_a_job_parameter_is_the_jobs_or_the_default() -> None:
    runtime_context = TaskRuntimeContext(FakeContext(job_parameters={"limit": "5"}))
    assert runtime_context.get_job_parameter("limit", "1") == "5"
    assert runtime_context.get_job_parameter("other", "1") == "1"

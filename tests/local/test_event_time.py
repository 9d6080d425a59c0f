"""Event time through whole jobs: alignment of sources, assigners anywhere, idleness, latencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flinkray import (
    Count,
    ProcessFunction,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.errors import JobExecutionError
from flinkray.testing import Active, Idle, ScriptedSource, Simulation, Watermark
from tests.support.event_time import POSITIONS, Pace, PacedSource
from tests.support.jobs import environment

# In event time the fast one goes ten times as fast as the slow one.
FAST = Pace("fast", rows=250, step_ms=2, event_time_step=20)
SLOW = Pace("slow", rows=25, step_ms=40, event_time_step=40)
DRIFT_MS = 300
# Reports, limits and watermarks are on their way for some time each, in which the fast one reads on.
SLACK_MS = 600


@pytest.fixture(autouse=True)
def positions() -> Iterator[None]:
    POSITIONS.clear()
    yield
    POSITIONS.clear()


def strategy(group: str | None) -> WatermarkStrategy:
    base = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at").with_idleness("100 ms")
    return base if group is None else base.with_watermark_alignment(group, DRIFT_MS, 10)


def run_paced(group: str | None, seed: int, *paces: Pace) -> list[Any]:
    """The rows of the sources, by when they came, in virtual time."""
    options = {"pipeline.auto-watermark-interval": "10 ms", "execution.buffer-timeout.interval": 0}
    env = environment(options, parallelism=1)
    streams = [env.from_source(PacedSource(pace), strategy(group), pace.name) for pace in paces]
    POSITIONS.update({pace.name: 0 for pace in paces})
    return Simulation(seed, faults=None).collect(streams[0].union(*streams[1:]))


def furthest_ahead(rows: list[Any]) -> int:
    """How far the fast source got ahead of the slow one, while that was not at its end."""
    end = (SLOW.rows - 1) * SLOW.event_time_step
    together = [row for row in rows if row.name == "fast" and row.positions["slow"] < end]
    return max(row.at - row.positions["slow"] for row in together)


@pytest.mark.parametrize("seed", range(3))
def test_alignment_bounds_how_far_a_fast_source_gets_ahead_and_loses_no_row(seed: int) -> None:
    rows = run_paced("group", seed, FAST, SLOW)
    assert len(rows) == FAST.rows + SLOW.rows
    assert DRIFT_MS / 2 < furthest_ahead(rows) < DRIFT_MS + SLACK_MS


def test_without_alignment_a_fast_source_gets_far_ahead() -> None:
    assert furthest_ahead(run_paced(None, 0, FAST, SLOW)) > 3_000


def test_an_idle_source_of_the_group_blocks_nobody() -> None:
    lazy = Pace("lazy", rows=2, step_ms=800, event_time_step=1)
    rows = run_paced("group", 0, FAST, SLOW, lazy)  # no message takes half a second with this seed, as a few do
    assert len(rows) == FAST.rows + SLOW.rows + lazy.rows
    assert furthest_ahead(rows) < DRIFT_MS + SLACK_MS
    (last,) = [row for row in rows if row.name == "lazy" and row.at == 1]
    assert last.positions["fast"] > DRIFT_MS + SLACK_MS, "it went on while the lazy one stood at 0"


@pytest.mark.parametrize("is_joined", [False, True])
def test_a_source_that_is_idle_when_the_others_have_ended_loses_no_row(is_joined: bool) -> None:
    """Its event time is not over: rows that it has later are not late (FLINK-38477)."""
    env = environment({"execution.buffer-timeout.interval": 0}, parallelism=1)
    event_time = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _time: value)
    ended = env.from_source(ScriptedSource([1]), event_time, "ended")
    # Each item is a poll of its own: the other has ended long before the last rows.
    quiet = env.from_source(ScriptedSource([2, Watermark(5), *[Idle, Active] * 200, Idle, 13, 25]), event_time, "quiet")
    windows = TumblingEventTimeWindows.of(10)
    if is_joined:
        both = ended.co_group(quiet).where(lambda _: 0).equal_to(lambda _: 0).window(windows)
        sums = both.apply(lambda left, right: [sum(left) + sum(right)])
    else:
        sums = ended.union(quiet).key_by(lambda _: 0).window(windows).reduce(lambda one, two: one + two)
    assert sorted(Simulation(0, faults=None).collect(sums)) == [3, 13, 25]


def test_an_assigner_in_the_middle_of_a_stream_replaces_event_time_and_watermarks() -> None:
    env = environment(parallelism=1)
    source = ScriptedSource([("a", 1), Watermark(1_000), ("a", 12), ("b", 25)])
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "script")
    timed = stream.map(lambda value: value).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _time: value[1])
    )
    counts = timed.key_by("f0").window(TumblingEventTimeWindows.of(10)).aggregate(rows=Count())
    found = sorted((row.f0, row.window_start, row.rows) for row in counts.execute_and_collect())
    assert found == [("a", 0, 1), ("a", 10, 1), ("b", 20, 1)], "no row is late for the watermark of the source"


def test_a_source_that_ends_fires_all_windows() -> None:
    env = environment(parallelism=2)
    event_time = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _time: value)
    stream = env.from_source(ScriptedSource([1, 2, 11]), event_time, "script")
    sums = stream.key_by(lambda _value: 0).window(TumblingEventTimeWindows.of(10)).reduce(lambda one, two: one + two)
    assert sorted(sums.execute_and_collect()) == [3, 11]


class WatermarkSeen(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, int]]:
        yield value, ctx.timer_service().current_watermark()


def test_an_idle_source_does_not_hold_back_the_other() -> None:
    env = environment({"execution.buffer-timeout.interval": 0}, parallelism=1)
    no_time = WatermarkStrategy.no_watermarks()
    quiet = env.from_source(ScriptedSource([-1, Idle, Idle, Watermark(-5), Idle]), no_time, "quiet")
    busy = env.from_source(PacedSource(Pace("busy", 40, 10, 10)), strategy(None), "busy").map(lambda row: row.at)
    seen = dict(quiet.union(busy).process(WatermarkSeen()).execute_and_collect())
    assert seen[390] > 0, "the watermark of the busy one alone"


def test_an_assigner_that_raises_fails_the_job_with_the_users_line() -> None:
    def assign(value: int, _time: int) -> int:
        return 1 // value

    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assign)
    with pytest.raises(JobExecutionError, match=r"return 1 // value") as caught:
        list(env.from_collection([1, 0], watermark_strategy=strategy).execute_and_collect())
    assert "the value was 0" in str(caught.value)


@pytest.mark.parametrize(("granularity", "sources"), [("single", 1), ("operator", 2), ("subtask", 2)])
def test_a_job_reports_how_long_markers_take_to_each_operator(granularity: str, sources: int) -> None:
    options = {"metrics.latency.interval": "10 ms", "metrics.latency.granularity": granularity}
    env = environment(options, parallelism=2)
    ones = [env.from_source(PacedSource(Pace(name, 30, 10, 10)), strategy(None), name) for name in ("fast", "slow")]
    stream = ones[0].union(ones[1]).rebalance().map(lambda row: row.at).name("times")
    stream.print().name("out")
    client = env.execute_async()
    client.result(timeout=30)
    latencies = client.latencies()
    client.close()
    of_map = [each for each in latencies if "times" in each.operator_name]
    assert {each.subtask_index for each in of_map} == {0, 1}
    assert len({(each.source_id, each.source_subtask_index) for each in of_map}) == sources
    assert {each.source_subtask_index is None for each in of_map} == {granularity != "subtask"}
    for each in latencies:
        assert each.count > 0
        assert 0 <= each.min <= each.p50 <= each.p99 <= each.max < 20_000


def test_no_latency_is_measured_unless_an_interval_is_set() -> None:
    env = environment()
    env.from_collection([1]).print()
    client = env.execute_async()
    client.result(timeout=30)
    assert client.latencies() == ()
    client.close()

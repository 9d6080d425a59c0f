"""Latency markers: histograms by source, where markers go, and watermark gauges of operators."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from actors.protocol.elements import LatencyMarker, Watermark
from actors.protocol.task_messages import TaskMetrics
from actors.tasks.chain.outputs import BroadcastingOutput
from actors.tasks.metrics.figures import OperatorFigures
from actors.tasks.metrics.latencies import Granularity, Histogram, OperatorLatencies
from actors.testing.context import RecordingOutput
from flinkray.types.records import MAX_TIMESTAMP, Timestamp
from tests.support.tasks import Node, Probe, TaskHarness


@pytest.mark.parametrize("seed", range(5))
def test_a_histogram_is_of_the_last_values(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.randint(1, 20)
    histogram = Histogram(size)
    values: list[float] = []
    for _ in range(chance.randint(1, 60)):
        values.append(chance.random())
        histogram.add(values[-1])
        assert sorted(histogram.last_values()) == sorted(values[-size:])
    assert histogram.count == len(values)


def latencies(granularity: Granularity) -> OperatorLatencies:
    measured = OperatorLatencies("target", "map", 2, granularity, 100)
    for latency, source in enumerate([("a", 0), ("a", 1), ("b", 0)] * 20):
        measured.add(LatencyMarker(0, *source), float(latency))
    return measured


def test_granularity_says_which_sources_are_told_apart() -> None:
    def sources(granularity: Granularity) -> dict[tuple[str, int | None], int]:
        return {(each.source_id, each.source_subtask_index): each.count for each in latencies(granularity).statistics()}

    assert sources(Granularity.SINGLE) == {("", None): 60}
    assert sources(Granularity.OPERATOR) == {("a", None): 40, ("b", None): 20}
    assert sources(Granularity.SUBTASK) == {("a", 0): 20, ("a", 1): 20, ("b", 0): 20}


def test_statistics_are_quantiles_of_the_histogram() -> None:
    (statistics,) = latencies(Granularity.SINGLE).statistics()
    assert (statistics.operator_id, statistics.operator_name, statistics.subtask_index) == ("target", "map", 2)
    assert (statistics.min, statistics.max, statistics.mean) == (0.0, 59.0, 29.5)
    assert (statistics.p50, statistics.p95) == tuple(np.quantile(np.arange(60.0), (0.5, 0.95)))
    assert statistics.p50 <= statistics.p75 <= statistics.p95 <= statistics.p98 <= statistics.p99 <= statistics.p999


def test_of_several_outputs_a_latency_marker_goes_to_one_at_random() -> None:
    outputs = [RecordingOutput() for _ in range(3)]
    both = BroadcastingOutput(outputs, random.Random(1))
    for number in range(300):
        both.emit_latency_marker(LatencyMarker(number, "source", 0))
    counts = [len(output.elements) for output in outputs]
    assert sum(counts) == 300
    assert min(counts) > 60


def test_every_operator_of_a_chain_measures_a_marker_and_a_task_reports_it() -> None:
    nodes = [Node("a", lambda: Probe("a"), to=[1], inputs=[0]), Node("b", lambda: Probe("b"), out=[0])]
    task = TaskHarness(nodes, channels=[1], consumers=[1]).start()
    for delay in (10, 30):
        task.put(LatencyMarker(task.time.now - delay, "source", 0))
    task.run_until_idle()
    metrics: TaskMetrics = task.task.metrics()
    found = Counter((each.operator_name, each.count, each.min, each.max) for each in metrics.latencies)
    assert found == Counter({("a", 2, 10.0, 30.0): 1, ("b", 2, 10.0, 30.0): 1})


def test_watermark_gauges_are_per_operator_and_input() -> None:
    nodes = [Node("a", lambda: Probe("a", inputs=2), to=[1], inputs=[0, 1]), Node("b", lambda: Probe("b"), out=[0])]
    task = TaskHarness(nodes, channels=[1, 1], consumers=[1]).start()

    def gauges() -> list[dict[str, float]]:
        task.run_until_idle()
        return [operator.gauges for operator in task.task.metrics().operators]

    assert gauges() == [{}, {}]
    task.put(Watermark(Timestamp(5)), gate=0)
    assert gauges() == [{"current_input_1_watermark_ms": 5}, {}]
    task.put(Watermark(Timestamp(3)), gate=1)
    two = {
        "current_input_1_watermark_ms": 5,
        "current_input_2_watermark_ms": 3,
        "current_input_watermark_ms": 3,
        "current_output_watermark_ms": 3,
    }
    assert gauges() == [two, {"current_input_watermark_ms": 3, "current_output_watermark_ms": 3}]


def test_the_end_of_time_is_no_gauge() -> None:
    figures = OperatorFigures("a")
    figures.watermark_in(0, MAX_TIMESTAMP)
    figures.watermark_out(MAX_TIMESTAMP)
    assert figures.gauges() == {}

"""What a running job exports is what is listed, and all that the dashboard and the alerts ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from actors.hosts import local
from actors.hosts.in_process import InProcessMetrics
from flinkray import Count, DataGenSource, FileSink, JobCanceledError, SequenceField, TumblingEventTimeWindows
from flinkray.metrics import grafana
from flinkray.metrics.catalogue import METRICS, PREFIX
from flinkray.time.watermarks import WatermarkStrategy
from tests.support.jobs import environment
from tests.support.waiting import eventually

_SELECTOR = re.compile(rf"({PREFIX}\w+)(?:\{{([^}}]*)\}})?")
_MATCHER = re.compile(r'\s*(\w+)\s*(?:=|!=|=~|!~)\s*"[^"]*"\s*')
_GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")


def queries() -> Iterator[str]:
    for panel in grafana.panels():
        yield from (query for query, _ in panel.queries)
    yield from (rule.expression for rule in grafana.alert_rules())
    yield from (each["query"] for each in grafana.dashboard()["templating"]["list"] if each["type"] == "query")


def asked_for(query: str) -> dict[str, set[str]]:
    """Series -> the labels that the query needs of it."""
    depth = 0
    for character in query:
        depth += {"(": 1, ")": -1}.get(character, 0)
        assert depth >= 0, query
    assert depth == 0, query
    groups = {label.strip() for found in _GROUPING.findall(query) for label in found.split(",")}
    groups |= set(re.findall(r"^label_values\(.*, (\w+)\)$", query))
    found = {}
    for series, matchers in _SELECTOR.findall(query):
        labels = [_MATCHER.fullmatch(matcher) for matcher in matchers.split(",")] if matchers else []
        assert all(labels), query
        found[series] = groups | {label[1] for label in labels if label}
    assert found, query
    return found


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Name -> tags of all that a job exports that has windows, late rows, checkpoints and a sink with two phases."""
    directory = tmp_path_factory.mktemp("metrics")
    made: list[InProcessMetrics] = []

    class Kept(InProcessMetrics):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    env = environment(
        {
            "metrics.fetcher.update-interval": "20 ms",
            "metrics.latency.interval": "10 ms",
            "execution.checkpointing.interval": "30 ms",
        },
        parallelism=1,
    )
    source = DataGenSource({"n": SequenceField(0, 10**9)}, rows_per_second=2_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    # Every other row is of an hour before.
    times = numbers.map_batches(
        lambda n: {"key": n["n"] % 3, "time": 10_000_000 + n["n"] * 100 - (n["n"] % 2) * 3_600_000},
        batch_format="numpy",
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("1 s").with_timestamp_assigner("time")
    counts = (
        times.assign_timestamps_and_watermarks(strategy)
        .key_by("key")
        .window(TumblingEventTimeWindows.of("1 s"))
        .aggregate(rows=Count())
    )
    counts.sink_to(FileSink(str(directory / "out"), "parquet"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "InProcessMetrics", Kept)
        client = env.execute_async("metrics")

    def names() -> dict[str, set[str]]:
        (metrics,) = made
        found: dict[str, set[str]] = {}
        for name, tags in metrics.values():
            found.setdefault(name, set()).update(dict(tags))
        return found

    wanted = {series for query in queries() for series in asked_for(query)}
    try:
        series_of = {metric.name: metric.series for metric in METRICS}
        eventually(lambda: wanted - {series_of.get(name, "") for name in names()}, lambda missing: not missing)
        return names()
    finally:
        client.cancel()
        with pytest.raises(JobCanceledError):
            client.result(timeout=30)
        client.close()


def test_every_query_asks_for_what_a_job_exports_with_labels_that_it_has(exported: dict[str, set[str]]) -> None:
    by_series = {metric.series: metric for metric in METRICS}
    for query in queries():
        for series, labels in asked_for(query).items():
            assert labels <= exported[by_series[series].name], query
            assert ("rate(" in query) == by_series[series].is_counter, f"rates are those of counters: {query}"


def test_what_a_job_exports_is_listed_with_its_tags(exported: dict[str, set[str]]) -> None:
    listed: dict[str, Any] = {metric.name: set(metric.tags) for metric in METRICS}
    assert {name: tags for name, tags in exported.items() if not tags <= listed.get(name, set())} == {}

"""Each workload of the comparison, run by flinkray, gives what it must give."""

from __future__ import annotations

import os

import pytest

from benchmarks import flinkray_engine
from benchmarks.definitions import Order, text_file
from benchmarks.workloads import l1, m1, s1, w1
from benchmarks.workloads.catalog import THROUGHPUT

ROWS = {"W5": 30_000}


@pytest.fixture(autouse=True)
def _texts_in_a_directory_of_the_test(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(w1, "text_file", lambda words: text_file(words, tmp_path))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", THROUGHPUT)
def test_flinkray_gives_the_expected_count_and_sum(name: str) -> None:
    rows = ROWS.get(name, 12_000)
    found, seconds = flinkray_engine.run(Order(name, rows, parallelism=2, checks=True, mode="local"))
    expected = THROUGHPUT[name].expected(rows)
    assert found is not None
    assert expected.agrees(found), (expected, found)
    assert expected.count > 0
    assert seconds > 0


def test_a_timed_run_looks_at_no_results() -> None:
    found, seconds = flinkray_engine.run(Order("W3x", 1_000, parallelism=1, checks=False, mode="local"))
    assert found is None
    assert seconds > 0


@pytest.mark.parametrize("slots", l1.SLOTS)
def test_the_latency_of_every_row_is_measured(slots: int) -> None:
    found = l1.latencies(rate=5_000, buffer_timeout_ms=0, slots=slots, rows=1_000, target="local")
    assert list(found) == ["p50", "p99", "p99.9"]
    assert 0 < found["p50"] <= found["p99"] <= found["p99.9"]


def test_the_time_to_the_first_result_is_measured() -> None:
    assert s1.seconds_to_first_result("local", parallelism=1) > 0


def test_a_job_without_ray_uses_no_object_store() -> None:
    assert m1.peak_object_store_mib(20_000, "local", parallelism=1) == 0

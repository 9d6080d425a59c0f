"""What is timed, in which order, and what is subtracted, with scripts that only claim to run."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.__main__ import contenders
from benchmarks.comparison import (
    Contender,
    Figures,
    Settings,
    best_modes,
    calibrated_rows,
    compare,
    fastest_modes,
)
from benchmarks.engines import ENGINES
from benchmarks.process_tree import Measured, RunFailed
from benchmarks.workloads.catalog import THROUGHPUT

W3X = THROUGHPUT["W3x"]
EXPECTED = W3X.expected(W3X.check_rows)


class Scripts:
    """Stands for engines that take two seconds to start, one per million rows, and use a CPU all the time."""

    def __init__(self, wrong: str = "", failing: str = "") -> None:
        self.calls: list[tuple[str, int, str]] = []
        self._wrong = wrong
        self._failing = failing

    def __call__(self, contender: Contender, workload: str, rows: int, purpose: str) -> Measured:
        name = contender.engine.name
        self.calls.append((name, rows, purpose))
        if name == self._failing and rows > W3X.check_rows:
            raise RunFailed("it broke")
        output: dict[str, Any] = {"count": EXPECTED.count, "sum": EXPECTED.sum, "seconds": 2 + rows / 1e6}
        if name == self._wrong:
            output["count"] += 1
        return Measured(output, cpu_s=5 + rows / 1e6, peak_mib=0.0)

    @property
    def timed(self) -> list[str]:
        return [name for name, rows, purpose in self.calls if purpose == "time" and rows == 4_000_000]


def measured(scripts: Scripts, *engines: str) -> dict[str, Figures]:
    parts = contenders("W3x", list(engines), "local")
    return {each.engine: each for each in compare(W3X, parts, Settings(runs=2, rows=4_000_000), scripts)}


def test_start_up_is_subtracted_from_time_and_from_cpu_time() -> None:
    figures = measured(Scripts(), "flinkray")["flinkray"]
    assert figures.median == pytest.approx(1e6, rel=1e-3)
    assert figures.cpu_s_per_million == pytest.approx(1.0, rel=1e-3)
    assert (figures.rows, figures.mode, figures.problem) == (4_000_000, "local", "")


def test_engines_take_turns() -> None:
    scripts = Scripts()
    measured(scripts, "flinkray", "flink-sql", "spark")
    assert scripts.timed == ["flinkray", "flink-sql", "spark"] * 2


def test_an_engine_with_a_wrong_result_is_not_timed_and_says_so() -> None:
    scripts = Scripts(wrong="spark")
    figures = measured(scripts, "flinkray", "spark")["spark"]
    assert figures.median is None
    assert figures.problem.startswith(f"wrong: expected {EXPECTED.count} results")
    assert "spark" not in scripts.timed


def test_an_engine_that_fails_leaves_the_others_measured() -> None:
    figures = measured(Scripts(failing="spark"), "flinkray", "spark")
    assert figures["spark"].problem == "it broke"
    assert figures["flinkray"].median is not None


def test_rows_that_take_no_longer_than_start_up_are_a_problem_not_a_rate() -> None:
    def always_two_seconds(*_: object) -> Measured:
        return Measured({"count": EXPECTED.count, "sum": EXPECTED.sum, "seconds": 2.0}, 1.0, 0.0)

    (figures,) = compare(W3X, contenders("W3x", ["flinkray"], "ray"), Settings(runs=1, rows=10), always_two_seconds)
    assert figures.median is None
    assert "no longer than start-up" in figures.problem


def test_an_engine_that_was_calibrated_in_a_slow_minute_is_given_more_rows() -> None:
    class FasterByAndBy(Scripts):
        """Two seconds per million rows until it has been calibrated, then a tenth of one."""

        def __call__(self, contender: Contender, workload: str, rows: int, purpose: str) -> Measured:
            super().__call__(contender, workload, rows, purpose)
            pace = 2.0 if len(self.calls) <= 5 else 0.1
            output = {"count": EXPECTED.count, "sum": EXPECTED.sum, "seconds": 2 + pace * rows / 1e6}
            return Measured(output, cpu_s=1.0, peak_mib=0.0)

    scripts = FasterByAndBy()
    (figures,) = compare(W3X, contenders("W3x", ["spark"], "ray"), Settings(runs=2), scripts)
    assert [rows for _, rows, _ in scripts.calls[5:]] == [4_000_000, 16_000_000, 64_000_000, 64_000_000]
    assert (figures.rows, figures.runs, figures.median) == (64_000_000, 2, pytest.approx(1e7, rel=1e-3))


def test_calibration_grows_rows_until_a_run_is_long_enough_to_scale() -> None:
    tried: list[int] = []

    def one_per_million(rows: int) -> float:
        tried.append(rows)
        return rows / 1e6

    assert calibrated_rows(20_000, 8.0, one_per_million) == 8_000_000
    assert tried == [20_000, 160_000, 1_280_000, 10_240_000]


def test_of_several_modes_the_fastest_is_reported() -> None:
    tried, slow, fast = (
        Contender(ENGINES["pyflink"], mode, rows=1, rates=rates).figures(W3X, 2)
        for mode, rates in (("process", [3.0]), ("process", [1.0, 1.0]), ("thread", [2.0, 2.0]))
    )
    assert best_modes([tried, slow, fast]) == [fast], "one run is not compared with the median of several"


def test_after_the_first_round_only_the_fastest_mode_goes_on() -> None:
    slow, fast = (Contender(ENGINES["pyflink"], mode) for mode in ("process", "thread"))
    own = Contender(ENGINES["flinkray"], "ray", rates=[1.0])
    assert fastest_modes([own, slow, fast]) == [own, slow, fast]
    slow.rates, fast.rates = [1.0], [2.0]
    assert fastest_modes([own, slow, fast]) == [own, fast]
    fast.rates = [2.0, 0.5]
    assert fastest_modes([own, slow, fast]) == [own, fast], "the first run decides"


def test_an_engine_is_asked_only_for_what_it_can_express() -> None:
    assert [(each.engine.name, each.mode) for each in contenders("W5", ["klein", "pyflink"], "ray")] == [
        ("pyflink", "process"),
        ("pyflink", "thread"),
    ]


def test_every_engine_names_workloads_that_there_are() -> None:
    assert all(engine.workloads <= THROUGHPUT.keys() for engine in ENGINES.values())

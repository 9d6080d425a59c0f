"""Benchmarks run, at a size that measures nothing, and print what they promise."""

from __future__ import annotations

import re

import pytest

from benchmarks import back_pressure, checkpoint_overhead, growth, shapes, steps


def test_the_cost_of_checkpoints_is_printed_per_run_and_as_a_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint_overhead.main(["--rows", "200000", "--runs", "1", "--interval", "20 ms"])
    without, with_them, medians = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"run 1 without checkpoints: [\d,]+ rows/s", without)
    figure = r"[\d,]+ \(most [\d,]+\)"
    counts = r"run 1 with one every 20 ms: [\d,]+ rows/s; [1-9]\d* checkpoints completed, \d+ failed: "
    assert re.fullmatch(
        rf"{counts}sync {figure} ms, async {figure} ms, in all {figure} ms, size {figure} KiB(; the last failure: .+)?",
        with_them,
    )
    assert re.fullmatch(r"medians: [\d,]+ rows/s without, [\d,]+ rows/s with checkpoints: [\d.]+%", medians)


def test_a_checkpoint_under_back_pressure_is_measured_in_every_mode(capsys: pytest.CaptureFixture[str]) -> None:
    back_pressure.main(["--checkpoints", "1", "--buffers", "2", "--interval", "50 ms"])
    lines = capsys.readouterr().out.splitlines()
    titles = [line.partition(": 1 checkpoints, median ")[0] for line in lines[::2]]
    assert titles == ["aligned", "unaligned", "aligned for 500 ms"]
    share = r"back-pressured \d+% of its [\d.]+ s, busy \d+%"
    assert all(re.match(rf" +source {share}; sink {share}; work in the channels: ", line) for line in lines[1::2])


@pytest.mark.parametrize("name", shapes.SHAPES)
def test_a_job_of_every_shape_runs(name: str) -> None:
    assert shapes.SHAPES[name].run(20, "local", 1) > 0


def test_every_step_of_a_row_has_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    steps.local_steps(1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert all(re.fullmatch(r"\S.* +\d+ us per batch +\d+\.\d ns per row", line) for line in lines)


@pytest.mark.parametrize("workload", ["W2", "W2d"])
def test_what_a_row_costs_is_printed_for_every_size(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    growth.main(["--workload", workload, "--runs", "1", "--rows", "500000", "--parallelism", "1"])
    lines = capsys.readouterr().out.splitlines()[1:]
    sizes = [line.split()[:2] for line in lines]
    by_rows = [["10,000", "10,000"], ["50,000", "10,000"], ["100,000", "10,000"], ["500,000", "10,000"]]
    assert sizes == [*by_rows, ["500,000", "10,000"], ["500,000", "100,000"], ["500,000", "1,000,000"]]
    number = r" +-?\d+\.\d+"
    assert all(re.fullmatch(f"({number}){{4}}", line[26:]) for line in lines[:5])
    assert all(re.fullmatch(f"({number}){{3}} +-", line[26:]) for line in lines[5:])

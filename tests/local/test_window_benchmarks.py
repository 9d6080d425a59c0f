"""The benchmarks of windows run, at a size that measures nothing, and print what they promise."""

from __future__ import annotations

import re

import pytest

from benchmarks import sliding_windows, window_state


def test_what_open_groups_take_is_printed_per_kind_of_key(capsys: pytest.CaptureFixture[str]) -> None:
    window_state.main(["--groups", "3000", "--windows", "3"])
    lines = capsys.readouterr().out.splitlines()
    figure = r"[\d.]+"
    for kind, line in zip(window_state.KINDS, lines, strict=True):
        assert re.fullmatch(
            rf"{kind} keys, 3,000 groups in 3 windows: filled in {figure} s with {figure} GiB, fired in {figure} s; "
            rf"{figure} GiB at most \({figure} GiB before\)",
            line,
        )


def test_the_cost_of_sliding_windows_is_printed_beside_that_of_tumbling_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sliding_windows.main(["--rows", "20000", "--rates", "50", "--keys", "3,7"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["50 rows/s of 3 keys", "50 rows/s of 7 keys"]
    assert all(re.search(r"\d+ ns per row .* \d+ ns per row .*: [\d.]+ times$", line) for line in lines)

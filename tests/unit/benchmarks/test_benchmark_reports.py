"""Checked sums, process trees, profiles and reports of the comparison."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import process_tree
from benchmarks.comparison import Figures
from benchmarks.definitions import Result, checked_sum, text_file, words
from benchmarks.process_tree import RunFailed, read_process
from benchmarks.profiling import part_of, shares
from benchmarks.report import ChartUnavailable, append_lines, draw, labelled_below, print_table, ratio, read_lines


def figures(engine: str, median: float | None, problem: str = "") -> Figures:
    return Figures(
        workload="W3", engine=engine, mode="", parallelism=2, rows=1_000, unit="rows/s", runs=3, median=median,
        min=median, max=median, cpu_s_per_million=None, problem=problem,
    )  # fmt: skip


def test_a_running_value_is_checked_by_the_last_of_each_key_whatever_the_order() -> None:
    assert checked_sum("W4", [("a", 1.0), ("b", 5.0), ("a", 4.0)]) == Result(3, 9.0)
    assert checked_sum("W4", [("a", 4.0), ("a", 1.0), ("b", 5.0)]) == Result(3, 9.0)


def test_a_window_is_checked_by_its_sum_and_its_count() -> None:
    assert checked_sum("W2d", [(2.0, 3), (4.0, 1)]) == Result(2, 10.0)


def test_sums_agree_but_for_rounding_and_counts_exactly() -> None:
    assert Result(3, 1e9).agrees(Result(3, 1e9 + 0.1))
    assert not Result(3, 1e9).agrees(Result(3, 1e9 + 10))
    assert not Result(3, 1e9).agrees(Result(4, 1e9))


def test_the_text_has_the_words_ten_a_line_and_common_ones_first(tmp_path: Path) -> None:
    lines = text_file(25, tmp_path).read_text().splitlines()
    assert [len(line.split()) for line in lines] == [10, 10, 5]
    assert " ".join(lines).split() == list(words(25))
    many = list(words(5_000))
    assert many.count("word0") > many.count("word9") > 0


def test_a_process_is_read_whatever_its_name() -> None:
    stat = f"7 (a) b (c) S 3 {'0 ' * 9}250 50 {'0 ' * 6}99 0"
    assert read_process(stat) == (3, 99, 300 / os.sysconf("SC_CLK_TCK"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="process trees are measured on Linux only")
def test_a_run_gives_the_last_line_and_leaves_no_process() -> None:
    program = (
        "import subprocess; print('noise'); p = subprocess.Popen(['sleep', '600']); print('{\"pid\": %d}' % p.pid)"
    )
    measured = process_tree.run([sys.executable, "-S", "-c", program], {}, deadline_s=30)
    assert not Path(f"/proc/{measured.output['pid']}").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="process trees are measured on Linux only")
def test_a_run_that_fails_or_is_late_says_what_it_wrote() -> None:
    with pytest.raises(RunFailed, match=r"exit code 3[\s\S]*oh no"):
        process_tree.run(["sh", "-c", "echo oh no >&2; exit 3"], dict(os.environ), deadline_s=30)
    with pytest.raises(RunFailed, match="not done after 0 s"):
        process_tree.run(["sleep", "600"], dict(os.environ), deadline_s=0.3)


def test_a_sample_belongs_to_user_code_where_it_is_on_the_stack_else_to_the_innermost_part() -> None:
    assert part_of(["run (actors/mailbox/processor.py)", "large (benchmarks/workloads/w5.py)", "sqrt (numpy)"]) == (
        "user code"
    )
    assert part_of(["run (actors/mailbox/processor.py)", "emit (actors/network/connections/sender.py)"]) == "exchange"
    assert part_of(
        ["run (actors/mailbox/processor.py)", "add (actors/operators/aggregates/running_operator.py)", "take (pyarrow)"]
    ) == ("kernels")
    assert part_of(["start_thread (libc.so.6)"]) == "other"
    assert part_of(["large (benchmarks/workloads/w5.py)", "wait (libc.so.6)", "0x16 (libc.so.6)"]) == "waiting"
    assert shares(["a;b (pyarrow) 3", "c d 1"]) == {"kernels": 0.75, "other": 0.25}


def test_ratios_are_to_flinkray_on_the_same_workload() -> None:
    both = [figures("flinkray", 200.0), figures("spark", 50.0), figures("klein", None, "wrong: 1\nmore")]
    assert [ratio(each, both) for each in both] == [1.0, 0.25, None]
    stream = io.StringIO()
    print_table(both, Console(file=stream, width=200))
    assert "0.25" in stream.getvalue()
    assert "wrong: 1" in stream.getvalue()


def test_lines_are_read_back_and_a_chart_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figures.jsonl"
    append_lines(path, [figures("flinkray", 200.0)])
    append_lines(path, [figures("spark", 50.0)])
    append_lines(path, [figures("flinkray", 400.0)])
    assert [(each.engine, each.median) for each in read_lines(path)] == [("flinkray", 400.0), ("spark", 50.0)]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ChartUnavailable, match="matplotlib"):
        draw(path)


def test_a_chart_is_drawn_beside_the_lines(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "figures.jsonl"
    append_lines(path, [figures("flinkray", 200.0), figures("spark", 0.5)])
    png, svg = draw(path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()


def test_figures_of_a_chart_that_would_run_into_each_other_are_above_and_below_their_dots() -> None:
    times = {("W1", "a"): 10.0, ("W1", "b"): 12.0, ("W1", "c"): 21.0, ("W1", "d"): 22.0, ("W1", "e"): 100.0}
    assert labelled_below({**times, ("W2", "a"): 13.0}) == {("W1", "b"), ("W1", "d")}
    assert labelled_below({("W1", "a"): 10.0, ("W1", "b"): 11.0, ("W1", "c"): 12.0}) == {("W1", "b")}


def test_a_file_without_ratios_gives_no_chart(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    append_lines(path, [figures("flinkray", None)])
    with pytest.raises(ChartUnavailable, match="no workload that flinkray"):
        draw(path)

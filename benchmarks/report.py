"""Figures as a table, as JSON lines, and as a chart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.comparison import Figures
from benchmarks.engines import ENGINES
from benchmarks.nexmark.queries import QUERIES
from benchmarks.workloads.catalog import THROUGHPUT

COLUMNS = ("workload", "engine", "mode", "rows", "median", "min - max", "unit", "CPU s per million", "of flinkray")

_CROWDED = 1.7
"""Figures of a chart overlap if one is less than so many times another."""


class ChartUnavailable(Exception):
    """matplotlib is missing, or the file has nothing to draw."""


def ratio(figures: Figures, all_figures: Sequence[Figures]) -> float | None:
    """The engine's throughput in terms of flinkray's on the same workload; None for what is no throughput."""
    if not figures.unit.endswith("/s"):
        return None
    own = next(
        (each.median for each in all_figures if (each.workload, each.engine) == (figures.workload, "flinkray")), None
    )
    return figures.median / own if figures.median is not None and own else None


def print_table(figures: Sequence[Figures], console: Console) -> None:
    table = Table(*COLUMNS)
    for index in (3, 4, 5, 7, 8):
        table.columns[index].justify = "right"
    for each in figures:
        if each.median is None or each.min is None or each.max is None:
            # "wrong", "exit code 1" and the like; the whole text comes below the table.
            table.add_row(each.workload, each.engine, each.mode, "", each.problem.partition(":")[0])
            continue
        of_flinkray = ratio(each, figures)
        cpu = each.cpu_s_per_million
        table.add_row(
            each.workload,
            each.engine,
            each.mode,
            f"{each.rows:,}",
            amount(each.median),
            f"{amount(each.min)} - {amount(each.max)}",
            each.unit,
            "" if cpu is None else f"{cpu:.3g}",
            "" if of_flinkray is None else f"{of_flinkray:.3g}",
        )
    console.print(table)
    console.print("CPU: of the whole process tree, sampled, start-up subtracted.")
    for each in figures:
        if each.problem:
            console.print(f"{each.workload} {each.engine} {each.mode}: {each.problem}", markup=False)


def amount(value: float) -> str:
    """Three digits, whole numbers from a thousand on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def append_lines(path: Path, figures: Sequence[Figures]) -> None:
    with path.open("a") as stream:
        stream.writelines(json.dumps(asdict(each)) + "\n" for each in figures)


def read_lines(path: Path) -> list[Figures]:
    """What `append_lines` wrote; of runs of the same the last one."""
    figures = [Figures(**json.loads(line)) for line in path.read_text().splitlines() if line]
    return list({(each.workload, each.engine, each.mode, each.parallelism): each for each in figures}.values())


def draw(path: Path) -> list[Path]:
    """Per workload, how many times each engine's throughput flinkray has, beside the JSON lines as PNG and SVG.

    Raises:
        ChartUnavailable: says what is missing.
    """
    figures = read_lines(path)
    times = {
        (each.workload, each.engine): 1 / value
        for each in figures
        if each.engine != "flinkray" and (value := ratio(each, figures)) is not None
    }
    if not times:
        raise ChartUnavailable(f"{path} has no workload that flinkray and another engine were timed on")
    try:
        import matplotlib
    except ImportError:
        raise ChartUnavailable("charts need matplotlib: pip install 'flinkray[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return _draw_dots(pyplot, times, path)


def _draw_dots(pyplot: Any, times: dict[tuple[str, str], float], path: Path) -> list[Path]:
    """A line per workload, from the top in the order of the file, and on it a dot per engine."""
    workloads = list(dict.fromkeys(workload for workload, _ in times))[::-1]
    engines = [name for name in ENGINES if any(engine == name for _, engine in times)]
    height = 0.6 if len(engines) > 1 else 0.4
    figure, axes = pyplot.subplots(figsize=(9, height * len(workloads) + 1.8))
    below = labelled_below(times)
    for engine in engines:
        dots = {workload: value for (workload, of), value in times.items() if of == engine}
        places = [workloads.index(workload) for workload in dots]
        axes.scatter(list(dots.values()), places, s=60, label=engine, zorder=3)
        for (workload, value), place in zip(dots.items(), places, strict=True):
            axes.annotate(
                f"{float(f'{value:.2g}'):,g}",
                (value, place),
                (0, -14 if (workload, engine) in below else 7),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(left=0.7)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}×")
    axes.set_yticks(range(len(workloads)), [f"{_title(name)}  {name}" for name in workloads])
    axes.set_ylim(-0.5, len(workloads) - 0.3)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("flinkray's throughput in multiples of the engine's")
    axes.legend(ncols=len(engines), loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
    figure.tight_layout()
    written = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for each in written:
        figure.savefig(each)
    pyplot.close(figure)
    return written


def _title(workload: str) -> str:
    return QUERIES[workload].work.partition(":")[0] if workload in QUERIES else THROUGHPUT[workload].title


def labelled_below(times: Mapping[tuple[str, str], float]) -> set[tuple[str, str]]:
    """By workload and engine, as `times`: the dots whose figure is below them, as it would run into that of a lower one
    of the workload above. Where there is room on neither side it goes to the one whose last figure is farther off."""
    below: set[tuple[str, str]] = set()
    last = defaultdict[tuple[str, bool], float](float)
    for workload, engine in sorted(times, key=lambda key: (key[0], times[key])):
        value = times[workload, engine]
        above_last, below_last = last[workload, False], last[workload, True]
        is_below = value < _CROWDED * above_last and below_last < above_last
        last[workload, is_below] = value
        if is_below:
            below.add((workload, engine))
    return below

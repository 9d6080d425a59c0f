"""Figures as a table, as JSON lines, and as a bar chart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.comparison import Figures

COLUMNS = ("workload", "engine", "mode", "rows", "median", "min - max", "unit", "CPU s per million", "of flinkray")


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
    return [Figures(**json.loads(line)) for line in path.read_text().splitlines() if line]


def draw(path: Path) -> list[Path]:
    """Bars of each engine's ratio to flinkray, per workload, beside the JSON lines as PNG and SVG.

    Raises:
        ChartUnavailable: says what is missing.
    """
    figures = read_lines(path)
    ratios = {(each.workload, each.engine): value for each in figures if (value := ratio(each, figures)) is not None}
    if not ratios:
        raise ChartUnavailable(f"{path} has no workload that flinkray and another engine were timed on")
    try:
        import matplotlib
    except ImportError:
        raise ChartUnavailable("charts need matplotlib: pip install 'flinkray[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return _draw_bars(pyplot, ratios, path)


def _draw_bars(pyplot: Any, ratios: dict[tuple[str, str], float], path: Path) -> list[Path]:
    workloads = list(dict.fromkeys(workload for workload, _ in ratios))
    engines = list(dict.fromkeys(engine for _, engine in ratios))
    figure, axes = pyplot.subplots(figsize=(max(6, 1.4 * len(workloads)), 4.5))
    width = 0.8 / len(engines)
    for index, engine in enumerate(engines):
        places = [at for at, workload in enumerate(workloads) if (workload, engine) in ratios]
        heights = [ratios[workloads[at], engine] for at in places]
        axes.bar([at + index * width for at in places], heights, width, label=engine)
    axes.set_xticks([at + width * (len(engines) - 1) / 2 for at in range(len(workloads))], workloads)
    axes.set_yscale("log")
    axes.set_ylabel("throughput, flinkray = 1")
    axes.legend()
    figure.tight_layout()
    written = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for each in written:
        figure.savefig(each)
    pyplot.close(figure)
    return written

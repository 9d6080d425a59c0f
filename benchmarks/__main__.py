"""flinkray and its peers on the same work, side by side.

python -m benchmarks run W2d --engines flinkray,flink-sql,pyflink --parallelism 2 --runs 3 --json results.jsonl
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from benchmarks import special
from benchmarks.comparison import Contender, Figures, Settings, compare, runner
from benchmarks.connectors.command import connectors
from benchmarks.connectors.window_command import kafka_window
from benchmarks.definitions import BENCH_DIRECTORY
from benchmarks.engines import ENGINES, NotSetUp, set_up, set_up_jars
from benchmarks.nexmark.command import nexmark
from benchmarks.process_tree import RunFailed
from benchmarks.profiling import ProfilerUnavailable, profile
from benchmarks.report import ChartUnavailable, append_lines, draw, print_table
from benchmarks.workloads.catalog import THROUGHPUT

PROFILED_ROWS = 100_000_000
_names = click.option("--engines", default=",".join(ENGINES), show_default=True, help="Separated by commas.")
_environments = click.option(
    "--environments",
    type=click.Path(path_type=Path),
    default=BENCH_DIRECTORY,
    help="Where the peers' virtual environments are; .bench/ by default.",
)


@click.group(help=(__doc__ or "").splitlines()[0])
def main() -> None: ...


main.add_command(nexmark)
main.add_command(connectors)
main.add_command(kafka_window)


@main.command("list")
def list_all() -> None:
    """The workloads, and which engines can express them."""
    for workload in THROUGHPUT.values():
        able = [engine.name for engine in ENGINES.values() if workload.name in engine.workloads]
        click.echo(f"{workload.name:4} {workload.work} ({workload.unit})\n     {', '.join(able)}")
    for name, work in special.SPECIAL.items():
        click.echo(f"{name:4} {work}\n     flinkray")


@main.command("setup")
@_names
@_environments
def set_up_all(engines: str, environments: Path) -> None:
    """Makes a virtual environment for each peer."""
    for name in chosen(engines):
        try:
            set_up(ENGINES[name], environments)
            if name == "flink-sql":
                set_up_jars(environments)
            click.echo(f"{name}: ready")
        except NotSetUp as error:
            click.echo(str(error), err=True)


@main.command("run")
@click.argument("workloads", nargs=-1)
@_names
@_environments
@click.option("--target", type=click.Choice(("ray", "local")), default="ray", show_default=True, help="flinkray's.")
@click.option("--parallelism", type=click.IntRange(1), default=2, show_default=True)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option("--rows", type=click.IntRange(1), help="The same for all engines, instead of what --seconds gives each.")
@click.option("--seconds", type=float, default=8.0, show_default=True, help="About how long one run takes.")
@click.option("--deadline", type=float, default=600.0, show_default=True, help="Seconds after which a run is ended.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Appends a JSON object per line.")
@click.option("--profile", "is_profiled", is_flag=True, help="A flame graph of a task slot instead of figures.")
def run(
    workloads: tuple[str, ...],
    engines: str,
    environments: Path,
    target: str,
    parallelism: int,
    runs: int,
    rows: int | None,
    seconds: float,
    deadline: float,
    json_file: Path | None,
    is_profiled: bool,
) -> None:
    """Measures WORKLOADS (all, unless some are named) and prints medians, CPU time and ratios."""
    names = workloads or (*THROUGHPUT, *special.SPECIAL)
    unknown = set(names) - {*THROUGHPUT, *special.SPECIAL}
    if unknown:
        raise click.ClickException(f"no workload {', '.join(sorted(unknown))}; `python -m benchmarks list` shows them")
    settings = Settings(parallelism, runs, rows, seconds, deadline, environments)
    if is_profiled:
        for name in names:
            if name in THROUGHPUT:
                show_profile(name, settings, target)
        return
    # A file or pipe has no width; the table needs one that holds its columns.
    console = Console(width=None if sys.stdout.isatty() else 160)
    errors = Console(stderr=True)
    figures: list[Figures] = []
    for name in names:
        found = figures_of(name, chosen(engines), target, settings, lambda line: errors.print(line, markup=False))
        if json_file is not None:
            append_lines(json_file, found)
        figures += found
    print_table(figures, console)


@main.command("chart")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def chart(file: Path) -> None:
    """Draws the ratios of a JSON file as PNG and SVG beside it."""
    try:
        click.echo("\n".join(map(str, draw(file))))
    except ChartUnavailable as error:
        raise click.ClickException(str(error)) from None


def chosen(engines: str) -> list[str]:
    names = [name.strip() for name in engines.split(",") if name.strip()]
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        raise click.ClickException(f"no engine {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    return names


def contenders(workload: str, engines: list[str], target: str) -> list[Contender]:
    """The engines that can express the workload, in each of their modes; flinkray's mode is the target."""
    able = [ENGINES[name] for name in engines if workload in ENGINES[name].workloads]
    return [
        Contender(engine, mode)
        for engine in able
        for mode in ((target,) if engine.name == "flinkray" else engine.modes)
    ]


def figures_of(
    name: str, engines: list[str], target: str, settings: Settings, tell: Callable[[str], None]
) -> list[Figures]:
    if name in special.SPECIAL:
        return special.measure(name, target, settings, tell) if "flinkray" in engines else []
    return compare(THROUGHPUT[name], contenders(name, engines, target), settings, runner(settings), tell)


def show_profile(name: str, settings: Settings, target: str) -> None:
    rows = settings.rows or PROFILED_ROWS
    directory = BENCH_DIRECTORY / "profiles"
    try:
        parts = profile(name, rows, replace(settings, rows=rows), target, directory)
    except (ProfilerUnavailable, RunFailed) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{name}: {directory / name}.svg")
    for part, share in parts.items():
        click.echo(f"    {share:6.1%} {part}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")

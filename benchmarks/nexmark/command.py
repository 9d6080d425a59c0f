"""`python -m benchmarks nexmark`: checks the queries' answers, and times them beside Flink SQL."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from benchmarks.definitions import BENCH_DIRECTORY
from benchmarks.nexmark.queries import QUERIES

if TYPE_CHECKING:
    from benchmarks.comparison import Figures
    from benchmarks.nexmark.checking import Checked

CHECK_EVENTS, CHECK_PER_SECOND = 100_000, 1_000
"""Slow enough that no two events are of the same millisecond, so that the last of them is known."""
FEW = 100


@click.command("nexmark")
@click.argument("queries", nargs=-1)
@click.option("--only", type=click.Choice(("check", "time")), help="Not the other.")
@click.option("--check-events", type=click.IntRange(1), default=CHECK_EVENTS, show_default=True)
@click.option("--events", type=click.IntRange(1), default=2_000_000, show_default=True, help="That are timed.")
@click.option("--per-second", type=click.IntRange(1), default=100_000, show_default=True, help="Of event time.")
@click.option("--engines", default="flinkray,flink-sql", show_default=True, help="That are timed.")
@click.option("--environments", type=click.Path(path_type=Path), default=BENCH_DIRECTORY, help="Where they are.")
@click.option("--target", type=click.Choice(("ray", "local")), default="ray", show_default=True, help="flinkray's.")
@click.option("--parallelism", type=click.IntRange(1), default=2, show_default=True)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option("--deadline", type=float, default=600.0, show_default=True, help="Seconds after which a run is ended.")
@click.option("--store", type=click.Path(path_type=Path), help="Writes Flink's answers to few events, for a test.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Appends a JSON object per line.")
def nexmark(
    queries: tuple[str, ...],
    only: str | None,
    check_events: int,
    events: int,
    per_second: int,
    engines: str,
    environments: Path,
    target: str,
    parallelism: int,
    runs: int,
    deadline: float,
    store: Path | None,
    json_file: Path | None,
) -> None:
    """Nexmark's QUERIES (all, unless some are named): answers beside Flink's and DuckDB's, then events a second."""
    from benchmarks.nexmark import checking  # with DuckDB and the front end of SQL, which nothing else needs
    from benchmarks.nexmark.files import event_files
    from benchmarks.nexmark.timing import ENGINES_TIMED, runner, timed
    from benchmarks.report import append_lines

    names = _known("query", queries or tuple(QUERIES), tuple(QUERIES))
    timed_engines = _known("engine", tuple(engines.split(",")), ENGINES_TIMED)
    console, errors = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)

    def tell(line: str) -> None:
        errors.print(line, markup=False)

    if store is not None:
        files = event_files(checking.STORED_EVENTS, checking.STORED_PER_SECOND, parallelism)
        checking.store(store, files, parallelism, environments)
        return
    if only != "time":
        files = event_files(check_events, CHECK_PER_SECOND, parallelism)
        print_checked(checking.checked(names, files, parallelism, environments, tell), console)
    if only == "check":
        return
    files, few = event_files(events, per_second, parallelism), event_files(FEW, per_second, parallelism)
    run = runner(parallelism, target, environments, deadline)
    figures: list[Figures] = []
    for name in names:
        able = [each for each in timed_engines if not (each == "flink-sql" and QUERIES[name].no_flink)]
        found = timed(
            name, able, files, few, events, parallelism=parallelism, runs=runs, target=target, run=run, tell=tell
        )
        if json_file is not None:
            append_lines(json_file, found)
        figures += found
    print_figures(figures, console)


def _known(what: str, names: tuple[str, ...], there_are: Sequence[str]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in there_are]
    if unknown:
        raise click.ClickException(f"no {what} {', '.join(unknown)}; there are {', '.join(there_are)}")
    return names


def print_checked(checks: Sequence[Checked], console: Console) -> None:
    """A line for each query, with a word for each engine; the whole texts come below the table."""
    engines = list(checks[0].verdicts)
    table = Table("query", "what", "rows", *engines)
    for each in checks:
        verdicts = [each.verdicts[engine].partition(":")[0] for engine in engines]
        table.add_row(each.query, QUERIES[each.query].work, f"{each.rows:,}", *verdicts)
    console.print(table)
    for each in checks:
        for engine, verdict in each.verdicts.items():
            if verdict != "ok":
                console.print(f"{each.query} {engine} {verdict}", markup=False)


def print_figures(figures: Sequence[Figures], console: Console) -> None:
    """Events a second, CPU and memory of each engine on each query, and how many times the other's flinkray has."""
    from benchmarks.report import amount, ratio

    table = Table("query", "engine", "events/s", "min - max", "CPU s per million", "peak MiB", "of flinkray")
    for each in figures:
        if each.median is None or each.min is None or each.max is None:
            table.add_row(each.workload, each.engine, each.problem.partition(":")[0])
            continue
        cpu, memory, part = each.cpu_s_per_million, each.peak_mib, ratio(each, figures)
        table.add_row(
            each.workload,
            each.engine,
            amount(each.median),
            f"{amount(each.min)} - {amount(each.max)}",
            "" if cpu is None else f"{cpu:.3g}",
            "" if memory is None else amount(memory),
            "" if part is None else f"{part:.3g}",
        )
    console.print(table)
    console.print(
        "CPU and memory: of the whole process tree, sampled; start-up subtracted from times, not from memory."
    )
    for each in figures:
        if each.problem:
            console.print(f"{each.workload} {each.engine}: {each.problem}", markup=False)

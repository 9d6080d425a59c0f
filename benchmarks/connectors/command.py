"""`python -m benchmarks connectors`: what a row costs by flinkray's connectors and by the clients alone."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click
from msgspec import Struct
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
FEW = 2_000
SIDES = ("client", "flinkray")


class Cost(Struct, frozen=True):
    """What a row of a way costs, medians of runs."""

    way: str
    rows: int
    runs: int
    client_us: float
    """CPU time in the process of the client alone, its threads included."""
    flinkray_us: float
    client_rows_per_s: float
    flinkray_rows_per_s: float

    @property
    def added(self) -> float:
        """What flinkray adds, as a share of the client's."""
        return self.flinkray_us / self.client_us - 1


@click.command("connectors")
@click.argument("ways", nargs=-1)
@click.option("--rows", type=click.IntRange(10_000), default=500_000, show_default=True)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option("--deadline", type=float, default=300.0, show_default=True, help="Seconds after which a run is ended.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Appends a JSON object per line.")
def connectors(ways: tuple[str, ...], rows: int, runs: int, deadline: float, json_file: Path | None) -> None:
    """CPU time a row between WAYS (all, unless some are named) of servers, which are started, and this process: by
    flinkray, and by the client that its connector stands on alone."""
    from benchmarks.connectors.ways import WAYS

    unknown = [name for name in ways if name not in WAYS]
    if unknown:
        raise click.ClickException(f"no way {', '.join(unknown)}; there are {', '.join(WAYS)}")
    console, errors = Console(width=None if sys.stdout.isatty() else 140), Console(stderr=True)
    table = Table("way", "what", "client us", "flinkray us", "added", "client rows/s", "flinkray rows/s")
    for server, names in itertools.groupby(ways or WAYS, lambda name: WAYS[name].server):
        with running(server) as started:
            for name in names:
                cost = measured(name, started, rows, runs, deadline, lambda line: errors.print(line, markup=False))
                if json_file is not None:
                    with json_file.open("a") as file:
                        file.write(json.dumps({each: getattr(cost, each) for each in cost.__struct_fields__}) + "\n")
                table.add_row(
                    name,
                    f"{WAYS[name].work}; client: {WAYS[name].client_is}",
                    f"{cost.client_us:.2f}",
                    f"{cost.flinkray_us:.2f}",
                    f"{cost.added:+.0%}",
                    f"{cost.client_rows_per_s:,.0f}",
                    f"{cost.flinkray_rows_per_s:,.0f}",
                )
    console.print(table)


@contextlib.contextmanager
def running(server: str) -> Iterator[Any]:
    """A server of that kind for as long as the context lasts."""
    if server == "kafka":
        from examples.servers.kafka import KafkaBroker

        started: Any = KafkaBroker.running()
    elif server == "postgres":
        from examples.servers.postgres import PostgresServer

        started = PostgresServer.running()
    elif server == "nats":
        from tests.support.servers.nats import nats_server

        started = nats_server()
    else:
        from tests.support.servers.redis import redis_server

        started = redis_server()
    with started as found:
        yield found


def measured(name: str, server: Any, rows: int, runs: int, deadline_s: float, tell: Callable[[str], None]) -> Cost:
    """Both sides in turns, each run in a process and with places of its own."""
    from benchmarks.connectors.ways import WAYS

    way = WAYS[name](server)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number, side in itertools.product(range(1, runs + 1), SIDES):
        tell(f"{name}: {side}: run {number}")
        places = {f"bench_{uuid.uuid4().hex[:12]}": count for count in (FEW, FEW, rows)}
        for place, count in places.items():
            way.prepare(place, count)
        command = [sys.executable, "-m", "benchmarks.connectors.run", name, side, way.address]
        command += [f"{place}:{count}" for place, count in places.items()]
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )
        if ended.returncode:
            raise click.ClickException(f"{name}: {side} failed: {ended.stderr[-2000:]}")
        for place in places:
            way.clear(place)
        found[side].append(json.loads(ended.stdout.splitlines()[-1]))
    medians = {f"{side}_{key}": median(run[key] for run in found[side]) for side in SIDES for key in found[side][0]}
    return Cost(
        name,
        rows,
        runs,
        medians["client_cpu_us"],
        medians["flinkray_cpu_us"],
        medians["client_rows_per_s"],
        medians["flinkray_rows_per_s"],
    )

"""The `flinkray` command."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from actors.client import session as sessions
from actors.client.program import parse_settings, render_program, run_program
from actors.control_messages import JobOverview
from flinkray.config import Configuration
from flinkray.errors import FlinkrayError, MissingDependencyError
from flinkray.types import JobId

PROGRAM = click.argument("program", type=click.Path(exists=True, dir_okay=False, path_type=Path))
ARGUMENTS = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
SETTINGS = click.option("-D", "settings", multiple=True, metavar="KEY=VALUE", help="Sets an option; may be repeated.")
CLUSTER = click.option("--cluster", required=True, metavar="NAME", help="What the job runs in, as `list` shows it.")


def _speaks_plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that flinkray raises on purpose are one message on standard error and exit code 1, without a traceback."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except FlinkrayError as error:
            console = Console(stderr=True, soft_wrap=True)
            console.print(Text(f"{type(error).__name__}: ", style="bold red"), Text(str(error)), sep="")
            sys.exit(1)

    return run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flinkray")
def main() -> None:
    """Stateful streams over Arrow batches, on Ray."""


# Options after the program's name are the program's own.
@main.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
@SETTINGS
@PROGRAM
@ARGUMENTS
@_speaks_plainly
def run(settings: tuple[str, ...], program: Path, arguments: tuple[str, ...]) -> None:
    """Run PROGRAM, a Python file, with these options below what it sets itself."""
    run_program(program, arguments, parse_settings(settings))


@main.command(context_settings={"allow_interspersed_args": True})
@SETTINGS
@click.option("--graph", type=click.Choice(["stream", "job", "execution"]), default="job", show_default=True)
@click.option("--format", "format_", type=click.Choice(["text", "mermaid"]), default="text", show_default=True)
@PROGRAM
@ARGUMENTS
@_speaks_plainly
def render(settings: tuple[str, ...], graph: str, format_: str, program: Path, arguments: tuple[str, ...]) -> None:
    """Print the graph of the first job that PROGRAM would execute, without running it."""
    click.echo(render_program(program, arguments, parse_settings(settings), graph, format_))


@main.group()
def session() -> None:
    """Clusters on Ray that many jobs share."""


@session.command("start")
@SETTINGS
@click.argument("name")
@_speaks_plainly
def start_session(settings: tuple[str, ...], name: str) -> None:
    """Start the session NAME on the running Ray cluster."""
    sessions.start_session(name, Configuration(parse_settings(settings)))
    click.echo(f"session {name} is up; submit with -D execution.target=ray-session -D flinkray.cluster-id={name}")


@session.command("stop")
@click.argument("name")
@_speaks_plainly
def stop_session(name: str) -> None:
    """Cancel the jobs of the session NAME and end it."""
    sessions.stop_session(name)
    click.echo(f"session {name} is stopped")


@session.command("list")
@_speaks_plainly
def list_sessions() -> None:
    """List the sessions on the running Ray cluster."""
    for name in sessions.list_sessions():
        jobs = sessions.session_jobs(name)
        running = sum(not job.status.is_terminal for job in jobs)
        overview = sessions.session_overview(name)
        click.echo(f"{name}: {running} running job(s); {overview}")


@main.command("list")
@click.option("--cluster", metavar="NAME", help="Only those of this cluster.")
@_speaks_plainly
def list_jobs(cluster: str | None) -> None:
    """List the jobs on the running Ray cluster, oldest first."""
    clusters = [cluster] if cluster else sessions.list_clusters()
    _print_jobs([(name, job) for name in clusters for job in sessions.session_jobs(name)])


@main.command("cancel")
@CLUSTER
@click.argument("job_id")
@_speaks_plainly
def cancel_job(cluster: str, job_id: str) -> None:
    """Cancel the job JOB_ID."""
    sessions.cancel_session_job(cluster, JobId(job_id))
    click.echo(f"job {job_id} is asked to stop")


@main.command()
def doctor() -> None:
    """Say what this machine has of what flinkray needs, one line each."""
    click.echo(f"python {platform.python_version()} ({sys.executable})")
    for package in ("flinkray", "ray", "pyarrow", "pandas", "numpy", "pyspark", "raydp"):
        click.echo(_package_line(package))
    click.echo(_java_line())


def _package_line(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        hint = ' (only Spark needs it: pip install "flinkray[spark]")' if package in ("pyspark", "raydp") else ""
        return f"{package} is not installed{hint}"


def _java_line() -> str:
    from actors.hosts.java import find_java

    try:
        java = find_java()
    except MissingDependencyError as error:
        return f"java: {error}"
    return f"java {java.version} of {java.origin} ({java.path})"


def _print_jobs(jobs: list[tuple[str, JobOverview]]) -> None:
    """(cluster, job) line by line; nothing is cut, as ids are there to be copied."""
    rows = [("cluster", "job id", "status", "started", "name")]
    for cluster, job in sorted(jobs, key=lambda entry: entry[1].started_ms):
        rows.append((cluster, job.job_id, job.status.value, _time(job.started_ms), job.name))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000):%Y-%m-%d %H:%M:%S}"

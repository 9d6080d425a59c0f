"""The `flinkray` command."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from actors.checkpoints.storage.disposal import dispose_savepoint
from actors.client import session as sessions
from actors.client.program import Module, parse_settings, render_program, run_program
from actors.client.tables import checkpoint_lines, detail_lines, job_lines
from actors.protocol.dispatcher_errors import EndpointSilentError
from flinkray.config.configuration import Configuration
from flinkray.config.options import ALLOW_NON_RESTORED_STATE, ATTACHED, PARALLELISM, SAVEPOINT_PATH
from flinkray.config.python_options import PYTHON_ARCHIVES, PYTHON_FILES, PYTHON_REQUIREMENTS
from flinkray.errors import FlinkrayError, MissingDependencyError
from flinkray.execution import JobClient
from flinkray.redaction import redacted
from flinkray.streams.environment import JobListener

PROGRAM = click.argument("program", type=click.Path(exists=True, dir_okay=False, path_type=Path))
ARGUMENTS = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
SCRIPT = click.Path(exists=True, dir_okay=False, path_type=Path)
SETTINGS = click.option("-D", "settings", multiple=True, metavar="KEY=VALUE", help="Sets an option; may be repeated.")
CLUSTER = click.option("--cluster", metavar="NAME", help="What the job runs in, as `list` shows it.")
JOB = click.argument("job")  # its id, or how that begins


def _speaks_plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that flinkray raises on purpose are one message on standard error and exit code 1, without a traceback."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except FlinkrayError as error:
            _say(error)
            sys.exit(1)

    return run


def _say(error: FlinkrayError) -> None:
    console = Console(stderr=True, soft_wrap=True)
    console.print(Text(f"{type(error).__name__}: ", style="bold red"), Text(str(error)), sep="")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flinkray")
def main() -> None:
    """Stateful streams over Arrow batches, on Ray."""


# Options after the program's name are the program's own.
@main.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
@SETTINGS
@click.option("-s", "--from-savepoint", metavar="PATH", help="The savepoint or checkpoint that its jobs start from.")
@click.option("-d", "--detached", is_flag=True, help="Only submit its jobs, and print their ids.")
@click.option(
    "-n",
    "--allow-non-restored-state",
    "--allowNonRestoredState",
    is_flag=True,
    help="Leave behind state of operators that PROGRAM does not have.",
)
@click.option("-p", "--parallelism", type=int, help="Subtasks of operators that set no parallelism of their own.")
@click.option(
    "-m",
    "-pym",
    "--module",
    metavar="MODULE[:FUNCTION]",
    help="What to run instead of a file: a module, or a function of it.",
)
@click.option("-py", "--python", type=SCRIPT, help="The file to run; the same as PROGRAM.")
@click.option(
    "-pyfs",
    "--py-files",
    metavar="FILES",
    help="Modules, packages, directories of them, .zip and .whl files that go along, with commas between them.",
)
@click.option(
    "-pyarch",
    "--archives",
    metavar="FILES",
    help="Archives that go along and are unpacked, such as models.zip#models, with commas between them.",
)
@click.option("-pyreq", "--requirements", metavar="FILE", help="Packages that Ray installs for the job.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGUMENTS]...")
@_speaks_plainly
def run(
    settings: tuple[str, ...],
    from_savepoint: str | None,
    detached: bool,
    allow_non_restored_state: bool,
    module: str | None,
    python: Path | None,
    program: tuple[str, ...],
    **values: str | int | None,
) -> None:
    """Run PROGRAM, a Python file, with these options below what it sets itself."""
    parsed = parse_settings(settings)
    if from_savepoint is not None:
        parsed[SAVEPOINT_PATH.key] = from_savepoint
    if allow_non_restored_state:
        parsed[ALLOW_NON_RESTORED_STATE.key] = "true"
    if detached:
        parsed[ATTACHED.key] = "false"
    parsed |= parse_settings([f"{_RUN_OPTIONS[name]}={value}" for name, value in values.items() if value is not None])
    entry, arguments = _entry(module, python, program)
    run_program(entry, arguments, parsed, _Submissions() if detached else None)


_RUN_OPTIONS = {
    "parallelism": PARALLELISM.key,
    "py_files": PYTHON_FILES.key,
    "archives": PYTHON_ARCHIVES.key,
    "requirements": PYTHON_REQUIREMENTS.key,
}
"""What options of `run` set."""


def _entry(module: str | None, python: Path | None, program: tuple[str, ...]) -> tuple[Path | Module, tuple[str, ...]]:
    """What to run, and its arguments."""
    if module is not None and python is not None:
        raise click.UsageError(f"run either the file {python} or the module {module}")
    if module is not None:
        return Module.parse(module), program
    if python is not None:
        return python, program
    if not program:
        raise click.UsageError("name the PROGRAM to run, or --module MODULE")
    if not Path(program[0]).is_file():
        raise click.BadParameter(f"there is no file {program[0]!r}", param_hint="PROGRAM")
    return Path(program[0]), program[1:]


class _Submissions(JobListener):
    """Prints the id of each job that is submitted."""

    def on_job_submitted(self, client: JobClient | None, error: BaseException | None) -> None:
        if client is not None:
            click.echo(f"job {client.job_id} is submitted")


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
    url = sessions.start_session(name, Configuration(parse_settings(settings)))
    click.echo(f"session {name} is up; submit with -D execution.target=ray-session -D flinkray.cluster-id={name}")
    if url:
        click.echo(f"its REST interface is at {url}")


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
    for name, state in sessions.of_each(sessions.list_sessions(), _state_of).items():
        click.echo(f"{name}: {state}")


def _state_of(name: str) -> str:
    jobs, overview = sessions.session_jobs(name), sessions.session_overview(name)
    return f"{sum(not job.status.is_terminal for job in jobs)} running job(s); {overview}"


@main.command("list")
@click.option("--cluster", metavar="NAME", help="Only those of this cluster.")
@_speaks_plainly
def list_jobs(cluster: str | None) -> None:
    """List the jobs on the running Ray cluster, oldest first."""
    answers = sessions.of_each([cluster] if cluster else sessions.list_clusters(), sessions.session_jobs)
    found = [(name, job) for name, jobs in answers.items() if isinstance(jobs, tuple) for job in jobs]
    _print(job_lines(found, sessions.slot_waits(found)))
    failed = [answer for answer in answers.values() if isinstance(answer, FlinkrayError)]
    for error in failed[1:]:
        _say(error)
    if failed:
        raise failed[0]


@main.command("info")
@CLUSTER
@JOB
@_speaks_plainly
def show_job(cluster: str | None, job: str) -> None:
    """Show how the job JOB is: its vertices, restarts, and last failure."""
    _print(detail_lines(sessions.job_client(job, cluster).details()))


@main.command("cancel")
@CLUSTER
@JOB
@_speaks_plainly
def cancel_job(cluster: str | None, job: str) -> None:
    """Cancel the job JOB."""
    client = sessions.job_client(job, cluster)
    status = client.status()
    if status.is_terminal:
        click.echo(f"job {client.job_id} is {status.value} already")
        return
    client.cancel()
    try:
        client.details()
    except EndpointSilentError as error:
        click.echo(f"job {client.job_id} stops when its JobMaster answers again, or is replaced: {error}")
    else:
        click.echo(f"job {client.job_id} is asked to stop")


@main.command("checkpoints")
@CLUSTER
@JOB
@_speaks_plainly
def list_checkpoints(cluster: str | None, job: str) -> None:
    """List the last checkpoints and savepoints of the job JOB, newest first."""
    _print(checkpoint_lines(sessions.job_client(job, cluster).checkpoints()))


@main.command("savepoint")
@CLUSTER
@click.option("--dispose", metavar="PATH", help="Delete this savepoint instead.")
@click.argument("job", required=False)
@click.argument("directory", required=False)
@_speaks_plainly
def savepoint(cluster: str | None, dispose: str | None, job: str | None, directory: str | None) -> None:
    """Save the state of the job JOB into a new directory below DIRECTORY; the job goes on."""
    if dispose is not None:
        if job is not None:
            raise click.UsageError("--dispose PATH deletes a savepoint, and takes no JOB")
        _print([f"savepoint {dispose_savepoint(dispose)} is deleted"])
        return
    if job is None:
        raise click.UsageError("name the JOB to save, or --dispose PATH")
    _print([sessions.job_client(job, cluster).trigger_savepoint(directory)])


@main.command("stop")
@CLUSTER
@click.option("--savepoint-path", metavar="DIRECTORY", help="Where the savepoint goes.")
@click.option("--drain", is_flag=True, help="Fire all windows and timers first: the job is not to go on from there.")
@JOB
@_speaks_plainly
def stop_job(cluster: str | None, savepoint_path: str | None, drain: bool, job: str) -> None:
    """End the job JOB with a savepoint."""
    client = sessions.job_client(job, cluster)
    saved = client.stop_with_savepoint(savepoint_path, drain)
    _print([f"job {client.job_id} has finished; its savepoint is", saved])


@main.command("ui")
@SETTINGS
@click.option("--address", metavar="ADDRESS", help="The Ray cluster; else what RAY_ADDRESS names, or the one here.")
@click.option("--cluster", metavar="NAME", help="Only this session, or cluster of a job, as `list` shows it.")
@_speaks_plainly
def serve_rest(settings: tuple[str, ...], address: str | None, cluster: str | None) -> None:
    """Serve Flink's REST interface over what runs on the running Ray cluster, until Ctrl-C.

    It listens where rest.port, rest.bind-port and rest.bind-address say.
    """
    from actors.client.rest import attach

    if address is not None:
        os.environ["RAY_ADDRESS"] = address
    if cluster is not None and cluster not in sessions.list_clusters():
        raise sessions.no_such_session(cluster)
    server = attach(Configuration(parse_settings(settings)), cluster)
    _serve("the REST interface", server.url, server.close)


@main.command("history-server")
@SETTINGS
@click.option(
    "--dir", "directory", metavar="DIRECTORY", required=True, help="What jobmanager.archive.fs.dir was of the jobs."
)
@_speaks_plainly
def serve_history(settings: tuple[str, ...], directory: str) -> None:
    """Show jobs that have ended, as far as their archives are in DIRECTORY (path or URI), until Ctrl-C.

    It listens where rest.port, rest.bind-port and rest.bind-address say.
    """
    from actors.rest.history.serving import start_history_server

    server = start_history_server(Configuration(parse_settings(settings)), directory)
    _serve("the history", server.url, server.close)


def _serve(what: str, url: str, close: Callable[[], None]) -> None:
    """Until Ctrl-C."""
    click.echo(f"{what} is at {url}; Ctrl-C ends it")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo("")
    finally:
        close()


@main.group()
def metrics() -> None:
    """What jobs export to Ray's metrics endpoint."""


@metrics.command("grafana")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), required=True, help="The directory to write them to."
)
def write_dashboard(output: Path) -> None:
    """Write a dashboard for Grafana, and alert rules for Prometheus."""
    from flinkray.metrics.grafana import write

    _print(str(path) for path in write(output))


@main.command("sql")
@SETTINGS
@click.option("-i", "--init", type=SCRIPT, help="Statements that come first, such as tables and settings.")
@click.option("-f", "--file", type=SCRIPT, help="Statements to carry out; then it ends.")
@click.option("-e", "--execute", "statements", multiple=True, metavar="SQL", help="Statements, instead of a file.")
@_speaks_plainly
def sql(settings: tuple[str, ...], init: Path | None, file: Path | None, statements: tuple[str, ...]) -> None:
    """Carry out statements of Flink SQL: those that you type, of a FILE, or given here."""
    from actors.client.sql.client import OWN
    from actors.client.sql.command import run as run_sql

    own = dict(each.split("=", 1) for each in settings if each.startswith(OWN) and "=" in each)
    others = parse_settings([each for each in settings if each.partition("=")[0] not in own])
    run_sql({**others, **own}, init, file, statements, sessions.RayJobs())


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
        return f"{package} is not installed{_HINTS.get(package, '')}"


_HINTS = {
    "pandas": ' (only DataFrames need it: pip install "flinkray[pandas]")',
    "pyspark": ' (only Spark needs it: pip install "flinkray[spark]", or "flinkray[spark4]" for PySpark 4)',
    "raydp": ' (only Spark on Ray needs it: pip install "flinkray[spark]")',
}
"""What packages of which flinkray has no need at all times are for."""


def _java_line() -> str:
    from actors.hosts.java import find_java

    try:
        java = find_java()
    except MissingDependencyError as error:
        return f"java: {error}"
    return f"java {java.version} of {java.origin} ({java.path})"


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(redacted(line))

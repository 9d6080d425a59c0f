"""The `flinkray` command."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from actors.client import session as sessions
from actors.client.console import AS_JSON, SETTINGS, print_json, print_lines, speaks_plainly
from actors.client.job_commands import COMMANDS
from actors.client.program import Module, parse_settings, plan_of_program, render_program, run_program
from actors.protocol.resources import ClusterOverview
from flinkray.config.configuration import Configuration
from flinkray.config.options import ALLOW_NON_RESTORED_STATE, ATTACHED, PARALLELISM, SAVEPOINT_PATH
from flinkray.config.python_options import PYTHON_ARCHIVES, PYTHON_FILES, PYTHON_REQUIREMENTS
from flinkray.errors import ConfigurationError, FlinkrayError, MissingDependencyError
from flinkray.execution import JobClient
from flinkray.streams.environment import JobListener

SCRIPT = click.Path(exists=True, dir_okay=False, path_type=Path)
MODULE = click.option(
    "-m",
    "-pym",
    "--module",
    metavar="MODULE[:FUNCTION]",
    help="What to run instead of a file: a module, or a function of it.",
)


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
@MODULE
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
@AS_JSON
@click.option("-pyreq", "--requirements", metavar="FILE", help="Packages that Ray installs for the job.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGUMENTS]...")
@speaks_plainly
def run(
    settings: tuple[str, ...],
    from_savepoint: str | None,
    detached: bool,
    as_json: bool,
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
    run_program(entry, arguments, parsed, _Submissions(as_json) if detached else None)


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

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def on_job_submitted(self, client: JobClient | None, error: BaseException | None) -> None:
        if client is None:
            return
        if self._as_json:
            print_json({"jobid": client.job_id})
        else:
            click.echo(f"job {client.job_id} is submitted")


# Options after the program's name are the program's own where `--` stands before it.
@main.command(context_settings={"allow_interspersed_args": True})
@SETTINGS
@click.option("--graph", type=click.Choice(["stream", "job", "execution"]), default="job", show_default=True)
@click.option("--format", "format_", type=click.Choice(["text", "mermaid"]), default="text", show_default=True)
@MODULE
@AS_JSON
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGUMENTS]...")
@speaks_plainly
def render(
    settings: tuple[str, ...],
    graph: str,
    format_: str,
    module: str | None,
    as_json: bool,
    program: tuple[str, ...],
) -> None:
    """Print the graph of the first job that PROGRAM would execute, without running it."""
    if as_json and (graph, format_) != ("job", "text"):
        raise click.UsageError("--json prints the job graph, and takes no --graph and no --format")
    entry, arguments = _entry(module, None, program)
    parsed = parse_settings(settings)
    if as_json:
        print_json(plan_of_program(entry, arguments, parsed))
    else:
        click.echo(render_program(entry, arguments, parsed, graph, format_))


@main.group()
def session() -> None:
    """Clusters on Ray that many jobs share."""


@session.command("start")
@SETTINGS
@AS_JSON
@click.argument("name")
@speaks_plainly
def start_session(settings: tuple[str, ...], as_json: bool, name: str) -> None:
    """Start the session NAME on the running Ray cluster."""
    url = sessions.start_session(name, Configuration(parse_settings(settings)))
    if as_json:
        print_json({"name": name, "url": url})
        return
    click.echo(f"session {name} is up; submit with -D execution.target=ray-session -D flinkray.cluster-id={name}")
    if url:
        click.echo(f"its REST interface is at {url}")


@session.command("stop")
@AS_JSON
@click.argument("name")
@speaks_plainly
def stop_session(as_json: bool, name: str) -> None:
    """Cancel the jobs of the session NAME and end it."""
    sessions.stop_session(name)
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"session {name} is stopped")


@session.command("list")
@AS_JSON
@speaks_plainly
def list_sessions(as_json: bool) -> None:
    """List the sessions on the running Ray cluster."""
    states = sessions.of_each(sessions.list_sessions(), _state_of)
    if as_json:
        print_json({"sessions": [{"name": name, **_figures(state)} for name, state in states.items()]})
    else:
        for name, state in states.items():
            text = str(state) if isinstance(state, FlinkrayError) else f"{state[0]} running job(s); {state[1]}"
            click.echo(f"{name}: {text}")
    if any(isinstance(state, FlinkrayError) for state in states.values()):
        sys.exit(1)


def _state_of(name: str) -> tuple[int, ClusterOverview]:
    jobs, overview = sessions.session_jobs(name), sessions.session_overview(name)
    return sum(not job.status.is_terminal for job in jobs), overview


def _figures(state: tuple[int, ClusterOverview] | FlinkrayError) -> dict[str, object]:
    """A session as JSON has it, by the names of the REST interface."""
    if isinstance(state, FlinkrayError):
        return {"errors": [str(state)]}
    running, overview = state
    slots = {"slots-total": overview.slots, "slots-available": overview.free_slots}
    return {"jobs-running": running, "taskmanagers": overview.task_executors, **slots}


@main.command("ui")
@SETTINGS
@AS_JSON
@click.option("--address", metavar="ADDRESS", help="The Ray cluster; else what RAY_ADDRESS names, or the one here.")
@click.option("--cluster", metavar="NAME", help="Only this session, or cluster of a job, as `list` shows it.")
@speaks_plainly
def serve_rest(settings: tuple[str, ...], as_json: bool, address: str | None, cluster: str | None) -> None:
    """Serve Flink's REST interface over what runs on the running Ray cluster, until Ctrl-C.

    It listens where rest.port, rest.bind-port and rest.bind-address say.
    """
    from actors.client.rest import attach

    if address is not None:
        os.environ["RAY_ADDRESS"] = address
    if cluster is not None and cluster not in sessions.list_clusters():
        raise sessions.no_such_session(cluster)
    server = attach(Configuration(parse_settings(settings)), cluster)
    _serve("the REST interface", server.url, server.close, as_json)


@main.command("history-server")
@SETTINGS
@AS_JSON
@click.option(
    "--dir", "directory", metavar="DIRECTORY", required=True, help="What jobmanager.archive.fs.dir was of the jobs."
)
@speaks_plainly
def serve_history(settings: tuple[str, ...], as_json: bool, directory: str) -> None:
    """Show jobs that have ended, as far as their archives are in DIRECTORY (path or URI), until Ctrl-C.

    It listens where rest.port, rest.bind-port and rest.bind-address say.
    """
    from actors.rest.history.serving import start_history_server

    server = start_history_server(Configuration(parse_settings(settings)), directory)
    _serve("the history", server.url, server.close, as_json)


def _serve(what: str, url: str, close: Callable[[], None], as_json: bool) -> None:
    """Until Ctrl-C."""
    if as_json:
        print_json({"url": url})
    else:
        click.echo(f"{what} is at {url}; Ctrl-C ends it")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo("", err=True)
    finally:
        close()


@main.group()
def metrics() -> None:
    """What jobs export to Ray's metrics endpoint."""


@metrics.command("grafana")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), required=True, help="The directory to write them to."
)
@AS_JSON
@speaks_plainly
def write_dashboard(output: Path, as_json: bool) -> None:
    """Write a dashboard for Grafana, and alert rules for Prometheus."""
    from flinkray.metrics.grafana import write

    try:
        shown, rules = write(output)
    except OSError as error:
        raise ConfigurationError(f"nothing can be written to --output {str(output)!r}: {error.strerror}") from error
    if as_json:
        print_json({"dashboard": str(shown), "rules": str(rules)})
    else:
        print_lines([str(shown), str(rules)])


@main.command("sql")
@SETTINGS
@AS_JSON
@click.option("-i", "--init", type=SCRIPT, help="Statements that come first, such as tables and settings.")
@click.option("-f", "--file", type=SCRIPT, help="Statements to carry out; then it ends.")
@click.option("-e", "--execute", "statements", multiple=True, metavar="SQL", help="Statements, instead of a file.")
@speaks_plainly
def sql(
    settings: tuple[str, ...], as_json: bool, init: Path | None, file: Path | None, statements: tuple[str, ...]
) -> None:
    """Carry out statements of Flink SQL: those that you type, of a FILE, or given here."""
    if as_json and file is None and not statements:
        raise click.UsageError("--json takes statements from --file or --execute, as a prompt is for people")
    from actors.client.sql.client import OWN
    from actors.client.sql.command import run as run_sql

    own = dict(each.split("=", 1) for each in settings if each.startswith(OWN) and "=" in each)
    others = parse_settings([each for each in settings if each.partition("=")[0] not in own])
    run_sql({**others, **own}, init, file, statements, sessions.RayJobs(), as_json=as_json)


@main.command()
@AS_JSON
@speaks_plainly
def doctor(as_json: bool) -> None:
    """Say what this machine has of what flinkray needs, one line each."""
    found = {"python": f"{platform.python_version()} ({sys.executable})"}
    found |= {name: _version_of(name) for name in _PACKAGES}
    found["java"] = _java()
    if as_json:
        print_json(found)
    else:
        print_lines(f"{name} {text}" for name, text in found.items())


_PACKAGES = ("flinkray", "ray", "pyarrow", "pandas", "numpy", "pyspark", "raydp")


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return f"is not installed{_HINTS.get(package, '')}"


_HINTS = {
    "pandas": ' (only DataFrames need it: pip install "flinkray[pandas]")',
    "pyspark": ' (only Spark needs it: pip install "flinkray[spark]", or "flinkray[spark4]" for PySpark 4)',
    "raydp": ' (only Spark on Ray needs it: pip install "flinkray[spark]")',
}
"""What packages of which flinkray has no need at all times are for."""


def _java() -> str:
    from actors.hosts.java import find_java

    try:
        java = find_java()
    except MissingDependencyError as error:
        return f"is not there: {error}"
    return f"{java.version} of {java.origin} ({java.path})"


for command in COMMANDS:
    main.add_command(command)

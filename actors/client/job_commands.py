"""The commands of `flinkray` that look at jobs and change them.

With `--json` each prints what the REST interface answers to the same question (`flinkray.rest` has the shapes).
"""

from __future__ import annotations

import time

import click

from actors.checkpoints.storage.disposal import dispose_savepoint
from actors.client import session as sessions
from actors.client.console import AS_JSON, CLUSTER, JOB, print_json, print_lines, say, speaks_plainly
from actors.client.tables import checkpoint_lines, detail_lines, exception_lines, job_lines
from actors.protocol.client_requests import JobOverview
from actors.protocol.dispatcher_errors import EndpointSilentError
from actors.rest.answers import checkpoints, failures, jobs
from flinkray.errors import FlinkrayError
from flinkray.rest.jobs import JobsOverview, JobStatusAnswer
from flinkray.rest.operations import CheckpointResult, SavepointResult


@click.command("list")
@click.option("--cluster", metavar="NAME", help="Only those of this cluster.")
@AS_JSON
@speaks_plainly
def list_jobs(cluster: str | None, as_json: bool) -> None:
    """List the jobs on the running Ray cluster, oldest first."""
    answers = sessions.of_each([cluster] if cluster else sessions.list_clusters(), sessions.session_jobs)
    known = [(name, job) for name, each in answers.items() if isinstance(each, tuple) for job in each]
    if as_json:
        print_json(_overview(known))
    else:
        print_lines(job_lines(known, sessions.slot_waits(known)))
    failed = [answer for answer in answers.values() if isinstance(answer, FlinkrayError)]
    for error in failed[1:]:
        say(error)
    if failed:
        raise failed[0]


def _overview(known: list[tuple[str, JobOverview]]) -> JobsOverview:
    summaries = sessions.summaries(known)
    oldest_first = sorted((job for _, job in known), key=lambda job: job.started_ms)
    shown = [jobs.in_list(job, job.summary or summaries.get(job.job_id), _now_ms()) for job in oldest_first]
    return JobsOverview(jobs=shown)


@click.command("info")
@CLUSTER
@AS_JSON
@JOB
@speaks_plainly
def show_job(cluster: str | None, as_json: bool, job: str) -> None:
    """Show how the job JOB is: its vertices, restarts, and last failure."""
    details = sessions.job_client(job, cluster).details()
    if as_json:
        print_json(jobs.details(details, _now_ms()))
    else:
        print_lines(detail_lines(details))


@click.command("exceptions")
@CLUSTER
@AS_JSON
@click.option(
    "-n", "--most", type=click.IntRange(1), default=failures.MOST, show_default=True, help="How many at most."
)
@JOB
@speaks_plainly
def list_exceptions(cluster: str | None, as_json: bool, most: int, job: str) -> None:
    """Show the last failures of the job JOB with their tracebacks, newest first."""
    found = failures.exceptions(sessions.job_client(job, cluster).details(), most)
    if as_json:
        print_json(found)
    else:
        print_lines(exception_lines(found))


@click.command("logs")
@CLUSTER
@AS_JSON
@click.option("--lines", type=click.IntRange(1), help="How many of the last ones; by default all that are kept.")
@JOB
@speaks_plainly
def show_logs(cluster: str | None, as_json: bool, lines: int | None, job: str) -> None:
    """Show the ends of the logs of the processes that run the job JOB, in the order of time."""
    found = sessions.job_client(job, cluster).log().splitlines()[-(lines or 0) :]
    if as_json:
        print_json({"lines": found})
    else:
        print_lines(found)


@click.command("cancel")
@CLUSTER
@AS_JSON
@JOB
@speaks_plainly
def cancel_job(cluster: str | None, as_json: bool, job: str) -> None:
    """Cancel the job JOB."""
    client = sessions.job_client(job, cluster)
    status = client.status()
    if not status.is_terminal:
        client.cancel()
    if as_json:
        print_json(JobStatusAnswer(status=client.status().name))
        return
    if status.is_terminal:
        click.echo(f"job {client.job_id} is {status.value} already")
        return
    try:
        client.details()
    except EndpointSilentError as error:
        click.echo(f"job {client.job_id} stops when its JobMaster answers again, or is replaced: {error}")
    else:
        click.echo(f"job {client.job_id} is asked to stop")


@click.command("checkpoints")
@CLUSTER
@AS_JSON
@JOB
@speaks_plainly
def list_checkpoints(cluster: str | None, as_json: bool, job: str) -> None:
    """List the last checkpoints and savepoints of the job JOB, newest first."""
    client = sessions.job_client(job, cluster)
    if as_json:
        print_json(checkpoints.checkpoints(client.checkpoint_report(), client.details().parallelisms))
    else:
        print_lines(checkpoint_lines(client.checkpoints()))


@click.command("checkpoint")
@CLUSTER
@AS_JSON
@JOB
@speaks_plainly
def take_checkpoint(cluster: str | None, as_json: bool, job: str) -> None:
    """Take the next checkpoint of the job JOB now, and wait until it is complete; the job goes on."""
    client = sessions.job_client(job, cluster)
    checkpoint_id = client.trigger_checkpoint()
    if as_json:
        print_json(CheckpointResult(checkpoint_id=checkpoint_id))
    else:
        click.echo(f"checkpoint {checkpoint_id} of job {client.job_id} is complete")


@click.command("rescale")
@CLUSTER
@AS_JSON
@click.option(
    "--vertex", "vertices", multiple=True, metavar="VERTEX=N", help="Of this vertex alone, by name or id; repeatable."
)
@JOB
@click.argument("parallelism", type=click.IntRange(1), required=False)
@speaks_plainly
def rescale_job(
    cluster: str | None, as_json: bool, vertices: tuple[str, ...], job: str, parallelism: int | None
) -> None:
    """Give the running job JOB another PARALLELISM; it goes on from a checkpoint that it takes now."""
    if (parallelism is None) == (not vertices):
        raise click.UsageError("name the job's PARALLELISM, or that of vertices with --vertex VERTEX=N")
    client = sessions.job_client(job, cluster)
    now = client.rescale(parallelism if parallelism is not None else dict(map(_vertex_and_number, vertices)))
    details = client.details()
    if as_json:
        print_json(jobs.resource_requirements(details))
    else:
        print_lines([f"job {client.job_id} is rescaled:"])
        print_lines([f"  {now[each.vertex_id]:4}  {each.name}" for each in details.vertices])


def _vertex_and_number(text: str) -> tuple[str, int]:
    vertex, separator, number = text.rpartition("=")
    if not separator or not number.isdecimal() or not int(number):
        raise click.UsageError(f"--vertex {text!r} is not VERTEX=N, with a number of subtasks from 1 on")
    return vertex, int(number)


@click.command("savepoint")
@CLUSTER
@AS_JSON
@click.option("--dispose", metavar="PATH", help="Delete this savepoint instead.")
@click.argument("job", required=False)
@click.argument("directory", required=False)
@speaks_plainly
def savepoint(cluster: str | None, as_json: bool, dispose: str | None, job: str | None, directory: str | None) -> None:
    """Save the state of the job JOB into a new directory below DIRECTORY; the job goes on."""
    if dispose is not None:
        if job is not None:
            raise click.UsageError("--dispose PATH deletes a savepoint, and takes no JOB")
        deleted = dispose_savepoint(dispose)
        _print_savepoint(deleted, [f"savepoint {deleted} is deleted"], as_json)
        return
    if job is None:
        raise click.UsageError("name the JOB to save, or --dispose PATH")
    saved = sessions.job_client(job, cluster).trigger_savepoint(directory)
    _print_savepoint(saved, [saved], as_json)


@click.command("stop")
@CLUSTER
@AS_JSON
@click.option("-p", "--savepoint-path", "--savepointPath", metavar="DIRECTORY", help="Where the savepoint goes.")
@click.option(
    "-d", "--drain", is_flag=True, help="Fire all windows and timers first: the job is not to go on from there."
)
@JOB
@speaks_plainly
def stop_job(cluster: str | None, as_json: bool, savepoint_path: str | None, drain: bool, job: str) -> None:
    """End the job JOB with a savepoint."""
    client = sessions.job_client(job, cluster)
    saved = client.stop_with_savepoint(savepoint_path, drain)
    _print_savepoint(saved, [f"job {client.job_id} has finished; its savepoint is", saved], as_json)


def _print_savepoint(directory: str, lines: list[str], as_json: bool) -> None:
    if as_json:
        print_json(SavepointResult(location=directory))
    else:
        print_lines(lines)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


COMMANDS = (
    list_jobs,
    show_job,
    list_exceptions,
    show_logs,
    cancel_job,
    list_checkpoints,
    take_checkpoint,
    rescale_job,
    savepoint,
    stop_job,
)

"""An archive: what the REST interface answers about a job that has ended, by path."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from actors.protocol.client_requests import (
    GetArchivedJob,
    GetClusterConfiguration,
    GetJobOverview,
    JobOverview,
    ListJobs,
)
from actors.protocol.control_messages import JobDetails
from actors.protocol.ports import Address, Host
from actors.rest.answers.encoding import encoded
from actors.rest.asking.call import Call
from actors.rest.asking.masters import Masters, OneCluster
from actors.rest.asking.refusals import Refusal
from actors.rest.handlers.clusters import ClusterHandlers
from actors.rest.handlers.jobs import JobHandlers
from actors.rest.handlers.vertices import VertexHandlers
from flinkray.rest.routes import ROUTES, find


class Entry(Struct, frozen=True):
    """An answer; `json` is its text."""

    path: str
    json: str


class Archive(Struct, frozen=True):
    """A file of Flink's history: an answer for each path."""

    archive: list[Entry]


def archives_of(
    details: JobDetails, cluster_id: str, configuration: Mapping[str, str], version: str
) -> tuple[Archive, Archive]:
    """(that of the job, that of the application that it is): what the handlers would answer at its end.

    Args:
        configuration: the options of the cluster, without secrets.
    """
    end_ms = details.status_times[-1][1] if details.status_times else 0
    masters = Masters(OneCluster(cluster_id, _EndedJob(details, configuration)), lambda: 0.0, 1.0)
    try:
        handlers = (
            ClusterHandlers(masters, lambda: end_ms, version, 0),
            JobHandlers(masters, lambda: end_ms),
            VertexHandlers(masters, lambda: end_ms),
        )
        return _archive(handlers, _job_paths(details)), _archive(handlers, _application_paths(details))
    finally:
        masters.close()


def _archive(handlers: tuple[object, ...], paths: Iterator[str]) -> Archive:
    entries = []
    for path in dict.fromkeys(paths):
        route, parameters = find("GET", path)
        handler = next(filter(None, (getattr(each, route.handler, None) for each in handlers)))
        try:
            found = handler(Call(parameters=parameters))
        except Refusal:
            continue  # such as the parts of a checkpoint of long ago, which are not known any more
        entries.append(Entry(path, encoded(found).decode()))
    return Archive(entries)


def _job_paths(details: JobDetails) -> Iterator[str]:
    """Those of all that Flink tells of a job, but for figures that are asked for by name, and what only a job that runs
    has."""
    yield "/jobs/overview"
    for route in ROUTES:
        is_of_job = route.method == "GET" and route.parameters[:1] == ("jobid",) and "triggerid" not in route.parameters
        asks = {"get", "type"} & set(route.query)
        if is_of_job and route.is_flinks and not route.is_write and not asks:
            for values in _values_of(route.parameters, details):
                path = route.path
                for name, value in values.items():
                    path = path.replace(f":{name}", value)
                yield path


def _values_of(parameters: Sequence[str], details: JobDetails) -> Iterator[dict[str, str]]:
    """What the parameters of a path may be, in all combinations."""
    job = {"jobid": details.job_id}
    if "subtaskindex" in parameters:
        for vertex, index, attempt in _attempts(details):
            yield {**job, "vertexid": vertex, "subtaskindex": str(index), "attempt": str(attempt)}
        return
    checkpoints = details.checkpoints
    latest = (checkpoints.latest_completed, checkpoints.latest_savepoint, checkpoints.latest_failed)
    numbers = {each.checkpoint_id for each in (*checkpoints.history, *latest) if each is not None}
    choices = {
        "checkpointid": [str(number) for number in sorted(numbers, reverse=True)],
        "vertexid": [vertex.vertex_id for vertex in details.vertices],
    }
    names = [name for name in choices if name in parameters]
    for values in itertools.product(*(choices[name] for name in names)):
        yield {**job, **dict(zip(names, values, strict=True))}


def _attempts(details: JobDetails) -> Iterator[tuple[str, int, int]]:
    """(vertex, subtask, attempt): all that are known."""
    former = {} if details.archive is None else details.archive.attempts
    for vertex in details.vertices:
        for attempt in former.get(vertex.vertex_id, ()):
            yield vertex.vertex_id, attempt.subtask_index, attempt.attempt_number
        for subtask in vertex.subtasks:
            yield vertex.vertex_id, subtask.subtask_index, subtask.attempt_number


def _application_paths(details: JobDetails) -> Iterator[str]:
    yield "/applications/overview"
    for route in ROUTES:
        if route.method == "GET" and route.parameters == ("applicationid",):
            yield route.path.replace(":applicationid", details.job_id)


class _EndedJob(Host):
    """A cluster whose Dispatcher knows one job, which has ended: what `Masters` asks."""

    def __init__(self, details: JobDetails, configuration: Mapping[str, str]) -> None:
        self._details = details
        self._configuration = configuration
        started_ms = details.status_times[0][1] if details.status_times else 0
        address = Address("ended")
        self._overview = JobOverview(details.job_id, details.name, details.status, started_ms, address, details.summary)

    def ask(self, address: Address, request: Any, timeout_ms: float) -> Any:
        match request:
            case GetArchivedJob():
                return self._details
            case GetJobOverview():
                return self._overview
            case ListJobs():
                return (self._overview,)
            case GetClusterConfiguration():
                return self._configuration
        raise TypeError(f"nobody is there to answer {request!r}")

    def spawn(self, spec: Any) -> None:
        raise TypeError("nothing runs where a job has ended")

    tell = kill = spawn  # type: ignore[assignment]

    def shutdown(self) -> None:
        pass

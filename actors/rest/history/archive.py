"""An archive: what the REST interface answers about a job that has ended, by path."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
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
from actors.rest.asking.call import Call
from actors.rest.asking.masters import Masters, OneCluster
from actors.rest.asking.refusals import Refusal
from actors.rest.handlers.clusters import ClusterHandlers
from actors.rest.handlers.jobs import JobHandlers
from actors.rest.handlers.vertices import VertexHandlers
from flinkray.rest.routes import ROUTES, find

_encode = msgspec.json.Encoder().encode


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
        now_ms = lambda: end_ms  # noqa: E731
        handlers = (
            ClusterHandlers(masters, now_ms, version, 0),
            JobHandlers(masters, now_ms),
            VertexHandlers(masters, now_ms),
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
            continue  # such as the part of a vertex in a checkpoint that it had finished before
        entries.append(Entry(path, _encode(found).decode()))
    return Archive(entries)


def _job_paths(details: JobDetails) -> Iterator[str]:
    """The paths of all routes about the job that do not ask for figures by name, or for what only runs."""
    yield "/jobs/overview"
    checkpoints = details.checkpoints
    latest = (checkpoints.latest_completed, checkpoints.latest_savepoint, checkpoints.latest_failed)
    numbers = {each.checkpoint_id for each in (*checkpoints.history, *latest) if each is not None}
    for route in ROUTES:
        if route.method != "GET" or route.is_write or (route.query and "maxExceptions" not in route.query):
            continue
        if route.parameters[:1] != ("jobid",) or not route.is_flinks:
            continue
        path = route.path.replace(":jobid", details.job_id)
        choices: dict[str, list[str]] = {
            "vertexid": [vertex.vertex_id for vertex in details.vertices],
            "checkpointid": [str(number) for number in sorted(numbers, reverse=True)],
        }
        if {"subtaskindex", "attempt"} & set(route.parameters):
            yield from _attempt_paths(details, path)
        elif set(route.parameters) <= {"jobid", *choices}:
            names = [name for name in route.parameters if name in choices]
            for values in itertools.product(*(choices[name] for name in names)):
                found = path
                for name, value in zip(names, values, strict=True):
                    found = found.replace(f":{name}", value)
                yield found


def _attempt_paths(details: JobDetails, path: str) -> Iterator[str]:
    for vertex in details.vertices:
        former = () if details.archive is None else details.archive.attempts.get(vertex.vertex_id, ())
        for subtask in vertex.subtasks:
            numbers = [each.attempt_number for each in former if each.subtask_index == subtask.subtask_index]
            for number in (*numbers, subtask.attempt_number):
                found = path.replace(":vertexid", vertex.vertex_id).replace(":subtaskindex", str(subtask.subtask_index))
                yield found.replace(":attempt", str(number))


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

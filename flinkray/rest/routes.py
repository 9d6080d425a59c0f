"""All that is served: method, path, parameters, what it answers and what it does. Handlers, the OpenAPI description and
the page of the documentation are made from this one table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from flinkray.rest import (
    checkpoints,
    cluster,
    flame_graphs,
    jobs,
    metrics,
    operations,
    programs,
    task_managers,
    vertices,
)

TEXT = str
"""The answer of routes that give a file as it is."""


class Route(Struct, frozen=True):
    """Something that can be asked for, or done."""

    method: str
    path: str
    """As Flink writes it, with `:name` for what varies."""
    handler: str
    """The name of what answers."""
    answer: Any
    """The type of the answer's body."""
    doc: str
    query: tuple[str, ...] = ()
    """The parameters that it reads."""
    body: Any = None
    """The type of the request's body, which may be left out; None: there is none."""
    status: int = 200
    is_write: bool = False
    """Whether it changes something."""
    is_flinks: bool = True
    """Whether Flink has it."""
    is_upload: bool = False
    """Whether the body is a form with a file in it (multipart/form-data), and not JSON."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """What varies in the path."""
        return tuple(re.findall(r":(\w+)", self.path))

    def match(self, given: Sequence[str]) -> dict[str, str] | None:
        """What varies, by name; None: it is another path.

        Args:
            given: what stands between the slashes of a path, which are as many as in this one.
        """
        found = {}
        for part, value in zip(self.path.split("/"), given, strict=True):
            if part.startswith(":") and value:
                found[part[1:]] = value
            elif part != value:
                return None
        return found


class NoSuchRoute(Exception):
    """Nothing is served there; with methods, nothing under this method."""

    def __init__(self, methods: frozenset[str] = frozenset()) -> None:
        super().__init__(methods)
        self.methods = methods


def plain_path(path: str) -> str:
    """The path as it stands in routes: without /v1, and slashes at its ends."""
    path = f"/{path.strip('/')}"
    return path.removeprefix("/v1") if path.startswith("/v1/") else path


def find(method: str, path: str) -> tuple[Route, Mapping[str, str]]:
    """The route of a request, and what varies in its path. As with Flink, all is served below /v1 as well, and slashes
    at both ends do not count: clients put them between the server's address and a path.

    Raises:
        NoSuchRoute
    """
    path = plain_path(path)
    given = path.split("/")
    matches = [(route, found) for route in _of_length(len(given)) if (found := route.match(given)) is not None]
    # A path that is named stands before one in which it is a parameter: /jobs/overview before /jobs/:jobid.
    matches.sort(key=lambda match: len(match[1]))
    for route, found in matches:
        if route.method == method:
            return route, found
    raise NoSuchRoute(frozenset(route.method for route, _ in matches))


@cache
def _of_length(parts: int) -> tuple[Route, ...]:
    return tuple(route for route in ROUTES if route.path.count("/") + 1 == parts)


def _get(path: str, handler: str, answer: Any, doc: str, *query: str, is_flinks: bool = True) -> Route:
    return Route("GET", path, handler, answer, doc, query, is_flinks=is_flinks)


def _write(
    method: str, path: str, handler: str, answer: Any, doc: str, *query: str, body: type[Struct] | None = None
) -> Route:
    return Route(method, path, handler, answer, doc, query, body, status=202, is_write=True)


_JOB = "/jobs/:jobid"
_VERTEX = f"{_JOB}/vertices/:vertexid"
_SUBTASK = f"{_VERTEX}/subtasks/:subtaskindex"
_ATTEMPT = f"{_SUBTASK}/attempts/:attempt"
_CHECKPOINT = f"{_JOB}/checkpoints/details/:checkpointid"
_TASK_MANAGER = "/taskmanagers/:taskmanagerid"
_PROGRAM = "/jars/:jarid"

_CLUSTER_ROUTES = (
    _get("/config", "dashboard_configuration", cluster.DashboardConfiguration, "What a dashboard asks first."),
    _get("/overview", "cluster_overview", cluster.ClusterOverview, "How many TaskExecutors, slots and jobs there are."),
    _get(
        "/jobmanager/config",
        "cluster_configuration",
        list[cluster.ConfigurationEntry],
        "The options that the cluster was started with.",
    ),
    _get("/jobmanager/environment", "environment", cluster.Environment, "Python and packages of this server."),
    _get("/jobmanager/metrics", "master_metrics", list[metrics.Metric], "Metrics of the masters.", "get"),
    _get("/jobmanager/thread-dump", "master_threads", cluster.ThreadDump, "What the Dispatcher's threads do."),
    _get("/jobmanager/logs", "master_logs", cluster.LogFiles, "The Dispatcher's log files."),
    _get("/jobmanager/logs/:filename", "master_log_file", TEXT, "The end of one of them."),
    _get("/jobmanager/log", "master_log", TEXT, "The end of the Dispatcher's log."),
    _get("/jobmanager/stdout", "master_stdout", TEXT, "The end of what the Dispatcher has printed."),
    _get("/datasets", "data_sets", cluster.DataSets, "Cached results: always none."),
    _get("/openapi.json", "openapi", operations.OpenApi, "This table as OpenAPI 3.1.", is_flinks=False),
)

_RUN_QUERY = ("entry-class", "parallelism", "programArg", "program-args", "savepointPath", "allowNonRestoredState")

_PROGRAM_ROUTES = (
    _get("/jars", "programs", programs.Programs, "Uploaded programs; none unless `web.submit.enable` is set."),
    Route(
        "POST",
        "/jars/upload",
        "upload_program",
        programs.UploadedFile,
        "Upload a program, a `.py` or `.zip` file, as the part `jarfile` of a form.",
        is_write=True,
        is_upload=True,
    ),
    Route(
        "POST",
        f"{_PROGRAM}/run",
        "run_program",
        programs.SubmittedJob,
        "Run it as a Ray job of its own; answered when its first job is submitted.",
        _RUN_QUERY,
        programs.ProgramRequest,
        is_write=True,
    ),
    *(
        Route(
            method,
            f"{_PROGRAM}/plan",
            "plan_of_program",
            jobs.JobPlan,
            "The graph of its first job, for which the program runs in a Ray job as far as there."
            + (" Refused unless it comes from a page of this server." if method == "GET" else ""),
            _RUN_QUERY[:4],
            programs.ProgramRequest if method == "POST" else None,
            is_write=True,
        )
        for method in ("GET", "POST")
    ),
    Route("DELETE", _PROGRAM, "delete_program", operations.Nothing, "Delete an uploaded program.", is_write=True),
)

_APPLICATION_ROUTES = (
    _get("/applications/overview", "applications", jobs.Applications, "All applications: each job is one of its own."),
    _get("/applications/:applicationid", "application", jobs.ApplicationDetails, "An application with its job."),
    _get(
        "/applications/:applicationid/exceptions",
        "application_exceptions",
        jobs.JobExceptions,
        "What failed outside of its job: always nothing.",
    ),
    _get(
        "/applications/:applicationid/jobmanager/config",
        "application_configuration",
        list[cluster.ConfigurationEntry],
        "As that of the cluster.",
    ),
    _write("POST", "/applications/:applicationid/cancel", "cancel_application", operations.Nothing, "Cancel its job."),
)

_JOB_ROUTES = (
    _get("/jobs", "job_ids", jobs.JobIds, "All jobs with their status."),
    _get("/jobs/overview", "jobs_overview", jobs.JobsOverview, "All jobs, with their subtasks by state."),
    _get(
        "/jobs/metrics",
        "metrics_of_jobs",
        list[metrics.AggregatedMetric],
        "Metrics over several jobs.",
        "get",
        "agg",
        "jobs",
    ),
    _get(_JOB, "job", jobs.JobDetails, "A job in detail, with its vertices and its graph."),
    _write("PATCH", _JOB, "cancel", operations.Nothing, "Cancel the job (`mode` is `cancel`, or left out).", "mode"),
    Route(
        "GET",
        f"{_JOB}/yarn-cancel",
        "cancel",
        operations.Nothing,
        "Cancel the job: what the Cancel button of Flink's dashboard asks for. Refused unless it comes from a page of "
        "this server.",
        status=202,
        is_write=True,
    ),
    _get(f"{_JOB}/plan", "plan", jobs.JobPlan, "The job's graph."),
    _get(f"{_JOB}/config", "job_configuration", jobs.JobConfiguration, "The job's options; secrets are hidden."),
    _get(f"{_JOB}/status", "job_status", jobs.JobStatusAnswer, "The job's status."),
    _get(
        f"{_JOB}/exceptions",
        "exceptions",
        jobs.JobExceptions,
        "The last 16 failures, each with what failed at the same time, and labels that say whose matter it is: "
        "`type` is `user`, `resources` or `system`.",
        "maxExceptions",
        "failureLabelFilter",
    ),
    _get(f"{_JOB}/accumulators", "accumulators", jobs.JobAccumulators, "Accumulators, over all subtasks."),
    _get(f"{_JOB}/execution-result", "execution_result", jobs.ExecutionResult, "Whether the job has ended, and how."),
    _get(
        f"{_JOB}/logs",
        "job_log",
        TEXT,
        "The ends of the logs of its JobMaster and its slots, by time, as long as these run.",
        is_flinks=False,
    ),
    _get(f"{_JOB}/metrics", "job_metrics", list[metrics.Metric], "Metrics of the job.", "get"),
    _get(
        f"{_JOB}/resource-requirements",
        "resource_requirements",
        dict[str, jobs.VertexRequirements],
        "The parallelism of each vertex.",
    ),
    Route(
        "PATCH",
        f"{_JOB}/rescaling",
        "trigger_rescaling",
        operations.Triggered,
        "Give the job this `parallelism`; it goes on from a checkpoint that it takes now.",
        ("parallelism",),
        is_write=True,
    ),
    _get(f"{_JOB}/rescaling/:triggerid", "triggered_rescaling", operations.RescalingProgress, "What has become of it."),
    Route(
        "PUT",
        f"{_JOB}/resource-requirements",
        "rescale",
        operations.Nothing,
        "Give vertices as many subtasks as their upper bounds say; the job goes on from a checkpoint taken for that.",
        body=dict[str, jobs.VertexRequirements],
        is_write=True,
    ),
    _get(
        f"{_JOB}/jobmanager/config",
        "configuration_for_job",
        list[cluster.ConfigurationEntry],
        "The options that the job was started with.",
    ),
    _get(f"{_JOB}/jobmanager/environment", "environment_for_job", cluster.Environment, "As that of the cluster."),
)

_CHECKPOINT_ROUTES = (
    _get(
        f"{_JOB}/checkpoints", "checkpoints", checkpoints.Checkpoints, "The last checkpoints and savepoints, and sums."
    ),
    _get(
        f"{_JOB}/checkpoints/config",
        "checkpoint_configuration",
        checkpoints.CheckpointConfiguration,
        "How the job takes checkpoints.",
    ),
    _get(_CHECKPOINT, "checkpoint", checkpoints.Checkpoint, "A checkpoint of the last ones, by vertex."),
    _get(
        f"{_CHECKPOINT}/subtasks/:vertexid",
        "checkpoint_of_vertex",
        checkpoints.VertexCheckpointDetails,
        "A checkpoint by the subtasks of a vertex.",
    ),
    _write(
        "POST",
        f"{_JOB}/checkpoints",
        "trigger_checkpoint",
        operations.Triggered,
        "Take the next periodic checkpoint now.",
        body=operations.CheckpointRequest,
    ),
    _get(
        f"{_JOB}/checkpoints/:triggerid",
        "triggered_checkpoint",
        operations.CheckpointProgress,
        "What has become of it.",
    ),
)

_SAVEPOINT_ROUTES = (
    _write(
        "POST",
        f"{_JOB}/savepoints",
        "trigger_savepoint",
        operations.Triggered,
        "Take a savepoint.",
        body=operations.SavepointRequest,
    ),
    _get(
        f"{_JOB}/savepoints/:triggerid",
        "triggered_savepoint",
        operations.SavepointProgress,
        "What has become of a savepoint, or of a stop with one.",
    ),
    _write(
        "POST",
        f"{_JOB}/stop",
        "stop",
        operations.Triggered,
        "Stop the job with a savepoint.",
        body=operations.StopRequest,
    ),
    _write(
        "POST",
        "/savepoint-disposal",
        "dispose_savepoint",
        operations.Triggered,
        "Delete a savepoint.",
        body=operations.DisposalRequest,
    ),
    _get(
        "/savepoint-disposal/:triggerid", "savepoint_disposal", operations.DisposalProgress, "What has become of that."
    ),
)

_VERTEX_ROUTES = (
    _get(_VERTEX, "vertex", vertices.VertexDetails, "A vertex with its subtasks."),
    _get(f"{_VERTEX}/accumulators", "vertex_accumulators", vertices.VertexAccumulators, "Its accumulators."),
    _get(
        f"{_VERTEX}/backpressure",
        "back_pressure",
        vertices.VertexBackPressure,
        "Where the time of its subtasks goes; `high` is more than half of it spent waiting for those behind.",
    ),
    _get(f"{_VERTEX}/subtasktimes", "subtask_times", vertices.VertexTimes, "When its subtasks entered which state."),
    _get(f"{_VERTEX}/taskmanagers", "vertex_task_managers", vertices.VertexTaskExecutors, "By TaskExecutors."),
    _get(f"{_VERTEX}/watermarks", "watermarks", list[metrics.Metric], "The watermarks of its subtasks."),
    _get(
        f"{_VERTEX}/metrics",
        "vertex_metrics",
        list[metrics.Metric],
        "Metrics of its subtasks, as `<subtask>.<name>`.",
        "get",
    ),
    _get(
        f"{_VERTEX}/jm-operator-metrics",
        "coordinator_metrics",
        list[metrics.Metric],
        "Metrics of its operators' coordinators: there are none.",
        "get",
    ),
    _get(
        f"{_VERTEX}/history",
        "vertex_history",
        vertices.VertexHistory,
        "What each subtask did per second, over the last 60 reports.",
        is_flinks=False,
    ),
    _get(
        f"{_VERTEX}/flamegraph",
        "flame_graph",
        flame_graphs.FlameGraph,
        "What its subtasks have spent the last minute on: `type` is `full`, `on_cpu` or `off_cpu`. Sampling goes on "
        "for 15 s after each question.",
        "type",
        "subtaskindex",
        "operator",
    ),
    _get(
        f"{_VERTEX}/flamegraph/collapsed",
        "collapsed_stacks",
        TEXT,
        "The same as lines of stacks with milliseconds.",
        "type",
        "subtaskindex",
        "operator",
        is_flinks=False,
    ),
    _get(
        f"{_VERTEX}/flamegraph/speedscope",
        "speedscope",
        flame_graphs.Speedscope,
        "The same as a file for speedscope.",
        "type",
        "subtaskindex",
        "operator",
        is_flinks=False,
    ),
    _get(
        f"{_VERTEX}/subtasks/metrics",
        "subtasks_metrics",
        list[metrics.AggregatedMetric],
        "Metrics over its subtasks.",
        "get",
        "agg",
        "subtasks",
    ),
    _get(
        f"{_VERTEX}/subtasks/accumulators",
        "subtasks_accumulators",
        vertices.SubtasksAccumulators,
        "The accumulators of each subtask.",
    ),
    _get(_SUBTASK, "subtask", vertices.SubtaskAttempt, "The current attempt of a subtask."),
    _get(f"{_SUBTASK}/metrics", "subtask_metrics", list[metrics.Metric], "Metrics of a subtask.", "get"),
    _get(_ATTEMPT, "attempt", vertices.SubtaskAttempt, "An attempt; of each subtask the last 16 are known."),
    _get(
        f"{_ATTEMPT}/accumulators",
        "attempt_accumulators",
        vertices.SubtaskAccumulators,
        "The accumulators of the current attempt.",
    ),
)

_TASK_MANAGER_ROUTES = (
    _get("/taskmanagers", "task_managers", task_managers.TaskManagers, "All TaskExecutors."),
    _get(
        "/taskmanagers/metrics",
        "metrics_of_task_managers",
        list[metrics.AggregatedMetric],
        "Metrics over several TaskExecutors.",
        "get",
        "agg",
        "taskmanagers",
    ),
    _get(_TASK_MANAGER, "task_manager", task_managers.TaskManagerDetails, "A TaskExecutor with slots and processes."),
    _get(
        f"{_TASK_MANAGER}/metrics",
        "task_manager_metrics",
        list[metrics.Metric],
        "Metrics of its processes: its own, and those of its slots.",
        "get",
    ),
    _get(f"{_TASK_MANAGER}/thread-dump", "task_manager_threads", cluster.ThreadDump, "What their threads do."),
    _get(f"{_TASK_MANAGER}/logs", "task_manager_logs", cluster.LogFiles, "Their log files."),
    _get(f"{_TASK_MANAGER}/logs/:filename", "task_manager_log_file", TEXT, "The end of one of them."),
    _get(f"{_TASK_MANAGER}/log", "task_manager_log", TEXT, "The end of the TaskExecutor's log."),
    _get(f"{_TASK_MANAGER}/stdout", "task_manager_stdout", TEXT, "The end of what it has printed."),
)

ROUTES: tuple[Route, ...] = (
    *_CLUSTER_ROUTES,
    *_PROGRAM_ROUTES,
    *_APPLICATION_ROUTES,
    *_JOB_ROUTES,
    *_CHECKPOINT_ROUTES,
    *_SAVEPOINT_ROUTES,
    *_VERTEX_ROUTES,
    *_TASK_MANAGER_ROUTES,
)


def table() -> Iterator[str]:
    """The routes as the rows of a Markdown table."""
    yield "| | path | parameters | what it gives or does |"
    yield "|---|---|---|---|"
    for route in ROUTES:
        marks = "" if route.is_flinks else " (not of Flink's)"
        query = ", ".join(f"`{name}`" for name in route.query)
        yield f"| {route.method} | `{route.path}` | {query} | {route.doc}{marks} |"

"""Jobs in Flink's shapes."""

from __future__ import annotations

import hashlib
import html
from collections import Counter

from msgspec import UNSET
from msgspec.structs import replace

from actors.protocol.client_requests import JobOverview
from actors.protocol.control_messages import JobDetails, VertexDetails
from actors.protocol.job_reports import JobDescription, JobSummary
from actors.protocol.resources import SlotWait
from actors.rest.answers import states
from actors.rest.answers.aggregates import io_metrics
from flinkray.execution import JobStatus
from flinkray.rest import jobs as shapes
from flinkray.rest.cluster import ConfigurationEntry
from graphs.execution_graph import ExecutionGraph

# What a job is called as an application, as Flink calls jobs that were submitted by themselves.
_APPLICATION = "SingleJobApplication({})"
_SCHEDULER = "Default"


def in_list(overview: JobOverview, summary: JobSummary | None, now: int) -> shapes.JobInList:
    """A job in a list.

    Args:
        summary: None: its JobMaster does not answer, and only what the Dispatcher knows is shown.
    """
    known = summary or JobSummary()
    start, end, duration = states.job_span(known.status_times, overview.status, now)
    if not known.status_times:
        start, duration = overview.started_ms, states.lasted(overview.started_ms, now)
    return shapes.JobInList(
        jid=overview.job_id,
        name=overview.name,
        job_type=_type(known.is_batch),
        scheduler_type=_SCHEDULER,
        start_time=start,
        end_time=end,
        duration=duration,
        state=overview.status.name,
        last_modification=max((time for _, time in known.status_times), default=start),
        tasks=states.counts_in_list(known.task_counts),
        pending_operators=0,
    )


def application_of(job: shapes.JobInList) -> shapes.Application:
    return shapes.Application(
        id=job.jid,
        name=_APPLICATION.format(job.name),
        start_time=job.start_time,
        end_time=job.end_time,
        duration=job.duration,
        status=_application_status(job.state),
        jobs={job.state: 1},
    )


def application_details_of(job: shapes.JobInList, details: JobDetails) -> shapes.ApplicationDetails:
    known = {"CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED"}
    times = [(_application_status(status.name), time) for status, time in details.status_times]
    return shapes.ApplicationDetails(
        id=job.jid,
        name=_APPLICATION.format(job.name),
        status=_application_status(job.state),
        start_time=job.start_time,
        end_time=job.end_time,
        duration=job.duration,
        timestamps={**dict.fromkeys(sorted(known), 0), **{name: time for name, time in times if name in known}},
        jobs=[job],
    )


def _application_status(status: str) -> str:
    """The status of a job as that of an application, which has fewer of them."""
    return {"INITIALIZING": "CREATED", "RESTARTING": "RUNNING", "CANCELLING": "CANCELING"}.get(status, status)


def details(job: JobDetails, now: int) -> shapes.JobDetails:
    start, end, duration = states.job_span(job.status_times, job.status, now)
    vertices = [_vertex(vertex, now) for vertex in job.vertices]
    times = ((status.name, time) for status, time in job.status_times)
    return shapes.JobDetails(
        jid=job.job_id,
        application_id=job.job_id,
        name=job.name,
        is_stoppable=job.description.is_stoppable,
        state=job.status.name,
        job_type=_type(job.description.is_batch),
        scheduler_type=_SCHEDULER,
        start_time=start,
        end_time=end,
        duration=duration,
        max_parallelism=states.UNKNOWN,
        now=now,
        timestamps=states.timestamps(times, states.JOB_STATUSES),
        vertices=vertices,
        status_counts=states.counts(vertex.status for vertex in vertices),
        plan=_plan(job),
        pending_operators=0,
        slot_wait=UNSET if job.slot_wait is None else _slot_wait(job.slot_wait),
    )


def _slot_wait(wait: SlotWait) -> shapes.SlotWait:
    return shapes.SlotWait(since=wait.since_ms, needed=wait.needed, missing=wait.lacks, resources=wait.resources)


def plan(job: JobDetails) -> shapes.JobPlan:
    return shapes.JobPlan(plan=_plan(job))


def planned(graph: ExecutionGraph, *, is_batch: bool) -> shapes.JobPlan:
    """The plan of a job that nobody has submitted."""
    vertices = tuple(VertexDetails.of(vertex) for vertex in graph.job_vertices.values())
    description = JobDescription(is_batch=is_batch)
    job = JobDetails(graph.job_id, graph.name, JobStatus.INITIALIZING, (), vertices, description=description)
    found = _plan(job)
    nodes = [replace(node, job_vertex_id=node.id) for node in found.nodes]
    return shapes.JobPlan(plan=replace(found, nodes=nodes))


def configuration(job: JobDetails) -> shapes.JobConfiguration:
    described = job.description
    return shapes.JobConfiguration(
        jid=job.job_id,
        name=job.name,
        execution_config=shapes.ExecutionConfiguration(
            restart_strategy=described.restart_strategy,
            job_parallelism=described.parallelism,
            object_reuse_mode=False,
            user_config=dict(described.configuration),
        ),
    )


def configuration_entries(job: JobDetails) -> list[ConfigurationEntry]:
    return [ConfigurationEntry(key=key, value=value) for key, value in sorted(job.description.configuration.items())]


def accumulators(job: JobDetails) -> shapes.JobAccumulators:
    return shapes.JobAccumulators(
        job_accumulators=[],
        user_task_accumulators=accumulators_of(job.accumulators),
        serialized_user_task_accumulators={},
    )


def accumulators_of(values: dict[str, int | float]) -> list[shapes.Accumulator]:
    return [
        shapes.Accumulator(
            name=name, type="LongCounter" if isinstance(value, int) else "DoubleCounter", value=str(value)
        )
        for name, value in sorted(values.items())
    ]


def execution_result(job: JobDetails) -> shapes.ExecutionResult:
    if not job.status.is_terminal:
        return shapes.ExecutionResult(status=shapes.JobResultStatus(id="IN_PROGRESS"))
    error = job.error
    result = shapes.JobResult(
        id=job.job_id,
        application_status={"FINISHED": "SUCCEEDED"}.get(job.status.name, job.status.name),
        accumulator_results={name: str(value) for name, value in job.accumulators.items()},
        net_runtime=job.runtime_ms,
        failure_cause=UNSET if error is None else {"class": error.type_name, "stack-trace": str(error)},
    )
    return shapes.ExecutionResult(status=shapes.JobResultStatus(id="COMPLETED"), job_execution_result=result)


def resource_requirements(job: JobDetails) -> dict[str, shapes.VertexRequirements]:
    return {
        vertex.vertex_id: shapes.VertexRequirements(
            parallelism=shapes.Parallelism(lower_bound=1, upper_bound=vertex.parallelism)
        )
        for vertex in job.vertices
    }


def _type(is_batch: bool) -> str:
    return "BATCH" if is_batch else "STREAMING"


def _vertex(vertex: VertexDetails, now: int) -> shapes.VertexInJob:
    spans = (states.span(subtask.times, now) for subtask in vertex.subtasks)
    start, end, duration = states.span_of_all(spans, now)
    by_state = Counter(subtask.state for subtask in vertex.subtasks)
    return shapes.VertexInJob(
        id=vertex.vertex_id,
        slot_sharing_group_id=hashlib.md5(vertex.slot_sharing_group.encode(), usedforsecurity=False).hexdigest(),
        name=vertex.name,
        max_parallelism=vertex.max_parallelism,
        parallelism=vertex.parallelism,
        status=states.of_vertex(vertex.subtasks),
        start_time=start,
        end_time=end,
        duration=duration,
        tasks={state: by_state.get(state, 0) for state in states.EXECUTION_STATES},
        metrics=io_metrics([subtask.metrics for subtask in vertex.subtasks]),
    )


def _plan(job: JobDetails) -> shapes.Plan:
    return shapes.Plan(
        jid=job.job_id,
        name=job.name,
        type=_type(job.description.is_batch),
        nodes=[_node(vertex) for vertex in job.vertices],
    )


def _node(vertex: VertexDetails) -> shapes.PlanNode:
    exchanges = vertex.exchanges or ("",) * len(vertex.inputs)
    inputs = [
        shapes.PlanInput(id=source, num=number, exchange=exchange, ship_strategy=strategy)
        for number, ((source, strategy), exchange) in enumerate(zip(vertex.inputs, exchanges, strict=True))
    ]
    return shapes.PlanNode(
        id=vertex.vertex_id,
        operator="",
        parallelism=vertex.parallelism,
        operator_strategy="",
        description=_chain(vertex),
        optimizer_properties={},
        inputs=inputs or UNSET,
    )


def _chain(vertex: VertexDetails) -> str:
    """The operators of a chain below each other, as HTML, which is what dashboards take it for."""
    names = [html.escape(name, quote=False) for name in vertex.operators or (vertex.name,)]
    return "".join(
        f"{'   ' * (depth - 1)}+- {name}<br/>" if depth else f"{name}<br/>" for depth, name in enumerate(names)
    )

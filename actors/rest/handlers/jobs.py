"""Jobs and their checkpoints."""

from __future__ import annotations

from collections.abc import Callable

from actors.protocol.control_messages import JobDetails
from actors.rest.answers import checkpoints, failures, jobs, metrics
from actors.rest.asking.call import Call
from actors.rest.asking.masters import Masters
from actors.rest.asking.refusals import Refusal
from flinkray.rest import checkpoints as checkpoint_shapes
from flinkray.rest import jobs as shapes
from flinkray.rest.cluster import ConfigurationEntry
from flinkray.rest.metrics import AggregatedMetric, Metric


class JobHandlers:
    """Handlers of routes about jobs."""

    def __init__(self, masters: Masters, now_ms: Callable[[], int]) -> None:
        self._masters = masters
        self._now_ms = now_ms

    # -- all jobs ------------------------------------------------------------------------------------------------

    def job_ids(self, _call: Call) -> shapes.JobIds:
        known = self._masters.jobs()
        return shapes.JobIds(jobs=[shapes.JobIdWithStatus(id=job.job_id, status=job.status.name) for job in known])

    def jobs_overview(self, _call: Call) -> shapes.JobsOverview:
        now = self._now_ms()
        return shapes.JobsOverview(jobs=[jobs.in_list(job, summary, now) for job, summary in self._masters.summaries()])

    def metrics_of_jobs(self, call: Call) -> list[AggregatedMetric]:
        wanted = call.list_in_query("jobs")
        known = [job for job in self._masters.all_details() if wanted is None or job.job_id in wanted]
        reports = self._masters.checkpoints_of_each([job.job_id for job in known])
        now = self._now_ms()
        values = [metrics.of_job(job, report, now) for job in known if (report := reports[job.job_id]) is not None]
        return metrics.over_several(values, call.list_in_query("get"), aggregates_of(call))

    # -- one job -------------------------------------------------------------------------------------------------

    def job(self, call: Call) -> shapes.JobDetails:
        return jobs.details(self._details(call), self._now_ms())

    def plan(self, call: Call) -> shapes.JobPlan:
        return jobs.plan(self._details(call))

    def job_configuration(self, call: Call) -> shapes.JobConfiguration:
        return jobs.configuration(self._details(call))

    def configuration_for_job(self, call: Call) -> list[ConfigurationEntry]:
        return jobs.configuration_entries(self._details(call))

    def job_status(self, call: Call) -> shapes.JobStatusAnswer:
        return shapes.JobStatusAnswer(status=self._masters.job(call.job_id()).status.name)

    def exceptions(self, call: Call) -> shapes.JobExceptions:
        most = call.number_in_query("maxExceptions", failures.MOST)
        return failures.exceptions(self._details(call), most, _labels(call))

    def accumulators(self, call: Call) -> shapes.JobAccumulators:
        return jobs.accumulators(self._details(call))

    def execution_result(self, call: Call) -> shapes.ExecutionResult:
        return jobs.execution_result(self._details(call))

    def job_metrics(self, call: Call) -> list[Metric]:
        return metrics.listed(self._metrics_of(self._details(call)), call.list_in_query("get"))

    def resource_requirements(self, call: Call) -> dict[str, shapes.VertexRequirements]:
        return jobs.resource_requirements(self._details(call))

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def checkpoints(self, call: Call) -> checkpoint_shapes.Checkpoints:
        return checkpoints.checkpoints(self._masters.checkpoints(call.job_id()), self._details(call).parallelisms)

    def checkpoint_configuration(self, call: Call) -> checkpoint_shapes.CheckpointConfiguration:
        return checkpoints.configuration(self._details(call).description.checkpoints)

    def checkpoint(self, call: Call) -> checkpoint_shapes.Checkpoint:
        number, vertices = call.number("checkpointid"), self._details(call).parallelisms
        found = checkpoints.checkpoint(self._masters.checkpoints(call.job_id()), number, vertices)
        if found is None:
            raise _unknown_checkpoint(number)
        return found

    def checkpoint_of_vertex(self, call: Call) -> checkpoint_shapes.VertexCheckpointDetails:
        number, vertex = call.number("checkpointid"), call.id_of("vertexid")
        report, vertices = self._masters.checkpoints(call.job_id()), self._details(call).parallelisms
        found = checkpoints.vertex(report, number, vertex, vertices)
        if found is None:
            raise _unknown_checkpoint(number, f", or there is no vertex {vertex!r}")
        return found

    def _metrics_of(self, job: JobDetails) -> metrics.Values:
        return metrics.of_job(job, self._masters.checkpoints(job.job_id), self._now_ms())

    def _details(self, call: Call) -> JobDetails:
        return self._masters.details(call.job_id())


def aggregates_of(call: Call) -> list[str]:
    """The aggregates that are asked for; by default all."""
    wanted = call.list_in_query("agg") or list(metrics.AGGREGATES)
    unknown = [each for each in wanted if each not in metrics.AGGREGATES]
    if unknown:
        raise Refusal(400, f"agg has {unknown[0]!r}, and takes {', '.join(metrics.AGGREGATES)}")
    return wanted


def _labels(call: Call) -> list[tuple[str, str]]:
    """`key:value`, several with commas between them."""
    pairs = [each.partition(":") for each in call.list_in_query("failureLabelFilter") or ()]
    wrong = next((key for key, _, value in pairs if not key or not value), None)
    if wrong is not None:
        raise Refusal(400, f"failureLabelFilter has {wrong!r}, and takes pairs such as {failures.TYPE}:user")
    return [(key, value) for key, _, value in pairs]


def _unknown_checkpoint(number: int, more: str = "") -> Refusal:
    return Refusal(404, f"checkpoint {number} is not one of the last, which alone are remembered{more}")

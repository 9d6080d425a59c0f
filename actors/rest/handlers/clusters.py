"""The cluster, its masters, and jobs as applications."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import distributions
from typing import Any

from actors.rest.answers import jobs as job_answers
from actors.rest.answers import metrics, task_managers
from actors.rest.asking.call import Call
from actors.rest.asking.masters import Masters
from actors.rest.asking.refusals import Refusal
from flinkray.execution import JobStatus
from flinkray.rest import cluster as shapes
from flinkray.rest import jobs as job_shapes
from flinkray.rest.jobs import Applications, ExceptionHistory, JobExceptions
from flinkray.rest.metrics import Metric
from flinkray.rest.openapi import openapi
from flinkray.types.records import JobId

REVISION = "flinkray"


class ClusterHandlers:
    """
    Args:
        version: of flinkray.
        refresh_ms: how often a page asks again.
        can_submit: whether programs can be uploaded and run.
    """

    def __init__(
        self,
        masters: Masters,
        now_ms: Callable[[], int],
        version: str,
        refresh_ms: int,
        can_submit: bool = False,
    ) -> None:
        self._masters = masters
        self._now_ms = now_ms
        self._version = version
        self._refresh_ms = refresh_ms
        self._can_submit = can_submit

    def dashboard_configuration(self, _call: Call) -> shapes.DashboardConfiguration:
        return configuration_of(self._version, self._refresh_ms, can_submit=self._can_submit)

    def cluster_overview(self, _call: Call) -> shapes.ClusterOverview:
        overview = self._masters.overview()
        statuses = [job.status for job in self._masters.jobs()]
        return shapes.ClusterOverview(
            taskmanagers=overview.task_executors,
            slots_total=overview.slots,
            slots_available=overview.free_slots,
            jobs_running=sum(not status.is_terminal for status in statuses),
            jobs_finished=statuses.count(JobStatus.FINISHED),
            jobs_cancelled=statuses.count(JobStatus.CANCELED),
            jobs_failed=statuses.count(JobStatus.FAILED),
            flink_version=self._version,
            flink_commit=REVISION,
        )

    def cluster_configuration(self, _call: Call) -> list[shapes.ConfigurationEntry]:
        shown = self._masters.configuration()
        return [shapes.ConfigurationEntry(key=key, value=value) for key, value in sorted(shown.items())]

    def environment(self, _call: Call) -> shapes.Environment:
        return _environment()

    environment_for_job = environment
    application_configuration = cluster_configuration

    def master_metrics(self, call: Call) -> list[Metric]:
        running = sum(not job.status.is_terminal for job in self._masters.jobs())
        processes = task_managers.process_metrics(self._masters.master_processes())
        values: dict[str, float | str] = {each.id: str(each.value) for each in processes}
        values |= metrics.of_cluster(self._masters.overview(), running)
        return metrics.listed(values, call.list_in_query("get"))

    def master_threads(self, _call: Call) -> shapes.ThreadDump:
        return task_managers.threads(self._masters.master_threads())

    def data_sets(self, _call: Call) -> shapes.DataSets:
        return shapes.DataSets(data_sets=[])

    def openapi(self, _call: Call) -> Mapping[str, Any]:
        return openapi(self._version)

    # -- applications --------------------------------------------------------------------------------------------

    def applications(self, _call: Call) -> Applications:
        now = self._now_ms()
        listed = [job_answers.in_list(job, summary, now) for job, summary in self._masters.summaries()]
        return Applications(applications=[job_answers.application_of(job) for job in listed])

    def application(self, call: Call) -> job_shapes.ApplicationDetails:
        job_id = JobId(call.id_of("applicationid"))
        for job, summary in self._masters.summaries():
            if job.job_id == job_id:
                listed = job_answers.in_list(job, summary, self._now_ms())
                return job_answers.application_details_of(listed, self._masters.details(job_id))
        raise Refusal(404, f"there is no application {job_id!r}; /applications/overview has those that there are")

    def application_exceptions(self, call: Call) -> JobExceptions:
        self._masters.job(JobId(call.id_of("applicationid")))
        return JobExceptions(exception_history=ExceptionHistory(entries=[]))


def configuration_of(
    version: str, refresh_ms: int, *, is_history: bool = False, can_submit: bool = False
) -> shapes.DashboardConfiguration:
    """What a dashboard asks first.

    Args:
        is_history: of a server of jobs that have ended.
        can_submit: programs can be uploaded and run.
    """
    features = shapes.Features(
        web_submit=can_submit, web_cancel=not is_history, web_rescale=not is_history, web_history=is_history
    )
    return shapes.DashboardConfiguration(
        refresh_interval=refresh_ms,
        timezone_name="Coordinated Universal Time",
        timezone_offset=0,
        flink_version=version,
        flink_revision=REVISION,
        features=features,
    )


@cache
def _environment() -> shapes.Environment:
    installed = sorted({f"{each.metadata['Name']}=={each.version}" for each in distributions()})
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return shapes.Environment(
        jvm=shapes.JvmInfo(version=python, arch=platform.machine(), options=sys.orig_argv[:1]), classpath=installed
    )

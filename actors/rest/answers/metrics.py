"""Metrics under Flink's names, and over several subtasks, jobs or TaskExecutors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actors.protocol.control_messages import JobDetails, SubtaskDetails, VertexDetails
from actors.protocol.job_reports import CheckpointReport
from actors.protocol.resources import ClusterOverview
from actors.rest.answers.checkpoints import written_bytes
from flinkray.execution import JobStatus
from flinkray.metrics.catalogue import flinks_name
from flinkray.redaction import redacted
from flinkray.rest.metrics import AggregatedMetric, Metric

Values = Mapping[str, float | str]

_OUTSIDE_NAMES = str.maketrans(" .:,", "____")
"""What Flink's metrics have in place of characters of an operator's name that mean something in requests."""

AGGREGATES = ("min", "max", "avg", "sum", "skew")


def listed(values: Values, wanted: Sequence[str] | None) -> list[Metric]:
    """The names of all metrics, or the values of those that are wanted; unknown ones are left out, as in Flink."""
    if wanted is None:
        return [Metric(id=name) for name in values]
    return [Metric(id=name, value=_text(values[name])) for name in wanted if name in values]


def over_several(
    values: Sequence[Values], wanted: Sequence[str] | None, aggregates: Sequence[str] = AGGREGATES
) -> list[AggregatedMetric]:
    """The names of all metrics, or the aggregates of those that are wanted, of what is a number."""
    if wanted is None:
        return [AggregatedMetric(id=name) for name in dict.fromkeys(name for each in values for name in each)]
    found = ((name, _numbers(each[name] for each in values if name in each)) for name in wanted)
    return [_aggregated(name, numbers, aggregates) for name, numbers in found if numbers]


def _aggregated(name: str, numbers: Sequence[float], aggregates: Sequence[str]) -> AggregatedMetric:
    total = sum(numbers)
    average = total / len(numbers)
    distance = sum(abs(number - average) for number in numbers) / len(numbers)
    known = {
        "min": min(numbers),
        "max": max(numbers),
        "avg": average,
        "sum": total,
        "skew": min(100.0, 100 * distance / average) if average > 0 else 0.0,
    }
    return AggregatedMetric(id=name, **{each: float(known[each]) for each in aggregates})


def _numbers(values: Iterable[float | str]) -> list[float]:
    return [float(value) for value in values if not isinstance(value, str)]


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else str(value)


def of_subtask(subtask: SubtaskDetails) -> dict[str, float | str]:
    """The metrics of a subtask's current attempt. Rows of the sources and sinks of its chain count, unlike in Flink."""
    figures, rates = subtask.metrics, subtask.rates
    values: dict[str, float | str] = {
        "numRecordsIn": figures.records_in,
        "numRecordsOut": figures.records_out,
        "numBytesIn": figures.bytes_in,
        "numBytesOut": figures.bytes_out,
        "numBuffersIn": figures.batches_in,
        "numBuffersOut": figures.batches_out,
        "numRecordsInPerSecond": rates.records_in,
        "numRecordsOutPerSecond": rates.records_out,
        "numBytesInPerSecond": rates.bytes_in,
        "numBytesOutPerSecond": rates.bytes_out,
        "numBuffersInPerSecond": rates.batches_in,
        "numBuffersOutPerSecond": rates.batches_out,
        "busyTimeMsPerSecond": rates.busy_ms,
        "idleTimeMsPerSecond": rates.idle_ms,
        "backPressuredTimeMsPerSecond": rates.backpressured_ms,
        "accumulateBusyTimeMs": figures.busy_ms,
        "accumulateIdleTimeMs": figures.idle_ms,
        "accumulateBackPressuredTimeMs": figures.backpressured_ms,
        "isBackPressured": str(rates.backpressured_ms > rates.busy_ms + rates.idle_ms).lower(),
    }
    values |= {"inputQueueLength": figures.input_queue, "outputQueueLength": figures.output_queue}
    if figures.output_limit:
        values["outPoolUsage"] = figures.output_queue / figures.output_limit
    if figures.watermark is not None:
        values["currentInputWatermark"] = figures.watermark
    for latency in figures.latencies:
        source = (
            latency.source_id
            if latency.source_subtask_index is None
            else (f"{latency.source_id}.{latency.source_subtask_index}")
        )
        for quantile in ("p50", "p75", "p95", "p98", "p99", "p999"):
            name = f"latency.{source}.{latency.operator_name}.{quantile}"
            values[name] = getattr(latency, quantile)
    for operator in figures.operators:
        scope = operator.operator_name.translate(_OUTSIDE_NAMES)
        for name, value in (operator.counts | operator.gauges).items():
            values[f"{scope}.{flinks_name(f'operator_{name}') or name}"] = value
    return values


def of_vertex(vertex: VertexDetails) -> dict[str, float | str]:
    """The metrics of all subtasks, each with the index of its subtask before its name."""
    return {
        f"{subtask.subtask_index}.{name}": value
        for subtask in vertex.subtasks
        for name, value in of_subtask(subtask).items()
    }


def watermarks(vertex: VertexDetails) -> list[Metric]:
    """The watermarks of those subtasks that have one."""
    return [
        Metric(id=f"{subtask.subtask_index}.currentInputWatermark", value=str(subtask.metrics.watermark))
        for subtask in vertex.subtasks
        if subtask.metrics.watermark is not None
    ]


def of_job(job: JobDetails, report: CheckpointReport, now: int) -> dict[str, float | str]:
    """What a job is and how its checkpoints go. Times are in milliseconds; -1: there has been none."""
    entered = dict(job.status_times)
    overview = job.checkpoints
    completed, restored = overview.latest_completed, overview.latest_restored
    written = written_bytes(report)
    end = max(entered.values(), default=now) if job.status.is_terminal else now

    def lasts(status: JobStatus) -> int:
        """How long the job has been in its status, if it is that one."""
        return end - entered[status] if status is job.status and status in entered else 0

    values: dict[str, float | str] = {
        "numRestarts": job.restarts,
        "runningTime": lasts(JobStatus.RUNNING),
        "uptime": lasts(JobStatus.RUNNING),
        "restartingTime": lasts(JobStatus.RESTARTING),
        "failingTime": lasts(JobStatus.FAILING),
        "cancellingTime": lasts(JobStatus.CANCELLING),
        "createdTime": lasts(JobStatus.CREATED),
        "initializingTime": lasts(JobStatus.INITIALIZING),
        "downtime": max(map(lasts, (JobStatus.RESTARTING, JobStatus.FAILING, JobStatus.CANCELLING))),
        "totalNumberOfCheckpoints": overview.counts.triggered,
        "numberOfInProgressCheckpoints": overview.counts.in_progress,
        "numberOfCompletedCheckpoints": overview.counts.completed,
        "numberOfFailedCheckpoints": overview.counts.failed,
        "lastCheckpointRestoreTimestamp": -1 if restored is None else restored.restored_ms,
        "lastCompletedCheckpointId": -1 if completed is None else completed.checkpoint_id,
        "lastCheckpointDuration": -1 if completed is None else completed.duration_ms or 0,
        "lastCheckpointFullSize": -1 if completed is None else completed.nbytes,
        "lastCheckpointSize": -1 if written is None else written,
        "lastCheckpointPersistedData": -1 if completed is None else completed.in_flight_bytes,
        "lastCheckpointCompletedTimestamp": -1 if completed is None else completed.ended_ms or -1,
        "lastCheckpointExternalPath": redacted("" if completed is None else completed.directory) or "n/a",
        "numRecordsIn": job.records_in,
        "numRecordsOut": job.records_out,
    }
    return values


def of_cluster(overview: ClusterOverview, running_jobs: int) -> dict[str, float | str]:
    return {
        "numRegisteredTaskManagers": overview.task_executors,
        "numPendingTaskManagers": overview.pending_task_executors,
        "taskSlotsTotal": overview.slots,
        "taskSlotsAvailable": overview.free_slots,
        "numRunningJobs": running_jobs,
    }

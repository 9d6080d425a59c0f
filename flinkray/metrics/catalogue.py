"""All metrics that flinkray exports itself, with what they mean."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

PREFIX = "ray_flinkray_"
"""What Prometheus sees before each name: Ray's, and ours."""

JOB_TAGS = ("job_name",)
TASK_TAGS = ("job_name", "task_name", "subtask_index")
OPERATOR_TAGS = (*TASK_TAGS, "operator_name")


class ExportedMetric(Struct, frozen=True):
    """A metric."""

    name: str
    unit: str
    tags: tuple[str, ...]
    doc: str
    is_counter: bool = False
    """It only rises, except where its process is replaced; else a gauge."""
    flinks: str = ""
    """Flink's name of it; empty: Flink has none."""

    @property
    def series(self) -> str:
        """Its name in Prometheus: Ray ends those of counters with `_total`."""
        return f"{PREFIX}{self.name}{'_total' if self.is_counter else ''}"


def _counter(name: str, unit: str, tags: tuple[str, ...], doc: str, flinks: str = "") -> ExportedMetric:
    return ExportedMetric(name, unit, tags, doc, True, flinks)


METRICS: tuple[ExportedMetric, ...] = (
    ExportedMetric("job_running", "0 or 1", JOB_TAGS, "whether the job is RUNNING", flinks="runningState"),
    ExportedMetric("job_restarts", "restarts", JOB_TAGS, "how often it was restarted", flinks="numRestarts"),
    ExportedMetric(
        "job_checkpoints_completed", "checkpoints", JOB_TAGS, "with savepoints", flinks="numberOfCompletedCheckpoints"
    ),
    ExportedMetric(
        "job_checkpoints_failed", "checkpoints", JOB_TAGS, "with savepoints", flinks="numberOfFailedCheckpoints"
    ),
    ExportedMetric(
        "job_checkpoints_in_progress", "checkpoints", JOB_TAGS, "under way", flinks="numberOfInProgressCheckpoints"
    ),
    ExportedMetric(
        "job_last_checkpoint_duration_ms", "ms", JOB_TAGS, "of the last that completed", flinks="lastCheckpointDuration"
    ),
    ExportedMetric("job_last_checkpoint_bytes", "bytes", JOB_TAGS, "the state in it", flinks="lastCheckpointFullSize"),
    ExportedMetric(
        "job_last_checkpoint_completed_ms",
        "epoch ms",
        JOB_TAGS,
        "when it completed",
        flinks="lastCheckpointCompletedTimestamp",
    ),
    _counter("task_records_in", "rows", TASK_TAGS, "read, also by sources", "numRecordsIn"),
    _counter("task_records_out", "rows", TASK_TAGS, "written, also by sinks", "numRecordsOut"),
    _counter("task_batches_in", "batches", TASK_TAGS, "read", "numBuffersIn"),
    _counter("task_batches_out", "batches", TASK_TAGS, "written", "numBuffersOut"),
    _counter("task_bytes_in", "bytes", TASK_TAGS, "read, in memory", "numBytesIn"),
    _counter("task_bytes_out", "bytes", TASK_TAGS, "written, in memory", "numBytesOut"),
    ExportedMetric("task_busy_ms_per_second", "ms/s", TASK_TAGS, "the time it works", flinks="busyTimeMsPerSecond"),
    ExportedMetric(
        "task_idle_ms_per_second", "ms/s", TASK_TAGS, "the time it has nothing to do", flinks="idleTimeMsPerSecond"
    ),
    ExportedMetric(
        "task_backpressured_ms_per_second",
        "ms/s",
        TASK_TAGS,
        "the time it waits for those behind it",
        flinks="backPressuredTimeMsPerSecond",
    ),
    ExportedMetric("task_watermark_ms", "epoch ms", TASK_TAGS, "its event time", flinks="currentInputWatermark"),
    ExportedMetric("task_watermark_lag_ms", "ms", TASK_TAGS, "how far that is behind the clock", flinks="watermarkLag"),
    ExportedMetric(
        "operator_current_input_watermark_ms",
        "epoch ms",
        OPERATOR_TAGS,
        "the lowest of its inputs",
        flinks="currentInputWatermark",
    ),
    ExportedMetric(
        "operator_current_output_watermark_ms",
        "epoch ms",
        OPERATOR_TAGS,
        "what it has sent",
        flinks="currentOutputWatermark",
    ),
    _counter(
        "operator_late_records_dropped",
        "rows",
        OPERATOR_TAGS,
        "too late for all their windows",
        "numLateRecordsDropped",
    ),
    ExportedMetric(
        "operator_latency_ms",
        "ms",
        (*OPERATOR_TAGS, "source_id", "source_subtask_index", "quantile"),
        "with `metrics.latency.interval`: from a source to here",
        flinks="latency",
    ),
    ExportedMetric(
        "operator_pending_rows",
        "rows",
        OPERATOR_TAGS,
        "that wait for a source, as far as it knows",
        flinks="pendingRecords",
    ),
    ExportedMetric(
        "operator_pending_bytes",
        "bytes",
        OPERATOR_TAGS,
        "that wait for a source, as far as it knows",
        flinks="pendingBytes",
    ),
    ExportedMetric("operator_splits", "splits", OPERATOR_TAGS, "that a subtask of a source has"),
    ExportedMetric(
        "operator_emit_event_time_lag_ms",
        "ms",
        OPERATOR_TAGS,
        "how old a source's last row was when it was emitted",
        flinks="currentEmitEventTimeLag",
    ),
    ExportedMetric(
        "operator_source_idle_ms",
        "ms",
        OPERATOR_TAGS,
        "since the last row of a source",
        flinks="sourceIdleTime",
    ),
    ExportedMetric(
        "operator_pending_committables",
        "",
        OPERATOR_TAGS,
        "prepared by a sink and not committed",
        flinks="pendingCommittables",
    ),
    _counter("operator_commits_succeeded", "commits", OPERATOR_TAGS, "of a sink", "successfulCommittables"),
    _counter("operator_commits_already_done", "commits", OPERATOR_TAGS, "found done", "alreadyCommittedCommittables"),
    _counter("operator_commits_retried", "commits", OPERATOR_TAGS, "tried again", "retriedCommittables"),
    _counter("operator_commits_carried_over", "commits", OPERATOR_TAGS, "left to the next checkpoint"),
    _counter("operator_commits_given_up", "commits", OPERATOR_TAGS, "given up", "failedCommittables"),
    _counter("operator_async_retries", "calls", OPERATOR_TAGS, "asynchronous calls that were tried again"),
    _counter("operator_async_timeouts", "calls", OPERATOR_TAGS, "asynchronous calls that took too long"),
)


def metric(name: str) -> ExportedMetric:
    """The metric of that name; KeyError: there is none."""
    return _BY_NAME[name]


def flinks_name(name: str) -> str:
    """Flink's name of a metric; empty where it has none, or where the metric is not flinkray's own."""
    return _BY_NAME[name].flinks if name in _BY_NAME else ""


_BY_NAME = {each.name: each for each in METRICS}


def table() -> Iterator[str]:
    """The list as the rows of a Markdown table."""
    yield "| metric | unit | | Flink's name |"
    yield "|---|---|---|---|"
    for each in METRICS:
        kind = "counter" if each.is_counter else ""
        name = f"`{each.flinks}`" if each.flinks else ""
        doc = f"{each.doc} ({kind})" if kind else each.doc
        yield f"| `{each.name}` | {each.unit} | {doc} | {name} |"

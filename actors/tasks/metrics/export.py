"""Exports the figures of a task and its operators to the host's metrics."""

from __future__ import annotations

from actors.protocol.ports import Clock, MetricSink
from actors.protocol.task_messages import OperatorMetrics, TaskDeployment, TaskMetrics
from flinkray.latencies import LatencyStatistics
from flinkray.types.records import MAX_TIMESTAMP

_COUNTERS = ("records_in", "records_out", "batches_in", "batches_out", "bytes_in", "bytes_out")
_SHARES = ("busy_ms", "idle_ms", "backpressured_ms")
_QUANTILES = {"0.5": "p50", "0.75": "p75", "0.95": "p95", "0.98": "p98", "0.99": "p99", "0.999": "p999"}


class MetricsExporter:
    """Exports one task: its own figures as `task_...`, those of its operators as `operator_...` with one more tag.

    There are counters as `task_records_in`; gauges as `task_busy_ms_per_second`, over the time since the last export;
    `task_watermark_ms` (epoch) and `task_watermark_lag_ms` (behind the clock), once the watermark is known and not the
    end of time; and `operator_latency_ms` by source and quantile, if sources make latency markers. One thread at a
    time.
    """

    def __init__(self, deployment: TaskDeployment, sink: MetricSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._tags = {
            "job_name": deployment.job_name,
            "task_name": deployment.vertex_name,
            "subtask_index": str(deployment.subtask_index),
        }
        self._last = TaskMetrics()
        self._last_ms = clock.monotonic_ms()

    def export(self, metrics: TaskMetrics) -> None:
        now_ms = self._clock.monotonic_ms()
        elapsed_ms = now_ms - self._last_ms
        for name in _COUNTERS:
            self._sink.count(f"task_{name}", getattr(metrics, name) - getattr(self._last, name), self._tags)
        if elapsed_ms > 0:
            for name in _SHARES:
                spent_ms = max(0.0, getattr(metrics, name) - getattr(self._last, name))
                per_second = min(1000.0, spent_ms * 1000 / elapsed_ms)
                self._sink.gauge(f"task_{name}_per_second", per_second, self._tags)
            self._last_ms = now_ms
        if metrics.watermark is not None and metrics.watermark < MAX_TIMESTAMP:
            self._sink.gauge("task_watermark_ms", metrics.watermark, self._tags)
            self._sink.gauge("task_watermark_lag_ms", self._clock.now_ms() - metrics.watermark, self._tags)
        for index, operator in enumerate(metrics.operators):
            known = self._last.operators[index].counts if index < len(self._last.operators) else {}
            self._export_operator(operator, known)
        self._last = metrics
        for latency in metrics.latencies:
            self._export_latency(latency)

    def _export_operator(self, operator: OperatorMetrics, last: dict[str, float]) -> None:
        tags = {**self._tags, "operator_name": operator.operator_name}
        for name, count in operator.counts.items():
            if increase := count - last.get(name, 0):
                self._sink.count(f"operator_{name}", increase, tags)
        for name, value in operator.gauges.items():
            self._sink.gauge(f"operator_{name}", value, tags)

    def _export_latency(self, latency: LatencyStatistics) -> None:
        tags = {**self._tags, "operator_name": latency.operator_name, "source_id": latency.source_id}
        if latency.source_subtask_index is not None:
            tags["source_subtask_index"] = str(latency.source_subtask_index)
        for quantile, name in _QUANTILES.items():
            self._sink.gauge("operator_latency_ms", getattr(latency, name), {**tags, "quantile": quantile})

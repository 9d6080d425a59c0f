"""A dashboard for Grafana and alert rules for Prometheus, made from the list of metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from flinkray.metrics.catalogue import metric

DASHBOARD_FILE = "flinkray-dashboard.json"
ALERTS_FILE = "flinkray-alerts.yaml"

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_JOB = '{job_name=~"$job"}'
_TASK = '{job_name=~"$job", task_name=~"$task"}'


class Panel(Struct, frozen=True):
    """A chart: queries with the legends of their lines."""

    title: str
    unit: str
    """As Grafana calls it."""
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


class Alert(Struct, frozen=True):
    """A rule: the condition, how long it has to hold, and what to look at."""

    name: str
    expression: str
    lasts: str
    summary: str


def write(directory: Path) -> tuple[Path, Path]:
    """Writes both files, and the directory where it is not there; gives their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    shown, rules = directory / DASHBOARD_FILE, directory / ALERTS_FILE
    shown.write_text(json.dumps(dashboard(), indent=2) + "\n")
    rules.write_text(yaml.safe_dump(alerts(), sort_keys=False, width=120))
    return shown, rules


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    return {
        "uid": "flinkray-jobs",
        "title": "flinkray jobs",
        "tags": ["flinkray"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": _variables()},
        "panels": [_panel(index, panel) for index, panel in enumerate(panels())],
    }


def alerts() -> dict[str, Any]:
    """The rules, as Prometheus loads them."""
    rules = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            "for": rule.lasts,
            "labels": {"severity": "warning"},
            "annotations": {"summary": rule.summary},
        }
        for rule in alert_rules()
    ]
    return {"groups": [{"name": "flinkray", "rules": rules}]}


def panels() -> tuple[Panel, ...]:
    """In the order in which they are shown, two in a row."""
    task = "{{job_name}}: {{task_name}}"
    job = "{{job_name}}"
    return (
        Panel("Running", "bool_yes_no", ((_gauge("job_running", "max", job=True), job),), "stat"),
        Panel("Restarts", "none", ((_gauge("job_restarts", "max", job=True), job),), "stat"),
        Panel("Rows in", "rowsps", ((_rate("task_records_in"), task),)),
        Panel("Rows out", "rowsps", ((_rate("task_records_out"), task),)),
        Panel("Busy (busiest subtask)", "percentunit", ((f"{_gauge('task_busy_ms_per_second', 'max')} / 1000", task),)),
        Panel(
            "Back-pressured (most held up subtask)",
            "percentunit",
            ((f"{_gauge('task_backpressured_ms_per_second', 'max')} / 1000", task),),
        ),
        Panel("Idle", "percentunit", ((f"{_gauge('task_idle_ms_per_second', 'avg')} / 1000", task),)),
        Panel("Watermark's lag", "ms", ((_gauge("task_watermark_lag_ms", "max"), task),)),
        Panel(
            "Bytes in and out",
            "Bps",
            ((_rate("task_bytes_in"), f"{task} in"), (_rate("task_bytes_out"), f"{task} out")),
        ),
        Panel("Late rows", "rowsps", ((_rate("operator_late_records_dropped"), task),)),
        Panel("Last checkpoint", "ms", ((_gauge("job_last_checkpoint_duration_ms", "max", job=True), job),)),
        Panel("State in it", "bytes", ((_gauge("job_last_checkpoint_bytes", "max", job=True), job),)),
        Panel(
            "Checkpoints",
            "none",
            (
                (_gauge("job_checkpoints_completed", "max", job=True), f"{job} completed"),
                (_gauge("job_checkpoints_failed", "max", job=True), f"{job} failed"),
                (_gauge("job_checkpoints_in_progress", "max", job=True), f"{job} in progress"),
            ),
        ),
        Panel(
            "Latency from sources (99 %)",
            "ms",
            (
                (
                    f"max by (job_name, operator_name) ({_series('operator_latency_ms')}"
                    '{job_name=~"$job", quantile="0.99"})',
                    "{{job_name}}: {{operator_name}}",
                ),
            ),
        ),
        Panel("Commits", "ops", ((_rate("operator_commits_succeeded"), task),)),
        Panel("Waiting to be committed", "none", ((_gauge("operator_pending_committables", "sum"), task),)),
    )


def alert_rules() -> tuple[Alert, ...]:
    """Thresholds are to begin with: they are to be set for the jobs at hand."""
    where = "{{ $labels.job_name }}"
    task = f"{where}, {{{{ $labels.task_name }}}}"
    return (
        Alert(
            "FlinkrayJobNotRunning",
            f"max by (job_name) ({_series('job_running')}) == 0",
            "5m",
            f"{where} has not been running for 5 minutes: flinkray info",
        ),
        Alert(
            "FlinkrayJobRestarts",
            f"max by (job_name) (delta({_series('job_restarts')}[10m])) > 0",
            "0m",
            f"{where} was restarted: its exceptions say why",
        ),
        Alert(
            "FlinkrayCheckpointsFail",
            f"max by (job_name) (delta({_series('job_checkpoints_failed')}[15m])) > 2",
            "0m",
            f"Checkpoints of {where} fail: flinkray checkpoints",
        ),
        Alert(
            "FlinkrayNoCheckpoint",
            f"time() * 1000 - max by (job_name) ({_series('job_last_checkpoint_completed_ms')}) > 1800000",
            "5m",
            f"No checkpoint of {where} has completed for half an hour",
        ),
        Alert(
            "FlinkrayBackPressure",
            f"max by (job_name, task_name) ({_series('task_backpressured_ms_per_second')}) > 500",
            "10m",
            f"{task}: waits more than half of the time; the busy task behind it is the bottleneck",
        ),
        Alert(
            "FlinkrayWatermarkLag",
            f"max by (job_name, task_name) ({_series('task_watermark_lag_ms')}) > 600000",
            "10m",
            f"{task}: event time is more than ten minutes behind",
        ),
        Alert(
            "FlinkrayLateRows",
            f"sum by (job_name, task_name) (rate({_series('operator_late_records_dropped')}[10m])) > 0",
            "10m",
            f"{task}: drops rows that come too late for their windows",
        ),
        Alert(
            "FlinkrayCommitsWait",
            f"sum by (job_name, task_name) ({_series('operator_pending_committables')}) > 100",
            "15m",
            f"{task}: much is prepared and not committed",
        ),
    )


def _series(name: str) -> str:
    return metric(name).series


def _gauge(name: str, aggregate: str, *, job: bool = False) -> str:
    by, which = ("job_name", _JOB) if job else ("job_name, task_name", _TASK)
    return f"{aggregate} by ({by}) ({_series(name)}{which})"


def _rate(name: str) -> str:
    return f"sum by (job_name, task_name) (rate({_series(name)}{_TASK}[$__rate_interval]))"


def _variables() -> list[dict[str, Any]]:
    running, busy = _series("job_running"), _series("task_busy_ms_per_second")
    queries = (("job", f"label_values({running}, job_name)"), ("task", f"label_values({busy}{_JOB}, task_name)"))
    source: dict[str, Any] = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    return [
        source,
        *(
            {
                "name": name,
                "type": "query",
                "datasource": _SOURCE,
                "query": query,
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "current": {"text": "All", "value": "$__all"},
            }
            for name, query in queries
        ),
    ]


def _panel(index: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": index + 1,
        "title": panel.title,
        "type": panel.kind,
        "datasource": _SOURCE,
        "gridPos": {"x": 12 * (index % 2), "y": 8 * (index // 2), "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }

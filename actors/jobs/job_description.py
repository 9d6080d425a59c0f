"""What of a job does not change while it runs, as it may be shown."""

from __future__ import annotations

from actors.protocol.job_reports import CheckpointConfiguration, JobDescription
from flinkray.config.options import PARALLELISM, STATE_BACKEND
from flinkray.redaction import redacted
from flinkray.state.restart_strategies import RestartStrategyConfiguration
from graphs.execution_graph import ExecutionGraph
from graphs.job_graph import CheckpointRetention, JobGraph

_KEPT_WHEN_CANCELLED = (CheckpointRetention.ON_CANCELLATION,)
_KEPT_WHEN_FAILED = (CheckpointRetention.ON_CANCELLATION, CheckpointRetention.ON_FAILURE)


def describe(job_graph: JobGraph, graph: ExecutionGraph) -> JobDescription:
    """What a job is made of; secrets are hidden in all of it."""
    configuration = job_graph.configuration
    default = "exponential-delay" if job_graph.checkpoint_settings.is_periodic else "none"
    restarts = RestartStrategyConfiguration.of(configuration, default=default)
    return JobDescription(
        is_batch=job_graph.is_batch,
        is_stoppable=graph.is_stoppable,
        parallelism=configuration.get(PARALLELISM),
        restart_strategy=restarts.get_description(),
        configuration=configuration.shown(),
        checkpoints=_checkpoints(job_graph),
    )


def _checkpoints(job_graph: JobGraph) -> CheckpointConfiguration:
    settings = job_graph.checkpoint_settings
    return CheckpointConfiguration(
        is_exactly_once=settings.exactly_once,
        interval_ms=settings.interval_ms,
        timeout_ms=settings.timeout_ms,
        min_pause_ms=settings.min_pause_ms,
        max_concurrent=settings.max_concurrent,
        tolerable_failures=settings.tolerable_failures,
        is_unaligned=settings.is_unaligned,
        aligned_timeout_ms=settings.aligned_timeout_ms,
        has_final=settings.has_final,
        is_kept_on_cancellation=settings.retention in _KEPT_WHEN_CANCELLED,
        is_kept_on_failure=settings.retention in _KEPT_WHEN_FAILED,
        directory=redacted(settings.directory),
        state_backend=job_graph.configuration.get(STATE_BACKEND),
    )

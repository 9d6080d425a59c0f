"""What may be shown of how a job is configured."""

from __future__ import annotations

from actors.jobs.job_description import describe
from flinkray.config.configuration import Configuration
from flinkray.types.records import JobId, Millis
from graphs.execution_graph import ExecutionGraph
from graphs.job_graph import CheckpointRetention, CheckpointSettings, JobGraph


def described(configuration: dict[str, object], settings: CheckpointSettings = CheckpointSettings()) -> object:  # noqa: B008
    graph = JobGraph(JobId("j"), "job", False, (), Configuration(configuration), settings)
    return describe(graph, ExecutionGraph.from_job_graph(graph))


def test_secrets_are_hidden_wherever_they_are() -> None:
    uri = "s3://key:secret@bucket/checkpoints"
    text = repr(
        described(
            {"execution.checkpointing.dir": uri, "pipeline.global-job-parameters": {"db.password": "hunter2"}},
            CheckpointSettings(directory=uri),
        )
    )
    assert "secret@" not in text
    assert "hunter2" not in text
    assert "bucket/checkpoints" in text


def test_what_is_kept_of_checkpoints_is_said() -> None:
    for retention, kept in (
        (CheckpointRetention.NEVER, (False, False)),
        (CheckpointRetention.ON_FAILURE, (False, True)),
        (CheckpointRetention.ON_CANCELLATION, (True, True)),
    ):
        settings = CheckpointSettings(interval_ms=Millis(5), retention=retention)
        checkpoints = described({}, settings).checkpoints
        assert (checkpoints.is_kept_on_cancellation, checkpoints.is_kept_on_failure) == kept
        assert checkpoints.interval_ms == 5

"""`pyflink.common.job_client`: a submitted job, with PyFlink's futures."""

from __future__ import annotations

from flinkray import execution
from flinkray.execution import JobExecutionResult, JobStatus
from flinkray.pyflink.common.completable_future import CompletableFuture
from flinkray.pyflink.imported_names import imported
from flinkray.types.records import JobId

__all__ = ["JobClient"]

__getattr__ = imported(__name__)


class JobClient:
    """What `execute_async` gives. `close` it when you are done with the job, which ends a cluster of the job's own.

    Attributes:
        client: flinkray's own client of the job, whose methods wait.
    """

    def __init__(self, client: execution.JobClient) -> None:
        self.client = client

    def get_job_id(self) -> JobId:
        return self.client.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.of(self.client.status, "job status")

    def cancel(self) -> CompletableFuture[None]:
        return CompletableFuture.of(self.client.cancel, "cancel a job")

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Gives the savepoint's path, once the job has finished.

        Args:
            advance_to_end_of_event_time: whether all windows and timers fire first.
            savepoint_directory: None: the environment's default.
        """
        return CompletableFuture.of(
            lambda: self.client.stop_with_savepoint(savepoint_directory, advance_to_end_of_event_time),
            "stop with savepoint",
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Gives the savepoint's path, once it is complete; the job goes on."""
        return CompletableFuture.of(lambda: self.client.trigger_savepoint(savepoint_directory), "savepoint")

    def get_accumulators(self) -> CompletableFuture[dict[str, int | float]]:
        return CompletableFuture.of(self.client.accumulators, "accumulators")

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Gives the result once the job has finished; raises when it failed or was cancelled."""
        return CompletableFuture.of(self.client.result, "job result")

    def close(self) -> None:
        self.client.close()

"""`pyflink.datastream.stream_execution_environment`."""

from __future__ import annotations

from flinkray import environment
from flinkray.pyflink.common.execution_config import ExecutionConfig
from flinkray.pyflink.common.job_client import JobClient

__all__ = ["StreamExecutionEnvironment"]


class StreamExecutionEnvironment(environment.StreamExecutionEnvironment):
    """flinkray's, with a client that gives futures."""

    def get_config(self) -> ExecutionConfig:
        return ExecutionConfig(self._configuration)

    # PyFlink's client has methods of the same names that do not wait.
    def execute_async(self, job_name: str | None = None) -> JobClient:  # type: ignore[override]
        """Submits the program recorded so far."""
        return JobClient(self._submit(job_name))

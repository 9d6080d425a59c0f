"""`pyflink.common.job_execution_result`."""

from __future__ import annotations

from flinkray.execution import JobExecutionResult

__all__ = ["JobExecutionResult"]

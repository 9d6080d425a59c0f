"""`pyflink.common.job_execution_result`."""

from __future__ import annotations

from flinkray.execution import JobExecutionResult
from flinkray.pyflink.imported_names import imported

__all__ = ["JobExecutionResult"]

__getattr__ = imported(__name__)

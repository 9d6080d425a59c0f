"""`pyflink.common.job_status`."""

from __future__ import annotations

from flinkray.execution import JobStatus

__all__ = ["JobStatus"]

"""`pyflink.common.job_id`."""

from __future__ import annotations

from flinkray.types.records import JobId as JobID

__all__ = ["JobID"]

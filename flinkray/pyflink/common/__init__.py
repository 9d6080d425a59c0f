"""`pyflink.common`."""

from __future__ import annotations

from flinkray.execution import JobClient, JobExecutionResult, JobStatus
from flinkray.pyflink.common.configuration import Configuration
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.rows import Row
from flinkray.time_units import Duration, Time
from flinkray.type_info import TypeInformation, Types
from flinkray.watermarks import WatermarkStrategy

__all__ = [
    "Configuration",
    "Duration",
    "JobClient",
    "JobExecutionResult",
    "JobStatus",
    "Row",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]

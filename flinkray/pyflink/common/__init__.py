"""`pyflink.common`."""

from __future__ import annotations

from flinkray.execution import JobExecutionResult, JobStatus
from flinkray.pyflink.common.completable_future import CompletableFuture
from flinkray.pyflink.common.configuration import Configuration
from flinkray.pyflink.common.execution_config import ExecutionConfig
from flinkray.pyflink.common.job_client import JobClient
from flinkray.pyflink.common.serialization import Encoder
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.restart_strategies import RestartStrategies, RestartStrategyConfiguration
from flinkray.rows import Row
from flinkray.time_units import Duration, Time
from flinkray.type_info import TypeInformation, Types
from flinkray.types import JobId as JobID
from flinkray.watermarks import WatermarkStrategy

__all__ = [
    "CompletableFuture",
    "Configuration",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]

"""`pyflink.common`."""

from __future__ import annotations

from flinkray.execution import JobExecutionResult, JobStatus
from flinkray.pyflink.common.completable_future import CompletableFuture
from flinkray.pyflink.common.config_options import ConfigOption, ConfigOptions
from flinkray.pyflink.common.configuration import Configuration
from flinkray.pyflink.common.execution_config import ExecutionConfig
from flinkray.pyflink.common.input_dependency_constraint import InputDependencyConstraint
from flinkray.pyflink.common.job_client import JobClient
from flinkray.pyflink.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from flinkray.pyflink.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from flinkray.pyflink.common.serializer import TypeSerializer
from flinkray.pyflink.common.typeinfo import TypeInformation, Types
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable
from flinkray.time.time_units import Duration, Instant, Time
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.types.records import JobId as JobID
from flinkray.types.rows import Row, RowKind

__all__ = [
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "AssignerWithPeriodicWatermarksWrapper",
        "it wraps a class of Java; use WatermarkStrategy.for_generator(...) with a WatermarkGenerator of your own",
    ),
)

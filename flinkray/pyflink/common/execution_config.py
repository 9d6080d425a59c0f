"""`pyflink.common.execution_config`: more settings of an environment."""

from __future__ import annotations

from collections.abc import Mapping

from flinkray.config.configuration import Configuration
from flinkray.config.options import (
    AUTO_WATERMARK_INTERVAL,
    GLOBAL_JOB_PARAMETERS,
    LATENCY_INTERVAL,
    MAX_PARALLELISM,
    OBJECT_REUSE,
    PARALLELISM,
)
from flinkray.errors import InvalidProgramError
from flinkray.streams.settings.operator_settings import check_parallelism
from flinkray.time.durations import Duration

__all__ = ["ExecutionConfig"]


class ExecutionConfig:
    """What `get_config()` gives; it writes into the environment."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def get_parallelism(self) -> int:
        return self._configuration.get(PARALLELISM)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        self._configuration.set(PARALLELISM, check_parallelism(parallelism))
        return self

    def get_max_parallelism(self) -> int:
        return self._configuration.get(MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        self._configuration.set(MAX_PARALLELISM, check_parallelism(max_parallelism, "max parallelism"))
        return self

    def get_auto_watermark_interval(self) -> int:
        """The interval of periodic watermarks in milliseconds."""
        return self._configuration.get(AUTO_WATERMARK_INTERVAL)

    def set_auto_watermark_interval(self, interval: Duration) -> ExecutionConfig:
        self._configuration.set(AUTO_WATERMARK_INTERVAL, interval)
        return self

    def get_latency_tracking_interval(self) -> int:
        """The interval of latency markers in milliseconds; 0: there are none."""
        return self._configuration.get(LATENCY_INTERVAL)

    def set_latency_tracking_interval(self, interval: Duration) -> ExecutionConfig:
        self._configuration.set(LATENCY_INTERVAL, interval)
        return self

    def is_object_reuse_enabled(self) -> bool:
        return self._configuration.get(OBJECT_REUSE)

    def enable_object_reuse(self) -> ExecutionConfig:
        self._configuration.set(OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        self._configuration.set(OBJECT_REUSE, False)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        return self._configuration.get(GLOBAL_JOB_PARAMETERS).copy()

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, object]) -> ExecutionConfig:
        """Text that functions read with `runtime_context.get_job_parameter(key, default)`."""
        self._configuration.set(GLOBAL_JOB_PARAMETERS, global_job_parameters_dict)
        return self

    # -- what says how Flink's JVM handles objects is taken, and means nothing here: records are Arrow's, or pickled

    def enable_closure_cleaner(self) -> ExecutionConfig:
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        return True

    def enable_force_kryo(self) -> ExecutionConfig:
        return self

    def disable_force_kryo(self) -> ExecutionConfig:
        return self

    def is_force_kryo_enabled(self) -> bool:
        return False

    def enable_force_avro(self) -> ExecutionConfig:
        return self

    def disable_force_avro(self) -> ExecutionConfig:
        return self

    def is_force_avro_enabled(self) -> bool:
        return False

    def enable_generic_types(self) -> ExecutionConfig:
        return self

    def disable_generic_types(self) -> ExecutionConfig:
        return self

    def has_generic_types_disabled(self) -> bool:
        return False

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        return []

    def get_registered_pojo_types(self) -> list[str]:
        return []

    def is_use_snapshot_compression(self) -> bool:
        return False

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        return self

    # -- what cannot be chosen

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        raise InvalidProgramError("operators without uid() get a generated one; give all of them one with uid()")

    def has_auto_generated_uids_enabled(self) -> bool:
        return True

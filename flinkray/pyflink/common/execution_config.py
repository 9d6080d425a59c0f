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
from flinkray.streams.settings.operator_settings import check_parallelism
from flinkray.time.durations import Duration

__all__ = ["ExecutionConfig"]


class ExecutionConfig:
    """What `get_config()` gives; it writes into the environment."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._kept: dict[str, int] = {}

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

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        return self._set("auto generated uids", True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """A program some of whose operators have no uid() is then refused."""
        return self._set("auto generated uids", False)

    def has_auto_generated_uids_enabled(self) -> bool:
        return bool(self._kept.get("auto generated uids", True))

    # -- what says how Flink's JVM handles objects and ends threads is kept, and means nothing here, as records are
    # Arrow's, or pickled

    def enable_closure_cleaner(self) -> ExecutionConfig:
        return self._set("closure cleaner", True)

    def disable_closure_cleaner(self) -> ExecutionConfig:
        return self._set("closure cleaner", False)

    def is_closure_cleaner_enabled(self) -> bool:
        return bool(self._kept.get("closure cleaner", True))

    def enable_force_kryo(self) -> ExecutionConfig:
        return self._set("kryo", True)

    def disable_force_kryo(self) -> ExecutionConfig:
        return self._set("kryo", False)

    def is_force_kryo_enabled(self) -> bool:
        return bool(self._kept.get("kryo", False))

    def enable_force_avro(self) -> ExecutionConfig:
        return self._set("avro", True)

    def disable_force_avro(self) -> ExecutionConfig:
        return self._set("avro", False)

    def is_force_avro_enabled(self) -> bool:
        return bool(self._kept.get("avro", False))

    def enable_generic_types(self) -> ExecutionConfig:
        return self._set("generic types", True)

    def disable_generic_types(self) -> ExecutionConfig:
        return self._set("generic types", False)

    def has_generic_types_disabled(self) -> bool:
        return not self._kept.get("generic types", True)

    def is_use_snapshot_compression(self) -> bool:
        return bool(self._kept.get("snapshot compression", False))

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        return self._set("snapshot compression", use_snapshot_compression)

    def get_task_cancellation_interval(self) -> int:
        return self._kept.get("cancellation interval", 30_000)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        return self._set("cancellation interval", interval)

    def get_task_cancellation_timeout(self) -> int:
        return self._kept.get("cancellation timeout", 180_000)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        return self._set("cancellation timeout", timeout)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        return []

    def get_registered_pojo_types(self) -> list[str]:
        return []

    def _set(self, name: str, value: int) -> ExecutionConfig:
        self._kept[name] = value
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._settings() == other._settings()

    def __hash__(self) -> int:
        return hash(repr(self._settings()))  # as in PyFlink, whose one changes with what is set

    def _settings(self) -> tuple[Configuration, dict[str, int]]:
        return self._configuration, self._kept

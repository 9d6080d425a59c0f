"""Spark sessions for programs that mix Spark and streams: `init_spark` and `stop_spark`. Needs `flinkray[spark]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkray.execution import BRIDGES, load_plugin


def init_spark(
    app_name: str,
    num_executors: int = 1,
    executor_cores: int = 1,
    executor_memory: str = "1g",
    on_ray: bool = True,
    configs: Mapping[str, str] | None = None,
) -> Any:
    """A SparkSession with everything set that Spark needs beside flinkray: Java, its flags, the Python interpreter.

    Args:
        num_executors, executor_cores, executor_memory: with `on_ray`, what Spark takes from Ray's pool, beside the
            slots of jobs; executor_memory also the heap of a plain session.
        on_ray: executors are Ray actors (RayDP) in the connected cluster, or in a local one that is started.
            Otherwise a plain local session (`spark.master`, local[*] by default).
        configs: further Spark settings; they win over flinkray's own.
    Raises:
        MissingDependencyError: Java 17, PySpark or RayDP is missing; says what to install.
        NoResourceAvailableError: the cluster has no room for the executors.
        ConfigurationError: a session is running already, or a size makes no sense.
    """
    bridge = load_plugin(BRIDGES, "spark")
    return bridge.init_spark(  # type: ignore[attr-defined]
        app_name, num_executors, executor_cores, executor_memory, on_ray, configs
    )


def stop_spark() -> None:
    """Ends the session, its executors and its JVM, and frees the rows that it shares with jobs."""
    load_plugin(BRIDGES, "spark").stop_spark()  # type: ignore[attr-defined]

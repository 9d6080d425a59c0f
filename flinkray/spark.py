"""Spark for programs that mix it with streams: sessions, and streaming queries. Needs `flinkray[spark]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkray.connectors.spark.source import StreamStaging
from flinkray.plugins import BRIDGES, load_plugin


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


def stage_stream(
    dataframe: Any,
    staging_directory: str,
    checkpoint_location: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    output_mode: str = "append",
    query_name: str | None = None,
    max_unread_batches: int = 8,
) -> Any:
    """Starts the query of a streaming DataFrame again, for a job that reads the directory and has been running on.

    For jobs that outlive the program that submitted them; submitting a job starts its queries by itself.

    Args:
        dataframe and the rest: as for the job's `from_spark_stream`; also the same Spark checkpoint location.
    Returns:
        pyspark's StreamingQuery.
    """
    staging = StreamStaging.of(
        staging_directory, checkpoint_location, trigger, output_mode, query_name, max_unread_batches
    )
    return load_plugin(BRIDGES, "spark").stage_stream(dataframe, staging)  # type: ignore[attr-defined]


def stop_spark() -> None:
    """Ends the session, its queries, its executors and its JVM, and frees the rows that it shares with jobs."""
    load_plugin(BRIDGES, "spark").stop_spark()  # type: ignore[attr-defined]

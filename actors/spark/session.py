"""Starts and ends Spark sessions with the settings that flinkray needs: on Ray through RayDP, or plain local ones."""

from __future__ import annotations

import atexit
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from actors.hosts.java import prepare_java
from flinkray.errors import ConfigurationError, MissingDependencyError

log = logging.getLogger(__name__)

# Java packages that Spark, Arrow and Ray's Java workers reach into, and that Java 17 closes unless told otherwise.
_OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.math",
    "java.text",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
OPEN_MODULES = " ".join(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES)

_JAVA_OPTIONS = (
    "spark.driver.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.ray.raydp_app_master.extraJavaOptions",
)

_LOG_CONFIGURATION = str(Path(__file__).with_name("log4j2.properties"))

# The memory that an executor takes from Ray beyond its heap: Spark's own default.
_MEMORY_OVERHEAD_FACTOR, _LEAST_MEMORY_OVERHEAD = 0.1, 384 << 20


def init_spark(
    app_name: str,
    num_executors: int = 1,
    executor_cores: int = 1,
    executor_memory: str = "1g",
    on_ray: bool = True,
    configs: Mapping[str, str] | None = None,
) -> SparkSession:
    """Starts a session, as `flinkray.spark.init_spark` says."""
    settings = spark_settings(configs or {})
    if SparkContext._active_spark_context is not None:
        raise ConfigurationError("a Spark session is running in this process already: call stop_spark() first")
    prepare_java()
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ[variable] = sys.executable
    if on_ray:
        spark = _start_on_ray(app_name, num_executors, executor_cores, executor_memory, settings)
    else:
        spark = _start_plain(app_name, executor_memory, settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def spark_settings(configs: Mapping[str, str]) -> dict[str, str]:
    """The user's Spark settings, completed by flinkray's; Java options of both are joined."""
    settings = {
        # Rows per Arrow batch between Spark's JVM and Python: the default of 10,000 costs a third of the speed.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.log4j.config.file.name": _LOG_CONFIGURATION,
        **{key: str(value) for key, value in configs.items()},
    }
    for key in _JAVA_OPTIONS:
        settings[key] = f"{OPEN_MODULES} {settings.get(key, '')}".strip()
    return settings


def memory_bytes(text: str) -> int:
    """Bytes of a Spark memory size such as "512m" or "2g".

    Raises:
        ConfigurationError: the text is no such size.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", text.lower())
    if match is None:
        raise ConfigurationError(f"executor_memory must be a size such as '1g' or '512m', got {text!r}")
    return int(match.group(1)) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match.group(2)]


def is_on_ray(spark: SparkSession) -> bool:
    """Whether the session's executors live in a Ray cluster."""
    return str(spark.sparkContext.master).startswith("ray://")


def active_session() -> SparkSession:
    """The session of this process.

    Raises:
        ConfigurationError: there is no session.
    """
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise ConfigurationError("there is no Spark session in this process: call flinkray.spark.init_spark(...) first")
    return spark


def stop_session() -> None:
    """Ends the session and its JVM, if there is one."""
    context = SparkContext._active_spark_context
    try:
        if context is not None and str(context.master).startswith("ray://"):
            import raydp

            raydp.stop_spark()
        elif context is not None:
            SparkSession.builder.getOrCreate().stop()
    except Exception as error:
        # A signal that breaks off a call to the JVM leaves its answer for the next one, which may be anything: an
        # error of Py4J's, or a value that is not what was asked for.
        log.warning("Spark does not end in order, and ends with its JVM: %s", error)
        SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
    finally:
        _end_jvm()


def _start_on_ray(
    app_name: str, num_executors: int, executor_cores: int, executor_memory: str, settings: dict[str, str]
) -> SparkSession:
    if not pyspark.__version__.startswith("3."):
        raise MissingDependencyError(
            f"Spark on Ray needs RayDP, which there is for PySpark 3.5 and not for {pyspark.__version__}: "
            'init_spark(..., on_ray=False), or pip install "flinkray[spark]", which brings PySpark 3.5'
        )
    try:
        import raydp
    except ImportError as error:
        raise MissingDependencyError(
            'Spark on Ray needs RayDP: pip install "flinkray[spark]", or init_spark(..., on_ray=False)'
        ) from error
    from actors.hosts.ray.cluster import ensure_ray
    from actors.hosts.ray.resources import require_free

    cpus = num_executors * executor_cores
    ensure_ray(extra_cpus=cpus)
    heap = memory_bytes(executor_memory)
    memory = num_executors * (heap + max(_LEAST_MEMORY_OVERHEAD, int(heap * _MEMORY_OVERHEAD_FACTOR)))
    require_free(cpus, memory, f"{num_executors} Spark executors of {executor_cores} cores and {executor_memory}")
    # Registered after the handlers of RayDP and Ray, so that it runs before them.
    atexit.register(stop_session)
    # RayDP's own conversions to and from Ray are not used, so its driver JVM need not join Ray.
    return raydp.init_spark(
        app_name, num_executors, executor_cores, executor_memory, fault_tolerant_mode=False, configs=settings
    )


def _start_plain(app_name: str, memory: str, settings: dict[str, str]) -> SparkSession:
    settings["spark.driver.extraJavaOptions"] += f" -Dlog4j2.configurationFile=file:{_LOG_CONFIGURATION}"
    settings.setdefault("spark.driver.memory", memory)
    settings.setdefault("spark.ui.enabled", "false")
    # A laptop's name often resolves to an address that is not there.
    settings.setdefault("spark.driver.host", "127.0.0.1")
    settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
    builder = SparkSession.builder.appName(app_name).master(settings.pop("spark.master", "local[*]"))
    for key, value in settings.items():
        builder = builder.config(key, value)
    atexit.register(stop_session)
    return builder.getOrCreate()


def _end_jvm() -> None:
    """Ends the JVM behind PySpark, which otherwise stays until Python exits and serves the next session.

    The next session could not have other Java options or jars then (as RayDP's), which a JVM takes at its start.
    """
    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the JVM watches its standard input and exits at its end
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

"""Packages that flinkray is installed without, and the extras that bring them."""

from __future__ import annotations

import importlib
from typing import Any

from flinkray.errors import MissingDependencyError

_INSTALLATIONS = {
    "adbc_driver_postgresql": 'pip install "flinkray[postgres]"',
    "aiohttp": 'pip install "flinkray[ui]" (REST and its page) or "flinkray[http]" (connectors)',
    "aiokafka": 'pip install "flinkray[kafka]"',
    "confluent_kafka": 'pip install "flinkray[kafka]"',
    "deltalake": 'pip install "flinkray[delta]"',
    "fastavro": 'pip install "flinkray[avro]"',
    "google": 'pip install "flinkray[protobuf]"',
    "nats": 'pip install "flinkray[nats]"',
    "pandas": 'pip install "flinkray[pandas]"',
    "pyiceberg": 'pip install "flinkray[iceberg]"',
    "psycopg": 'pip install "flinkray[postgres]"',
    "redis": 'pip install "flinkray[redis]"',
    "pyspark": 'pip install "flinkray[spark]" (PySpark 3.5, also on Ray) or "flinkray[spark4]" (PySpark 4)',
}


def import_package(package: str, needed_for: str) -> Any:
    """A package that an extra brings.

    Args:
        needed_for: what the user asked for, as the subject of the error's sentence.
    Raises:
        MissingDependencyError: it cannot be imported; says what to install.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        installation = _INSTALLATIONS[package.partition(".")[0]]
        raise MissingDependencyError(f"{needed_for} needs {package}: {installation}") from error


def missing_package(error: ModuleNotFoundError) -> MissingDependencyError | None:
    """The error for the package that is not there, which says what to install; None where no extra brings it."""
    package = (error.name or "").partition(".")[0]
    installation = _INSTALLATIONS.get(package)
    return None if installation is None else MissingDependencyError(f"{package} is not installed: {installation}")

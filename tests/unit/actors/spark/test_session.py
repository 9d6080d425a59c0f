"""What a Spark session refuses before anything is started."""

from __future__ import annotations

import io
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyspark
from py4j.protocol import Py4JError

from actors.spark import session
from flinkray.errors import MissingDependencyError


def test_spark_4_on_ray_is_refused_with_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.0")
    monkeypatch.setattr(session, "prepare_java", lambda: None)
    ways_out = r'init_spark\(\.\.\., on_ray=False\), or pip install "flinkray\[spark\]"'
    with pytest.raises(MissingDependencyError, match=rf"PySpark 3\.5 and not for 4\.1\.0: {ways_out}"):
        session.init_spark("test")


class SparkOfSomebody:
    """What PySpark keeps of a session whose JVM answers other questions than are asked, and does not end by itself."""

    master = "local[1]"

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.is_killed = False
        self.proc = SimpleNamespace(stdin=io.BytesIO(), wait=self._wait, kill=self._kill)

    def stop(self) -> None:
        raise self._error

    def shutdown(self) -> None:
        pass

    def _wait(self, timeout: float | None = None) -> None:
        if not self.is_killed:
            raise subprocess.TimeoutExpired("java", timeout or 0)

    def _kill(self) -> None:
        self.is_killed = True


@pytest.mark.parametrize(
    "error", [Py4JError("org does not exist in the JVM"), TypeError("'JavaPackage' object is not callable")]
)
def test_a_session_whose_jvm_answers_wrongly_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    spark: Any = SparkOfSomebody(error)
    monkeypatch.setattr(session.SparkContext, "_active_spark_context", spark)
    monkeypatch.setattr(session.SparkContext, "_gateway", spark)
    monkeypatch.setattr(session.SparkSession.Builder, "getOrCreate", lambda _self: spark)
    session.stop_session()
    assert f"ends with its JVM: {error}" in caplog.text
    assert spark.is_killed
    assert spark.proc.stdin.closed
    assert session.SparkContext._active_spark_context is None

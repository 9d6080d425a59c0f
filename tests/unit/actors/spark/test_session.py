"""What a Spark session refuses before anything is started."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

import pyspark

from actors.spark import session
from flinkray.errors import MissingDependencyError


def test_spark_4_on_ray_is_refused_with_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.0")
    monkeypatch.setattr(session, "prepare_java", lambda: None)
    ways_out = r'init_spark\(\.\.\., on_ray=False\), or pip install "flinkray\[spark\]"'
    with pytest.raises(MissingDependencyError, match=rf"PySpark 3\.5 and not for 4\.1\.0: {ways_out}"):
        session.init_spark("test")

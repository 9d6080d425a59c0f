"""What a small job in one process does without."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from actors.client import pauses
from flinkray import StreamExecutionEnvironment

NUMBERS = """
import sys
from flinkray import *

env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local", "parallelism.default": 2})
numbers = env.from_sequence(0, 999).map(lambda value: value + 1).filter(lambda value: value % 2 == 0)
with numbers.rebalance().map(lambda value: value * 0.5).execute_and_collect() as results:
    print(sum(results))
by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
rows = env.from_source(DataGenSource({"k": lambda r: r % 7, "ts": lambda r: r}, 1000), by_time, "rows").key_by("k")
summed = rows.window(EventTimeSessionWindows.with_gap(50)).aggregate(n=Count(), total=Sum("ts"))
with summed.where(col("n") > 0).execute_and_collect() as results:
    print(sum(row.total for row in results))
print("pandas" in sys.modules)
"""


def test_a_job_over_numbers_does_not_load_pandas() -> None:
    """Arrow's own conversions from and to numpy import pandas, a third of a second in every process of a job."""
    answer = subprocess.run([sys.executable, "-c", NUMBERS], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.split() == ["125250.0", "499500", "False"]


def test_a_job_in_this_process_is_not_asked_as_seldom_as_one_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "FIRST_PAUSE_S", 60.0)
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})
    env.from_sequence(0, 9).print()
    started = time.monotonic()
    env.execute()
    assert time.monotonic() - started < 30

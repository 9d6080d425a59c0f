"""What the process of a job loads on the way to its first results."""

from __future__ import annotations

import subprocess
import sys

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
    """Which Arrow's own conversions from and to numpy do, for a third of a second in every process of a job."""
    answer = subprocess.run([sys.executable, "-c", NUMBERS], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.split() == ["125250.0", "499500", "False"]

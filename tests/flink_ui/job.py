"""A job for the dashboard to show: two inputs of a window, checkpoints, one failure and a savepoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flinkray import (
    Avg,
    Count,
    DataGenSource,
    JobClient,
    MapFunction,
    RuntimeContext,
    SequenceField,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from tests.support.jobs import environment

NAME = "sensor averages"


class FailsOnce(MapFunction):
    """Fails when there is a file, which it removes; counts the rows."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def open(self, runtime_context: RuntimeContext) -> None:
        self._rows = runtime_context.add_accumulator("rows")

    def map(self, value: Any) -> Any:
        if self._marker.exists():
            self._marker.unlink(missing_ok=True)
            raise ValueError("as asked")
        self._rows.add(1)
        return value


def start(directory: Path, target: str) -> JobClient:
    """Starts it with a REST server in this process, which ends with the job.

    Args:
        directory: for checkpoints and savepoints; a file `fail` in it makes the job fail once.
    """
    env = environment(
        {
            "rest.port": 0,
            "metrics.fetcher.update-interval": "1 s",
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "0 ms",
        },
        target=target,
    )
    source = DataGenSource({"n": SequenceField(0, 10**9)}, rows_per_second=2_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    checked = numbers.map(FailsOnce(directory / "fail")).name("check")
    readings = checked.map_batches(
        lambda n: {"sensor": n["n"] % 7, "celsius": n["n"] % 37 * 1.0, "time": n["n"] * 100}, batch_format="numpy"
    )
    timed = readings.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness("1 s").with_timestamp_assigner("time")
    )
    averages = (
        timed.key_by("sensor").window(TumblingEventTimeWindows.of("10 s")).aggregate(rows=Count(), mean=Avg("celsius"))
    )
    averages.name("average").rebalance().filter(lambda _: False).print()
    return env.execute_async(NAME)

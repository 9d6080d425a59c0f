"""Scores each flight with a model before it departs, and compares the forecast with what happened, day by day.

    python examples/model_scoring.py [--target ray|local]

Input: examples/data/flights.parquet, all flights that left New York City's airports in 2013, and
examples/data/late_model.json, the weights of a logistic regression.
Output: per airport and day (UTC) the number of flights, the share that the model expected to depart more than 15
minutes late, and the share that did: the worst ten days, on the terminal.

The model is a class: each subtask makes one and loads the weights once, then whole batches pass through numpy.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flinkray import (
    Avg,
    Count,
    DataStream,
    FileSource,
    RuntimeContext,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    col,
    if_else,
)

DATA = Path(__file__).parent / "data"
COLUMNS = ["origin", "time_hour", "hour", "minute", "month", "distance", "dep_delay"]

Columns = dict[str, npt.NDArray[Any]]


class LateModel:
    """The probability that a flight departs late, as a new column."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Once per subtask. The file was shipped with the job, so this works on any node."""
        model = json.loads(Path(runtime_context.get_cached_file("model")).read_text())
        self.intercept = model["intercept"]
        self.weights = np.array(list(model["weights"].values()))

    def __call__(self, flights: Columns) -> Columns:
        features = np.stack(
            [flights["hour"] / 24, flights["distance"] / 1000, np.isin(flights["month"], (6, 7, 12))], axis=1
        )
        return {**flights, "probability": 1 / (1 + np.exp(-(self.intercept + features @ self.weights)))}


def daily_forecasts(env: StreamExecutionEnvironment) -> DataStream:
    env.register_cached_file(DATA / "late_model.json", "model")
    # The file has its months in no order (January, October, November, ...), so no day is complete before its end: the
    # windows close when the file does.
    event_time = WatermarkStrategy.no_watermarks().with_timestamp_assigner("time_hour")
    return (
        env.from_source(FileSource(DATA / "flights.parquet", columns=COLUMNS), event_time, "flights")
        .where(col("dep_delay").is_not_null())
        .map_batches(LateModel, batch_format="numpy")
        .name("score")
        .with_columns(late=if_else(col("dep_delay") > 15, 1.0, 0.0))
        .key_by("origin")
        .window(TumblingEventTimeWindows.of("1 d"))
        .aggregate(flights=Count(), expected_late=Avg("probability"), were_late=Avg("late"))
        .name("daily forecasts")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=("ray", "local"), default="ray", help="where the job runs")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": arguments.target, "parallelism.default": 2}
    )
    days = daily_forecasts(env).to_pandas("model scoring")
    worst = days.assign(day=days.window_start.astype("datetime64[ms]")).nlargest(10, "were_late")
    print(worst[["origin", "day", "flights", "expected_late", "were_late"]].to_string(index=False))


if __name__ == "__main__":
    main()

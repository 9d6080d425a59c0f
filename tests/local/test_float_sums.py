"""Sums of floats that are infinite, or become so, are what Python gives, without a warning of numpy's."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    Avg,
    EventTimeSessionWindows,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from tests.support.jobs import environment

INFINITE = [math.inf, -math.inf, math.nan, 1e308, 1e308]


@pytest.mark.parametrize("arrow_type", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("aggregate", [Sum, Avg])
@pytest.mark.parametrize("window", ["tumbling", "session", "count"])
@pytest.mark.filterwarnings("error")
def test_infinite_sums_come_without_warnings(arrow_type: pa.DataType, aggregate: Any, window: str) -> None:
    env: StreamExecutionEnvironment = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("t")
    values = pa.array(INFINITE, pa.float64()).cast(arrow_type, safe=False)
    keyed = (
        env.from_arrow(pa.table({"k": [1] * 5, "v": values, "t": range(5)}))
        .assign_timestamps_and_watermarks(strategy)
        .key_by("k")
    )
    if window == "count":
        windowed = keyed.count_window(5)
    else:
        tumbling, session = TumblingEventTimeWindows.of(10), EventTimeSessionWindows.with_gap(10)
        windowed = keyed.window(tumbling if window == "tumbling" else session)
    (row,) = windowed.aggregate(x=aggregate("v")).execute_and_collect()
    assert math.isnan(row.x)

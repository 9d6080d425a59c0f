"""Seconds that are taken for milliseconds are told once, and nothing else is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from actors.operators.time.seconds import SecondsCheck
from actors.operators.time.timestamps import with_event_time
from flinkray import Kind, WatermarkStrategy, col
from flinkray.batches.batch import Batch

NOW_S = 1_700_000_000


def said(values: pa.Array, assigner: Any, caplog: pytest.LogCaptureFixture) -> list[str]:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    check = SecondsCheck(strategy, "read (1/1)")
    for _ in range(2):
        check.look(with_event_time(Batch(pa.record_batch({"t": values}), Kind.ROW), strategy, "read (1/1)"))
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("assigner", ["t", col("t"), lambda row, _: row.t], ids=["column", "expression", "function"])
def test_an_integer_that_lies_in_1970_is_told_once(assigner: Any, caplog: pytest.LogCaptureFixture) -> None:
    (message,) = said(pa.array([NOW_S, NOW_S + 1]), assigner, caplog)
    assert f"operator 'read (1/1)': the event time {NOW_S}" in message
    assert "1970-01-20 16:13 as milliseconds, and 2023-11-14 22:13 as seconds" in message
    assert ("with_timestamp_assigner(col('t') * 1000)" in message) == isinstance(assigner, str)


@pytest.mark.parametrize(
    ("values", "assigner"),
    [
        (pa.array([NOW_S * 1000]), "t"),
        (pa.array([0, 1_000, 99_999_999]), "t"),
        (pa.array([NOW_S], pa.timestamp("ms")), "t"),
        (pa.array([NOW_S], pa.timestamp("s")), "t"),
        (pa.array([NOW_S]), col("t") * 1000),
        (pa.array([], pa.int64()), "t"),
    ],
    ids=["milliseconds", "small", "timestamp of 1970", "timestamp of seconds", "multiplied", "no rows"],
)
def test_other_event_times_are_not(values: pa.Array, assigner: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert said(values, assigner, caplog) == []

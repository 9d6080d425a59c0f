"""Rows with the columns of their windows, and watermarks of expressions, against plain definitions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.tables.windows.local_time import LocalTimeOperator
from actors.operators.tables.windows.table_function import WindowTableFunctionOperator, windows_of
from actors.operators.tables.windows.watermarks import WatermarkAssignerOperator
from actors.operators.time.rowtime import RowtimeOperator
from flinkray.errors import NullTimestampError
from flinkray.tables.plans.expressions import Call, Column, Constant
from flinkray.tables.types.logical import INTERVAL, TIMESTAMP
from flinkray.transformations.operator_factories import RowtimeFactory
from flinkray.transformations.table_window_factories import (
    LocalTimeFactory,
    WatermarkAssignerFactory,
    Windows,
    WindowTableFunctionFactory,
)
from flinkray.types.records import MAX_TIMESTAMP, Millis
from tests.support.operators import OperatorHarness
from tests.support.state import restored_from

NAMES = ("window_start", "window_end", "window_time")


def times_of(values: list[Any], unit: str = "ms") -> dict[str, Any]:
    return {"at": pa.array(values, pa.timestamp(unit))}


def expected_windows(time: int, windows: Windows) -> set[tuple[int, int]]:
    """The windows that a time is in, found by trying all near it."""
    near = range(time - 2 * windows.size, time + 2 * windows.size + 1)
    if windows.kind == "CUMULATE":
        starts = [at for at in near if (at - windows.offset) % windows.size == 0]
        found = [(at, at + n) for at in starts for n in range(windows.step, windows.size + 1, windows.step)]
    else:
        starts = [at for at in near if (at - windows.offset) % windows.step == 0]
        found = [(at, at + windows.size) for at in starts]
    return {(start, end) for start, end in found if start <= time < end}


@pytest.mark.parametrize(
    "windows",
    [
        Windows("TUMBLE", 10, 10),
        Windows("TUMBLE", 10, 10, -3),
        Windows("HOP", 12, 4, 1),
        Windows("HOP", 10, 4, 3),
        Windows("HOP", 4, 10),
        Windows("CUMULATE", 12, 4),
        Windows("CUMULATE", 9, 3, 14),
    ],
)
def test_a_row_is_in_each_window_that_has_its_time(windows: Windows) -> None:
    times = np.array(random.Random(1).sample(range(-100, 100), 60), np.int64)
    rows, starts, ends = windows_of(times, windows)
    row_numbers = np.arange(len(times)) if rows is None else rows
    found = list(zip(row_numbers.tolist(), starts.tolist(), ends.tolist(), strict=True))
    wanted = {(row, *each) for row, time in enumerate(times.tolist()) for each in expected_windows(time, windows)}
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_windows_are_columns_behind_the_rows_own_and_their_times_event_times() -> None:
    factory = WindowTableFunctionFactory("at", Windows("HOP", 20, 10), NAMES, is_instant=False)
    with OperatorHarness(WindowTableFunctionOperator(factory)) as harness:
        harness.push(times_of([15, 21]))
        (batch,) = harness.output.batches
        types = {name: pa.timestamp("ms") for name in ("at", *NAMES)}
        assert batch.data.schema == pa.schema(types)
        found = [[int(each.value) for each in column] for column in batch.data.columns]
        assert found == [[15, 15, 21, 21], [10, 0, 20, 10], [30, 20, 40, 30], [29, 19, 39, 29]]
        assert harness.output.timestamps == [29, 19, 39, 29]


def test_rows_of_many_windows_come_in_batches_that_are_not_many_times_as_large() -> None:
    factory = WindowTableFunctionFactory("at", Windows("CUMULATE", 1000, 1), NAMES, is_instant=False)
    with OperatorHarness(WindowTableFunctionOperator(factory), batch_rows=1000) as harness:
        harness.push(times_of([0] * 100))
        assert sum(batch.num_rows for batch in harness.output.batches) == 100_000
        assert max(batch.num_rows for batch in harness.output.batches) == 4000


def test_the_clock_says_in_which_window_a_row_without_a_time_is() -> None:
    factory = WindowTableFunctionFactory(None, Windows("TUMBLE", 10, 10), NAMES, is_instant=True)
    with OperatorHarness(WindowTableFunctionOperator(factory)) as harness:
        start = harness.context.clock.now_ms() // 10 * 10
        harness.push({"n": [1]})
        row = harness.output.batches[0].data
        assert row.column("window_start")[0].value == start
        assert row.schema.field("window_time").type == pa.timestamp("ms", "UTC")


# -- event times and watermarks ------------------------------------------------------------------------------------


def test_event_times_and_a_column_are_made_the_same() -> None:
    with OperatorHarness(RowtimeOperator(RowtimeFactory("at", shift_ms=Millis(-1), drops=True))) as harness:
        harness.push({**times_of([5999, -1], "us"), "n": [1, 2]})
        harness.watermark(3)
        assert harness.output.timestamps == [4, -2]
        assert harness.output.dicts == [{"n": 1}, {"n": 2}]
        assert harness.output.watermarks == [3]
    with OperatorHarness(RowtimeOperator(RowtimeFactory("at", is_added=True))) as harness:
        harness.push({"n": [1]}, [7])
        (batch,) = harness.output.batches
        assert batch.data.schema == pa.schema({"n": pa.int64(), "at": pa.timestamp("ms", "UTC")})
        assert batch.data.column("at")[0].value == 7


KIND = TIMESTAMP(3)
FIVE_LESS = Call(KIND, "-", (Column(KIND, 0), Constant(INTERVAL("SECOND", fraction=3), 5)))


def test_a_watermark_is_the_highest_value_of_its_expression() -> None:
    factory = WatermarkAssignerFactory((("at", KIND),), "at", FIVE_LESS)
    with OperatorHarness(WatermarkAssignerOperator(factory)) as harness:
        harness.push(times_of([3, 20, 7]))
        assert harness.output.timestamps == [3, 20, 7]
        harness.advance(harness.context.auto_watermark_interval_ms)
        harness.push(times_of([10]))
        harness.advance(harness.context.auto_watermark_interval_ms)
        assert harness.output.watermarks == [15]
        restored = WatermarkAssignerOperator(factory)
        with OperatorHarness(restored, restored=restored_from([harness.snapshot()], range(128))) as again:
            again.push(times_of([18]))
            again.advance(again.context.auto_watermark_interval_ms)
            assert again.output.watermarks == [15]


def test_a_rowtime_that_is_null_is_an_error_that_names_it() -> None:
    factory = WatermarkAssignerFactory((("at", KIND),), "at", FIVE_LESS)
    with (
        OperatorHarness(WatermarkAssignerOperator(factory)) as harness,
        pytest.raises(NullTimestampError, match="column 'at' gives no event time for row 1"),
    ):
        harness.push(times_of([1, None]))


def test_local_event_time_is_what_clocks_show_and_may_be_made_instants_again() -> None:
    instants = [1730608200000, 1730611800000, 1730615400000]  # 0:30, 1:30 and again 1:30
    local = [1730593800000, 1730597400000, 1730597400000]
    with OperatorHarness(LocalTimeOperator(LocalTimeFactory("America/New_York"))) as harness:
        harness.push({"n": [1, 2, 3]}, instants)
        for instant in (*instants, MAX_TIMESTAMP):
            harness.watermark(instant)
        assert harness.output.timestamps == local
        assert harness.output.watermarks == [local[0], 1730595599999, local[2], MAX_TIMESTAMP]
    with OperatorHarness(LocalTimeOperator(LocalTimeFactory("America/New_York", is_back=True))) as harness:
        harness.push({"n": [1, 2]}, local[:2])
        harness.watermark(local[1])
        assert harness.output.timestamps == instants[:2]
        assert harness.output.watermarks == [instants[2]]

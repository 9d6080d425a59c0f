"""Whole jobs whose windows are computed in two phases: the same results, late rows and savepoints as in one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.operators.aggregates.partial import is_partial
from actors.operators.windows.aligned import local_operator
from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.tasks.metrics.figures import OperatorFigures
from flinkray import (
    Avg,
    Count,
    DataGenSource,
    Max,
    SlidingEventTimeWindows,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.batches.batch import Batch
from flinkray.testing import ScriptedSource, Watermark
from tests.support.jobs import environment
from tests.support.saved_jobs import committed, everything, expected, local, started

ROWS = 3_000
STRATEGY = "table.optimizer.agg-phase-strategy"


@pytest.fixture
def partial_rows(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Every batch is aggregated; counts the batches of either kind that windows get, and late rows."""
    monkeypatch.setattr(local_operator, "_LARGEST_SHARE", 1.0)
    counted: Counter[str] = Counter()
    process, count = ColumnarWindowOperator.process_batch, OperatorFigures.count

    def processing(self: ColumnarWindowOperator, batch: Batch, input_index: int = 0) -> None:
        counted["partial" if is_partial(batch.data) else "plain"] += 1
        process(self, batch, input_index)

    def counting(self: OperatorFigures, name: str, increase: float = 1) -> None:
        counted[name] += int(increase)
        count(self, name, increase)

    monkeypatch.setattr(ColumnarWindowOperator, "process_batch", processing)
    monkeypatch.setattr(OperatorFigures, "count", counting)
    return counted


def results(strategy: str, parallelism: int) -> list[str]:
    """A stream of which every fifth item, which is several rows, comes behind the watermark."""
    env = environment({STRATEGY: strategy}).set_parallelism(parallelism)
    items: list[Any] = []
    for number in range(100):
        items += [(number * 10 - 400 * (number % 5 == 0), number % 7), Watermark(number * 10 - 1)]
    in_time = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda item, _: item[0])
    script = env.from_source(ScriptedSource(items), in_time, "script").set_parallelism(1)
    rows = script.flat_map(several, output_type=[int, str, int]).set_parallelism(1)
    windows = rows.key_by("f0", "f1").window(SlidingEventTimeWindows.of(200, 50))
    totals = windows.aggregate(n=Count(), total=Sum("f2"), mean=Avg("f2"), high=Max("f2"))
    return sorted(map(str, totals.to_arrow().to_pylist()))


def several(item: tuple[int, int]) -> list[tuple[int, str, int]]:
    return [(row % 2, "ab"[row // 4], row) for row in range(item[1])]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_as_many_rows_are_late_in_two_phases_as_in_one(partial_rows: Counter[str], parallelism: int) -> None:
    one = results("ONE_PHASE", parallelism)
    assert not partial_rows["partial"]
    late = partial_rows["late_records_dropped"]
    partial_rows.clear()
    two = results("TWO_PHASE", parallelism)
    assert partial_rows["partial"] > 0
    assert partial_rows["late_records_dropped"] == late > 0
    assert two == one


@pytest.mark.usefixtures("partial_rows")
@pytest.mark.parametrize("strategies", [("ONE_PHASE", "TWO_PHASE"), ("TWO_PHASE", "ONE_PHASE")], ids=str)
def test_a_savepoint_taken_with_either_goes_on_with_the_other(tmp_path: Path, strategies: tuple[str, str]) -> None:
    env = local(2, **{STRATEGY: strategies[0]})
    env.enable_checkpointing("50 ms")
    everything(env, tmp_path / "rows", ROWS, 1500)
    with started(env, 150) as client:
        saved = client.stop_with_savepoint(str(tmp_path / "savepoints"), timeout=30)
    env = local(3, saved, **{STRATEGY: strategies[1]})
    env.enable_checkpointing("50 ms")
    everything(env, tmp_path / "rows", ROWS, None)
    env.execute()
    assert committed(tmp_path / "rows") == expected(ROWS)


def test_windows_of_all_rows_are_aggregated_where_the_rows_are(partial_rows: Counter[str]) -> None:
    env = environment({"flinkray.batch.target-rows": 200}).set_parallelism(2)
    fields = {"v": lambda rows: rows % 10, "at": lambda rows: rows}
    on_time = WatermarkStrategy.for_bounded_out_of_orderness(ROWS).with_timestamp_assigner("at")
    stream = env.from_source(DataGenSource(fields, ROWS), on_time, "rows")
    found = stream.window_all(TumblingEventTimeWindows.of(1000)).aggregate(n=Count(), total=Sum("v")).to_arrow()
    assert sorted((row["window_start"], row["n"], row["total"]) for row in found.to_pylist()) == [
        (start, 1000, 4500) for start in range(0, ROWS, 1000)
    ]
    assert partial_rows["partial"] > 0
    assert not partial_rows["plain"]

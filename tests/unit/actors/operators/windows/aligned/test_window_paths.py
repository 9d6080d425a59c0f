"""Columnar windows, row windows and the model give the same firings and the same late rows, on random streams."""

from __future__ import annotations

import decimal
import math
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.windows.aligned import accumulator_runs, aggregate_operator, sparse_index
from actors.operators.windows.aligned.accumulator_runs import AccumulatorsBySlice
from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.operators.windows.choice import create_window_operator
from flinkray.batches.batch import Batch
from flinkray.functions.interfaces import WindowContext
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Kind, Millis, OutputTag
from flinkray.windows.aggregates import (
    Aggregate,
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)
from flinkray.windows.assigners import (
    CumulativeEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.support.operators import OperatorHarness, code
from tests.support.windows import Event, Firing, WindowModel, random_steps

ASSIGNERS = [
    TumblingEventTimeWindows.of(10),
    TumblingEventTimeWindows.of(25, 7),
    TumblingEventTimeWindows.of(10, -3),
    SlidingEventTimeWindows.of(20, 5),
    SlidingEventTimeWindows.of(10, 4, 1),  # the size is no multiple of the slide
    SlidingEventTimeWindows.of(5, 8, -2),  # some times are in no window
]
IN_COLUMNS = [*ASSIGNERS, CumulativeEventTimeWindows(20, 5, 8)]
AGGREGATES: dict[str, Aggregate] = {
    "rows": Count(),
    "values": Count("value"),
    "total": Sum("value"),
    "mean": Avg("value"),
    "low": Min("value"),
    "high": Max("value"),
    "first": First("value"),
    "last": Last("value"),
    "distinct": CountDistinct("value"),
    "top": TopN("value", 3),
    "all": CollectList("value"),
    "at_low": ArgMin("number", by="value"),
    "at_high": ArgMax("number", by="value"),
}


def expected_row(firing: Firing, aggregates: Iterable[str]) -> dict[str, Any]:
    pairs = [pair for pair in firing.values if pair[0] is not None]
    values = [value for value, _ in pairs]
    row: dict[str, Any] = {
        "key": firing.key,
        "window_start": firing.start,
        "window_end": firing.end,
        "rows": len(firing.values),
        "values": len(values),
        "distinct": len(set(values)),
    }
    if values:
        row |= {
            "low": min(values),
            "high": max(values),
            "first": values[0],
            "last": values[-1],
            "top": sorted(values, reverse=True)[:3],
            "all": values,
            "at_low": min(pairs, key=lambda pair: pair[0])[1],
            "at_high": max(pairs, key=lambda pair: pair[0])[1],
        }
        if not isinstance(values[0], str):
            row |= {"total": sum(values), "mean": mean_of(values)}
    return {name: row.get(name) for name in ("key", "window_start", "window_end", *aggregates)}


def mean_of(values: list[Any]) -> Any:
    mean = sum(values) / len(values)
    is_decimal = isinstance(mean, decimal.Decimal)
    return mean.quantize(decimal.Decimal("1e-6"), decimal.ROUND_HALF_UP) if is_decimal else mean


def as_batch(events: list[Event], key_type: pa.DataType, value_type: pa.DataType) -> Batch:
    data = pa.record_batch(
        {
            "key": pa.array([event.key for event in events], key_type),
            "value": pa.array([event.value[0] for event in events], value_type),
            "number": pa.array([event.value[1] for event in events], pa.int64()),
        }
    )
    return Batch(data, Kind.ROW, pa.array([event.time for event in events], pa.int64()))


def close_enough(actual: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    """Equal but for the rounding of means."""
    rounded = [
        [{k: v if k not in ("mean", "total") or v is None else round(v, 6) for k, v in row.items()} for row in rows]
        for rows in (actual, expected)
    ]
    return rounded[0] == rounded[1]


def by_window_and_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["window_end"], row["key"] is not None, str(row["key"])))


VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [None, -3, 0, 1, 2, 10**12]),
    (pa.float64(), [None, -1.5, 0.0, 0.25, 7.75]),
    (pa.string(), [None, "", "a", "b", "zebra"]),
    (pa.decimal128(10, 2), [None, decimal.Decimal("-1.50"), decimal.Decimal("0.25"), decimal.Decimal("3.00")]),
]


@pytest.mark.seeds(12)
def test_columnar_windows_agree_with_the_model(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many windows and accumulators are worked on at a time."""
    chance = random.Random(seed)
    monkeypatch.setattr(aggregate_operator, "_ACCUMULATORS_AT_ONCE", chance.choice((1, 4, 1 << 17)))
    monkeypatch.setattr(aggregate_operator, "_FEW_ACCUMULATORS", chance.choice((0, 4096)))
    monkeypatch.setattr(sparse_index, "_LARGE_SLICE", chance.choice((3, 512)))
    monkeypatch.setattr(accumulator_runs, "_SMALL", chance.choice((1, 10, 4096)))
    assigner = IN_COLUMNS[seed % len(IN_COLUMNS)]
    lateness = chance.choice((0, 0, 15, 60))
    value_type, values = VALUES[chance.randrange(len(VALUES))]
    names = [name for name in AGGREGATES if value_type != pa.string() or name not in ("total", "mean")]
    key_type, keys = chance.choice([(pa.int64(), [None, 1, 2, 3]), (pa.string(), ["a", "b", None])])
    numbered = [(value, number) for value in values for number in (1, 2, None)]
    # Ties are decided by arrival, which only one batch of single rows and one of many can disagree about.
    steps = random_steps(chance, keys, numbered, most_rows=chance.choice((1, 10, 80)))
    factory = WindowFactory(
        assigner,
        aggregates=tuple((name, AGGREGATES[name]) for name in names),
        allowed_lateness_ms=Millis(lateness),
        late_tag=OutputTag("late"),
    )
    model = WindowModel(assigner, lateness)
    operator = create_window_operator(code(factory, "key"))
    assert isinstance(operator, ColumnarWindowOperator)
    with OperatorHarness(operator, keys=(ColumnKey(("key",)),), batch_rows=chance.choice((7, 65_536))) as harness:
        for step in steps:
            harness.output.clear()
            seen_late = len(model.late)
            if isinstance(step, int):
                fired = model.advance(step)
                harness.watermark(step)
                actual = harness.output.dicts
            else:
                fired = model.batch(step)
                harness.push(as_batch(step, key_type, value_type))
                actual = by_window_and_key(harness.output.dicts)
            expected = [expected_row(firing, names) for firing in fired]
            expected = expected if isinstance(step, int) else by_window_and_key(expected)
            assert close_enough(actual, expected), f"seed {seed}"
            assert harness.output.timestamps == [row["window_end"] - 1 for row in harness.output.dicts]
            late = [(row.key, row.value, row.number) for row in harness.output.side("late")]
            assert late == [(event.key, *event.value) for event in model.late[seen_late:]]
            operator._store.check()
        assert operator._store.accumulator_count == 0


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(30, 10)], ids=str)
@pytest.mark.parametrize("lateness", [0, 10**9])
def test_many_windows_take_as_many_steps_as_few(
    assigner: WindowAssigner, lateness: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row per window, half of the windows due; then, if they may be late, a row more in each."""
    steps = Counter[str]()
    for kernels, name in ((AggregateColumns, "results"), (AggregateColumns, "merge"), (AccumulatorsBySlice, "read")):
        count_calls(monkeypatch, kernels, name, steps)
    taken = []
    for rows in (40, 4000):
        steps.clear()
        factory = WindowFactory(assigner, (("rows", Count()),), allowed_lateness_ms=Millis(lateness))
        harness = OperatorHarness(ColumnarWindowOperator(factory), keys=(ColumnKey(("key",)),))
        times = [10 * row for row in range(rows)]
        for _ in range(2):
            harness.push({"key": [0] * rows}, times)
            harness.watermark(times[rows // 2])
        taken.append((dict(steps), len(harness.output.batches)))
        assert len(harness.output.dicts) >= rows // 2
    assert taken[0] == taken[1]


def count_calls(monkeypatch: pytest.MonkeyPatch, of: type, name: str, counter: Counter[str]) -> None:
    original = getattr(of, name)

    def counted(*args: Any) -> Any:
        counter[name] += 1
        return original(*args)

    monkeypatch.setattr(of, name, counted)


@pytest.mark.seeds(9)
def test_row_windows_agree_with_the_model(seed: int) -> None:
    chance = random.Random(1000 + seed)
    assigner = ASSIGNERS[seed % len(ASSIGNERS)]
    lateness = chance.choice((0, 0, 15, 60))
    steps = random_steps(chance, ["a", "b", None, "c"], [None, 1, 2, 3], most_rows=chance.choice((1, 10, 80)))
    numbered = [step if isinstance(step, int) else [e._replace(value=(e.value, 0)) for e in step] for step in steps]

    def listed(key: Any, context: WindowContext, elements: Iterable[Any]) -> list[tuple[int, Any, list[Any]]]:
        return [(context.window().start, key, [element.value for element in elements])]

    factory = WindowFactory(assigner, process=listed, allowed_lateness_ms=Millis(lateness), late_tag=OutputTag("late"))
    model = WindowModel(assigner, lateness)
    operator = create_window_operator(code(factory, "key"))
    with OperatorHarness(operator, keys=(ColumnKey(("key",)),), batch_rows=chance.choice((7, 65_536))) as harness:
        for step in numbered:
            harness.output.clear()
            seen_late = len(model.late)
            if isinstance(step, int):
                fired = model.advance(step)
                harness.watermark(step)
            else:
                fired = model.batch(step)
                harness.push(as_batch(step, pa.string(), pa.int64()))
            expected = [(firing.start, firing.key, [value for value, _ in firing.values]) for firing in fired]
            if isinstance(step, int):
                assert harness.output.rows == expected
            else:
                assert Counter(map(repr, harness.output.rows)) == Counter(map(repr, expected))
            assert [row.value for row in harness.output.side("late")] == [e.value[0] for e in model.late[seen_late:]]


def test_nan_counts_only_where_there_is_nothing_else() -> None:
    factory = WindowFactory(TumblingEventTimeWindows.of(10), aggregates=(("low", Min("x")), ("high", Max("x"))))
    with OperatorHarness(create_window_operator(code(factory, "key")), keys=(ColumnKey(("key",)),)) as harness:
        harness.push({"key": ["a", "a", "b"], "x": [math.nan, 1.0, math.nan]}, [0, 0, 0])
        harness.watermark(9)
        rows = harness.output.dicts
    assert (rows[0]["low"], rows[0]["high"]) == (1.0, 1.0)
    assert math.isnan(rows[1]["low"])
    assert math.isnan(rows[1]["high"])

"""Calls OVER windows of streams, against loops over all rows of a key."""

from __future__ import annotations

import datetime
import itertools
import json
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from actors.operators.tables.over.operator import OverOperator, range_values
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.tables.plans.expressions import Column, Constant, Frame, FrameBound, SortKey, WindowCall
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    CHAR,
    DECIMAL,
    DOUBLE,
    INT,
    MULTISET,
    ROW,
    STRING,
    TIMESTAMP,
    LogicalType,
    RowType,
)
from flinkray.tables.user_functions import ARROW, Implementation
from flinkray.transformations.table_factories import OverFactory
from flinkray.types.changelogs import INSERTS
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from tests.support.operators import OperatorHarness
from tests.support.rescaling import Subtasks
from tests.support.tables import changes_as_batch

ROWS = ROW(
    ("k", STRING),
    ("ts", TIMESTAMP(3)),
    ("a", INT),
    ("x", DOUBLE),
    ("word", STRING),
    ("d", DECIMAL(38, 2)),
    ("p", BOOLEAN),
)
SCHEMA = stored_schema(ROWS)
CURRENT = FrameBound("CURRENT ROW")
FRAMES = {
    "all rows": Frame("ROWS", FrameBound("PRECEDING"), CURRENT),
    "all times": Frame("RANGE", FrameBound("PRECEDING"), CURRENT),
    "rows": Frame("ROWS", FrameBound("PRECEDING", Constant(INT, 2)), CURRENT),
    "times": Frame("RANGE", FrameBound("PRECEDING", Constant(INT, 6)), CURRENT),
}
FUNCTIONS = (("largest", Implementation("largest", pc.max, ARROW)),)
Values = Sequence[Any]
AGGREGATES: dict[str, tuple[str, int, LogicalType, Callable[[Values], Any]]] = {
    "COUNT": ("COUNT", 2, BIGINT, len),
    "SUM": ("SUM", 2, INT, sum),
    "of doubles": ("SUM", 3, DOUBLE, sum),
    "of decimals": ("SUM", 5, DECIMAL(38, 2), sum),
    "AVG": ("AVG", 2, INT, lambda values: int(sum(values) / len(values))),
    "MIN": ("MIN", 4, STRING, min),
    "MAX": ("MAX", 3, DOUBLE, max),
    "FIRST_VALUE": ("FIRST_VALUE", 4, STRING, lambda values: values[0]),
    "LAST_VALUE": ("LAST_VALUE", 2, INT, lambda values: values[-1]),
    "VAR_POP": ("VAR_POP", 3, DOUBLE, statistics.pvariance),
    "of the user's": ("largest", 2, INT, max),
    "of integers": ("VAR_POP", 2, INT, lambda values: (sum(a * a for a in values) - _square(values)) // len(values)),
}


def _square(values: Values) -> int:
    """As Flink has it, which divides whole numbers in between."""
    total: int = sum(values) ** 2 // len(values)
    return total


def factory(calls: Sequence[WindowCall], **options: Any) -> OverFactory:
    fields = ROW(*((f"w{number}", call.type) for number, call in enumerate(calls))).fields
    rows = RowType((*ROWS.fields, *fields))
    given = {"order": (SortKey(1),), "time": 1, "takes": (INSERTS,), "functions": FUNCTIONS, **options}
    return OverFactory(input_rows=(ROWS,), rows=rows, calls=tuple(calls), **given)


def aggregate(name: str, frame: Frame, **options: Any) -> WindowCall:
    function, column, kind, _ = AGGREGATES[name]
    return WindowCall(function, (Column(ROWS.types[column], column),), kind, frame=frame, **options)


def random_rows(generator: random.Random, after: int, count: int, numbers: Any) -> list[tuple[Any, ...]]:
    choose = generator.choice
    return [
        (
            choose(["x", "y", None]),
            after + generator.randint(1, 12),
            choose([None, -3, 1, 2, 2]),
            choose([None, 1.5, float(next(numbers))]),
            choose([None, "p", "q"]),
            choose([None, 7 - 2 * next(numbers)]),
            choose([None, True, False]),
        )
        for _ in range(count)
    ]


def run(made: OverFactory, seed: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Random rows, and what an operator makes of them that is stopped and rescaled now and then."""
    generator, numbers = random.Random(seed), iter(range(1000))
    subtasks = Subtasks(lambda: OverOperator(made), (ColumnKey(("k",)),), 2)
    given, found, watermark = [], [], 0
    for step in range(10):
        for _ in range(2):
            rows = random_rows(generator, watermark, 6, numbers)
            given += rows
            subtasks.push(changes_as_batch([(0, row) for row in rows], SCHEMA))
        watermark += generator.choice([0, 3, 8])
        subtasks.watermark(watermark)
        found += taken(subtasks)
        if step % 3 == 2:
            subtasks = subtasks.rescaled(generator.randint(1, 3))
            subtasks.watermark(watermark)
    subtasks.watermark(MAX_TIMESTAMP)
    found += taken(subtasks)
    return given, found


def taken(subtasks: Subtasks) -> list[tuple[Any, ...]]:
    found = []
    for harness in subtasks.harnesses:
        for batch in harness.output.batches:
            found += [tuple(row.values()) for row in batch.data.to_pylist()]
        harness.output.clear()
    epoch = datetime.datetime(1970, 1, 1)
    return [(row[0], (row[1] - epoch) // datetime.timedelta(milliseconds=1), *row[2:]) for row in found]


def expected(given: Sequence[tuple[Any, ...]], results: Callable[[list[Any], int], Values]) -> Counter[tuple[Any, ...]]:
    """Rows with results that are computed of all rows of their key in order, and the place of the row among these."""
    found: Counter[tuple[Any, ...]] = Counter()
    for key in {row[0] for row in given}:
        own = sorted((row for row in given if row[0] == key), key=lambda row: row[1])
        found.update((*row, *results(own, place)) for place, row in enumerate(own))
    return found


def in_frame(frame: Frame, own: list[Any], place: int) -> list[Any]:
    offset = None if frame.start.offset is None else frame.start.offset.value  # type: ignore[attr-defined]
    time = own[place][1]
    if frame.unit == "ROWS":
        return own[0 if offset is None else max(0, place - offset) : place + 1]
    return [row for row in own if row[1] <= time and (offset is None or row[1] >= time - offset)]


@pytest.mark.parametrize("frame", FRAMES)
def test_aggregates_are_of_the_rows_of_their_frames(frame: str) -> None:
    bounds = FRAMES[frame]
    calls = [aggregate(name, bounds) for name in AGGREGATES]
    given, found = run(factory(calls), len(frame))

    def results(own: list[Any], place: int) -> Values:
        rows = in_frame(bounds, own, place)
        values = [[row[column] for row in rows if row[column] is not None] for _, column, _, _ in AGGREGATES.values()]
        functions = [function for *_, function in AGGREGATES.values()]
        return [fold(each) if each or fold is len else None for fold, each in zip(functions, values, strict=True)]

    assert Counter(map(rounded, found)) == Counter(map(rounded, expected(given, results).elements()))


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(each, 6) if isinstance(each, float) else each for each in row)


def test_ranks_and_neighbours_go_on_from_former_rows() -> None:
    number = Column(INT, 2)
    names = ("ROW_NUMBER", "RANK", "DENSE_RANK")
    calls = [WindowCall(name, (), BIGINT) for name in names]
    calls.append(WindowCall("LAG", (number,), INT))
    calls.append(WindowCall("LAG", (number, Constant(INT, 3), Constant(INT, 99)), INT))
    given, found = run(factory(calls), 11)

    def results(own: list[Any], place: int) -> Values:
        times = [row[1] for row in own]
        lags = [own[place - 1][2] if place else None, own[place - 3][2] if place >= 3 else 99]
        time = times[place]
        return [place + 1, times.index(time) + 1, len(set(times[: place + 1])), *lags]

    assert Counter(found) == expected(given, results)
    for key in {row[0] for row in found}:
        numbers = [row[7] for row in found if row[0] == key]
        assert numbers == sorted(numbers)  # the rows of a key come in their order


def test_each_distinct_value_of_a_frame_counts_once() -> None:
    rows, times = FRAMES["rows"], FRAMES["times"]
    calls = [
        aggregate("COUNT", rows, distinct=True),
        aggregate("SUM", times, distinct=True),
        WindowCall("COUNT", (), BIGINT, frame=times),
        aggregate("COUNT", FRAMES["all rows"], distinct=True),
        aggregate("SUM", FRAMES["all times"], distinct=True),
    ]
    given, found = run(factory(calls), 5)

    def results(own: list[Any], place: int) -> Values:
        of_rows = {row[2] for row in in_frame(rows, own, place)} - {None}
        of_times = {row[2] for row in in_frame(times, own, place)} - {None}
        so_far = {row[2] for row in own[: place + 1]} - {None}
        in_time = {row[2] for row in in_frame(FRAMES["all times"], own, place)} - {None}
        sums = [sum(each) if each else None for each in (of_times, in_time)]
        return [len(of_rows), sums[0], len(in_frame(times, own, place)), len(so_far), sums[1]]

    assert Counter(found) == expected(given, results)


@pytest.mark.parametrize("frame", FRAMES)
def test_aggregates_of_all_values_are_of_those_of_their_frames(frame: str) -> None:
    bounds, word, number, positive = FRAMES[frame], Column(STRING, 4), Column(INT, 2), Column(BOOLEAN, 6)
    calls = [
        WindowCall("LISTAGG", (word,), STRING, frame=bounds),
        WindowCall("ARRAY_AGG", (number,), ARRAY(INT), frame=bounds),
        WindowCall("ARRAY_AGG", (number,), ARRAY(INT), frame=bounds, distinct=True, ignore_nulls=True),
        WindowCall("COLLECT", (number,), MULTISET(INT), frame=bounds, filter=positive),
        WindowCall("PERCENTILE", (number, Constant(DOUBLE, 0.5)), DOUBLE, frame=bounds),
        WindowCall("JSON_ARRAYAGG", (Constant(CHAR(6), "ABSENT"), number), STRING, frame=bounds),
        WindowCall("COUNT", (number,), BIGINT, frame=bounds),
    ]
    given, found = run(factory(calls), 3)

    def results(own: list[Any], place: int) -> Values:
        rows = in_frame(bounds, own, place)
        words = [row[4] for row in rows if row[4] is not None]
        numbers = [row[2] for row in rows if row[2] is not None]
        counts = Counter(row[2] for row in rows if row[2] is not None and row[6])
        results = [
            ",".join(words) if words else None,
            [row[2] for row in rows],
            list(dict.fromkeys(numbers)) or None,
            sorted(counts.items()),
            float(statistics.median(numbers)) if numbers else None,
            json.dumps(numbers, separators=(",", ":")),
            len(numbers),
        ]
        return list(map(repr, results))

    assert Counter((*row[:7], *map(repr, row[7:])) for row in found) == expected(given, results)


def test_rows_out_of_all_frames_are_forgotten_and_late_rows_dropped() -> None:
    made = factory([aggregate("SUM", FRAMES["times"])])
    with OperatorHarness(OverOperator(made), keys=(ColumnKey(("k",)),)) as harness:
        for time in range(1, 40):
            harness.push(changes_as_batch([(0, ("x", time, 1, None, None, None, None))], SCHEMA))
            harness.watermark(time)
        operator: Any = harness.operator
        assert len(operator._former) <= 8
        assert [row["w0"] for row in harness.output.dicts][-1] == 7
        harness.push(changes_as_batch([(0, ("x", 39, 1, None, None, None, None))], SCHEMA))
        assert harness.context.metrics.counters[LATE_RECORDS_DROPPED] == 1


def test_state_that_was_not_written_for_its_time_to_live_is_forgotten() -> None:
    made = factory([aggregate("SUM", FRAMES["all rows"])], time=None, state_ttl_ms=Millis(100))
    with OperatorHarness(OverOperator(made), keys=(ColumnKey(("k",)),)) as harness:
        for _ in range(3):
            harness.push(changes_as_batch([(0, ("x", 1, 1, None, None, None, None))] * 2, SCHEMA))
            harness.advance(60)
        harness.advance(100)
        harness.push(changes_as_batch([(0, ("x", 1, 1, None, None, None, None))], SCHEMA))
        assert [row["w0"] for row in harness.output.dicts] == [1, 2, 3, 4, 5, 6, 1]


def test_frames_of_processing_time_reach_so_far_back() -> None:
    made = factory([aggregate("SUM", FRAMES["times"]), aggregate("SUM", FRAMES["all times"])], time=None)
    with OperatorHarness(OverOperator(made), keys=(ColumnKey(("k",)),)) as harness:
        for _ in range(4):
            harness.push(changes_as_batch([(0, ("x", 1, 1, None, None, None, None))], SCHEMA))
            harness.advance(4)
        assert [(row["w0"], row["w1"]) for row in harness.output.dicts] == [(1, 1), (2, 2), (2, 3), (2, 4)]


def test_values_that_a_range_counts_ascend_in_the_order_with_nulls_beyond_nan() -> None:
    nan, inf = float("nan"), float("inf")
    cases = [
        (pa.array([datetime.date(1970, 1, 3), None]), [2 * 86_400_000, None]),
        (pa.array([datetime.time(0, 0, 1, 500_000), None]), [1500, None]),
        (pa.array([Decimal("-2.50"), None, Decimal("7.25")]), [-250, None, 725]),
        (pa.array([-inf, -1.5, 2.0, inf, nan, None]), [None, -1.5, 2.0, None, None, None]),
    ]
    for column, wanted in cases:
        for descending, nulls_first in itertools.product((False, True), repeat=2):
            values = range_values(column, SortKey(0, descending, nulls_first))
            sign = -1 if descending else 1
            known = [(each, sign * value) for each, value in zip(values, wanted, strict=True) if value is not None]
            assert all(each == value for each, value in known), column
            there = values[np.flatnonzero(column.is_valid())] * sign
            assert list(there) == sorted(there)
            (null,) = values[np.flatnonzero(column.is_null())]
            others = there * sign
            assert (others > null).all() if nulls_first else (others < null).all()

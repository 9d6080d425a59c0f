"""Rows in the order of their event times."""

from __future__ import annotations

import random
from typing import Any

import pytest

from actors.operators.tables.ranks.sort import SortOperator
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.tables.plans.expressions import SortKey
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import INT, ROW, TIMESTAMP
from flinkray.transformations.table_factories import SortFactory
from flinkray.types.changelogs import INSERTS
from flinkray.types.records import MAX_TIMESTAMP
from tests.support.operators import OperatorHarness
from tests.support.rescaling import Subtasks
from tests.support.tables import changes_as_batch


def factory(precision: int = 3, time: int | None = 0) -> SortFactory:
    rows = ROW(("at", TIMESTAMP(precision)), ("n", INT))
    order = (SortKey(0), SortKey(1, descending=True))
    return SortFactory(input_rows=(rows,), rows=rows, takes=(INSERTS,), order=order, time=time)


def pushed(harness: Any, rows: list[tuple[Any, Any]], made: SortFactory) -> None:
    harness.push(changes_as_batch([(0, row) for row in rows], stored_schema(made.rows)))


@pytest.mark.parametrize(("precision", "per_ms"), [(3, 1), (6, 1_000), (9, 1_000_000)])
def test_rows_come_in_their_order_once_the_watermark_has_reached_them(precision: int, per_ms: int) -> None:
    made = factory(precision)
    generator = random.Random(precision)
    subtasks = Subtasks(lambda: SortOperator(made), (None,))
    rows, found, watermark = [], [], 0
    for step in range(12):
        batch = [(generator.randint(watermark + 1, watermark + 40) * per_ms, step * 10 + n) for n in range(8)]
        rows += batch
        pushed(subtasks, batch, made)
        watermark += generator.randint(0, 15)
        subtasks.watermark(watermark)
        found += [(row.at, row.n) for row, _ in subtasks.take()]
        if step % 4 == 3:
            subtasks = subtasks.rescaled(1)
            subtasks.watermark(watermark)
    subtasks.watermark(MAX_TIMESTAMP)
    found += [(row.at, row.n) for row, _ in subtasks.take()]
    expected = sorted(rows, key=lambda row: (row[0], -row[1]))
    assert [n for _, n in found] == [n for _, n in expected]


def test_a_row_that_comes_after_its_watermark_is_dropped_and_counted() -> None:
    made = factory(0)
    with OperatorHarness(SortOperator(made)) as harness:
        harness.watermark(2_000)
        pushed(harness, [(3, 1), (2, 2), (None, 3)], made)
        harness.watermark(3_000)
        assert [row["n"] for row in harness.output.dicts] == [1]
        assert harness.context.metrics.counters[LATE_RECORDS_DROPPED] == 2


def test_a_row_that_was_late_is_late_after_a_restore() -> None:
    made = factory()
    subtasks = Subtasks(lambda: SortOperator(made), (None,))
    subtasks.watermark(20)
    subtasks = subtasks.rescaled(1)
    subtasks.watermark(5)
    pushed(subtasks, [(20, 1), (21, 2)], made)
    subtasks.watermark(30)
    assert [row.n for row, _ in subtasks.take()] == [2]


def test_in_batch_mode_all_rows_come_at_the_end() -> None:
    made = factory(time=None)
    with OperatorHarness(SortOperator(made), is_batch=True) as harness:
        pushed(harness, [(5, 1), (None, 2)], made)
        pushed(harness, [(1, 3), (5, 4)], made)
        assert harness.output.rows == []
        harness.watermark(MAX_TIMESTAMP)
        assert [row["n"] for row in harness.output.dicts] == [2, 3, 4, 1]


def test_rows_that_arrive_in_their_order_are_given_at_once() -> None:
    made = factory(time=None)
    with OperatorHarness(SortOperator(made)) as harness:
        pushed(harness, [(5, 1), (5, 2)], made)
        assert [row["n"] for row in harness.output.dicts] == [2, 1]

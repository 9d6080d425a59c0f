"""Aggregates of the same rows count them together, and those of others on their own: whatever happens to their
accumulators, each counts what it should."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.keys.state_tables import StateRows
from actors.operators.aggregates import accumulator_column
from actors.operators.aggregates.accumulator_column import ValueCounts
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from flinkray.windows.aggregates import Aggregate, Avg, Count, Sum

AGGREGATES: tuple[tuple[str, Aggregate], ...] = (
    ("rows", Count()),
    ("a_sum", Sum("a")),
    ("a_mean", Avg("a")),
    ("a_count", Count("a")),
    ("b_mean", Avg("b")),
    ("b_sum", Sum("b")),
    ("rows_again", Count()),
)
WHERE = "window (1/2)"
ACCUMULATORS = 12

Row = tuple[float | None, float | None]


class ColumnsAndRows:
    """The columns, and beside them the rows that each accumulator has had."""

    def __init__(self, choose: random.Random, columns: AggregateColumns | None = None) -> None:
        self.choose = choose
        self.columns = AggregateColumns(AGGREGATES, WHERE) if columns is None else columns
        self.columns.grow(ACCUMULATORS)
        self.accumulators: list[list[Row]] = [[] for _ in range(ACCUMULATORS)]

    def add(self) -> None:
        count = self.choose.choice([1, 5, 60])  # few rows and many per accumulator are counted in two ways
        nulls = {name: self.choose.choice([0.0, 0.0, 0.0, 0.3, 1.0]) for name in "ab"}
        values = {
            name: [None if self.choose.random() < share else float(self.choose.randrange(9)) for _ in range(count)]
            for name, share in nulls.items()
        }
        accumulators = [self.choose.randrange(ACCUMULATORS) for _ in range(count)]
        self.columns.add(pa.RecordBatch.from_pydict(values), np.array(accumulators), 0)
        for accumulator, row in zip(accumulators, zip(values["a"], values["b"], strict=True), strict=True):
            self.accumulators[accumulator].append(row)

    def clear(self) -> None:
        first, last = sorted(self.choose.choices(range(ACCUMULATORS + 1), k=2))
        self.columns.clear(slice(first, last))
        self.accumulators[first:last] = [[] for _ in range(last - first)]

    def renumber(self) -> None:
        kept = self.choose.sample(range(ACCUMULATORS), self.choose.randrange(ACCUMULATORS))
        targets = self.choose.sample(range(ACCUMULATORS), len(kept))
        self.columns.renumber(np.array(kept, np.int64), np.array(targets, np.int64), ACCUMULATORS)
        before, self.accumulators = self.accumulators, [[] for _ in range(ACCUMULATORS)]
        for accumulator, target in zip(kept, targets, strict=True):
            self.accumulators[target] = before[accumulator]

    def merge(self) -> None:
        other = ColumnsAndRows(self.choose)
        for _ in range(self.choose.randrange(3)):
            other.act(self.choose.choice([ColumnsAndRows.add, ColumnsAndRows.clear, ColumnsAndRows.load]))
        accumulators, targets = ([self.choose.randrange(ACCUMULATORS) for _ in range(9)] for _ in range(2))
        self.columns.merge(other.columns, np.array(accumulators), np.array(targets))
        for accumulator, target in zip(accumulators, targets, strict=True):
            self.accumulators[target] = self.accumulators[target] + other.accumulators[accumulator]

    def load(self) -> None:
        every = np.arange(ACCUMULATORS)
        saved = StateRows(None, self.columns.columns(every), self.columns.metadata(), ACCUMULATORS)
        self.columns = self.columns.loaded(saved)

    def copy(self) -> None:
        """The copy goes on; what happens to the original does not matter to it."""
        original, self.columns = self.columns, self.columns.copy(ACCUMULATORS)
        original.add(pa.RecordBatch.from_pydict({"a": [1.0], "b": [1.0]}), np.array([0]), 0)

    def act(self, what: Callable[[ColumnsAndRows], None]) -> None:
        what(self)
        self.check()

    def check(self) -> None:
        results = self.columns.results(np.arange(ACCUMULATORS))
        given = {name: column.to_pylist() for name, column in zip(self.columns.names, results, strict=True)}
        expected: dict[str, list[Any]] = {name: [] for name, _ in AGGREGATES}
        for rows in self.accumulators:
            a, b = ([row[index] for row in rows if row[index] is not None] for index in (0, 1))
            expected["rows"].append(len(rows))
            expected["a_sum"].append(sum(a) if a else None)  # type: ignore[arg-type]
            expected["a_mean"].append(sum(a) / len(a) if a else None)  # type: ignore[arg-type]
            expected["a_count"].append(len(a))
            expected["b_mean"].append(sum(b) / len(b) if b else None)  # type: ignore[arg-type]
            expected["b_sum"].append(sum(b) if b else None)  # type: ignore[arg-type]
            expected["rows_again"].append(len(rows))
        assert given == expected


@pytest.mark.parametrize("seed", range(150))
def test_each_aggregate_counts_what_it_has_had(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(seed)
    # Where 32 bits are taken to end: soon, in the middle of a run, and where they do.
    monkeypatch.setattr(accumulator_column, "_MOST_IN_32_BITS", choose.choice([1, 40, (1 << 31) - 1]))
    model = ColumnsAndRows(choose)
    for _ in range(12):
        model.act(
            choose.choice(
                [
                    ColumnsAndRows.add,
                    ColumnsAndRows.add,
                    ColumnsAndRows.clear,
                    ColumnsAndRows.renumber,
                    ColumnsAndRows.merge,
                    ColumnsAndRows.load,
                    ColumnsAndRows.copy,
                ]
            )
        )


ENOUGH = (1 << 31) - 1


@pytest.mark.parametrize("others", [0, 100])  # few rows and many per accumulator are counted in two ways
def test_counts_go_on_where_32_bits_end(others: int) -> None:
    counts = ValueCounts(np.array([ENOUGH - 2, 7, *[0] * others]))
    counts.add(np.array([0, 1]))
    assert counts.array.dtype == np.int32
    counts.add(np.array([0, 1, 0, 0]))
    assert counts.of(np.array([0, 1])).tolist() == [ENOUGH + 2, 9]
    assert counts.copy(2).of(slice(0, 2)).tolist() == [ENOUGH + 2, 9]


def test_counts_that_do_not_fit_32_bits_together_are_merged() -> None:
    narrow, full, wide = (ValueCounts(np.array([count])) for count in (5, ENOUGH, ENOUGH + 1))
    for other, total in ((full, ENOUGH + 5), (wide, 2 * ENOUGH + 6), (ValueCounts(np.array([1])), 2 * ENOUGH + 7)):
        narrow.merge(other, np.array([0]), np.array([0]))
        assert narrow.of(slice(0, 1)).tolist() == [total]
    many = ValueCounts(np.array([0]))
    many.merge(ValueCounts(np.array([1 << 30])), np.array([0, 0, 0]), np.array([0, 0, 0]))
    assert many.of(slice(0, 1)).tolist() == [3 << 30]


def test_counts_of_accumulators_that_are_cleared_again_and_again_stay_in_32_bits() -> None:
    counts, full, only = ValueCounts(np.array([0])), ValueCounts(np.array([ENOUGH])), np.array([0])
    for _ in range(3):
        counts.merge(full, only, only)
        assert counts.array.tolist() == [ENOUGH]
        counts.clear(slice(0, 1))
    assert counts.array.dtype == np.int32


def counters(columns: AggregateColumns) -> list[set[str]]:
    """The aggregates that count together."""
    names: dict[int, set[str]] = {}
    for aggregation in columns._aggregations:
        names.setdefault(id(aggregation.counts), set()).add(aggregation.name)
    return list(names.values())


def batch(a: float | None, b: float | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"a": [a, 1.0], "b": [b, 1.0]})


def test_rows_are_counted_once_until_some_have_a_null() -> None:
    columns = AggregateColumns(AGGREGATES, WHERE)
    columns.grow(2)
    accumulators, names = np.array([0, 1]), {name for name, _ in AGGREGATES}
    columns.add(batch(1.0, 2.0), accumulators, 0)
    assert counters(columns) == [names]
    columns.add(batch(1.0, None), accumulators, 2)
    assert counters(columns) == [names - {"b_mean", "b_sum"}, {"b_mean", "b_sum"}]
    columns.add(batch(1.0, 2.0), accumulators, 4)  # what they have had is not the same any more
    assert len(counters(columns)) == 2


def test_what_is_saved_and_merged_is_still_counted_together() -> None:
    columns = AggregateColumns(AGGREGATES, WHERE)
    columns.grow(2)
    accumulators = np.array([0, 1])
    columns.add(batch(1.0, 2.0), accumulators, 0)
    loaded = columns.loaded(StateRows(None, columns.columns(accumulators), columns.metadata(), 2))
    assert len(counters(loaded)) == 1
    columns.merge(loaded, accumulators, accumulators)
    assert len(counters(columns)) == 1
    assert columns.results(accumulators)[0].to_pylist() == [2, 2]
    assert len(counters(columns.copy(2))) == len(counters(columns.combine(accumulators, accumulators, 2))) == 1

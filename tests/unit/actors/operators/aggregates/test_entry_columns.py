"""Accumulators that keep entries, against a model: whatever is added, cleared, moved and read, in any order."""

from __future__ import annotations

import decimal
import math
import random
import uuid
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.aggregates.accumulator_column import AggregatedRows
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.aggregates.entry_columns import TopNColumn
from actors.operators.aggregates.value_rules import is_fixed_width
from flinkray.windows.aggregates import (
    Aggregate,
    ArgMax,
    ArgMin,
    CollectList,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    TopN,
)
from tests.support.versions import arrow_array

FLOATS = [0.0, -0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, -math.nan, 3.0]
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "floats": (pa.float64(), FLOATS),
    "narrow floats": (pa.float32(), [0.0, -0.0, 1.5, -1.5, math.nan, math.inf]),
    "integers": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), 7]),
    "unsigned": (pa.uint64(), [0, 1, 2**64 - 1, 2**63, 7]),
    "bytes": (pa.int8(), [0, 1, -1, 127, -128]),
    "text": (pa.string(), ["", "a", "b", "ab", "é", "zz"]),
    "flags": (pa.bool_(), [True, False]),
    "halves": (pa.float16(), [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf]),
    "short decimals": (pa.decimal64(10, 2), list(map(decimal.Decimal, ("1.00", "-5.00", "3.00", "0.00", "-0.01")))),
    "shorter decimals": (pa.decimal32(5, 2), list(map(decimal.Decimal, ("1.00", "-5.00", "3.00", "0.00", "-0.01")))),
    "ids": (pa.uuid(), [uuid.UUID(int=number) for number in (0, 1, 2**64, 2**127, 2**128 - 1)]),
    "flags of a byte": (pa.bool8(), [True, False]),
}

Entries = list[tuple[int, Any]]
"""Of an accumulator: (row, value) in order of arrival; never empty."""


def upwards(entry: tuple[int, Any]) -> tuple[bool, Any]:
    """The order of values, NaN after all others."""
    is_nan = entry[1] != entry[1]
    return is_nan, 0 if is_nan else entry[1]


def downwards(entry: tuple[int, Any]) -> tuple[bool, Any]:
    """The order of values for their largest ones, NaN before all others."""
    is_nan, value = upwards(entry)
    return not is_nan, value


Cases = dict[str, tuple[Aggregate, Callable[[Entries], Any]]]
CASES: Cases = {
    "list": (CollectList("x"), lambda entries: [value for _, value in entries]),
    "distinct": (CountDistinct("x"), lambda entries: len(set(map(upwards, entries)))),
    "top": (TopN("x", 2), lambda entries: [value for _, value in sorted(entries, key=downwards, reverse=True)[:2]]),
    "at top": (
        TopN("row", 2, by="x"),
        lambda entries: [row for row, _ in sorted(entries, key=downwards, reverse=True)[:2]],
    ),
    "at min": (ArgMin("row", by="x"), lambda entries: min(entries, key=upwards)[0]),
    "at max": (ArgMax("row", by="x"), lambda entries: max(entries, key=downwards)[0]),
}
OF_TEXT: Cases = {
    "first": (First("x"), lambda entries: entries[0][1]),
    "last": (Last("x"), lambda entries: entries[-1][1]),
    "min": (Min("x"), lambda entries: min(entries, key=upwards)[1]),
    "max": (Max("x"), lambda entries: max(entries, key=downwards)[1]),
}


class ColumnsAndEntries:
    """Aggregates and what they should be, changed together at random."""

    SIZE = 30

    def __init__(self, kind: str, chance: random.Random) -> None:
        self.chance = chance
        self.type, self.values = KINDS[kind]
        self.cases = CASES if is_fixed_width(self.type) else CASES | OF_TEXT
        self.columns = AggregateColumns([(name, aggregate) for name, (aggregate, _) in self.cases.items()], "window")
        self.columns.grow(self.SIZE)
        self.model: list[Entries] = [[] for _ in range(self.SIZE)]
        self.rows = 0
        self.add()

    def add(self) -> None:
        accumulators = self.chance.choices(range(self.SIZE), k=self.chance.choice((1, 5, 40)))
        if self.chance.random() < 0.5:
            accumulators = sorted(set(accumulators))
        values = self.chance.choices(self.values, k=len(accumulators))
        rows = range(self.rows, self.rows + len(accumulators))
        # Of flags Arrow makes no bool8, but casts them to it.
        column = arrow_array(values, pa.bool_() if self.type == pa.bool8() else self.type).cast(self.type)
        data = pa.record_batch({"x": column, "row": pa.array(rows, pa.int64())})
        self.columns.add(data, np.array(accumulators), self.rows)
        for accumulator, entry in zip(accumulators, zip(rows, values, strict=True), strict=True):
            self.model[accumulator].append(entry)
        self.rows += len(accumulators)

    def clear(self) -> None:
        """In pieces, others being read between them."""
        bounds = sorted(self.chance.choices(range(self.SIZE + 1), k=6))
        for start, end in self.chance.choice((pairwise(bounds), zip(bounds[::2], bounds[1::2], strict=True))):
            self.columns.clear(slice(start, end))
            self.model[start:end] = [[] for _ in range(end - start)]
            if self.chance.random() < 0.2:
                self.check_some()

    def renumber(self) -> None:
        first = self.chance.randrange(self.SIZE)
        kept = self.chance.sample(range(first, self.SIZE), self.chance.randint(1, self.SIZE - first))
        self.columns.renumber(np.array(kept), np.arange(len(kept)), self.SIZE)
        self.model = [self.model[accumulator] for accumulator in kept] + [[] for _ in range(self.SIZE - len(kept))]

    def combine(self) -> None:
        self.columns = self.columns.combine(np.arange(self.SIZE), np.arange(self.SIZE), self.SIZE)

    def copy(self) -> None:
        """The original changes, and the copy goes on."""
        copied = self.columns.copy(self.SIZE)
        self.columns.clear(slice(0, self.SIZE))
        self.columns = copied

    def check_some(self) -> None:
        start = self.chance.randrange(self.SIZE)
        some = range(start, self.chance.randint(start, self.SIZE))
        self.check(self.chance.choice((some, self.chance.sample(range(self.SIZE), self.chance.randrange(self.SIZE)))))

    def check(self, accumulators: Sequence[int]) -> None:
        places = (
            slice(accumulators.start, accumulators.stop)
            if isinstance(accumulators, range)
            else np.array(accumulators, np.int64)
        )
        for (name, (_, expected)), found in zip(self.cases.items(), self.columns.results(places), strict=True):
            nothing = 0 if name == "distinct" else None
            wanted = [
                expected(self.model[accumulator]) if self.model[accumulator] else nothing
                for accumulator in accumulators
            ]
            assert shown(found.to_pylist()) == shown(wanted), name
            if name in ("list", "top", *OF_TEXT):
                assert found.type == (pa.list_(self.type) if name in ("list", "top") else self.type), name


def shown(value: Any) -> Any:
    """NaN is NaN, and zero is zero."""
    if isinstance(value, list):
        return [shown(each) for each in value]
    return "nan" if value != value else value


@pytest.mark.seeds(5)
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_those_of_the_model(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(
        "actors.operators.aggregates.entry_columns._APPENDED_BEFORE_REDUCING", chance.choice((5, 65_536))
    )
    monkeypatch.setattr("actors.operators.aggregates.entry_columns._MOST_RANGES", chance.choice((1, 64)))
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", chance.choice((10, 1 << 30)))
    both = ColumnsAndEntries(kind, chance)
    steps = [both.add, both.add, both.clear, both.renumber, both.combine, both.copy, both.check_some, both.check_some]
    for _ in range(40):
        chance.choice(steps)()
    both.check(range(ColumnsAndEntries.SIZE))


def test_few_large_entries_are_reduced_too() -> None:
    accumulator = TopNColumn(pa.string(), 1)
    most = 0
    for start in range(0, 200, 10):
        texts = pa.array([f"{row:03}" * 300_000 for row in range(start, start + 10)])
        # Each batch is of ten accumulators, or of one: either way all that counts is one text of each.
        accumulators = np.arange(10, dtype=np.int64) if start % 20 else np.zeros(10, np.int64)
        accumulator.add(AggregatedRows(accumulators, start, texts))
        most = max(most, sum(chunk.nbytes for chunk in accumulator._chunks))
    assert most < 60 << 20
    assert accumulator.results(np.zeros(1, np.int64)).to_pylist() == [["190" * 300_000]]

"""The first rows of keys in windows, and pairs of rows in them, against row-by-row models: random rows, some late,
random watermarks, and subtasks that are stopped and go on as more or fewer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.operators.contract.operator import Operator
from actors.operators.tables.windows import rank
from actors.operators.tables.windows.aggregate import WindowAggregateOperator
from actors.operators.tables.windows.join import WindowJoinOperator
from actors.operators.tables.windows.rank import WindowRankOperator
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.tables.plans.expressions import AggregateCall, Call, Column, SortKey
from flinkray.tables.plans.nodes import Join, Values
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import BIGINT, BOOLEAN, DOUBLE, INT, ROW, STRING, TIMESTAMP, RowType
from flinkray.transformations.table_window_factories import WindowAggregateFactory, WindowJoinFactory, WindowRankFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.keys import ColumnKey
from tests.support.rescaling import Subtasks
from tests.support.tables import changes_as_batch

BOUND = TIMESTAMP(3)
ROWS = ROW(("k", STRING), ("v", DOUBLE), ("n", INT), ("window_start", BOUND), ("window_end", BOUND))
SCHEMA = stored_schema(ROWS)
START, END = 3, 4
Row = tuple[Any, ...]


def random_rows(generator: random.Random, count: int) -> list[Row]:
    """Rows of windows of ten milliseconds, of which the later ones come rather later."""
    rows = []
    for number in range(count):
        start = max(0, number // 2 - generator.randint(0, 20)) // 10 * 10
        value = generator.choice([None, 1.0, 2.0, float("nan"), -3.0])
        rows.append((generator.choice(["a", "b", None]), value, number, start, start + 10))
    return rows


class Run:
    """Gives rows and watermarks at random, and keeps the rows that are in time."""

    def __init__(self, make: Callable[[], Operator], inputs: int, seed: int, key: Sequence[str] = ("k",)) -> None:
        generator = random.Random(seed)
        selectors = (ColumnKey(tuple(key)) if key else None,) * inputs
        most = 3 if key else 1
        subtasks = Subtasks(make, selectors, generator.randint(1, most))
        left = [random_rows(generator, 120) for _ in range(inputs)]
        self.in_time: list[list[Row]] = [[] for _ in range(inputs)]
        self.late = self.dropped = watermark = 0
        self.found: list[tuple[Row, int]] = []
        while any(left):
            index = generator.choice([index for index, rows in enumerate(left) if rows])
            some, left[index] = left[index][:15], left[index][15:]
            subtasks.push(changes_as_batch([(0, row) for row in some], SCHEMA), input_index=index)
            self.in_time[index] += [row for row in some if row[END] - 1 > watermark]
            self.late += sum(row[END] - 1 <= watermark for row in some)
            watermark += generator.choice([0, 5, 10])
            subtasks.watermark(watermark, inputs)
            self._take(subtasks)
            if generator.random() < 0.3:
                subtasks = subtasks.rescaled(generator.randint(1, most))
        subtasks.watermark(2**62, inputs)
        self._take(subtasks)

    def _take(self, subtasks: Subtasks) -> None:
        for harness in subtasks.harnesses:
            for batch in harness.output.batches:
                rows = zip(*(map(_plain, column) for column in batch.data.columns), strict=True)
                self.found += zip(rows, batch.timestamps.to_pylist(), strict=True)
            self.dropped += int(harness.context.metrics.counters.pop(LATE_RECORDS_DROPPED, 0))
            harness.output.clear()

    @property
    def rows(self) -> Counter[Row]:
        return Counter(_comparable(row) for row, _ in self.found)


def _plain(scalar: Any) -> Any:
    return scalar.value if hasattr(scalar, "value") else scalar.as_py()


def _comparable(row: Row) -> Row:
    return tuple("NaN" if value != value else value for value in row)


# -- rank ----------------------------------------------------------------------------------------------------------


def rank_factory(kind: str, first: int, last: int, **options: Any) -> WindowRankFactory:
    given: dict[str, Any] = {"keys": (START, END, 0), "order": (SortKey(1, descending=True, nulls_first=False),)}
    rows = RowType((*ROWS.fields, *ROW(("rank", BIGINT)).fields))
    return WindowRankFactory(
        input_rows=(ROWS,), rows=rows, takes=(INSERTS,), ends=(END,), kind=kind, first=first, last=last,
        has_number=True, **(given | options),
    )  # fmt: skip


def _order(value: float | None) -> tuple[bool, float]:
    """The place of a value in descending order: NaN, numbers, then NULL."""
    return value is None, 0.0 if value is None else float("-inf") if value != value else -value


def model_of_ranks(rows: Sequence[Row], kind: str, first: int, last: int) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for key in {(row[0], row[START]) for row in rows}:
        mine = sorted((row for row in rows if (row[0], row[START]) == key), key=lambda row: _order(row[1]))
        orders = [_order(row[1]) for row in mine]
        for place, row in enumerate(mine):
            smaller = orders[: orders.index(orders[place])]
            number = {"ROW_NUMBER": place, "RANK": len(smaller), "DENSE_RANK": len(set(smaller))}[kind] + 1
            if first <= number <= last:
                found[_comparable((*row, number))] += 1
    return found


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("kind", "first", "last"), [("ROW_NUMBER", 1, 3), ("RANK", 2, 4), ("DENSE_RANK", 1, 2)])
@pytest.mark.parametrize("is_large", [False, True])
def test_the_first_rows_of_each_key_come_once_when_their_window_has_ended(
    seed: int, kind: str, first: int, last: int, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(rank, "_FEWEST_LOOKED_THROUGH", 4)
    run = Run(lambda: WindowRankOperator(rank_factory(kind, first, last)), 1, seed)
    assert run.rows == model_of_ranks(run.in_time[0], kind, first, last)
    assert run.late == run.dropped > 0
    assert all(time == row[END] - 1 for row, time in run.found)


@pytest.mark.parametrize("is_latest_first", [False, True])
def test_of_rows_with_the_same_order_the_first_or_the_last_to_come_is_first(is_latest_first: bool) -> None:
    made = rank_factory("ROW_NUMBER", 1, 1, keys=(START, END), order=(), is_latest_first=is_latest_first)
    run = Run(lambda: WindowRankOperator(made), 1, 5, key=())
    place = -1 if is_latest_first else 0
    starts = {row[START] for row in run.in_time[0]}
    wanted = [[row for row in run.in_time[0] if row[START] == start][place] for start in starts]
    assert run.rows == Counter(_comparable((*row, 1)) for row in wanted)


# -- aggregates ----------------------------------------------------------------------------------------------------


def aggregate_factory(takes: Changes) -> WindowAggregateFactory:
    distinct = AggregateCall("SUM", (Column(DOUBLE, 1),), DOUBLE, distinct=True)
    return WindowAggregateFactory(
        input_rows=(ROWS,),
        rows=ROW(("k", STRING), ("window_end", BOUND), ("window_start", BOUND), ("n", BIGINT), ("total", DOUBLE)),
        takes=(takes,),
        ends=(END,),
        keys=(0, END, START),
        calls=(AggregateCall("COUNT", (), BIGINT), distinct),
    )


def model_of_aggregates(rows: Sequence[Row]) -> Counter[Row]:
    wanted: Counter[Row] = Counter()
    for key, start in {(row[0], row[START]) for row in rows}:
        values = [row[1] for row in rows if (row[0], row[START]) == (key, start)]
        known = {"NaN" if each != each else each: each for each in values if each is not None}
        wanted[_comparable((key, start + 10, start, len(values), sum(known.values()) if known else None))] += 1
    return wanted


@pytest.mark.parametrize("seed", range(2))
def test_rows_of_a_key_are_aggregated_when_their_window_has_ended(seed: int) -> None:
    run = Run(lambda: WindowAggregateOperator(aggregate_factory(INSERTS)), 1, seed)
    assert run.rows == model_of_aggregates(run.in_time[0])
    assert run.late == run.dropped > 0


@pytest.mark.parametrize("seed", range(2))
def test_rows_that_are_taken_back_in_time_are_not_in_the_results_of_their_window(seed: int) -> None:
    made = aggregate_factory(Changes(updates=True, deletes=True))
    generator, left, watermark, found = random.Random(seed), list[Row](), 0, list[Row]()
    subtasks = Subtasks(lambda: WindowAggregateOperator(made), [ColumnKey(("k",))], 2)
    for number in range(40):
        start, choose = watermark // 10 * 10 + generator.choice([10, 20]), generator.choice
        rows = [
            (choose("ab"), choose([1.0, 2.0, None]), each, start, start + 10) for each in (2 * number, 2 * number + 1)
        ]
        gone = [row for row in left if row[END] - 1 > watermark and generator.random() < 0.3]
        subtasks.push(changes_as_batch([(0, row) for row in rows] + [(3, row) for row in gone], SCHEMA))
        left = [*(row for row in left if row not in gone), *rows]
        watermark += choose([0, 4])
        subtasks.watermark(2**62 if number == 39 else watermark)
        for harness in subtasks.harnesses:
            for batch in harness.output.batches:
                found += zip(*(map(_plain, column) for column in batch.data.columns), strict=True)
            harness.output.clear()
        if number % 9 == 8:
            subtasks = subtasks.rescaled(generator.randint(1, 3))
    assert Counter(found) == model_of_aggregates(left)


# -- join ----------------------------------------------------------------------------------------------------------

LESS = Call(BOOLEAN, "<", (Column(INT, 2), Column(INT, 7)))


def join_factory(kind: str) -> WindowJoinFactory:
    keys = ((0, START, END), (0, START, END))
    rows = Join(kind, Values((), ROWS), Values((), ROWS)).row_type
    return WindowJoinFactory(
        input_rows=(ROWS, ROWS), rows=rows, takes=(INSERTS, INSERTS), ends=(END, END), kind=kind, keys=keys,
        condition=LESS,
    )  # fmt: skip


def model_of_join(left: Sequence[Row], right: Sequence[Row], kind: str) -> Counter[Row]:
    pairs = [(a, b) for a in left for b in right if a[0] == b[0] != None and a[START] == b[START] and a[2] < b[2]]  # noqa: E711
    alone = [
        [row for row in side if not any(row is pair[place] for pair in pairs)]
        for place, side in enumerate((left, right))
    ]
    nothing = (None,) * len(ROWS.fields)
    if kind in ("SEMI", "ANTI"):
        return Counter(_comparable(row) for row in left if (row in alone[0]) is (kind == "ANTI"))
    found = [a + b for a, b in pairs]
    found += [row + nothing for row in alone[0] if kind in ("LEFT", "FULL")]
    found += [nothing + row for row in alone[1] if kind in ("RIGHT", "FULL")]
    return Counter(map(_comparable, found))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
def test_rows_of_a_key_meet_in_their_window(seed: int, kind: str) -> None:
    run = Run(lambda: WindowJoinOperator(join_factory(kind)), 2, seed)
    assert run.rows == model_of_join(*run.in_time, kind)
    assert run.late == run.dropped > 0

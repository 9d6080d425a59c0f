"""The first rows of each key, against sorted lists."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from actors.operators.tables.ranks.rank import RankOperator
from flinkray.tables.plans.expressions import SortKey
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import ARRAY, BIGINT, INT, ROW, STRING, RowType
from flinkray.transformations.table_factories import RankFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from flinkray.types.rows import RowKind
from tests.support.operators import OperatorHarness
from tests.support.tables import Change, changes_as_batch, changes_of, fold, fold_by_key, random_table_changes

ROWS = ROW(("k", STRING), ("a", INT), ("b", STRING), ("n", INT), ("list", ARRAY(INT)))
SCHEMA = stored_schema(ROWS)
ORDER = (SortKey(1, descending=True, nulls_first=False), SortKey(2), SortKey(3, descending=True))
"""So that no two rows are equal in it: n is another one in each row."""
TIES = (SortKey(1),)
UPDATES = Changes(updates=True, deletes=True)


def factory(rows: RowType = ROWS, **options: Any) -> RankFactory:
    given = {
        "kind": "ROW_NUMBER", "order": ORDER, "first": 1, "last": 3, "takes": (INSERTS,), "gives": UPDATES, **options,
    }  # fmt: skip
    results = RowType((*rows.fields, *ROW(("r", BIGINT)).fields)) if given.get("has_number") else rows
    return RankFactory(input_rows=(rows,), rows=results, **given)


def changes(seed: int, takes: Changes, count: int = 90) -> list[Change]:
    numbers = iter(range(10 * count))

    def row(generator: random.Random) -> tuple[Any, ...]:
        return (
            generator.choice(["x", "y", None]),
            generator.choice([None, *range(6)]),
            generator.choice([None, "a", "b", "ä"]),
            next(numbers),
            tuple(range(generator.randrange(2))),
        )

    found = random_table_changes(seed, count, row, deletes=0.0 if takes.is_insert_only else 0.4)
    # Lists of Arrow are lists of Python, which no set takes.
    return [(kind, (*row[:4], list(row[4]))) for kind, row in found]


def as_hashable(found: Sequence[Change]) -> list[Change]:
    return [(kind, tuple(tuple(each) if isinstance(each, list) else each for each in row)) for kind, row in found]


def ranked(rows: Sequence[tuple[Any, ...]], made: RankFactory) -> Counter[tuple[Any, ...]]:
    """What an operator is to have found of rows that came in this order."""
    found: Counter[tuple[Any, ...]] = Counter()
    for key in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == key]
        if made.latest_first:
            own.reverse()
        for each in reversed(made.order):
            own.sort(key=lambda row, each=each: _sort_key(row[each.index], each), reverse=each.descending)  # type: ignore[misc]
        values = [tuple(row[each.index] for each in made.order) for row in own]
        for place, row in enumerate(own):
            rank = {
                "ROW_NUMBER": place + 1,
                "RANK": values.index(values[place]) + 1,
                "DENSE_RANK": len(set(values[: place + 1])),
            }[made.kind]
            if made.first <= rank <= made.last:
                found[(*row, rank) if made.has_number else row] += 1
    return found


def _sort_key(value: Any, key: SortKey) -> tuple[bool, Any]:
    is_low = key.nulls_first != key.descending
    return (value is not None) == is_low, 0 if value is None else value


@pytest.mark.parametrize("takes", [INSERTS, UPDATES], ids=["inserts", "changes"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"has_number": True},
        {"has_number": True, "gives": Changes(True, True, before=False)},
        {"first": 2, "last": 4},
        {"last": 1},
        {"last": 1, "gives": Changes(True, True, before=False)},
        {"kind": "RANK", "order": TIES, "has_number": True},
        {"kind": "DENSE_RANK", "order": TIES, "last": 2},
        {"order": (), "last": 2},
        {"order": (), "last": 2, "latest_first": True, "has_number": True},
    ],
    ids=str,
)
def test_the_changes_lead_to_the_first_rows_of_each_key(takes: Changes, options: dict[str, Any]) -> None:
    made, seed = factory(**{"takes": (takes,), **options}), len(str(options))
    given = changes(seed, takes)
    found = as_hashable(changes_of(lambda: RankOperator(made), [(given, SCHEMA)], [["k"]], seed))
    rows: list[tuple[Any, ...]] = []
    for kind, row in as_hashable(given):
        if kind in (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value):
            rows.remove(row)
        else:
            rows.append(row)
    by_key = [0, 5] if made.has_number else [0]
    assert (fold(found) if made.gives.before else fold_by_key(found, by_key)) == ranked(rows, made)


def test_a_row_that_can_no_more_be_among_the_first_changes_nothing_and_is_not_kept() -> None:
    with OperatorHarness(RankOperator(factory(last=2)), keys=(ColumnKey(("k",)),)) as harness:
        harness.push(changes_as_batch([(0, ("x", a, None, a, None)) for a in (5, 7, 6, 1)], SCHEMA))
        assert [row["a"] for row in harness.output.dicts] == [7, 6]
        harness.output.clear()
        harness.push(changes_as_batch([(0, ("x", 6, None, 5, None)), (0, ("y", 1, None, 1, None))], SCHEMA))
        assert [row["k"] for row in harness.output.dicts] == ["y"]
        assert len(harness.operator._store) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_batch", [False, True])
def test_without_order_and_keys_the_first_rows_to_come_are_given(is_batch: bool) -> None:
    made = factory(order=(), first=3, last=30, has_number=True)
    with OperatorHarness(RankOperator(made), is_batch=is_batch) as harness:
        for begin in range(0, 60, 12):
            harness.push(changes_as_batch([(0, ("x", 1, None, n, None)) for n in range(begin, begin + 12)], SCHEMA))
        harness.watermark(MAX_TIMESTAMP)
        assert [(row["n"], row["r"]) for row in harness.output.dicts] == [(n, n + 1) for n in range(2, 30)]


def test_an_update_that_changes_no_row_among_the_first_gives_nothing() -> None:
    row = ("x", 5, "a", 1, None)
    for options in ({"has_number": True}, {"last": 1, "latest_first": True}, {"kind": "RANK"}):
        made = factory(takes=(UPDATES,), **options)
        with OperatorHarness(RankOperator(made), keys=(ColumnKey(("k",)),)) as harness:
            harness.push(changes_as_batch([(0, row)], SCHEMA))
            harness.output.clear()
            harness.push(changes_as_batch([(1, row), (2, row), (3, ("x", 5, "never", 2, None))], SCHEMA))
            assert harness.output.rows == []


def test_rows_that_were_not_written_for_their_time_to_live_are_no_more_among_the_first() -> None:
    made = factory(last=2, state_ttl_ms=Millis(100), has_number=True)
    with OperatorHarness(RankOperator(made), keys=(ColumnKey(("k",)),)) as harness:
        harness.push(changes_as_batch([(0, ("x", 9, None, 1, None)), (0, ("x", 8, None, 2, None))], SCHEMA))
        harness.advance(60)
        harness.push(changes_as_batch([(0, ("x", 7, None, 3, None))], SCHEMA))  # behind the first two: not kept
        harness.advance(60)
        harness.output.clear()
        harness.push(changes_as_batch([(0, ("x", 1, None, 4, None))], SCHEMA))
        assert [(row["n"], row["r"]) for row in harness.output.dicts] == [(4, 1)]


@pytest.mark.parametrize("keys", [("k",), ()])
def test_in_batch_mode_the_first_rows_are_given_at_the_end_in_their_order(keys: tuple[str, ...]) -> None:
    made = factory(has_number=True, gives=INSERTS)
    given = changes(3, INSERTS)
    selector = ColumnKey(keys) if keys else None
    with OperatorHarness(RankOperator(made), keys=(selector,), is_batch=True) as harness:
        for begin in range(0, len(given), 20):
            harness.push(changes_as_batch(given[begin : begin + 20], SCHEMA))
        assert harness.output.rows == []
        harness.watermark(MAX_TIMESTAMP)
        found = [tuple(row.values()) for row in harness.output.dicts]
        assert all(batch.kinds is None for batch in harness.output.batches)
    rows = [row if keys else (None, *row[1:]) for _, row in as_hashable(given)]
    expected = ranked(rows, made)
    assert Counter((*row[1:4], row[5]) for row in found) == Counter((*row[1:4], row[5]) for row in expected.elements())
    ranks = [row[5] for row in found]
    assert all(after in (1, before + 1) for before, after in itertools.pairwise(ranks))

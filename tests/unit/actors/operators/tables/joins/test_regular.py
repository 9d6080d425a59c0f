"""Joins of changelogs against a join of the rows that they lead to, pair by pair."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from actors.operators.tables.joins import side
from actors.operators.tables.joins.regular import RegularJoinOperator
from actors.operators.tables.rows import row_store
from actors.operators.windows.buffers import buffered_keys
from flinkray.tables.plans.expressions import BoundExpression, Call, Column
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import ARRAY, BOOLEAN, DECIMAL, DOUBLE, INT, ROW, STRING, TIMESTAMP, RowType
from flinkray.transformations.table_join_factories import RegularJoinFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP
from flinkray.types.rows import RowKind
from tests.support.operators import OperatorHarness
from tests.support.tables import Change, changes_as_batch, changes_of, fold, fold_by_key, random_table_changes


@pytest.fixture(autouse=True)
def _often_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "_FEWEST_DEAD", 5)
    monkeypatch.setattr(buffered_keys, "_FEWEST_LOOKED_AT", 2)


KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
LEFT = ROW(("id", INT), ("k", STRING), ("n", INT))
RIGHT = ROW(("k", STRING), ("m", INT), ("x", DOUBLE))
UNEQUAL = Call(BOOLEAN, "<", (Column(INT, 2), Column(INT, 4)))
"""Of the columns of both: n < m."""
ALL = Changes(updates=True, deletes=True)
Row = tuple[Any, ...]


def factory(kind: str, condition: BoundExpression | None = None, **options: Any) -> RegularJoinFactory:
    rows = LEFT if kind in ("SEMI", "ANTI") else _beside(LEFT, RIGHT)
    given: dict[str, Any] = {"takes": (ALL, ALL), "gives": ALL, "keys": ((1, 0),), "input_rows": (LEFT, RIGHT)}
    return RegularJoinFactory(**{**given, "rows": rows, "kind": kind, "condition": condition, **options})


def _beside(left: RowType, right: RowType) -> RowType:
    return ROW(*((f"c{place}", each.type) for place, each in enumerate((*left.fields, *right.fields))))


def expected(
    kind: str, lefts: Iterable[Row], rights: Iterable[Row], matches: Callable[[Row, Row], bool], widths: Row = (3, 3)
) -> Counter[Row]:
    lefts, rights = list(lefts), list(rights)
    partners = [[right for right in rights if matches(left, right)] for left in lefts]
    if kind in ("SEMI", "ANTI"):
        return Counter(left for left, found in zip(lefts, partners, strict=True) if bool(found) == (kind == "SEMI"))
    rows = [left + right for left, found in zip(lefts, partners, strict=True) for right in found]
    if kind in ("LEFT", "FULL"):
        rows += [left + (None,) * widths[1] for left, found in zip(lefts, partners, strict=True) if not found]
    if kind in ("RIGHT", "FULL"):
        rows += [(None,) * widths[0] + right for right in rights if not any(matches(left, right) for left in lefts)]
    return Counter(rows)


def matching(condition: BoundExpression | None) -> Callable[[Row, Row], bool]:
    def matches(left: Row, right: Row) -> bool:
        is_equal = left[1] is not None and left[1] == right[0]
        return is_equal and (condition is None or (None not in (left[2], right[1]) and left[2] < right[1]))

    return matches


def left_row(generator: random.Random) -> Row:
    return generator.randrange(3), generator.choice(["a", "b", "c", None]), generator.choice([1, 2, 3, None])


def right_row(generator: random.Random) -> Row:
    return generator.choice(["a", "b", "d", None]), generator.choice([1, 2, 3]), generator.choice([0.5, None])


def keyed_changes(seed: int, count: int, row: Callable[[random.Random], Row], key: list[int]) -> list[Change]:
    """Changes of a table with a key, whose updates come without the rows as they were."""
    generator = random.Random(seed)
    there: dict[Row, Row] = {}
    changes: list[Change] = []
    while len(changes) < count:
        new = row(generator)
        at = tuple(new[each] for each in key)
        if at not in there:
            changes.append((RowKind.INSERT.value, new))
        elif generator.random() < 0.4:
            changes.append((RowKind.DELETE.value, there.pop(at)))
            continue
        else:
            changes.append((RowKind.UPDATE_AFTER.value, new))
        there[at] = new
    return changes


KEYS = (["k"], ["k"])


def joined(made: RegularJoinFactory, lefts: list[Change], rights: list[Change], seed: int) -> list[Change]:
    inputs = [(lefts, stored_schema(LEFT)), (rights, stored_schema(RIGHT))]
    return changes_of(lambda: RegularJoinOperator(made), inputs, KEYS, seed)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("condition", [None, UNEQUAL], ids=["all", "some"])
@pytest.mark.parametrize("kind", KINDS)
def test_joins_of_changelogs_have_the_pairs_of_what_the_changelogs_lead_to(
    kind: str, condition: BoundExpression | None, seed: int
) -> None:
    lefts = random_table_changes(seed, 60, left_row)
    rights = random_table_changes(seed + 1, 60, right_row)
    found = joined(factory(kind, condition), lefts, rights, seed)
    assert fold(found) == expected(kind, fold(lefts).elements(), fold(rights).elements(), matching(condition))


@pytest.mark.parametrize("condition", [None, UNEQUAL], ids=["all", "some"])
@pytest.mark.parametrize("kind", KINDS)
def test_joins_of_inserts_take_back_only_what_outer_joins_padded(kind: str, condition: BoundExpression | None) -> None:
    generator = random.Random(7)
    lefts = [(0, left_row(generator)) for _ in range(60)]
    rights = [(0, right_row(generator)) for _ in range(60)]
    found = joined(factory(kind, condition, takes=(INSERTS, INSERTS)), lefts, rights, 7)
    assert fold(found) == expected(kind, fold(lefts).elements(), fold(rights).elements(), matching(condition))
    if kind in ("INNER", "SEMI"):
        assert {change for change, _ in found} == {0}


@pytest.mark.parametrize("condition", [None, UNEQUAL], ids=["all", "some"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [False, True])
def test_updates_by_key_need_no_row_as_it_was(kind: str, before: bool, condition: BoundExpression | None) -> None:
    # Of the left an upsert key has the join key in it, and the right has one row of each join key.
    lefts = keyed_changes(3, 60, left_row, [0, 1])
    rights = keyed_changes(4, 60, right_row, [0])
    gives = Changes(updates=True, deletes=True, before=before)
    found = joined(factory(kind, condition, unique=((0, 1), (0,)), gives=gives), lefts, rights, 3)
    key = (0, 1) if kind in ("LEFT", "INNER", "SEMI", "ANTI") else (0, 1, 3)
    folded = fold(found) if before else fold_by_key(found, key)
    rows = (fold_by_key(lefts, (0, 1)).elements(), fold_by_key(rights, (0,)).elements())
    assert folded == expected(kind, *rows, matching(condition))


@pytest.mark.parametrize("kind", ["INNER", "FULL", "ANTI"])
def test_a_null_is_equal_to_another_one_of_the_keys_that_say_so(kind: str) -> None:
    lefts, rights = random_table_changes(8, 60, left_row), random_table_changes(9, 60, right_row)
    found = joined(factory(kind, nulls_equal=(0,)), lefts, rights, 8)
    matches = lambda left, right: left[1] == right[0]  # noqa: E731
    assert fold(found) == expected(kind, fold(lefts).elements(), fold(rights).elements(), matches)


@pytest.mark.parametrize("kind", ["INNER", "FULL", "ANTI"])
def test_joins_without_keys_look_at_all_pairs(kind: str) -> None:
    lefts, rights = random_table_changes(1, 40, left_row), random_table_changes(2, 40, right_row)
    made = factory(kind, UNEQUAL, keys=())
    inputs = [(lefts, stored_schema(LEFT)), (rights, stored_schema(RIGHT))]
    found = changes_of(lambda: RegularJoinOperator(made), inputs, [[], []], 5)
    is_less = lambda left, right: left[2] is not None and left[2] < right[1]  # noqa: E731
    assert fold(found) == expected(kind, fold(lefts).elements(), fold(rights).elements(), is_less)


def test_rows_of_all_types_are_found_again_by_what_is_in_them() -> None:
    rows = ROW(
        ("k", DECIMAL(9, 2)), ("at", TIMESTAMP(3)), ("list", ARRAY(INT)), ("row", ROW(("x", DOUBLE))), ("s", STRING)
    )
    schema = stored_schema(rows)

    def row(generator: random.Random) -> Row:
        return (
            decimal.Decimal(generator.randrange(3)).quantize(decimal.Decimal("0.01")),
            generator.choice([None, datetime.datetime(2024, 1, 1)]),
            generator.choice([None, [1, 2], [None], []]),
            generator.choice([None, {"x": None}, {"x": 1.5}]),
            generator.choice([None, "", "é"]),
        )

    changes = [random_table_changes(seed, 60, row, deletes=0.45) for seed in (1, 2)]
    made = factory("LEFT", input_rows=(rows, rows), rows=_beside(rows, rows), keys=((0, 0), (1, 1)))
    found = changes_of(lambda: RegularJoinOperator(made), [(each, schema) for each in changes], [["k", "at"]] * 2, 3)
    lefts, rights = (_as_text(fold((kind, _hashable(each)) for kind, each in some)) for some in changes)
    matches = lambda left, right: left[1] is not None and left[:2] == right[:2]  # noqa: E731
    result = _as_text(fold((kind, _hashable(each)) for kind, each in found))
    assert Counter(result) == expected("LEFT", lefts, rights, matches, (5, 5))


def _hashable(row: Row) -> Row:
    return tuple(repr(each) if isinstance(each, list | dict) else each for each in row)


def _as_text(rows: Counter[Row]) -> list[Row]:
    return list(rows.elements())


def harness(made: RegularJoinFactory, **settings: Any) -> OperatorHarness:
    return OperatorHarness(RegularJoinOperator(made), keys=tuple(ColumnKey((each[0],)) for each in KEYS), **settings)


def test_rows_whose_hashes_are_equal_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side, "hashes_of", lambda rows: np.arange(rows.num_rows) * 0)
    lefts, rights = random_table_changes(5, 60, left_row), keyed_changes(6, 60, right_row, [0])
    found = joined(factory("LEFT", unique=(None, (0,))), lefts, rights, 5)
    rows = (fold(lefts).elements(), fold_by_key(rights, (0,)).elements())
    assert fold(found) == expected("LEFT", *rows, matching(None))


def test_a_batch_gives_what_it_comes_to() -> None:
    with harness(factory("LEFT")) as operator:
        operator.push(changes_as_batch([(0, (1, "a", 1)), (0, (2, "a", 1)), (3, (2, "a", 1))], stored_schema(LEFT)))
        assert _taken(operator) == [(0, (1, "a", 1, None, None, None))]
        some = [(0, ("a", 1, None)), (1, ("a", 1, None)), (2, ("a", 2, None))]
        operator.push(changes_as_batch(some, stored_schema(RIGHT)), input_index=1)
        assert _taken(operator) == [(3, (1, "a", 1, None, None, None)), (0, (1, "a", 1, "a", 2, None))]
        some = [(1, ("a", 2, None)), (2, ("a", 3, None))]
        operator.push(changes_as_batch(some, stored_schema(RIGHT)), input_index=1)
        assert _taken(operator) == [(1, (1, "a", 1, "a", 2, None)), (2, (1, "a", 1, "a", 3, None))]
        operator.push(changes_as_batch([(3, ("a", 9, None)), (3, ("a", 3, None))], stored_schema(RIGHT)), input_index=1)
        assert _taken(operator) == [(3, (1, "a", 1, "a", 3, None)), (0, (1, "a", 1, None, None, None))]


def test_rows_that_were_not_written_for_their_time_to_live_meet_nothing() -> None:
    with harness(factory("INNER", input_ttls_ms=(100, 0))) as operator:
        operator.push(changes_as_batch([(0, (1, "a", 1))], stored_schema(LEFT)))
        operator.advance(101)
        operator.push(changes_as_batch([(0, ("a", 1, None))], stored_schema(RIGHT)), input_index=1)
        operator.push(changes_as_batch([(3, (1, "a", 1)), (0, (2, "a", 1))], stored_schema(LEFT)))
        operator.advance(101)
        operator.push(changes_as_batch([(0, (3, "a", 1))], stored_schema(LEFT)))
        assert _taken(operator) == [(0, (2, "a", 1, "a", 1, None)), (0, (3, "a", 1, "a", 1, None))]


@pytest.mark.parametrize("kind", KINDS)
def test_batch_programs_give_final_rows(kind: str) -> None:
    lefts = [(0, (1, "a", 1)), (0, (2, "b", 1)), (0, (3, None, 1)), (0, (4, "a", 1)), (3, (4, "a", 1))]
    rights = [(0, ("a", 1, None)), (0, ("a", 2, None)), (0, ("c", 1, None)), (0, (None, 1, None))]
    with harness(factory(kind, takes=(ALL, INSERTS), gives=INSERTS), is_batch=True) as operator:
        operator.push(changes_as_batch(lefts[:-1], stored_schema(LEFT)))
        operator.push(changes_as_batch(rights, stored_schema(RIGHT)), input_index=1)
        operator.push(changes_as_batch(lefts[-1:], stored_schema(LEFT)))
        operator.watermark(MAX_TIMESTAMP, 0)
        operator.watermark(MAX_TIMESTAMP, 1)
        found = _taken(operator)
    assert {change for change, _ in found} == {0}
    assert fold(found) == expected(kind, fold(lefts).elements(), fold(rights).elements(), matching(None))


def test_rows_with_many_partners_come_in_batches_of_the_usual_size() -> None:
    with harness(factory("INNER"), batch_rows=100) as operator:
        operator.push(changes_as_batch([(0, (each, "a", 1)) for each in range(50)], stored_schema(LEFT)))
        operator.push(changes_as_batch([(0, ("a", 1, None))] * 50, stored_schema(RIGHT)), input_index=1)
        assert [batch.num_rows for batch in operator.output.batches] == [100] * 25


def _taken(operator: OperatorHarness) -> list[Change]:
    found: list[Change] = []
    for batch in operator.output.batches:
        rows = zip(*(column.to_pylist() for column in batch.data.columns), strict=True)
        found += zip(batch.row_kinds.to_pylist(), rows, strict=True)
    operator.output.clear()
    return found

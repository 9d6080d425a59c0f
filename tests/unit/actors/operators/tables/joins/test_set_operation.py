"""INTERSECT and EXCEPT of changelogs against counts of rows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from actors.operators.tables.joins.set_operation import SetOperationOperator
from actors.operators.tables.rows import row_store
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import DOUBLE, ROW, STRING
from flinkray.transformations.table_join_factories import SetOperationFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from tests.support.operators import OperatorHarness
from tests.support.tables import Change, changes_as_batch, changes_of, fold, random_table_changes

ROWS = ROW(("k", STRING), ("x", DOUBLE))
SCHEMA = stored_schema(ROWS)
Row = tuple[Any, ...]


def factory(kind: str, is_all: bool, **options: Any) -> SetOperationFactory:
    given: dict[str, Any] = {"takes": (Changes(updates=True, deletes=True),) * 2, "gives": Changes(deletes=True)}
    return SetOperationFactory(**{**given, **options}, input_rows=(ROWS, ROWS), rows=ROWS, kind=kind, all=is_all)


def row(generator: random.Random) -> Row:
    return generator.choice(["a", "b", None]), generator.choice([0.5, None])


def expected(kind: str, is_all: bool, left: Counter[Row], right: Counter[Row]) -> Counter[Row]:
    if kind == "INTERSECT":
        found = left & right
    else:
        found = left - right if is_all else Counter({row: count for row, count in left.items() if not right[row]})
    return found if is_all else Counter(dict.fromkeys(found, 1))


@pytest.mark.parametrize("is_all", [False, True])
@pytest.mark.parametrize("kind", ["INTERSECT", "EXCEPT"])
def test_rows_are_there_by_how_often_they_are_in_both(kind: str, is_all: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "_FEWEST_DEAD", 1)
    inputs = [(random_table_changes(seed, 60, row, deletes=0.45), SCHEMA) for seed in (1, 2)]
    made = factory(kind, is_all)
    found = changes_of(lambda: SetOperationOperator(made), inputs, [["k", "x"]] * 2, 1)
    assert fold(found) == expected(kind, is_all, *(fold(changes) for changes, _ in inputs))
    assert {change for change, _ in found} == {0, 3}


KEYS = (ColumnKey(("k", "x")),) * 2
INPUTS: tuple[list[Change], list[Change]] = ([(0, ("a", 0.5))] * 3 + [(0, (None, None))], [(0, ("a", 0.5))] * 2)


@pytest.mark.parametrize("is_all", [False, True])
@pytest.mark.parametrize("kind", ["INTERSECT", "EXCEPT"])
def test_batch_programs_give_final_rows(kind: str, is_all: bool) -> None:
    with OperatorHarness(
        SetOperationOperator(factory(kind, is_all, takes=(INSERTS, INSERTS))), keys=KEYS, is_batch=True
    ) as operator:
        for side, changes in enumerate(INPUTS):
            operator.push(changes_as_batch(changes, SCHEMA), input_index=side)
        for side in (0, 1):
            operator.watermark(MAX_TIMESTAMP, side)
        found = Counter(tuple(each.values()) for each in operator.output.dicts)
    assert found == expected(kind, is_all, *map(fold, INPUTS))


def test_rows_that_were_not_written_for_their_time_to_live_are_forgotten() -> None:
    made = factory("INTERSECT", True, state_ttl_ms=Millis(100))
    with OperatorHarness(SetOperationOperator(made), keys=KEYS) as operator:
        operator.push(changes_as_batch(INPUTS[0], SCHEMA))
        operator.advance(101)
        operator.push(changes_as_batch(INPUTS[1], SCHEMA), input_index=1)
        assert not operator.output.batches

"""The first and the last row of each key, against a dict."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from actors.operators.tables.ranks.deduplicate import DeduplicateOperator
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import INT, ROW, STRING, TIMESTAMP
from flinkray.transformations.table_factories import DeduplicateFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from tests.support.operators import OperatorHarness
from tests.support.tables import Change, changes_as_batch, changes_of, fold, fold_by_key

ROWS = ROW(("k", STRING), ("at", TIMESTAMP(3)), ("n", INT))
SCHEMA = stored_schema(ROWS)


def factory(**options: Any) -> DeduplicateFactory:
    given = {"time": None, "keeps_last": True, "gives": Changes(updates=True), **options}
    return DeduplicateFactory(input_rows=(ROWS,), rows=ROWS, takes=(INSERTS,), **given)


def inserts(seed: int) -> list[Change]:
    generator = random.Random(seed)
    keys = ["a", "b", "c", None, "e"]
    times = [None, *range(4)]
    rows = [(generator.choice(keys), generator.choice(times), number) for number in range(80)]
    cast = changes_as_batch([(0, row) for row in rows], SCHEMA).data.to_pylist()
    return [(0, tuple(row.values())) for row in cast]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("keeps_last", [False, True])
@pytest.mark.parametrize("time", [None, 1])
@pytest.mark.parametrize("before", [False, True])
def test_one_row_of_each_key_is_left(seed: int, keeps_last: bool, time: int | None, before: bool) -> None:
    changes = inserts(seed)
    expected: dict[Any, tuple[Any, ...]] = {}
    for _, row in changes:
        old = expected.get(row[0])
        # NULL comes before all times.
        order = 0 if time is None or old is None else _rank(row[1]) - _rank(old[1])
        if old is None or (order >= 0 if keeps_last else order < 0):
            expected[row[0]] = row
    made = factory(time=time, keeps_last=keeps_last, gives=Changes(updates=True, before=before))
    found = changes_of(lambda: DeduplicateOperator(made), [(changes, SCHEMA)], [["k"]], seed)
    folded = fold(found) if before else fold_by_key(found, [0])
    assert folded == Counter(expected.values())
    if time is None and not keeps_last:
        assert {kind for kind, _ in found} == {0}


def _rank(time: Any) -> float:
    return -1.0 if time is None else float(time.timestamp())


def test_keys_whose_row_was_not_written_for_its_time_to_live_begin_anew() -> None:
    made = factory(keeps_last=False, state_ttl_ms=Millis(100))
    with OperatorHarness(DeduplicateOperator(made), keys=(ColumnKey(("k",)),)) as harness:
        harness.push(changes_as_batch([(0, ("a", None, 1)), (0, ("b", None, 2))], SCHEMA))
        harness.advance(60)
        harness.push(changes_as_batch([(0, ("a", None, 3))], SCHEMA))
        harness.advance(60)
        harness.push(changes_as_batch([(0, ("a", None, 4)), (0, ("b", None, 5))], SCHEMA))
        assert [row["n"] for row in harness.output.dicts] == [1, 2, 4, 5]


def test_in_batch_mode_the_row_of_each_key_is_given_at_the_end() -> None:
    made = factory(gives=INSERTS)
    with OperatorHarness(DeduplicateOperator(made), keys=(ColumnKey(("k",)),), is_batch=True) as harness:
        for n in range(3):
            harness.push(changes_as_batch([(0, ("a", None, n)), (0, ("b", None, -n))], SCHEMA))
        assert harness.output.rows == []
        harness.watermark(MAX_TIMESTAMP)
        assert [row["n"] for row in harness.output.dicts] == [2, -2]
        assert all(batch.kinds is None for batch in harness.output.batches)

"""The last row of each key, against a dict."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from actors.operators.tables.ranks.normalize import NormalizeOperator
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import ARRAY, INT, ROW, STRING
from flinkray.transformations.table_factories import NormalizeFactory
from flinkray.types.changelogs import Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Millis
from flinkray.types.rows import RowKind
from tests.support.operators import OperatorHarness
from tests.support.tables import Change, changes_as_batch, changes_of, fold, fold_by_key

ROWS = ROW(("k", STRING), ("n", INT), ("list", ARRAY(INT)))
SCHEMA = stored_schema(ROWS)
UPSERTS = Changes(updates=True, deletes=True, before=False)


def factory(**options: Any) -> NormalizeFactory:
    return NormalizeFactory(
        **{"input_rows": (ROWS,), "rows": ROWS, "takes": (UPSERTS,), "gives": Changes(True, True), **options}
    )


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_changes_by_key_become_a_whole_changelog(seed: int, versions: bool, before: bool) -> None:
    generator = random.Random(seed)
    given: list[Change] = []
    rows: dict[Any, tuple[Any, ...]] = {}
    for _ in range(120):
        key = generator.choice(["a", "b", "c", None])
        if generator.random() < 0.3:  # of a row that may not be there, and with its key alone
            given.append((RowKind.DELETE.value, (key, None, None)))
            rows.pop(key, None)
        else:
            kind = generator.choice([RowKind.INSERT, RowKind.UPDATE_AFTER])
            row = (key, generator.choice([None, 1, 2]), [3])
            given.append((kind.value, row))
            rows[key] = row[:2]
    made = factory(gives=Changes(True, True, before=before), keeps_versions=versions)
    found = changes_of(lambda: NormalizeOperator(made), [(given, SCHEMA)], [["k"]], seed)
    assert all(row[2] == [3] for _, row in found)
    plain = [(kind, row[:2]) for kind, row in found]
    folded = fold(plain) if before else fold_by_key(plain, [0])
    assert sorted(folded.elements(), key=str) == sorted(rows.values(), key=str)
    updates = [(old, new) for old, new in itertools.pairwise(plain) if old[0] == RowKind.UPDATE_BEFORE.value]
    assert all(new[0] == RowKind.UPDATE_AFTER.value and old[1] != new[1] for old, new in updates)


def test_each_change_of_a_batch_counts_where_it_is_a_version() -> None:
    given: list[Change] = [(0, ("a", 1, None)), (2, ("a", 1, None)), (0, ("b", 5, None)), (2, ("a", 2, None))]
    given += [(3, ("a", None, None)), (3, ("a", None, None)), (0, ("a", 3, None)), (3, ("b", None, None))]
    with OperatorHarness(NormalizeOperator(factory(keeps_versions=True)), keys=(ColumnKey(("k",)),)) as harness:
        harness.push(changes_as_batch(given, SCHEMA))
        harness.push(changes_as_batch([(2, ("b", 6, None)), (2, ("a", 3, None)), (3, ("a", None, None))], SCHEMA))
        found = [
            (kind, row["k"], row["n"])
            for batch in harness.output.batches
            for kind, row in zip(batch.row_kinds.to_pylist(), batch.data.to_pylist(), strict=True)
        ]
    of = {key: [(kind, n) for kind, name, n in found if name == key] for key in "ab"}
    assert of == {"a": [(0, 1), (1, 1), (2, 2), (3, 2), (0, 3), (3, 3)], "b": [(0, 5), (3, 5), (0, 6)]}


def test_an_update_to_an_equal_row_gives_nothing_and_keeps_the_row_alive() -> None:
    row = ("a", 1, None)
    with OperatorHarness(NormalizeOperator(factory(state_ttl_ms=Millis(100))), keys=(ColumnKey(("k",)),)) as harness:
        for _ in range(3):
            harness.push(changes_as_batch([(2, row)], SCHEMA))
            harness.advance(60)
        assert [batch.row_kinds.to_pylist() for batch in harness.output.batches] == [[0]]
        harness.advance(60)
        harness.push(changes_as_batch([(3, row)], SCHEMA))  # of a row that was forgotten
        assert len(harness.output.batches) == 1


def test_changes_that_come_again_change_nothing() -> None:
    first: list[Change] = [(0, ("a", 1, None)), (1, ("a", 1, None)), (2, ("a", 2, None)), (0, ("b", 5, None))]
    again: list[Change] = [(1, ("a", 1, None)), (2, ("a", 2, None)), (3, ("b", 5, None)), (3, ("b", 5, None))]
    made = factory(takes=(Changes(updates=True, deletes=True),))
    with OperatorHarness(NormalizeOperator(made), keys=(ColumnKey(("k",)),)) as harness:
        for change in [*first, *first, *again]:
            harness.push(changes_as_batch([change], SCHEMA))
        found = [
            (kind, row["k"], row["n"])
            for batch in harness.output.batches
            for kind, row in zip(batch.row_kinds.to_pylist(), batch.data.to_pylist(), strict=True)
        ]
    # The first row comes again before its update does, as at the source.
    there = [(0, "a", 1), (1, "a", 1), (2, "a", 2), (0, "b", 5), (1, "a", 2), (2, "a", 1), (1, "a", 1), (2, "a", 2)]
    assert found == [*there, (3, "b", 5)]

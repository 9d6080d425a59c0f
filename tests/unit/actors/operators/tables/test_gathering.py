"""Operators that wait for more rows than come at once, and those that take each row on its own."""

from __future__ import annotations

from typing import Any

import pytest

from actors.operators.contract.operator import Operator
from actors.operators.tables.aggregates.group_aggregate import GroupAggregateOperator
from actors.operators.tables.joins.regular import RegularJoinOperator
from flinkray.tables.plans.expressions import AggregateCall, Column
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import BIGINT, INT, ROW, STRING
from flinkray.transformations.table_factories import GroupAggregateFactory
from flinkray.transformations.table_join_factories import RegularJoinFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from tests.support.operators import OperatorHarness
from tests.support.tables import Change, changes_as_batch, changes_of, fold, random_table_changes

ROWS = ROW(("k", STRING), ("n", INT))
SCHEMA = stored_schema(ROWS)
ALL = Changes(updates=True, deletes=True)


def aggregate(**options: Any) -> Operator:
    sums = (AggregateCall("SUM", (Column(INT, 1),), INT), AggregateCall("COUNT", (), BIGINT))
    return GroupAggregateOperator(
        GroupAggregateFactory(
            **{
                "input_rows": (ROWS,),
                "rows": ROW(("k", STRING), ("sum", INT), ("count", BIGINT)),
                "takes": (ALL,),
                "gives": ALL,
                "keys": (0,),
                "calls": sums,
                "text": "",
                **options,
            }
        )
    )


def join(**options: Any) -> Operator:
    return RegularJoinOperator(
        RegularJoinFactory(
            input_rows=(ROWS, ROWS),
            rows=ROW(("k", STRING), ("n", INT), ("l", STRING), ("m", INT)),
            takes=(ALL, ALL),
            gives=ALL,
            kind="LEFT",
            keys=((0, 0),),
            **options,
        )
    )


@pytest.mark.parametrize(("make", "inputs"), [(aggregate, 1), (join, 2)])
def test_fewer_changes_come_to_the_same_rows(make: Any, inputs: int) -> None:
    given = [
        (random_table_changes(seed, 200, lambda chance: (chance.choice("abc"), chance.randrange(4))), SCHEMA)
        for seed in range(inputs)
    ]
    keys = [["k"]] * inputs

    def found(**options: Any) -> list[Change]:
        return changes_of(lambda: make(**options), given, keys, 3, largest_batch=5)

    plain, gathered = found(), found(least_rows=40, wait_ms=Millis(1000))
    one_by_one = found(least_rows=1)
    assert fold(plain) == fold(gathered) == fold(one_by_one)
    assert len(gathered) < len(plain) < len(one_by_one)


def gathering(**options: Any) -> OperatorHarness:
    made = aggregate(**{"least_rows": 3, "wait_ms": Millis(100), "takes": (INSERTS,), **options})
    return OperatorHarness(made, keys=(ColumnKey(("k",)),))


def counts(harness: OperatorHarness) -> list[tuple[int, int]]:
    """What came out since the last time: the kinds of changes, and their counts."""
    found = [
        (kind, row["count"])
        for batch in harness.output.batches
        for kind, row in zip(batch.row_kinds.to_pylist(), batch.data.to_pylist(), strict=True)
    ]
    harness.output.clear()
    return found


def test_rows_wait_for_others_no_longer_than_they_may_and_watermarks_wait_with_them() -> None:
    one, two = (changes_as_batch([(0, ("a", 1))] * size, SCHEMA) for size in (1, 2))
    with gathering() as harness:
        harness.watermark(5)
        assert harness.output.watermarks == [5], "nothing waits"
        harness.push(one)
        harness.watermark(7)
        assert counts(harness) == []
        assert harness.output.watermarks == []
        harness.push(two)
        assert harness.output.watermarks == [7]
        assert counts(harness) == [(0, 3)], "there are enough"
        harness.push(one)
        harness.advance(99)
        assert counts(harness) == []
        harness.advance(1)
        assert counts(harness) == [(1, 3), (2, 4)], "the first has waited"
        harness.push(two)
        harness.operator.prepare_barrier(1)
        assert counts(harness) == [(1, 4), (2, 6)], "a snapshot follows"
        harness.push(one)
        harness.advance(50)
        harness.operator.prepare_barrier(2)
        counts(harness)
        harness.push(one)
        harness.advance(50)
        assert counts(harness) == [], "the time of rows that are gone is not that of others"
        harness.status(is_idle=True)
        assert counts(harness) == [(1, 7), (2, 8)]
        harness.push(one)
        harness.watermark(MAX_TIMESTAMP)
        assert counts(harness) == [(1, 8), (2, 9)]
        harness.push(one)
        harness.end()
        assert counts(harness) == [(1, 9), (2, 10)]


def test_a_row_on_its_own_gives_its_own_changes() -> None:
    with gathering(least_rows=1) as harness:
        harness.push(changes_as_batch([(0, ("a", 1)), (0, ("b", 1)), (0, ("a", 1)), (0, ("a", 1))], SCHEMA))
        assert counts(harness) == [(0, 1), (0, 1), (1, 1), (2, 2), (1, 2), (2, 3)]

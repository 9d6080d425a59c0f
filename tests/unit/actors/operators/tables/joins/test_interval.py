"""Interval joins of tables against all pairs of the rows, one by one."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from typing import Any

import pytest

from actors.operators.tables.joins.interval import TableIntervalJoinOperator
from flinkray.tables.plans.expressions import Call, Column
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import BOOLEAN, INT, ROW, STRING, TIMESTAMP
from flinkray.transformations.table_join_factories import TableIntervalJoinFactory
from flinkray.types.changelogs import INSERTS
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP
from tests.support.operators import OperatorHarness
from tests.support.tables import changes_as_batch, changes_of, fold

LEFT = ROW(("k", STRING), ("t", TIMESTAMP(3)), ("n", INT))
RIGHT = ROW(("t", TIMESTAMP(3)), ("k", STRING), ("m", INT))
BOTH = ROW(*((f"c{place}", each.type) for place, each in enumerate((*LEFT.fields, *RIGHT.fields))))
LESS = Call(BOOLEAN, "<", (Column(INT, 2), Column(INT, 5)))
Row = tuple[Any, ...]


def at(milliseconds: int | None) -> datetime.datetime | None:
    return (
        None if milliseconds is None else datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=milliseconds)
    )


def factory(kind: str, lower: int, upper: int, **options: Any) -> TableIntervalJoinFactory:
    given: dict[str, Any] = {"times": (1, 0), "keys": ((0, 1),), "takes": (INSERTS, INSERTS)}
    return TableIntervalJoinFactory(
        **{**given, **options}, input_rows=(LEFT, RIGHT), rows=BOTH, kind=kind, lower_ms=lower, upper_ms=upper
    )


def rows_of(seed: int, count: int) -> tuple[list[Row], list[Row]]:
    """Rows of both sides at about ascending times."""
    generator = random.Random(seed)

    def row(place: int) -> Row:
        time = None if generator.random() < 0.1 else at(3 * place + generator.randrange(12))
        return generator.choice(["a", "b", None]), time, generator.choice([1, 2, None])

    lefts = [row(place) for place in range(count)]
    return lefts, [(time, key, number) for key, time, number in map(row, range(count))]


def expected(
    kind: str, lower: int, upper: int, lefts: list[Row], rights: list[Row], has_condition: bool
) -> Counter[Row]:
    def matches(left: Row, right: Row) -> bool:
        if None in (left[0], left[1], right[0]) or left[0] != right[1]:
            return False
        is_near = lower <= (right[0] - left[1]) / datetime.timedelta(milliseconds=1) <= upper
        return is_near and (not has_condition or (None not in (left[2], right[2]) and left[2] < right[2]))

    pairs = [left + right for left in lefts for right in rights if matches(left, right)]
    if kind in ("LEFT", "FULL"):
        pairs += [left + (None,) * 3 for left in lefts if not any(matches(left, right) for right in rights)]
    if kind in ("RIGHT", "FULL"):
        pairs += [(None,) * 3 + right for right in rights if not any(matches(left, right) for left in lefts)]
    return Counter(pairs)


@pytest.mark.parametrize(("lower", "upper"), [(-10, 10), (0, 0), (5, 20), (-20, -5)])
@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_pairs_lie_in_the_interval_whatever_comes_first(kind: str, lower: int, upper: int) -> None:
    condition = LESS if lower == -10 else None
    lefts, rights = rows_of(lower, 50)
    made = factory(kind, lower, upper, condition=condition)
    inputs = [([(0, row) for row in rows], stored_schema(of)) for rows, of in ((lefts, LEFT), (rights, RIGHT))]
    found = changes_of(
        lambda: TableIntervalJoinOperator(made),
        inputs,
        [["k"], ["k"]],
        lower,
        at_end=lambda each: each.watermark(MAX_TIMESTAMP, 2),
    )
    assert {change for change, _ in found} <= {0}
    assert fold(found) == expected(kind, lower, upper, lefts, rights, condition is not None)


def harness(made: TableIntervalJoinFactory) -> OperatorHarness:
    return OperatorHarness(TableIntervalJoinOperator(made), keys=(ColumnKey(("k",)), ColumnKey(("k",))))


def push(operator: OperatorHarness, side: int, *rows: Row) -> None:
    batch = changes_as_batch([(0, row) for row in rows], stored_schema((LEFT, RIGHT)[side]))
    operator.push(batch, input_index=side)


def watermark(operator: OperatorHarness, milliseconds: int) -> None:
    for side in (0, 1):
        operator.watermark(milliseconds, side)


def test_rows_are_given_alone_and_forgotten_once_no_partner_can_come() -> None:
    with harness(factory("FULL", -5, 10)) as operator:
        push(operator, 0, ("a", at(100), 1), ("a", at(101), 2))
        push(operator, 1, (at(90), "b", 7))
        watermark(operator, 94)
        assert not operator.output.batches
        watermark(operator, 95)
        assert [row["c5"] for row in operator.output.dicts] == [7]
        watermark(operator, 110)
        assert [row["c2"] for row in operator.output.dicts] == [None, 1]
        push(operator, 1, (at(100), "a", 8))  # late: it meets what is kept, and is not kept
        assert [(row["c2"], row["c5"]) for row in operator.output.dicts][2:] == [(2, 8)]
        watermark(operator, 111)
        assert operator.snapshot() is None
        # A result may be as old as a row that was kept.
        assert operator.output.watermarks == [84, 85, 100, 101]


def test_in_processing_time_rows_meet_those_that_arrive_near_them() -> None:
    with harness(factory("INNER", 0, 50, times=None)) as operator:
        push(operator, 0, ("a", None, 1))
        operator.advance(50)
        push(operator, 1, (None, "a", 5))
        operator.advance(1)
        push(operator, 1, (None, "a", 6))
        assert [(row["c2"], row["c5"]) for row in operator.output.dicts] == [(1, 5)]


def test_the_condition_may_leave_out_pairs_of_a_row_that_is_given_alone_then() -> None:
    with harness(factory("LEFT", 0, 5, condition=LESS)) as operator:
        push(operator, 0, ("a", at(1), 3))
        push(operator, 1, (at(2), "a", 2))
        watermark(operator, 9)
        assert [(row["c2"], row["c5"]) for row in operator.output.dicts] == [(3, None)]

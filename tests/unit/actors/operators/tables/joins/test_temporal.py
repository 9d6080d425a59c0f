"""Rows with the version of their time against versions in lists."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

from actors.operators.tables.joins.temporal import TemporalJoinOperator
from flinkray.tables.plans.expressions import Call, Column
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import BOOLEAN, INT, ROW, STRING, TIMESTAMP
from flinkray.transformations.table_join_factories import TemporalJoinFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.records import MAX_TIMESTAMP
from tests.support.rescaling import Subtasks
from tests.support.tables import Change, changes_as_batch, changes_of, fold

LEFT = ROW(("k", STRING), ("t", TIMESTAMP(3)), ("n", INT))
RIGHT = ROW(("k", STRING), ("t", TIMESTAMP(3)), ("rate", INT))
BOTH = ROW(*((f"c{place}", each.type) for place, each in enumerate((*LEFT.fields, *RIGHT.fields))))
LESS = Call(BOOLEAN, "<", (Column(INT, 2), Column(INT, 5)))
SCHEMAS = (stored_schema(LEFT), stored_schema(RIGHT))
Row = tuple[Any, ...]


def at(seconds: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)


def factory(kind: str, **options: Any) -> TemporalJoinFactory:
    given: dict[str, Any] = {"takes": (INSERTS, Changes(updates=True, deletes=True, before=False)), "times": (1, 1)}
    return TemporalJoinFactory(**{**given, **options}, input_rows=(LEFT, RIGHT), rows=BOTH, kind=kind, keys=((0, 0),))


def expected(kind: str, left: Row, rights: list[Change], has_condition: bool) -> list[Row]:
    versions = [each for each in rights if each[1][0] == left[0] is not None and each[1][1] <= left[1]]
    change, version = max(versions, key=lambda each: each[1][1], default=(3, left))
    matches = change != 3 and (not has_condition or (left[2] < version[2]))
    return [left + version] if matches else [left + (None,) * 3] if kind == "LEFT" else []


@pytest.mark.parametrize("has_condition", [False, True])
@pytest.mark.parametrize("kind", ["INNER", "LEFT"])
def test_each_row_meets_the_version_of_its_time(kind: str, has_condition: bool) -> None:
    generator = random.Random(kind)
    lefts = [
        (generator.choice(["a", "b", "c", None]), at(generator.randrange(100)), number % 4) for number in range(60)
    ]
    times = generator.sample(range(100), 50)
    rights = [
        (generator.choice([0, 2, 2, 3]), (generator.choice(["a", "b", None]), at(time), generator.randrange(4)))
        for time in times
    ]
    made = factory(kind, condition=LESS if has_condition else None)
    found = changes_of(
        lambda: TemporalJoinOperator(made),
        [([(0, row) for row in lefts], SCHEMAS[0]), (rights, SCHEMAS[1])],
        [["k"], ["k"]],
        3,
        at_end=lambda subtasks: subtasks.watermark(MAX_TIMESTAMP, 2),
    )
    assert fold(found) == fold((0, row) for left in lefts for row in expected(kind, left, rights, has_condition))


def push(subtasks: Subtasks, side: int, *changes: Change) -> None:
    subtasks.push(changes_as_batch(changes, SCHEMAS[side]), input_index=side)


def test_rows_wait_for_the_watermark_and_what_is_over_is_forgotten() -> None:
    made = factory("LEFT", takes=(Changes(updates=True, deletes=True),) * 2, gives=Changes(updates=True, deletes=True))
    subtasks = Subtasks(lambda: TemporalJoinOperator(made), (None, None))
    (harness,) = subtasks.harnesses
    push(subtasks, 0, (0, ("a", at(2), 1)), (1, ("a", at(4), 2)), (2, ("a", at(3), 3)), (0, ("a", at(9), 4)))
    # The row that an update takes back does not end the version that it was.
    push(subtasks, 1, (0, ("a", at(1), 10)), (1, ("a", at(1), 10)), (2, ("a", at(3), 11)), (0, ("a", at(3), 12)))
    assert not harness.output.batches
    subtasks.watermark(4000, 2)
    (batch,) = harness.output.batches
    assert batch.row_kinds.to_pylist() == [0, 1, 2]
    assert batch.data.column(5).to_pylist() == [10, 12, 12]
    operator = harness.operator
    assert isinstance(operator, TemporalJoinOperator)
    assert (len(operator._left), len(operator._right)) == (1, 1)
    push(subtasks, 0, (0, ("a", at(1), 5)))  # late: the versions of its time are forgotten
    push(subtasks, 1, (3, ("a", at(6), 12)))
    subtasks.watermark(10_000, 2)
    assert [batch.data.column(5).to_pylist() for batch in harness.output.batches[1:]] == [[None, None]]

"""MATCH_RECOGNIZE as an operator against a matcher written row by row, in random batches, stopped and rescaled."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.tables.matches.conditions import simple
from actors.operators.tables.matches.operator import MatchOperator
from actors.operators.tables.matches.reads import column_of, plain_values
from flinkray.errors import IncompatibleStateError
from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Call,
    Column,
    Constant,
    MatchRead,
    PatternVariable,
    SortKey,
)
from flinkray.tables.plans.nodes import row_type
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DECIMAL,
    INT,
    STRING,
    TIMESTAMP,
    TimeAttribute,
)
from flinkray.transformations.table_factories import MatchFactory
from flinkray.types.changelogs import INSERTS
from flinkray.types.keys import ColumnKey
from tests.support.rescaling import Subtasks
from tests.support.tables import changes_as_batch

TIME = TIMESTAMP(3).as_attribute(TimeAttribute.ROWTIME)
ROWS = row_type(["key", "at", "place", "price", "starts"], [STRING, TIME, INT, DECIMAL(6, 2), BOOLEAN])
PRICE = DECIMAL(6, 2)
READS = (
    MatchRead("LAST", PRICE, None, 0, 3),
    MatchRead("LAST", PRICE, "A", 0, 3),
    MatchRead("FIRST", TIMESTAMP(3), "A", 1, 1),
    MatchRead("AGGREGATE", DECIMAL(38, 2), "B", call=AggregateCall("SUM", (Column(PRICE, 3),), DECIMAL(38, 2))),
    MatchRead("AGGREGATE", BIGINT.not_null(), None, call=AggregateCall("COUNT", (), BIGINT.not_null())),
    MatchRead("ROWTIME", TIME.not_null()),
    MatchRead("AGGREGATE", ARRAY(INT), "B", call=AggregateCall("ARRAY_AGG", (Column(INT, 2),), ARRAY(INT))),
    MatchRead("AGGREGATE", INT, "A", call=AggregateCall("LAST_VALUE", (Column(INT, 2),), INT)),
)
ABOVE = Call(BOOLEAN, ">", (Column(PRICE, 0), Column(PRICE, 1)))
"""That the price of a row is above that of the last A, for which both are read."""
SCALED = Call(
    BOOLEAN, ">", (Call(DECIMAL(7, 2), "+", (Column(PRICE, 0), Constant(INT.not_null(), 0))), Column(PRICE, 1))
)
"""The same by the kernels of expressions."""
EPOCH = datetime.datetime(1970, 1, 1)
MILLISECOND = datetime.timedelta(milliseconds=1)


def factory_of(least: int, most: int, window: int | None, skip: str, condition: BoundExpression) -> MatchFactory:
    measures = [(kind, number) for number, kind in ((1, PRICE), (2, TIMESTAMP(3)), (3, DECIMAL(38, 2)), (4, BIGINT))]
    results = (*(Column(kind, number) for kind, number in measures), Column(TIME.not_null(), 5))
    results += (Column(ARRAY(INT), 6), Column(INT, 7))
    types = [STRING, PRICE, TIMESTAMP(3), DECIMAL(38, 2), BIGINT.not_null(), TIME.not_null(), ARRAY(INT), INT]
    return MatchFactory(
        input_rows=(ROWS,),
        rows=row_type(["key", "a", "second", "sum", "n", "t", "places", "place"], types),
        takes=(INSERTS,),
        keys=(0,),
        order=(SortKey(1), SortKey(2)),
        time=1,
        variables=(
            PatternVariable("A", least, least, conditions=(4,)),
            PatternVariable("B", most, most, condition=condition),
        ),
        skip=(skip, None),
        window_ms=window,
        reads=READS,
        measures=results,
        text=f"{least} {most} {window} {skip}",
    )


def expected(rows: list[tuple[Any, ...]], factory: MatchFactory) -> list[tuple[Any, ...]]:
    """The matches in the rows of a key, row by row."""
    least, most = factory.variables[0].least, factory.variables[1].least
    rows, found, begin = sorted(rows, key=lambda row: (row[1], row[2])), [], 0
    while begin + least + most <= len(rows):
        first, second = rows[begin : begin + least], rows[begin + least : begin + least + most]
        last = first[-1][3]
        is_match = all(row[4] for row in first)
        is_match &= all(row[3] is not None and last is not None and row[3] > last for row in second)
        if factory.window_ms is not None:
            is_match &= second[-1][1] - first[0][1] < datetime.timedelta(milliseconds=factory.window_ms)
        if is_match:
            total = sum((row[3] for row in second), Decimal(0))
            time = first[1][1] if least > 1 else None
            places = [row[2] for row in second]
            found.append((first[0][0], last, time, total, least + most, second[-1][1], places, first[-1][2]))
        begin += least + most if is_match and factory.skip[0] == "PAST LAST ROW" else 1
    return found


@pytest.mark.parametrize("seed", range(3))
def test_matches_are_those_that_a_walk_over_the_rows_finds(seed: int) -> None:
    for round_ in range(6):
        generator = random.Random(f"{seed} {round_}")
        condition = generator.choice([ABOVE, SCALED])
        skip = generator.choice(["PAST LAST ROW", "NEXT ROW"])
        factory = factory_of(
            generator.randint(1, 2), generator.randint(1, 2), generator.choice([None, 4, 9]), skip, condition
        )
        rows = [_row(generator, place) for place in range(80)]
        found = run(factory, rows, generator)
        keys = {row[0] for row in rows}
        wanted = [each for key in keys for each in expected([row for row in rows if row[0] == key], factory)]
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), (seed, round_)


def run(factory: MatchFactory, rows: list[tuple[Any, ...]], generator: random.Random) -> list[tuple[Any, ...]]:
    """The results for rows that come a little out of order, in random batches, with random watermarks and rescaling."""
    arriving = sorted(rows, key=lambda row: (row[1] - EPOCH) / MILLISECOND + generator.random() * 5)
    subtasks = Subtasks(lambda: MatchOperator(factory), [ColumnKey(("key",))], generator.randint(1, 3))
    found: list[tuple[Any, ...]] = []
    while arriving:
        size = generator.randint(1, 12)
        some, arriving = arriving[:size], arriving[size:]
        subtasks.push(changes_as_batch([(0, row) for row in some], stored_schema(ROWS)))
        if arriving and generator.random() < 0.6:
            subtasks.watermark(min(row[1] - EPOCH for row in arriving) // MILLISECOND - 1)
        if generator.random() < 0.2:
            found += _taken(subtasks)
            subtasks = subtasks.rescaled(generator.randint(1, 3))
    subtasks.watermark(2**50)
    return found + _taken(subtasks)


def _taken(subtasks: Subtasks) -> list[tuple[Any, ...]]:
    return [tuple(row) for row, _ in subtasks.take()]


def _row(generator: random.Random, place: int) -> tuple[Any, ...]:
    at = EPOCH + datetime.timedelta(milliseconds=generator.randint(0, 60))
    price = generator.choice([None, *(Decimal(number) / 4 for number in range(6))])
    price = None if price is None else price.quantize(Decimal("0.01"))
    return (generator.choice(["a", "b", None]), at, place, price, generator.choice([True, True, False, None]))


def test_state_of_another_pattern_is_refused() -> None:
    rows = [("a", EPOCH, 0, Decimal("1.00"), True)]
    subtasks = Subtasks(lambda: MatchOperator(factory_of(1, 1, None, "NEXT ROW", ABOVE)), [ColumnKey(("key",))])
    subtasks.push(changes_as_batch([(0, row) for row in rows], stored_schema(ROWS)))
    subtasks.watermark(5)
    snapshots = subtasks.snapshots()
    other = factory_of(1, 2, None, "NEXT ROW", ABOVE)
    with pytest.raises(IncompatibleStateError, match="written for the pattern 1 1 None NEXT ROW"):
        Subtasks(lambda: MatchOperator(other), [ColumnKey(("key",))], 1, snapshots)


def test_values_that_are_kept_lose_nothing() -> None:
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, 678_901)
    columns = [
        pa.array([1_577_934_245_678_901_234, None], pa.timestamp("ns")),
        pa.array([moment, None], pa.timestamp("us", "UTC")),
        pa.array([moment.date(), None], pa.date32()),
        pa.array([1_000, None], pa.time32("ms")),
        pa.array([Decimal("1.10"), None], pa.decimal128(38, 2)),
        pa.array([[1, None], None], pa.list_(pa.int32())),
        pa.array([{"a": b"x"}, None], pa.struct([("a", pa.binary())])),
    ]
    for column in columns:
        assert column_of(plain_values(column), column.type).equals(column)


def test_conditions_on_plain_values_are_those_of_sql() -> None:
    has_both = Call(BOOLEAN, "AND", (ABOVE, Call(BOOLEAN, "IS NOT NULL", (Column(PRICE, 1),))))
    has_one = Call(BOOLEAN, "OR", (Call(BOOLEAN, "NOT", (ABOVE,)), Call(BOOLEAN, "IS NULL", (Column(PRICE, 0),))))
    conditions = [simple(each) for each in (ABOVE, has_both, has_one)]
    cases = [((2, 1), True, True, False), ((1, 2), False, False, True), ((None, 1), None, None, True)]
    cases.append(((1, None), None, False, None))
    for (first, second), *wanted in cases:
        values = {0: first, 1: second}
        assert [each and each(values) for each in conditions] == wanted
    assert simple(SCALED) is None
    assert simple(Call(BOOLEAN, "=", (Column(PRICE, 0), Column(STRING, 1)))) is None

"""Aggregates of groups, against a model that has the rows of each group in a list."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from actors.operators.tables.aggregates.group_aggregate import GroupAggregateOperator
from actors.operators.tables.aggregates.local_aggregate import LocalAggregateOperator
from flinkray.batches.batch import Batch
from flinkray.errors import IncompatibleStateError, RecordError
from flinkray.tables.api.data_views import ListView, MapView
from flinkray.tables.plans.expressions import AggregateCall, Column, Constant
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    CHAR,
    DECIMAL,
    DOUBLE,
    INT,
    MULTISET,
    ROW,
    STRING,
    TIMESTAMP,
    LogicalType,
    RowField,
    RowType,
)
from flinkray.tables.user_functions import ARROW, AggregateFunction, Implementation
from flinkray.transformations.table_factories import GroupAggregateFactory, LocalAggregateFactory
from flinkray.types.changelogs import INSERTS, Changes
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from flinkray.types.rows import Row, RowKind
from tests.support.operators import OperatorHarness
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from
from tests.support.tables import Change, changes_as_batch, changes_of, fold, random_table_changes

ROWS = ROW(
    ("k", STRING),
    ("i", INT),
    ("f", DOUBLE),
    ("d", DECIMAL(10, 2)),
    ("s", STRING),
    ("t", TIMESTAMP(3)),
    ("p", BOOLEAN),
    ("l", ARRAY(INT)),
)
SCHEMA = stored_schema(ROWS)
NAMES = ROWS.names
ALL = Changes(updates=True, deletes=True)
TAKEN_BACK = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)
Values = list[Any]
Model = Callable[[Values], Any]


def call(function: str, column: str | None, result: LogicalType, **options: Any) -> AggregateCall:
    arguments = () if column is None else (Column(ROWS.types[NAMES.index(column)], NAMES.index(column)),)
    condition = options.pop("where", None)
    if condition is not None:
        options["filter"] = Column(BOOLEAN, NAMES.index(condition))
    return AggregateCall(
        function, (*options.pop("before", ()), *arguments, *options.pop("more", ())), result, **options
    )


def some(model: Model) -> Model:
    """NULL where there are no values."""
    return lambda values: model(values) if values else None


def truncated(total: int, count: int) -> int:
    return abs(total) // abs(count) * (1 if total >= 0 else -1)


def spread(values: Values, is_sample: bool) -> float | None:
    count = len(values) - is_sample
    return (sum(v * v for v in values) - sum(values) ** 2 / len(values)) / count if count else None


def integer_variance(values: Values) -> int:
    return int(spread([float(v) for v in values], False) or 0)


def decimal_variance(values: Values) -> Decimal:
    return Decimal(spread([float(v) for v in values], False) or 0).quantize(Decimal("1e-6"))


def mean(values: Values) -> Decimal:
    return Decimal(sum(values) / len(values)).quantize(Decimal("1e-6"), ROUND_HALF_UP)


def in_json(values: Values) -> str:
    return json.dumps(values, separators=(",", ":"))


def percentile(values: Values, share: float, times: int = 1) -> float:
    """Between the two values nearest to a place, each of which is there so many times."""
    ordered = sorted(float(value) for value in values for _ in range(times))
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


NULL_ON_NULL = Constant(CHAR(4), "NULL")
ABSENT = Constant(CHAR(6), "ABSENT")


class Total(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def accumulate(self, accumulator: list[int], *args: int | None) -> None:
        self._change(accumulator, args[0], 1)

    def retract(self, accumulator: list[int], *args: int | None) -> None:
        self._change(accumulator, args[0], -1)

    def _change(self, accumulator: list[int], value: int | None, sign: int) -> None:
        if value is not None:
            accumulator[0] += sign * value
            accumulator[1] += sign

    def get_value(self, accumulator: list[int]) -> int | None:
        return accumulator[0] if accumulator[1] else None


class Joined(AggregateFunction):
    """The texts of a group in order, from a list and a map in the accumulator."""

    def create_accumulator(self) -> Row:
        return Row(ListView(), MapView())

    def accumulate(self, accumulator: Row, *args: str | None) -> None:
        (text,) = args
        if text is not None and text in accumulator[1]:
            accumulator[1].put(text, accumulator[1].get(text) + 1)
        elif text is not None:
            accumulator[0].add(text)
            accumulator[1][text] = 1

    def retract(self, accumulator: Row, *args: str | None) -> None:
        (text,) = args
        if text is not None:
            accumulator[1][text] -= 1
            if not accumulator[1][text]:
                accumulator[1].remove(text)
                kept = [each for each in accumulator[0] if each != text]
                accumulator[0].clear()
                accumulator[0].add_all(kept)

    def get_value(self, accumulator: Row) -> str | None:
        texts, counts = accumulator
        return ",".join(f"{text}{counts[text]}" for text in sorted(texts)) if not counts.is_empty() else None


def extent(column: pa.Array) -> pa.Scalar:
    return pc.subtract(pc.max(column), pc.min(column))


FUNCTIONS = (
    ("total", Implementation("Total", Total())),
    ("extent", Implementation("extent", extent, ARROW)),
    ("joined", Implementation("Joined", Joined())),
)
CALLS: list[tuple[AggregateCall, Model]] = [
    (call("total", "i", BIGINT), some(sum)),
    (call("total", "i", BIGINT, where="p"), some(sum)),
    (call("joined", "s", STRING), some(lambda texts: ",".join(f"{k}{n}" for k, n in sorted(Counter(texts).items())))),
    (call("extent", "f", DOUBLE), some(lambda values: max(values) - min(values))),
    (call("COUNT", None, BIGINT), len),
    (call("COUNT", "s", BIGINT, where="p"), len),
    (call("SUM", "i", INT), some(sum)),
    (call("SUM", "f", DOUBLE), some(sum)),
    (call("SUM", "d", DECIMAL(38, 2)), some(sum)),
    (call("SUM", "i", INT, where="p"), some(sum)),
    (call("SUM", "i", INT, distinct=True), some(lambda values: sum(set(values)))),
    (call("AVG", "i", INT), some(lambda values: truncated(sum(values), len(values)))),
    (call("AVG", "f", DOUBLE), some(lambda values: sum(values) / len(values))),
    (call("AVG", "d", DECIMAL(38, 6)), some(mean)),
    *((call(name, column, ROWS.types[NAMES.index(column)]), some(model))
      for name, model in (("MIN", min), ("MAX", max)) for column in "ifdstp"),
    (call("MAX", "s", STRING, where="p", distinct=True), some(max)),
    (call("COUNT", "s", BIGINT, distinct=True), lambda values: len(set(values))),
    (call("COUNT", "s", BIGINT, distinct=True, where="p"), lambda values: len(set(values))),
    (call("APPROX_COUNT_DISTINCT", "d", BIGINT), lambda values: len(set(values))),
    (call("FIRST_VALUE", "s", STRING), some(lambda values: values[0])),
    (call("LAST_VALUE", "t", TIMESTAMP(3)), some(lambda values: values[-1])),
    (call("LAST_VALUE", "l", ARRAY(INT)), some(lambda values: values[-1])),
    (call("LISTAGG", "s", STRING), some(",".join)),
    (call("LISTAGG", "s", STRING, more=(Constant(STRING, "; "),), where="p"), some("; ".join)),
    (call("COLLECT", "s", MULTISET(STRING)), lambda values: sorted(Counter(values).items())),
    (call("ARRAY_AGG", "i", ARRAY(INT), ignore_nulls=True), some(list)),
    (call("JSON_ARRAYAGG", "i", STRING, before=(ABSENT,)), in_json),
    (call("PERCENTILE", "i", DOUBLE, more=(Constant(DOUBLE, 0.3),)), some(lambda values: percentile(values, 0.3))),
    (call("PERCENTILE", "d", DOUBLE, more=(Constant(DOUBLE, 0.1), Constant(INT, 3)), where="p"),
     some(lambda values: percentile(values, 0.1, 3))),
    (call("PERCENTILE", "f", DOUBLE, more=(Constant(DOUBLE, 0.5),), distinct=True),
     some(lambda values: percentile(sorted(set(values)), 0.5))),
    (call("VAR_POP", "f", DOUBLE), some(lambda values: spread(values, False))),
    (call("VAR_SAMP", "f", DOUBLE), some(lambda values: spread(values, True))),
    (call("VAR_POP", "i", INT), some(integer_variance)),
    (call("VAR_POP", "d", DECIMAL(38, 6)), some(decimal_variance)),
    (call("STDDEV_POP", "f", DOUBLE), some(lambda values: math.sqrt(spread(values, False) or 0))),
]  # fmt: skip


def expected_results(changes: Sequence[Change], calls: Sequence[tuple[AggregateCall, Model]]) -> tuple[Any, ...]:
    """The results of a group; what is taken back is the first value of an aggregate that is equal."""
    results = []
    for each, model in calls:
        column = next((arg.index for arg in each.arguments if isinstance(arg, Column)), None)
        values: list[Any] = []
        for kind, row in changes:
            value = row if column is None else row[column]
            if value is None or not (each.filter is None or row[each.filter.index]):  # type: ignore[attr-defined]
                continue
            values.remove(value) if kind in TAKEN_BACK else values.append(value)
        results.append(model(values))
    return tuple(results)


def factory(calls: Sequence[AggregateCall], keys: tuple[int, ...] = (0,), **options: Any) -> GroupAggregateFactory:
    fields = [ROWS.fields[key] for key in keys]
    results = RowType((*fields, *(RowField(f"r{place}", each.type) for place, each in enumerate(calls))))
    given = {"takes": (INSERTS,), "gives": ALL, "text": "", "functions": FUNCTIONS, **options}
    return GroupAggregateFactory(input_rows=(ROWS,), rows=results, keys=keys, calls=tuple(calls), **given)


def random_row(generator: random.Random) -> tuple[Any, ...]:
    def maybe(value: Any) -> Any:
        return None if generator.random() < 0.2 else value

    number = generator.randrange(-3, 4)
    return (
        generator.choice(["a", "b", None]),
        maybe(number),
        maybe(number / 4),
        maybe(Decimal(generator.randrange(-500, 500)) / 100),
        maybe(generator.choice(["x", "y", "zz", ""])),
        maybe(generator.randrange(5)),
        maybe(generator.random() < 0.5),
        maybe([number, None]),
    )


def hashable(row: Sequence[Any]) -> tuple[Any, ...]:
    """Doubles without their last digits, which are those of the order in which they are computed."""
    row = [round(each, 9) if isinstance(each, float) else each for each in row]
    return tuple(tuple(sorted(each)) if isinstance(each, list) and each and isinstance(each[0], tuple) else each
                 if not isinstance(each, list) else tuple(each) for each in row)  # fmt: skip


@pytest.mark.parametrize("keys", [(0,), ()])
@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_each_group_has_the_results_of_its_rows(seed: int, retracts: bool, keys: tuple[int, ...]) -> None:
    changes = random_table_changes(seed, 60, random_row, deletes=0.45 if retracts else 0)
    cast = changes_as_batch(changes, SCHEMA).data.to_pylist()
    changes = [(kind, tuple(row.values())) for (kind, _), row in zip(changes, cast, strict=True)]
    groups: dict[Any, list[Change]] = {} if keys else {(): []}
    for kind, row in changes:
        groups.setdefault(row[:1] if keys else (), []).append((kind, row))
    expected = [
        (*key, *expected_results(of_key, CALLS))
        for key, of_key in groups.items()
        if not keys or sum(-1 if kind in TAKEN_BACK else 1 for kind, _ in of_key)
    ]
    made = factory([each for each, _ in CALLS], keys, takes=(ALL if retracts else INSERTS,))
    found = changes_of(lambda: GroupAggregateOperator(made), [(changes, SCHEMA)], [["k"] if keys else []], seed)
    assert fold((kind, hashable(row)) for kind, row in found) == Counter(map(hashable, expected))


@pytest.mark.parametrize("retracts", [False, True])
def test_what_comes_before_a_snapshot_is_written_is_not_in_it(retracts: bool) -> None:
    changes = random_table_changes(7, 60, random_row, deletes=0.45 if retracts else 0)
    batches = [changes_as_batch(changes[start : start + 15], SCHEMA) for start in range(0, len(changes), 15)]
    made = factory([each for each, _ in CALLS], takes=(ALL if retracts else INSERTS,))
    keys = [ColumnKey(("k",))]
    straight, stopped = (Subtasks(lambda: GroupAggregateOperator(made), keys) for _ in range(2))
    for batch in batches[:2]:
        straight.push(batch)
        stopped.push(batch)

    def go_on(former: Subtasks) -> None:
        for batch in batches[2:]:
            former.push(batch)

    restored = stopped.rescaled(1, go_on)
    before = len(straight.harnesses[0].output.batches)
    for batch in batches[2:]:
        straight.push(batch)
        restored.push(batch)
    expected = [each for batch in straight.harnesses[0].output.batches[before:] for each in in_rows(batch)]
    # Of groups that came with one batch, which one is given first is the order of their numbers.
    assert Counter(map(repr, changes_from(restored.harnesses[0]))) == Counter(map(repr, expected))


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("keys", [(0,), ()])
def test_two_phases_give_what_one_gives(keys: tuple[int, ...], retracts: bool) -> None:
    merged = {"COUNT", "SUM", "AVG", "VAR_POP", "VAR_SAMP"} | (set() if retracts else {"MIN", "MAX"})
    calls = tuple(each for each, _ in CALLS if each.function in merged and not each.distinct)
    takes = (ALL if retracts else INSERTS,)
    made = factory(calls, keys, takes=takes)
    kept = RowType(tuple(ROWS.fields[key] for key in keys))
    local = LocalAggregateFactory(input_rows=(ROWS,), rows=kept, takes=takes, keys=keys, calls=calls)
    selectors = (ColumnKey(("k",)) if keys else None,)
    changes = random_table_changes(5, 80, random_row, deletes=0.45 if retracts else 0)
    batches = [changes_as_batch(changes[start : start + 7], SCHEMA) for start in range(0, len(changes), 7)]
    with (
        OperatorHarness(GroupAggregateOperator(made), keys=selectors) as single,
        OperatorHarness(LocalAggregateOperator(local)) as first,
        OperatorHarness(GroupAggregateOperator(replace(made, merges=True)), keys=selectors) as second,
    ):
        for batch in batches:
            single.push(batch)
            first.push(batch)
        for batch in first.output.batches:
            second.push(batch)
        one_phase, two_phases = (
            [(kind, hashable(row)) for kind, row in changes_from(each)] for each in (single, second)
        )
        assert fold(two_phases) == fold(one_phase)


def changes_from(harness: OperatorHarness) -> list[Change]:
    return [change for batch in harness.output.batches for change in in_rows(batch)]


def in_rows(batch: Batch) -> list[Change]:
    rows = map(dict.values, batch.data.to_pylist())
    return list(zip(batch.row_kinds.to_pylist(), map(tuple, rows), strict=True))


COUNT = call("COUNT", None, BIGINT)


def given(made: GroupAggregateFactory, *batches: list[Change], **context: Any) -> list[Change]:
    """What an operator gives for batches of changes of rows (key, number)."""
    with OperatorHarness(
        GroupAggregateOperator(made), keys=(ColumnKey(("k",)) if made.keys else None,), **context
    ) as one:
        for changes in batches:
            one.push(changes_as_batch([(kind, (*row, *[None] * 6)) for kind, row in changes], SCHEMA))
        one.watermark(MAX_TIMESTAMP)
        batch_rows = [
            zip(each.row_kinds.to_pylist(), each.data.to_pylist(), strict=True) for each in one.output.batches
        ]
        return [(kind, tuple(row.values())) for rows in batch_rows for kind, row in rows]


@pytest.mark.parametrize("before", [False, True])
def test_a_group_changes_once_a_batch_and_only_where_its_results_do(before: bool) -> None:
    made = factory(
        [COUNT, call("MAX", "i", INT)], takes=(ALL,), gives=Changes(updates=True, deletes=True, before=before)
    )
    found = given(
        made,
        [(0, ("a", 1)), (0, ("a", 2)), (0, ("b", 1))],
        [(1, ("a", 2)), (2, ("a", 2)), (0, ("b", 5))],
        [(3, ("b", 1)), (3, ("b", 5)), (0, ("c", 1)), (3, ("c", 1))],
    )
    updates = [(1, ("b", 1, 1)), (2, ("b", 2, 5))]
    assert found == [(0, ("a", 2, 2)), (0, ("b", 1, 1)), *updates[not before :], (3, ("b", 2, 5))]


def test_rows_taken_back_of_a_group_that_is_not_there_are_left_out() -> None:
    made = factory([COUNT, call("SUM", "i", INT)], takes=(ALL,))
    found = given(made, [(3, ("a", 1)), (1, ("b", 1)), (0, ("b", 2)), (3, ("b", 9))], [(0, ("a", 5)), (0, ("b", 3))])
    # Of b, one row has come and another one was taken back: nothing is left of it.
    assert found == [(0, ("a", 1, 5)), (0, ("b", 1, 3))]


def test_what_the_first_phase_has_taken_back_of_a_group_that_is_not_there_is_left_out() -> None:
    calls = (COUNT, call("SUM", "i", INT))
    local = LocalAggregateFactory(
        input_rows=(ROWS,), rows=RowType(ROWS.fields[:1]), takes=(ALL,), keys=(0,), calls=calls
    )
    two = replace(factory(calls, takes=(ALL,)), merges=True)
    with (
        OperatorHarness(LocalAggregateOperator(local)) as first,
        OperatorHarness(GroupAggregateOperator(two), keys=(ColumnKey(("k",)),)) as second,
    ):
        for kind in (3, 0):
            first.push(changes_as_batch([(kind, ("a", 5, *[None] * 6))], SCHEMA))
        for batch in first.output.batches:
            second.push(batch)
        assert changes_from(second) == [(0, ("a", 1, 5))]


def test_a_group_of_which_more_was_taken_back_than_came_stays_until_as_much_has_come() -> None:
    made = factory([COUNT], takes=(ALL,))
    found = given(made, [(0, ("a", 1)), (3, ("a", 2)), (3, ("a", 3))], [(0, ("a", 1))])
    assert found == [(0, ("a", -1)), (3, ("a", -1))]


def test_without_keys_there_is_a_result_from_the_first_row_on() -> None:
    calls = [COUNT, call("SUM", "i", INT)]
    empty, one = (0, None), (1, 7)
    assert given(factory(calls, (), takes=(ALL,)), []) == []
    assert given(factory(calls, (), takes=(ALL,)), [(0, ("a", 7))], [(3, ("a", 7))]) == [(0, one), (1, one), (2, empty)]


def test_a_key_of_json_objectagg_has_one_value_which_may_be_replaced() -> None:
    key = Column(STRING, 0)
    made = factory(
        [call("JSON_OBJECTAGG", "i", STRING.not_null(), before=(Constant(CHAR(4), "NULL"), key))], (), takes=(ALL,)
    )
    first, other = (0, ("a", 1)), (0, ("b", 2))
    found = given(made, [other, first], [(1, ("a", 1)), (2, ("a", 3))])
    assert [row for _, row in found] == [('{"a":1,"b":2}',), ('{"a":1,"b":2}',), ('{"a":3,"b":2}',)]
    for batches in ([[first, other, first]], [[first, other], [first]]):
        with pytest.raises(RecordError, match="JSON_OBJECTAGG has the key 'a' twice"):
            given(made, *batches)


def distinct_in_ways(rows: list[tuple[Any, ...]], ways: int) -> tuple[int, ...]:
    """How many values there are in all, and where each of the first flags behind the value is set."""
    return (len({row[1] for row in rows}), *(len({row[1] for row in rows if row[2 + way]}) for way in range(ways)))


@pytest.mark.parametrize("ways", [3, 80])
def test_distinct_values_are_told_apart_by_each_of_their_filters(ways: int) -> None:
    # Of a value that comes several times in a batch, each row may be the first that one of the filters takes.
    generator = random.Random(ways)
    flags = tuple((f"f{way}", BOOLEAN) for way in range(ways))
    wide = ROW(("k", STRING), ("i", INT), *flags)
    filters = [None, *(Column(BOOLEAN, 2 + way) for way in range(ways))]
    calls = tuple(AggregateCall("COUNT", (Column(INT, 1),), BIGINT, distinct=True, filter=each) for each in filters)
    rows = RowType((wide.fields[0], *(RowField(f"r{place}", BIGINT) for place in range(len(calls)))))
    made = GroupAggregateFactory(
        input_rows=(wide,), rows=rows, takes=(INSERTS,), gives=ALL, keys=(0,), calls=calls, text=""
    )
    so_far: dict[str, list[tuple[Any, ...]]] = {"a": [], "b": []}
    with OperatorHarness(GroupAggregateOperator(made), keys=(ColumnKey(("k",)),)) as one:
        for _ in range(4):
            batch = [
                (generator.choice("ab"), generator.randrange(8), *(generator.random() < 0.3 for _ in range(ways)))
                for _ in range(12)
            ]
            for row in batch:
                so_far[row[0]].append(row)
            one.push(changes_as_batch([(0, row) for row in batch], stored_schema(wide)))
        found = {row[0]: row[1:] for _, row in changes_from(one)}
    assert found == {key: distinct_in_ways(of_key, ways) for key, of_key in so_far.items()}


def test_distinct_values_that_were_counted_go_on_where_nothing_is_taken_back_but_not_the_other_way_round() -> None:
    calls = [call("COUNT", "i", BIGINT, distinct=True), call("COUNT", "i", BIGINT, distinct=True, where="p")]
    rows = [(0, ("a", number, None, None, None, None, number == 1, None)) for number in (1, 2, 2)]
    keys, operators = (ColumnKey(("k",)),), [factory(calls, takes=(takes,)) for takes in (ALL, INSERTS)]
    counted, seen = (OperatorHarness(GroupAggregateOperator(each), keys=keys) for each in operators)
    for each in (counted, seen):
        each.push(changes_as_batch(rows, SCHEMA))
    restored = restored_from([counted.snapshot()], range(128))
    with OperatorHarness(GroupAggregateOperator(operators[1]), keys=keys, restored=restored) as after:
        after.push(changes_as_batch([(0, (*row[:6], True, None)) for _, row in rows], SCHEMA))
        assert changes_from(after) == [(1, ("a", 2, 1)), (2, ("a", 2, 2))]
    with pytest.raises(IncompatibleStateError, match=r"operator 'op' .*written when rows were only added to its"):
        OperatorHarness(
            GroupAggregateOperator(operators[0]), keys=keys, restored=restored_from([seen.snapshot()], range(128))
        )


def test_in_batch_mode_results_come_at_the_end() -> None:
    made = factory([COUNT, call("SUM", "i", INT)])
    assert given(made, [(0, ("a", 1)), (0, (None, 2))], [(0, ("a", 3))], is_batch=True) == [
        (0, ("a", 2, 4)),
        (0, (None, 1, 2)),
    ]
    assert given(factory([COUNT, call("SUM", "i", INT)], ()), is_batch=True) == [(0, (0, None))]


def test_groups_that_were_not_written_for_their_time_to_live_begin_anew() -> None:
    calls = [
        COUNT,
        call("COUNT", "i", BIGINT, distinct=True),
        call("MIN", "i", INT),
        call("ARRAY_AGG", "i", ARRAY(INT)),
    ]
    made = factory(calls, takes=(ALL,), state_ttl_ms=Millis(100))
    with OperatorHarness(GroupAggregateOperator(made), keys=(ColumnKey(("k",)),)) as one:
        for number in (1, 2, 3):
            one.push(changes_as_batch([(0, ("a", number, *[None] * 6))], SCHEMA))
            one.advance(40 if number == 1 else 120)
        assert [tuple(row.values()) for row in one.output.dicts] == [
            ("a", 1, 1, 1, [1]),
            ("a", 1, 1, 1, [1]),
            ("a", 2, 2, 1, [1, 2]),
            ("a", 1, 1, 3, [3]),
        ]


def test_with_a_time_to_live_each_batch_of_a_group_is_passed_on_so_that_nothing_behind_forgets_it() -> None:
    made = factory([call("MAX", "i", INT)], state_ttl_ms=Millis(100))
    assert given(made, [(0, ("a", 2))], [(0, ("a", 1))]) == [(0, ("a", 2)), (1, ("a", 2)), (2, ("a", 2))]


def test_integers_wrap_and_decimals_that_do_not_fit_are_null() -> None:
    most, wide = 2**31 - 1, ROW(("d", DECIMAL(38, 0)), ("i", INT))
    arguments = [(Column(each, place),) for place, each in enumerate(wide.types)]
    calls = (AggregateCall("SUM", arguments[0], DECIMAL(38, 0)), AggregateCall("SUM", arguments[1], INT))
    rows = RowType((RowField("d", DECIMAL(38, 0)), RowField("i", INT)))
    made = GroupAggregateFactory(input_rows=(wide,), rows=rows, takes=(ALL,), gives=ALL, keys=(), calls=calls, text="")
    large, least = Decimal("9" * 38), Decimal("-" + "9" * 38)  # arithmetic would round them
    with OperatorHarness(GroupAggregateOperator(made)) as one:
        for kind, sign in ((0, 1), (0, 1), (3, 1), (3, 1), (0, -1), (0, -1), (3, -1)):
            one.push(changes_as_batch([(kind, (large if sign > 0 else least, sign * most))], stored_schema(wide)))
        found = [row for kind, row in changes_from(one) if kind != 1]
    assert found == [
        (large, most), (None, -2), (large, most), (None, None), (least, -most), (None, 2), (least, -most)
    ]  # fmt: skip


def test_groups_that_are_gone_are_forgotten_with_their_values() -> None:
    calls = [COUNT, call("COUNT", "i", BIGINT, distinct=True), call("MIN", "s", STRING), call("LISTAGG", "s", STRING)]
    made = factory(calls, takes=(ALL,))
    operator = GroupAggregateOperator(made)

    def batch(first: int, kind: int) -> list[Change]:
        return [(kind, (str(each), each, None, None, str(each), *[None] * 3)) for each in range(first, first + 3000)]

    with OperatorHarness(operator, keys=(ColumnKey(("k",)),)) as one:
        for first in range(0, 15_000, 3000):
            one.push(changes_as_batch(batch(first, 0), SCHEMA))
            if first:
                one.push(changes_as_batch(batch(first, 3), SCHEMA))
        one.push(changes_as_batch(batch(0, 0), SCHEMA))
        assert len(operator.keys) < 10_000
        assert one.output.dicts[-1] == {"k": "2999", "r0": 2, "r1": 1, "r2": "2999", "r3": "2999,2999"}

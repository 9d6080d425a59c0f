"""Running aggregates against a model that goes row by row over dicts."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.operators.registry import create_operator
from flinkray.errors import InvalidProgramError, TypeMismatchError, UnknownColumnError
from flinkray.expressions.tree import col
from flinkray.transformations.operator_factories import RunningAggregateFactory, RunningColumnFactory
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.windows.aggregates import (
    Aggregate,
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)
from tests.support.operators import OperatorHarness, as_batch, code
from tests.support.state import restored_from
from tests.support.versions import arrow_array

KEY = ColumnKey(("k",))


def harness(factory: Any, key: Any = KEY, restored: Any = None) -> OperatorHarness:
    return OperatorHarness(create_operator([code(factory, key)], ["totals"]), keys=[key], restored=restored)


def not_null(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["v"] for row in rows if row["v"] is not None]


def fold_sum(values: list[Any]) -> Any:
    total: Any = None
    for value in values:
        total = value if total is None else total + value
    return total


def best_row(rows: list[dict[str, Any]], is_max: bool) -> Any:
    best: Any = None
    for row in rows:
        if row["by"] is not None and (best is None or (row["by"] > best["by"] if is_max else row["by"] < best["by"])):
            best = row
    return None if best is None else best["v"]


def top_rows(rows: list[dict[str, Any]]) -> list[Any]:
    ordered = [row for row in rows if row["by"] is not None]
    return [row["v"] for row in sorted(ordered, key=lambda row: row["by"], reverse=True)[:2]]


MODELS: dict[str, tuple[Aggregate, Any]] = {
    "rows": (Count(), len),
    "count": (Count("v"), lambda rows: len(not_null(rows))),
    "sum": (Sum("v"), lambda rows: fold_sum(not_null(rows))),
    "avg": (Avg("v"), lambda rows: float(sum(not_null(rows))) / len(not_null(rows)) if not_null(rows) else None),
    "min": (Min("v"), lambda rows: min(not_null(rows), default=None)),
    "max": (Max("v"), lambda rows: max(not_null(rows), default=None)),
    "first": (First("v"), lambda rows: next(iter(not_null(rows)), None)),
    "last": (Last("v"), lambda rows: next(reversed(not_null(rows)), None)),
    "distinct": (CountDistinct("v"), lambda rows: len(set(not_null(rows)))),
    "at_min": (ArgMin("v", by="by"), lambda rows: best_row(rows, False)),
    "at_max": (ArgMax("v", by="by"), lambda rows: best_row(rows, True)),
    "top": (TopN("v", n=2), lambda rows: sorted(not_null(rows), reverse=True)[:2] or None),
    "at_top": (TopN("v", n=2, by="by"), lambda rows: top_rows(rows) or None),
    "list": (CollectList("v"), lambda rows: not_null(rows) or None),
}
ORDER_ONLY = [name for name in MODELS if name not in ("sum", "avg")]
VALUES: dict[pa.DataType, tuple[st.SearchStrategy[Any], list[str]]] = {
    pa.int64(): (st.integers(-5, 5), list(MODELS)),
    pa.int8(): (st.integers(-128, 127), list(MODELS)),
    pa.float64(): (st.integers(-4, 4).map(lambda i: i / 4), list(MODELS)),
    pa.string(): (st.sampled_from(["", "a", "b", "ab"]), ORDER_ONLY),
    pa.decimal128(10, 2): (st.integers(-300, 300).map(lambda i: Decimal(i) / 100), [*ORDER_ONLY, "sum"]),
    pa.bool_(): (st.booleans(), list(MODELS)),
    pa.uuid(): (st.sampled_from([UUID(int=0), UUID(int=2**127), UUID(int=7)]), ORDER_ONLY),
    pa.date32(): (st.dates(), ORDER_ONLY),
    pa.timestamp("ms"): (st.datetimes().map(lambda d: d.replace(microsecond=0)), ORDER_ONLY),
}


@st.composite
def streams(draw: st.DrawFn) -> tuple[pa.DataType, list[list[dict[str, Any]]]]:
    arrow_type = draw(st.sampled_from(list(VALUES)))
    row = st.fixed_dictionaries(
        {
            "k": st.sampled_from(["x", "y", None]),
            "v": st.none() | VALUES[arrow_type][0],
            "by": st.none() | st.integers(0, 3),
        }
    )
    return arrow_type, draw(st.lists(st.lists(row, min_size=1, max_size=10), min_size=1, max_size=3))


def batch_of(rows: list[dict[str, Any]], arrow_type: pa.DataType) -> pa.RecordBatch:
    schema = pa.schema([("k", pa.string()), ("v", arrow_type), ("by", pa.int64())])
    return pa.RecordBatch.from_arrays(
        [arrow_array([row[field.name] for row in rows], field.type) for field in schema], schema=schema
    )


@given(streams(), st.booleans())
@example((pa.uuid(), [[{"k": "x", "v": None, "by": None}]]), True)
@settings(max_examples=50, deadline=None)
def test_each_row_gets_the_aggregate_of_its_key_so_far(
    stream: tuple[pa.DataType, list[list[dict[str, Any]]]], restores: bool
) -> None:
    arrow_type, batches = stream
    names = VALUES[arrow_type][1]
    factory = RunningAggregateFactory(tuple((name, MODELS[name][0]) for name in names))
    driven = harness(factory)
    seen: dict[Any, list[dict[str, Any]]] = {}
    for rows in batches:
        expected = []
        for row in rows:
            so_far = seen.setdefault(row["k"], [])
            so_far.append(row)
            expected.append({"k": row["k"], **{name: MODELS[name][1](so_far) for name in names}})
        driven.output.clear()
        driven.push(batch_of(rows, arrow_type))
        assert driven.output.dicts == expected
        if restores:
            driven = harness(factory, restored=restored_from([driven.snapshot()], range(128)))


def test_long_segments_and_many_keys_agree_with_adding_row_after_row() -> None:
    rows = [{"k": "hot" if i % 3 else f"k{i % 50}", "v": math.sin(i) * 10 ** (i % 9), "by": i % 7} for i in range(3000)]
    driven = harness(RunningAggregateFactory((("sum", Sum("v")), ("n", Count()), ("at", ArgMax("v", by="by")))))
    for start in (0, 1700):
        driven.push(batch_of(rows[start : start + 1700], pa.float64()))
    sums: dict[str, float] = {}
    for row, result in zip(rows, driven.output.dicts, strict=True):
        sums[row["k"]] = sums[row["k"]] + row["v"] if row["k"] in sums else row["v"]
        assert result["sum"] == sums[row["k"]], "to the last bit"


def test_one_keys_infinity_does_not_touch_another_key() -> None:
    driven = harness(RunningAggregateFactory((("sum", Sum("v")), ("max", Max("v")))))
    driven.push({"k": ["a", "b", "a"], "v": [math.inf, 1.0, -math.inf]})
    assert math.isnan(driven.output.dicts[2]["sum"])
    assert driven.output.dicts[1] == {"k": "b", "sum": 1.0, "max": 1.0}


def test_nan_is_an_extreme_only_where_there_is_nothing_else() -> None:
    driven = harness(RunningAggregateFactory((("min", Min("v")), ("at", ArgMin("k", by="v")))))
    driven.push({"k": ["a", "a", "a"], "v": [math.nan, 2.0, math.nan]})
    assert math.isnan(driven.output.dicts[0]["min"])
    assert [row["min"] for row in driven.output.dicts[1:]] == [2.0, 2.0]


def test_a_column_may_widen_between_batches() -> None:
    driven = harness(RunningAggregateFactory((("sum", Sum("v")), ("max", Max("v")), ("first", First("v")))))
    driven.push({"k": ["a", "a"], "v": pa.nulls(2)})
    driven.push({"k": ["a", "b"], "v": [3, None]})
    driven.push({"k": ["a", "b"], "v": [0.5, 1.5]})
    assert driven.output.dicts[-4:] == [
        {"k": "a", "sum": 3, "max": 3, "first": 3},
        {"k": "b", "sum": None, "max": None, "first": None},
        {"k": "a", "sum": 3.5, "max": 3.0, "first": 3.0},
        {"k": "b", "sum": 1.5, "max": 1.5, "first": 1.5},
    ]


VALUES_OF_V: dict[str, Aggregate] = {
    "min": Min("v"), "max": Max("v"), "first": First("v"), "last": Last("v"), "at_min": ArgMin("v", by="v"),
    "list": CollectList("v"), "top": TopN("v", 1), "distinct": CountDistinct("v"),
}  # fmt: skip


def test_times_stay_the_same_times_when_their_unit_becomes_finer() -> None:
    driven = harness(RunningAggregateFactory(tuple(VALUES_OF_V.items())))
    early, middle, late = (datetime(2024, 1, 1, 0, 0, second) for second in (1, 30, 59))
    driven.push({"k": ["a", "a"], "v": pa.array([middle, early], pa.timestamp("s"))})
    driven.push({"k": ["a"], "v": pa.array([late], pa.timestamp("ms"))})
    assert driven.output.dicts[-1] == {
        "k": "a", "min": early, "max": late, "first": middle, "last": late, "at_min": early,
        "list": [middle, early, late], "top": [late], "distinct": 3,
    }  # fmt: skip


def test_whole_numbers_and_then_decimals_aggregate_as_decimals() -> None:
    driven = harness(RunningAggregateFactory((*VALUES_OF_V.items(), ("sum", Sum("v")), ("avg", Avg("v")))))
    driven.push({"k": ["a", "a"], "v": [3, -7]})
    driven.push({"k": ["a"], "v": pa.array([Decimal("4.5")], pa.decimal128(5, 1))})
    driven.push({"k": ["a"], "v": pa.array([Decimal("0.25")], pa.decimal128(2, 2))})
    assert driven.output.dicts[-1] == {
        "k": "a", "min": -7, "max": Decimal("4.5"), "first": 3, "last": Decimal("0.25"), "at_min": -7,
        "list": [3, -7, Decimal("4.5"), Decimal("0.25")], "top": [Decimal("4.5")], "distinct": 4,
        "sum": Decimal("0.75"), "avg": 0.1875,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["min", "max", "first", "last", "at_min", "distinct"])
def test_a_number_that_the_wider_type_cannot_hold_is_an_error(name: str) -> None:
    too_large = (pa.array([2**63 + 5], pa.uint64()), pa.array([7])), (pa.array([2**53 + 1]), pa.array([0.5]))
    for before, after in too_large:
        driven = harness(RunningAggregateFactory(((name, VALUES_OF_V[name]),)))
        driven.push({"k": ["a"], "v": before})
        with pytest.raises(TypeMismatchError, match=rf"for column '{name}'"):
            driven.push({"k": ["a"], "v": after})


def test_a_decimal_sum_that_a_larger_scale_cannot_hold_is_an_error_and_never_another_number() -> None:
    # Arrow's own cast gives 955136920807832054.185...
    driven = harness(RunningAggregateFactory((("sum", Sum("v")),)))
    driven.push({"k": ["a"], "v": pa.array([Decimal("123456789012345678901")], pa.decimal128(38, 0))})
    with pytest.raises(TypeMismatchError, match=r"for column 'sum'.*fits decimal128\(38, 20\).*output_type="):
        driven.push({"k": ["a"], "v": pa.array([Decimal(1)], pa.decimal128(38, 20))})


@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1]])
def test_an_integer_sum_that_overflows_names_the_operator_and_the_way_out(values: list[int]) -> None:
    driven = harness(RunningAggregateFactory((("total", Sum("v")),)))
    with pytest.raises(TypeMismatchError, match=r"operator 'op'.*'total'.*overflows; cast the column to double"):
        driven.push({"k": ["a", "a"], "v": values})


def test_sums_next_to_the_limit_are_exact() -> None:
    driven = harness(RunningAggregateFactory((("total", Sum("v")),)))
    driven.push({"k": ["a", "b", "a"], "v": [2**63 - 2, -(2**63), 1]})
    assert [row["total"] for row in driven.output.dicts] == [2**63 - 2, -(2**63), 2**63 - 1]


def test_decimal_sums_are_exact_and_a_sum_of_39_digits_is_refused() -> None:
    driven = harness(RunningAggregateFactory((("total", Sum("v")),)))
    large = Decimal("9" * 36 + ".99")
    driven.push({"k": ["a", "a", "b"], "v": pa.array([large.copy_negate(), large, large], pa.decimal128(38, 2))})
    assert [row["total"] for row in driven.output.dicts] == [large.copy_negate(), Decimal(0), large]
    with pytest.raises(TypeMismatchError, match=r"does not fit decimal128\(38, 2\)"):
        driven.push({"k": ["b"], "v": pa.array([Decimal("0.01")], pa.decimal128(38, 2))})


def test_means_of_decimals_are_exact_and_go_on_after_a_restore() -> None:
    driven = harness(RunningAggregateFactory((("mean", Avg("v")),)))
    driven.push({"k": ["a"] * 1000, "v": pa.array([Decimal("0.1")] * 1000, pa.decimal128(5, 1))})
    assert {row["mean"] for row in driven.output.dicts} == {Decimal("0.1")}
    driven.push(
        {"k": ["b", "a", "b", "b"], "v": pa.array([None, Decimal(1101), Decimal(2), Decimal(-1)], pa.decimal128(5, 1))}
    )
    assert [row["mean"] for row in driven.output.dicts[1000:]] == [
        None, Decimal("1.199800"), Decimal(2), Decimal("0.5"),
    ]  # fmt: skip


def test_an_aggregate_of_a_wrong_type_names_itself_and_the_type() -> None:
    with pytest.raises(TypeMismatchError, match="Sum for column 'total': Sum cannot take a column of string"):
        harness(RunningAggregateFactory((("total", Sum("k")),))).push({"k": ["a"]})


def test_an_unknown_column_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownColumnError, match="did you mean 'value'"):
        harness(RunningAggregateFactory((("total", Sum("valeu")),))).push({"k": ["a"], "value": [1]})


def test_expressions_can_be_aggregated() -> None:
    driven = harness(RunningAggregateFactory((("total", Sum(col("v") * 2)),)))
    driven.push({"k": ["a", "a"], "v": [1, 2]})
    assert [row["total"] for row in driven.output.dicts] == [2, 6]


def test_results_keep_the_event_time_of_their_rows() -> None:
    driven = harness(RunningAggregateFactory((("n", Count()),)))
    driven.push({"k": ["b", "a", "b"]}, [30, 10, 20])
    assert driven.output.timestamps == [30, 10, 20]


def test_a_function_key_gives_key_columns() -> None:
    key = FunctionKey(lambda value: (value[0], len(value)))
    driven = harness(RunningAggregateFactory((("n", Count()),)), key)
    driven.push(["ab", "ac", "b"])
    assert driven.output.dicts[1] == {"key_0": "a", "key_1": 2, "n": 2}


# -- sum, min, max, min_by, max_by of the row itself


def test_sum_keeps_the_other_columns_of_the_first_row() -> None:
    driven = harness(RunningColumnFactory("sum", 1), ColumnKey(("f0",)))
    driven.push([("a", 1, "first"), ("b", 5, "other"), ("a", 2, "second")])
    driven.push([("a", None, "third"), ("b", 1, "fourth")])
    assert driven.output.rows == [
        ("a", 1, "first"),
        ("b", 5, "other"),
        ("a", 3, "first"),
        ("a", 3, "first"),
        ("b", 6, "other"),
    ]


def test_min_and_min_by_differ_in_the_other_columns() -> None:
    rows = [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "z"), ("a", 2, "w")]
    results = {}
    for mode in ("min", "min_by", "max_by"):
        driven = harness(RunningColumnFactory(mode, 1), ColumnKey(("f0",)))
        driven.push(rows[:1])
        driven.push(rows[1:])
        results[mode] = driven.output.rows
    assert results["min"] == [("a", 3, "x"), ("a", 1, "x"), ("a", 1, "x"), ("a", 1, "x")]
    assert results["min_by"] == [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "y"), ("a", 1, "y")]
    assert results["max_by"] == [("a", 3, "x")] * 4


def test_max_by_takes_the_first_row_until_one_has_a_value() -> None:
    driven = harness(RunningColumnFactory("max_by", "v"))
    driven.push({"k": ["a", "a", "a"], "v": [None, None, 1], "name": ["p", "q", "r"]})
    driven.push({"k": ["a"], "v": [None], "name": ["s"]})
    assert [row["name"] for row in driven.output.dicts] == ["p", "p", "r", "r"]


@given(streams(), st.sampled_from(["min_by", "max_by", "min", "max"]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_extreme_rows_agree_with_a_model(
    stream: tuple[pa.DataType, list[list[dict[str, Any]]]], mode: str, restores: bool
) -> None:
    arrow_type, batches = stream
    factory = RunningColumnFactory(mode, "by")
    driven = harness(factory)
    kept: dict[Any, dict[str, Any]] = {}
    for rows in batches:
        expected = []
        for row in rows:
            now = kept.setdefault(row["k"], dict(row))
            better = row["by"] is not None and (
                now["by"] is None or (row["by"] < now["by"] if "min" in mode else row["by"] > now["by"])
            )
            if better:
                kept[row["k"]] = dict(row) if mode.endswith("_by") else {**now, "by": row["by"]}
            expected.append(kept[row["k"]])
        driven.output.clear()
        driven.push(batch_of(rows, arrow_type))
        assert driven.output.dicts == expected
        if restores:
            driven = harness(factory, restored=restored_from([driven.snapshot()], range(128)))


def test_the_kind_and_a_declared_type_survive() -> None:
    driven = harness(RunningColumnFactory("sum", 0), FunctionKey(lambda value: value % 2))
    driven.push([1, 2, 3, 4])
    assert driven.output.rows == [1, 2, 4, 6]


def test_objects_cannot_be_aggregated() -> None:
    driven = harness(RunningColumnFactory("sum", 0), FunctionKey(len))
    with pytest.raises(InvalidProgramError, match="map them to tuples or rows first"):
        driven.push(as_batch([{1, 2}]))


def test_flags_of_a_byte_are_aggregated_and_keep_their_type() -> None:
    flags = pa.array([True, False, None, True]).cast(pa.bool8())
    names = ("min", "max", "first", "last", "list", "top", "distinct", "at_min", "at_max")
    driven = harness(RunningAggregateFactory(tuple((name, MODELS[name][0]) for name in names)))
    driven.push({"k": ["a"] * 4, "v": flags, "by": [3, 1, 2, 0]})
    (results,) = driven.output.batches
    assert {results.data.schema.field(name).type for name in ("min", "max", "first", "last", "at_max")} == {pa.bool8()}
    assert results.data.schema.field("list").type == results.data.schema.field("top").type == pa.list_(pa.bool8())
    assert driven.output.dicts[-1] == {
        "k": "a", "min": False, "max": True, "first": True, "last": True, "list": [True, False, True],
        "top": [True, True], "distinct": 2, "at_min": True, "at_max": True,
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["min_by", "max_by", "min", "max"])
def test_values_without_an_order_have_no_extreme_and_the_error_names_operator_and_column(mode: str) -> None:
    driven = harness(RunningColumnFactory(mode, "v"))
    with pytest.raises(TypeMismatchError, match=r"operator 'op' .*'v'.* cannot take a column of list<item: int64>"):
        driven.push({"k": ["a"], "v": [[1]]})


def test_lists_of_integers_go_on_with_decimals_of_any_scale() -> None:
    driven = harness(RunningAggregateFactory((("list", CollectList("v")), ("top", TopN("v", 2)))))
    driven.push({"k": ["a", "a"], "v": [1, 3]})
    driven.push({"k": ["a"], "v": pa.array([Decimal("2.5")], pa.decimal128(38, 20))})
    assert driven.output.dicts[-1] == {"k": "a", "list": [1, 3, Decimal("2.5")], "top": [3, Decimal("2.5")]}

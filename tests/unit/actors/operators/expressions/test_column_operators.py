"""Expressions evaluated on batches, and the columnar operators without state."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.operators.expressions.column_operators import evaluate
from actors.operators.expressions.kernels import KERNELS
from actors.operators.registry import create_operator
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError, RecordError, TypeMismatchError, UnknownColumnError
from flinkray.expressions.combinations import coalesce, greatest, if_else, least, struct, when
from flinkray.expressions.tree import Expression, col, lit
from flinkray.transformations.operator_factories import (
    DropFactory,
    OperatorFactory,
    ProjectFactory,
    RenameFactory,
    WhereFactory,
)
from flinkray.types.records import Kind
from tests.support.operators import OperatorHarness, as_batch, code

i, j, f, s, t, b = col("i"), col("j"), col("f"), col("s"), col("t"), col("b")
MICROS = pa.timestamp("us")
DATA = pa.RecordBatch.from_pydict(
    {
        "i": pa.array([7, -7, None], pa.int64()),
        "j": pa.array([2, 2, 0], pa.int64()),
        "f": pa.array([2.5, -0.5, math.inf], pa.float64()),
        "s": pa.array(["Straße 9", None, "  b "]),
        "t": pa.array([dt.datetime(2024, 2, 29, 23, 59, 58, 7), None, dt.datetime(1969, 12, 31, 23)], MICROS),
        "b": pa.array([True, False, None]),
        "n": pa.nulls(3),
        "d": pa.array([Decimal("1.25"), Decimal("-2.50"), None], pa.decimal128(10, 2)),
        "z": pa.array([0, 1_709_251_198_007, None], pa.int64()),
    }
)


def values(expression: Expression) -> list[Any]:
    array = evaluate(expression, DATA, "operator 'x'")
    assert isinstance(array, pa.Array)
    assert len(array) == 3
    return array.to_pylist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (i + 1, [8, -6, None]),
        (10 - i, [3, 17, None]),
        (i * 0.5, [3.5, -3.5, None]),
        (i / j, [3.5, -3.5, None]),
        (f / 0, [math.inf, -math.inf, math.inf]),
        (i // j, [3, -4, None]),
        (i % 3, [1, 2, None]),
        (-i % -3, [-1, -2, None]),
        (f // 1, [2.0, -1.0, math.nan]),
        (i**2, [49, 49, None]),
        (col("d") + 1, [Decimal("2.25"), Decimal("-1.50"), None]),
        (abs(i), [7, 7, None]),
        (f.round(), [2.0, -0.0, math.inf]),
        (i.round(-1), [10, -10, None]),
        (i.floor(), [7, -7, None]),
        (f.ceil(), [3.0, 0.0, math.inf]),
        (lit(4).sqrt(), [2.0] * 3),
        ((s + "!").str.length(), [9, None, 5]),
        ((i > 0) & b, [True, False, None]),
        (b | True, [True] * 3),
        (~b, [False, True, None]),
        (i.between(-7, 0), [False, True, None]),
        (i.is_in([7, None]), [True, False, True]),
        (s.is_in(["x"]), [False] * 3),
        (i.is_null(), [False, False, True]),
        (i.fill_null(0), [7, -7, 0]),
        (coalesce(col("n"), i, 1), [7, -7, 1]),
        (least(i, j), [2, -7, 0]),
        (greatest(i, None, 3), [7, 3, 3]),
        (struct("i", x=i + 1, y=lit("c")), [{"i": n, "x": n and n + 1, "y": "c"} for n in (7, -7, None)]),
        (when(i > 0).then("up").when(i < 0).then("down").otherwise("none"), ["up", "down", "none"]),
        (if_else(b, i, None), [7, None, None]),
        (i.cast("string"), ["7", "-7", None]),
        (i.cast("decimal128(2, 1)"), [Decimal("7.0"), Decimal("-7.0"), None]),
        (i.cast("dictionary<values=int64, indices=int8, ordered=0>"), [7, -7, None]),
        (lit(None), [None] * 3),
        (lit([1, 2]), [[1, 2]] * 3),
        (s.str.lower(), ["straße 9", None, "  b "]),
        (s.str.upper().str.strip(), ["STRAẞE 9", None, "B"]),
        (s.str.contains("."), [False, None, False]),
        (s.str.matches("[0-9]$"), [True, None, False]),
        (s.str.startswith("Str") | s.str.endswith(" "), [True, None, True]),
        (s.str.replace(" ", "_"), ["Straße_9", None, "__b_"]),
        (s.str.split(), [["Straße", "9"], None, ["b"]]),
        (s.str.split("a"), [["Str", "ße 9"], None, ["  b "]]),
        (s.str.slice(-3), ["e 9", None, " b "]),
        (col("n").str.lower(), [None] * 3),
        (t.dt.year(), [2024, None, 1969]),
        (t.dt.day_of_week(), [3, None, 2]),
        (t.dt.hour() * 60 + t.dt.minute(), [1439, None, 1380]),
        (t.dt.floor("month"), [dt.datetime(2024, 2, 1), None, dt.datetime(1969, 12, 1)]),
        (t.dt.floor("15 min"), [dt.datetime(2024, 2, 29, 23, 45), None, dt.datetime(1969, 12, 31, 23)]),
        (t.dt.epoch_ms(), [1_709_251_198_000, None, -3_600_000]),
        (col("z").dt.second(), [0, 58, None]),
        (col("z").dt.floor(1000), [0, 1_709_251_198_000, None]),
        (t > dt.datetime(2000, 1, 1), [True, None, False]),
    ],
    ids=repr,
)
def test_an_expression_gives(expression: Expression, expected: list[Any]) -> None:
    result = values(expression)
    assert [None if isinstance(v, float) and math.isnan(v) else v for v in result] == [
        None if isinstance(v, float) and math.isnan(v) else v for v in expected
    ]


numbers = st.integers(-(2**40), 2**40) | st.sampled_from([0, 1, -1])


@given(numbers, numbers.filter(bool))
@settings(max_examples=80, deadline=None)
def test_division_of_integers_is_pythons(dividend: int, divisor: int) -> None:
    data = pa.RecordBatch.from_pydict({"a": [dividend], "b": [divisor]})
    assert evaluate(col("a") // col("b"), data, "x").to_pylist() == [dividend // divisor]
    assert evaluate(col("a") % divisor, data, "x").to_pylist() == [dividend % divisor]


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (col("prise"), UnknownColumnError, "operator 'x': no column 'prise'"),
        (i // (j - 2), RecordError, r"operator 'x': col\('i'\) // \(col\('j'\) - 2\): divide by zero"),
        (i * (2**62), RecordError, "overflow"),
        (lit(Decimal("1e80")) + i, RecordError, "no Arrow type"),
        (s + 1, TypeMismatchError, r"col\('s'\) \+ 1 cannot be computed on string, int64"),
        (i & b, TypeMismatchError, "cannot be computed on int64, bool"),
        (i.str.lower(), TypeMismatchError, "text is needed"),
        (s.dt.year(), TypeMismatchError, "a timestamp, a date or int64"),
        (f.cast("int64"), RecordError, "truncated"),
        (i.cast("decimal128(1, 1)"), RecordError, "fit|precision"),
        (s > 5, TypeMismatchError, "string, int64"),
    ],
)
def test_what_cannot_be_computed_names_operator_and_expression(
    expression: Expression, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        values(expression)


def apply(factory: OperatorFactory, rows: Any, timestamps: list[int] | None = None) -> OperatorHarness:
    driven = OperatorHarness(create_operator([code(factory)], ["x"]))
    driven.push(rows, timestamps)
    return driven


def test_where_keeps_kind_and_event_times_and_drops_null_as_false() -> None:
    driven = apply(WhereFactory(col("f0") > 1), [(1, "a"), (2, "b"), (None, "c"), (3, "d")], [1, 2, 3, 4])
    assert driven.output.rows == [(2, "b"), (3, "d")]
    assert driven.output.timestamps == [2, 4]
    assert apply(WhereFactory(lit(None) == 1), [1, 2]).output.elements == []
    with pytest.raises(TypeMismatchError, match="where needs true or false"):
        apply(WhereFactory(col("value") + 1), [1])


def test_project_selects_adds_and_replaces_columns() -> None:
    data = {"a": [1, 2], "b": [10, 20], "c": ["x", "y"]}
    selected = apply(ProjectFactory((("twice", col("a") * 2), ("a", col("b")))), data, [5, 6])
    assert selected.output.dicts == [{"twice": 2, "a": 10}, {"twice": 4, "a": 20}]
    assert selected.output.timestamps == [5, 6]
    added = apply(ProjectFactory((("b", col("b") + col("a")), ("d", lit(1))), keep=None), data)
    assert added.output.dicts[0] == {"a": 1, "b": 11, "c": "x", "d": 1}
    assert list(added.output.dicts[0]) == ["a", "b", "c", "d"]
    kept = apply(ProjectFactory((("d", col("a")),), keep=frozenset({"c"})), data)
    assert list(kept.output.dicts[0]) == ["c", "d"]


def test_a_projection_of_tuples_makes_rows() -> None:
    assert apply(ProjectFactory((("sum", col("f0") + col("f1")),)), [(1, 2)]).output.batches[0].kind is Kind.ROW


def test_drop_and_rename_check_their_columns() -> None:
    data = {"a": [1], "b": [2]}
    assert apply(DropFactory(("a",)), data).output.dicts == [{"b": 2}]
    assert apply(RenameFactory((("a", "b"), ("b", "a"))), data).output.dicts == [{"b": 1, "a": 2}]
    for factory in (DropFactory(("c",)), RenameFactory((("c", "d"),))):
        with pytest.raises(UnknownColumnError, match="no column 'c'"):
            apply(factory, data)
    with pytest.raises(InvalidProgramError, match="leave no column"):
        apply(DropFactory(("a", "b")), data)
    with pytest.raises(InvalidProgramError, match="two columns named 'b'"):
        apply(RenameFactory((("a", "b"),)), data)


def test_objects_have_no_columns() -> None:
    with pytest.raises(InvalidProgramError, match="objects that Arrow cannot hold"):
        apply(WhereFactory(col("value") == 1), as_batch([{1, 2}]))


_EXTREMES = (-(2**63), -(2**63) + 1, -3, -1, 0, 1, 2, 3, 8, 10_000, 2**62, 2**63 - 1)
_WHOLE = st.one_of(st.sampled_from(_EXTREMES), st.integers(-(2**63), 2**63 - 1), st.integers(-100, 100))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.none(), _WHOLE), min_size=1, max_size=20), _WHOLE.filter(lambda d: d not in (0, -1)))
def test_division_by_a_constant_is_pythons_for_every_int64(dividends: list[int | None], divisor: int) -> None:
    data = pa.RecordBatch.from_pydict({"x": pa.array([0, *dividends], pa.int64())}).slice(1)
    for expression, function in ((col("x") % divisor, int.__mod__), (col("x") // divisor, int.__floordiv__)):
        array = evaluate(expression, data, "operator 'x'")
        array.validate(full=True)
        assert array.to_pylist() == [None if x is None else function(x, divisor) for x in dividends]


def test_a_division_that_fails_only_in_place_of_a_null_does_not_fail() -> None:
    data = pa.RecordBatch.from_pydict({"x": pa.array([-(2**63), 5], pa.int64())})
    hidden = when(col("x") > 0).then(col("x")).otherwise(None)
    assert evaluate(hidden // -1, data, "operator 'x'").to_pylist() == [None, -5]
    with pytest.raises(RecordError, match="overflow"):
        evaluate(col("x") // -1, data, "operator 'x'")
    with pytest.raises(RecordError, match="divide by zero"):
        evaluate(hidden % 0, data, "operator 'x'")


def test_a_part_that_two_columns_have_in_common_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counted(name: str) -> Any:
        kernel = KERNELS[name]
        return lambda *arguments: computed.append(name) or kernel(*arguments)

    for name in ("multiply", "add"):
        monkeypatch.setitem(KERNELS, name, counted(name))
    columns = (("a", i * 2 + 1), ("b", (i * 2 + 1) * 1.0), ("c", (i * 2).alias("twice") + 1), ("d", i * 1))
    with OperatorHarness(create_operator([code(ProjectFactory(columns))], ["x"])) as harness:
        for _ in range(2):
            harness.push(DATA)
    assert sorted(computed) == ["add", "add", *["multiply"] * 6]
    assert harness.output.dicts[0] == {"a": 15, "b": 15.0, "c": 15, "d": 7}


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.99, 1.0])
def test_where_keeps_the_same_rows_of_large_batches_as_of_small_ones(share: float) -> None:
    random = np.random.default_rng(7)
    drawn = random.random(40_000)
    data = pa.RecordBatch.from_pydict(
        {"x": drawn, "text": pa.array(drawn.astype("U9")), "half": pa.array(drawn, mask=drawn < 0.5)}
    )
    with OperatorHarness(create_operator([code(WhereFactory(col("x") < share))], ["x"])) as harness:
        harness.push(Batch(data, Kind.ROW, pa.array(np.arange(40_000))))
    (kept,) = harness.output.batches
    assert kept.data.equals(data.filter(pa.array(drawn < share)))
    assert kept.timestamps.to_numpy().tolist() == np.flatnonzero(drawn < share).tolist()

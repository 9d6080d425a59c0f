"""Kernels on what is rare: batches without a value, hours that clocks show twice or never, the largest floats."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.expressions.column_operators import evaluate
from flinkray.errors import InvalidProgramError, RecordError, TypeMismatchError
from flinkray.expressions.combinations import coalesce, greatest, least, when
from flinkray.expressions.tree import Expression, col, lit
from tests.support.versions import ARROW

UTC = dt.UTC
n, x, b, s, large = col("n"), col("x"), col("b"), col("s"), col("large")
t, d, f, day, clock = col("t"), col("d"), col("f"), col("day"), col("clock")
DATA = pa.RecordBatch.from_pydict(
    {
        "n": pa.nulls(2),
        "x": pa.array([1, None], pa.int64()),
        "b": pa.array([True, False]),
        "s": pa.array(["a", None]),
        "large": pa.array(["a", None], pa.large_string()),
        "t": pa.array([dt.datetime(2024, 2, 29), None], pa.timestamp("us")),
        "d": pa.array([Decimal("1.25"), Decimal("3.00")], pa.decimal128(10, 2)),
        "f": pa.array([1e308, 2.675]),
        "day": pa.array([dt.date(2024, 2, 29), dt.date(1969, 12, 31)], pa.date32()),
        "clock": pa.array([dt.time(1, 2, 3), dt.time(23, 59, 59, 5)], pa.time64("us")),
    }
)


def values(expression: Expression, data: pa.RecordBatch = DATA) -> list[Any]:
    array = evaluate(expression, data, "operator 'x'")
    assert isinstance(array, pa.Array)
    assert len(array) == data.num_rows
    found: list[Any] = array.to_pylist()
    return found


@pytest.mark.parametrize("null", [n, lit(None)], ids=["column", "literal"])
def test_untyped_nulls_are_null_conditions(null: Expression) -> None:
    assert values(when(null).then(1).otherwise(2)) == [2, 2]
    assert values(null & b) == values(b & null) == [None, False]
    assert values(null | b) == values(b | null) == [True, None]
    assert values(null & null) == values(~null) == [None, None]
    assert values(null & (x > 0)) == [None, None]


@pytest.mark.parametrize(
    "expression",
    [
        *(s + n, n + s, s + None, large + n, n + large, n + n),
        *(t + n, n + t, t - n, day - n, clock + n, n - day, n * x, n / x, x // n, x % n, n**2, -n, abs(n)),
        *(n == n, n < n, n <= None, n == s, t > n, n.between(1, 2), x.between(n, 2)),
        *(n.round(1), n.floor(), n.ceil(), n.sqrt(), n.sign(), n.log(), n.is_nan()),
        *(n.field("q"), n.field("q").field("r"), n.cast("date32"), n.cast(pa.list_(pa.int8()))),
        *(coalesce(n, None), least(n, None), greatest(n, n), when(b).then(n).otherwise(None)),
        *(n.str.upper(), n.str.strip(), n.str.contains("a"), n.str.matches("a"), n.str.startswith("a")),
        *(n.str.replace("a", "b"), n.str.split(), n.str.length(), n.str.slice(0, 2)),
        *(n.dt.year(), n.dt.day_of_week(), n.dt.second(), n.dt.epoch_ms()),
        *(n.dt.floor("second"), n.dt.floor("month"), n.dt.floor("15 min")),
    ],
    ids=repr,
)
def test_untyped_nulls_in_give_nulls_out(expression: Expression) -> None:
    assert values(expression) == [None, None]


def test_untyped_nulls_are_in_exactly_where_the_values_have_none() -> None:
    assert values(n.is_in(["a"])) == values(n.is_in([])) == [False, False]
    assert values(n.is_in(["a", None])) == values(n.is_in([None])) == [True, True]


def test_untyped_nulls_beside_a_time_take_no_type_that_other_batches_may_not_have() -> None:
    assert pa.types.is_null(evaluate(t - n, DATA, "x").type)
    assert pa.types.is_string(evaluate(s + n, DATA, "x").type)


def test_texts_of_64_bit_offsets_are_joined() -> None:
    assert values(large + "!") == ["a!", None]
    assert values(large + s) == values(s + large) == ["aa", None]


def test_what_no_batch_could_compute_stays_an_error_beside_nulls() -> None:
    with pytest.raises(TypeMismatchError):
        values(b + n)


def test_is_in_takes_what_equal_takes() -> None:
    with pytest.raises(TypeMismatchError, match=r"col\('x'\).is_in\(\('7',\)\) cannot be computed"):
        values(x.is_in(["7"]))
    with pytest.raises(TypeMismatchError):
        values(b.is_in([1]))
    with pytest.raises(RecordError, match="timezone"):
        values(t.is_in([dt.datetime(2024, 2, 29, tzinfo=UTC)]))
    assert values(d.is_in([3])) == [False, True]
    assert values(x.is_in([1.0, 0.5, None])) == [True, True]
    assert values(s.cast(pa.dictionary(pa.int8(), pa.string())).is_in(["a"])) == [True, False]
    assert values(day.is_in([dt.datetime(2024, 2, 29)])) == [True, False]


def test_floats_too_large_to_have_decimals_round_to_themselves() -> None:
    assert values(f.round(2)) == [1e308, 2.68]
    assert values(f.round(400)) == [1e308, 2.675]
    assert values(f.round(307)) == [1e308, 2.675]
    special = pa.RecordBatch.from_pydict({"f": pa.array([-1e308, math.inf, -0.0, None, 2.0**52 + 1])})
    assert values(f.round(2), special) == [-1e308, math.inf, 0.0, None, 2.0**52 + 1]
    single = pa.RecordBatch.from_pydict({"f": pa.array([3e38, 1.25], pa.float32())})
    assert values(f.round(1), single) == [pa.scalar(3e38, pa.float32()).as_py(), pa.scalar(1.2, pa.float32()).as_py()]
    assert values(f.round(40), single) == values(f, single)
    assert values(lit(1e308).round(1)) == [1e308, 1e308]


def floors(unit: str, zone: str, *times: str) -> list[str]:
    """Of instants in UTC; gives UTC."""
    instants = pa.array([dt.datetime.fromisoformat(time) for time in times], pa.timestamp("ms", zone))
    data = pa.RecordBatch.from_pydict({"t": instants})
    floored = evaluate(t.dt.floor(unit), data, "x")
    assert floored.type.equals(instants.type)
    return [value.astimezone(UTC).strftime("%m-%d %H:%M:%S") for value in floored.to_pylist()]


@pytest.mark.parametrize("unit", ["second", "minute", "hour"])
def test_an_hour_that_clocks_show_twice_starts_twice(unit: str) -> None:
    times = ("2023-10-29T00:00:00", "2023-10-29T01:00:00", "2023-10-29T02:00:00")
    expected = ["10-29 00:00:00", "10-29 01:00:00", "10-29 02:00:00"]
    assert floors(unit, "Europe/Berlin", *times) == expected


def test_floors_in_the_hours_around_a_change_of_clocks() -> None:
    assert floors("hour", "Europe/Berlin", "2023-10-29T00:30", "2023-10-29T01:30", "2023-03-26T01:15") == [
        "10-29 00:00:00",
        "10-29 01:00:00",
        "03-26 01:00:00",
    ]
    # Lord Howe changes by half an hour: from 2:00 to 2:30, and from 2:00 back to 1:30.
    assert floors("hour", "Australia/Lord_Howe", "2023-09-30T15:35", "2023-04-01T15:15") == [
        "09-30 15:30:00",
        "04-01 14:00:00",
    ]


def test_a_day_whose_midnight_clocks_skip_or_show_twice_starts_once() -> None:
    assert floors("day", "America/Sao_Paulo", "2017-10-15T12:00") == ["10-15 03:00:00"]  # midnight is 1:00
    assert floors("day", "America/Havana", "2023-11-05T04:30", "2023-11-05T05:30") == ["11-05 04:00:00"] * 2
    if ARROW >= 22:  # which computes with zones that are offsets
        assert floors("day", "+02:00", "2023-11-05T04:30") == ["11-04 22:00:00"]


def test_dates_and_times_of_day_have_floors() -> None:
    assert values(day.dt.floor("7 ms")) == [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]
    assert values(day.dt.floor("2 d")) == [dt.date(2024, 2, 29), dt.date(1969, 12, 30)]
    assert values(clock.dt.floor("15 min")) == [dt.time(1), dt.time(23, 45)]
    assert values(clock.dt.floor("minute")) == [dt.time(1, 2), dt.time(23, 59)]
    for unit in ("s", "ms"):
        seconds = pa.RecordBatch.from_pydict({"clock": pa.array([dt.time(1, 2, 3)], pa.time32(unit))})
        assert values(clock.dt.floor("15 min"), seconds) == [dt.time(1)]


def test_replacing_the_empty_text_is_refused_at_once() -> None:
    with pytest.raises(InvalidProgramError, match=r"str.replace needs a text to replace, not ''"):
        s.str.replace("", "-")
    with pytest.raises(InvalidProgramError, match=r"str.split needs a text to split at, not ''"):
        s.str.split("")

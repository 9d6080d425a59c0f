"""Kernels on columns give what a model in Python gives row by row."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from flinkray.tables.plans.expressions import BoundExpression, Call, Column, Constant
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import (
    BIGINT,
    BOOLEAN,
    CHAR,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DecimalType,
    LogicalType,
    RowType,
)
from tests.support.flink_functions import answers
from tests.support.sql_expressions import bind, bound_call, symbol

BITS = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
CALM = settings(deadline=None, max_examples=40)
"""An example may take long where the machine is busy."""
EXACT = decimal.Context(prec=200)
TEXT = st.text(alphabet="aAbß %_l.\\é日", max_size=8)


LONG_INTEGERS = st.integers(-(2**70), 2**70).map(str)
FAR_DAYS = st.dates(dt.date(100, 1, 1), dt.date(9900, 1, 1))


def columns_of(types: Sequence[LogicalType], rows: Sequence[Sequence[Any]]) -> list[pa.Array]:
    return [pa.array([row[place] for row in rows], to_arrow(kind)) for place, kind in enumerate(types)]


def computed(
    name: str, types: Sequence[LogicalType], rows: Sequence[Sequence[Any]], target: LogicalType | None = None
) -> list[Any]:
    call = bound_call(name, *(Column(kind, place) for place, kind in enumerate(types)), target=target)
    found: list[Any] = calculate(call, columns_of(types, rows), len(rows), EvaluationContext()).to_pylist()
    return found


def modelled(model: Callable[..., Any], rows: Sequence[Sequence[Any]]) -> list[Any]:
    """The model's results, NULL where an argument is."""
    return [None if None in row else model(*row) for row in rows]


def wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def towards_zero(left: int, right: int) -> int:
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def integers(bits: int) -> st.SearchStrategy[int]:
    edge = 2 ** (bits - 1)
    return st.one_of(st.integers(-edge, edge - 1), st.sampled_from([-edge, edge - 1, -1, 0, 1]))


# -- numbers -------------------------------------------------------------------------------------------------------


@CALM
@given(st.data(), st.sampled_from(list(BITS)), st.sampled_from(list(BITS)), st.sampled_from("+-*/%"))
def test_integers_wrap_and_are_divided_towards_zero(data: Any, left: Any, right: Any, sign: str) -> None:
    second = integers(BITS[right]).filter(bool) if sign in "/%" else integers(BITS[right])
    rows = data.draw(st.lists(st.tuples(st.none() | integers(BITS[left]), st.none() | second), min_size=1, max_size=6))
    bits = BITS[right] if sign == "%" else max(BITS[left], BITS[right])
    model = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": towards_zero,
        "%": lambda a, b: a - towards_zero(a, b) * b,
    }[sign]
    assert computed(sign, [left, right], rows) == modelled(lambda a, b: wrapped(model(a, b), bits), rows)


def decimals(kind: DecimalType) -> st.SearchStrategy[Decimal]:
    edge = 10**kind.precision - 1
    unscaled = st.one_of(st.integers(-edge, edge), st.sampled_from([-edge, edge, 0, 1, -5, 5]))
    return unscaled.map(lambda number: Decimal(number).scaleb(-kind.scale, EXACT))


DECIMAL_TYPES = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: DECIMAL(p, s)))


def fitted(value: Decimal, kind: DecimalType) -> Decimal | None:
    """Half away from zero, NULL where it is too large."""
    number = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, EXACT)
    return number if number.copy_abs() < Decimal(10) ** (kind.precision - kind.scale) else None


@CALM
@given(st.data(), DECIMAL_TYPES, DECIMAL_TYPES, st.sampled_from("+-*/%"))
def test_decimals_are_exact_until_they_are_rounded_to_the_type_of_the_result(
    data: Any, left: DecimalType, right: DecimalType, sign: str
) -> None:
    second = decimals(right).filter(bool) if sign in "/%" else decimals(right)
    rows = data.draw(st.lists(st.tuples(st.none() | decimals(left), st.none() | second), min_size=1, max_size=4))
    kind = bound_call(sign, Column(left, 0), Column(right, 1)).type
    assert isinstance(kind, DecimalType)
    model = {
        "+": EXACT.add,
        "-": EXACT.subtract,
        "*": EXACT.multiply,
        "/": EXACT.divide,
        "%": lambda a, b: EXACT.subtract(a, EXACT.multiply((EXACT.divide_int(a, b)), b)),
    }[sign]
    assert computed(sign, [left, right], rows) == modelled(lambda a, b: fitted(model(a, b), kind), rows)


@CALM
@given(st.data(), DECIMAL_TYPES, st.integers(-3, 12))
def test_decimals_are_rounded_half_away_from_zero(data: Any, kind: DecimalType, digits: int) -> None:
    values = data.draw(st.lists(st.none() | decimals(kind), min_size=1, max_size=4))
    call = bound_call("ROUND", Column(kind, 0), Constant(INT.not_null(), digits))
    assert isinstance(call.type, DecimalType)
    result = call.type

    def model(value: Decimal) -> Decimal | None:
        return fitted(value.quantize(Decimal(1).scaleb(-min(digits, kind.scale)), ROUND_HALF_UP, EXACT), result)

    found = calculate(call, columns_of([kind], [(value,) for value in values]), len(values), EvaluationContext())
    assert found.to_pylist() == modelled(model, [(value,) for value in values])


@CALM
@given(st.lists(st.tuples(st.none() | st.floats(width=64)), min_size=1), st.sampled_from(list(BITS)))
def test_doubles_become_integers_as_in_java(rows: list[tuple[float | None]], kind: Any) -> None:
    bits = 64 if kind is BIGINT else 32

    def model(value: float) -> int:
        if value != value:
            return 0
        limited = max(min(value, 2.0 ** (bits - 1)), -(2.0 ** (bits - 1)))
        return wrapped(min(int(limited), 2 ** (bits - 1) - 1), BITS[kind])

    assert computed("CAST", [DOUBLE], rows, kind) == modelled(model, rows)


@CALM
@given(st.lists(st.tuples(st.none() | st.floats(-1e30, 1e30)), min_size=1), DECIMAL_TYPES)
def test_doubles_become_the_decimals_that_they_are_written_as(
    rows: list[tuple[float | None]], kind: DecimalType
) -> None:
    assert computed("CAST", [DOUBLE], rows, kind) == modelled(lambda value: fitted(Decimal(repr(value)), kind), rows)


@CALM
@given(st.data(), DECIMAL_TYPES, st.sampled_from(list(BITS)), DECIMAL_TYPES)
def test_decimals_are_cast_to_wrapped_integers_and_rounded_decimals(
    data: Any, source: DecimalType, integer: Any, target: DecimalType
) -> None:
    rows = data.draw(st.lists(st.tuples(st.none() | decimals(source)), min_size=1, max_size=4))
    whole = modelled(lambda value: wrapped(int(value.quantize(Decimal(1), ROUND_DOWN, EXACT)), BITS[integer]), rows)
    assert computed("CAST", [source], rows, integer) == whole
    assert computed("CAST", [source], rows, target) == modelled(lambda value: fitted(value, target), rows)
    nearest = modelled(float, rows)
    assert computed("CAST", [source], rows, DOUBLE) == nearest


@CALM
@given(st.lists(st.tuples(st.none() | LONG_INTEGERS | TEXT), min_size=1), st.sampled_from(list(BITS)))
def test_a_text_that_is_no_integer_of_the_type_is_null_when_tried(rows: list[tuple[str | None]], kind: Any) -> None:
    def model(text: str) -> int | None:
        try:
            number = int(text)
        except ValueError:
            return None if text.strip(" ") != "." else 0
        return number if wrapped(number, BITS[kind]) == number else None

    assert computed("TRY_CAST", [STRING], rows, kind) == modelled(model, rows)


@CALM
@given(st.lists(st.tuples(st.none() | st.floats(width=64)), min_size=1))
def test_the_text_of_a_double_is_the_double(rows: list[tuple[float | None]]) -> None:
    texts = computed("CAST", [DOUBLE], rows, STRING)
    back = computed("CAST", [STRING], [(text,) for text in texts], DOUBLE)
    assert list(map(repr, back)) == list(map(repr, [value for (value,) in rows]))


# -- logic ---------------------------------------------------------------------------------------------------------

THREE = (True, False, None)


def conjunction(values: Sequence[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


@pytest.mark.parametrize(("name", "flips"), [("AND", False), ("OR", True)])
def test_and_and_or_have_three_values(name: str, flips: bool) -> None:
    rows = [(a, b, c) for a in THREE for b in THREE for c in THREE]

    def model(values: Sequence[bool | None]) -> bool | None:
        found = conjunction([value if value is None else value != flips for value in values])
        return found if found is None else found != flips

    assert computed(name, [BOOLEAN] * 3, rows) == [model(row) for row in rows]


@CALM
@given(st.lists(st.tuples(*[st.none() | st.integers(0, 3)] * 3), min_size=1))
def test_in_is_unknown_where_null_might_be_the_member(rows: list[tuple[Any, ...]]) -> None:
    def model(value: int | None, *members: int | None) -> bool | None:
        if value is None:
            return None
        return True if value in members else None if None in members else False

    wanted = [model(*row) for row in rows]
    assert computed("IN", [INT] * 3, rows) == wanted
    for row, answer in zip(rows, wanted, strict=True):  # constants are looked up in another way
        members = (Constant(INT, member) for member in row[1:])
        call = bound_call("IN", Column(INT, 0), *members)
        assert calculate(call, columns_of([INT], [row]), 1, EvaluationContext()).to_pylist() == [answer]


# -- texts ---------------------------------------------------------------------------------------------------------


def substring(text: str, start: int, length: int) -> str | None:
    if length < 0:
        return None
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[begin : begin + length] if begin >= 0 and length > 0 else ""


def padded(text: str, length: int, fill: str) -> str | None:
    if length < 0 or not fill:
        return None
    return ((fill * length)[: max(length - len(text), 0)] + text[:length]) if length else ""


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[begin:], pattern[1:]) for begin in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def overlaid(text: str, other: str, start: int, length: int) -> str:
    if start <= 0 or start > len(text):
        return text
    return text[: start - 1] + other + (text[start - 1 + length :] if length > 0 else "")


SMALL = st.integers(-3, 9)


@pytest.mark.parametrize(
    ("name", "types", "strategies", "model"),
    [
        ("SUBSTRING", [STRING, INT, INT], [TEXT, SMALL, SMALL], substring),
        ("LPAD", [STRING, INT, STRING], [TEXT, SMALL, TEXT], padded),
        ("LEFT", [STRING, INT], [TEXT, SMALL], lambda text, n: text[: max(n, 0)]),
        ("RIGHT", [STRING, INT], [TEXT, SMALL], lambda text, n: text[-n:] if n > 0 else ""),
        ("LIKE", [STRING, STRING], [TEXT, st.text("ab%_lß", max_size=5)], like),
        ("POSITION", [STRING, STRING], [st.text("ab日", max_size=2), TEXT], lambda part, text: text.find(part) + 1),
        ("REPLACE", [STRING, STRING, STRING], [TEXT, st.text("ab", max_size=2), TEXT], str.replace),
        ("OVERLAY", [STRING, STRING, INT, INT], [TEXT, TEXT, SMALL, st.integers(0, 5)], overlaid),
        ("REPEAT", [STRING, INT], [TEXT, SMALL], lambda text, n: text * n),
        ("||", [STRING, STRING], [TEXT, TEXT], lambda left, right: left + right),
        ("CHAR_LENGTH", [STRING], [TEXT], len),
        ("REVERSE", [STRING], [TEXT], lambda text: text[::-1]),
        ("UPPER", [STRING], [TEXT], str.upper),
        (
            "SPLIT_INDEX",
            [STRING, STRING, INT],
            [TEXT, st.sampled_from(["a", "l", "日"]), SMALL],
            lambda text, mark, n: text.split(mark)[n] if text and 0 <= n < len(text.split(mark)) else None,
        ),
    ],
)
def test_texts_are_those_of_the_model_for_any_arguments(
    name: str, types: list[LogicalType], strategies: list[Any], model: Callable[..., Any]
) -> None:
    @CALM
    @given(st.lists(st.tuples(*(st.none() | strategy for strategy in strategies)), min_size=1, max_size=6))
    def check(rows: list[tuple[Any, ...]]) -> None:
        assert computed(name, types, rows) == modelled(model, rows)

    check()


# -- times ---------------------------------------------------------------------------------------------------------

DAYS = st.dates(dt.date(1, 1, 1), dt.date(9990, 12, 31))


def months_later(day: dt.date, months: int) -> dt.date:
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    following = dt.date(years + (month == 11), month % 12 + 2 if month < 11 else 1, 1)
    return min(dt.date(years, month + 1, 1) + dt.timedelta(day.day - 1), following - dt.timedelta(1))


@CALM
@given(st.lists(st.tuples(st.none() | FAR_DAYS, st.none() | st.integers(-999, 999)), min_size=1))
def test_months_are_added_on_the_calendar(rows: list[tuple[Any, Any]]) -> None:
    assert computed("+", [DATE, INTERVAL("MONTH")], rows) == modelled(months_later, rows)


@CALM
@given(st.lists(st.tuples(st.none() | DAYS), min_size=1))
def test_parts_of_dates_are_those_of_the_calendar(rows: list[tuple[dt.date | None]]) -> None:
    parts: dict[str, Callable[[dt.date], int]] = {
        "YEAR": lambda day: day.year,
        "MONTH": lambda day: day.month,
        "DAY": lambda day: day.day,
        "QUARTER": lambda day: (day.month + 2) // 3,
        "DOW": lambda day: day.isoweekday() % 7 + 1,
        "DOY": lambda day: day.timetuple().tm_yday,
        "WEEK": lambda day: day.isocalendar().week,
        "ISOYEAR": lambda day: day.isocalendar().year,
    }
    for unit, model in parts.items():
        call = bound_call("EXTRACT", symbol(unit), Column(DATE, 0))
        found = calculate(call, columns_of([DATE], rows), len(rows), EvaluationContext())
        assert found.to_pylist() == modelled(model, rows), unit


MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)


@CALM
@given(st.lists(st.tuples(st.none() | MOMENTS), min_size=1))
def test_what_is_written_by_a_pattern_is_read_by_it(rows: list[tuple[dt.datetime | None]]) -> None:
    for pattern in ("yyyy-MM-dd HH:mm:ss.SSS", "dd/MMM/yyyy hh:mm:ss a SSS", "yyyyMMddHHmmssSSS"):
        written = bound_call("DATE_FORMAT", Column(TIMESTAMP(3), 0), Constant(CHAR(30).not_null(), pattern))
        read = bound_call("TO_TIMESTAMP", written, Constant(CHAR(30).not_null(), pattern))
        found = calculate(read, columns_of([TIMESTAMP(3)], rows), len(rows), EvaluationContext())
        assert found.to_pylist() == [moment for (moment,) in rows], pattern


# -- constants and columns -----------------------------------------------------------------------------------------


def with_columns(expression: BoundExpression, columns: list[pa.Array]) -> BoundExpression:
    """The expression with a column of three equal values, the end of a longer one, in place of each constant."""
    if isinstance(expression, Constant):
        value = expression.value
        others = [None, f"other {value}" if isinstance(value, str) else value]
        columns.append(pa.array([*others, value, value, value], to_arrow(expression.type)).slice(2))
        return Column(expression.type, len(columns) - 1)
    if not isinstance(expression, Call):
        return expression
    is_field = expression.function == "ITEM" and isinstance(expression.arguments[0].type, RowType)
    kept = expression.arguments[1:] if is_field else ()
    changed = expression.arguments[: len(expression.arguments) - len(kept)]
    return replace(expression, arguments=(*(with_columns(one, columns) for one in changed), *kept))


@pytest.mark.parametrize("name", ["numbers_and_logic", "texts_and_json", "casts_and_collections", "times"])
def test_an_argument_gives_the_same_as_a_constant_as_a_column_and_computed_before(name: str) -> None:
    wrong = []
    for answer in answers(name):
        if "value" not in answer or answer["sql"].startswith(("RAND", "CHAR_LENGTH(UUID")):
            continue
        expression, columns = bind(answer["sql"]), list[pa.Array]()
        changed = with_columns(expression, columns)
        texts = [
            calculate(bound_call("CAST", one, target=STRING), columns, 3, EvaluationContext()).to_pylist()
            for one in (expression, changed, prepared(expression, EvaluationContext()))
        ]
        if not texts[0] == texts[1] == texts[2]:
            wrong.append((answer["sql"], *texts))
    assert wrong == []

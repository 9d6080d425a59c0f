"""Expressions on columns: what is computed of which rows, what a context says, and what an error names."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from flinkray.errors import RecordError
from flinkray.tables.plans.expressions import Column, Constant, walk
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    ROW,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    LogicalType,
    TimeAttribute,
)
from tests.support.sql_expressions import bind, bound_call

UTC = dt.UTC
NOON = int(dt.datetime(2024, 7, 1, 12, 0, 0, 250_000, UTC).timestamp() * 1_000_000)


def on_column(sql: str, kind: LogicalType, values: list[Any], context: EvaluationContext | None = None) -> list[Any]:
    """The expression over a column x."""
    found: list[Any] = calculate(
        bind(sql, ROW(("x", kind))), [pa.array(values, to_arrow(kind))], len(values), context or EvaluationContext()
    ).to_pylist()
    return found


def constant(sql: str, context: EvaluationContext) -> Any:
    return calculate(bind(sql), [], 1, context)[0].as_py()


def test_years_of_two_digits_are_from_eighty_years_ago_on_where_dates_are_read() -> None:
    later = EvaluationContext(now_micros=int(dt.datetime(2050, 7, 1, tzinfo=UTC).timestamp()) * 1_000_000)
    written = ("24-01-05", "69-01-05", "70-01-05", "99-01-05", "124-01-05")
    found = [constant(f"TO_DATE('{text}', 'yy-MM-dd')", later) for text in written]
    assert [day.year for day in found if day] == [2024, 2069, 1970, 1999, 124]
    now = EvaluationContext()  # constants of a statement have no clock
    assert [constant(f"TO_DATE('{text}', 'yy-MM-dd')", now).year for text in written] == [2024, 1969, 1970, 1999, 124]
    assert constant("UNIX_TIMESTAMP('70-01-01', 'yy-MM-dd')", now) == 0


# -- which rows are computed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("CASE WHEN x <> 0 THEN 10 / x ELSE -1 END", [5, -1, -1]),
        ("CASE WHEN x = 0 THEN 0 WHEN 10 / x > 4 THEN 1 END", [1, 0, None]),
        ("IF(x = 0, 0, 10 / x)", [5, 0, None]),
        ("COALESCE(x, 1 / x, 7)", [2, 0, 7]),
        ("x <> 0 AND 10 / x = 5", [True, False, None]),
        ("x = 0 OR 10 / x = 5", [True, True, None]),
    ],
)
def test_what_guards_a_division_keeps_its_rows_from_being_divided(sql: str, wanted: list[Any]) -> None:
    assert on_column(sql, INT, [2, 0, None]) == wanted


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("CASE WHEN x <> 0 THEN ARRAY[10 / x] ELSE ARRAY[x] END", [[5], [0], [None]]),
        ("IF(x <> 0, MAP['a', 10 / x], MAP['b', 0])", [[("a", 5)], [("b", 0)], [("b", 0)]]),
        ("CASE WHEN x <> 0 THEN ROW(10 / x) END", [{"EXPR$0": 5}, None, None]),
        ("IF(x <> 0, INTERVAL '1' DAY * (10 / x), INTERVAL '1' DAY)", [dt.timedelta(5), *[dt.timedelta(1)] * 2]),
        ("IF(x <> 0, INTERVAL '1' MONTH * (10 / x), INTERVAL '1' MONTH)", [5, 1, 1]),
        ("IF(x <> 0, CAST(10 / x AS DECIMAL(5, 1)), 0.5)", [Decimal("5.0"), Decimal("0.5"), Decimal("0.5")]),
        ("IF(x <> 0, CAST(10 / x AS BOOLEAN), FALSE)", [True, False, False]),
        ("CASE WHEN x <> 0 THEN TIMESTAMPADD(DAY, 10 / x, DATE '2024-01-01') END", [dt.date(2024, 1, 6), None, None]),
    ],
)
def test_values_of_every_kind_are_put_together_from_branches(sql: str, wanted: list[Any]) -> None:
    assert on_column(sql, INT, [2, 0, None]) == wanted


def test_a_guarded_branch_that_no_row_takes_is_not_computed() -> None:
    assert on_column("CASE WHEN x > 0 THEN x ELSE 1 / (x - x) END", INT, [1, 2]) == [1, 2]


def test_an_expression_of_no_rows_gives_no_rows() -> None:
    for sql in ("x + 1", "CASE WHEN x <> 0 THEN 1 / x ELSE 0 END", "ARRAY[x][1]", "HEX(x)", "ROUND(x, -1)"):
        assert on_column(sql, INT, []) == []


def test_columns_that_are_slices_of_others_are_computed_from_their_own_rows() -> None:
    whole = pa.array(["0.5", "1.25", None, "7"]).slice(1)
    cast = bind("CAST(x AS DECIMAL(5, 1))", ROW(("x", STRING)))
    chosen = bind("CASE WHEN x > '1' THEN x END", ROW(("x", STRING)))
    assert calculate(chosen, [whole], 3, EvaluationContext()).to_pylist() == ["1.25", None, "7"]
    tenths = calculate(cast, [whole], 3, EvaluationContext())
    texts = calculate(bind("CAST(x AS STRING)", ROW(("x", cast.type))), [tenths.slice(1)], 2, EvaluationContext())
    lists = calculate(bind("ARRAY[x, 'a']", ROW(("x", STRING))), [whole], 3, EvaluationContext()).slice(1)
    kind = bind("ARRAY[x, 'a']", ROW(("x", STRING))).type
    assert (tenths.to_pylist()[0], texts.to_pylist()) == (Decimal("1.3"), [None, "7.0"])
    assert calculate(bind("ARRAY_REVERSE(x)", ROW(("x", kind))), [lists], 2, EvaluationContext()).to_pylist() == [
        ["a", None],
        ["a", "7"],
    ]


# -- what is computed before rows come -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "kind", "wanted"),
    [
        ("x + (1 + 2)", BIGINT, [(BIGINT, 3)]),
        ("x * 1.5", DOUBLE, [(DOUBLE, 1.5)]),
        ("x = UPPER('a' || 'b')", STRING, [(STRING, "AB")]),
        ("x + 1 / 0", BIGINT, [(INT, 1), (INT, 0)]),
        ("x + RAND_INTEGER(3)", BIGINT, [(INT, 3)]),
    ],
)
def test_what_is_the_same_for_all_rows_becomes_a_constant_of_the_type_that_is_computed_with(
    sql: str, kind: LogicalType, wanted: list[tuple[LogicalType, Any]]
) -> None:
    found = prepared(bind(sql, ROW(("x", kind))), EvaluationContext())
    constants = [each for each in walk(found) if isinstance(each, Constant)]
    assert [(each.type.as_nullable(), each.value.as_py()) for each in constants] == wanted


def test_what_fails_before_rows_come_fails_for_the_rows_that_need_it_alone() -> None:
    division = prepared(bind("CASE WHEN x <> 0 THEN 1 / 0 ELSE 7 END", ROW(("x", INT))), EvaluationContext())
    assert calculate(division, [pa.array([0], pa.int32())], 1, EvaluationContext()).to_pylist() == [7]
    with pytest.raises(RecordError, match="division by zero"):
        calculate(division, [pa.array([1], pa.int32())], 1, EvaluationContext())


def test_json_that_was_computed_before_is_still_json_where_it_stands_in_json() -> None:
    nested = bind("JSON_ARRAY(JSON_ARRAY(1))", ROW())
    assert calculate(prepared(nested, EvaluationContext()), [], 1, EvaluationContext()).to_pylist() == ["[[1]]"]


# -- the context ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("CURRENT_TIMESTAMP", dt.datetime(2024, 7, 1, 12, 0, 0, 250_000, UTC)),
        ("LOCALTIMESTAMP", dt.datetime(2024, 7, 1, 14, 0, 0, 250_000)),
        ("CURRENT_DATE", dt.date(2024, 7, 1)),
        ("CURRENT_TIME", dt.time(14, 0)),
        ("PROCTIME()", dt.datetime(2024, 7, 1, 12, 0, 0, 250_000, UTC)),
        ("UNIX_TIMESTAMP()", NOON // 1_000_000),
        ("CAST(CURRENT_TIMESTAMP AS STRING)", "2024-07-01 14:00:00.250"),
        ("EXTRACT(HOUR FROM CURRENT_TIMESTAMP)", 14),
        ("FLOOR(CURRENT_TIMESTAMP TO DAY)", dt.datetime(2024, 6, 30, 22, tzinfo=UTC)),
        ("FROM_UNIXTIME(0)", "1970-01-01 01:00:00"),
        ("TO_TIMESTAMP_LTZ('2024-01-01 00:00:00')", dt.datetime(2024, 1, 1, tzinfo=UTC)),
        ("DATE_FORMAT(CURRENT_TIMESTAMP, 'HH')", "14"),
        ("CAST(TIMESTAMP '2024-03-31 02:30:00' AS TIMESTAMP_LTZ(3))", dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
        ("CAST(TIMESTAMP '2024-10-27 02:30:00' AS TIMESTAMP_LTZ(3))", dt.datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),
        ("CURRENT_TIMESTAMP + INTERVAL '6' MONTH", dt.datetime(2025, 1, 1, 12, 0, 0, 250_000, UTC)),
    ],
)
def test_times_are_those_of_the_batch_in_the_time_zone_of_the_session(sql: str, wanted: Any) -> None:
    assert constant(sql, EvaluationContext(now_micros=NOON, time_zone="Europe/Berlin")) == wanted


def test_the_time_of_the_statement_goes_before_that_of_the_batch_but_for_rows() -> None:
    context = EvaluationContext(now_micros=NOON, query_start_micros=0)
    assert constant("CURRENT_TIMESTAMP", context) == dt.datetime(1970, 1, 1, tzinfo=UTC)
    assert constant("CURRENT_ROW_TIMESTAMP()", context).year == 2024


def test_a_time_zone_may_be_written_as_java_writes_offsets() -> None:
    assert constant("LOCALTIMESTAMP", EvaluationContext(now_micros=NOON, time_zone="GMT+08:00")).hour == 20
    assert constant("LOCALTIMESTAMP", EvaluationContext(now_micros=NOON, time_zone="GMT-3")).hour == 9


@pytest.mark.parametrize(("watermark", "wanted"), [(None, None), (1_500, dt.datetime(1970, 1, 1, 0, 0, 1, 500_000))])
def test_the_current_watermark_is_null_before_the_first(watermark: int | None, wanted: Any) -> None:
    column = Column(TIMESTAMP(3).as_attribute(TimeAttribute.ROWTIME), 0)
    call = bound_call("CURRENT_WATERMARK", column)
    found = calculate(call, [pa.array([0, 1], pa.timestamp("ms"))], 2, EvaluationContext(watermark=watermark))
    assert found.to_pylist() == [wanted, wanted]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (19_787, DATE, "2024-03-05"),
        (37_230_500, TIME(3), "10:20:30.5"),
        (1_709_634_030, TIMESTAMP(0), "2024-03-05 10:20:30"),
        (1_709_634_030_567, TIMESTAMP_LTZ(3), "2024-03-05 10:20:30.567"),
        (14, INTERVAL("MONTH"), "+1-02"),
        (-90_000, INTERVAL("SECOND", fraction=3), "-0 00:01:30.000"),
    ],
)
def test_a_constant_of_time_may_be_the_number_that_its_type_holds(value: int, kind: LogicalType, text: str) -> None:
    written = bound_call("CAST", Constant(kind, value), target=STRING)
    assert calculate(written, [], 2, EvaluationContext()).to_pylist() == [text, text]


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "kind", "values", "message"),
    [
        ("1 / x", INT, [1, 0], "/: a division by zero"),
        ("x % 0", BIGINT, [1], "%: a division by zero"),
        ("CAST(x AS INT)", STRING, ["1", "12x"], "CAST: '12x' is no INT; TRY_CAST gives NULL where a text cannot"),
        ("CAST(x AS DATE)", STRING, ["2024-02-30"], "CAST: '2024-02-30' is no DATE"),
        ("x LIKE 'a!' ESCAPE '!'", STRING, ["a"], "LIKE: the pattern 'a!' ends with its escape character"),
        ("REGEXP_REPLACE(x, '(', '')", STRING, ["a"], r"REGEXP_REPLACE: '\(' is no regular expression: missing \)"),
        ("DATE_FORMAT(TO_TIMESTAMP(x), 'b')", STRING, ["2024-01-01"], "DATE_FORMAT: the letter 'b' of a pattern is"),
        *[
            (f"DATE_FORMAT(TO_TIMESTAMP(x), '{pattern}')", STRING, ["2024-01-01"], f"DATE_FORMAT: {message}")
            for pattern, message in (
                ("aa", "the letter 'a' of a pattern does not stand 2 times"),
                ("cc", "the letter 'c' of a pattern does not stand 2 times"),
                ("SSSSSSSSSS", "the letter 'S' of a pattern does not stand 10 times"),
                ("ppé", "the letter 'p' of a pattern stands before the one that it fills up"),
                ("{", "'{' of a pattern stands in"),
                ("X", "the letter 'X' of a pattern needs a time in a zone"),
            )
        ],
        ("FROM_UNIXTIME(CAST(x AS BIGINT), 'e')", STRING, ["1"], "FROM_UNIXTIME: the letter 'e' of a pattern is not"),
        (
            "JSON_VALUE(x, '$.a[' ERROR ON ERROR)",
            STRING,
            ["{}"],
            r"JSON_VALUE: '\$.a\[' is no path of JSON: a name, a pl",
        ),
        (
            "JSON_VALUE(x, '$.a[?(@.b =~ /(/)]' ERROR ON ERROR)",
            STRING,
            ["{}"],
            r"is no path of JSON: /\(/: missing \)",
        ),
        ("JSON_VALUE(x, '$.a' ERROR ON ERROR)", STRING, ["{}"], r"JSON_VALUE: the path '\$.a' finds nothing in '{}'"),
        ("SHA2(x, 7)", STRING, ["a"], "SHA2: SHA2 has 224, 256, 384 or 512 bits, and not 7"),
        ("ELEMENT(ARRAY[x, x])", INT, [1], "ELEMENT: ELEMENT takes an array of one element, and there is one of 2"),
    ],
)
def test_a_value_that_cannot_be_computed_is_an_error_that_names_function_and_value(
    sql: str, kind: LogicalType, values: list[Any], message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        on_column(sql, kind, values)


# -- ways that constants do not take -------------------------------------------------------------------------------


def test_a_regular_expression_that_arrow_refuses_is_pythons() -> None:
    assert on_column("REGEXP_EXTRACT(x, '(?<=a)(b+)', 1)", STRING, ["abb", "bb", None]) == ["bb", None, None]
    assert on_column("REGEXP_REPLACE(x, '(.)\\1', '-')", STRING, ["aab", "ab"]) == ["-b", "ab"]


def test_a_pattern_that_is_a_column_is_applied_row_by_row_of_its_values() -> None:
    row = ROW(("x", STRING), ("p", STRING))
    columns = [pa.array(["abc", "abc", None, "b"]), pa.array(["a%", "b%", "a%", None])]
    assert calculate(bind("x LIKE p", row), columns, 4, EvaluationContext()).to_pylist() == [True, False, None, None]


def test_what_json_functions_made_is_nested_and_a_text_is_quoted() -> None:
    sql = "JSON_OBJECT('a' VALUE JSON_ARRAY(x), 'b' VALUE CAST(JSON_ARRAY(x) AS STRING))"
    assert on_column(sql, INT, [1]) == ['{"a":[1],"b":"[1]"}']


def test_numbers_that_json_lacks_are_written_as_texts() -> None:
    assert on_column("JSON_ARRAY(x)", DOUBLE, [float("nan"), 1e-7, 1e22, 0.5]) == [
        '["NaN"]',
        "[1.0E-7]",
        "[1.0E+22]",
        "[0.5]",
    ]


@pytest.mark.parametrize("value", [2.675, 0.285, 1.005, -1.005, 1e300, float("inf"), -0.0, 4503599627370497.5])
def test_doubles_are_rounded_as_the_decimals_that_they_are_written_as(value: float) -> None:
    far_from_the_middle = [0.1234, value, None]
    wanted = {2.675: 2.68, 0.285: 0.29, 1.005: 1.01, -1.005: -1.01}.get(value, value)
    assert on_column("ROUND(x, 2)", DOUBLE, far_from_the_middle) == [0.12, wanted, None]


@pytest.mark.parametrize("sql", ["x < CURRENT_TIMESTAMP", "x = TIMESTAMP '2024-07-01 14:00:00'"])
def test_instants_are_compared_with_timestamps_in_the_time_zone_of_the_session(sql: str) -> None:
    context = EvaluationContext(now_micros=NOON, time_zone="Europe/Berlin")
    instant = dt.datetime(2024, 7, 1, 12, tzinfo=UTC)
    assert on_column(sql, TIMESTAMP_LTZ(3), [instant], context) == [True]

"""Functions give the types and values that Flink gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.calc.calculation import KERNELS, calculate
from actors.operators.calc.values.evaluation import EvaluationContext
from flinkray.errors import RecordError, SqlError
from flinkray.tables.binding.binder import bind_expression
from flinkray.tables.catalog import Catalog
from flinkray.tables.functions.registry import FUNCTIONS, FunctionCallError
from flinkray.tables.functions.signatures import FunctionKind
from flinkray.tables.plans.expressions import BoundExpression
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import ROW, STRING, RowType
from tests.support.flink_functions import COLUMNS, MORE_COLUMNS, answers
from tests.support.sql_expressions import bind, bound_call, read_type

FILES = ("types", "numbers_and_logic", "texts_and_json", "casts_and_collections", "times")
DIFFERENT = {
    # Flink folds a cast of a cast of a constant as if it were exact; of a column it gives this as well.
    "CAST(CAST(0.1 AS FLOAT) AS DOUBLE)": "0.10000000149011612",
    "CAST(CAST(0.1 AS FLOAT) AS DECIMAL(20,18))": "0.100000001490116120",
    # Flink folds this into 0.0, though the text is no number.
    "TRY_CAST('x' AS DECIMAL(5,1))": None,
    # Flink's parts of times before 1970 are of a day that goes backwards.
    "EXTRACT(HOUR FROM TIMESTAMP '1969-12-31 23:59:59.5')": "23",
    "EXTRACT(SECOND FROM TIMESTAMP '1969-12-31 23:59:59.5')": "59",
}
"""Where Flink is not followed: what is given instead."""
MOMENT = "TIMESTAMP '2024-12-30 15:06:07.123456'"
BEFORE_CHRIST = "TIMESTAMPADD(YEAR, -2028, TIMESTAMP '2024-02-29 00:00:00')"


def written(sql: str, row: RowType) -> BoundExpression:
    """The expression as statements have it."""
    return bind_expression(Catalog(), sql, row)


def texts_of(
    sql: str,
    row: RowType,
    columns: list[pa.Array],
    rows: int,
    read: Callable[[str, RowType], BoundExpression] = bind,
) -> list[Any]:
    texts = bound_call("CAST", read(sql, row), target=STRING)
    found: list[Any] = calculate(texts, columns, rows, EvaluationContext()).to_pylist()
    return found


def is_same(ours: str | None, flinks: str | None) -> bool:
    """Doubles may differ in the last digit: Java has functions of its own."""
    if ours == flinks:
        return True
    try:
        return math.isclose(float(str(ours)), float(str(flinks)), rel_tol=1e-15) and "." in str(flinks)
    except ValueError:
        return False


def difference(
    answer: dict[str, Any],
    row: RowType,
    columns: list[pa.Array],
    rows: int,
    read: Callable[[str, RowType], BoundExpression] = bind,
) -> str | None:
    """What is not as Flink has it, in a sentence."""
    sql = answer["sql"]
    try:
        kind = str(read(sql, row).type)
    except (FunctionCallError, SqlError, AssertionError) as error:
        return None if answer.get("invalid") else f"{sql}: {error}"
    if answer.get("invalid"):
        return f"{sql}: is taken, as {kind}"
    try:
        values = texts_of(sql, row, columns, rows, read)
    except RecordError as error:
        return None if answer.get("error") else f"{sql}: {error}"
    if answer.get("error"):
        return f"{sql}: gives {values}"
    wanted = answer["value"] if isinstance(answer["value"], list) else [answer["value"]]
    if kind != answer["type"]:
        return f"{sql}: is of type {kind}, and not {answer['type']}"
    if not all(map(is_same, values, wanted)):
        return f"{sql}: gives {values}, and not {wanted}"
    return None


@pytest.mark.parametrize("name", FILES)
def test_constants_have_the_types_and_values_that_flink_gives(name: str) -> None:
    found = [difference(answer, ROW(), [], 1) for answer in answers(name)]
    assert [sentence for sentence in found if sentence] == []


def test_columns_with_nulls_have_the_types_and_values_that_flink_gives() -> None:
    row = ROW(*((name, read_type(kind)) for name, (kind, _) in COLUMNS.items()))
    columns = [pa.array(values, to_arrow(kind)) for kind, (_, values) in zip(row.types, COLUMNS.values(), strict=True)]
    found = [difference(answer, row, columns, 4) for answer in answers("columns")]
    assert [sentence for sentence in found if sentence] == []


def test_what_is_written_in_a_statement_has_the_types_and_values_that_flink_gives() -> None:
    found = [difference(answer, ROW(), [], 1, written) for answer in answers("written")]
    row = ROW(*((name, read_type(kind)) for name, (kind, _) in MORE_COLUMNS.items()))
    columns = [
        pa.array(values, to_arrow(kind)) for kind, (_, values) in zip(row.types, MORE_COLUMNS.values(), strict=True)
    ]
    found += [difference(answer, row, columns, 6, written) for answer in answers("more_columns")]
    assert [sentence for sentence in found if sentence] == []


def test_a_text_that_is_no_time_equals_none() -> None:
    row, columns = ROW(("s", STRING)), [pa.array(["hello", "2024-01-01", None])]
    day, moment = "DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'"
    expected = {
        f"s = {day}": [None, "TRUE", None],
        f"{day} <> s": [None, "FALSE", None],
        f"(COALESCE(s, 'x') = {day}) IS NULL": ["TRUE", "FALSE", "TRUE"],
        f"s IS NOT DISTINCT FROM {moment}": ["FALSE", "TRUE", "FALSE"],
    }
    assert {sql: texts_of(sql, row, columns, 3, written) for sql in expected} == expected
    assert written(f"COALESCE(s, 'x') = {day}", row).type.nullable


ITEMS = """'[{"a":1,"b":"x"},{"a":2,"b":"y"},{"a":3}]'"""


def found_at(path: str, text: str = ITEMS) -> str:
    return f"JSON_QUERY({text}, '{path}')"


RULES: dict[str, list[tuple[str, str | None]]] = {
    "paths of JSON lead to several values": [
        (found_at("$..b"), '["x","y"]'),
        (found_at("$..x", """'{"a": {"x": {"x": 1}}, "x": [2]}'"""), '[[2],{"x":1},1]'),
        (found_at("$..[0]", "'[[1, 2], [3]]'"), "[[1,2],1,3]"),
        (found_at("$[*][*]", "'[[1, 2], [3]]'"), "[1,2,3]"),
        (found_at("$[1:]", "'[1, 2, 3]'"), "[2,3]"),
        (found_at("$[:-1]", "'[1, 2, 3]'"), "[1,2]"),
        (found_at("$[-2:]", "'[1, 2, 3]'"), "[2,3]"),
        (found_at("$[1:-1]", "'[1, 2, 3]'"), "[]"),
        (found_at("$[0,2,9]", "'[1, 2, 3]'"), "[1,3]"),
        (found_at("$[''x'',''y'']", """'{"x": 1, "y": 2, "z": 3}'"""), '{"x":1,"y":2}'),
        ("JSON_EXISTS('{}', '$..a')", "TRUE"),
        ("JSON_VALUE('[1]', '$..a')", None),
    ],
    "paths of JSON have conditions": [
        (found_at("$[?(@.a > 1)]"), '[{"a":2,"b":"y"},{"a":3}]'),
        (found_at("$[?(@.a > 1 && @.b == ''y'')].a"), "[2]"),
        (found_at("$[?(@.a==1||(@.a>=3 && !@.b))].a"), "[1,3]"),
        (found_at("$[?(@.b)].a"), "[1,2]"),
        (found_at("$[?(@.b != ''x'')].a"), "[2,3]"),
        (found_at("$[?(@.a == ''1'')].a"), "[1]"),
        (found_at("$[?(@.a < ''2'')].a"), "[]"),
        (found_at("$[?(@.a in [1, 3])].a"), "[1,3]"),
        (found_at("$[?(@.b nin [''x''])].a"), "[2,3]"),
        (found_at("$[?(@.b =~ /[XZ]/i)].a"), "[1]"),
        (found_at("$.i[?(@ >= $.m)]", """'{"m": 2, "i": [1, 2, 3]}'"""), "[2,3]"),
        (found_at("$[?(@.x == @.y)].a"), "[]"),
        (found_at("$[?(@.a == true)].a"), "[]"),
    ],
    "paths of JSON end with functions, and what is no path is an error": [
        ("JSON_VALUE('{\"a\": [1, 2]}', '$.a.length()')", "2"),
        ("JSON_VALUE('[1, 2, 3]', '$.sum()')", "6.0"),
        ("JSON_VALUE('[1, 2, 3]', '$.avg()')", "2.0"),
        ("JSON_VALUE('[]', '$.max()')", None),
        ("JSON_QUERY('{\"x\": 1}', '$.keys()')", '["x"]'),
        ("JSON_VALUE('\"ab\"', '$.length()' NULL ON EMPTY DEFAULT 'e' ON ERROR)", "e"),
        *[
            (f"JSON_VALUE('{{}}', '{path}' DEFAULT 'e' ON ERROR)", "e")
            for path in ("", "$.", "$[", "$a", "$.a]", "$[::2]", "$[?(@.a]", "$[?(@.a ==)]", "$.none()", "lax $.")
        ],
    ],
    "the end of a day is the begin of the next, and years of two digits are from 2000 on": [
        ("CAST('2024-02-29 24:00:00' AS TIMESTAMP(0))", "2024-03-01 00:00:00"),
        ("TO_TIMESTAMP('2024-12-31 24:00', 'yyyy-MM-dd HH:mm')", "2025-01-01 00:00:00.000"),
        ("TRY_CAST('2024-02-29 24:00:00.001' AS TIMESTAMP(0))", None),
        ("TRY_CAST('2024-02-29 24:00:01' AS TIMESTAMP(0))", None),
        ("TO_TIMESTAMP('75-01-05', 'yy-MM-dd')", "2075-01-05 00:00:00.000"),
        ("TO_DATE('2024-01-05', '')", None),
    ],
    "a nested value of which TRY_CAST cannot read a part is NULL": [
        ("TRY_CAST(ROW('1', 'x') AS ROW<a INT, b INT>)", None),
        ("TRY_CAST(MAP['a', 'x'] AS MAP<STRING, INT>)", None),
        ("TRY_CAST(MAP['x', 1] AS MAP<INT, INT>)", None),
        ("TRY_CAST(MAP[123.45, 1] AS MAP<DECIMAL(3, 1), INT>)", None),
        ("TRY_CAST(ARRAY[ARRAY['x'], ARRAY['1']] AS ARRAY<ARRAY<INT>>)", None),
        ("TRY_CAST(ARRAY['999', '1'] AS ARRAY<DECIMAL(2, 0)>)", None),
        ("TRY_CAST(ARRAY[123.45] AS ARRAY<DECIMAL(3, 1)>)", "[NULL]"),
        ("TRY_CAST(ARRAY['1', CAST(NULL AS STRING)] AS ARRAY<INT>)", "[1, NULL]"),
        ("TRY_CAST(ROW('1', ARRAY['1']) AS ROW<a INT, b ARRAY<INT>>)", "(1, [1])"),
    ],
    "NaN and truths have an order, and SIMILAR TO has classes of characters": [
        ("GREATEST(TRUE, FALSE)", "TRUE"),
        ("GREATEST(1e0, CAST('NaN' AS DOUBLE))", "NaN"),
        ("GREATEST(CAST('NaN' AS DOUBLE), 1e0)", "NaN"),
        ("GREATEST(CAST('NaN' AS DOUBLE), CAST(NULL AS DOUBLE))", None),
        ("LEAST(1e0, CAST('NaN' AS DOUBLE))", "1.0"),
        ("LEAST(TRUE, FALSE, TRUE)", "FALSE"),
        ("LEAST(FALSE, CAST(NULL AS BOOLEAN))", None),
        ("'a1' SIMILAR TO '[[:ALPHA:]][[:DIGIT:]]'", "TRUE"),
        ("'a-' SIMILAR TO '[_[:alpha:]]+[^[:alnum:]]'", "TRUE"),
        ("'a b' SIMILAR TO '[[:UPPER:]]%[[:WHITESPACE:]]%'", "FALSE"),
        ("HEX(CAST(ENCODE('', 'UTF-16') AS STRING))", ""),
    ],
    "instants are counted in any unit, and are NULL where their type cannot hold them": [
        ("TO_TIMESTAMP_LTZ(1704067200123456, 3 + 3)", "2024-01-01 00:00:00.123"),
        ("TO_TIMESTAMP_LTZ(-1, CAST(6 AS INT))", "1969-12-31 23:59:59.999"),
        ("TO_TIMESTAMP_LTZ(-9000000000000000000, 4 + 4)", None),
        ("TO_TIMESTAMP_LTZ(2534023007990000000, 7)", None),
        ("TO_TIMESTAMP_LTZ(9000000000000000000, 8)", None),
        ("TO_TIMESTAMP_LTZ(17040672001234567, 7)", "2024-01-01 00:00:00.1234567"),
        ("TO_TIMESTAMP_LTZ(2.5e18, 7)", None),
    ],
    "hours and fractions are read as Java reads them": [
        ("FROM_UNIXTIME(UNIX_TIMESTAMP('13', 'h'), 'HH')", "13"),
        ("FROM_UNIXTIME(UNIX_TIMESTAMP('12 AM', 'h a'), 'HH')", "00"),
        ("FROM_UNIXTIME(UNIX_TIMESTAMP('12', 'K'), 'HH')", "12"),
        ("FROM_UNIXTIME(UNIX_TIMESTAMP('24', 'k'), 'dd HH')", "01 00"),
        ("FROM_UNIXTIME(UNIX_TIMESTAMP('1.12345', 's.SSS'), 'ss')", "13"),
        ("FROM_UNIXTIME(UNIX_TIMESTAMP('1.5', 's.SSS'), 'ss')", "01"),
        ("TO_TIMESTAMP('2024-01-01 24', 'yyyy-MM-dd kk')", "2024-01-01 00:00:00.000"),
        ("TO_TIMESTAMP('2024-01-01 13', 'yyyy-MM-dd hh')", None),
    ],
    "letters of DATE_FORMAT and TO_TIMESTAMP are those of DateTimeFormatter": [
        (f"DATE_FORMAT({MOMENT}, 'W F c e')", "5 2 2 2"),
        (f"DATE_FORMAT({MOMENT}, 'ccc cccc eee EEEEE MMMMM LLLLL')", "Mon Monday Mon M D D"),
        (f"DATE_FORMAT({MOMENT}, 'GGGG G GGGGG')", "Anno Domini AD A"),
        (f"DATE_FORMAT({MOMENT}, 'QQ QQQ qqqq')", "04 Q4 4th quarter"),
        (f"DATE_FORMAT({MOMENT}, 'h B BBBB BBBBB')", "3 in the afternoon in the afternoon in the afternoon"),
        ("DATE_FORMAT(TIMESTAMP '2024-01-02 00:00:05', 'BBBBB B')", "mi midnight"),
        ("DATE_FORMAT(TIMESTAMP '2024-01-02 12:00:05', 'BBBBB B')", "n noon"),
        ("DATE_FORMAT(TIMESTAMP '2024-01-02 06:00:00', 'B')", "in the morning"),
        ("DATE_FORMAT(TIMESTAMP '2024-01-02 20:59:00', 'B')", "in the evening"),
        ("DATE_FORMAT(TIMESTAMP '2024-01-02 21:00:00', 'B')", "at night"),
        (f"DATE_FORMAT({MOMENT}, 'pppH|ppppE|pppM')", " 15| Mon| 12"),
        (f"DATE_FORMAT({MOMENT}, 'n A N')", "123456000 54367123 54367123456000"),
        (f"DATE_FORMAT({MOMENT}, 'g[ HH] ''''''''')", "60674 15 '"),
        ("TO_TIMESTAMP('2024-060', 'yyyy-DDD')", "2024-02-29 00:00:00.000"),
        ("TO_TIMESTAMP('2023-366', 'yyyy-DDD')", None),
        ("TO_TIMESTAMP('Friday, 29 February 2024', 'EEEE, dd MMMM yyyy')", None),
        ("TO_TIMESTAMP('2024 AD-02-29', 'yyyy G-MM-dd')", "2024-02-29 00:00:00.000"),
        ("TO_TIMESTAMP('29 FEB 2024', 'dd MMM yyyy')", None),
        ("TO_TIMESTAMP('2024-02-29 03 pm', 'yyyy-MM-dd hh a')", None),
        ("TO_TIMESTAMP('2024-02-29', 'yyyy-MM-dd[ HH:mm]')", "2024-02-29 00:00:00.000"),
        ("TO_TIMESTAMP('2024-02-29 15:06', 'yyyy-MM-dd[ HH:mm]')", "2024-02-29 15:06:00.000"),
        ("TO_TIMESTAMP('2024-02-29T15+02:00', 'yyyy-MM-dd''T''HHXXX')", "2024-02-29 15:00:00.000"),
        ("TO_TIMESTAMP('2024-02-29 15 CET', 'yyyy-MM-dd HH z')", "2024-02-29 15:00:00.000"),
        (f"DATE_FORMAT({BEFORE_CHRIST}, 'yyyy y yy G uuuu u uu')", "0005 5 05 BC -0004 -4 04"),
    ],
    "letters of a pattern stand in several brackets, or twice": [
        ("TO_TIMESTAMP('2024-02-29', '[yyyy-MM-dd][dd/MM/yyyy]')", "2024-02-29 00:00:00.000"),
        ("TO_TIMESTAMP('29/02/2024', '[yyyy-MM-dd][dd/MM/yyyy]')", "2024-02-29 00:00:00.000"),
        ("TO_TIMESTAMP('06.05.2024', '[yyyy-MM-dd][dd.MM.yyyy]')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06', '[yyyy-MM-dd][yy/MM/dd]')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('24/05/06', '[yyyy-MM-dd][yy/MM/dd]')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('06 Dec 2024', '[dd.MM.yyyy][dd MMM yyyy]')", "2024-12-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06 00:00:00.5', 'yyyy-MM-dd HH:mm:ss[.SSS][.S]')", "2024-05-06 00:00:00.500"),
        ("TO_TIMESTAMP('2024-05-06 00:00:00.25 .250', 'yyyy-MM-dd HH:mm:ss.SS .SSS')", "2024-05-06 00:00:00.250"),
        ("TO_TIMESTAMP('2024-05-06 00:00:00.25 .025', 'yyyy-MM-dd HH:mm:ss.SS .SSS')", None),
        ("TO_TIMESTAMP('2024-05-06 06', 'yyyy-MM-dd dd')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06 6', 'yyyy-MM-dd d')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06 07', 'yyyy-MM-dd dd')", None),
        ("TO_TIMESTAMP('2024-05-06 May', 'yyyy-MM-dd MMM')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06 Jun', 'yyyy-MM-dd MMM')", None),
        ("TO_TIMESTAMP('2024-05-06 24', 'yyyy-MM-dd yy')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06 25', 'yyyy-MM-dd yy')", None),
        ("TO_TIMESTAMP('Mon Monday 2024-05-06', 'EEE EEEE yyyy-MM-dd')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06 127', 'yyyy-MM-dd DDD')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06 128', 'yyyy-MM-dd DDD')", None),
        ("TO_TIMESTAMP('2024-05-06 15 03 PM', 'yyyy-MM-dd HH hh a')", "2024-05-06 15:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06 15 03 AM', 'yyyy-MM-dd HH hh a')", None),
        ("TO_TIMESTAMP('2024-05-06 15 03', 'yyyy-MM-dd HH hh')", "2024-05-06 15:00:00.000"),
        ("TO_DATE('2024-05-06 07', 'yyyy-MM-dd dd')", "2024-05-07"),
        ("TO_DATE('2024-05-06 Jun', 'yyyy-MM-dd MMM')", "2024-06-06"),
    ],
    "what stands in a bracket may be missing": [
        ("TO_TIMESTAMP('06.05.2024', '[EEE ]dd.MM.yyyy')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('Mon 06.05.2024', '[EEE ]dd.MM.yyyy')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('Tue 06.05.2024', '[EEE ]dd.MM.yyyy')", None),
        ("TO_TIMESTAMP('2024', 'yyyy[ MMM]')", "2024-01-01 00:00:00.000"),
        ("TO_TIMESTAMP('2024 May', 'yyyy[ MMM]')", "2024-05-01 00:00:00.000"),
        ("TO_TIMESTAMP('2024-05-06', 'yyyy[-DDD][-MM-dd]')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('2024-060', 'yyyy[-DDD][-MM-dd]')", "2024-02-29 00:00:00.000"),
        ("TO_TIMESTAMP('2023-366', 'yyyy[-DDD][-MM-dd]')", None),
        ("TO_TIMESTAMP('06.05.2024 10:00', 'dd.MM.yyyy[ hh:mm a][ HH:mm]')", "2024-05-06 10:00:00.000"),
        ("TO_TIMESTAMP('06.05.2024 10:00 PM', 'dd.MM.yyyy[ hh:mm a][ HH:mm]')", "2024-05-06 22:00:00.000"),
        ("TO_TIMESTAMP('06.05.2024 13:00 PM', 'dd.MM.yyyy[ hh:mm a][ HH:mm]')", None),
        ("TO_TIMESTAMP('06.05.2024', 'dd.MM.yyyy[ kk:mm][ KK:mm a]')", "2024-05-06 00:00:00.000"),
        ("TO_TIMESTAMP('06.05.2024 11:30 PM', 'dd.MM.yyyy[ kk:mm][ KK:mm a]')", "2024-05-06 23:30:00.000"),
        ("TO_TIMESTAMP('2024', 'yyyy[ MM[ dd')", "2024-01-01 00:00:00.000"),
    ],
    "letters of FROM_UNIXTIME, UNIX_TIMESTAMP, TO_DATE and texts in DATE_FORMAT are those of SimpleDateFormat": [
        ("FROM_UNIXTIME(1735516800, 'u uu W F')", "1 01 5 5"),
        ("FROM_UNIXTIME(1735516800, 'GGGG MMMMM EEEEE aa SS')", "AD December Monday AM 00"),
        ("FROM_UNIXTIME(1735516800, 'Z X XX XXX [y]')", "+0000 Z Z Z [2024]"),
        ("DATE_FORMAT('2024-12-30 00:00:00', 'u')", "1"),
        ("DATE_FORMAT('2024-12-30 00:00:00', 'Z')", "+0000"),
        ("DATE_FORMAT('2024-12-30 00:00:00', 'HH X XXX')", "00 Z Z"),
        ("TO_DATE('2024-060', 'yyyy-DDD')", "2024-02-29"),
        ("TO_DATE('29 FEB 2024', 'dd MMM yyyy')", "2024-02-29"),
        ("TO_DATE('2024-02-29', 'uuuu-MM-dd')", "1970-03-01"),
        ("TO_DATE('Monday 2024-05-06', 'EEE yyyy-MM-dd')", "2024-05-06"),
        ("TO_DATE('Mon 2024-05-06', 'EEEE yyyy-MM-dd')", "2024-05-06"),
        ("TO_DATE('Sep 2024', 'MMMM yyyy')", "2024-09-01"),
        ("TO_DATE('september 2024', 'LLL yyyy')", "2024-09-01"),
        ("CAST(UNIX_TIMESTAMP('September 2024', 'MMM yyyy') AS STRING)", "1725148800"),
        ("CAST(UNIX_TIMESTAMP('1709219167', 's') AS STRING)", "1709219167"),
        ("CAST(UNIX_TIMESTAMP('2024-02-29T15:06:07Z', 'yyyy-MM-dd''T''HH:mm:ssX') AS STRING)", "1709219167"),
        ("CAST(UNIX_TIMESTAMP('2024-02-29T15:06:07+02:00', 'yyyy-MM-dd''T''HH:mm:ssXXX') AS STRING)", "1709211967"),
        ("CAST(UNIX_TIMESTAMP('2024-02-29T15:06:07-0130', 'yyyy-MM-dd''T''HH:mm:ssZ') AS STRING)", "1709224567"),
    ],
    "values are written as Java's formats write them": [
        ("PRINTF('%,.2f|%,12d|%,012d', 1234567.5e0, 1234567, -1234567)", "1,234,567.50|   1,234,567|-001,234,567"),
        ("PRINTF('%s %b %b', TRUE, 0, FALSE)", "true true false"),
        ("PRINTF('%c', 1114112)", None),
        ("PRINTF('%c', 'a')", None),
        ("PRINTF('%x %X %o', -7, CAST(-7 AS BIGINT), CAST(-7 AS TINYINT))", "fffffff9 FFFFFFFFFFFFFFF9 371"),
        ("PRINTF('%2$s %s %1$s %s', 'a', 'b')", "b a a b"),
        ("PRINTF('%3$s', 'a', 'b')", None),
        ("PRINTF('%x %X', CAST(NULL AS INT), CAST(NULL AS INT))", "null NULL"),
        ("PRINTF('%s', TIMESTAMP '2024-03-05 10:20:30.5')", "2024-03-05T10:20:30.500"),
        ("PRINTF('%s', TIMESTAMP '2024-03-05 10:20:00')", "2024-03-05T10:20"),
        ("PRINTF('%,x', 1)", None),
        ("PRINTF('%.2f', 5)", None),
    ],
    "a text is a number where it is less or more than one": [
        ("'10' > 9", "TRUE"),
        ("2 BETWEEN '1' AND '10'", "TRUE"),
        ("1.5E0 > '1'", "TRUE"),
    ],
    "delimiters of maps are expressions as Java has them": [
        ("STR_TO_MAP('ab', '|')", "{a=NULL, b=NULL}"),
        ("STR_TO_MAP('ab', ',', '')", "{a=b}"),
        ("STR_TO_MAP('a=1;b=2', '(;)', '(=)')", "{a=1, b=2}"),
        ("IF(CHAR_LENGTH('a') = 1, 'x', CAST(STR_TO_MAP('a', '*') AS STRING))", "x"),
    ],
    "texts that are no bytes, addresses or paths are told": [
        ("CAST(UNHEX('4D  5A') AS STRING)", None),
        ("HEX(CAST(UNHEX('14d') AS STRING))", "004D"),
        ("HEX(CAST(UNHEX('7') AS STRING))", "00"),
        ("CAST(UNHEX('G12') AS STRING)", None),
        (f"INET_ATON('{'1' * 5_000}')", None),
        (f"INET_ATON('{'0' * 20}1')", "1"),
        ("JSON_VALUE('{\"a\": {\"b\": 2}}', 'lax a.b')", "2"),
        ("JSON_VALUE('{\"lax\": 3}', 'lax')", "3"),
    ],
}


@pytest.mark.parametrize("rule", RULES)
def test_values_are_those_of_java_where(rule: str) -> None:
    found = [(sql, texts_of(sql, ROW(), [], 1)[0]) for sql, _ in RULES[rule]]
    assert found == RULES[rule]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("STR_TO_MAP(s, '*')", "no regular expression"),
        ("ENCODE(s, 'none')", "no charset"),
        ("DECODE(ENCODE(s, 'UTF-8'), 'none')", "no charset"),
        ("SHA2(s, 1)", "SHA2 has"),
        ("SPLIT_INDEX(s, 1114112, 0)", "range"),
        ("TO_TIMESTAMP(s, 'yyyy-MM-dd]')", "without"),
        ("TO_TIMESTAMP(s, 'yyyy]-[MM')", "without"),
        ("DATE_FORMAT(TO_TIMESTAMP(s), 'yyyy]')", "without"),
    ],
)
def test_what_cannot_be_computed_fails_for_the_rows_that_need_it_alone(sql: str, message: str) -> None:
    row, guarded = ROW(("s", STRING)), f"IF(s = 'a', 'x', CAST({sql} AS STRING))"
    assert texts_of(guarded, row, [pa.array(["a"])], 1) == ["x"]
    with pytest.raises(RecordError, match=message):
        texts_of(guarded, row, [pa.array(["b"])], 1)


@pytest.mark.parametrize("sql", DIFFERENT)
def test_what_is_not_as_flink_has_it_is_as_it_is_said(sql: str) -> None:
    assert texts_of(sql, ROW(), [], 1) == [DIFFERENT[sql]]


def test_each_scalar_function_has_a_kernel_and_each_kernel_a_function() -> None:
    assert {f.name for f in FUNCTIONS.values() if f.kind is FunctionKind.SCALAR} == set(KERNELS)

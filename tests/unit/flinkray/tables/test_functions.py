"""Calls of functions: what they take, what they give, and what a message says where they do not."""

from __future__ import annotations

import pytest

from flinkray.tables.functions.registry import FunctionCallError, find, resolve
from flinkray.tables.functions.signatures import Argument, FunctionKind
from flinkray.tables.types.logical import LogicalType, TimeAttribute
from tests.support.sql_expressions import read_type


def arguments(*types: str) -> list[Argument]:
    return [Argument(read_type(text)) for text in types]


@pytest.mark.parametrize(
    ("name", "types", "alone", "in_groups"),
    [
        ("COUNT", [], "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("COUNT", ["INT"], "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("SUM", ["INT NOT NULL"], "INT", "INT NOT NULL"),
        ("SUM", ["DECIMAL(5, 2)"], "DECIMAL(38, 2)", "DECIMAL(38, 2)"),
        ("SUM", ["FLOAT"], "FLOAT", "FLOAT"),
        ("AVG", ["TINYINT"], "TINYINT", "TINYINT"),
        ("AVG", ["DECIMAL(5, 2)"], "DECIMAL(38, 6)", "DECIMAL(38, 6)"),
        ("MIN", ["TIMESTAMP(0) NOT NULL"], "TIMESTAMP(0)", "TIMESTAMP(0) NOT NULL"),
        ("STDDEV", ["DOUBLE"], "DOUBLE", "DOUBLE"),
        ("STDDEV_POP", ["DECIMAL(5, 2)"], "DECIMAL(38, 6)", "DECIMAL(38, 6)"),
        ("VAR_POP", ["INT"], "INT", "INT"),
        ("FIRST_VALUE", ["INT"], "INT", "INT"),
        ("LISTAGG", ["STRING"], "STRING", "STRING"),
        ("COLLECT", ["INT"], "MULTISET<INT> NOT NULL", "MULTISET<INT> NOT NULL"),
        ("ARRAY_AGG", ["INT NOT NULL"], "ARRAY<INT NOT NULL> NOT NULL", "ARRAY<INT NOT NULL> NOT NULL"),
        ("ARRAY_AGG", ["INT"], "ARRAY<INT>", "ARRAY<INT>"),
        ("PERCENTILE", ["DOUBLE", "ARRAY<DOUBLE>"], "ARRAY<DOUBLE>", "ARRAY<DOUBLE>"),
        ("ROW_NUMBER", [], "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("PERCENT_RANK", [], "DOUBLE NOT NULL", "DOUBLE NOT NULL"),
        ("LAG", ["INT NOT NULL", "INT NOT NULL"], "INT", "INT"),
        ("LAG", ["INT NOT NULL", "INT NOT NULL", "INT NOT NULL"], "INT NOT NULL", "INT NOT NULL"),
        ("LAG", ["INT NOT NULL", "INT NOT NULL", "DECIMAL(2, 1) NOT NULL"], "INT NOT NULL", "INT NOT NULL"),
    ],
)
def test_aggregates_have_the_types_of_flink_and_may_be_null_where_there_may_be_no_row(
    name: str, types: list[str], alone: str, in_groups: str
) -> None:
    assert str(resolve(name, arguments(*types)).result_type) == alone
    assert str(resolve(name, arguments(*types), may_be_empty=False).result_type) == in_groups


def test_a_function_is_found_whatever_its_case_and_by_its_synonyms() -> None:
    assert find("substr") is find("SUBSTRING")
    assert find("ceiling").name == "CEIL"
    assert resolve("mod", arguments("INT", "INT")).name == "%"


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("UPER", ["STRING"], r"there is no function 'UPER'; did you mean 'UPPER'\?"),
        ("UPPER", ["INT"], r"UPPER\(INT\): argument 1 has to be a text, and is INT; it is called as UPPER\(a text\)"),
        ("LEFT", ["STRING"], r"LEFT\(STRING\): 1 arguments are not what it takes; it is called as LEFT\(a text, "),
        ("=", ["INT", "STRING"], r"its arguments have no common type: INT, STRING; CAST them to one"),
        ("<", ["ARRAY<INT>", "ARRAY<INT>"], "argument 1 has to be a value of the same type that has an order"),
        ("+", ["INT", "DATE"], "INT and DATE have no sum"),
        ("-", ["DATE", "DATE"], r"two times are apart by an interval, which has to be named: \(end - begin\) SECOND"),
        ("||", ["STRING", "BYTES"], "STRING and BYTES are not both texts, nor both bytes"),
        ("CASE", ["BOOLEAN", "INT", "STRING"], "no common type: INT, STRING"),
        ("ITEM", ["MAP<STRING, INT>", "INT"], "the keys are STRING, and not INT"),
        ("ITEM", ["ROW<a INT>", "STRING"], "the row has the fields a"),
        ("ARRAY_CONTAINS", ["ARRAY<INT>", "STRING"], "the elements are INT, and not STRING"),
        ("CURRENT_WATERMARK", ["TIMESTAMP(3)"], "it needs a rowtime attribute"),
        ("FLOOR", ["TIMESTAMP(3)"], "a date, time or timestamp is rounded to a unit, and a number without one"),
    ],
)
def test_a_call_that_is_refused_names_the_function_its_arguments_and_what_it_takes(
    name: str, types: list[str], message: str
) -> None:
    with pytest.raises(FunctionCallError, match=message):
        resolve(name, arguments(*types))


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("TIMESTAMP(3)", "BIGINT", r"cannot be cast to BIGINT: UNIX_TIMESTAMP\(CAST\(x AS STRING\)\) gives seconds"),
        ("BIGINT", "TIMESTAMP(3)", r"cannot be cast to TIMESTAMP\(3\): TO_TIMESTAMP_LTZ\(x, 0\) takes seconds"),
    ],
)
def test_a_cast_that_is_refused_says_what_to_write_instead(source: str, target: str, message: str) -> None:
    with pytest.raises(FunctionCallError, match=message):
        resolve("CAST", arguments(source), read_type(target))


def test_a_unit_that_is_none_is_named_with_those_there_are() -> None:
    with pytest.raises(FunctionCallError, match="'FORTNIGHT' is no unit here; those there are: CENTURY, DAY, DECADE"):
        resolve("EXTRACT", [Argument(read_type("CHAR(9)"), "FORTNIGHT"), *arguments("DATE")])


def test_the_watermark_is_asked_of_a_rowtime_attribute() -> None:
    rowtime: LogicalType = read_type("TIMESTAMP(3)").as_attribute(TimeAttribute.ROWTIME)  # type: ignore[attr-defined]
    resolved = resolve("CURRENT_WATERMARK", [Argument(rowtime)])
    assert (str(resolved.result_type), resolved.is_deterministic) == ("TIMESTAMP(3)", False)


def test_a_call_says_whether_it_is_an_aggregate_and_whether_it_always_gives_the_same() -> None:
    assert resolve("SUM", arguments("INT")).kind is FunctionKind.AGGREGATE
    assert resolve("RANK", []).kind is FunctionKind.RANKING
    assert not resolve("RAND", []).is_deterministic
    assert resolve("ABS", arguments("INT")).is_deterministic


def test_arguments_are_cast_to_what_a_function_takes() -> None:
    resolved = resolve("IN", arguments("INT", "BIGINT NOT NULL", "DECIMAL(5, 1) NOT NULL"))
    assert [str(kind) for kind in resolved.argument_types] == [
        "DECIMAL(20, 1)",
        "DECIMAL(20, 1) NOT NULL",
        "DECIMAL(20, 1) NOT NULL",
    ]


@pytest.mark.parametrize(
    ("name", "given", "result"),
    [
        ("CASE", ["BOOLEAN", "FLOAT", "DOUBLE"], "FLOAT"),
        ("CASE", ["BOOLEAN", "DOUBLE", "FLOAT"], "DOUBLE"),
        ("CASE", ["BOOLEAN", "DECIMAL(5, 2)", "FLOAT"], "DOUBLE"),
        ("CASE", ["BOOLEAN", "TIMESTAMP_LTZ(3)", "TIMESTAMP(6)"], "TIMESTAMP(6)"),
        ("IF", ["BOOLEAN", "TIMESTAMP(0)", "TIMESTAMP_LTZ(3) NOT NULL"], "TIMESTAMP(0)"),
        ("IF", ["BOOLEAN", "TIMESTAMP_LTZ(3)", "TIMESTAMP(6)"], "TIMESTAMP_LTZ(3)"),
        ("IF", ["BOOLEAN NOT NULL", "TIMESTAMP(0) NOT NULL", "TIMESTAMP(6)"], "TIMESTAMP(0)"),
        ("IF", ["BOOLEAN", "TIME(0)", "TIME(3)"], "TIME(0)"),
        ("IF", ["BOOLEAN", "FLOAT", "DOUBLE"], "FLOAT"),
        ("ARRAY", ["FLOAT", "DOUBLE"], "ARRAY<FLOAT> NOT NULL"),
        ("MAP", ["FLOAT", "INT", "DOUBLE", "BIGINT"], "MAP<FLOAT, BIGINT> NOT NULL"),
        ("COALESCE", ["DECIMAL(5, 2)", "FLOAT"], "FLOAT"),
        ("GREATEST", ["FLOAT", "DECIMAL(5, 2)"], "DOUBLE"),
        ("COALESCE", ["FLOAT", "DOUBLE"], "DOUBLE"),
    ],
)
def test_which_approximate_number_or_timestamp_results_are_hangs_on_their_order_as_in_flink(
    name: str, given: list[str], result: str
) -> None:
    assert str(resolve(name, arguments(*given)).result_type) == result

"""Statements are read as Flink reads them, and written so that they are read as the same; wrong ones say where."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given, settings

from flinkray.errors import SqlParserError
from flinkray.tables.syntax.expressions import Call, Expression, Infix, Number, Query, Reference, Symbol
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node, without_places
from flinkray.tables.syntax.parsing.parser import parse_expression, parse_script, parse_statement
from flinkray.tables.syntax.statements import QueryStatement, Statement
from flinkray.tables.syntax.unparsing.expressions import expression_text
from flinkray.tables.syntax.unparsing.statements import statement_text
from flinkray.tables.syntax.words import RESERVED
from tests.support.flink_statements import DATA
from tests.support.sql import EXPRESSIONS, assert_stored_message, nexmark_statements, queries, wrong_statements

STATEMENTS = (DATA / "statements.sql").read_text()
NEXMARK = nexmark_statements()
WORDS = ["day_", "week", "key", "name", "type", "data", "first", "last", "plan", "state", "source", "session", "hop"]


def reference(name: str) -> Reference:
    return Reference(Path((Name(name),)))


def read(sql: str) -> Expression:
    return without_places(parse_expression(sql))


def test_a_script_is_its_statements_whatever_stands_in_comments_strings_and_names() -> None:
    found = parse_script("SELECT ';' -- ;\n; ; SELECT `;` /* ; */;\n-- nothing more")
    assert [statement_text(each) for each in found] == ["SELECT ';'", "SELECT `;`"]
    assert parse_script(" ; \n") == ()


def test_a_statement_of_the_documentation_is_read_written_and_read_as_the_same() -> None:
    statements = parse_script(STATEMENTS)
    assert len(statements) > 150
    for statement in statements:
        assert_round_trip(statement)


@pytest.mark.parametrize("name", NEXMARK)
def test_a_statement_of_nexmark_is_read_written_and_read_as_the_same(name: str) -> None:
    assert_round_trip(parse_statement(NEXMARK[name]))


def assert_round_trip(statement: Statement) -> None:
    text = statement_text(statement)
    assert without_places(parse_statement(text)) == without_places(statement), text


@settings(deadline=None, max_examples=150)
@given(EXPRESSIONS)
def test_any_expression_is_written_so_that_it_is_read_as_the_same(expression: Expression) -> None:
    assert read(expression_text(expression)) == expression


@settings(deadline=None, max_examples=60)
@given(queries())
def test_any_query_is_written_so_that_it_is_read_as_the_same(query: Query) -> None:
    statement = QueryStatement(query)
    assert without_places(parse_statement(statement_text(statement))) == statement


@pytest.mark.parametrize("name", wrong_statements("syntax"))
def test_a_statement_that_cannot_be_read_keeps_its_message(name: str) -> None:
    assert_stored_message("syntax", name, parse_script)


def test_a_statement_or_expression_with_something_behind_it_is_refused() -> None:
    with pytest.raises(SqlParserError, match="SELECT does not fit here"):
        parse_statement("SELECT 1; SELECT 2")
    with pytest.raises(SqlParserError, match="the name `b` does not fit here"):
        parse_expression("a `b`")
    with pytest.raises(SqlParserError, match="the text ends"):
        parse_statement("")


def test_an_error_survives_pickling_with_its_place() -> None:
    with pytest.raises(SqlParserError) as caught:
        parse_script("SELECT 1;\n\tSELECT a b c")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.line, error.column, str(error)) == (2, 13, str(caught.value))
    assert str(error).splitlines()[1:] == ["  \tSELECT a b c", "  \t           ^"]


def test_a_reserved_word_is_a_name_in_backticks_only() -> None:
    for word in RESERVED - {"END-EXEC"}:
        parse_statement(f"SELECT t.`{word}` AS `{word}` FROM `{word}`")
        with pytest.raises(
            SqlParserError, match=f"{word} is a reserved word|expected the name of a column, not {word}"
        ):
            parse_statement(f"SELECT a AS {word} FROM t")


@pytest.mark.parametrize("name", WORDS)
def test_a_word_that_flink_does_not_reserve_is_a_name(name: str) -> None:
    parse_statement(f"SELECT {name}, t.{name}, {name}({name}) AS {name}, a {name} FROM {name} AS {name}")
    parse_statement(f"CREATE TABLE {name} ({name} INT, b AS {name} + 1, PRIMARY KEY ({name}) NOT ENFORCED)")


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a || b + c", "(a || b) + c"),
        ("a = b LIKE c", "a = (b LIKE c)"),
        ("a = b IS NULL", "(a = b) IS NULL"),
        ("NOT a = b AND c", "(NOT (a = b)) AND c"),
        ("a OR b AND c", "a OR (b AND c)"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("a < b IN (c, d)", "a < (b IN (c, d))"),
        ("-a[1] + b", "(-(a[1])) + b"),
        ("a IS DISTINCT FROM b + c", "a IS DISTINCT FROM (b + c)"),
        ("NOT a IS NULL", "NOT (a IS NULL)"),
    ],
)
def test_operators_bind_as_calcites_do(sql: str, meant: str) -> None:
    assert read(sql) == read(meant)


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("TRIM(BOTH ' ' FROM a)", "TRIM(' ' FROM a)"),
        ("SUBSTRING(a, 1, 2)", "SUBSTRING(a FROM 1 FOR 2)"),
        ("a != b", "a <> b"),
        ("a = SOME (SELECT 1)", "a = ANY (SELECT 1)"),
        ("TIMESTAMPADD(SQL_TSI_DAY, 1, a)", "TIMESTAMPADD(DAY, 1, a)"),
        ("INTERVAL '1' DAYS", "INTERVAL '1' DAY"),
        ("'a' 'b'", "'ab'"),
        (r"U&'\0041b'", "'Ab'"),
        ("_UTF16'é'", "'é'"),
        (r"E'a\n\'\x41\u00e9\101'", "'a\n''AéA'"),
        (r"E'\8\9'", "'89'"),
        ("CASE a WHEN 1, 2 THEN b END", "CASE a WHEN 1 THEN b WHEN 2 THEN b END"),
        ("CAST(a AS INTEGER ARRAY)", "CAST(a AS ARRAY<INT>)"),
        ("CAST(a AS ROW(b NUMERIC(3)))", "CAST(a AS ROW<b DECIMAL(3)>)"),
        ("CAST(a AS TIMESTAMP(3) WITH LOCAL TIME ZONE)", "CAST(a AS TIMESTAMP_LTZ(3))"),
        ("{d '2020-01-01'}", "DATE '2020-01-01'"),
        ("{ T '12:13:14' }", "TIME '12:13:14'"),
        ("{ts '2020-01-01 12:13:14.5'}", "TIMESTAMP '2020-01-01 12:13:14.5'"),
        ("{fn UCASE(a)} || {fn concat({fn LCASE(b)}, c)}", "UPPER(a) || (LOWER(b) || c)"),
        ("{fn INSERT(a, 1, 2, b)}", "OVERLAY(a PLACING b FROM 1 FOR 2)"),
        ("{fn TIMESTAMPADD(SQL_TSI_DAY, 1, a)}", "TIMESTAMPADD(DAY, 1, a)"),
        ("{fn LOCATE('b', a)} + {fn YEAR(c)}", "POSITION('b' IN a) + YEAR(c)"),
    ],
)
def test_what_is_written_in_two_ways_is_read_as_one(sql: str, same: str) -> None:
    assert read(sql) == read(same)


def test_braces_have_times_and_functions_of_jdbc_alone() -> None:
    with pytest.raises(SqlParserError, match=r"JDBC has no function 'UPPER' in braces.*: write it without"):
        read("{fn UPPER(a)}")
    with pytest.raises(SqlParserError, match="expected FN, D, T or TS, not x"):
        read("{x 'a'}")


def test_a_function_with_a_syntax_of_its_own_is_a_call_with_words_as_symbols() -> None:
    call = read("EXTRACT(DAY FROM a)")
    assert call == Call(Path((Name("EXTRACT"),)), (Symbol("DAY"), reference("a")))


def test_a_node_knows_its_place_in_the_text() -> None:
    sql = "SELECT a,\n  b + 12\nFROM t"
    statement = parse_statement(sql)
    assert isinstance(statement, QueryStatement)
    texts: dict[type[Node], str] = {}

    def walk(value: object) -> None:
        if isinstance(value, tuple):
            for each in value:
                walk(each)
        elif isinstance(value, Node):
            texts[type(value)] = re.sub(r"\s+", " ", sql[value.span.start : value.span.end])
            for name in value.__struct_fields__:
                walk(getattr(value, name))

    walk(statement)
    assert texts[Infix] == "b + 12"
    assert texts[Number] == "12"
    assert texts[Query] == "SELECT a, b + 12 FROM t"

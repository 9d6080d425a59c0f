"""Statements with `?` for values, and addresses of JDBC."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flinkray import InvalidProgramError
from flinkray.connectors.postgres.jdbc_address import read_address
from flinkray.connectors.postgres.writing.statement import read_statement

ONE = pa.schema([("n", pa.int64())])
TWO = pa.schema([("n", pa.int64()), ("word", pa.string())])


def numbered(text: str, schema: pa.Schema = ONE, types_texts: bool = True) -> str:
    return read_statement(text, schema, types_texts, "here").numbered


def test_a_question_mark_is_the_value_of_the_next_field_with_its_type() -> None:
    assert numbered("INSERT INTO t VALUES (?, ?)", TWO) == "INSERT INTO t VALUES (($1::bigint), ($2::varchar))"
    assert numbered("INSERT INTO t VALUES (?,?)", TWO, types_texts=False) == "INSERT INTO t VALUES (($1::bigint),$2)"
    times = pa.schema([("at", pa.timestamp("us")), ("many", pa.list_(pa.float64())), ("d", pa.decimal128(5, 1))])
    assert numbered("SELECT ?, ?, ?", times) == "SELECT $1, ($2::double precision[]), ($3::numeric)"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '?', 'it''s ?', n FROM t",
        r"SELECT E'it\'s ?', date'\', n FROM t",
        'SELECT "a?""?" FROM t',
        "SELECT 1 -- is it?\n",
        "SELECT 1 -- ?",
        "SELECT /* ? /* ? */ ? */ 1",
        "SELECT $$?$$, $a$ ? $$ ? $b$ $a$, a$b, c$d",
        "SELECT \u00e9$$1, '?'",
    ],
)
def test_a_question_mark_in_quotes_and_comments_is_none(text: str) -> None:
    assert numbered(text + "\n, ?") == text + "\n, ($1::bigint)"
    assert numbered(f"{text}\n/* ?", pa.schema([])) == f"{text}\n/* ?"


def test_a_question_mark_twice_is_an_operator() -> None:
    assert numbered("UPDATE t SET n = ? WHERE j ?? 'a' OR j ??| k") == (
        "UPDATE t SET n = ($1::bigint) WHERE j ? 'a' OR j ?| k"
    )


@pytest.mark.parametrize(
    ("text", "schema", "message"),
    [
        ("SELECT ?", TWO, r"has 1 \? for values, and the rows 2 fields \(n, word\).*: SELECT \?"),
        ("SELECT ?, ?, '?'", ONE, r"has 2 \? for values, and the rows 1 fields"),
        ("SELECT $1", ONE, r"values are \? in the statement"),
        ("SELECT 'a, ?", ONE, "a quotation mark is not closed"),
        ("SELECT ?", pa.schema([("m", pa.map_(pa.string(), pa.string()))]), "field 'm' is map.*map it to text"),
        ("SELECT ?", pa.schema([("m", pa.list_(pa.list_(pa.int8())))]), "field 'm' is list.*map it to text"),
    ],
)
def test_a_statement_that_does_not_fit_the_rows_is_refused(text: str, schema: pa.Schema, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=f"^here: .*{message}"):
        numbered(text, schema)


def test_addresses_of_jdbc_are_read_with_the_parameters_that_mean_something_here() -> None:
    found = read_address(
        "jdbc:postgresql://h/d?reWriteBatchedInserts=true&currentSchema=s&stringtype=unspecified", "", ""
    )
    assert (found.uri, found.types_texts) == ("postgresql://h/d?options=-csearch_path%3Ds", False)
    found = read_address("jdbc:postgresql://h/d", "me", "p@ss")
    assert (found.uri, found.types_texts) == ("postgresql://me:p%40ss@h/d", True)
    assert "p%40ss" not in repr(found)
    assert read_address("postgresql://you:hush@h/d?x=a@b", "me", "").uri == "postgresql://me@h/d?x=a@b"
    assert read_address("jdbc:postgresql://h/d?user=me", "", "p&").uri == "postgresql://h/d?user=me&password=p%26"
    assert read_address("postgresql://me@h/d?x=1", "", "p").uri == "postgresql://me@h/d?x=1&password=p"
    for parameter in ("loadBalanceHosts=true", "stringtype=text"):
        with pytest.raises(ValueError, match=f"parameter '{parameter.split('=')[0]}' of 'url'"):
            read_address(f"jdbc:postgresql://h/d?{parameter}", "", "")

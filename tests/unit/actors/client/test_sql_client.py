"""What a SQL client does without a job: where statements end, how words go on, how lines are read, what is shown."""

from __future__ import annotations

from pathlib import Path

import prompt_toolkit
import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from actors.client.sql.completion import completions
from actors.client.sql.pieces import is_complete, pieces_of
from actors.client.sql.prompt import may_run, prompt_session
from actors.client.sql.shown_rows import LastChanges, RowsNow
from flinkray.tables.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalog
from flinkray.tables.plans.tables import Table, TableColumn
from flinkray.tables.types.logical import INT
from tests.support.tables import fold, random_table_changes


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        (" ;; -- nothing;\n /* and; nothing */ ", []),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' AS `a;b` -- c;\n; SELECT 'it''s;'", ["SELECT ';' AS `a;b` -- c;", "SELECT 'it''s;'"]),
        (
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END; SELECT 3;",
            ["EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END", "SELECT 3"],
        ),
        ("SELECT CASE WHEN a THEN 1 END; SELECT 2;", ["SELECT CASE WHEN a THEN 1 END", "SELECT 2"]),
        ("SELECT 'open; SELECT 2;", ["SELECT 'open; SELECT 2;"]),
    ],
)
def test_statements_end_at_semicolons_of_their_own(text: str, pieces: list[str]) -> None:
    assert pieces_of(text) == pieces


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT", False),
        ("SELECT ';", False),
        ("BEGIN STATEMENT SET; INSERT INTO a SELECT 1;", False),
        ("/* open ;", False),
    ],
)
def test_a_text_is_complete_when_its_last_statement_has_ended(text: str, complete: bool) -> None:
    assert is_complete(text) == complete
    assert may_run(text) == complete


@pytest.mark.parametrize("text", ["", "  \n", "quit", " HELP "])
def test_words_of_the_client_and_empty_lines_need_no_semicolon(text: str) -> None:
    assert may_run(text)


def catalog() -> Catalog:
    known = Catalog()
    known.add(Table((DEFAULT_CATALOG, DEFAULT_DATABASE, "orders"), (TableColumn("order_id", INT),)))
    return known


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SELECT ord", ["order_id", "orders", "order"]),
        ("SELECT ORDE", ["order_id", "orders", "ORDER"]),
        ("SELECT * FROM orders", []),
        ("SELECT ", []),
        ("select char_len", ["char_length"]),
    ],
)
def test_words_go_on_as_names_first_and_then_as_words_of_sql(text: str, first: list[str]) -> None:
    assert completions(text, catalog())[: len(first) or 1] == first


def test_the_last_changes_are_shown_with_what_they_do() -> None:
    shown = LastChanges(2)
    for kind, row in enumerate([("a",), ("a",), ("b",)]):
        shown.add(kind, row)
    assert shown.rows(10) == [("-U", "a"), ("+U", "b")]
    assert shown.rows(1) == [("+U", "b")]


def test_an_updated_row_keeps_its_place() -> None:
    shown = RowsNow()
    for kind, row in [
        (0, ("a", "1")),
        (0, ("b", "1")),
        (1, ("a", "1")),
        (2, ("a", "2")),
        (0, ("c", "1")),
        (3, ("b", "1")),
    ]:
        shown.add(kind, row)
    assert shown.rows(10) == [("a", "2"), ("c", "1")]
    assert shown.rows(1) == [("c", "1")]


@pytest.mark.parametrize("seed", range(5))
def test_the_rows_that_are_shown_are_those_that_there_are(seed: int) -> None:
    changes = random_table_changes(seed, 200, lambda chance: (chance.choice("abc"), str(chance.randrange(3))))
    shown = RowsNow()
    for kind, row in changes:
        shown.add(kind, row)
    assert sorted(shown.rows(1000)) == sorted(fold(changes).elements())
    assert len(shown) == sum(fold(changes).values())


def test_of_more_rows_than_are_kept_those_that_changed_last_are_shown() -> None:
    shown = RowsNow(2)
    for kind, row in [(0, ("a",)), (0, ("b",)), (1, ("a",)), (2, ("c",)), (0, ("d",)), (3, ("b",))]:
        shown.add(kind, row)
    assert shown.rows(10) == [("c",), ("d",)]


def test_enter_carries_out_a_whole_statement_and_else_begins_a_line(tmp_path: Path) -> None:
    history = tmp_path / "some" / "history"
    with create_pipe_input() as keys:
        session = prompt_session(prompt_toolkit, catalog, history, input=keys, output=DummyOutput())
        keys.send_text("SELECT 1\nFROM orders;\n")
        assert session.prompt() == "SELECT 1\nFROM orders;"
    assert "FROM orders;" in history.read_text(encoding="utf-8")

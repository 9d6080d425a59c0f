"""Answers to Nexmark's queries are compared as what is there in the end, whoever computed them."""

from __future__ import annotations

import datetime
import io
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.nexmark.answers import WrongChangelog, difference, folded, row_text, stored
from benchmarks.nexmark.checking import judged
from benchmarks.nexmark.command import print_checked, print_figures
from benchmarks.nexmark.queries import DIRECTORY, QUERIES, Query
from benchmarks.nexmark.timing import timed
from benchmarks.process_tree import Measured, RunFailed

ROWS = Query("rows", "")
BY_KEY = Query("by key", "", key=(0,))
RANKED = Query("ranked", "", compared=(0, 2))


def test_each_query_has_a_file_and_each_file_a_query() -> None:
    assert {path.stem for path in DIRECTORY.glob("q*.sql")} == set(QUERIES)


@pytest.mark.parametrize(
    ("query", "changes", "left"),
    [
        (ROWS, [("+I", [1, 2]), ("+I", [1, 2])], ["[1, 2]", "[1, 2]"]),
        (ROWS, [("+I", [1, 2]), ("-U", [1, 2]), ("+U", [1, 3]), ("-D", [1, 3])], []),
        # Another subtask's row may come before what makes room for it.
        (ROWS, [("-U", [1]), ("+I", [1]), ("+U", [2])], ["[2]"]),
        (BY_KEY, [("+I", [1, 2]), ("+U", [1, 3]), ("+I", [2, 2]), ("-D", [2, 2])], ["[1, 3]"]),
        (RANKED, [("+I", [1, "this", 3]), ("-U", [1, "that", 3])], []),
    ],
)
def test_an_answer_is_what_is_there_after_all_changes(
    query: Query, changes: list[tuple[str, list[object]]], left: list[str]
) -> None:
    assert sorted(folded(changes, query).elements()) == left


def test_a_row_that_is_taken_back_must_have_been_there() -> None:
    with pytest.raises(WrongChangelog, match=r"\[2\] is taken back, and was not there"):
        folded([("+I", [1]), ("-U", [2])], ROWS)


def test_values_have_the_same_text_from_all_engines() -> None:
    time = datetime.datetime(2023, 11, 14, 22, 0, 1)
    values = [Decimal("1.500"), Decimal("100.000"), time, None, 7, "short", "x" * 30]
    text = row_text(values, ROWS)
    assert text == '["1.5", "100", "2023-11-14 22:00:01.000", null, 7, "short", "~398f8560"]'
    # Texts of texts are the same, so that an engine may write them down.
    assert row_text(["1.5", "100", "2023-11-14 22:00:01.000", None, 7, "short", "~398f8560"], ROWS) == text


def test_a_difference_says_how_many_rows_and_shows_some() -> None:
    found, expected = Counter({"a": 2, "b": 1}), Counter({"a": 1, "c": 1, "d": 1, "e": 1, "f": 1})
    assert difference(expected, expected) == ""
    assert difference(found, expected) == "4 rows missing: c; d; e ..., 2 rows not expected: a; b"


def test_answers_of_many_rows_are_stored_as_a_checksum_of_them_in_order() -> None:
    assert stored(Counter({"b": 1, "a": 2})) == ["a", "a", "b"]
    many = [str(number) for number in range(100)]
    assert str(stored(Counter(many))).startswith("100 rows, SHA-256 ")
    assert stored(Counter(many)) == stored(Counter(many[::-1])) != stored(Counter([*many[1:], "x"]))


def test_answers_are_compared_with_flinks_or_else_with_duckdbs() -> None:
    one, other = Counter("ab"), Counter("ac")
    both = judged(ROWS, {"flink-sql": one, "duckdb": other, "flinkray": one})
    assert both.verdicts == {
        "flink-sql": "ok",
        "duckdb": "differs: 1 rows missing: b, 1 rows not expected: c",
        "flinkray": "ok",
    }
    without = judged(ROWS, {"flink-sql": "cannot: look up", "duckdb": other, "flinkray": one})
    assert (without.rows, without.verdicts["duckdb"], without.verdicts["flinkray"][:7]) == (2, "ok", "differs")
    assert judged(ROWS, {"flink-sql": "cannot: clock", "flinkray": one}).verdicts["flinkray"] == "runs: 2 rows"
    console = Console(file=io.StringIO(), width=160)
    print_checked([judged(QUERIES["q0"], {"flink-sql": one, "duckdb": other, "flinkray": "cannot: this"})], console)
    *_, text, last = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert (text, last) == (f"q0 duckdb {both.verdicts['duckdb']}", "q0 flinkray cannot: this")


def test_the_first_run_is_what_the_others_are_compared_with_and_one_that_fails_ends_its_turns() -> None:
    calls: list[tuple[str, str]] = []

    def run(engine: str, _query: str, files: Path) -> Measured:
        calls.append((engine, files.name))
        if engine == "flink-sql" and len(calls) > 2:
            raise RunFailed("it broke: badly")
        is_few = files.name == "few"
        return Measured({"seconds": 2.0 if is_few else 4.0}, cpu_s=1.0 if is_few else 3.0, peak_mib=len(calls))

    found = timed(
        "q0", ["flinkray", "flink-sql"], Path("all"), Path("few"), 10**6, parallelism=2, runs=2, target="local", run=run
    )
    assert calls == [(name, "few") for name in ("flinkray", "flink-sql")] + [
        ("flinkray", "all"),
        ("flink-sql", "all"),
        ("flinkray", "all"),
    ]
    own, other = found
    assert (own.median, own.cpu_s_per_million, own.peak_mib, own.runs, own.unit) == (5e5, 2.0, 5, 2, "events/s")
    assert (other.median, other.problem) == (None, "it broke: badly")
    console = Console(file=io.StringIO(), width=160)
    print_figures(found, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "500,000" in printed
    assert printed.splitlines()[-1] == "q0 flink-sql: it broke: badly"

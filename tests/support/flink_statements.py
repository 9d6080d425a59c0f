"""What Flink 2.3 answers to statements of tests/data/sql.

`flink_changes.sql` has queries of which `flink_changes.json` has all changes in their order.
`flink_statements.sql` has those in the shapes of its SQL pages, with `flink_answers.json`, and `flink_suites.sql` those
in the shapes of its test suites, with `flink_suites_answers.json`. The answer of a query is the rows that are left in
the end, that of another statement its rows in their order. Statements that write rows have none; nor has one that Flink
refuses.

    python -m tests.support.flink_statements

asks the PyFlink of the environment that calls it (apache-flink 2.3.0, Java 17), and writes the answers; queries that
have one already are not asked again.
"""

from __future__ import annotations

import datetime
import decimal
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data" / "sql"
ANSWERS = {"flink_statements.sql": DATA / "flink_answers.json", "flink_suites.sql": DATA / "flink_suites_answers.json"}
CHANGES = DATA / "flink_changes.json"


def named_statements(file: str) -> dict[str, str]:
    """The statements of a file of tests/data/sql in which each has its name in a comment above it."""
    found: dict[str, str] = {}
    for part in (DATA / file).read_text().split("\n-- ")[1:]:
        name, _, text = part.partition("\n")
        found[name.strip()] = text.strip().rstrip(";")
    return {name: text for name, text in found.items() if text}


def flink_statements(out: Path, file: str = "flink_statements.sql") -> dict[str, str]:
    """The statements in their order, whose tables are files of tests/data/sql/files, or go into files below `out`."""
    statements = named_statements(file)
    files = str(DATA / "files")
    return {name: sql.replace("{files}", files).replace("{out}", str(out)) for name, sql in statements.items()}


def is_query(sql: str) -> bool:
    return sql.startswith(("SELECT", "WITH", "VALUES", "("))


def is_insert(sql: str) -> bool:
    """Whether it starts a job that writes rows, whose own answer says nothing."""
    return sql.startswith(("INSERT", "EXECUTE")) or (sql.startswith("CREATE TABLE") and " AS SELECT " in sql)


def value_text(value: Any) -> Any:
    """A value as JSON has it, the same for either engine."""
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return sorted([value_text(key), value_text(each)] for key, each in value.items())
    if isinstance(value, list | tuple) or type(value).__name__ == "Row":
        return [value_text(each) for each in value]
    return value


def change_text(kind: object, row: Iterable[Any]) -> str:
    return f"{kind} {row_text(row)}"


def row_text(row: Iterable[Any]) -> str:
    return json.dumps([value_text(each) for each in row], ensure_ascii=False)


def folded(changes: Iterable[tuple[str, Sequence[Any]]]) -> list[str]:
    """The rows that are left after all changes, of which each is a kind (+I, -U, +U, -D) and a row."""
    found: Counter[str] = Counter()
    for kind, row in changes:
        found[row_text(row)] += -1 if kind in ("-U", "-D") else 1
    assert all(count >= 0 for count in found.values()), "a row is taken back that was not there"
    return sorted(found.elements())


def _ask() -> None:
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.get_config().set_local_timezone("UTC")
    for key, value in {"parallelism.default": "1", "table.dml-sync": "true"}.items():
        environment.get_config().set(key, value)
    for file in ANSWERS:
        _ask_all(environment, file)
    _ask_changes(environment)


def _ask_all(environment: Any, file: str) -> None:
    answers = ANSWERS[file]
    known = json.loads(answers.read_text()) if answers.exists() else {}
    found: dict[str, list[str]] = {}
    for name, sql in flink_statements(Path(tempfile.mkdtemp()), file).items():
        if is_query(sql) and known.get(name):
            found[name] = known[name]
            continue
        try:
            result = environment.execute_sql(sql)
            if is_insert(sql):
                result.wait()
                continue
            with result.collect() as rows:
                changes = [(str(row.get_row_kind()), tuple(row)) for row in rows]
            found[name] = folded(changes) if is_query(sql) else [row_text(row) for _, row in changes]
        except Exception as error:
            print(f"-- {name}: {error}", file=sys.stderr)
    answers.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _ask_changes(environment: Any) -> None:
    found: dict[str, list[str]] = {}
    for name, sql in flink_statements(Path(tempfile.mkdtemp()), "flink_changes.sql").items():
        result = environment.execute_sql(sql)
        if is_query(sql):
            with result.collect() as rows:
                found[name] = [change_text(row.get_row_kind(), row) for row in rows]
    CHANGES.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    _ask()

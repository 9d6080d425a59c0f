"""Statements as Flink's SQL pages show them, and as its test suites have them, come to what Flink 2.3 answers
(`tests/support/flink_statements.py`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from flinkray import StreamExecutionEnvironment
from flinkray.errors import SqlError
from tests.support.flink_statements import ANSWERS, flink_statements, folded, is_insert, is_query, row_text
from tests.support.jobs import environment
from tests.support.whole_jobs import rows_of

REFUSED: Mapping[str, str] = {}
"""What is refused, and in which words. One that works is taken out."""
DIFFERENT = {"over_lag_of_nulls": ("[11, -1]", "[11, null]")}
"""A row of Flink's that is otherwise here: where LAG has a default, whatever that is, Flink gives -1 for a NULL that is
there."""
_KIND = "row_kind"
_IN_ONE_JOB = 20


@pytest.mark.parametrize("file", ANSWERS)
def test_statements_in_flinks_shapes_come_to_its_answers(tmp_path: Path, file: str) -> None:
    env = environment({"table.dml-sync": "true"}, parallelism=1)
    found: dict[str, list[str]] = {}
    queries: dict[str, str] = {}
    for name, sql in flink_statements(tmp_path, file).items():
        if queries and (len(queries) == _IN_ONE_JOB or not is_query(sql)):
            found |= _answers(env, queries)
            queries = {}
        if name in REFUSED:
            with pytest.raises(SqlError, match=REFUSED[name]):
                env.tables.execute_sql(sql)
        elif is_query(sql):
            queries[name] = sql
        elif is_insert(sql):
            env.tables.execute_sql(sql).wait(30_000)
        else:
            with env.tables.execute_sql(sql).collect() as rows:
                found[name] = [row_text(row) for row in rows]
    if queries:
        found |= _answers(env, queries)
    expected = json.loads(ANSWERS[file].read_text())
    for name, (row, ours) in DIFFERENT.items():
        if name in expected:
            expected[name] = sorted(ours if each == row else each for each in expected[name])
    assert found == {name: answer for name, answer in expected.items() if name not in REFUSED}


def _answers(env: StreamExecutionEnvironment, queries: Mapping[str, str]) -> dict[str, list[str]]:
    """The rows that are left of each of several queries, which are one job."""
    tables = {name: env.tables.sql_query(sql) for name, sql in queries.items()}
    streams = {name: env.tables.to_changelog_stream(each).kinds_as_column(_KIND) for name, each in tables.items()}
    rows = rows_of(env, streams)
    return {name: folded((each[-1], each[:-1]) for each in map(tuple, found)) for name, found in rows.items()}

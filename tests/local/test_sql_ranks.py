"""The first rows of tables by SQL, in whole jobs, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from flinkray import Row
from flinkray.errors import SqlUnsupportedError
from flinkray.types.rows import RowKind
from tests.support.jobs import environment
from tests.support.tables import Change, fold, random_table_changes
from tests.support.whole_jobs import in_order, rows_of

KINDS = ("+I", "-U", "+U", "-D")
RANKED = "SELECT *, {call}() OVER (PARTITION BY k ORDER BY {order}) AS r FROM t"
QUERIES = {
    "rank": f"SELECT n, r FROM ({RANKED.format(call='ROW_NUMBER', order='a DESC, n')}) WHERE r <= 3",
    "without rank": f"SELECT k, n FROM ({RANKED.format(call='ROW_NUMBER', order='b, n DESC')}) WHERE r BETWEEN 2 AND 4",
    "one": f"SELECT k, n FROM ({RANKED.format(call='ROW_NUMBER', order='a NULLS LAST, n')}) WHERE r = 1",
    "ties": f"SELECT n, r FROM ({RANKED.format(call='RANK', order='b DESC')}) WHERE 2 >= r AND n > 5",
    "dense": f"SELECT n, r FROM ({RANKED.format(call='DENSE_RANK', order='a')}) WHERE r < 3",
    "limit": "SELECT n, b FROM t ORDER BY b DESC NULLS FIRST, n LIMIT 4 OFFSET 3",
    "offset": "SELECT n FROM t ORDER BY n OFFSET 5",
    "of ranks": f"SELECT n FROM ({RANKED.format(call='ROW_NUMBER', order='n')}) WHERE r <= 4 ORDER BY n DESC LIMIT 3",
}


def changes(deletes: float) -> list[Change]:
    numbers = iter(range(1000))

    def row(generator: random.Random) -> tuple[Any, ...]:
        return (
            generator.choice("xyz"),
            generator.choice([None, 1, 2, 3]),
            generator.choice([None, "p", "q"]),
            next(numbers),
        )

    return random_table_changes(7, 60, row, deletes=deletes)


def expected(given: list[Change]) -> dict[str, Counter[tuple[Any, ...]]]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        connection.execute("CREATE TABLE t (k VARCHAR, a INT, b VARCHAR, n INT)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", list(fold(given).elements()))
        return {name: Counter(connection.execute(sql).fetchall()) for name, sql in QUERIES.items()}


@pytest.mark.parametrize("runs", ["inserts", "changes", "batch"])
def test_the_first_rows_are_those_of_duckdb(runs: str) -> None:
    is_batch = runs == "batch"
    env = environment({"execution.runtime-mode": "batch"} if is_batch else {"flinkray.batch.target-rows": 7})
    given = changes(0.4 if runs == "changes" else 0.0)
    columns = [list(column) for column in zip(*(row for _, row in given), strict=True)]
    data = pa.table([*columns, [KINDS[kind] for kind, _ in given]], names=["k", "a", "b", "n", "op"])
    stream = env.from_arrow(data).set_parallelism(1)
    table = stream.as_changelog("op") if runs == "changes" else stream.drop("op")
    queries = {name: table.sql(sql.replace("FROM t", "FROM self")) for name, sql in QUERIES.items()}
    kinds = queries if is_batch else {name: query.kinds_as_column("op") for name, query in queries.items()}
    found = {}
    for name, rows in rows_of(env, kinds).items():
        found[name] = [(0, tuple(row)) if is_batch else (KINDS.index(row.op), tuple(row)[:-1]) for row in rows]
        found[name].sort(key=lambda change: change[0] in (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value))
    assert {name: fold(rows) for name, rows in found.items()} == expected(given)


def test_in_batch_mode_all_rows_are_sorted_and_a_stream_is_told_that_it_cannot_be() -> None:
    data = pa.table({"n": [3, None, 1, 2], "word": ["c", "d", "a", "b"]})
    sql = "SELECT word FROM {t} ORDER BY n DESC"
    env = environment({"execution.runtime-mode": "batch"})
    assert in_order(env.sql(sql, t=data)) == [Row(word=each) for each in "cbad"]
    with pytest.raises(SqlUnsupportedError, match=r"ORDER BY: a stream has no end(.|\n)*ORDER BY n DESC\n +\^"):
        environment().sql(sql, t=data)

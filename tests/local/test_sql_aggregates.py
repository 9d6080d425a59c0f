"""Aggregates of SQL in whole jobs: what their changelogs lead to is what DuckDB answers.

Queries are drawn from seeds. SEEDS=200 in the environment runs more of them.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from flinkray import StreamExecutionEnvironment
from tests.support.jobs import environment
from tests.support.whole_jobs import rows_of

SEEDS = int(os.environ.get("SEEDS", "3"))
QUERIES = 5
"""That one job runs."""
NUMBERS = [
    "COUNT(*)",
    *(f"{name}(DISTINCT {column})" for name in ("COUNT", "SUM") for column in "nd"),
    *(f"{name}({column})" for name in ("MIN", "MAX", "SUM") for column in "nfd"),
    "AVG(n)",
    "COUNT(s)",
]
VALUES = [*NUMBERS, "MIN(s)", "MAX(s)"]
ROUNDED = ["AVG(f)", "AVG(d)", "STDDEV_POP(f)", "VAR_SAMP(f)"]
"""Whose last digits differ."""
KEYS = ["", "k", "k, g", "UPPER(k)", "ROLLUP(k, g)", "CUBE(k, g)", "GROUPING SETS ((k), (g, k), ())"]
FILTERS = ["", "", " FILTER (WHERE n > 0)", " FILTER (WHERE s <> 'x')"]


def table(generator: random.Random, size: int) -> pa.Table:
    def column(values: Any, arrow_type: pa.DataType) -> pa.Array:
        return pa.array([None if generator.random() < 0.1 else values() for _ in range(size)], arrow_type)

    return pa.table(
        {
            "k": column(lambda: generator.choice("abcd"), pa.string()),
            "g": column(lambda: generator.randrange(3), pa.int32()),
            "n": column(lambda: generator.randrange(-9, 10), pa.int32()),
            "f": column(lambda: generator.randrange(-9, 10) / 4, pa.float64()),
            "d": column(lambda: Decimal(generator.randrange(-999, 999)) / 100, pa.decimal128(8, 2)),
            "s": column(lambda: generator.choice(["x", "yy", ""]), pa.string()),
        }
    )


def random_query(generator: random.Random) -> tuple[str, str]:
    """A query for us and for DuckDB; some group what another one gives."""
    keys = generator.choice(KEYS)
    calls = [generator.choice(each) for each in (VALUES, NUMBERS, [*VALUES, *ROUNDED], VALUES)]
    filters = [generator.choice(FILTERS) for _ in calls]
    where = generator.choice(["", " WHERE n < 5"])
    having = generator.choice(["", " HAVING COUNT(*) > 20"])
    named = [each for each in ("k", "g") if each in keys.replace("UPPER(k)", "").replace("GROUPING SETS", "")]
    ours = [f"{call}{condition}" for call, condition in zip(calls, filters, strict=True)]
    theirs = [f"TRUNC({each})" if each.startswith("AVG(n)") else each for each in ours]
    theirs = [f"ROUND({each}, 6)" if each.startswith("AVG(d)") else each for each in theirs]
    queries = []
    for results in (ours, theirs):
        selected = ", ".join([*named, *(f"{each} AS r{place}" for place, each in enumerate(results))])
        queries.append(f"SELECT {selected} FROM t{where}" + (f" GROUP BY {keys}" if keys else "") + having)
    if generator.random() < 0.5:
        outer = "r0, COUNT(*) AS n, MAX(r1) AS hi, MIN(r2) AS lo, COUNT(DISTINCT r3) AS c, SUM(r1) AS s"
        queries = [f"SELECT {outer} FROM ({query}) AS q GROUP BY r0" for query in queries]
    return queries[0], queries[1]


def duckdb_rows(t: pa.Table, query: str) -> Counter[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("t", t)
    return Counter(map(plain, connection.execute(query).fetchall()))


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers of any type as equal ones."""
    return tuple(round(float(each), 5) + 0.0 if isinstance(each, int | float | Decimal) else each for each in row)


def answers(env: StreamExecutionEnvironment, t: pa.Table, queries: list[str]) -> list[Counter[tuple[Any, ...]]]:
    """What the changelogs of queries over `t` lead to; all of them run in one job."""
    source = env.from_arrow(t)
    streams = {str(place): env.sql(query, t=source).kinds_as_column("op") for place, query in enumerate(queries)}
    return [folded(rows) for rows in rows_of(env, streams).values()]


def folded(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """The rows that a changelog leads to, in whatever order its rows have come."""
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, kind in rows:
        found[plain(tuple(row))] += -1 if kind in ("-U", "-D") else 1
    return Counter({row: count for row, count in found.items() if count})


@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_queries_lead_to_what_duckdb_answers(seed: int, mode: str) -> None:
    generator = random.Random(seed)
    t, queries = table(generator, 200), [random_query(generator) for _ in range(QUERIES)]
    phases = generator.choice(["ONE_PHASE", "AUTO"])
    options = {"execution.runtime-mode": mode, "flinkray.batch.target-rows": 40}
    env = environment({**options, "table.optimizer.agg-phase-strategy": phases})
    for found, (ours, theirs) in zip(answers(env, t, [ours for ours, _ in queries]), queries, strict=True):
        assert found == duckdb_rows(t, theirs), ours


def test_grouping_says_which_keys_a_row_is_without() -> None:
    query = "SELECT k, GROUPING(k) AS gk, GROUPING({}) AS gg, COUNT(*) AS c FROM t GROUP BY CUBE(g, k)"
    t = table(random.Random(1), 30)
    assert answers(environment(), t, [query.format("g, k")]) == [duckdb_rows(t, query.format("g, k"))]


def test_distinct_rows_unions_and_aggregates_of_changelogs() -> None:
    t = table(random.Random(2), 60)
    queries = [
        "SELECT DISTINCT k, g FROM t",
        "SELECT k FROM t WHERE n > 0 UNION SELECT s FROM t",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT s, g FROM t)",
        "SELECT COUNT(*) AS n FROM t WHERE g = 1",
        "SELECT c, COUNT(*) AS n FROM (SELECT s, COUNT(DISTINCT k) AS c FROM t GROUP BY s) AS q GROUP BY c",
    ]
    assert answers(environment(), t, queries) == [duckdb_rows(t, query) for query in queries]


def test_an_aggregate_over_nothing_gives_a_row_in_batch_mode_only() -> None:
    t, query = table(random.Random(0), 5), "SELECT COUNT(*) AS n, SUM(n) AS s FROM t WHERE n > 100"
    assert answers(environment(), t, [query]) == [Counter()]
    batch = environment({"execution.runtime-mode": "batch"})
    assert answers(batch, t, [query]) == [Counter({(0.0, None): 1})]


def test_variances_of_whole_numbers_are_cut_and_stay_in_the_range_of_their_type_as_in_flink() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "local", "execution.runtime-mode": "batch"}
    )
    numbers = "(1, 100000, CAST(100 AS TINYINT), 33), (2, 200000, CAST(101 AS TINYINT), 12)"
    numbers = f"{numbers}, (CAST(NULL AS INT), 300001, CAST(127 AS TINYINT), 44)"
    query = (
        f"SELECT VAR_SAMP(a), VAR_POP(b), VAR_SAMP(c), VAR_POP(c), VAR_SAMP(d), STDDEV_POP(d) FROM (VALUES {numbers})"
    )
    (row,) = env.tables.execute_sql(f"{query} AS t(a, b, c, d)").collect()
    assert tuple(row) == (0, 2147483647, -22, -100, 264, 13)

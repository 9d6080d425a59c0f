"""Windows of SQL in whole jobs are what DuckDB computes with windows as expressions."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from flinkray import DataStream, InvalidProgramError, StreamExecutionEnvironment, WatermarkStrategy
from tests.support.jobs import environment
from tests.support.whole_jobs import rows_of

EPOCH = dt.datetime(1970, 1, 1)
STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(1000).with_timestamp_assigner("ts")
WINDOWS = {
    "tumble": "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.010' SECOND))",
    "moved": "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.010' SECOND, INTERVAL '0.003' SECOND))",
    "hop": (
        "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.005' SECOND, INTERVAL '0.018' SECOND, INTERVAL '0.003' SECOND))"
    ),
    "cumulate": (
        "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.005' SECOND, INTERVAL '0.020' SECOND, "
        "INTERVAL '0.002' SECOND))"
    ),
}
IN_DUCKDB = """
    CREATE VIEW tumble AS SELECT *, ts // 10 * 10 AS window_start, window_start + 10 AS window_end FROM t;
    CREATE VIEW moved AS SELECT *, (ts + 7) // 10 * 10 - 7 AS window_start, window_start + 10 AS window_end FROM t;
    CREATE VIEW hop AS SELECT t.*, w * 5 + 3 AS window_start, w * 5 + 21 AS window_end
        FROM t JOIN range(-5, 40) AS r(w) ON ts >= w * 5 + 3 AND ts < w * 5 + 21;
    CREATE VIEW cumulate AS SELECT t.*, (ts + 18) // 20 * 20 - 18 AS window_start, w * 5 + 2 AS window_end
        FROM t JOIN range(-5, 60) AS r(w) ON w * 5 + 2 > ts AND w * 5 + 2 <= (ts + 18) // 20 * 20 + 2;
"""
BOTH = "window_start, window_end"


def table(seed: int) -> pa.Table:
    generator = random.Random(seed)
    count = 150
    return pa.table(
        {
            "k": [generator.choice(["a", "b", "c", None]) for _ in range(count)],
            "v": pa.array([generator.choice([None, *range(-5, 6)]) for _ in range(count)], pa.int32()),
            "x": [generator.choice([None, generator.randrange(-20, 20) / 4]) for _ in range(count)],
            "n": range(count),
            "ts": pa.array([generator.randrange(100) for _ in range(count)], pa.timestamp("ms")),
        }
    )


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        rows = table(1)
        given = rows.set_column(4, "ts", rows.column("ts").cast(pa.int64()))
        connection.register("given", given)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
        connection.execute(IN_DUCKDB)
        yield connection


def stream(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_arrow(table(1)).assign_timestamps_and_watermarks(STRATEGY)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return round((value.replace(tzinfo=None) - EPOCH).total_seconds() * 1000)
    return round(value, 9) if isinstance(value, float) else value


def counted(rows: Iterable[Iterable[Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(_plain, row)) for row in rows)


def check(
    env: StreamExecutionEnvironment,
    oracle: duckdb.DuckDBPyConnection,
    *queries: str | tuple[str, str],
    rows: DataStream | None = None,
) -> None:
    """Runs queries in one job. Each is the same for DuckDB, or comes with one for that."""
    pairs = [(each, each) if isinstance(each, str) else each for each in queries]
    streams = {sql: env.sql(sql.format_map(WINDOWS), t=rows or stream(env)) for sql, _ in pairs}
    found = rows_of(env, streams)
    views = {each: each for each in WINDOWS}
    for sql, in_duckdb in pairs:
        wanted = oracle.execute(in_duckdb.format_map(views)).fetchall()
        assert counted(found[sql]) == counted(wanted), sql


CALLS = (
    "COUNT(*), COUNT(v), SUM(v), MIN(v), MAX(k), SUM(x), AVG(x), COUNT(DISTINCT v), COUNT(*) FILTER (WHERE x > 0), "
    "SUM(v) FILTER (WHERE x > 0)"
)
MORE_CALLS = "SUM(DISTINCT v), SUM(DISTINCT v) FILTER (WHERE x > 0), COUNT(*), MIN(k), STDDEV_POP(x), COUNT(DISTINCT x)"
"""Calls for which all rows of a window are kept."""
COUNTS = f"SELECT k, {BOTH}, COUNT(*) AS c FROM {{}} GROUP BY k, {BOTH}"


def test_aggregates_are_those_of_their_windows(
    env: StreamExecutionEnvironment, oracle: duckdb.DuckDBPyConnection
) -> None:
    late = "SELECT k, {0}, COUNT(*) FROM {{hop}} WHERE window_start >= {1} GROUP BY k, {0}"
    time = "(ts, INTERVAL '0.010' SECOND)"
    check(
        env,
        oracle,
        *(f"SELECT k, {BOTH}, {CALLS} FROM {{{each}}} GROUP BY k, {BOTH}" for each in WINDOWS),
        f"SELECT {BOTH}, COUNT(*), SUM(v + 1) FROM {{hop}} WHERE v > -3 GROUP BY {BOTH}",
        *(f"SELECT k, {BOTH}, {MORE_CALLS} FROM {{{each}}} GROUP BY k, {BOTH}" for each in ("moved", "hop")),
        f"SELECT {BOTH}, COUNT(k), MAX(window_start), COUNT(*) FILTER (WHERE k = 'a') FROM {{hop}} GROUP BY k, {BOTH}",
        f"SELECT {BOTH}, k, v, {CALLS}, GROUPING(v) FROM {{hop}} GROUP BY {BOTH}, ROLLUP (k, v)",
        f"SELECT {BOTH}, k, {MORE_CALLS} FROM {{cumulate}} GROUP BY GROUPING SETS (({BOTH}, k), ({BOTH}))",
        f"SELECT {BOTH}, MAX(c) FROM (SELECT k, {BOTH}, COUNT(*) AS c FROM {{tumble}} GROUP BY {BOTH}, CUBE (k)) AS s "
        f"GROUP BY {BOTH}",
        f"SELECT DISTINCT {BOTH}, k FROM {{tumble}}",
        f"SELECT {BOTH}, k, v, n FROM {{cumulate}} WHERE x > 0",
        # Of results of windows, and of rows that were chosen by their windows.
        *(f"SELECT {BOTH}, MAX(c) FROM ({COUNTS.format(f'{{{each}}}')}) AS s GROUP BY {BOTH}" for each in WINDOWS),
        (late.format(BOTH, "TIMESTAMP '1970-01-01 00:00:00.015'"), late.format(BOTH, 15)),
        (
            f"SELECT k, TUMBLE_START{time}, TUMBLE_END{time}, TUMBLE_ROWTIME{time}, AVG(v) FROM t "
            f"GROUP BY k, TUMBLE{time}",
            f"SELECT k, {BOTH}, window_end - 1, CAST(TRUNC(SUM(v) / COUNT(v)) AS INT) FROM tumble GROUP BY k, {BOTH}",
        ),
        (
            f"SELECT TUMBLE_START{time}, k, v, COUNT(*), GROUPING(k) FROM t GROUP BY TUMBLE{time}, CUBE (k, v)",
            f"SELECT window_start, k, v, COUNT(*), GROUPING(k) FROM tumble GROUP BY {BOTH}, CUBE (k, v)",
        ),
        (
            f"SELECT TUMBLE_END{time}, SUM(DISTINCT v), TUMBLE_ROWTIME{time} FROM t GROUP BY TUMBLE{time}",
            "SELECT window_end, SUM(DISTINCT v), window_end - 1 FROM tumble GROUP BY window_end",
        ),
        (
            f"SELECT k, {BOTH}, COUNT(*), SUM(v) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), "
            f"INTERVAL '0.003' SECOND)) GROUP BY k, {BOTH}",
            """
            WITH marked AS (SELECT *, COALESCE(ts - LAG(ts) OVER w > 3, true) AS is_first FROM t
                WINDOW w AS (PARTITION BY k ORDER BY ts)),
            numbered AS (SELECT *, SUM(is_first::INT) OVER (PARTITION BY k ORDER BY ts) AS s FROM marked)
            SELECT k, MIN(ts), MAX(ts) + 3, COUNT(*), SUM(v) FROM numbered GROUP BY k, s
            """,
        ),
    )


SAME = "a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"
FIRST_ROWS = (
    f"SELECT n, {BOTH}, r FROM (SELECT *, RANK() OVER (PARTITION BY {BOTH}, k ORDER BY v DESC NULLS LAST) AS r "
    "FROM {hop}) AS s WHERE r <= 2"
)
OUTER_JOIN = (
    "SELECT a.n, b.n FROM {tumble} AS a FULL JOIN (SELECT * FROM {tumble} WHERE v > 0) AS b "
    f"ON {SAME} AND a.n < b.n"
)


def test_rows_meet_in_windows_and_are_ranked_in_them(
    env: StreamExecutionEnvironment, oracle: duckdb.DuckDBPyConnection
) -> None:
    check(
        env,
        oracle,
        OUTER_JOIN,
        f"SELECT a.n, b.n, a.{BOTH.split(',')[0]} FROM {{hop}} AS a JOIN {{hop}} AS b ON {SAME} AND a.n + 1 = b.n",
        f"SELECT n, {BOTH} FROM {{hop}} AS a WHERE NOT EXISTS (SELECT 1 FROM {{hop}} AS b WHERE {SAME} AND b.n > a.n)",
        FIRST_ROWS,
        f"SELECT n, {BOTH} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {BOTH} ORDER BY v DESC NULLS LAST, n) AS r "
        "FROM {tumble}) AS s WHERE r <= 2",
        (
            f"SELECT k, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {BOTH}, k ORDER BY ts DESC) AS r "
            "FROM {tumble}) AS s WHERE r = 1",
            f"SELECT k, MAX(ts) FROM tumble GROUP BY {BOTH}, k",
        ),
    )


def test_groups_by_windows_of_rows_that_may_come_after_them_or_have_none_are_updated(
    env: StreamExecutionEnvironment, oracle: duckdb.DuckDBPyConnection
) -> None:
    bounds = "a.window_start, a.window_end"
    queries = [
        f"SELECT {bounds}, COUNT(*) FROM {{tumble}} AS a FULL JOIN {{tumble}} AS b ON {SAME} AND a.n + 1 = b.n "
        f"GROUP BY {bounds}",
        *(
            f"SELECT {bounds}, COUNT(*) FROM {{hop}} AS a WHERE n {word} (SELECT v FROM t WHERE v > 0) "
            f"GROUP BY {bounds}"
            for word in ("IN", "NOT IN")
        ),
    ]
    streams = {sql: env.sql(sql.format_map(WINDOWS), t=stream(env)).kinds_as_column("op") for sql in queries}
    for sql, rows in rows_of(env, streams).items():
        assert any(row.op == "-U" for row in rows)
        found = counted(tuple(row)[:-1] for row in rows if row.op in ("+I", "+U"))
        found.subtract(counted(tuple(row)[:-1] for row in rows if row.op in ("-U", "-D")))
        assert +found == counted(oracle.execute(sql.format_map({each: each for each in WINDOWS})).fetchall()), sql


CHANGES = (
    ("+I", "a", 1, 0), ("+I", "a", 2, 5), ("+I", "b", 10, 5), ("+I", "a", 4, 12), ("-D", "a", 2, 5), ("-U", "b", 10, 5),
    ("+U", "b", 20, 5), ("+I", "c", 5, 14), ("-D", "c", 5, 14), ("+I", "a", 60, 60), ("-U", "a", 60, 60),
    ("+U", "a", 61, 63),
)  # fmt: skip
IN_SESSIONS = "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.010' SECOND))"


def test_sessions_of_rows_that_change_are_those_of_all_changes_as_in_flink(env: StreamExecutionEnvironment) -> None:
    columns = zip(("op", "k", "v", "ts"), zip(*CHANGES, strict=True), strict=True)
    given = pa.table({name: pa.array(each, pa.timestamp("ms") if name == "ts" else None) for name, each in columns})
    changes = env.from_arrow(given).assign_timestamps_and_watermarks(STRATEGY).as_changelog("op").with_rowtime("ts")
    session = "SESSION(ts, INTERVAL '0.010' SECOND)"
    found = [("b", 5, 15, 1, 20, 20), ("a", 0, 22, 2, 5, 1), ("a", 60, 73, 1, 61, 61)]
    queries = {
        f"SELECT k, {BOTH}, COUNT(*), SUM(v), MIN(v) FROM {IN_SESSIONS} GROUP BY k, {BOTH}": found,
        f"SELECT k, SESSION_START{session[7:]}, SESSION_END{session[7:]}, COUNT(*), SUM(v), MIN(v) FROM t "
        f"GROUP BY k, {session}": found,
        f"SELECT COUNT(*), SUM(v) FROM t GROUP BY {session}": [(3, 25), (1, 61)],
        f"SELECT op, k, v, {BOTH} FROM TO_CHANGELOG(TABLE s) WHERE k <> 'a'": [
            ("INSERT", "b", 10, 5, 15), ("UPDATE_BEFORE", "b", 10, 5, 15), ("UPDATE_AFTER", "b", 20, 5, 15),
            ("INSERT", "c", 5, 14, 24), ("DELETE", "c", 5, 14, 24),
        ],
    }  # fmt: skip
    in_sessions = env.sql(f"SELECT * FROM {IN_SESSIONS}", t=changes)
    streams = {sql: env.sql(sql, **({"s": in_sessions} if " s)" in sql else {"t": changes})) for sql in queries}
    for sql, rows in rows_of(env, streams).items():
        assert counted(rows) == Counter(queries[sql]), sql


def test_windows_run_in_stages_too(oracle: duckdb.DuckDBPyConnection) -> None:
    env = environment({"execution.runtime-mode": "batch"})
    check(env, oracle, COUNTS.format("{hop}"), FIRST_ROWS, OUTER_JOIN)


def test_in_batch_mode_windows_are_over_any_timestamp_and_rows_without_one_are_in_none(
    oracle: duckdb.DuckDBPyConnection,
) -> None:
    env = environment({"execution.runtime-mode": "batch"})
    some = "(SELECT k, n, x, CASE WHEN n > 9 THEN v END AS v, CASE WHEN n > 9 THEN ts END AS ts FROM t)"
    tumble = WINDOWS["tumble"].replace("TABLE t", f"TABLE {some}")
    size = "INTERVAL '0.010' SECOND"
    counts = f"COUNT(*), MAX(v), TUMBLE_START(ts, {size})"
    check(
        env,
        oracle,
        COUNTS.format("{hop}"),
        f"SELECT {BOTH}, {MORE_CALLS} FROM {{cumulate}} GROUP BY {BOTH}",
        FIRST_ROWS,
        OUTER_JOIN,
        (f"SELECT n, {BOTH} FROM {tumble}", f"SELECT n, {BOTH} FROM tumble WHERE n > 9"),
        (
            f"SELECT {counts} FROM {some} GROUP BY TUMBLE(ts, {size})",
            "SELECT COUNT(*), MAX(v), window_start FROM tumble WHERE n > 9 GROUP BY window_start",
        ),
        rows=env.from_arrow(table(1)),
    )


def test_in_batch_mode_no_row_is_late_though_the_table_has_watermarks_of_another_column() -> None:
    options = {"execution.runtime-mode": "batch", "pipeline.auto-watermark-interval": "1 ms", "parallelism.default": 1}
    tables = environment({**options, "flinkray.batch.target-rows": 8}).tables
    tables.execute_sql(
        "CREATE TABLE t (n INT, ordered AS TO_TIMESTAMP_LTZ(n, 3), born AS TO_TIMESTAMP_LTZ(5000 - n, 3), "
        "WATERMARK FOR ordered AS ordered) WITH ('connector'='datagen', 'number-of-rows'='4000', "
        "'fields.n.kind'='sequence', 'fields.n.start'='0', 'fields.n.end'='3999')"
    )
    hours = "TUMBLE(TABLE t, DESCRIPTOR(born), INTERVAL '1' SECOND)"
    query = f"SELECT SUM(n) AS n FROM (SELECT COUNT(*) AS n FROM {hours} GROUP BY window_start, window_end)"
    assert [row.n for row in tables.sql_query(query).execute().collect()] == [4000]


@pytest.mark.parametrize(
    ("mode", "times"),
    [
        ("streaming", "TO_TIMESTAMP_LTZ(n * 1000, 3)"),
        ("batch", "TO_TIMESTAMP_LTZ(n * 1000, 3)"),
        ("batch", "CAST(NULL AS TIMESTAMP_LTZ(3))"),
    ],
)
def test_sessions_of_subtasks_without_rows_are_none(mode: str, times: str) -> None:
    tables = environment({"execution.runtime-mode": mode, "parallelism.default": 2}).tables
    tables.execute_sql(
        f"CREATE TABLE t (n INT, k AS 'k', ts AS {times}, WATERMARK FOR ts AS ts) WITH ('connector'='datagen', "
        "'number-of-rows'='5', 'fields.n.kind'='sequence', 'fields.n.start'='0', 'fields.n.end'='4')"
    )
    sessions = "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    found = [row[0] for row in tables.sql_query(f"SELECT n FROM {sessions}").execute().collect()]
    assert sorted(found) == ([] if "NULL" in times else [0, 1, 2, 3, 4])


def test_in_batch_mode_a_version_without_a_time_is_none() -> None:
    tables = environment({"execution.runtime-mode": "batch"}).tables
    for name, key in (("t", ""), ("v", ", PRIMARY KEY (n) NOT ENFORCED")):
        tables.execute_sql(
            f"CREATE TABLE {name} (n INT NOT NULL, ts AS CASE WHEN MOD(n, 3) > 0 THEN TO_TIMESTAMP_LTZ(n, 3) END{key}, "
            "WATERMARK FOR ts AS ts) WITH ('connector'='datagen', "
            "'number-of-rows'='5', 'fields.n.kind'='sequence', 'fields.n.start'='0', 'fields.n.end'='4')"
        )
    query = "SELECT t.n, v.n FROM t LEFT JOIN v FOR SYSTEM_TIME AS OF t.ts ON t.n = v.n"
    found = sorted(tuple(row) for row in tables.sql_query(query).execute().collect())
    assert found == [(0, None), (1, 1), (2, 2), (3, None), (4, 4)]


_HOURS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))"


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT n FROM t ORDER BY ts, n", [(0,), (3,), (1,), (2,), (4,)]),
        ("SELECT COUNT(*), COUNT(ts) FROM t", [(5, 3)]),
        (f"SELECT COUNT(*) FROM {_HOURS} GROUP BY window_start, window_end", [(3,)]),
        ("SELECT COUNT(DISTINCT n) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", [(3,)]),
        ("SELECT COUNT(*) FROM t GROUP BY SESSION(ts, INTERVAL '1' HOUR)", [(3,)]),
        ("SELECT a.n FROM t AS a LEFT JOIN t AS b ON a.n = b.n AND a.ts BETWEEN b.ts AND b.ts WHERE b.n IS NULL", 2),
    ],
)
def test_in_batch_mode_a_column_with_a_watermark_may_be_null(query: str, rows: list[tuple[int, ...]] | int) -> None:
    tables = environment({"execution.runtime-mode": "batch"}).tables
    tables.execute_sql(
        "CREATE TABLE t (n INT, ts AS CASE WHEN MOD(n, 3) > 0 THEN TO_TIMESTAMP_LTZ(n, 3) END, WATERMARK FOR ts AS ts) "
        "WITH ('connector'='datagen', 'number-of-rows'='5', "
        "'fields.n.kind'='sequence', 'fields.n.start'='0', 'fields.n.end'='4')"
    )
    found = [tuple(row) for row in tables.sql_query(query).execute().collect()]
    assert (found if isinstance(rows, list) else len(found)) == rows


# -- rowtime attributes --------------------------------------------------------------------------------------------


def test_event_times_become_a_rowtime_attribute_under_a_new_name(env: StreamExecutionEnvironment) -> None:
    by_number = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ms")
    events = env.from_arrow(pa.table({"ms": [1, 12, 13, 25]})).assign_timestamps_and_watermarks(by_number)
    windows = WINDOWS["tumble"].replace("ts", "event_time")
    select = "SELECT window_start AS opened, COUNT(*) AS c, window_time AS closed"
    sql = f"{select} FROM {windows} GROUP BY {BOTH}, window_time"
    counts = env.sql(sql, t=events.with_rowtime("event_time"))
    # The results may be windowed again, by the times of their windows.
    again = WINDOWS["tumble"].replace("ts", "closed").replace("0.010", "0.020")
    totals = env.sql(f"SELECT window_start, SUM(c) FROM {again} GROUP BY {BOTH}", t=counts.with_rowtime("closed"))
    found = rows_of(env, {"counts": counts, "totals": totals})
    assert counted(found["counts"]) == Counter([(0, 1, 9), (10, 2, 19), (20, 1, 29)])
    assert counted(found["totals"]) == Counter([(0, 3), (20, 1)])


def test_a_column_that_is_no_timestamp_is_no_rowtime_attribute(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="column 'n' is int64, and a rowtime attribute is a timestamp"):
        stream(env).with_rowtime("n")
    with pytest.raises(InvalidProgramError, match="are not known before it runs"):
        stream(env).map(lambda row: row).with_rowtime("at")

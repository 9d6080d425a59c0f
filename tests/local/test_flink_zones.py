"""Instants are dates and times of day of `table.local-time-zone`, as Flink 2.3 has them (tests/support/flink_zones)."""

from __future__ import annotations

import datetime as dt
import io
import json
import zoneinfo

import pytest

from flinkray.errors import SqlError
from tests.support.flink_statements import folded
from tests.support.flink_zones import ANSWERS, TICKS, WINDOWS, ZONES, expressions_query
from tests.support.jobs import environment
from tests.support.whole_jobs import rows_of

_KIND = "row_kind"
_LOST = {
    "America/New_York": set[str](),
    "Asia/Kolkata": {"tumble_offset", "hop", "cumulate", "cascade"},
    "GMT-08:00": {"tumble_1d"},
}
"""Where Flink loses rows: in zones without summer time it counts up what it has gathered when windows of UTC end, and
drops what it then finds to be late."""
_TICKS = 34


@pytest.mark.parametrize("zone", ZONES)
def test_expressions_and_windows_of_a_time_zone_come_to_flinks_answers(zone: str) -> None:
    env = environment(parallelism=1)
    tables = env.tables
    tables.execute_sql(f"SET 'table.local-time-zone' = '{zone}'")
    tables.execute_sql(TICKS)
    queries = {"expressions": expressions_query(), **WINDOWS}
    streams = {name: tables.to_changelog_stream(tables.sql_query(sql)) for name, sql in queries.items()}
    found = rows_of(env, {name: each.kinds_as_column(_KIND) for name, each in streams.items()})
    answers = {name: folded((row[-1], row[:-1]) for row in map(tuple, rows)) for name, rows in found.items()}
    expected = json.loads(ANSWERS.read_text())[zone]
    assert answers["expressions"] == expected["expressions"]
    lost = _LOST[zone]
    assert {name for name, rows in answers.items() if rows != expected[name]} == lost
    for name in {"tumble_30m", "tumble_1d", "tumble_offset", "session", "cascade"}:
        count = -1 if name == "cascade" else -2
        assert sum(json.loads(row)[count] for row in answers[name]) == _TICKS, "no row is late"


def test_instants_are_printed_as_clocks_in_the_time_zone_show_them() -> None:
    tables = environment(parallelism=1).tables
    tables.execute_sql("SET 'table.local-time-zone' = 'America/New_York'")
    printed = io.StringIO()
    tables.execute_sql("SELECT TO_TIMESTAMP_LTZ(1710054000000, 3) AS z").print(printed)
    assert "2024-03-10 03:00:00.000" in printed.getvalue()


def test_windows_of_the_clock_begin_when_clocks_of_the_time_zone_say_so() -> None:
    tables = environment({"execution.runtime-mode": "batch"}, parallelism=1).tables
    tables.execute_sql("SET 'table.local-time-zone' = 'Asia/Kolkata'")
    tables.execute_sql(
        "CREATE TABLE clock (n INT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '9')"
    )
    day, zone = dt.timedelta(days=1), zoneinfo.ZoneInfo("Asia/Kolkata")
    windows = "TABLE(TUMBLE(TABLE clock, DESCRIPTOR(p), INTERVAL '1' DAY, INTERVAL '6' HOUR))"
    queries = {
        f"SELECT window_start, window_end, COUNT(*) FROM {windows} GROUP BY window_start, window_end": 6,
        "SELECT TUMBLE_START(p, INTERVAL '1' DAY), TUMBLE_END(p, INTERVAL '1' DAY), COUNT(*) FROM clock "
        "GROUP BY TUMBLE(p, INTERVAL '1' DAY)": 0,
    }
    for sql, hour in queries.items():
        began = dt.datetime.now(zone).replace(tzinfo=None)
        with tables.execute_sql(sql).collect() as rows:
            found = [tuple(row) for row in rows]
        assert sum(count for _, _, count in found) == 9
        for start, end, _ in found:
            assert (start.hour, start.minute, end - start) == (hour, 0, day)
            assert start <= dt.datetime.now(zone).replace(tzinfo=None)
            assert end > began


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_sessions_of_instants_are_bounded_by_what_clocks_of_the_time_zone_show(mode: str) -> None:
    tables = environment({"execution.runtime-mode": mode}, parallelism=1).tables
    tables.execute_sql("SET 'table.local-time-zone' = 'Asia/Kolkata'")
    tables.execute_sql(
        "CREATE TABLE ticks (n INT, ts AS TO_TIMESTAMP_LTZ(n * 600000, 3), WATERMARK FOR ts AS ts) WITH ("
        "'connector'='datagen', 'fields.n.kind'='sequence', 'fields.n.start'='0', 'fields.n.end'='4')"
    )
    sessions = "TABLE(SESSION(TABLE ticks, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    start, end = dt.datetime(1970, 1, 1, 5, 30), dt.datetime(1970, 1, 1, 7, 10)
    bounds = "window_start, window_end"
    queries: dict[str, list[tuple[object, ...]]] = {
        f"SELECT {bounds}, CAST(window_time AS STRING) FROM {sessions} WHERE n = 2": [
            (start, end, "1970-01-01 07:09:59.999")
        ],
        f"SELECT {bounds}, LISTAGG(CAST(n AS STRING)) FROM {sessions} GROUP BY {bounds}": [(start, end, "0,1,2,3,4")],
        "SELECT window_start, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY n DESC) AS place FROM {sessions}) WHERE place = 1": [(start, 4)],
    }
    for sql, rows in queries.items():
        with tables.execute_sql(sql).collect() as found:
            assert [tuple(row) for row in found] == rows, sql


def test_windows_of_the_clock_are_refused_where_they_would_move_with_the_season() -> None:
    tables = environment(parallelism=1).tables
    tables.execute_sql("SET 'table.local-time-zone' = 'America/New_York'")
    tables.execute_sql("CREATE TABLE clock (n INT, p AS PROCTIME()) WITH ('connector' = 'datagen')")
    tables.explain_sql("SELECT COUNT(*) FROM clock GROUP BY TUMBLE(p, INTERVAL '1' HOUR)", "JSON_EXECUTION_PLAN")
    with pytest.raises(SqlError, match=r"every 86400000 ms would move where clocks of America/New_York change: SET "):
        tables.execute_sql("SELECT COUNT(*) FROM clock GROUP BY TUMBLE(p, INTERVAL '1' DAY)")

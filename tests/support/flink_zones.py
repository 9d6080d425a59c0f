"""What Flink 2.3 answers in time zones other than UTC, kept in tests/data/sql/zone_answers.json: expressions over
instants and texts round the days on which clocks change, and queries by windows over `files/zone_ticks.json`.

    python -m tests.support.flink_zones

asks the PyFlink of the environment that calls it (apache-flink 2.3.0, Java 17), and writes the answers.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.flink_statements import DATA, folded

ANSWERS = DATA / "zone_answers.json"
ZONES = ("America/New_York", "Asia/Kolkata", "GMT-08:00")
_MINUTE, _SPRING, _AUTUMN = 60_000, 1_710_054_000_000, 1_730_613_600_000
"""Clocks in New York go on at the one instant and back at the other."""
_INSTANTS = (
    *(_SPRING + minutes * _MINUTE for minutes in (-30, 0, 30)),
    *(_AUTUMN + minutes * _MINUTE for minutes in (-90, -30, 30, 90)),
    1_704_067_200_123,
    1_709_163_000_000,
)
_TEXTS = (
    *(f"2024-03-10 {time}" for time in ("01:30:00", "02:00:00", "02:30:00", "03:00:00")),
    *(f"2024-11-03 {time}" for time in ("00:59:59", "01:00:00", "01:30:00", "02:00:00")),
    "2024-07-01 12:00:00",
)
_ROWS = ", ".join(
    f"({place}, {millis}, '{text}')" for place, (millis, text) in enumerate(zip(_INSTANTS, _TEXTS, strict=True), 1)
)
_TABLE = (
    "SELECT id, ms, t, TO_TIMESTAMP_LTZ(ms, 3) AS z, CAST(t AS TIMESTAMP(3)) AS w "
    f"FROM (VALUES {_ROWS}) AS v(id, ms, t)"
)
EXPRESSIONS = (
    "CAST(z AS STRING)",
    "CAST(z AS TIMESTAMP(3))",
    "CAST(z AS DATE)",
    "CAST(z AS TIME)",
    "EXTRACT(EPOCH FROM CAST(w AS TIMESTAMP_LTZ(3)))",
    "EXTRACT(EPOCH FROM CAST(t AS TIMESTAMP_LTZ(3)))",
    "EXTRACT(EPOCH FROM CAST(CAST(w AS DATE) AS TIMESTAMP_LTZ(3)))",
    "EXTRACT(EPOCH FROM CAST(CAST(w AS TIME) AS TIMESTAMP_LTZ(3)))",
    "DATE_FORMAT(z, 'yyyy-MM-dd HH:mm:ss')",
    "DATE_FORMAT(w, 'yyyy-MM-dd HH:mm:ss')",
    "EXTRACT(HOUR FROM z)",
    "EXTRACT(MINUTE FROM z)",
    "EXTRACT(DAY FROM z)",
    "EXTRACT(DOY FROM z)",
    "EXTRACT(EPOCH FROM z)",
    "YEAR(z)",
    "MONTH(z)",
    "HOUR(z)",
    "DAYOFMONTH(z)",
    "DAYOFWEEK(z)",
    "WEEK(z)",
    "QUARTER(z)",
    "CAST(FLOOR(z TO HOUR) AS STRING)",
    "EXTRACT(EPOCH FROM FLOOR(z TO HOUR))",
    "EXTRACT(EPOCH FROM FLOOR(z TO MINUTE))",
    "EXTRACT(EPOCH FROM CEIL(z TO HOUR))",
    "FROM_UNIXTIME(ms / 1000)",
    "FROM_UNIXTIME(ms / 1000, 'HH:mm')",
    "UNIX_TIMESTAMP(t)",
    "UNIX_TIMESTAMP(t, 'yyyy-MM-dd HH:mm:ss')",
    "EXTRACT(EPOCH FROM TO_TIMESTAMP_LTZ(t))",
    "EXTRACT(EPOCH FROM TO_TIMESTAMP_LTZ(t, 'yyyy-MM-dd HH:mm:ss'))",
    "EXTRACT(EPOCH FROM TO_TIMESTAMP_LTZ(t, 'yyyy-MM-dd HH:mm:ss', 'Asia/Tokyo'))",
    "CONVERT_TZ(t, 'UTC', 'America/New_York')",
    "CONVERT_TZ(t, 'America/New_York', 'UTC')",
    "EXTRACT(EPOCH FROM z + INTERVAL '1' DAY)",
    "EXTRACT(EPOCH FROM z + INTERVAL '1' HOUR)",
    "EXTRACT(EPOCH FROM z + INTERVAL '1' MONTH)",
    "EXTRACT(EPOCH FROM z - INTERVAL '1' YEAR)",
    "EXTRACT(EPOCH FROM TIMESTAMPADD(DAY, 1, z))",
    "EXTRACT(EPOCH FROM TIMESTAMPADD(MONTH, 1, z))",
    "EXTRACT(EPOCH FROM TIMESTAMPADD(HOUR, 3, z))",
    "TIMESTAMPDIFF(HOUR, z, TO_TIMESTAMP_LTZ(ms + 86400000, 3))",
    "TIMESTAMPDIFF(DAY, TO_TIMESTAMP_LTZ(1709942400000, 3), z)",
    "TIMESTAMPDIFF(MONTH, TO_TIMESTAMP_LTZ(1706745600000, 3), z)",
    "z = w",
    "z < w",
    "z > TIMESTAMP '2024-03-10 02:30:00'",
    "z IN (TO_TIMESTAMP_LTZ(1710054000000, 3))",
    "CAST(COALESCE(z, CAST(w AS TIMESTAMP_LTZ(3))) AS STRING)",
    "CAST(CASE WHEN id > 3 THEN z ELSE CAST(w AS TIMESTAMP_LTZ(3)) END AS STRING)",
    "CAST(CASE WHEN id > 3 THEN z ELSE w END AS STRING)",
    "CONCAT(CAST(z AS STRING), '!')",
    "CAST(z AS VARCHAR(10))",
    "CAST(ROW(z, id) AS STRING)",
    "CAST(ARRAY[z] AS STRING)",
    "CAST(MAP['a', z] AS STRING)",
    "JSON_OBJECT(KEY 'a' VALUE z)",
    "JSON_OBJECT(KEY 'a' VALUE w)",
    "JSON_STRING(z)",
    "TRY_CAST('2024-03-10 02:30:00' AS TIMESTAMP_LTZ(3)) IS NULL",
    "CAST(LOCALTIMESTAMP AS DATE) = CURRENT_DATE",
    "CAST(CURRENT_TIMESTAMP AS DATE) = CURRENT_DATE",
    "HOUR(CURRENT_TIMESTAMP) = HOUR(LOCALTIME)",
    "HOUR(CURRENT_TIMESTAMP) = HOUR(LOCALTIMESTAMP)",
    "HOUR(CURRENT_TIMESTAMP) = HOUR(CURRENT_TIME)",
    "TIMESTAMPDIFF(MINUTE, LOCALTIMESTAMP, CAST(CURRENT_TIMESTAMP AS TIMESTAMP(3)))",
    "UNIX_TIMESTAMP(CAST(CURRENT_TIMESTAMP AS STRING), 'yyyy-MM-dd HH:mm:ss.SSS') - UNIX_TIMESTAMP() < 1000",
    "(z, INTERVAL '1' HOUR) OVERLAPS (TO_TIMESTAMP_LTZ(1710054000000, 3), INTERVAL '2' HOUR)",
    "CAST(TIMESTAMP WITH LOCAL TIME ZONE '2024-03-10 05:30:00' AS STRING)",
    "EXTRACT(EPOCH FROM TIMESTAMP WITH LOCAL TIME ZONE '2024-11-03 01:30:00')",
    "EXTRACT(EPOCH FROM CAST('2024-03-10 02:30:00' AS TIMESTAMP_LTZ(3)))",
    "EXTRACT(EPOCH FROM CAST('2024-11-03 01:30:00' AS TIMESTAMP_LTZ(3)))",
    "EXTRACT(EPOCH FROM CAST(TIMESTAMP '2024-11-03 01:30:00' AS TIMESTAMP_LTZ(3)))",
    "CAST(z AS TIMESTAMP_LTZ(0)) = z",
    "CAST(CAST(z AS TIMESTAMP_LTZ(9)) AS STRING)",
)
"""Over an instant z, its milliseconds ms, a text t, and the timestamp w that it is. Left out is where Flink is not
followed: of a day on which clocks change it takes FLOOR and CEIL to days and longer units with the offset of the
instant, which gives 23:00 or 01:00, and before 1970 parts that are negative."""
TICKS = (
    "CREATE TABLE ticks (k INT, ms BIGINT, n INT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts) "
    f"WITH ('connector' = 'filesystem', 'path' = '{DATA / 'files' / 'zone_ticks.json'}', 'format' = 'json')"
)


def _counted(windows: str) -> str:
    return (
        "SELECT window_start, window_end, CAST(window_time AS STRING), COUNT(*), SUM(n) "
        f"FROM TABLE({windows}) GROUP BY window_start, window_end, window_time"
    )


_HALF_HOURS = "SELECT * FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '30' MINUTE))"
_HOUR = "INTERVAL '1' HOUR"
WINDOWS = {
    "tumble_30m": _counted("TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '30' MINUTE)"),
    "tumble_1d": _counted("TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '1' DAY)"),
    "tumble_offset": _counted("TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '2' HOUR, INTERVAL '15' MINUTE)"),
    "hop": _counted(f"HOP(TABLE ticks, DESCRIPTOR(ts), {_HOUR}, INTERVAL '2' HOUR)"),
    "cumulate": _counted(f"CUMULATE(TABLE ticks, DESCRIPTOR(ts), {_HOUR}, INTERVAL '3' HOUR)"),
    "session": _counted("SESSION(TABLE ticks, DESCRIPTOR(ts), INTERVAL '30' MINUTE)"),
    "rows": "SELECT n, window_start, window_end, CAST(window_time AS STRING) "
    f"FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), {_HOUR}))",
    "rank": "SELECT k, n, window_start, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, "
    "window_end, k ORDER BY n DESC) AS place FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), "
    f"{_HOUR}))) WHERE place <= 1",
    "join": f"SELECT a.n, b.n, a.window_start FROM ({_HALF_HOURS}) a JOIN ({_HALF_HOURS}) b "
    "ON a.window_start = b.window_start AND a.window_end = b.window_end WHERE a.n < b.n",
    "group_window": f"SELECT TUMBLE_START(ts, {_HOUR}), TUMBLE_END(ts, {_HOUR}), CAST(TUMBLE_ROWTIME(ts, {_HOUR}) "
    f"AS STRING), COUNT(*) FROM ticks GROUP BY TUMBLE(ts, {_HOUR})",
    "cascade": "WITH c AS (SELECT window_time AS wt, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), "
    "INTERVAL '30' MINUTE)) GROUP BY window_start, window_end, window_time) SELECT window_start, window_end, SUM(c) "
    f"FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(wt), {_HOUR})) GROUP BY window_start, window_end",
}


def expressions_query() -> str:
    """One row of all expressions for each instant and text."""
    return f"SELECT id, {', '.join(EXPRESSIONS)} FROM ({_TABLE})"


def _ask() -> None:
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.get_config().set("parallelism.default", "1")
    environment.execute_sql(TICKS)
    found: dict[str, dict[str, list[str]]] = {}
    for zone in ZONES:
        environment.get_config().set_local_timezone(zone)
        found[zone] = {}
        for name, sql in {"expressions": expressions_query(), **WINDOWS}.items():
            with environment.execute_sql(sql).collect() as rows:
                found[zone][name] = folded((str(row.get_row_kind()), tuple(row)) for row in rows)
    Path(ANSWERS).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    _ask()

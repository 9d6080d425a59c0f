"""The main example against the same questions asked of DuckDB, row for row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("duckdb")

import duckdb

from examples import pipeline

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated"),  # PySpark 3.5's own
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas >= 3"),  # of which flinkray uses none
    pytest.mark.filterwarnings("ignore:.*socket:ResourceWarning"),  # py4j leaves its sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # ... which finds them
]

QUESTIONS = f"""
set timezone = 'UTC';
create view departed as
    select origin, dep_delay, epoch_ms(time_hour) + minute * 60000 + dep_delay * 60000 as departed_ms
    from '{pipeline.DATA}/flights.parquet' where dep_delay is not null;
create view hours as
    select origin, departed_ms // 3600000 * 3600000 as window_start, count(*) as flights, avg(dep_delay) as mean_delay,
           sum(dep_delay) as minutes, max(dep_delay) as worst_delay, avg((dep_delay > 15)::int) as late_share
    from departed group by all;
create view observed as
    select distinct on (origin, time_hour) origin, epoch_ms(time_hour) as window_start, temp, wind_speed, precip, visib
    from '{pipeline.DATA}/weather.parquet'
    where temp is not null and wind_speed is not null and precip is not null and visib is not null;
create view bad as
    select *, window_start // 3600000 - row_number() over (partition by origin order by window_start) as run
    from hours where flights >= 5 and mean_delay > 30;
create view numbered as
    select *, row_number() over (partition by origin, run order by window_start) as hour_of_run from bad;
"""

HOURLY = f"""
select origin, name, window_start, window_start + 3600000 as window_end, flights, mean_delay, worst_delay, late_share,
       temp, wind_speed, precip, visib
from hours join observed using (origin, window_start) join '{pipeline.DATA}/airports.csv' on faa = origin
order by origin, window_start
"""

ALERTS = """
select origin, max(window_start) as window_start, sum(minutes) / sum(flights) as mean_delay
from numbered where hour_of_run <= 3 group by origin, run having max(hour_of_run) = 3 order by origin, window_start
"""

WRITTEN = """
select * replace (epoch_ms(window_start) as window_start{also}) from '{out}/{name}/*.parquet'
order by origin, window_start
"""


def check_same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        for value, wanted in zip(left, right, strict=True):
            # Sums of the same numbers in another order differ in the last digit.
            same = math.isclose(value, wanted, rel_tol=1e-12) if isinstance(wanted, float) else value == wanted
            assert same, f"{left} is not {right}"


@pytest.mark.parametrize("target", ["local", pytest.param("ray", marks=pytest.mark.ray)])
def test_pipeline_gives_what_duckdb_computes(
    target: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if target == "ray":
        request.getfixturevalue("ray_cluster")
    pipeline.run(target, tmp_path, parallelism=2)
    printed = capsys.readouterr().out
    with duckdb.connect() as database:
        database.execute(QUESTIONS)
        hourly, alerts = database.sql(HOURLY).fetchall(), database.sql(ALERTS).fetchall()
        without = database.sql("from hours anti join observed using (origin, window_start)").fetchall()
        also = ", epoch_ms(window_end) as window_end"
        check_same(database.sql(WRITTEN.format(out=tmp_path, name="hourly", also=also)).fetchall(), hourly)
        check_same(database.sql(WRITTEN.format(out=tmp_path, name="alerts", also="")).fetchall(), alerts)
    assert alerts, "the year had bad days"
    assert f"{len(alerts)} alerts are in" in printed
    assert f"{len(without)} had none" in printed
    worst = max((row for row in hourly if row[4] >= 5), key=lambda row: row[5])
    assert f"{worst[5]}"[:8] in printed

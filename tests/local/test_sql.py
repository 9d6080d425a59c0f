"""Queries over streams in whole jobs."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from flinkray import InvalidProgramError, JobExecutionError, Row, StreamExecutionEnvironment, col
from tests.support.jobs import environment
from tests.support.whole_jobs import cities, in_order, rows, timed


def test_a_query_is_a_stream_like_others(env: StreamExecutionEnvironment) -> None:
    warm = env.sql("SELECT city, high - low AS spread FROM {cities} WHERE high > 10", cities=cities(env))
    assert warm.record_type is not None
    assert warm.record_type.schema == pa.schema({"city": pa.string(), "spread": pa.int64()})
    assert rows(warm.where(col("spread") < 10)) == [Row(city="Lima", spread=8), Row(city="Rome", spread=8)]


def test_a_stream_is_self_in_its_own_query(env: StreamExecutionEnvironment) -> None:
    low, doubled = cities(env).where(col("low") < 0), "SELECT low * 2 AS low FROM self UNION ALL SELECT high FROM {all}"
    assert rows(low.sql(doubled, all=cities(env))) == [Row(low=each) for each in (-4, 15, 27, 4)]


def test_frames_and_tables_are_streams_too(env: StreamExecutionEnvironment) -> None:
    frame, table = pd.DataFrame({"n": [1, 2]}), pa.table({"n": [3]})
    query = env.sql("SELECT n + 1 AS m FROM {frame} UNION ALL SELECT n FROM {table}", frame=frame, table=table)
    assert rows(query) == [Row(m=2), Row(m=3), Row(m=3)]


def test_a_query_without_streams_runs(env: StreamExecutionEnvironment) -> None:
    query = env.sql("SELECT n, word FROM (VALUES (1, 'a'), (1 + 1, UPPER('b'))) AS t(n, word)")
    assert rows(query) == [Row(n=1, word="a"), Row(n=2, word="B")]


def test_rows_keep_the_event_time_of_their_stream(env: StreamExecutionEnvironment) -> None:
    events = timed(env, (1, 10), (2, 20), names=("n", "at")).sql("SELECT n * 10 AS n FROM self")
    times = events.process(lambda value, ctx: [(value.n, ctx.timestamp())])
    assert rows(times) == [(10, 10), (20, 20)]


def test_a_query_runs_in_stages_too() -> None:
    env = environment({"execution.runtime-mode": "batch"})
    query = env.sql("SELECT high FROM {c} WHERE low > 0 UNION ALL SELECT low FROM {c} WHERE low < 0", c=cities(env))
    assert rows(query) == [Row(high=-2), Row(high=15), Row(high=27)]


def test_a_query_is_explained_without_being_run(env: StreamExecutionEnvironment) -> None:
    text = env.explain_sql("SELECT COUNT(*) AS n FROM {cities} WHERE high > 10", cities=cities(env))
    steps = [line.lstrip(" +-").partition("(")[0] for line in text.splitlines()]
    assert steps == ["Project", "Aggregate", "Project", "Filter", "Scan"]


def test_a_changelog_goes_through_a_query(env: StreamExecutionEnvironment) -> None:
    changes = env.from_arrow(pa.table({"n": [1, 1, 2, 2], "op": ["+I", "-U", "+U", "-D"]})).set_parallelism(1)
    query = changes.as_changelog("op").sql("SELECT n * 10 AS n FROM self WHERE n > 0").kinds_as_column("op")
    assert in_order(query) == [Row(n=10, op="+I"), Row(n=10, op="-U"), Row(n=20, op="+U"), Row(n=20, op="-D")]


def test_changes_are_rows_that_say_what_they_do_and_such_rows_are_changes(
    env: StreamExecutionEnvironment,
) -> None:
    codes = [("c", 1, 5), ("c", 2, 6), ("b", 1, 5), ("u", 1, 7), ("d", 2, 6)]
    given = env.from_collection([Row(code=code, id=id, cents=cents) for code, id, cents in codes])
    mapping = "MAP['c, r', 'INSERT', 'b', 'UPDATE_BEFORE', 'u', 'UPDATE_AFTER', 'd', 'DELETE']"
    changes = env.sql(
        f"SELECT cents, id FROM FROM_CHANGELOG(input => TABLE given, op => DESCRIPTOR(code), op_mapping => {mapping})",
        given=given,
    )
    kinds = [str(row.get_row_kind()) for row in changes.execute_and_collect()]
    assert kinds == ["+I", "+I", "-U", "+U", "-D"]
    written = env.sql(
        "SELECT * FROM TO_CHANGELOG("
        "TABLE changes, DESCRIPTOR(done), MAP['INSERT, UPDATE_AFTER', 'put', 'DELETE', 'take'])",
        changes=changes,
    )
    assert [tuple(row) for row in written.execute_and_collect()] == [
        ("put", 5, 1), ("put", 6, 2), ("put", 7, 1), ("take", 6, 2),
    ]  # fmt: skip


def test_a_value_that_cannot_be_computed_fails_the_job_with_its_expression(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(JobExecutionError, match=r"operator 'Calc' .*: 1 / \(low - 7\): /: a division by zero"):
        rows(env.sql("SELECT 1 / (low - 7) FROM {cities}", cities=cities(env)))


def test_streams_of_other_programs_are_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="stream 'cities' belongs to another environment"):
        env.sql("SELECT city FROM cities", cities=cities(environment()))
    with pytest.raises(InvalidProgramError, match="different environments"):
        cities(env).sql("SELECT city FROM self", others=cities(environment()))

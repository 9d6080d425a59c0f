"""Patterns of events in whole jobs: on streams and in SQL, in event time, in processing time and in batch mode."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from flinkray import DataStream, InvalidProgramError, OutputTag, Row, StreamExecutionEnvironment, WatermarkStrategy, col
from flinkray.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Events,
    Pattern,
    PatternContext,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from flinkray.errors import SqlUnsupportedError
from tests.support.jobs import environment
from tests.support.whole_jobs import rows_of

EVENTS = [("x", 12, 0), ("x", 15, 1), ("y", 11, 1), ("x", 3, 2), ("y", 40, 3), ("x", 20, 4), ("x", 1, 9), ("y", 30, 9)]
OVER = OutputTag("over")
NOON = datetime.datetime(2024, 1, 1, 12)


def events(env: StreamExecutionEnvironment) -> DataStream:
    rows = [Row(key=key, price=price, at=second * 1000) for key, price, second in EVENTS]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    return env.from_collection(rows).assign_timestamps_and_watermarks(strategy)


def prices(match: Events) -> list[int]:
    return [row.price for rows in match.values() for row in rows]


class Told(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match: Events, ctx: PatternContext) -> Iterator[Any]:
        yield (*prices(match), ctx.timestamp())

    def process_timed_out_match(self, match: Events, ctx: PatternContext) -> Iterator[Any]:
        yield OVER, (*prices(match), ctx.timestamp())


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_patterns_of_keys_and_of_all_events_come_to_the_same_in_both_modes(mode: str) -> None:
    env = environment({"execution.runtime-mode": mode}, parallelism=1)
    rises = Pattern.begin("low").where(col("price") > 10).followed_by("high").where(lambda row: row.price > 13)
    pairs = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).times(2).consecutive()
    of_keys = CEP.pattern(events(env).key_by("key"), rises.within("3 s")).process(Told())
    streams = {
        "keys": of_keys,
        "over": of_keys.get_side_output(OVER),
        "all": CEP.pattern(events(env), pairs).select(prices),
        "several": CEP.pattern(events(env).key_by("key"), rises).flat_select(lambda match: sorted(match)),
        "clock": CEP.pattern(events(env).key_by("key"), rises)
        .in_processing_time()
        .select(lambda match: match["high"][0].key),
    }
    found = {name: sorted(rows) for name, rows in rows_of(env, streams).items()}
    assert found == {
        "keys": [(11, 40, 3000), (12, 15, 1000)],
        "over": [(15, 4000), (20, 7000), (30, 12000), (40, 6000)],
        "all": [[1, 30], [11, 3], [12, 15], [40, 20]],
        "several": sorted(["high", "low"] * 4),
        "clock": ["x", "x", "y", "y"],
    }


def test_what_no_pattern_can_be_made_of_is_refused_where_the_program_says_it() -> None:
    stream = events(environment({}))
    for make, message in (
        (lambda: CEP.pattern([], Pattern.begin("a")), "CEP.pattern takes a stream"),  # type: ignore[arg-type]
        (lambda: CEP.pattern(stream, "a"), "CEP.pattern takes a Pattern"),  # type: ignore[arg-type]
        (lambda: CEP.pattern(stream, Pattern.begin("a").next("a")), "two parts of a pattern have the name 'a'"),
        (lambda: CEP.pattern(stream, Pattern.begin("a")).select(lambda: 1), "is called with \\(match\\) here"),
        (
            lambda: CEP.pattern(stream, Pattern.begin("a")).select(prices, timed_out_tag=OVER),
            "timed_out_select together",
        ),
    ):
        with pytest.raises(InvalidProgramError, match=message):
            make()


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_rows_of_a_query_are_matched_in_both_modes(mode: str) -> None:
    env = environment({"execution.runtime-mode": mode}, parallelism=1)
    rows = [
        Row(item=item, price=price, sold=NOON + datetime.timedelta(seconds=second)) for item, price, second in EVENTS
    ]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("sold")
    ticks = env.from_collection(rows).assign_timestamps_and_watermarks(strategy)
    by_time = """
        SELECT * FROM {ticks} MATCH_RECOGNIZE (
            PARTITION BY item ORDER BY sold
            MEASURES FIRST(A.price) AS a, COUNT(B.price) AS n, C.price AS c, MATCH_ROWTIME() AS t
            AFTER MATCH SKIP PAST LAST ROW PATTERN (A{1} B{,2}? C) WITHIN INTERVAL '5' SECOND
            DEFINE B AS B.price < 20, C AS C.price > A.price + 5
        )
    """
    by_arrival = """
        SELECT item, up FROM (SELECT *, PROCTIME() AS p FROM {ticks}) MATCH_RECOGNIZE (
            PARTITION BY item ORDER BY p MEASURES B.price - A.price AS up, MATCH_PROCTIME() AS t
            PATTERN (A B) WITHIN INTERVAL '1' HOUR DEFINE B AS B.price > A.price
        )
    """
    streams = {name: env.sql(query, ticks=ticks) for name, query in (("time", by_time), ("arrival", by_arrival))}
    found = {name: sorted(map(tuple, rows)) for name, rows in rows_of(env, streams).items()}
    second = datetime.timedelta(seconds=1)
    assert found["time"] == [("x", 12, 2, 20, NOON + 4 * second), ("y", 11, 0, 40, NOON + 3 * second)]
    assert found["arrival"] == [("x", 3), ("x", 17), ("y", 29)]


def test_rows_that_are_updated_are_not_matched() -> None:
    tables = environment({}).tables
    tables.execute_sql("CREATE TABLE t (k INT, p AS PROCTIME()) WITH ('connector' = 'datagen')")
    query = "SELECT * FROM (SELECT k, MAX(p) AS n, PROCTIME() AS q FROM t GROUP BY k) MATCH_RECOGNIZE ("
    query += "ORDER BY q MEASURES A.n AS n PATTERN (A) DEFINE A AS A.k > 1)"
    with pytest.raises(SqlUnsupportedError, match="this pattern: MATCH_RECOGNIZE takes rows that are only added"):
        tables.execute_sql(query).collect()

"""Sessions, count windows, windows over all rows, triggers and evictors in whole jobs, at one to three subtasks."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    AggregateFunction,
    AllWindowFunction,
    CollectList,
    ContinuousEventTimeTrigger,
    Count,
    CountEvictor,
    CountTrigger,
    DataStream,
    EventTimeSessionWindows,
    GlobalWindows,
    InvalidProgramError,
    OutputTag,
    ProcessAllWindowFunction,
    PurgingTrigger,
    Sum,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    UserFunctionError,
    WindowFunction,
)
from tests.support.jobs import environment
from tests.support.whole_jobs import ASCENDING, rows, timed

EVENTS = [("a", 5, 1), ("b", 7, 2), ("a", 3, 9), ("a", 8, 14), ("b", 2, 25), ("a", 1, 40)]
NAMES = ("key", "value", "at")
SESSIONS = EventTimeSessionWindows.with_gap(10)
TEN = TumblingEventTimeWindows.of(10)
PARALLELISMS = [1, 2, 3]


def events(parallelism: int = 2) -> DataStream:
    return timed(environment(parallelism=parallelism), *EVENTS, names=NAMES)


def tuples(stream: DataStream) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows(stream)]


def many(parallelism: int, options: dict[str, object] | None = None) -> tuple[DataStream, list[tuple[int, int, int]]]:
    """Rows (key, value, time), in order of time."""
    chance = random.Random(parallelism)
    found, now = [], 0
    for number in range(300):
        now += chance.choice((0, 1, 3, 20))
        found.append((chance.randrange(5), number, now))
    table = pa.table({name: [row[index] for row in found] for index, name in enumerate(("key", "value", "at"))})
    env = environment({"flinkray.batch.target-rows": 7, **(options or {})}, parallelism=parallelism)
    return env.from_arrow(table, ASCENDING.with_timestamp_assigner("at")).set_parallelism(1), found


def sessions_of(found: list[tuple[int, int, int]]) -> list[tuple[Any, ...]]:
    result = []
    for key in {key for key, _, _ in found}:
        values: list[int] = []
        start = last = None
        for _, value, time in [row for row in found if row[0] == key]:
            if last is not None and time > last + 10:
                result.append((key, start, last + 10, values))
                values, start = [], None
            start = time if start is None else start
            values, last = [*values, value], time
        assert last is not None
        result.append((key, start, last + 10, values))
    return sorted(result)


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_sessions(parallelism: int) -> None:
    stream, found = many(parallelism)
    sessions = stream.key_by("key").window(SESSIONS)
    result = sessions.apply(lambda key, window, inputs: [(key, window.start, window.end, [r.value for r in inputs])])
    assert sorted(tuple(row) for row in rows(result)) == sessions_of(found)


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_sessions_of_built_in_aggregates_that_fire_early(parallelism: int) -> None:
    stream, found = many(parallelism)
    sessions = stream.key_by("key").window(SESSIONS).trigger(ContinuousEventTimeTrigger.of(1_000))
    result = sessions.aggregate(rows=Count(), total=Sum("value"))
    # A session also fires at the end that it had before it grew: the earliest time that is pending stays.
    last = {(key, start): row for row in sorted(tuples(result)) for key, start in [row[:2]]}
    expected = [(key, start, end, len(values), sum(values)) for key, start, end, values in sessions_of(found)]
    assert sorted(last.values()) == expected


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_count_windows(parallelism: int) -> None:
    stream, found = many(parallelism)
    result = (
        stream.key_by("key")
        .count_window(4, 3)
        .apply(lambda key, window, inputs: [(key, window.id, [row.value for row in inputs])])
    )
    expected = []
    for key in range(5):
        values = [value for each, value, _ in found if each == key]
        starts = range(0, len(values) - 3, 3)
        expected += [(key, number, values[start : start + 4]) for number, start in enumerate(starts)]
    assert sorted(tuple(row) for row in rows(result)) == expected


@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_count_windows_of_built_in_aggregates(parallelism: int, mode: str) -> None:
    for size, slide in ((4, None), (4, 3), (2, 5)):
        stream, found = many(parallelism, {"execution.runtime-mode": mode})
        result = stream.key_by("key").count_window(size, slide).aggregate(rows=Count(), all=CollectList("value"))
        expected = []
        for key in range(5):
            values = [value for each, value, _ in found if each == key]
            starts = range(0, len(values) - size + 1, slide or size)
            expected += [(key, None, None, size, values[start : start + size]) for start in starts]
        assert sorted(tuples(result), key=lambda row: (row[0], row[4])) == expected


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_windows_over_all_rows(parallelism: int) -> None:
    stream, found = many(parallelism)
    expected: dict[int, list[int]] = {}
    for _, value, time in found:
        expected.setdefault(time // 10 * 10, []).append(value)
    for each in (stream, stream.key_by("key"), stream.partition_custom(lambda key, channels: key % channels, "key")):
        result = each.window_all(TEN).aggregate(rows=Count(), total=Sum("value"))
        assert sorted(tuples(result)) == [(at, at + 10, len(v), sum(v)) for at, v in sorted(expected.items())]


def test_count_windows_over_all_rows() -> None:
    result = events().count_window_all(2).apply(lambda window, inputs: [(window.id, [row.value for row in inputs])])
    assert rows(result) == [(0, [5, 7]), (1, [3, 8]), (2, [2, 1])]
    totals = events().count_window_all(4, 2).aggregate(n=Count(), total=Sum("value"))
    assert sorted(row.total for row in rows(totals)) == [14, 23]


class Sums(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Any:
        yield context.window().start, sum(row.value for row in elements)


class Firsts(AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any:
        yield window.start, next(iter(inputs)).value


class Largest(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        (largest,) = inputs
        yield key, window.start, largest.value


class Joined(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        return [*accumulator, value.value]

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, accumulator_a: list[int], accumulator_b: list[int]) -> list[int]:
        return accumulator_a + accumulator_b


class Unmergeable(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator


def test_functions_of_windows_over_all_rows() -> None:
    assert rows(events().window_all(TEN).process(Sums())) == [(0, 15), (10, 8), (20, 2), (40, 1)]
    assert rows(events().window_all(TEN).apply(Firsts())) == [(0, 5), (10, 8), (20, 2), (40, 1)]
    larger = events().window_all(TEN).reduce(lambda a, b: a if a.value > b.value else b, Firsts())
    assert rows(larger) == [(0, 7), (10, 8), (20, 2), (40, 1)]
    assert rows(events().window_all(SESSIONS).aggregate(Joined())) == [[1], [2], [5, 7, 3, 8]]


def test_a_window_function_after_reduce_may_be_one_of_windows() -> None:
    largest = events().key_by("key").window(SESSIONS).reduce(lambda a, b: a if a.value > b.value else b, Largest())
    assert rows(largest) == [("a", 1, 8), ("a", 40, 1), ("b", 2, 7), ("b", 25, 2)]


def test_the_row_with_the_extreme_value() -> None:
    windows = [events().key_by("key").window(TumblingEventTimeWindows.of(100)) for _ in range(2)]
    assert tuples(windows[0].min_by("value")) == [("a", 1, 40), ("b", 2, 25)]
    assert tuples(windows[1].max_by("value")) == [("a", 8, 14), ("b", 7, 2)]


def test_triggers_and_evictors() -> None:
    everything = events().key_by("key").window(GlobalWindows.create())
    last_two = everything.trigger(CountTrigger.of(2)).evictor(CountEvictor.of(3))
    assert rows(last_two.apply(lambda key, _window, inputs: [(key, [row.value for row in inputs])])) == [
        ("a", [3, 8, 1]),
        ("a", [5, 3]),
        ("b", [7, 2]),
    ]
    purged = events().key_by("key").window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    assert tuples(purged.aggregate(total=Sum("value"))) == [
        ("a", None, None, 8),
        ("a", None, None, 9),
        ("b", None, None, 9),
    ]


def test_late_rows_of_sessions_have_an_output_of_their_own() -> None:
    env = environment({"flinkray.batch.target-rows": 1})
    late = OutputTag("late")
    stream = timed(env, ("a", 1, 1), ("a", 2, 50), ("a", 3, 2), ("a", 4, 48), names=NAMES)
    result = stream.key_by("key").window(SESSIONS).side_output_late_data(late).aggregate(Joined())
    assert tuples(result.get_side_output(late)) == [("a", 3, 2)]


# -- what is refused


class Never(CountTrigger):
    def can_merge(self) -> bool:
        return False


def test_windows_that_merge_need_what_can_merge() -> None:
    sessions = events().key_by("key").window(SESSIONS)
    with pytest.raises(InvalidProgramError, match=r"EventTimeSessionWindows merges windows, and Never cannot"):
        sessions.trigger(Never(2))
    with pytest.raises(InvalidProgramError, match=r"Unmergeable needs a merge"):
        sessions.aggregate(Unmergeable())


@pytest.mark.parametrize("setting", ["trigger", "evictor"])
def test_settings_are_checked(setting: str) -> None:
    with pytest.raises(InvalidProgramError, match=f"{setting} takes an? "):
        getattr(events().key_by("key").window(TEN), setting)(5)


@pytest.mark.parametrize("size", [0, -1, "2", True])
def test_count_windows_need_a_number_of_rows(size: Any) -> None:
    with pytest.raises(InvalidProgramError, match="size is a number of rows"):
        events().key_by("key").count_window(size)


def test_windows_over_all_rows_have_one_subtask() -> None:
    result = events().window_all(TEN).aggregate(rows=Count())
    assert (result._transformation.parallelism, result._transformation.max_parallelism) == (1, 1)


def test_a_gap_that_is_not_positive_fails_the_job_with_its_row() -> None:
    windows = EventTimeSessionWindows.with_dynamic_gap(lambda row: row.value - 5)
    with pytest.raises(Exception, match="the gap of a session must be a positive number") as caught:
        rows(events().key_by("key").window(windows).apply(lambda key, _window, _inputs: [key]))
    assert isinstance(caught.value, UserFunctionError) or "EventTimeSessionWindows" in str(caught.value)


def test_processing_time_windows_drop_what_has_not_fired_at_the_end_of_the_data() -> None:
    windows = TumblingProcessingTimeWindows.of("1 h")
    assert rows(events().key_by("key").window(windows).apply(lambda key, _window, _inputs: [key])) == []

"""Jobs that go on from a savepoint of an earlier version of themselves, with other aggregates and rows in state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    Avg,
    Count,
    DataGenSource,
    DataStream,
    JobExecutionError,
    KeyedProcessFunction,
    Sum,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.support.held_source import HeldSource
from tests.support.saved_jobs import Env, local
from tests.support.waiting import eventually

ROWS = 600
KEYS = 5
WITHOUT_SINK: dict[str, Any] = {"execution.state-recovery.ignore-unclaimed-state": True}
"""Results are collected, where the first version printed them."""
RATE = 300
"""Rows per second of the first part, which is stopped and does not end."""


def numbered(env: Env, rate: float | None) -> DataStream:
    """Numbers with a key and a time, all in one window."""
    fields = {
        "key": lambda numbers: numbers % KEYS,
        "n": lambda numbers: numbers,
        "twice": lambda numbers: 2 * numbers,
        "time": lambda numbers: 10 * numbers,
    }
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
    source = DataGenSource(fields, ROWS) if rate is None else HeldSource(fields, ROWS, rate, ROWS // 2)
    return env.from_source(source, strategy, "numbers").uid("numbers")


Program = Callable[[DataStream], DataStream]


def windowed(**aggregates: Any) -> Program:
    return lambda stream: (
        stream.key_by("key").window(TumblingEventTimeWindows.of("20 s")).aggregate(**aggregates).uid("window")
    )


def running(**aggregates: Any) -> Program:
    return lambda stream: stream.key_by("key").aggregate(**aggregates).uid("running")


@pytest.fixture
def saved_by(tmp_path: Path) -> Callable[..., str]:
    def save(program: Program, parallelism: int, **options: Any) -> str:
        env = local(parallelism, **options)
        program(numbered(env, RATE)).print().uid("sink")
        client = env.execute_async("first version")
        try:
            eventually(client.progress, lambda progress: progress.records_in >= 100)
            return client.stop_with_savepoint(str(tmp_path), timeout=30)
        finally:
            client.close()

    return save


@pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 3), (3, 1)])
def test_a_job_goes_on_with_aggregates_that_were_renamed_added_and_dropped(
    saved_by: Callable[..., str], before: int, after: int
) -> None:
    """In two phases, with rows on their way, on as many, more and fewer subtasks."""
    saved = saved_by(windowed(n=Count(), total=Sum("n"), mean=Avg("twice")), before)
    env = local(after, saved, **WITHOUT_SINK)
    now = windowed(sum=Sum("n").renamed_from("total"), rows=Count().renamed_from("n"), new=Count("twice").from_now_on())
    results = [row.as_dict() for row in now(numbered(env, None)).execute_and_collect()]
    whole = {key: range(key, ROWS, KEYS) for key in range(KEYS)}
    assert {row["key"]: (row["rows"], row["sum"]) for row in results} == {
        key: (len(numbers), sum(numbers)) for key, numbers in whole.items()
    }
    assert all(0 < row["new"] < row["rows"] for row in results)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (windowed(n=Count()), windowed(rows=Count()), r"renamed_from\('n'\).*\(its uid is 'window'\)"),
        (running(total=Sum("n")), running(total=Sum("twice")), r"'total' is Sum\('twice'\) now.*its uid is 'running'"),
    ],
    ids=["windows", "running"],
)
def test_a_job_that_does_not_fit_its_savepoint_fails_at_once_and_is_not_restarted(
    saved_by: Callable[..., str], first: Program, second: Program, says: str
) -> None:
    saved = saved_by(first, 2)
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 1_000_000}
    env = local(2, saved, **restarts)
    second(numbered(env, None)).print().uid("sink")
    with pytest.raises(JobExecutionError, match=f"(?s)IncompatibleStateError.*{says}"):
        env.execute()


@dataclass
class Seen:
    rows: int


@dataclass
class SeenLater:
    by: str | None
    rows: int


@dataclass
class SeenInHalves:
    rows: float


for later in (SeenLater, SeenInHalves):
    later.__name__ = later.__qualname__ = "Seen"


class Counting(KeyedProcessFunction):
    """Gives how many rows of the key there were, and whether the first version of it had counted the ones before."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Seen))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        seen = self.seen.value()
        if seen is None:
            seen = Seen(rows=0)
        seen.rows += 1
        self.seen.update(seen)
        yield ctx.get_current_key(), seen.rows, getattr(seen, "by", "") is None


def counting(stream: DataStream) -> DataStream:
    types = Types.TUPLE([Types.LONG(), Types.LONG(), Types.BOOLEAN()])
    return stream.key_by("key").process(Counting(), types).uid("counting")


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_goes_on_with_a_class_that_has_another_field(
    saved_by: Callable[..., str], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"state.backend.type": backend}
    saved = saved_by(counting, 2, **options)
    monkeypatch.setattr(sys.modules[__name__], "Seen", SeenInHalves)
    with pytest.raises(JobExecutionError, match="field 'rows' was int64 and is double now"):
        list(counting(numbered(local(3, saved, **options, **WITHOUT_SINK), None)).execute_and_collect())
    monkeypatch.setattr(sys.modules[__name__], "Seen", SeenLater)
    results = list(counting(numbered(local(3, saved, **options, **WITHOUT_SINK), None)).execute_and_collect())
    assert {key: max(rows for each, rows, _ in results if each == key) for key in range(KEYS)} == dict.fromkeys(
        range(KEYS), ROWS // KEYS
    )
    assert all(is_carried_over for _, _, is_carried_over in results)

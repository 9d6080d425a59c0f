"""Loops in programs: what goes back, when they end, and what they cannot have."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flinkray import (
    CheckpointError,
    Configuration,
    DataStream,
    InvalidProgramError,
    RestartStrategies,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.connectors.feedback.queue import open_queues

MAX_WAIT = "200 ms"


def environment(parallelism: int = 1, **options: Any) -> StreamExecutionEnvironment:
    settings = {"execution.target": "local", "parallelism.default": parallelism, "execution.buffer-timeout.interval": 0}
    settings |= options
    return StreamExecutionEnvironment.get_execution_environment(Configuration(settings))


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as rows:
        return list(rows)


def collatz(row: tuple[int, int, int]) -> tuple[int, int, int]:
    start, value, steps = row
    return start, value // 2 if value % 2 == 0 else 3 * value + 1, steps + 1


def steps_to_one(start: int) -> int:
    row = (start, start, 0)
    while row[1] != 1:
        row = collatz(row)
    return row[2]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_records_go_round_until_they_leave_the_loop(parallelism: int) -> None:
    env = environment(parallelism)
    loop = env.from_sequence(2, 120).map(lambda number: (number, number, 0)).iterate(MAX_WAIT)
    step = loop.map(collatz)
    loop.close_with(step.filter(lambda row: row[1] != 1))
    done = step.filter(lambda row: row[1] == 1).map(lambda row: (row[0], row[2]))
    assert sorted(collected(done)) == [(number, steps_to_one(number)) for number in range(2, 121)]
    assert open_queues() == 0


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_loop_may_be_keyed_inside(parallelism: int) -> None:
    env = environment(parallelism)
    loop = env.from_sequence(1, 60).map(lambda number: (number % 5, number, 3)).iterate(MAX_WAIT)
    step = loop.key_by(lambda row: row[0]).map(lambda row: ((row[0] + 1) % 5, row[1], row[2] - 1))
    loop.close_with(step.filter(lambda row: row[2] > 0))
    done = step.filter(lambda row: row[2] == 0)
    assert Counter(collected(done)) == Counter(((number + 3) % 5, number, 0) for number in range(1, 61))


def test_a_record_may_become_several_in_the_loop() -> None:
    env = environment(2)
    loop = env.from_collection([4]).iterate(MAX_WAIT)
    halves = loop.flat_map(lambda number: [number - 1, number - 1] if number else [])
    loop.close_with(halves)
    assert Counter(collected(halves)) == {3: 2, 2: 4, 1: 8, 0: 16}


def test_what_comes_back_is_not_held_back_by_event_time_and_does_not_hold_it_back() -> None:
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
    rows = [{"key": "a", "time": time, "rounds": 1} for time in range(0, 10_000, 1_000)]
    loop = env.from_collection(rows).assign_timestamps_and_watermarks(strategy).iterate(MAX_WAIT)
    step = loop.map(lambda row: {"key": "a", "time": row["time"], "rounds": row["rounds"] - 1})
    loop.close_with(step.filter(lambda row: row["rounds"] >= 0))
    windows = loop.key_by("key").window(TumblingEventTimeWindows.of("2 s")).reduce(lambda first, _: first)
    assert sorted(row["time"] for row in collected(windows)) == [0, 2_000, 4_000, 6_000, 8_000]


def test_a_loop_begins_again_after_a_failure(tmp_path: Any) -> None:
    marker = tmp_path / "failed"

    def fail_once(number: int) -> int:
        if number == 3 and not marker.exists():
            marker.touch()
            raise ValueError("once")
        return number - 1

    env = environment(2)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 10))
    loop = env.from_sequence(1, 6).iterate(MAX_WAIT)
    step = loop.map(fail_once)
    loop.close_with(step.filter(lambda number: number > 0))
    assert Counter(collected(step.filter(lambda number: number == 0)))[0] >= 6
    assert marker.exists()
    assert open_queues() == 0


def test_a_cancelled_loop_leaves_nothing() -> None:
    env = environment(2)
    loop = env.from_sequence(1, 6).iterate(MAX_WAIT)
    loop.close_with(loop.map(lambda number: number))  # goes round for ever
    client = env.execute_async("for ever")
    client.cancel()
    client.close()
    assert open_queues() == 0


def test_a_loop_that_is_not_closed_is_refused() -> None:
    env = environment()
    env.from_sequence(1, 6).iterate(MAX_WAIT).print()
    with pytest.raises(InvalidProgramError, match=r"nothing goes back into the iteration; call close_with\(feedback\)"):
        env.execute()


def test_only_what_comes_from_the_loop_goes_back_into_it() -> None:
    env = environment()
    numbers = env.from_sequence(1, 6)
    loop = numbers.iterate(MAX_WAIT)
    with pytest.raises(InvalidProgramError, match="does not come from this iteration"):
        loop.close_with(numbers.map(lambda number: number))
    loop.close_with(loop.filter(lambda _: False))
    with pytest.raises(InvalidProgramError, match="the iteration is closed"):
        loop.close_with(loop.filter(lambda _: False))


def test_a_program_with_a_loop_takes_no_checkpoints() -> None:
    env = environment(**{"execution.checkpointing.interval": 100})
    loop = env.from_sequence(1, 6).iterate(MAX_WAIT)
    loop.close_with(loop.filter(lambda _: False))
    with pytest.raises(InvalidProgramError, match="takes no checkpoints"):
        env.execute()


def test_a_savepoint_of_a_loop_is_refused(tmp_path: Any) -> None:
    env = environment()
    loop = env.from_sequence(1, 3).iterate(MAX_WAIT)
    loop.close_with(loop.map(lambda number: number))
    client = env.execute_async("for ever")
    try:
        with pytest.raises(CheckpointError, match="no savepoint is possible: the program has an iteration"):
            client.trigger_savepoint(str(tmp_path))
    finally:
        client.cancel()
        client.close()

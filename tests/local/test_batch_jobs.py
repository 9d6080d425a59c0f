"""Whole jobs in batch mode: the same final results as in streaming, stage by stage, and nothing is left."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from examples import model_scoring, word_count
from flinkray import (
    CheckpointError,
    Count,
    DataStream,
    EventTimeSessionWindows,
    JobExecutionError,
    JobStatus,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessingTimeSessionWindows,
    RescaleError,
    RuntimeContext,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.support.jobs import environment
from tests.support.leftovers import nothing_is_left
from tests.support.random_programs import RandomProgram, collected, final_results
from tests.support.waiting import eventually
from tests.support.whole_jobs import in_order, rows, rows_of

BATCH = {"execution.runtime-mode": "batch"}
SMALL = {**BATCH, "flinkray.batch.sort-memory": 2_000, "flinkray.batch.result-memory": 1_000}
"""Options of so little memory that everything goes through files."""
AT = WatermarkStrategy.for_bounded_out_of_orderness(50).with_timestamp_assigner("at")


@pytest.mark.parametrize("seed", range(8))
def test_a_random_program_gives_the_final_results_of_plain_loops(seed: int) -> None:
    options = SMALL if seed % 2 else BATCH
    program = RandomProgram(seed, "local", {**options, "flinkray.batch.target-rows": [7, 100, 65_536][seed % 3]})
    for name, stream in program.results.items():
        expected = final_results(name, program.expected[name])
        assert collected(stream) == expected, f"{name}: {program.describe()}"


# -- stages


class Recorder(MapFunction):
    """Notes when each of its subtasks opens and closes."""

    events: list[tuple[str, str]] = []  # noqa: RUF012 - of all tasks of the process
    lock = threading.Lock()

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def open(self, runtime_context: RuntimeContext) -> None:
        self._note("open")

    def close(self) -> None:
        self._note("close")

    def map(self, value: Any) -> Any:
        return value

    def _note(self, what: str) -> None:
        with Recorder.lock:
            Recorder.events.append((self._stage, what))


def test_three_stages_of_four_subtasks_run_one_after_another_in_four_slots() -> None:
    Recorder.events.clear()
    env = environment(BATCH, parallelism=4)
    numbers = env.from_sequence(1, 1000).map(Recorder("first"))
    second = numbers.key_by(lambda n: n % 10).map(Recorder("second"))
    third = second.rebalance().map(Recorder("third"))
    third.key_by(lambda n: n % 3).sum().print()
    client = env.execute_async()
    try:
        client.result(timeout=30)
        slots = {subtask.slot for vertex in client.details().vertices for subtask in vertex.subtasks}
    finally:
        client.close()
    assert len(slots) == 4
    stages = [stage for stage, _ in Recorder.events]
    assert stages == ["first"] * 8 + ["second"] * 8 + ["third"] * 8


class FailsOnce(MapFunction):
    """Subtask 0 fails in its first attempt, also where the others have taken all rows by then."""

    attempts: Counter[tuple[str, int]] = Counter()  # noqa: RUF012 - of all tasks of the process

    def __init__(self, stage: str, fails: bool) -> None:
        self._stage = stage
        self._fails = fails

    def open(self, runtime_context: RuntimeContext) -> None:
        subtask, attempt = runtime_context.get_index_of_this_subtask(), runtime_context.get_attempt_number()
        FailsOnce.attempts[self._stage, subtask] += 1
        if self._fails and subtask == 0 and attempt == 0:
            raise ValueError("a bad start, once")

    def map(self, value: Any) -> Any:
        return value


RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 3,
    "restart-strategy.fixed-delay.delay": 1,
}


@pytest.mark.parametrize("failing", ["first", "second"])
def test_a_failure_runs_only_its_own_region_again(failing: str) -> None:
    FailsOnce.attempts.clear()
    env = environment({**SMALL, **RESTARTS}, parallelism=3)
    numbers = env.from_sequence(1, 900).map(FailsOnce("first", failing == "first"))
    stream = numbers.key_by(lambda n: n).map(FailsOnce("second", failing == "second"))
    assert rows(stream) == sorted(range(1, 901), key=repr)
    expected = {(stage, subtask): 1 for stage in ("first", "second") for subtask in range(3)}
    assert FailsOnce.attempts == expected | {(failing, 0): 2}


def test_without_a_restart_strategy_the_first_failure_ends_the_job() -> None:
    env = environment(BATCH)
    with pytest.raises(JobExecutionError, match="a bad start, once"):
        rows(env.from_sequence(1, 10).key_by(lambda n: n).map(FailsOnce("only", True)))


def test_no_thread_batch_memory_or_file_is_left(tmp_path: Path) -> None:
    with nothing_is_left():
        env = environment({**SMALL, "io.tmp.dirs": str(tmp_path)})
        sums = env.from_sequence(1, 5000).map(lambda n: (n % 100, n)).key_by(lambda pair: pair[0]).sum(1)
        assert sum(total for _, total in in_order(sums)) == 5000 * 5001 // 2
        del env, sums
    assert list(tmp_path.iterdir()) == []


def test_a_job_in_batch_mode_takes_no_savepoint_or_checkpoint_and_is_not_rescaled(tmp_path: Path) -> None:
    release = threading.Event()
    _GATES.append(release)
    env = environment(BATCH)
    env.from_sequence(1, 2).map(_wait).print()
    client = env.execute_async()
    try:
        eventually(client.progress, lambda progress: progress.status is JobStatus.RUNNING)
        with pytest.raises(CheckpointError, match="batch mode"):
            client.trigger_savepoint(str(tmp_path), timeout=20)
        with pytest.raises(CheckpointError, match="batch mode"):
            client.trigger_checkpoint(timeout=20)
        with pytest.raises(RescaleError, match="batch mode"):
            client.rescale(1, timeout=20)
    finally:
        release.set()
        client.result(timeout=30)
        client.close()


_GATES: list[threading.Event] = []


def _wait(value: int) -> int:
    _GATES[-1].wait(20)
    return value


# -- the same final results as in streaming


def events(env: StreamExecutionEnvironment, seed: int, count: int = 300) -> DataStream:
    """Rows of (key, value, at); event time out of order by less than 50 ms."""
    chance = random.Random(seed)
    made = [
        {"key": f"k{chance.randrange(8)}", "value": chance.randint(-9, 9), "at": index * 3 + chance.randint(0, 49)}
        for index in range(count)
    ]
    return env.from_collection(made).assign_timestamps_and_watermarks(AT).rebalance()


def in_both_modes(build: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    return tuple(rows(build(environment({**mode, **options}))) for mode in ({}, SMALL))  # type: ignore[return-value]


@pytest.mark.parametrize("target_rows", [10, 65_536])
def test_windows_of_all_kinds_give_the_same(target_rows: int) -> None:
    def tumbling(env: StreamExecutionEnvironment) -> DataStream:
        windows = events(env, 1).key_by("key").window(TumblingEventTimeWindows.of(40))
        return windows.aggregate(n=Count(), total=Sum("value"))

    def sessions(env: StreamExecutionEnvironment) -> DataStream:
        windows = events(env, 2).key_by("key").window(EventTimeSessionWindows.with_gap(7))
        return windows.aggregate(n=Count(), total=Sum("value"))

    def by_row(env: StreamExecutionEnvironment) -> DataStream:
        windows = events(env, 3).key_by("key").window(TumblingEventTimeWindows.of(40))
        return windows.reduce(lambda a, b: {"key": a["key"], "value": a["value"] + b["value"], "at": 0})

    def row_sessions(env: StreamExecutionEnvironment) -> DataStream:
        windows = events(env, 4).key_by("key").window(EventTimeSessionWindows.with_gap(7))
        return windows.reduce(lambda a, b: {"key": a["key"], "value": a["value"] + b["value"], "at": 0})

    for build in (tumbling, sessions, by_row, row_sessions):
        streaming, batch = in_both_modes(build, **{"flinkray.batch.target-rows": target_rows})
        assert batch == streaming, build.__name__
        assert batch


def test_windows_of_processing_time_fire_at_the_end_of_the_input() -> None:
    windows = environment(BATCH).from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(lambda row: row[0])
    far = windows.window(TumblingProcessingTimeWindows.of(3_600_000)).reduce(lambda a, b: (a[0], a[1] + b[1]))
    # One window, or two where the hour ends meanwhile.
    assert sum(value for _, value in rows(far)) == 6


@pytest.mark.parametrize(
    "assigner",
    [TumblingProcessingTimeWindows.of(3_600_000), ProcessingTimeSessionWindows.with_gap(3_600_000)],
)
@pytest.mark.parametrize("is_keyed", [True, False])
def test_aggregates_in_windows_of_processing_time_fire_where_nothing_comes_by_key(
    assigner: Any, is_keyed: bool
) -> None:
    values = environment({**BATCH, "execution.sorted-inputs.enabled": False}).from_collection(["a", "b", "a"])
    if is_keyed:
        counted = values.key_by(lambda value: value).window(assigner).aggregate(n=Count())
    else:
        counted = values.window_all(assigner).aggregate(n=Count())
    assert sum(row.n for row in rows(counted)) == 3


def test_a_window_join_gives_the_same() -> None:
    def joined(env: StreamExecutionEnvironment) -> DataStream:
        pairs = events(env, 5, 120).join(events(env, 6, 120)).where("key").equal_to("key")
        return pairs.window(TumblingEventTimeWindows.of(60)).apply(lambda a, b: (a["key"], a["value"], b["value"]))

    streaming, batch = in_both_modes(joined)
    assert batch == streaming
    assert batch


def test_running_aggregates_give_one_result_per_key() -> None:
    env = environment(SMALL)
    by_key = events(env, 7).map(lambda row: (row["key"], row["value"])).key_by(lambda pair: pair[0])
    found = rows_of(env, {"sum": by_key.sum(1), "max_by": by_key.max_by(1), "reduce": by_key.reduce(_add)})
    values = Counter[str]()
    highest: dict[str, int] = {}
    chance = random.Random(7)
    for _ in range(300):
        key, value, _ = f"k{chance.randrange(8)}", chance.randint(-9, 9), chance.randint(0, 49)
        values[key] += value
        highest[key] = max(value, highest.get(key, -99))
    assert found["sum"] == found["reduce"] == sorted(values.items(), key=repr)
    assert found["max_by"] == sorted(highest.items(), key=repr)


def _add(left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
    return left[0], left[1] + right[1]


def test_a_union_and_side_outputs_give_the_same() -> None:
    late = OutputTag("odd", Types.LONG())

    class Split(KeyedProcessFunction):
        def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            if value % 2:
                yield late, value
            else:
                yield value

    for mode in ({}, SMALL):
        env = environment(mode)
        both = env.from_sequence(1, 50).union(env.from_sequence(30, 80))
        split = both.key_by(lambda n: n % 7).process(Split(), output_type=Types.LONG())
        found = rows_of(env, {"even": split, "odd": split.get_side_output(late)})
        all_values = [*range(1, 51), *range(30, 81)]
        assert found["even"] == sorted((n for n in all_values if n % 2 == 0), key=repr)
        assert found["odd"] == sorted((n for n in all_values if n % 2), key=repr)


# -- keys and timers


class Trace(KeyedProcessFunction):
    """Says what it sees of a key: its rows in order, then its timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.STRING()))

    def process_element(self, value: dict[str, Any], ctx: KeyedProcessFunction.Context) -> None:
        assert ctx.timer_service().current_watermark() < 0
        self._seen.update(f"{self._seen.value() or ''} {value['at']}")
        ctx.timer_service().register_event_time_timer(value["at"] + 1_000_000)
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 3_600_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[str]:
        ctx.timer_service().register_event_time_timer(timestamp + 1)  # for ever, where that was not ignored
        ctx.timer_service().register_processing_time_timer(timestamp + 1)
        is_event_time = str(ctx.time_domain()).endswith("EVENT_TIME") or ctx.time_domain() == 0
        yield f"{ctx.get_current_key()}:{self._seen.value()} {'event' if is_event_time else 'clock'}"


def test_a_key_has_its_rows_in_order_of_time_then_all_its_timers() -> None:
    env = environment({**SMALL, "flinkray.batch.target-rows": 5})
    stamped = [{"key": key, "at": at} for key, at in [("a", 3), ("b", 9), ("a", 1), ("a", 2), ("b", 4)]]
    stream = env.from_collection(stamped).assign_timestamps_and_watermarks(AT)
    traces = rows(stream.key_by("key").process(Trace(), output_type=Types.STRING()))
    events_and_clocks = Counter((trace.rpartition(" ")[0]) for trace in traces)
    assert set(events_and_clocks) == {"a: 1 2 3", "b: 4 9"}
    # Three event-time timers of a and two of b; of clock timers as many, or fewer where two have the same time.
    assert Counter(trace for trace in traces if trace.endswith("event")) == {
        "a: 1 2 3 event": 3,
        "b: 4 9 event": 2,
    }
    assert {trace for trace in traces if trace.endswith("clock")} == {"a: 1 2 3 clock", "b: 4 9 clock"}


class Sequence(KeyedCoProcessFunction):
    """Says in which order the rows of a key come from its two inputs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.STRING()))

    def _note(self, value: dict[str, Any], ctx: KeyedCoProcessFunction.Context, side: str) -> None:
        self._seen.update((self._seen.value() or "") + f"{side}{value['at']} ")
        ctx.timer_service().register_event_time_timer(1 << 40)

    def process_element1(self, value: dict[str, Any], ctx: KeyedCoProcessFunction.Context) -> None:
        self._note(value, ctx, "l")

    def process_element2(self, value: dict[str, Any], ctx: KeyedCoProcessFunction.Context) -> None:
        self._note(value, ctx, "r")

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[str]:
        yield f"{ctx.get_current_key()}: {self._seen.value()}"


def test_two_inputs_come_together_by_key_and_time() -> None:
    env = environment({**SMALL, "flinkray.batch.target-rows": 4})
    left = env.from_collection([{"key": k, "at": t} for k in "ab" for t in (6, 2, 4)]).assign_timestamps_and_watermarks(
        AT
    )
    right = env.from_collection([{"key": k, "at": t} for k in "ab" for t in (5, 1)]).assign_timestamps_and_watermarks(
        AT
    )
    both = left.key_by("key").connect(right.key_by("key")).process(Sequence(), output_type=Types.STRING())
    assert rows(both) == ["a: r1 l2 l4 r5 l6 ", "b: r1 l2 l4 r5 l6 "]


def test_the_word_count_of_the_examples_gives_each_word_once() -> None:
    lines = environment(BATCH).from_collection(word_count.HAMLET.splitlines())
    counts = in_order(word_count.count(lines))
    assert len(counts) == len(dict(counts))
    assert word_count.top(dict(counts), 3) == [("to", 13), ("the", 6), ("and", 4)]


def test_the_daily_windows_of_the_examples_are_the_same() -> None:
    streaming, batch = (model_scoring.daily_forecasts(environment(mode)).to_pandas() for mode in ({}, BATCH))
    order = list(streaming.columns)
    streaming, batch = (frame.sort_values(order, ignore_index=True) for frame in (streaming, batch))
    pd.testing.assert_frame_equal(streaming, batch)

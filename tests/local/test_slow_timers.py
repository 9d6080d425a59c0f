"""Many timers and windows that one watermark fires, of functions that take long: barriers come between them, and the
job is cancelled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from flinkray import (
    DataGenSource,
    DataStream,
    DiscardSink,
    FileSink,
    JobClient,
    JobStatus,
    KeyedProcessFunction,
    ProcessWindowFunction,
    SequenceField,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from tests.support.saved_jobs import committed
from tests.support.waiting import eventually

KEYS = 300
CALL_S = 0.008
"""What one timer or window takes: all of one watermark take more than two seconds."""
LONGEST_MS = 3_000


def wait(call_s: float) -> None:
    threading.Event().wait(call_s)


class Timers(KeyedProcessFunction):
    def __init__(self, call_s: float) -> None:
        self.call_s = call_s

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(KEYS - 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        wait(self.call_s)
        yield {"n": ctx.get_current_key()}


class ClockTimers(Timers):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_processing_time_timer(0)


class Windows(ProcessWindowFunction):
    def __init__(self, call_s: float) -> None:
        self.call_s = call_s

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        wait(self.call_s)
        yield {"n": key}


def timers(rows: DataStream, call_s: float) -> DataStream:
    return rows.key_by("n").process(Timers(call_s))


def timers_of_the_clock(rows: DataStream, call_s: float) -> DataStream:
    return rows.key_by("n").process(ClockTimers(call_s))


def windows(rows: DataStream, call_s: float) -> DataStream:
    return rows.key_by("n").window(TumblingEventTimeWindows.of(KEYS)).process(Windows(call_s))


def folding_windows(rows: DataStream, call_s: float) -> DataStream:
    windowed = rows.key_by("n").window(TumblingEventTimeWindows.of(KEYS))
    return windowed.reduce(lambda left, _: left, Windows(call_s))


def numbers(env: StreamExecutionEnvironment, count: int | None) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
    return env.from_source(
        DataGenSource({"n": SequenceField()}, rows=count, rows_per_second=2_000), strategy, "numbers"
    ).uid("numbers")


def environment(options: dict[str, Any]) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local", **options})
    env.set_parallelism(1)
    env.enable_checkpointing("300 ms")
    return env


PROGRAMS = [timers, timers_of_the_clock, windows, folding_windows]


def at_once(check: Callable[[Any], None], programs: Sequence[Any]) -> None:
    """Their jobs wait for most of their time."""
    with ThreadPoolExecutor(len(programs)) as pool:
        for checked in [pool.submit(check, program) for program in programs]:
            checked.result()


def test_checkpoints_complete_and_the_job_is_cancelled_while_functions_are_called() -> None:
    def check(program: Any) -> None:
        env = environment({"execution.checkpointing.unaligned.enabled": True})
        program(numbers(env, None), CALL_S).sink_to(DiscardSink())
        client = env.execute_async(program.__name__)
        try:
            # Some have fired, and there are many more by then.
            before = eventually(client.checkpoints, lambda seen: seen.counts.completed >= 1, deadline_s=60).counts
            enough = before.completed + 4
            overview = eventually(client.checkpoints, lambda seen: seen.counts.completed >= enough, deadline_s=60)
            took = [each.duration_ms for each in overview.history if each.duration_ms is not None]
            assert max(took) <= LONGEST_MS, (program.__name__, took)
            begun = time.monotonic()
            client.cancel()
            eventually(client.status, lambda status: status is JobStatus.CANCELED, 60)
            assert time.monotonic() - begun < LONGEST_MS / 1_000, program.__name__
        finally:
            client.close()

    at_once(check, PROGRAMS)


def test_an_aligned_barrier_behind_the_watermark_comes_between_too(tmp_path: Path) -> None:
    """At the end of all rows there are none between the watermark and the barrier. What has not fired in the savepoint
    fires in the job that goes on from it, and nothing twice."""

    def started(options: dict[str, Any], program: Any, call_s: float) -> JobClient:
        env = environment(options)
        rows = FileSink(tmp_path / program.__name__)
        program(numbers(env, KEYS), call_s).uid("functions").sink_to(rows).uid("files")
        return env.execute_async(program.__name__)

    def check(program: Any) -> None:
        client = started({}, program, 0.1)  # all would take half a minute
        try:
            eventually(client.progress, lambda seen: seen.records_out >= 20, deadline_s=60)
            saved = client.stop_with_savepoint(str(tmp_path / "saved"), timeout=60)
        finally:
            client.close()
        first = committed(tmp_path / program.__name__)
        assert 0 < len(first) < KEYS, program.__name__
        client = started({"execution.state-recovery.path": saved}, program, 0)
        try:
            client.result(timeout=60)
        finally:
            client.close()
        assert committed(tmp_path / program.__name__) == Counter((n,) for n in range(KEYS))

    at_once(check, [timers, windows, folding_windows])

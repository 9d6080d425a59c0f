"""Whole jobs whose functions wait: order, time, failures, checkpoints, back pressure, and nothing left behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flinkray import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CollectSink,
    DataGenSource,
    DataStream,
    FileSink,
    JobExecutionError,
    JobStatus,
    RestartStrategies,
    SequenceField,
    StreamExecutionEnvironment,
    Sum,
    Time,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.batches.row_codec import decode
from tests.support.api import DEADLINE
from tests.support.held_source import HeldSource
from tests.support.leftovers import nothing_is_left
from tests.support.saved_jobs import committed, local
from tests.support.waiting import eventually

Env = StreamExecutionEnvironment


def results(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as rows:
        return list(rows)


class Doubled(AsyncFunction):
    """Takes turns with the others on the loop, more of them for some rows."""

    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.client = asyncio.Lock()  # belongs to the loop

    async def async_invoke(self, value: int) -> list[int]:
        for _ in range(value % 7):
            await asyncio.sleep(0)
        async with self.client:
            return [value * 2] * (value % 3)

    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)


EXPECTED = [value * 2 for value in range(3_000) for _ in range(value % 3)]


def test_coroutines_give_their_results_in_the_order_of_the_rows() -> None:
    with nothing_is_left():
        numbers = local(1).from_sequence(0, 2_999)
        assert results(AsyncDataStream.ordered_wait(numbers, Doubled(), Time.seconds(20), 50)) == EXPECTED


def test_coroutines_give_their_results_as_they_come() -> None:
    numbers = local(2).from_sequence(0, 2_999)
    found = results(AsyncDataStream.unordered_wait(numbers, Doubled(), Time.seconds(20), 50))
    assert Counter(found) == Counter(EXPECTED)


def waiting(value: int) -> int:
    threading.Event().wait(value % 5 / 2_000)
    return value + 1


@pytest.mark.parametrize("ordered", [True, False])
def test_functions_that_block_are_called_by_several_threads(ordered: bool) -> None:
    with nothing_is_left():
        found = results(local(1).from_sequence(0, 499).async_map(waiting, 20, "20 s", ordered))
        assert (found if ordered else sorted(found)) == list(range(1, 501))


def test_windows_behind_unordered_results_get_all_rows_before_their_watermark() -> None:
    env = local(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
    rows = env.from_source(DataGenSource({"n": SequenceField()}, rows=2_000), strategy, "numbers")

    async def with_key(row: Any) -> Any:
        for _ in range(row.n % 5):
            await asyncio.sleep(0)
        return {"key": row.n % 3, "n": row.n}

    mapped = rows.async_map(with_key, 30, "20 s", ordered=False)
    windows = mapped.key_by("key").window(TumblingEventTimeWindows.of(100)).aggregate(total=Sum("n"))
    found = Counter((row.key, row.window_start, row.total) for row in results(windows))
    expected: Counter[tuple[int, int]] = Counter()
    for n in range(2_000):
        expected[n % 3, n // 100 * 100] += n
    assert found == Counter((key, start, total) for (key, start), total in expected.items())


# -- failures ----------------------------------------------------------------------------------------------------


class Forever(AsyncFunction):
    """An AsyncFunction that has no result for some rows."""

    async def async_invoke(self, value: int) -> list[int]:
        if value % 10 == 3:
            await asyncio.Event().wait()
        return [value]


class OrMinus(Forever):
    def timeout(self, value: int) -> list[int]:
        return [-value]


def test_a_row_that_takes_too_long_fails_the_job_by_its_name() -> None:
    numbers = local(1).from_sequence(0, 9)
    with nothing_is_left(), pytest.raises(JobExecutionError, match=r"no result within 50 ms.*the value was 3"):
        results(AsyncDataStream.ordered_wait(numbers, Forever(), Time.milliseconds(50)).name("lookup"))


def test_a_row_that_takes_too_long_has_the_results_of_timeout() -> None:
    numbers = local(1).from_sequence(0, 99)
    found = results(AsyncDataStream.ordered_wait(numbers, OrMinus(), Time.milliseconds(100)))
    assert found == [-value if value % 10 == 3 else value for value in range(100)]


@pytest.mark.parametrize("kind", ["coroutine", "blocking"])
def test_an_error_fails_the_job_and_shows_the_users_line(kind: str) -> None:
    async def coroutine(value: int) -> int:
        return 1 // (value - 5)  # the line

    def blocking(value: int) -> int:
        return 1 // (value - 5)  # the line

    function: Any = coroutine if kind == "coroutine" else blocking
    with pytest.raises(JobExecutionError) as caught:
        results(local(1).from_sequence(0, 99).async_map(function))
    assert "ZeroDivisionError" in str(caught.value)
    assert "the value was 5" in str(caught.value)
    assert "# the line" in str(caught.value)


class Shaky(AsyncFunction):
    """Fails at first."""

    def open(self, runtime_context: Any) -> None:
        self.attempts: Counter[int] = Counter()

    async def async_invoke(self, value: int) -> list[int]:
        self.attempts[value] += 1
        if self.attempts[value] <= value % 4:
            raise ConnectionError(value)
        return [value, self.attempts[value]]


def test_calls_that_fail_are_made_again() -> None:
    retry = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, ConnectionError))
    numbers = local(1).from_sequence(0, 199)
    found = results(AsyncDataStream.ordered_wait_with_retry(numbers, Shaky(), Time.seconds(20), retry, 30))
    assert found == [each for value in range(200) for each in (value, value % 4 + 1)]


# -- ending ------------------------------------------------------------------------------------------------------


class Gate:
    """Lets nobody through until it is opened; counts those that wait."""

    opened: ClassVar[threading.Event] = threading.Event()
    arrived: ClassVar[list[int]] = []

    @classmethod
    def pass_through(cls, value: int) -> int:
        cls.arrived.append(value)
        cls.opened.wait(DEADLINE)
        return value

    @classmethod
    async def pass_on_the_loop(cls, value: int) -> int:
        cls.arrived.append(value)
        while not cls.opened.is_set():
            await asyncio.sleep(0.005)
        return value


def pass_through(value: int) -> int:
    from tests.local.test_async_jobs import Gate as Shared  # not a copy that travelled by value

    return Shared.pass_through(value)


async def pass_on_the_loop(value: int) -> int:
    from tests.local.test_async_jobs import Gate as Shared

    return await Shared.pass_on_the_loop(value)


@pytest.fixture(autouse=True)
def gate() -> Iterator[type[Gate]]:
    Gate.opened.clear()
    Gate.arrived.clear()
    yield Gate
    Gate.opened.set()


@pytest.mark.parametrize("function", [pass_through, pass_on_the_loop])
def test_a_job_is_cancelled_while_its_calls_wait(function: Any, gate: type[Gate]) -> None:
    with nothing_is_left():
        env = local(1)
        env.from_sequence(0, 99).async_map(function, 4, timeout=0).sink_to(CollectSink("rows"))
        client = env.execute_async()
        eventually(lambda: len(gate.arrived), lambda arrived: arrived == 4)
        begun = time.monotonic()
        client.cancel()
        eventually(client.status, lambda status: status is JobStatus.CANCELED, DEADLINE)
        assert time.monotonic() - begun < 10
        gate.opened.set()  # what blocks cannot be ended by anybody else
        client.close()


def test_a_full_queue_holds_back_the_source(gate: type[Gate]) -> None:
    env = local(1)
    source = env.from_source(
        DataGenSource({"n": SequenceField()}, rows=5_000), WatermarkStrategy.no_watermarks(), "numbers"
    )
    source.map(lambda row: row.n).async_map(pass_on_the_loop, 10, timeout=0).sink_to(CollectSink("rows"))
    client = env.execute_async()
    try:
        eventually(lambda: len(gate.arrived), lambda arrived: arrived == 10)
        pause = threading.Event()

        def read_between_two_looks() -> int:
            first = client.progress().records_in
            pause.wait(0.2)
            return client.progress().records_in - first

        eventually(read_between_two_looks, lambda read: read == 0)
        assert client.progress().records_in < 3_000  # it has come to rest far from the end
        assert len(gate.arrived) == 10
        gate.opened.set()
        assert [row for batch in client.collected("rows") for row in decode(batch)] == list(range(5_000))
    finally:
        client.close()


def test_a_slow_stream_is_not_delayed(gate: type[Gate]) -> None:
    """Each result goes out when it is there, though its batch and its queue are far from full."""
    env = local(1)
    env.from_sequence(0, 9).async_map(only_first_passes, 100, timeout=0, ordered=False).sink_to(CollectSink("rows"))
    client = env.execute_async()
    try:
        first = next(client.collected("rows"))
        assert decode(first) == [0]
        eventually(lambda: len(gate.arrived), lambda arrived: arrived == 9)
    finally:
        client.cancel()
        client.close()


async def only_first_passes(value: int) -> int:
    return value if value == 0 else await pass_on_the_loop(value)


# -- checkpoints -------------------------------------------------------------------------------------------------

ROWS = 1_000


def lookups(
    env: Env, directory: Path, function: AsyncFunction, rate: float, *, is_ordered: bool, is_stopped: bool = False
) -> None:
    """
    Args:
        is_stopped: in the middle of its rows, of which the others do not come.
    """
    numbers = DataGenSource({"n": SequenceField()}, rows=ROWS, rows_per_second=rate)
    if is_stopped:
        numbers = HeldSource({"n": SequenceField()}, ROWS, rate, ROWS // 2)
    rows = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    wait = AsyncDataStream.ordered_wait if is_ordered else AsyncDataStream.unordered_wait
    wait(rows, function, Time.seconds(20), 40).uid("lookups").sink_to(FileSink(directory)).uid("files")


class Looked(AsyncFunction):
    """Takes its time, so that rows are always under way; fails at a row, unless it has before."""

    def __init__(self, marker: Path | None = None) -> None:
        self.marker = marker

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(value.n % 7 / 200)
        if self.marker is not None and value.n == 500 and not self.marker.exists():
            self.marker.touch()
            raise ValueError("bad, this once")
        return [{"n": value.n, "looked": value.n * 2}]


def check_each_row_once(directory: Path) -> None:
    assert committed(directory) == Counter((n, n * 2) for n in range(ROWS))


@pytest.mark.parametrize("is_ordered", [True, False])
def test_after_a_failure_rows_that_were_under_way_are_looked_up_again(tmp_path: Path, is_ordered: bool) -> None:
    env = local(2)
    env.enable_checkpointing("60 ms")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, "10 ms"))
    lookups(env, tmp_path / "rows", Looked(tmp_path / "failed"), 3_000, is_ordered=is_ordered)
    client = env.execute_async()
    try:
        client.result(timeout=60)
        overview = client.checkpoints()
    finally:
        client.close()
    assert (tmp_path / "failed").exists()
    assert overview.counts.completed >= 1
    check_each_row_once(tmp_path / "rows")


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_job_that_was_stopped_with_rows_under_way_goes_on_with_more_subtasks(
    tmp_path: Path, is_ordered: bool
) -> None:
    env = local(2)
    env.enable_checkpointing("1 h")
    lookups(env, tmp_path / "rows", Looked(), 1_500, is_ordered=is_ordered, is_stopped=True)
    client = env.execute_async()
    try:
        eventually(client.progress, lambda progress: progress.records_out > 200)
        saved = client.stop_with_savepoint(str(tmp_path / "saved"), timeout=30)
    finally:
        client.close()
    assert 0 < committed(tmp_path / "rows").total() < ROWS

    env = local(3, saved)
    env.enable_checkpointing("1 h")
    lookups(env, tmp_path / "rows", Looked(), 1_000_000, is_ordered=is_ordered)
    env.execute()
    check_each_row_once(tmp_path / "rows")


def test_a_checkpoint_need_not_wait_for_calls_that_do_not_come_back(gate: type[Gate]) -> None:
    """The rows under way, and those that wait for a place, are part of it as they came."""
    env = local(1, **{"execution.checkpointing.unaligned.enabled": True})
    env.enable_checkpointing("30 ms")
    numbers = env.from_source(
        DataGenSource({"n": SequenceField()}, rows_per_second=5_000), WatermarkStrategy.no_watermarks(), "numbers"
    )
    looked_up = numbers.map(lambda row: row.n).async_map(pass_on_the_loop, 3, timeout=0)
    looked_up.sink_to(CollectSink("rows"))
    client = env.execute_async()
    try:
        eventually(lambda: len(gate.arrived), lambda arrived: arrived == 3)
        eventually(client.checkpoints, lambda overview: overview.counts.completed >= 3)
        assert gate.arrived == [0, 1, 2]
        saved = eventually(client.checkpoints).latest_completed
        assert saved is not None
        assert saved.in_flight_bytes > 0
        gate.opened.set()
        assert decode(next(client.collected("rows")))[:1] == [0]
    finally:
        client.cancel()
        client.close()


def test_a_job_that_is_drained_waits_for_the_results_of_all_rows_that_it_has_read(tmp_path: Path) -> None:
    env = local(2)
    env.enable_checkpointing("1 h")
    lookups(env, tmp_path / "rows", Looked(), 1_500, is_ordered=False, is_stopped=True)
    client = env.execute_async()
    try:
        eventually(client.progress, lambda progress: progress.records_out > 100)
        client.stop_with_savepoint(str(tmp_path / "saved"), drain=True, timeout=30)
        read = client.progress().records_in
    finally:
        client.close()
    found = committed(tmp_path / "rows")
    assert 100 < found.total() < ROWS
    assert set(found.values()) == {1}
    assert found.total() <= read


def test_a_program_of_pyflink_waits_as_it_does_there() -> None:
    from flinkray.pyflink.common import Configuration, Row, Types
    from flinkray.pyflink.common import Time as PyFlinkTime
    from flinkray.pyflink.datastream import AsyncDataStream as PyFlinkAsyncDataStream
    from flinkray.pyflink.datastream import AsyncFunction as PyFlinkAsyncFunction
    from flinkray.pyflink.datastream import AsyncRetryStrategy as PyFlinkAsyncRetryStrategy
    from flinkray.pyflink.datastream import StreamExecutionEnvironment as PyFlinkEnvironment
    from flinkray.pyflink.datastream.async_retry_predicates import empty_result_predicate

    class Added(PyFlinkAsyncFunction):
        def open(self, runtime_context: Any) -> None:
            self.attempts: Counter[int] = Counter()

        async def async_invoke(self, value: Any) -> list[Any]:
            self.attempts[value[0]] += 1
            return [value[0] + value[1]] if self.attempts[value[0]] > 1 else []

    env = PyFlinkEnvironment.get_execution_environment(Configuration().set_string("execution.target", "local"))
    types = Types.ROW([Types.LONG(), Types.LONG()])
    rows = env.from_collection([Row(1, 2), Row(3, 4), Row(5, 6)], types)
    retry = PyFlinkAsyncRetryStrategy.exponential_backoff(3, 1, 100, 2.0, empty_result_predicate, None)
    added = PyFlinkAsyncDataStream.ordered_wait_with_retry(
        rows, Added(), PyFlinkTime.seconds(20), retry, 2, Types.LONG()
    )
    with added.execute_and_collect() as found:
        assert list(found) == [3, 7, 11]

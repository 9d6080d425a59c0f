"""Many jobs on real threads: whatever their end, they give the right rows or the right error, and leave nothing."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from actors.hosts.local import LocalHost
from flinkray import DataGenSource, JobExecutionError, MapFunction, SequenceField, WatermarkStrategy
from flinkray.errors import JobCanceledError, UserFunctionError
from tests.support.jobs import environment
from tests.support.leftovers import nothing_is_left
from tests.support.random_endings import EndlessJob, still_open
from tests.support.random_programs import RandomProgram, collected
from tests.support.waiting import eventually

DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    with nothing_is_left():
        yield
    assert still_open() == {}, "functions, writers and sources are closed as often as they were opened"


def run_to_its_end(seed: int) -> None:
    program = RandomProgram(seed, "local")
    for name, stream in program.results.items():
        assert collected(stream) == program.expected[name], f"{name}: {program.describe()}"


def cancel_at_a_random_moment(seed: int) -> None:
    job = EndlessJob(seed)
    client = job.environment.execute_async()
    try:
        threading.Event().wait(job.moment_s())
        client.cancel()
        with pytest.raises(JobCanceledError):
            client.result(timeout=DEADLINE_S)
    finally:
        client.close()


def close_at_a_random_moment(seed: int) -> None:
    job = EndlessJob(seed)
    client = job.environment.execute_async()
    threading.Event().wait(job.moment_s())
    client.close()


def fail_at_a_random_row(seed: int) -> None:
    job = EndlessJob(seed, fails=True)
    client = job.environment.execute_async()
    try:
        with pytest.raises(JobExecutionError) as caught:
            client.result(timeout=DEADLINE_S)
    finally:
        client.close()
    # Not what the other tasks complain about once this one is gone.
    assert isinstance(caught.value.__cause__, UserFunctionError), f"{job}: {caught.value}"
    assert "Boom" in str(caught.value), job


@pytest.mark.parametrize("seed", range(100, 103))
def test_a_random_program_gives_what_plain_loops_give(seed: int) -> None:
    run_to_its_end(seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_is_cancelled_at_any_moment_stops_and_closes_everything(seed: int) -> None:
    cancel_at_a_random_moment(seed)


@pytest.mark.parametrize("seed", range(100, 103))
def test_a_client_that_is_closed_at_any_moment_takes_its_job_with_it(seed: int) -> None:
    close_at_a_random_moment(seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_fails_at_any_row_names_the_users_error_and_closes_everything(seed: int) -> None:
    fail_at_a_random_row(seed)


has_come, may_go_on = threading.Event(), threading.Event()


class LastOnesWait(MapFunction):
    """Takes so many of its fifty rows that there is room for the others, which come to it."""

    def __init__(self) -> None:
        self.rows = 0

    def map(self, value: int) -> int:
        has_come.set()
        self.rows += 1
        assert self.rows <= 30 or may_go_on.wait(DEADLINE_S)
        return value


def test_a_slot_that_is_given_back_while_its_job_goes_on_takes_no_rows_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = LocalHost()
    monkeypatch.setattr("actors.hosts.local.LocalHost", lambda: host)
    env = environment({"slot.idle.timeout": 1, "flinkray.batch.target-rows": 10})
    first = env.from_sequence(1, 100).slot_sharing_group("first").rebalance()
    relay = first.map(lambda x: x).slot_sharing_group("relay").rebalance()
    slow = relay.map(LastOnesWait()).slot_sharing_group("slow")
    has_come.clear()
    may_go_on.clear()
    with slow.execute_and_collect() as rows:
        assert has_come.wait(DEADLINE_S), "all have their slots from here on"
        # The first two slots go once the relay has read all; the relay's stay for the slow ones.
        eventually(lambda: sum("/slot-" in address for address in host.addresses()), lambda slots: slots == 4)
        may_go_on.set()
        assert sorted(rows) == list(range(1, 101))


dropped = threading.Event()
collected_after_s: list[float] = []


def collect_garbage_once(value: int) -> int:
    """Runs in a task's thread."""
    if dropped.is_set() and not collected_after_s:
        begun = time.monotonic()
        gc.collect()
        collected_after_s.append(time.monotonic() - begun)
    return value


def test_rows_that_the_garbage_collector_drops_in_a_thread_of_their_job_do_not_make_it_wait_for_its_own_end() -> None:
    numbers = DataGenSource({"n": SequenceField()}, rows_per_second=1000)
    stream = environment().from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").map(lambda row: row.n)
    gc.disable()
    try:
        rows = stream.map(collect_garbage_once).execute_and_collect()
        next(rows)
        rows.itself = rows  # a cycle, as the traceback of an error makes one
        del rows
        dropped.set()
        assert eventually(lambda: collected_after_s)[0] < 10
    finally:
        gc.enable()


@pytest.mark.parametrize("round_", range(2))
def test_jobs_of_one_process_do_not_disturb_each_other(round_: int) -> None:
    endings: list[Callable[[int], None]] = [
        run_to_its_end,
        cancel_at_a_random_moment,
        fail_at_a_random_row,
        close_at_a_random_moment,
    ]
    with ThreadPoolExecutor(len(endings)) as threads:
        running = [threads.submit(ending, 1000 * round_ + seed) for seed in range(2) for ending in endings]
        for each in running:
            each.result(timeout=DEADLINE_S)

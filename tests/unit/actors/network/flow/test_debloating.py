"""How many rows the buffers to a task should have."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from actors.network.flow.debloating import BUFFER_MS, FIRST_ROWS, BufferDebloater, debloater, first_buffer_rows
from actors.operators.contract.held_rows import HeldRows
from flinkray.config.configuration import Configuration

MOST = 10_000


def after(pieces: int, wait_ms: Callable[[int], float], quick_rows: int = 1 << 20) -> list[int]:
    """What buffers should have after each of so many; those behind have the task wait `wait_ms(rows)` for one."""
    waited = [0.0]
    sizes = BufferDebloater(FIRST_ROWS, MOST, lambda: waited[0])
    seen = []
    for _ in range(pieces):
        rows = sizes.rows
        waited[0] += wait_ms(rows)
        has_changed = sizes.passed(rows, quick_rows)
        assert has_changed == (sizes.rows != rows)
        seen.append(sizes.rows)
    return seen


def test_buffers_begin_small_and_have_what_goes_through_at_a_time() -> None:
    assert after(3, lambda _: 0.0) == [MOST] * 3
    assert after(3, lambda _: 0.0, quick_rows=300) == [256] * 3
    assert after(3, lambda _: 0.0, quick_rows=1) == [1] * 3


@pytest.mark.parametrize("row_ms", [0.03, 0.5, 2, 40])
def test_a_task_that_waits_for_others_takes_what_these_take_in_a_tenth_of_a_second(row_ms: float) -> None:
    for rows in after(200, lambda rows: rows * row_ms)[-50:]:
        assert 50 <= rows * row_ms <= 100


def test_a_row_of_which_each_is_waited_for_comes_alone() -> None:
    assert after(20, lambda rows: rows * 3_000.0)[-10:] == [1] * 10


def test_waiting_in_lumps_is_waiting_all_the_same() -> None:
    buffers = itertools.count()
    sizes = after(1_000, lambda rows: 0.0 if next(buffers) % 12 else 12.0 * rows)  # a millisecond for each
    assert set(sizes[-500:]) <= {32, 64, 128}


def test_who_does_not_wait_any_more_has_large_buffers_again() -> None:
    passed = iter(range(1_000))
    sizes = after(300, lambda rows: 2.0 * rows if next(passed) < 100 else 0.0)
    assert sizes[99] == 32
    assert sizes[-1] == MOST


class Calls:
    """A task that takes rows at once, and makes as many calls at a time as it has capacity for. It takes buffers while
    no row waits, and then lets time pass until one ends."""

    def __init__(self, capacity: int, call_ms: Callable[[int], float]) -> None:
        self.now_ms = 0.0
        self.held = HeldRows(lambda: self.now_ms)
        self.sizes = BufferDebloater(FIRST_ROWS, MOST, lambda: 0.0, self.held)
        self.seen: list[int] = []
        """What buffers should have after each."""
        self._capacity = capacity
        self._call_ms = call_ms
        self._calls = itertools.count()
        self._ends: list[float] = []
        self._waiting = 0

    def take_buffers(self, count: int, every_ms: float = 0.0) -> None:
        for _ in range(count):
            self._until(self.now_ms + every_ms)
            while self._waiting:
                self._until(min(self._ends))
            rows = self.sizes.rows
            self._waiting += rows
            self._begin()
            self.sizes.passed(rows, 1 << 20)  # they are taken quickly
            self.seen.append(self.sizes.rows)

    def _until(self, now_ms: float) -> None:
        self.now_ms = now_ms
        self._ends = [end for end in self._ends if end > now_ms]
        self._begin()

    def _begin(self) -> None:
        room = min(self._waiting, self._capacity - len(self._ends))
        self._ends += [self.now_ms + self._call_ms(next(self._calls)) for _ in range(room)]
        self._waiting -= room
        self.held.set(len(self._ends) + self._waiting)


@pytest.mark.parametrize(("capacity", "call_ms"), [(10, 100), (10, 1_000), (100, 1_000), (1_000, 100), (1_000, 5_000)])
def test_buffers_have_what_leaves_an_operator_and_not_what_it_takes(capacity: int, call_ms: float) -> None:
    calls = Calls(capacity, lambda _: call_ms)
    leave_in_time = max(1.0, BUFFER_MS * capacity / call_ms)
    calls.take_buffers(600)
    assert max(calls.seen) <= max(FIRST_ROWS, 2 * leave_in_time)
    assert min(calls.seen[-50:]) >= leave_in_time / 4


def test_rows_that_leave_an_operator_all_at_once_do_not_make_buffers_large() -> None:
    calls = Calls(1_000, lambda call: 5.0 if call % 100 == 0 else 1_000.0)  # a hundred rows in a tenth of a second
    calls.take_buffers(2_000)
    assert max(calls.seen) <= 256


def test_a_slow_stream_of_rows_says_nothing_about_how_many_may_come_at_once() -> None:
    calls = Calls(10, lambda _: 100.0)
    calls.take_buffers(200, every_ms=200.0)  # for which there is always room
    assert max(calls.seen) <= FIRST_ROWS * 4
    calls.take_buffers(100)
    assert max(calls.seen) <= FIRST_ROWS * 4


def test_who_holds_rows_for_a_moment_only_has_full_buffers() -> None:
    calls = Calls(10_000, lambda _: 0.01)
    calls.take_buffers(100, every_ms=0.1)
    assert calls.seen[-1] == MOST


def test_without_debloating_and_in_batch_mode_buffers_are_full() -> None:
    settings = {"flinkray.batch.target-rows": 5_000}
    assert first_buffer_rows(Configuration(settings)) == FIRST_ROWS
    assert first_buffer_rows(Configuration({"flinkray.batch.target-rows": 3})) == 3
    for off in ({"taskmanager.network.memory.buffer-debloat.enabled": False}, {"execution.runtime-mode": "batch"}):
        configuration = Configuration(settings | off)
        assert first_buffer_rows(configuration) == 5_000
        assert debloater(configuration, lambda: 0.0) is None

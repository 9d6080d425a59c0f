"""How many rows the buffers to a task should have."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from actors.network.flow.debloating import FIRST_ROWS, BufferDebloater, debloater, first_buffer_rows
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


def test_without_debloating_and_in_batch_mode_buffers_are_full() -> None:
    settings = {"flinkray.batch.target-rows": 5_000}
    assert first_buffer_rows(Configuration(settings)) == FIRST_ROWS
    assert first_buffer_rows(Configuration({"flinkray.batch.target-rows": 3})) == 3
    for off in ({"taskmanager.network.memory.buffer-debloat.enabled": False}, {"execution.runtime-mode": "batch"}):
        configuration = Configuration(settings | off)
        assert first_buffer_rows(configuration) == 5_000
        assert debloater(configuration, lambda: 0.0) is None

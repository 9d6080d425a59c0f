"""How many rows go through a chain of operators at a time."""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Callable

import pyarrow as pa
import pytest

from actors.operators.contract.chunking import (
    FIRST_SIZE,
    LONGEST_MS,
    TARGET_MS,
    ChunkCost,
    ChunkLimit,
    ChunkSizer,
    rows_of_size,
)
from flinkray.batches.batch import Batch
from flinkray.types.records import Kind

BATCH = 131_072


def pieces(took_ms: Callable[[int], float], count: int, pace: ChunkSizer | None = None) -> list[int]:
    """The sizes of so many pieces of large batches, of which one of n rows takes `took_ms(n)`."""
    pace = pace or ChunkSizer()
    sizes = []
    for _ in range(count):
        sizes.append(min(pace.rows, BATCH))
        pace.passed(sizes[-1], took_ms(sizes[-1]))
    return sizes


def test_the_first_rows_are_few_and_those_of_a_quick_chain_soon_many() -> None:
    sizes = pieces(lambda rows: 0.3 + rows * 100e-6, 10)
    assert sizes[:2] == [rows_of_size(FIRST_SIZE), 16]
    assert sizes == sorted(sizes)
    assert all(after <= 16 * before for before, after in itertools.pairwise(sizes))
    assert sizes[-2:] == [BATCH, BATCH]
    assert pieces(lambda _: 0.0, 10)[-1] == BATCH, "a clock that stands still says nothing"


@pytest.mark.parametrize("ms_per_row", [0.004, 0.01, 1, 10, 30])
def test_rows_that_take_long_come_in_pieces_of_a_tenth_of_a_second(ms_per_row: float) -> None:
    sizes = pieces(lambda rows: rows * ms_per_row, 30)
    # None is larger, not even to see how it goes: a row does not get quicker where there are more of them.
    assert max(sizes) * ms_per_row <= TARGET_MS or max(sizes) == rows_of_size(FIRST_SIZE)
    assert all(TARGET_MS / 4 <= rows * ms_per_row <= TARGET_MS for rows in sizes[-20:])


def test_rows_that_take_seconds_come_alone() -> None:
    assert pieces(lambda rows: rows * 5_000.0, 10)[-6:] == [1] * 6


@pytest.mark.parametrize(("call_ms", "row_ms"), [(200, 0), (150, 1), (95, 0.01), (1_000, 0.1), (500, 1e-3), (40, 1)])
def test_calls_do_not_take_most_of_the_time(call_ms: float, row_ms: float) -> None:
    """Whatever they are given."""
    chance = random.Random(1)
    sizes = pieces(lambda rows: (call_ms + rows * row_ms) * chance.uniform(0.9, 1.1), 60)[-30:]
    best = call_ms / BATCH + row_ms
    mean = sum(call_ms + rows * row_ms for rows in sizes) / sum(sizes)
    assert mean <= 3 * best
    assert max(sizes) * row_ms <= max(TARGET_MS, 8 * call_ms)


def test_small_batches_among_large_ones_do_not_slow_these_down() -> None:
    pace = ChunkSizer()
    pieces(lambda rows: 0.3 + rows * 50e-6, 10, pace)
    for rows in (1, 10, 7, 200, 3):
        pace.passed(rows, 0.3)
    pace.passed(3, 10.0)  # something else had the core
    assert pace.rows >= BATCH


@pytest.mark.parametrize("seed", range(10))
def test_a_chain_whose_speed_varies_and_changes_is_followed(seed: int) -> None:
    chance, pace = random.Random(seed), ChunkSizer()
    for ms_per_row in (1e-4, 1.0, 1e-4, 5.0):
        sizes = pieces(lambda rows, each=ms_per_row: rows * each * chance.uniform(0.7, 1.4), 60, pace)
        wanted = min(BATCH, 100 / ms_per_row)
        assert wanted / 10 <= sorted(sizes[20:])[20] <= wanted * 4
        assert max(sizes[20:]) <= 16 * wanted


@pytest.mark.parametrize(
    ("rows", "took_ms", "expected"), [(2, 0.05, 4_000), (64, 64, 100), (64, 0.32, 20_000), (1, 5_000, 1)]
)
def test_buffers_have_as_many_rows_as_pass_in_time_also_if_none_had_so_many(
    rows: int, took_ms: float, expected: int
) -> None:
    pace = ChunkSizer()
    pace.passed(rows, took_ms)
    assert pace.buffer_rows == pytest.approx(expected, rel=0.01)
    pace = ChunkSizer(ChunkLimit(doors := [Door(10, 1)]))
    doors[0].take(rows)
    pace.passed(rows, took_ms)
    assert pace.buffer_rows <= 10, "what is behind the task wants no more"


class Door:
    """An exit that gets `each` rows for each row of the task."""

    def __init__(self, wanted: float, each: float) -> None:
        self.rows_wanted = wanted
        self.rows_written = 0
        self._each = each

    def take(self, rows: int) -> None:
        self.rows_written += round(rows * self._each)


def taken(pace: ChunkSizer, doors: list[Door], pieces: int) -> list[int]:
    """The rows of so many pieces, none of which takes any time."""
    sizes = []
    for _ in range(pieces):
        piece, _rest = pace.cut(Batch(pa.record_batch({"n": pa.nulls(BATCH)}), Kind.ROW))
        for door in doors:
            door.take(piece.num_rows)
        pace.passed(piece.num_rows, 0.0)
        sizes.append(piece.num_rows)
    return sizes


@pytest.mark.parametrize(("each", "expected"), [(1, 200), (0.1, 2_000), (50, 4), (1_000, 1), (0, BATCH)])
def test_no_exit_gets_more_rows_than_it_wants(each: float, expected: int) -> None:
    doors: list[Door] = []
    pace = ChunkSizer(ChunkLimit(doors))
    doors.append(Door(200, each))
    assert taken(pace, doors, 40)[-10:] == pytest.approx([expected] * 10, rel=0.1, abs=1)


def test_the_exit_that_wants_least_for_what_it_gets_says_how_many() -> None:
    doors = [Door(math.inf, 100), Door(300, 1), Door(500, 5)]
    pace = ChunkSizer(ChunkLimit(doors))
    assert taken(pace, doors, 20)[-5:] == pytest.approx([100] * 5, abs=1)
    doors[2].rows_wanted = math.inf
    assert taken(pace, doors, 20)[-5:] == pytest.approx([300] * 5, abs=1)
    doors[1].rows_wanted = math.inf
    assert taken(pace, doors, 20)[-5:] == [BATCH] * 5


def cut(pace: ChunkSizer, rows: int) -> tuple[int, int]:
    """Of a batch of so many rows those that go on now, and those that are left."""
    piece, rest = pace.cut(Batch(pa.record_batch({"n": pa.nulls(rows)}), Kind.ROW))
    return piece.num_rows, 0 if rest is None else rest.num_rows


def of_64_rows(took_ms: float, door: Door) -> ChunkSizer:
    """Of a task whose pieces have 64 rows, each of which goes to the door."""
    pace = ChunkSizer(ChunkLimit([door]))
    door.take(64)
    pace.passed(64, took_ms)
    pace.rows = 64
    return pace


@pytest.mark.parametrize(("rows", "taken"), [(64, 64), (72, 72), (73, 64), (136, 64), (40, 40)])
def test_a_small_rest_goes_with_its_piece(rows: int, taken: int) -> None:
    assert cut(of_64_rows(1.0, Door(math.inf, 1)), rows) == (taken, rows - taken)


def test_a_rest_that_would_not_pass_in_time_does_not() -> None:
    pace = of_64_rows(TARGET_MS * 64 / 68.5, Door(math.inf, 1))
    assert (cut(pace, 68), cut(pace, 69)) == ((68, 0), (64, 5))


def test_nor_does_one_that_an_exit_does_not_want() -> None:
    pace = of_64_rows(1.0, Door(66, 1))
    assert (cut(pace, 66), cut(pace, 67)) == ((66, 0), (64, 3))


def test_rows_that_come_one_by_one_take_no_other_with_them() -> None:
    pace = of_64_rows(1.0, Door(math.inf, 1))
    pace.rows = 1
    assert cut(pace, 2) == (1, 1)


# -- what a call takes


def simulated(call_ms: float, row_ms: float, seconds: float, seed: int = 0) -> tuple[ChunkSizer, float]:
    """A sizer after so long, and the rows a second that the last tenth of the time let through; its buffers have as
    many rows as it wants, with some of every size before them."""
    sizer, chance, now_ms, rows_passed = ChunkSizer(), random.Random(seed), 0.0, 0
    wanted, under_way = 4, deque([4] * 10)
    late_ms = late_rows = 0.0
    while now_ms < seconds * 1_000:
        rows = under_way.popleft()
        rows = chance.choice([rows, rows, max(1, rows - 1)])
        took_ms = (call_ms + row_ms * rows) * chance.uniform(0.97, 1.03)
        sizer.passed(rows, took_ms)
        now_ms, rows_passed = now_ms + took_ms, rows_passed + rows
        if now_ms > seconds * 900:
            late_ms, late_rows = late_ms + took_ms, late_rows + rows
        wanted = min(sizer.buffer_rows, 131_072)
        under_way.append(wanted)
    return sizer, late_rows / late_ms * 1_000


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("call_ms", "row_ms"), [(1, 0), (10, 1e-4), (50, 0), (50, 1e-3), (200, 1e-3), (500, 0)])
def test_chunks_grow_until_the_call_is_a_small_part_of_their_time(call_ms: float, row_ms: float, seed: int) -> None:
    _, per_second = simulated(call_ms, row_ms, 60 if call_ms < 10 else 600, seed)
    full = 131_072 / (call_ms + row_ms * 131_072) * 1_000
    assert per_second > 0.8 * full


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("row_ms", [0.1, 1, 50, 2_000])
def test_chunks_of_slow_rows_stay_small_whatever_the_call_takes_beside_them(row_ms: float, seed: int) -> None:
    for call_ms in (0.0, row_ms / 10):
        sizer, _ = simulated(call_ms, row_ms, 600, seed)
        assert sizer.buffer_rows * row_ms <= 4 * max(TARGET_MS, row_ms), "barriers wait behind them"


@pytest.mark.parametrize("seed", range(5))
def test_a_chunk_takes_no_longer_than_it_may_beside_the_call(seed: int) -> None:
    for call_ms, row_ms in ((50, 0.05), (200, 0.01), (20, 1)):
        sizer, _ = simulated(call_ms, row_ms, 600, seed)
        assert sizer.buffer_rows * row_ms <= 1.2 * LONGEST_MS


def test_what_a_call_takes_is_known_only_where_chunks_of_two_sizes_have_passed() -> None:
    cost = ChunkCost()
    cost.passed(4, 200.0)
    cost.passed(4, 200.0)
    assert (cost.call_ms, cost.useful_rows) == (0, 0)
    cost.passed(1, 197.0)
    assert cost.row_ms == pytest.approx(1.0)
    assert cost.call_ms == pytest.approx(196.0)
    assert cost.useful_rows > 4


def test_a_function_that_becomes_slow_per_row_gets_small_chunks_again() -> None:
    cost = ChunkCost()
    for rows in (1_000, 500, 1_000, 400):
        cost.passed(rows, 50.0)
    assert cost.useful_rows > 1_000
    for _ in range(12):
        for rows in (1_000, 900):
            cost.passed(rows, rows * 10.0)
    assert cost.useful_rows < 10

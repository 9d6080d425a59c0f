"""How many rows go through a chain of operators at a time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from actors.operators.contract.chunking import FIRST_SIZE, TARGET_MS, ChunkLimit, ChunkSizer, rows_of_size
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
    assert sizes == [rows_of_size(FIRST_SIZE), 16, 64, 256, 1_024, 4_096, 16_384, 65_536, BATCH, BATCH]
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

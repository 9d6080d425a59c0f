"""How many rows go through a chain of operators at a time."""

from __future__ import annotations

from actors.operators.pace import FIRST_ROWS, LARGEST_GROWTH, Pace


def test_the_first_rows_are_few_and_those_of_a_quick_chain_soon_many() -> None:
    pace = Pace()
    assert pace.rows == FIRST_ROWS
    sizes = []
    for _ in range(4):
        sizes.append(pace.rows)
        pace.passed(pace.rows, pace.rows * 100e-6)
    assert sizes == [64, 1_024, 16_384, 262_144]
    pace.passed(10, 0.0)
    assert pace.rows == LARGEST_GROWTH * 1_000_000, "a clock that stood still says nothing"


def test_rows_that_take_long_come_in_pieces_of_a_tenth_of_a_second() -> None:
    pace = Pace()
    pace.passed(64, 640.0)
    assert pace.rows == 10
    pace.passed(10, 10_000.0)
    assert pace.rows == 1
    pace.passed(1, 1.0)
    assert pace.rows == 16
    pace.passed(16, 16.0)
    assert pace.rows == 100

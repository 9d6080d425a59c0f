"""Work that comes all at once is done in pieces, between which the mailbox is looked at."""

from __future__ import annotations

import pytest

from actors.operators.contract.chunking import TARGET_MS
from actors.operators.contract.pieces import Pieces
from flinkray.testing.clock import ManualClock


def pieces_of(steps: int, step_ms: int, behind_ms: int = 0) -> list[int]:
    """How many steps each piece has, where each takes `step_ms`, and `behind_ms` more when the piece ends."""
    clock = ManualClock()
    pieces, sizes, left = Pieces(clock.monotonic_ms), [], steps
    while left:
        pieces.begin()
        before = left
        while left:
            clock.advance(step_ms)
            left -= 1
            if pieces.is_over():
                break
        clock.advance((before - left) * behind_ms)
        pieces.end()
        sizes.append(before - left)
    return sizes


def test_a_piece_takes_a_tenth_of_a_second_or_one_step() -> None:
    assert pieces_of(100_000, 0) == [100_000]
    assert pieces_of(1_000, 1)[0] == TARGET_MS
    assert set(pieces_of(20, 5_000)) == {1}


@pytest.mark.parametrize("behind_ms", [1, 30, 500])
def test_what_the_operators_behind_take_counts_once_it_is_known(behind_ms: int) -> None:
    sizes = pieces_of(400, 1, behind_ms)
    assert max(sizes[1:]) * (1 + behind_ms) <= max(TARGET_MS, 4 * (1 + behind_ms))
    assert max(sizes[6:-1]) * (1 + behind_ms) <= max(TARGET_MS, 1 + behind_ms)

"""Checkpoints of exchanges in random order of everything: a failing seed is in the message and replays."""

from __future__ import annotations

import pytest

from tests.support.checkpoint_exchange import CheckpointExchange

SEEDS_PER_TEST = 15


@pytest.mark.parametrize("block", range(10))
def test_every_row_before_a_barrier_is_in_its_checkpoint_exactly_once(block: int) -> None:
    completed = captured = 0
    for seed in range(block * SEEDS_PER_TEST, (block + 1) * SEEDS_PER_TEST):
        try:
            exchange = CheckpointExchange(seed)
            exchange.run()
        except Exception as error:
            error.add_note(f"with seed {seed}")
            raise
        completed += exchange.completed
        captured += exchange.captured_rows
    assert completed > SEEDS_PER_TEST, "checkpoints hardly ever complete, so little was tested"
    assert captured > SEEDS_PER_TEST, "rows are hardly ever on their way, so little was tested"

"""The driver of a collecting sink gets every row exactly once: writers and coordinator together."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from actors.operators.sinks.collect_writer import COLLECT_WINDOW, CollectWriter
from actors.protocol.operator_events import RowsCollected, RowsCut
from tests.support.collected_rows import CollectedRun, WriterContext
from tests.support.tasks import numbers


@pytest.mark.parametrize("has_final", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_the_driver_gets_every_row_exactly_once_whoever_fails_and_however_the_job_is_rescaled(
    seed: int, has_final: bool
) -> None:
    run = CollectedRun(seed, has_final=has_final)
    for _ in range(600):
        run.step()
    run.conclude()


@pytest.mark.parametrize("seed", range(20))
def test_without_checkpoints_and_failures_the_driver_gets_every_row_once_and_in_order(seed: int) -> None:
    run = CollectedRun(seed, has_checkpoints=False)
    for _ in range(100):
        index = run.random.randrange(run.parallelism)
        run.random.choice([run.write, run.deliver, lambda _: run.take(2)])(index)
        run.check()
    run.conclude()


def writer_of(has_checkpoints: bool) -> tuple[CollectWriter, deque[Any]]:
    sent: deque[Any] = deque()
    context: Any = WriterContext(0, has_checkpoints, sent)
    return CollectWriter(context), sent


def test_a_barrier_lets_nothing_more_through_to_a_driver_that_does_not_take() -> None:
    writer, sent = writer_of(has_checkpoints=True)
    for checkpoint_id in range(10):
        while writer.is_available and len(sent) < 100:
            writer.write(numbers(checkpoint_id))
            writer.flush(end_of_input=False)
        writer.snapshot(checkpoint_id)
    assert len([event for event in sent if isinstance(event, RowsCollected)]) == COLLECT_WINDOW + 1
    writer.on_rows_taken(COLLECT_WINDOW)
    assert writer.is_available


def test_a_snapshot_has_what_no_complete_checkpoint_of_the_coordinator_has() -> None:
    writer, sent = writer_of(has_checkpoints=True)
    for value in range(4):
        writer.write(numbers(value))
    writer.on_rows_taken(3)
    writer.on_rows_kept(2)
    state = writer.snapshot(7)
    assert ([each.sequence for each in state.kept], state.next_sequence) == ([2, 3], 4)
    assert sent[-1] == RowsCut(7, 4)


def test_without_checkpoints_a_savepoint_has_what_the_driver_has_not() -> None:
    writer, _ = writer_of(has_checkpoints=False)
    for value in range(7):
        writer.write(numbers(value))
    writer.on_rows_kept(2)
    writer.on_rows_taken(1)
    kept = writer.snapshot(1).kept
    assert [value for each in kept for value in each.batch.data.column(0).to_pylist()] == [2, 3, 4, 5, 6]


def test_what_is_kept_holds_the_memory_of_its_own_rows_only() -> None:
    writer, _ = writer_of(has_checkpoints=True)
    writer.write(numbers(*range(100_000)).slice(10, 5))
    (kept,) = writer.snapshot(1).kept
    assert kept.batch.data.get_total_buffer_size() < 1_000


def test_a_restored_writer_sends_again_what_was_kept_and_waits_for_nobody_to_take_it() -> None:
    former, _ = writer_of(has_checkpoints=True)
    for value in range(9):
        former.write(numbers(value))
        former.flush(end_of_input=False)
    writer, sent = writer_of(has_checkpoints=True)
    writer.restore([former.snapshot(3)], is_rescaled=False, checkpoint_id=3)
    assert [event.sequence for event in sent] == list(range(9))
    assert writer.is_available
    writer.write(numbers(9))
    assert sent[-1].sequence == 9
    writer.check()

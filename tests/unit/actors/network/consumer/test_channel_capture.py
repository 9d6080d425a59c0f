"""Which rows of one channel belong to an unaligned checkpoint."""

from __future__ import annotations

import random
from collections import deque

import pytest

from actors.network.consumer.capture import ChannelCapture
from actors.protocol.elements import CheckpointBarrier, Element
from flinkray.batches.batch import Batch
from tests.support.network import END, numbers, values_of


def barrier(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 0)


def rows_of(batches: list[Batch]) -> list[int]:
    return [value for batch in batches for value in values_of(batch)]


def test_rows_that_come_until_the_barrier_are_collected() -> None:
    capture = ChannelCapture()
    capture.begin(1, [(numbers(1), 0)])
    capture.on_arrived(numbers(2), 1)
    assert capture.is_waiting_for(1)
    capture.on_arrived(barrier(1), 2)
    assert not capture.is_waiting_for(1)
    capture.on_arrived(numbers(3), 3)
    assert rows_of(capture.end(1)) == [1, 2]


def test_of_rows_that_wait_already_those_behind_the_barrier_belong_to_the_producer() -> None:
    capture = ChannelCapture()
    for position, element in enumerate([numbers(1), barrier(1), numbers(2)]):
        capture.on_arrived(element, position)
    capture.begin(1, [(numbers(1), 0), (numbers(2), 2)])
    assert not capture.is_waiting_for(1)
    assert rows_of(capture.end(1)) == [1]


def test_a_channel_that_has_ended_waits_for_no_barrier() -> None:
    capture = ChannelCapture()
    capture.begin(1, [])
    capture.on_arrived(END, 0)
    assert not capture.is_waiting_for(1)
    capture.begin(2, [(numbers(1), 0)])
    assert not capture.is_waiting_for(2)
    assert rows_of(capture.end(2)) == [1]


def test_several_checkpoints_collect_at_once_each_up_to_its_own_barrier() -> None:
    capture = ChannelCapture()
    capture.begin(1, [])
    capture.on_arrived(numbers(1), 0)
    capture.begin(2, [(numbers(1), 0)])
    capture.on_arrived(barrier(1), 1)
    capture.on_arrived(numbers(2), 2)
    capture.on_arrived(barrier(2), 3)
    capture.on_arrived(numbers(3), 4)
    assert rows_of(capture.end(1)) == [1]
    assert rows_of(capture.end(2)) == [1, 2]


def test_a_checkpoint_before_one_whose_barrier_was_read_collects_nothing() -> None:
    capture = ChannelCapture()
    capture.on_arrived(barrier(2), 0)
    capture.on_barrier_read(2)
    capture.begin(1, [(numbers(1), 1)])
    assert not capture.is_waiting_for(1)
    assert capture.end(1) == []


def test_what_was_ended_holds_nothing_and_collects_nothing() -> None:
    capture = ChannelCapture()
    capture.begin(1, [(numbers(1), 0)])
    capture.end(1)
    capture.on_arrived(numbers(2), 1)
    assert capture.end(1) == []
    assert not capture.is_waiting_for(1)


def test_a_checkpoint_begins_once() -> None:
    capture = ChannelCapture()
    capture.begin(1, [])
    with pytest.raises(AssertionError, match="checkpoint 1 is captured already"):
        capture.begin(1, [])


@pytest.mark.parametrize("seed", range(30))
def test_barriers_that_were_read_are_forgotten(seed: int) -> None:
    """However many checkpoints a job takes: what is remembered is bounded by what waits."""
    chance = random.Random(seed)
    capture = ChannelCapture()
    unread: deque[Element] = deque()
    for position in range(300):
        if chance.random() < 0.5:
            element: Element = barrier(position) if chance.random() < 0.5 else numbers(position)
            capture.on_arrived(element, position)
            unread.append(element)
        elif unread:
            read = unread.popleft()
            if isinstance(read, CheckpointBarrier):
                capture.on_barrier_read(read.checkpoint_id)
        waiting = sum(isinstance(each, CheckpointBarrier) for each in unread)
        assert len(capture._positions) <= waiting + 1

"""The queue of one consumer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.network.flow.buffers import Buffer
from actors.network.producer.subpartition import NextKind, PipelinedSubpartition, QueueLimit
from actors.protocol.elements import CheckpointBarrier, CheckpointOptions, EndOfData, Watermark
from flinkray.batches.batch import Batch
from flinkray.types.records import Timestamp
from tests.support.network import numbers, values_of

BARRIER = CheckpointBarrier(1, 0)


@pytest.fixture
def limit() -> QueueLimit:
    return QueueLimit(max_buffers=2, max_bytes=1 << 20)


@pytest.fixture
def queue(limit: QueueLimit) -> PipelinedSubpartition:
    return PipelinedSubpartition(0, limit, target_rows=4, target_bytes=1 << 20)


def event(timestamp: int) -> Buffer:
    return Buffer.of_event(Watermark(Timestamp(timestamp)))


def test_the_tail_cannot_be_read_before_it_is_flushed(queue: PipelinedSubpartition) -> None:
    queue.add_batch(numbers(1))
    assert queue.poll() is None
    assert queue.has_tail
    queue.flush()
    polled = queue.poll()
    assert polled is not None
    assert values_of(polled.buffer.element) == [1]


def test_the_backlog_counts_data_only_and_leaves_out_the_tail(queue: PipelinedSubpartition) -> None:
    queue.add_batch(numbers(1, 2))
    queue.add_buffer(event(1))
    queue.add_batch(numbers(3, 4))
    queue.add_batch(numbers(5))
    assert queue.backlog == 2
    queue.flush()
    assert queue.backlog == 3


def test_a_poll_says_what_is_left_and_counts_each_buffer_once(queue: PipelinedSubpartition) -> None:
    queue.add_batch(numbers(1, 2))
    queue.add_buffer(event(1))
    queue.add_batch(numbers(3, 4))
    polls = [queue.poll(), queue.poll(), queue.poll()]
    assert [(p.sequence, p.backlog, p.next_kind) for p in polls if p is not None] == [
        (0, 1, NextKind.EVENT),
        (1, 1, NextKind.DATA),
        (2, 0, NextKind.NOTHING),
    ]
    assert queue.poll() is None


def test_an_event_finishes_the_tail_and_overtakes_nothing(queue: PipelinedSubpartition) -> None:
    queue.add_batch(numbers(1))
    queue.add_buffer(event(1))
    first, second = queue.poll(), queue.poll()
    assert first is not None
    assert second is not None
    assert values_of(first.buffer.element) == [1]
    assert second.buffer.is_event


def test_nothing_comes_after_an_aligned_barrier_until_consumption_is_resumed(queue: PipelinedSubpartition) -> None:
    queue.add_buffer(Buffer.of_event(BARRIER))
    queue.add_buffer(event(1))
    polled = queue.poll()
    assert polled is not None
    assert polled.next_kind is NextKind.NOTHING
    assert queue.poll() is None
    assert queue.next_kind is NextKind.NOTHING
    queue.resume()
    assert queue.next_kind is NextKind.EVENT
    assert queue.poll() is not None


def test_a_released_queue_drops_what_it_has_and_what_comes(queue: PipelinedSubpartition, limit: QueueLimit) -> None:
    queue.add_batch(numbers(1, 2, 3, 4))
    queue.add_batch(numbers(5))
    queue.release()
    queue.add_batch(numbers(6, 7, 8, 9))
    queue.add_buffer(event(1))
    assert queue.poll() is None
    assert (limit.buffers, limit.nbytes) == (0, 0)


def test_the_limit_counts_finished_data_buffers_of_all_queues(limit: QueueLimit) -> None:
    queues = [PipelinedSubpartition(index, limit, 4, 1 << 20) for index in range(2)]
    queues[0].add_batch(numbers(1, 2))
    queues[1].add_buffer(event(1))
    queues[1].add_batch(numbers(3))
    assert limit.has_room
    queues[1].flush()
    assert not limit.has_room
    queues[0].poll()
    assert limit.has_room


def test_rows_of_several_flushes_are_one_buffer_and_take_the_room_of_all() -> None:
    limit = QueueLimit(max_buffers=3, max_bytes=1 << 20)
    queue = PipelinedSubpartition(0, limit, 100, 1 << 20)
    for number in range(3):
        assert limit.has_room
        queue.add_batch(numbers(number))
        queue.flush()
        queue.flush()
        queue.check()
    assert not limit.has_room
    queue.add_buffer(event(1))
    assert (limit.buffers, limit.nbytes, queue.backlog, queue.room) == (3, 24, 1, 3), "an event frees nothing"
    polled = queue.poll()
    assert polled is not None
    assert values_of(polled.buffer.element) == [0, 1, 2]
    assert (limit.buffers, limit.nbytes, queue.room) == (0, 0, 0)


def test_a_flushed_tail_that_fills_up_still_can_be_read_at_once() -> None:
    queue = PipelinedSubpartition(0, QueueLimit(10, 1 << 20), 4, 1 << 20)
    queue.frame_bytes = 1 << 20
    queue.add_batch(numbers(1))
    queue.flush()
    queue.add_batch(numbers(2))
    queue.add_batch(numbers(3, 4, 5))
    assert queue.next_kind is NextKind.DATA
    seen = []
    while (polled := queue.poll()) is not None:
        seen.append(values_of(polled.buffer.element))
    assert seen == [[1, 2], [3, 4, 5]]


def test_bytes_fill_the_limit_too() -> None:
    limit = QueueLimit(max_buffers=100, max_bytes=16)
    queue = PipelinedSubpartition(0, limit, 2, 1 << 20)
    queue.add_batch(numbers(1))
    queue.flush()
    assert limit.has_room
    queue.add_batch(numbers(2))
    queue.flush()
    assert not limit.has_room


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.integers(1, 9)),
        st.tuples(st.sampled_from(["flush", "poll", "poll", "event", "barrier", "resume"]), st.none()),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=60)
@given(actions=ACTIONS)
def test_whatever_is_done_all_comes_in_order_and_once(actions: list[tuple[str, Any]]) -> None:
    limit = QueueLimit(100, 1 << 30)
    queue = PipelinedSubpartition(0, limit, target_rows=6, target_bytes=1 << 20)
    put: list[Any] = []
    taken: list[Any] = []
    count = 0

    def poll() -> bool:
        polled = queue.poll()
        if polled is not None:
            assert polled.backlog == queue.backlog
            taken.extend(values_of(polled.buffer.element))
        return polled is not None

    for action, argument in actions:
        if action == "rows":
            rows = list(range(count, count + argument))
            count += argument
            put += rows
            queue.add_batch(numbers(*rows))
        elif action in ("event", "barrier"):
            element = EndOfData() if action == "event" else BARRIER
            put.append(element)
            queue.add_buffer(Buffer.of_event(element))
        elif action == "flush":
            queue.flush()
        elif action == "resume":
            queue.resume()
        else:
            blocked = bool(taken) and taken[-1] == BARRIER and queue.statistics().is_blocked
            assert not (poll() and blocked)
        queue.check()
        assert taken == put[: len(taken)]
    queue.flush()
    queue.resume()
    while poll():
        queue.resume()
    assert taken == put
    assert (limit.buffers, limit.nbytes) == (0, 0)


def test_statistics_are_a_snapshot(queue: PipelinedSubpartition) -> None:
    queue.add_batch(numbers(1, 2))
    queue.add_batch(numbers(3))
    before = queue.statistics()
    queue.poll()
    assert (before.queued_buffers, before.backlog, before.queued_bytes, before.coalescing_bytes) == (1, 1, 16, 8)
    assert queue.statistics().taken_buffers == 1


def unaligned(checkpoint_id: int) -> Buffer:
    return Buffer.of_event(CheckpointBarrier(checkpoint_id, 0, CheckpointOptions(is_unaligned=True)))


def rows_of(batches: list[Batch] | None) -> list[Any]:
    return [value for batch in batches or () for value in values_of(batch)]


def taken(queue: PipelinedSubpartition) -> list[Any]:
    seen: list[Any] = []
    while (polled := queue.poll()) is not None:
        assert polled.sequence == queue.statistics().taken_buffers - 1
        event = polled.buffer.event
        seen += [event.checkpoint_id] if isinstance(event, CheckpointBarrier) else values_of(polled.buffer.element)
    return seen


def test_an_unaligned_barrier_overtakes_everything_but_earlier_ones_and_numbers_have_no_gap(
    queue: PipelinedSubpartition,
) -> None:
    queue.add_batch(numbers(1, 2))
    queue.add_buffer(event(7))
    queue.add_batch(numbers(3))
    assert rows_of(queue.insert_priority(unaligned(100))) == [1, 2, 3]
    queue.add_batch(numbers(4))
    assert rows_of(queue.insert_priority(unaligned(101))) == [1, 2, 3, 4]
    assert queue.next_kind is NextKind.PRIORITY
    queue.check()
    assert taken(queue) == [100, 101, 1, 2, Watermark(Timestamp(7)), 3, 4]


def test_priority_alone_can_be_asked_for(queue: PipelinedSubpartition) -> None:
    queue.add_batch(numbers(1, 2))
    assert queue.poll(only_priority=True) is None
    queue.insert_priority(unaligned(100))
    polled = queue.poll(only_priority=True)
    assert polled is not None
    assert polled.next_kind is NextKind.DATA
    assert queue.poll(only_priority=True) is None


def test_an_unaligned_barrier_passes_a_blocked_queue_and_leaves_it_blocked(queue: PipelinedSubpartition) -> None:
    queue.add_buffer(Buffer.of_event(BARRIER))
    queue.add_batch(numbers(1, 2))
    assert taken(queue) == [1]
    queue.insert_priority(unaligned(100))
    assert taken(queue) == [100]
    queue.resume()
    assert taken(queue) == [1, 2]


def test_an_aligned_barrier_that_waits_can_become_an_unaligned_one(queue: PipelinedSubpartition) -> None:
    queue.add_batch(numbers(1, 2))
    queue.add_buffer(event(7))
    queue.add_buffer(Buffer.of_event(BARRIER))
    queue.add_batch(numbers(3, 4))
    assert rows_of(queue.overtake(BARRIER.checkpoint_id)) == [1, 2], "rows behind it belong to the next checkpoint"
    polled = queue.poll()
    assert polled is not None
    assert isinstance(polled.buffer.event, CheckpointBarrier)
    assert polled.buffer.event.options.is_unaligned
    assert taken(queue) == [1, 2, Watermark(Timestamp(7)), 3, 4]


def test_a_barrier_that_was_taken_or_never_blocked_overtakes_nothing(queue: PipelinedSubpartition) -> None:
    at_least_once = CheckpointBarrier(2, 0, CheckpointOptions(is_exactly_once=False))
    queue.add_batch(numbers(1, 2))
    queue.add_buffer(Buffer.of_event(at_least_once))
    assert queue.overtake(2) is None
    queue.add_buffer(Buffer.of_event(BARRIER))
    assert taken(queue) == [1, 2, 2, 1]
    assert queue.overtake(BARRIER.checkpoint_id) is None


def test_a_released_queue_takes_no_barrier(queue: PipelinedSubpartition) -> None:
    queue.insert_priority(unaligned(100))
    queue.release()
    assert queue.insert_priority(unaligned(101)) == []
    assert queue.poll() is None

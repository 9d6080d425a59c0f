"""What a task writes to, and each consumer reads from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from actors.network.producer.pipelined_partition import PipelinedView
from actors.network.producer.result_partition import ResultPartition, SubpartitionView
from actors.protocol.elements import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointOptions,
    EndOfPartition,
    Watermark,
)
from flinkray.batches.batch import Batch
from flinkray.errors import PartitionError
from flinkray.types.records import Timestamp
from tests.support.network import numbers, partition, values_of

MARK = Watermark(Timestamp(1))


def ignore() -> None:
    pass


def read(view: SubpartitionView) -> list[Any]:
    seen: list[Any] = []
    while (polled := view.poll()) is not None:
        seen += values_of(polled.buffer.element)
    return seen


def views(result: ResultPartition) -> list[SubpartitionView]:
    return [result.create_view(index, ignore) for index in range(result.number_of_subpartitions)]


def test_each_consumer_gets_its_rows_and_every_event() -> None:
    result = partition(2)
    result.emit(0, numbers(1))
    result.emit(1, numbers(2))
    result.broadcast_event(MARK)
    result.emit_event(1, MARK)
    first, second = views(result)
    assert read(first) == [1, MARK]
    assert read(second) == [2, MARK, MARK]


def test_a_broadcast_shares_one_buffer() -> None:
    result = partition(2)
    result.broadcast(numbers(1, 2, 3, 4))
    first, second = (view.poll() for view in views(result))
    assert first is not None
    assert second is not None
    assert first.buffer is second.buffer


def test_small_broadcasts_are_coalesced_once_for_all() -> None:
    result = partition(2)
    result.broadcast(numbers(1))
    result.broadcast(numbers(2))
    first, second = views(result)
    assert first.poll() is None
    result.flush_all()
    one, other = first.poll(), second.poll()
    assert one is not None
    assert other is not None
    assert one.buffer is other.buffer
    assert values_of(one.buffer.element) == [1, 2]


def test_order_is_kept_between_broadcast_and_single_rows_and_events() -> None:
    result = partition(2)
    result.emit(0, numbers(1))
    result.broadcast(numbers(2))
    result.emit(0, numbers(3))
    result.broadcast(numbers(4))
    result.emit_event(0, MARK)
    result.emit(0, numbers(5))
    result.flush_all()
    first, second = views(result)
    assert read(first) == [1, 2, 3, 4, MARK, 5]
    assert read(second) == [2, 4]


def test_a_view_hears_when_it_turns_readable_and_only_then() -> None:
    heard: list[int] = []
    result = partition(2)
    view = result.create_view(0, lambda: heard.append(0))
    result.emit(0, numbers(1))
    result.emit(1, numbers(1, 2, 3, 4))
    assert heard == [], "the tail is not readable, and the other view's rows are not this one's"
    result.flush_all()
    result.broadcast_event(MARK)
    assert heard == [0]
    read(view)
    result.broadcast_event(MARK)
    assert heard == [0, 0]


def test_rows_for_one_consumer_make_an_earlier_broadcast_readable_for_all() -> None:
    heard: list[int] = []
    result = partition(2)
    view = result.create_view(1, lambda: heard.append(1))
    result.broadcast(numbers(1))
    result.emit(0, numbers(2))
    assert heard == [1]
    assert read(view) == [1]


def test_the_producer_is_unavailable_while_too_much_waits() -> None:
    woken: list[int] = []
    result = partition(1, max_buffers=2)
    result.emit(0, numbers(1, 2))
    assert result.is_available
    result.emit(0, numbers(3, 4))
    assert not result.is_available
    result.availability.on_available(lambda: woken.append(1))
    result.broadcast_event(MARK)
    (view,) = views(result)
    view.poll()
    assert result.is_available
    assert woken == [1]
    result.check()


def test_emitting_without_room_loses_nothing() -> None:
    result = partition(1, max_buffers=1)
    for number in range(0, 20, 2):
        result.emit(0, numbers(number, number + 1))
    assert read(views(result)[0]) == list(range(20))


def test_events_do_not_make_the_producer_unavailable() -> None:
    result = partition(1, max_buffers=1)
    for _ in range(10):
        result.broadcast_event(MARK)
    assert result.is_available


def test_a_consumer_that_leaves_frees_what_waited_for_it() -> None:
    result = partition(2, max_buffers=1)
    result.emit(0, numbers(1, 2))
    first, second = views(result)
    assert not result.is_available
    first.release()
    assert result.is_available
    result.emit(0, numbers(3, 4))
    assert result.is_available
    result.emit(1, numbers(5, 6))
    assert read(second) == [5, 6]


def test_finish_flushes_and_ends_every_consumer() -> None:
    result = partition(2)
    result.emit(0, numbers(1))
    result.finish()
    first, second = views(result)
    assert read(first) == [1, EndOfPartition()]
    assert read(second) == [EndOfPartition()]
    assert result.is_finished


def test_a_partition_is_consumed_when_all_its_views_are_released() -> None:
    consumed: list[ResultPartition] = []
    result = partition(2, on_released=consumed.append)
    first, second = views(result)
    first.release()
    assert consumed == []
    second.release()
    assert consumed == [result]
    result.release()
    assert consumed == [result]


def test_a_buffer_for_all_has_as_many_rows_as_any_consumer_wants() -> None:
    result = partition(3)
    seen = []
    for index, rows in ((0, 8), (1, 64), (2, 2), (1, 2), (0, 2), (2, 16)):
        views_of = [PipelinedView(result, each) for each in range(3)]
        views_of[index].set_buffer_rows(rows)
        seen.append(result.buffer_rows)
    assert seen == [8, 64, 64, 8, 2, 16]


def test_what_one_consumer_says_costs_no_look_at_the_others() -> None:
    looks = []

    class Subpartitions(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            looks.append(len(self))
            return super().__iter__()

    result = partition(50)
    result._subpartitions = Subpartitions(result._subpartitions)
    readers = views(result)
    for rows, reader in enumerate(readers, start=1):
        reader.set_buffer_rows(rows)
    for reader in readers:
        reader.release()
    assert not looks


def test_a_subpartition_is_consumed_only_once() -> None:
    result = partition(1)
    result.create_view(0, ignore)
    with pytest.raises(PartitionError, match="subpartition 0 of p was consumed already"):
        result.create_view(0, ignore)
    with pytest.raises(PartitionError, match="p has no subpartition 1"):
        result.create_view(1, ignore)


def test_a_release_with_a_cause_fails_writer_and_readers_with_it() -> None:
    heard: list[int] = []
    result = partition(1, max_buffers=1)
    view = result.create_view(0, lambda: heard.append(1))
    result.emit(0, numbers(1, 2))
    result.availability.on_available(lambda: heard.append(2))
    result.release(ValueError("the producer's own"))
    result.release("too late")
    assert heard == [1, 1, 2], "data came, then the release, which also wakes the writer"
    for read_or_write in (view.poll, lambda: result.emit(0, numbers(3)), lambda: result.broadcast_event(MARK)):
        with pytest.raises(PartitionError, match="partition p was released: ValueError: the producer's own"):
            read_or_write()


def test_a_reader_that_comes_after_the_failure_gets_its_cause_too() -> None:
    result = partition(1)
    result.release(ValueError("the producer's own"))
    with pytest.raises(PartitionError, match="partition p was released: ValueError: the producer's own"):
        views(result)


def test_a_release_without_a_cause_drops_everything_silently() -> None:
    result = partition(1)
    (view,) = views(result)
    result.emit(0, numbers(1, 2))
    result.release()
    result.emit(0, numbers(3, 4))
    assert view.poll() is None


def test_statistics_say_what_went_out() -> None:
    result = partition(2)
    result.broadcast(numbers(1, 2))
    result.emit(0, numbers(3))
    read(views(result)[0])
    statistics = result.statistics()
    assert (statistics.batches_out, statistics.rows_out, statistics.bytes_out) == (3, 5, 16)
    assert statistics.subpartitions[0].coalescing_bytes == 8
    assert statistics.queued_buffers == 1


def test_task_events_reach_the_task_that_listens() -> None:
    result = partition(1)
    result.publish_task_event("nobody hears this")
    heard: list[str] = []
    result.on_task_event = heard.append
    views(result)[0].publish_task_event("superstep")
    assert heard == ["superstep"]


ALIGNED = CheckpointBarrier(1, 0)
UNALIGNED = CheckpointBarrier(1, 0, CheckpointOptions(is_unaligned=True))


def rows_of(captured: list[list[Batch]] | None) -> list[list[Any]] | None:
    return None if captured is None else [[row for batch in rows for row in values_of(batch)] for rows in captured]


def test_an_unaligned_barrier_captures_per_consumer_what_it_overtakes_with_all_tails() -> None:
    result = partition(2)
    first, second = views(result)
    result.emit(0, numbers(1, 2, 3, 4))
    result.emit(1, numbers(5))
    result.broadcast_event(MARK)
    result.broadcast(numbers(6))
    assert rows_of(result.broadcast_barrier(UNALIGNED)) == [[1, 2, 3, 4, 6], [5, 6]]
    assert read(first) == [UNALIGNED, 1, 2, 3, 4, MARK, 6]
    assert read(second) == [UNALIGNED, 5, MARK, 6]
    result.check()


def test_an_aligned_barrier_overtakes_nothing_and_can_be_read_at_once() -> None:
    result = partition(2)
    first, second = views(result)
    result.emit(0, numbers(1))
    assert rows_of(result.broadcast_barrier(ALIGNED)) == [[], []]
    assert read(first) == [1, ALIGNED]
    assert read(second) == [ALIGNED]


def test_an_aligned_barrier_overtakes_later_what_it_still_waits_behind() -> None:
    result = partition(2)
    first, second = views(result)
    result.emit(0, numbers(1))
    result.broadcast_barrier(ALIGNED)
    result.broadcast(numbers(2, 3, 4, 5))
    assert read(second) == [ALIGNED]
    assert rows_of(result.overtake(1)) == [[1], []]
    assert result.overtake(1) is None
    assert read(first) == [UNALIGNED, 1, 2, 3, 4, 5]


def test_views_hear_of_a_barrier_that_overtakes_rows_which_they_know_of() -> None:
    heard: list[int] = []
    result = partition(1)
    view = result.create_view(0, lambda: heard.append(view.has_priority))
    result.emit(0, numbers(1, 2, 3, 4))
    result.broadcast_barrier(UNALIGNED)
    assert heard == [False, True]
    view.poll()
    result.broadcast_barrier(CheckpointBarrier(2, 0))
    result.overtake(2)
    assert heard == [False, True, True]


def test_captured_rows_are_references() -> None:
    result = partition(1)
    batch = numbers(1, 2, 3, 4)
    result.emit(0, batch)
    ((captured,),) = result.broadcast_barrier(UNALIGNED)
    assert captured is batch


def test_a_barrier_of_a_released_partition_captures_nothing() -> None:
    result = partition(2)
    result.emit(0, numbers(1))
    result.release()
    assert result.broadcast_barrier(UNALIGNED) == [[], []]
    assert result.overtake(1) is None
    failed = partition(1)
    failed.release("lost")
    with pytest.raises(PartitionError, match="lost"):
        failed.broadcast_barrier(UNALIGNED)


def test_a_barrier_needs_no_room() -> None:
    result = partition(1, max_buffers=1)
    result.emit(0, numbers(1, 2, 3, 4))
    assert not result.is_available
    assert rows_of(result.broadcast_barrier(UNALIGNED)) == [[1, 2, 3, 4]]
    result.check()


def test_an_unaligned_barrier_is_no_ordinary_event() -> None:
    with pytest.raises(AssertionError, match="broadcast_barrier"):
        partition(1).broadcast_event(UNALIGNED)


# -- rows that linger ------------------------------------------------------------------------------------------------


def lingering(result: ResultPartition, frame_bytes: int = 100) -> tuple[list[SubpartitionView], list[int]]:
    """Views that want so many bytes (of numbers, eight each) at a time, and which of them have been told of some."""
    told: list[int] = []
    return [
        result.create_view(index, partial(told.append, index), frame_bytes)
        for index in range(result.number_of_subpartitions)
    ], told


def test_rows_linger_until_they_fill_a_frame_and_then_all_go() -> None:
    result = partition(1, target_rows=4)
    (view,), told = lingering(result)
    for start in (0, 4, 8):
        result.emit(0, numbers(*range(start, start + 4)))
    assert (view.poll(), told, result.has_tail) == (None, [], True)
    result.emit(0, numbers(12, 13, 14, 15))
    assert told == [0]
    assert read(view) == list(range(16))
    result.emit(0, numbers(16, 17, 18, 19))
    assert (view.poll(), told) == (None, [0])


def test_a_flush_and_an_event_end_the_lingering() -> None:
    result = partition(1, target_rows=4)
    (view,), told = lingering(result)
    result.emit(0, numbers(1, 2, 3, 4))
    result.flush_all()
    assert (read(view), told) == ([1, 2, 3, 4], [0])
    result.emit(0, numbers(5, 6, 7, 8))
    assert view.poll() is None
    result.broadcast_event(MARK)
    assert (read(view), told) == ([5, 6, 7, 8, MARK], [0, 0])


def test_rows_that_came_before_their_reader_do_not_linger() -> None:
    """No flush was due for them then, and none may ever be."""
    result = partition(1, target_rows=4)
    result.emit(0, numbers(1, 2, 3, 4))
    (view,), told = lingering(result)
    assert (read(view), told) == ([1, 2, 3, 4], [])
    result.emit(0, numbers(5, 6, 7, 8))
    assert (view.poll(), result.has_tail) == (None, True)


def test_a_marker_takes_the_place_of_the_barrier_that_it_cancels() -> None:
    result = partition(2, target_rows=1)
    first, second = views(result)
    result.emit(0, numbers(1))
    result.broadcast_barrier(ALIGNED)
    assert read(second) == [ALIGNED], "this consumer has it, and answers"
    result.emit(0, numbers(2))
    result.emit(1, numbers(3))
    result.cancel_checkpoint(ALIGNED.checkpoint_id)
    marker = CancelCheckpointMarker(ALIGNED.checkpoint_id)
    assert read(first) == [1, marker, 2], "it blocks nothing"
    assert read(second) == []
    second.resume()
    assert read(second) == [3, marker]


def test_barriers_that_are_given_up_faster_than_they_are_read_leave_room_for_rows() -> None:
    result = partition(1, target_rows=1, max_buffers=2)
    (view,) = views(result)
    for checkpoint_id in range(1, 5):
        result.broadcast_barrier(replace(ALIGNED, checkpoint_id=checkpoint_id))
        result.emit(0, numbers(checkpoint_id))
        result.cancel_checkpoint(checkpoint_id)
    assert not result.is_available
    assert [each for each in read(view) if not isinstance(each, CancelCheckpointMarker)] == [1, 2, 3, 4]
    assert result.is_available


def test_the_tail_goes_before_a_marker_that_takes_no_place() -> None:
    result = partition(1, target_rows=4)
    (view,) = views(result)
    result.emit(0, numbers(1))
    result.cancel_checkpoint(7)
    assert read(view) == [1, CancelCheckpointMarker(7)]


def test_without_room_rows_linger_no_more_if_no_others_can_be_read() -> None:
    result = partition(3, target_rows=1, max_buffers=2)
    (first, second, third), told = lingering(result)
    result.emit(0, numbers(1))
    assert (first.poll(), result.is_available) == (None, True)
    result.emit(1, numbers(2))
    assert (sorted(told), result.is_available) == ([0, 1], False)
    result.emit(2, numbers(3))
    assert (third.poll(), sorted(told)) == (None, [0, 1]), "the others give room"
    assert [read(view) for view in (first, second, third)] == [[1], [2], []]
    result.flush_all()
    assert (read(third), sorted(told)) == ([3], [0, 1, 2])


def test_rows_linger_while_those_of_another_consumer_give_room() -> None:
    """As where one consumer is in the same slot, and has rows one by one, and one in another, which has frames."""
    result = partition(2, target_rows=1, max_buffers=3)
    told: list[int] = []
    near, far = (result.create_view(index, partial(told.append, index), 100 * index) for index in range(2))
    for number in range(2):
        result.emit(1, numbers(number))
        result.emit(0, numbers(number))
    assert (result.is_available, far.poll(), told) == (False, None, [0])
    result.emit(1, numbers(2))
    assert far.poll() is None, "nor do rows that come when there is no room"
    assert near.poll() is not None
    assert (result.is_available, far.poll()) == (False, None)
    assert near.poll() is not None
    assert (result.is_available, told) == (False, [0, 1]), "none is left that could give room"
    assert (read(far), result.is_available) == ([0, 1, 2], True)


def test_rows_that_come_when_nothing_can_be_read_do_not_linger_without_room() -> None:
    result = partition(2, target_rows=1, max_buffers=1)
    told: list[int] = []
    blocked, far = (result.create_view(index, partial(told.append, index), 100 * index) for index in range(2))
    result.emit_event(0, ALIGNED)
    result.emit(0, numbers(1))
    assert (read(blocked), result.is_available) == ([ALIGNED], False)
    result.emit(1, numbers(2))
    assert (read(far), told) == ([2], [0, 1])


def test_an_event_that_waits_gives_no_room() -> None:
    result = partition(2, target_rows=1, max_buffers=1)
    _, told = lingering(result)
    result.emit_event(0, MARK)
    result.emit(1, numbers(1))
    assert (told, result.is_available) == ([0, 1], False)


def test_rows_linger_no_more_when_what_could_be_read_is_dropped() -> None:
    result = partition(3, target_rows=1, max_buffers=2)
    told: list[int] = []
    views = [result.create_view(index, partial(told.append, index), 100 * (index > 0)) for index in range(3)]
    result.emit(0, numbers(1))
    for index in (1, 2):
        result.emit(index, numbers(2))
        result.emit(index, numbers(3))
    assert told == [0]
    views[0].release()
    assert sorted(told) == [0, 1, 2]
    assert [read(view) for view in views[1:]] == [[2, 3], [2, 3]]


def test_a_flush_of_nothing_hurries_no_later_rows() -> None:
    result = partition(1, target_rows=4)
    (view,), told = lingering(result)
    result.flush_all()
    result.broadcast_event(MARK)
    assert read(view) == [MARK]
    result.emit(0, numbers(1, 2, 3, 4))
    assert (view.poll(), told) == (None, [0])

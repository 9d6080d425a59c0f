"""How a task reads its channels, here those of its own slot."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from actors.network.consumer.input_gate import InputGate, SingleInputGate, UnionInputGate
from actors.network.producer.result_partition import ResultPartition
from actors.protocol.elements import CheckpointBarrier, CheckpointOptions
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.config.options import BATCH_ROWS
from flinkray.errors import PartitionError
from tests.support.network import END, NetworkWorld, numbers, partition_descriptor, values_of

BARRIER = CheckpointBarrier(1, 0)


class Slot:
    """Some partitions of one subpartition each, and a gate that reads them all. Every batch is a buffer of its own."""

    def __init__(self, partitions: int) -> None:
        self.world = NetworkWorld("slot", configuration=Configuration({BATCH_ROWS.key: 1}))
        self.partitions: list[ResultPartition] = [
            self.world["slot"].create_partition(partition_descriptor(1, f"p{index}")) for index in range(partitions)
        ]
        self.gate: SingleInputGate = self.world.gate("slot", *((f"p{index}", 0, "slot") for index in range(partitions)))

    def put(self, channel: int, *rows: int) -> None:
        self.partitions[channel].emit(0, numbers(*rows))
        self.partitions[channel].flush_all()


def poll_all(gate: InputGate) -> list[tuple[int, Any]]:
    seen: list[tuple[int, Any]] = []
    while (polled := gate.poll()) is not None:
        seen += [(polled[0], value) for value in values_of(polled[1])]
    return seen


def test_a_poll_of_nothing_gives_nothing_and_makes_the_gate_unavailable() -> None:
    slot = Slot(1)
    assert slot.gate.poll() is None
    assert not slot.gate.availability.is_available


def test_the_gate_turns_available_when_a_channel_turns_readable() -> None:
    slot = Slot(2)
    poll_all(slot.gate)
    heard: list[int] = []
    slot.gate.availability.on_available(lambda: heard.append(1))
    slot.put(1, 7)
    slot.put(1, 8)
    assert heard == [1]
    assert poll_all(slot.gate) == [(1, 7), (1, 8)]


def test_a_channel_with_more_is_queued_again_behind_the_others() -> None:
    slot = Slot(2)
    for number in range(3):
        slot.put(0, number)
    slot.put(1, 10)
    slot.put(1, 11)
    assert poll_all(slot.gate) == [(0, 0), (1, 10), (0, 1), (1, 11), (0, 2)]


def test_a_local_channel_gives_the_very_batch_that_was_written() -> None:
    slot = Slot(1)
    batch = numbers(*range(100_000))
    slot.partitions[0].emit(0, batch)
    polled = slot.gate.poll()
    assert polled is not None
    assert polled[1] is batch


def test_the_gate_is_finished_when_every_channel_has_ended_and_is_available_from_then_on() -> None:
    slot = Slot(2)
    slot.put(0, 1)
    slot.partitions[0].finish()
    assert poll_all(slot.gate) == [(0, 1), (0, END)]
    assert not slot.gate.is_finished
    assert not slot.gate.availability.is_available
    slot.partitions[1].finish()
    assert poll_all(slot.gate) == [(1, END)]
    assert slot.gate.is_finished
    assert slot.gate.availability.is_available
    assert slot.gate.poll() is None


def test_a_consumed_partition_leaves_its_slot() -> None:
    slot = Slot(1)
    slot.put(0, 1)
    slot.partitions[0].finish()
    assert slot.world["slot"].unconsumed_partitions() == ("p0",)
    poll_all(slot.gate)
    assert slot.world["slot"].unconsumed_partitions() == ()


def test_nothing_comes_on_a_channel_behind_an_aligned_barrier_until_it_is_resumed() -> None:
    slot = Slot(2)
    slot.partitions[0].broadcast_event(BARRIER)
    slot.put(0, 1)
    slot.put(1, 2)
    assert poll_all(slot.gate) == [(0, BARRIER), (1, 2)]
    slot.put(0, 3)
    assert poll_all(slot.gate) == []
    slot.gate.resume_consumption(0)
    assert poll_all(slot.gate) == [(0, 1), (0, 3)]


def test_a_local_channel_waits_for_a_partition_that_is_registered_later() -> None:
    world = NetworkWorld("slot")
    gate = world.gate("slot", ("p", 0, "slot"))
    assert gate.poll() is None
    partition = world["slot"].create_partition(partition_descriptor(1))
    partition.emit(0, numbers(1))
    partition.finish()
    assert poll_all(gate) == [(0, 1), (0, END)]
    assert len(world.time.waiting) == 1, "only the look for stalls is left"


def test_a_partition_that_is_never_registered_fails_its_channel_by_name() -> None:
    world = NetworkWorld("slot")
    gate = world.gate("slot", ("p", 0, "slot"))
    world.time.advance(9_999)
    assert gate.poll() is None
    world.time.advance(1)
    with pytest.raises(PartitionError, match=r"channel consumer/0\.0 .*did not register the partition within 10000 ms"):
        gate.poll()


def test_a_released_gate_waits_for_nothing_and_gives_nothing() -> None:
    world = NetworkWorld("slot")
    gate = world.gate("slot", ("p", 0, "slot"))
    world["slot"].release_gate(gate)
    partition = world["slot"].create_partition(partition_descriptor(1))
    partition.emit(0, numbers(1, 2))
    assert gate.poll() is None
    assert gate.availability.is_available


def test_a_released_gate_lets_go_of_its_partitions() -> None:
    slot = Slot(1)
    slot.put(0, 1)
    slot.world["slot"].release_gate(slot.gate)
    assert slot.gate.poll() is None
    assert slot.world["slot"].unconsumed_partitions() == ()


def test_a_failed_producer_fails_its_consumers_with_its_cause() -> None:
    slot = Slot(2)
    slot.put(1, 1)
    assert poll_all(slot.gate) == [(1, 1)]
    slot.world["slot"].release_partition(slot.partitions[0].partition_id, ValueError("bad row"))
    assert slot.gate.availability.is_available
    with pytest.raises(PartitionError, match="p0 was released: ValueError: bad row"):
        slot.gate.poll()


def test_a_second_consumer_of_a_subpartition_is_refused() -> None:
    slot = Slot(1)
    second = slot.world.gate("slot", ("p0", 0, "slot"), attempt="another")
    with pytest.raises(PartitionError, match="consumed already"):
        second.poll()


def test_task_events_reach_all_producers() -> None:
    slot = Slot(2)
    heard: list[tuple[int, str]] = []
    for index, partition in enumerate(slot.partitions):
        partition.on_task_event = lambda event, index=index: heard.append((index, event))  # type: ignore[misc]
    slot.gate.send_task_event("superstep")
    assert heard == [(0, "superstep"), (1, "superstep")]


def test_statistics_of_a_channel_count_what_was_taken() -> None:
    slot = Slot(1)
    slot.put(0, 1, 2)
    slot.put(0, 3)
    slot.gate.poll()
    (channel,) = slot.gate.statistics()
    assert (channel.queued_buffers, channel.taken_buffers, channel.taken_bytes) == (1, 1, 16)
    assert channel.is_local
    assert channel.credit is None


class Union:
    """Two gates of two and one channels, as one."""

    def __init__(self) -> None:
        self.first, self.second = Slot(2), Slot(1)
        self.gate = UnionInputGate([self.first.gate, self.second.gate])


def test_a_union_counts_channels_through_and_takes_its_gates_in_turn() -> None:
    union = Union()
    for number in range(2):
        union.first.put(1, number)
        union.second.put(0, 10 + number)
    assert union.gate.number_of_channels == 3
    assert poll_all(union.gate) == [(1, 0), (2, 10), (1, 1), (2, 11)]


def test_a_union_turns_available_with_any_of_its_gates() -> None:
    union = Union()
    for slot in (union.first, union.second):
        assert union.gate.poll() is None
        assert not union.gate.availability.is_available
        slot.put(0, 5)
        assert union.gate.availability.is_available
        assert len(poll_all(union.gate)) == 1


def test_a_union_does_not_stay_available_because_one_gate_is_finished() -> None:
    union = Union()
    union.second.partitions[0].finish()
    assert poll_all(union.gate) == [(2, END)]
    assert not union.gate.availability.is_available
    assert not union.gate.is_finished
    for partition in union.first.partitions:
        partition.finish()
    assert poll_all(union.gate) == [(0, END), (1, END)]
    assert union.gate.is_finished
    assert union.gate.availability.is_available


def test_gates_of_a_union_that_have_nothing_are_not_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [Slot(1) for _ in range(50)]
    gate = UnionInputGate([slot.gate for slot in slots])
    slots[0].partitions[0].finish()
    assert poll_all(gate) == [(0, END)]
    polls: list[SingleInputGate] = []
    poll = SingleInputGate.poll

    def counted(polled: SingleInputGate) -> Any:
        polls.append(polled)
        return poll(polled)

    monkeypatch.setattr(SingleInputGate, "poll", counted)
    for number in range(10):
        slots[7].put(0, number)
        assert poll_all(gate) == [(7, number)]
    assert set(polls) == {slots[7].gate}
    assert len(polls) == 20
    for slot in slots[1:]:
        slot.partitions[0].finish()
    assert len(poll_all(gate)) == 49
    assert gate.is_finished


def test_a_union_resumes_the_channel_that_was_meant() -> None:
    union = Union()
    union.second.partitions[0].broadcast_event(BARRIER)
    union.second.put(0, 1)
    assert poll_all(union.gate) == [(2, BARRIER)]
    union.gate.resume_consumption(0)
    assert poll_all(union.gate) == []
    union.gate.resume_consumption(2)
    assert poll_all(union.gate) == [(2, 1)]


UNALIGNED = CheckpointBarrier(1, 0, CheckpointOptions(is_unaligned=True))
AT_LEAST_ONCE = CheckpointBarrier(1, 0, CheckpointOptions(is_exactly_once=False))


def rows_of(captured: dict[int, list[Batch]]) -> dict[int, list[Any]]:
    return {channel: [row for batch in batches for row in values_of(batch)] for channel, batches in captured.items()}


def test_a_barrier_that_overtakes_comes_before_rows_of_any_channel() -> None:
    slot = Slot(3)
    for channel in range(3):
        slot.put(channel, channel)
    slot.partitions[2].broadcast_barrier(UNALIGNED)
    slot.partitions[1].broadcast_barrier(UNALIGNED)
    assert poll_all(slot.gate) == [(2, UNALIGNED), (1, UNALIGNED), (0, 0), (1, 1), (2, 2)]


def test_a_barrier_that_overtakes_is_heard_of_while_rows_wait_and_can_be_taken_alone() -> None:
    slot = Slot(2)
    slot.put(0, 1)
    slot.put(1, 2)
    heard: list[int] = []
    slot.gate.priority.on_available(lambda: heard.append(1))
    slot.put(0, 3)
    assert heard == []
    assert slot.gate.poll_priority() is None
    slot.partitions[1].broadcast_barrier(UNALIGNED)
    assert heard == [1]
    assert slot.gate.poll_priority() == (1, UNALIGNED)
    assert slot.gate.poll_priority() is None
    assert not slot.gate.priority.is_available
    assert poll_all(slot.gate) == [(0, 1), (1, 2), (0, 3)]


def test_a_barrier_that_was_there_before_the_gate_is_heard_of() -> None:
    world = NetworkWorld("slot")
    partition = world["slot"].create_partition(partition_descriptor(1))
    partition.emit(0, numbers(1))
    partition.broadcast_barrier(UNALIGNED)
    gate = world.gate("slot", ("p", 0, "slot"))
    assert gate.priority.is_available
    assert gate.poll_priority() == (0, UNALIGNED)


def test_only_an_aligned_barrier_blocks_a_channel() -> None:
    slot = Slot(1)
    slot.partitions[0].broadcast_barrier(AT_LEAST_ONCE)
    slot.put(0, 1)
    slot.partitions[0].broadcast_barrier(UNALIGNED)
    slot.put(0, 2)
    assert poll_all(slot.gate) == [(0, UNALIGNED), (0, AT_LEAST_ONCE), (0, 1), (0, 2)]


def test_every_queued_aligned_barrier_is_resumed_for_itself() -> None:
    slot = Slot(1)
    barriers = [CheckpointBarrier(number, 0) for number in range(3)]
    for barrier in barriers:
        slot.partitions[0].broadcast_event(barrier)
    for barrier in barriers:
        slot.gate.resume_consumption(0)  # for none: no barrier has been polled since the last time
        assert poll_all(slot.gate) == [(0, barrier)]
        slot.gate.resume_consumption(0)
    assert poll_all(slot.gate) == []


def test_a_channel_that_has_ended_or_was_released_can_be_resumed() -> None:
    slot = Slot(2)
    slot.partitions[0].broadcast_event(BARRIER)
    slot.partitions[0].finish()
    slot.partitions[1].broadcast_event(BARRIER)
    assert poll_all(slot.gate) == [(0, BARRIER), (1, BARRIER)]
    slot.gate.resume_consumption(0)
    assert poll_all(slot.gate) == [(0, END)]
    slot.gate.resume_consumption(0)
    slot.world["slot"].release_gate(slot.gate)
    slot.gate.resume_consumption(1)
    assert slot.gate.poll() is None


def test_rows_that_wait_at_a_local_producer_are_captured_there_and_those_polled_before_its_barrier_here() -> None:
    slot = Slot(2)
    slot.put(0, 1)
    slot.put(1, 2)
    slot.partitions[0].broadcast_barrier(UNALIGNED)
    assert slot.gate.poll() == (0, UNALIGNED)
    slot.gate.begin_capture(1)
    slot.put(1, 3)
    assert not slot.gate.is_captured(1)
    assert poll_all(slot.gate) == [(0, 1), (1, 2), (1, 3)]
    slot.put(1, 4)
    overtaken = slot.partitions[1].broadcast_barrier(UNALIGNED)
    assert [row for batch in overtaken[0] for row in values_of(batch)] == [4]
    assert poll_all(slot.gate) == [(1, UNALIGNED), (1, 4)]
    assert slot.gate.is_captured(1)
    assert rows_of(slot.gate.end_capture(1)) == {1: [2, 3]}


def test_an_aligned_barrier_at_a_local_producer_overtakes_when_the_reader_captures() -> None:
    slot = Slot(1)
    slot.put(0, 1)
    slot.partitions[0].broadcast_event(BARRIER)
    slot.put(0, 2)
    slot.gate.begin_capture(1)
    assert slot.partitions[0].overtake(1) is None, "its rows are captured already"
    assert slot.gate.poll_priority() == (0, UNALIGNED)
    assert slot.gate.is_captured(1)
    assert rows_of(slot.gate.end_capture(1)) == {0: [1]}
    assert poll_all(slot.gate) == [(0, 1), (0, 2)]


def test_a_capture_ends_with_its_channels() -> None:
    slot = Slot(2)
    slot.put(0, 1)
    slot.partitions[0].finish()
    slot.partitions[1].finish()
    assert poll_all(slot.gate)[-2:] == [(1, END), (0, END)]
    slot.gate.begin_capture(1)
    assert slot.gate.is_captured(1)
    assert slot.gate.end_capture(1) == {}


def test_rows_of_a_producer_that_has_ended_are_captured_until_its_end() -> None:
    slot = Slot(1)
    slot.put(0, 1)
    slot.partitions[0].finish()
    assert slot.gate.unfinished_channels() == (0,)
    slot.gate.begin_capture(1)
    assert poll_all(slot.gate) == [(0, 1), (0, END)]
    assert slot.gate.unfinished_channels() == ()
    assert slot.gate.is_captured(1)
    assert rows_of(slot.gate.end_capture(1)) == {0: [1]}


def test_an_aborted_capture_lets_go_of_its_rows() -> None:
    slot = Slot(1)
    slot.gate.begin_capture(1)
    slot.put(0, 1)
    polled = slot.gate.poll()
    assert polled is not None
    assert isinstance(polled[1], Batch)
    batch = weakref.ref(polled[1].data)
    del polled
    assert batch() is not None
    slot.gate.end_capture(1)
    assert batch() is None
    slot.put(0, 2)
    slot.gate.poll()
    assert slot.gate.end_capture(1) == {}


def test_a_released_gate_has_no_barrier_to_give() -> None:
    slot = Slot(1)
    slot.partitions[0].broadcast_barrier(UNALIGNED)
    slot.world["slot"].release_gate(slot.gate)
    assert not slot.gate.priority.is_available
    assert slot.gate.poll_priority() is None


def test_a_union_gives_barriers_of_any_gate_before_rows() -> None:
    union = Union()
    heard: list[int] = []
    for number in range(2):
        union.gate.priority.on_available(lambda: heard.append(1))
        union.first.put(0, 1)
        union.second.put(0, 2)
        barrier = CheckpointBarrier(number, 0, UNALIGNED.options)
        union.second.partitions[0].broadcast_barrier(barrier)
        assert heard == [1] * (number + 1)
        assert union.gate.poll() == (2, barrier)
        assert len(poll_all(union.gate)) == 2
        assert union.gate.poll_priority() is None
        assert not union.gate.priority.is_available


def test_a_union_captures_under_the_numbers_of_its_channels() -> None:
    union = Union()
    union.gate.begin_capture(1)
    union.first.put(1, 1)
    union.second.put(0, 2)
    poll_all(union.gate)
    assert not union.gate.is_captured(1)
    for slot in (union.first, union.second):
        for partition in slot.partitions:
            partition.broadcast_barrier(UNALIGNED)
    union.second.partitions[0].finish()
    poll_all(union.gate)
    assert union.gate.is_captured(1)
    assert rows_of(union.gate.end_capture(1)) == {1: [1], 2: [2]}
    assert union.gate.unfinished_channels() == (0, 1)


# -- what is put back


def polled_rows(gate: InputGate) -> tuple[int, list[Any]]:
    polled = gate.poll()
    assert polled is not None
    return polled[0], values_of(polled[1])


def test_rows_that_are_put_back_come_before_all_others_and_are_consumed_with_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slot = Slot(2)
    recycled: list[int] = []
    for index, channel in enumerate(slot.gate.channels):
        monkeypatch.setattr(channel, "recycle", lambda index=index: recycled.append(index))
    slot.put(0, 1, 2, 3)
    slot.put(1, 4)
    assert polled_rows(slot.gate) == (0, [1, 2, 3])
    slot.gate.put_back(0, numbers(2, 3))
    assert polled_rows(slot.gate) == (0, [2, 3])
    slot.gate.put_back(0, numbers(3))
    assert polled_rows(slot.gate) == (0, [3])
    assert recycled == []
    slot.gate.recycle()
    assert recycled == [0]
    assert poll_all(slot.gate) == [(1, 4)]
    assert recycled == [0, 1]


def test_a_barrier_overtakes_what_is_put_back_which_is_captured_first() -> None:
    slot = Slot(1)
    slot.put(0, 1, 2)
    slot.put(0, 3)
    slot.gate.poll()
    slot.gate.put_back(0, numbers(2))
    overtaken = slot.partitions[0].broadcast_barrier(UNALIGNED)
    assert [row for batch in overtaken[0] for row in values_of(batch)] == [3]
    assert slot.gate.poll() == (0, UNALIGNED)
    slot.gate.begin_capture(1)
    assert poll_all(slot.gate) == [(0, 2), (0, 3)]
    assert rows_of(slot.gate.end_capture(1)) == {0: [2]}
    assert slot.gate.end_capture(1) == {}


def test_what_is_put_back_and_what_follows_until_the_barrier_is_captured_in_order() -> None:
    slot = Slot(2)
    slot.put(0, 1, 2)
    slot.gate.poll()
    slot.gate.put_back(0, numbers(2))
    slot.gate.begin_capture(1)
    slot.put(0, 3)
    assert poll_all(slot.gate) == [(0, 2), (0, 3)]
    assert rows_of(slot.gate.end_capture(1)) == {0: [2, 3]}


def test_rows_behind_a_barrier_that_was_read_are_no_part_of_its_checkpoint() -> None:
    slot = Slot(1)
    slot.partitions[0].broadcast_event(BARRIER)
    slot.put(0, 1, 2)
    assert slot.gate.poll() == (0, BARRIER)
    slot.gate.resume_consumption(0)
    slot.gate.poll()
    slot.gate.put_back(0, numbers(2))
    slot.gate.begin_capture(1)
    slot.gate.begin_capture(2)
    assert rows_of(slot.gate.end_capture(1)) == {}
    assert rows_of(slot.gate.end_capture(2)) == {0: [2]}


def test_a_union_puts_back_where_the_rows_came_from() -> None:
    union = Union()
    union.second.put(0, 1, 2)
    union.first.put(1, 3)
    channel, rows = polled_rows(union.gate)
    if channel != 2:
        channel, rows = polled_rows(union.gate)
    assert (channel, rows) == (2, [1, 2])
    union.gate.put_back(2, numbers(2))
    union.gate.begin_capture(1)
    assert (2, 2) in poll_all(union.gate)
    assert rows_of(union.gate.end_capture(1))[2] == [2]

"""Barriers between slots: what blocks, what overtakes, what is captured; and what is left of past attempts."""

from __future__ import annotations

from typing import Any

import pytest

from actors.network.consumer.input_gate import SingleInputGate
from actors.network.consumer.remote_channel import RemoteInputChannel
from actors.network.producer.result_partition import ResultPartition
from actors.protocol.data_messages import BufferEntry, Buffers, ChannelId, ResumeConsumption
from actors.protocol.elements import CheckpointBarrier, CheckpointOptions
from actors.protocol.ports import Address
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.errors import PartitionError
from tests.support.checkpoint_exchange import assert_nothing_left
from tests.support.network import END, NetworkWorld, drain, numbers, partition_descriptor, values_of

ALIGNED = CheckpointBarrier(1, 0)
UNALIGNED = CheckpointBarrier(1, 0, CheckpointOptions(is_unaligned=True))
AT_LEAST_ONCE = CheckpointBarrier(1, 0, CheckpointOptions(is_exactly_once=False))


class Remote:
    """Producers at slot `up`, of one subpartition each, and a gate at slot `down` that reads them all."""

    def __init__(self, producers: int = 1) -> None:
        configuration = Configuration(
            {
                "flinkray.batch.target-rows": 2,
                "taskmanager.network.memory.buffers-per-channel": 2,
                "taskmanager.network.memory.floating-buffers-per-gate": 0,
            }
        )
        self.world = NetworkWorld("up", "down", configuration=configuration)
        self.partitions: list[ResultPartition] = [
            self.world["up"].create_partition(partition_descriptor(1, f"p{index}")) for index in range(producers)
        ]
        self.gate: SingleInputGate = self.world.gate("down", *((f"p{index}", 0, "up") for index in range(producers)))
        self.world.settle()

    def put(self, *rows: int, producer: int = 0) -> None:
        for row in rows:
            self.partitions[producer].emit(0, numbers(row))
            self.partitions[producer].flush_all()

    def read(self) -> list[tuple[int, Any]]:
        return drain(self.world, self.gate)


def rows_of(captured: dict[int, list[Batch]]) -> dict[int, list[Any]]:
    return {channel: [row for batch in batches for row in values_of(batch)] for channel, batches in captured.items()}


def test_an_unaligned_barrier_needs_no_credit_and_waits_for_no_rows_on_either_side() -> None:
    remote = Remote(2)
    remote.put(0, 1, 2, 3, producer=0)
    remote.put(10, 11, 12, producer=1)
    remote.world.settle()
    (overtaken,) = remote.partitions[1].broadcast_barrier(UNALIGNED)
    assert [values_of(batch) for batch in overtaken] == [[12]], "two were sent on credit"
    remote.world.settle()
    assert remote.gate.poll() == (1, UNALIGNED)
    rows = remote.read()
    assert [row for channel, row in rows if channel == 0] == [0, 1, 2, 3]
    assert [row for channel, row in rows if channel == 1] == [10, 11, 12]


def test_rows_received_before_the_barrier_are_captured_and_those_that_it_overtook_are_not() -> None:
    remote = Remote()
    remote.put(0, 1, 2, 3)
    remote.world.settle()
    remote.partitions[0].broadcast_barrier(UNALIGNED)
    remote.world.settle()
    assert remote.gate.poll_priority() == (0, UNALIGNED)
    remote.gate.begin_capture(1)
    assert remote.gate.is_captured(1)
    assert [row for _, row in remote.read()] == [0, 1, 2, 3]
    assert rows_of(remote.gate.end_capture(1)) == {0: [0, 1]}


def test_rows_received_until_the_barrier_are_captured_whether_or_not_they_are_read() -> None:
    remote = Remote()
    remote.put(0)
    remote.world.settle()
    remote.gate.begin_capture(1)
    assert remote.read() == [(0, 0)]
    remote.put(1, 2, 3)
    remote.world.settle()
    assert not remote.gate.is_captured(1)
    remote.partitions[0].broadcast_barrier(UNALIGNED)
    remote.world.settle()
    assert remote.gate.is_captured(1), "though no barrier has been polled"
    assert rows_of(remote.gate.end_capture(1)) == {0: [0, 1, 2]}
    assert remote.read() == [(0, UNALIGNED), (0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize("has_come", [True, False])
def test_an_aligned_barrier_overtakes_captured_rows_and_blocks_nothing(has_come: bool) -> None:
    remote = Remote()
    remote.put(0)
    if not has_come:
        remote.world.settle()
        remote.gate.begin_capture(1)
    remote.partitions[0].broadcast_barrier(ALIGNED)
    remote.put(1)
    remote.world.settle()
    if has_come:
        assert not remote.gate.priority.is_available
        remote.gate.begin_capture(1)
        remote.world.settle()
    assert remote.gate.priority.is_available
    assert remote.gate.is_captured(1)
    assert remote.gate.poll_priority() == (0, UNALIGNED)
    assert remote.read() == [(0, 0), (0, 1)]
    assert rows_of(remote.gate.end_capture(1)) == {0: [0]}


def timed(timestamp_ms: int, is_unaligned: bool = False) -> CheckpointBarrier:
    return CheckpointBarrier(1, timestamp_ms, CheckpointOptions(aligned_timeout_ms=30, is_unaligned=is_unaligned))


def test_a_received_barrier_with_a_timeout_overtakes_when_its_time_is_up() -> None:
    remote = Remote()
    remote.put(0)
    remote.partitions[0].broadcast_barrier(timed(0))
    remote.world.settle()
    remote.world.time.advance(29)
    assert not remote.gate.priority.is_available
    remote.world.time.advance(1)
    assert remote.gate.poll_priority() == (0, timed(0, is_unaligned=True))
    remote.gate.begin_capture(1)
    remote.put(1)
    assert remote.read() == [(0, 0), (0, 1)], "it has not to be resumed"
    assert rows_of(remote.gate.end_capture(1)) == {0: [0]}


def test_a_barrier_whose_time_was_up_when_it_came_overtakes_at_once_but_only_rows() -> None:
    remote = Remote(2)
    remote.world.time.advance(30)
    remote.put(0, producer=0)
    for partition in remote.partitions:
        partition.broadcast_barrier(timed(0))
    remote.world.settle()
    assert remote.gate.poll() == (0, timed(0, is_unaligned=True))
    assert remote.read() == [(0, 0), (1, timed(0))], "the second has nothing to overtake"


def test_a_barrier_that_was_read_in_time_stays_aligned() -> None:
    remote = Remote()
    remote.put(0)
    remote.partitions[0].broadcast_barrier(timed(0))
    assert remote.read() == [(0, 0), (0, timed(0))]
    remote.put(1)
    remote.world.time.advance(30)
    assert remote.read() == []
    remote.gate.resume_consumption(0)
    assert remote.read() == [(0, 1)]


def test_an_aligned_barrier_that_waits_for_credit_behind_rows_can_overtake_them() -> None:
    remote = Remote()
    remote.put(0, 1, 2)
    remote.partitions[0].broadcast_barrier(ALIGNED)
    remote.put(3)
    remote.world.settle()
    overtaken = remote.partitions[0].overtake(1)
    assert overtaken is not None
    assert [values_of(batch) for batch in overtaken[0]] == [[2]]
    remote.world.settle()
    assert remote.gate.poll() == (0, UNALIGNED)
    assert remote.read() == [(0, row) for row in range(4)]


def test_taking_a_barrier_alone_gives_no_credit_back() -> None:
    remote = Remote()
    remote.put(0, 1, 2)
    remote.world.settle()
    remote.gate.poll()
    remote.partitions[0].broadcast_barrier(UNALIGNED)
    remote.world.settle()
    assert remote.gate.poll_priority() == (0, UNALIGNED)
    channel = remote.gate.channels[0]
    assert isinstance(channel, RemoteInputChannel)
    assert channel.credit.statistics().buffered == 2, "the batch that the task is at is not consumed yet"
    remote.gate.recycle()
    remote.world.settle()
    assert channel.credit.statistics().buffered == 2
    assert remote.partitions[0].statistics().queued_buffers == 0


def test_a_barrier_that_blocks_nothing_lets_rows_come_behind_it() -> None:
    remote = Remote()
    remote.partitions[0].broadcast_barrier(AT_LEAST_ONCE)
    remote.put(1)
    assert remote.read() == [(0, AT_LEAST_ONCE), (0, 1)]


def test_resuming_unblocks_exactly_one_channel() -> None:
    remote = Remote(2)
    for producer, partition in enumerate(remote.partitions):
        partition.broadcast_barrier(ALIGNED)
        remote.put(producer, producer=producer)
    assert remote.read() == [(0, ALIGNED), (1, ALIGNED)]
    remote.gate.resume_consumption(1)
    assert remote.read() == [(1, 1)]
    remote.gate.resume_consumption(0)
    assert remote.read() == [(0, 0)]


def test_resuming_twice_does_not_let_rows_through_behind_the_next_barrier() -> None:
    remote = Remote()
    second = CheckpointBarrier(2, 0)
    remote.partitions[0].broadcast_barrier(ALIGNED)
    remote.partitions[0].broadcast_barrier(second)
    remote.put(1)
    assert remote.read() == [(0, ALIGNED)]
    remote.gate.resume_consumption(0)
    remote.world.settle()
    remote.gate.resume_consumption(0)
    assert remote.read() == [(0, second)]
    remote.gate.resume_consumption(0)
    assert remote.read() == [(0, 1)]


def test_a_newer_barrier_passes_a_blocked_channel_which_stays_blocked() -> None:
    remote = Remote()
    newer = CheckpointBarrier(2, 0, UNALIGNED.options)
    remote.partitions[0].broadcast_barrier(ALIGNED)
    remote.put(1)
    assert remote.read() == [(0, ALIGNED)]
    remote.partitions[0].broadcast_barrier(newer)
    assert remote.read() == [(0, newer)]
    remote.gate.resume_consumption(0)
    assert remote.read() == [(0, 1)]


def test_a_blocked_channel_gives_credit_back_for_what_is_consumed() -> None:
    remote = Remote()
    remote.put(0, 1)
    remote.partitions[0].broadcast_barrier(ALIGNED)
    assert remote.read() == [(0, 0), (0, 1), (0, ALIGNED)]
    channel = remote.gate.channels[0]
    assert isinstance(channel, RemoteInputChannel)
    assert channel.credit.statistics().outstanding == 2


def test_a_blocked_channel_may_end_or_be_released_and_still_be_resumed() -> None:
    remote = Remote(2)
    for partition in remote.partitions:
        partition.broadcast_barrier(ALIGNED)
        partition.finish()
    assert remote.read() == [(0, ALIGNED), (1, ALIGNED)]
    remote.gate.resume_consumption(0)
    assert remote.read() == [(0, END)]
    remote.gate.resume_consumption(0)
    remote.world["down"].release_gate(remote.gate)
    remote.gate.resume_consumption(1)
    remote.world.settle()
    assert sum(isinstance(message, ResumeConsumption) for message in remote.world.sent) == 1
    for slot in ("up", "down"):
        assert_nothing_left(remote.world, slot)


def test_unread_bytes_are_counted() -> None:
    remote = Remote()
    remote.put(0, 1)
    remote.partitions[0].broadcast_barrier(UNALIGNED)
    remote.world.settle()
    (statistics,) = remote.gate.statistics()
    assert (statistics.queued_buffers, statistics.queued_bytes) == (3, 16)
    remote.gate.poll()
    remote.gate.poll()
    (statistics,) = remote.gate.statistics()
    assert (statistics.queued_buffers, statistics.queued_bytes) == (1, 8)


def test_captured_rows_hold_nothing_in_the_object_store_of_their_producer() -> None:
    world = NetworkWorld("up", "down", configuration=Configuration({"flinkray.network.inline-bytes": 0}))
    partition = world["up"].create_partition(partition_descriptor())
    gate = world.gate("down", ("p", 0, "up"))
    gate.begin_capture(1)
    partition.emit(0, numbers(1))
    partition.flush_all()
    assert drain(world, gate) == [(0, 1)]
    assert world.contexts[Address("up")].objects.alive == 0
    assert rows_of(gate.end_capture(1)) == {0: [1]}


# -- attempts that follow each other in the same slots ---------------------------------------------------------------


def test_a_second_attempt_runs_while_the_first_is_torn_down() -> None:
    world = NetworkWorld("up", "down")
    old = world["up"].create_partition(partition_descriptor(1, "d#0"))
    old_gate = world.gate("down", ("d#0", 0, "up"), attempt="reader_0")
    old.emit(0, numbers(1))
    old.broadcast_barrier(UNALIGNED)
    old_gate.begin_capture(1)
    new = world["up"].create_partition(partition_descriptor(1, "d#1"))
    new_gate = world.gate("down", ("d#1", 0, "up"), attempt="reader_1")
    new.emit(0, numbers(2))
    new.finish()
    old.release()
    world["down"].release_gate(old_gate)
    old_gate.end_capture(1)
    assert drain(world, new_gate) == [(0, 2), (0, END)]
    assert old_gate.poll() is None
    world["down"].release_gate(new_gate)
    world.settle()
    for slot in ("up", "down"):
        assert_nothing_left(world, slot)


def test_what_comes_for_channels_of_past_attempts_is_ignored() -> None:
    remote = Remote()
    gone = ChannelId("reader_0/0.0")
    remote.world.send(Address("up"), Address("down"), Buffers((BufferEntry(gone, 0, 0, ALIGNED),)), [])
    remote.world.send(Address("down"), Address("up"), ResumeConsumption((gone,)), [])
    remote.put(1)
    assert remote.read() == [(0, 1)]


def test_a_consumer_of_an_attempt_that_was_replaced_hears_so_in_the_end() -> None:
    world = NetworkWorld("up", "down")
    world["up"].create_partition(partition_descriptor(1, "d#0")).release("the first attempt failed")
    world["up"].create_partition(partition_descriptor(1, "d#1"))
    gate = world.gate("down", ("d#0", 0, "up"))
    for _ in range(120):
        world.settle()
        world.time.advance(100)
    with pytest.raises(PartitionError, match="subpartition 0 of d#0 at up"):
        gate.poll()
    world["down"].release_gate(gate)
    world["up"].release_partition(partition_descriptor(1, "d#1").partition_id)
    world.settle()
    for slot in ("up", "down"):
        assert_nothing_left(world, slot)


def test_a_slot_that_dies_leaves_nothing_behind_at_the_others() -> None:
    remote = Remote(2)
    remote.put(1)
    remote.partitions[0].broadcast_barrier(ALIGNED)
    remote.world.settle()
    remote.world.kill("up")
    remote.world.settle()
    remote.gate.resume_consumption(0)
    with pytest.raises(PartitionError, match="its slot up is gone: killed"):
        remote.read()
    remote.world["down"].release_gate(remote.gate)
    remote.world.settle()
    assert_nothing_left(remote.world, "down")


def test_a_consumer_that_dies_leaves_nothing_behind_at_its_producers() -> None:
    remote = Remote(2)
    remote.put(1)
    remote.partitions[0].broadcast_barrier(UNALIGNED)
    remote.world.settle()
    remote.world.kill("down")
    remote.world.settle()
    assert_nothing_left(remote.world, "up")

"""Two and more slots that exchange data by messages."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from actors.network.connections.sender import ANNOUNCE_AFTER_MS
from actors.network.consumer.input_gate import SingleInputGate
from actors.network.flow.debloating import FIRST_ROWS
from actors.network.producer.result_partition import ResultPartition
from actors.protocol.data_messages import (
    AddCredit,
    AnnounceBacklog,
    BufferEntry,
    Buffers,
    CancelSubpartition,
    ChannelId,
    NewBufferSize,
    RequestSubpartition,
    SubpartitionError,
)
from actors.protocol.elements import CheckpointBarrier, Watermark
from actors.protocol.ports import Address, DeliveryFailed
from flinkray.config.configuration import Configuration
from flinkray.errors import PartitionError
from flinkray.types.records import Timestamp
from tests.support.network import END, NetworkWorld, drain, numbers, partition_descriptor

BARRIER = CheckpointBarrier(1, 0)
MARK = Watermark(Timestamp(1))
CHANNEL = ChannelId("consumer/0.0")


def configured(**values: Any) -> Configuration:
    """Small buffers, so that few rows fill them; everything goes inline unless a test says otherwise."""
    settings: dict[str, object] = {
        "flinkray.batch.target-rows": 2,
        "taskmanager.network.memory.buffers-per-channel": 2,
        "taskmanager.network.memory.floating-buffers-per-gate": 0,
        "flinkray.network.frame-bytes": 0,
    }
    names = {
        "floating": "taskmanager.network.memory.floating-buffers-per-gate",
        "exclusive": "taskmanager.network.memory.buffers-per-channel",
        "inline": "flinkray.network.inline-bytes",
        "budget": "flinkray.network.bytes-in-flight",
        "target_bytes": "flinkray.batch.target-bytes",
        "target_rows": "flinkray.batch.target-rows",
        "frame": "flinkray.network.frame-bytes",
    }
    settings |= {names[name]: value for name, value in values.items()}
    return Configuration(settings)


class Pair:
    """A producer at slot `up`, and a consumer of its only subpartition at slot `down`."""

    def __init__(self, subpartitions: int = 1, **values: Any) -> None:
        self.world = NetworkWorld("up", "down", configuration=configured(**values))
        self.partition: ResultPartition = self.world["up"].create_partition(partition_descriptor(subpartitions))
        self.gate: SingleInputGate = self.world.gate("down", *(("p", index, "up") for index in range(subpartitions)))
        self.world.settle()

    def put(self, *rows: int, index: int = 0) -> None:
        self.partition.emit(index, numbers(*rows))
        self.partition.flush_all()

    def sent(self, kind: type) -> list[Any]:
        self.world.settle()
        return [message for message in self.world.sent if isinstance(message, kind)]

    @property
    def store(self) -> Any:
        return self.world.contexts[Address("up")].objects


def test_rows_and_events_arrive_in_order() -> None:
    pair = Pair()
    pair.put(1, 2)
    pair.partition.broadcast_event(MARK)
    pair.put(3)
    pair.partition.finish()
    assert drain(pair.world, pair.gate) == [(0, 1), (0, 2), (0, MARK), (0, 3), (0, END)]
    assert pair.gate.is_finished


def test_no_more_is_sent_than_the_receiver_granted() -> None:
    pair = Pair()
    for number in range(5):
        pair.put(number)
    pair.world.settle()
    (channel,) = pair.gate.statistics()
    assert channel.queued_buffers == 2
    (reader,) = pair.world["up"].statistics().readers
    assert (reader.credit_available, reader.backlog, reader.sent_buffers) == (0, 3, 2)


def test_credit_is_returned_when_the_batch_has_been_consumed_not_when_it_was_read() -> None:
    pair = Pair(exclusive=1)
    pair.put(1)
    pair.put(2)
    pair.world.settle()
    assert pair.gate.poll() is not None
    assert pair.sent(AddCredit) == []
    pair.gate.recycle()
    assert pair.sent(AddCredit) == [AddCredit(((CHANNEL, 1),))]


def test_the_next_poll_counts_as_consumption() -> None:
    pair = Pair(exclusive=1)
    pair.put(1)
    pair.world.settle()
    pair.gate.poll()
    assert pair.gate.poll() is None
    assert pair.sent(AddCredit) == [AddCredit(((CHANNEL, 1),))]


def test_events_are_not_stuck_behind_missing_credit() -> None:
    pair = Pair(exclusive=1)
    pair.put(1)
    pair.world.settle()
    pair.partition.broadcast_event(MARK)
    pair.partition.broadcast_event(MARK)
    pair.world.settle()
    assert [pair.gate.poll() for _ in range(3)][1:] == [(0, MARK), (0, MARK)]


def test_a_consumer_that_stops_makes_its_producer_unavailable_and_starts_it_again() -> None:
    pair = Pair()
    number = 0
    while pair.partition.is_available:
        pair.put(number)
        pair.world.settle()
        number += 1
    assert number == 4, "two in flight, and two in the partition's queue"
    woken: list[int] = []
    pair.partition.availability.on_available(lambda: woken.append(1))
    pair.gate.poll()
    pair.gate.recycle()
    pair.world.settle()
    assert woken == [1]
    assert pair.partition.is_available


def test_a_backlog_brings_floating_buffers() -> None:
    pair = Pair(exclusive=1, floating=3)
    for number in range(6):
        pair.put(number)
    pair.world.settle()
    (channel,) = pair.gate.statistics()
    assert channel.queued_buffers == 4, "the exclusive buffer and three floating ones"


def test_data_that_waits_long_without_credit_is_announced_once() -> None:
    pair = Pair(exclusive=1)
    pair.put(1)
    pair.world.settle()
    pair.put(2)
    pair.put(3)
    assert pair.sent(AnnounceBacklog) == []
    for _ in range(3):
        pair.world.time.advance(ANNOUNCE_AFTER_MS)
        assert pair.sent(AnnounceBacklog) == [AnnounceBacklog(((CHANNEL, 2),))]
        pair.put(4, 5)


def test_data_that_gets_credit_in_time_is_not_announced_and_what_waits_after_it_has_a_time_of_its_own() -> None:
    pair = Pair(exclusive=1)
    for number in range(2):
        pair.put(number)
        pair.world.settle()
    pair.world.time.advance(ANNOUNCE_AFTER_MS / 2)
    pair.gate.poll()
    pair.gate.recycle()
    pair.world.settle()
    pair.put(2)
    pair.world.settle()
    pair.world.time.advance(ANNOUNCE_AFTER_MS / 2)
    assert pair.sent(AnnounceBacklog) == []
    pair.world.time.advance(ANNOUNCE_AFTER_MS)
    assert pair.sent(AnnounceBacklog) == [AnnounceBacklog(((CHANNEL, 1),))]


def test_rows_that_come_while_there_is_no_credit_go_as_one_buffer() -> None:
    pair = Pair(exclusive=1, target_rows=100)
    for number in range(1 + FIRST_ROWS):
        pair.put(number)
        pair.world.settle()
    assert drain(pair.world, pair.gate) == [(0, number) for number in range(1 + FIRST_ROWS)]
    assert [len(message.entries) for message in pair.sent(Buffers)] == [1, 1]


def test_a_channel_that_the_byte_budget_left_without_credit_gets_one_when_it_has_data() -> None:
    pair = Pair(subpartitions=3, budget=16, target_bytes=16, exclusive=1)
    assert [request.credit for request in pair.sent(RequestSubpartition)] == [1, 0, 0]
    for number in range(3):
        pair.put(number, index=2)
    pair.world.settle()
    pair.world.time.advance(ANNOUNCE_AFTER_MS)
    assert drain(pair.world, pair.gate) == [(2, 0), (2, 1), (2, 2)]
    pair.put(3, index=1)
    pair.world.settle()
    pair.world.time.advance(ANNOUNCE_AFTER_MS)
    assert drain(pair.world, pair.gate) == [(1, 3)]


def test_one_message_carries_buffers_of_all_channels_a_buffer_of_each_in_turn() -> None:
    pair = Pair(subpartitions=3)
    for index in range(3):
        pair.put(index, index=index)
        pair.put(index, index=index)
    before = len(pair.world.sent)
    pair.world.settle()
    messages = [message for message in pair.world.sent[before:] if isinstance(message, Buffers)]
    assert [entry.channel_id[-1] for entry in messages[0].entries] == ["0", "1", "2", "0", "1", "2"]
    assert len(messages) == 1


def test_one_slow_channel_does_not_block_the_others_on_the_connection() -> None:
    world = NetworkWorld("up", "down", configuration=configured())
    partition = world["up"].create_partition(partition_descriptor(2))
    slow = world.gate("down", ("p", 0, "up"), attempt="slow")
    fast = world.gate("down", ("p", 1, "up"), attempt="fast")
    for number in range(20):
        partition.emit(0, numbers(number))
        partition.emit(1, numbers(number))
        partition.flush_all()
    assert drain(world, fast) == [(0, number) for number in range(20)]
    assert slow.statistics()[0].queued_buffers == 2


def test_small_batches_travel_inside_the_message_and_large_ones_through_the_object_store() -> None:
    pair = Pair(inline=8)
    pair.put(1)
    pair.put(2, 3)
    (message,) = pair.sent(Buffers)
    small, large = message.entries
    assert (small.payload_index, large.element, large.payload_index) == (-1, None, 0)
    assert pair.store.puts == 1
    assert drain(pair.world, pair.gate) == [(0, 1), (0, 2), (0, 3)]


def test_large_batches_that_go_together_are_one_object() -> None:
    pair = Pair(subpartitions=2, inline=0, exclusive=4, frame=100)
    pair.partition.emit(0, numbers(1, 2))
    pair.partition.emit(1, numbers(3, 4))
    pair.partition.emit(0, numbers(5, 6))
    assert pair.sent(Buffers) == []
    pair.partition.flush_all()
    (message,) = pair.sent(Buffers)
    assert [(entry.payload_index, entry.position) for entry in message.entries] == [(0, 0), (0, 1), (0, 2)]
    assert pair.store.puts == 1
    assert sorted(drain(pair.world, pair.gate)) == [(0, 1), (0, 2), (0, 5), (0, 6), (1, 3), (1, 4)]
    assert pair.store.alive == 0


def test_a_broadcast_is_put_into_the_object_store_once() -> None:
    pair = Pair(subpartitions=3, inline=0)
    pair.partition.broadcast(numbers(1, 2))
    assert sorted(drain(pair.world, pair.gate)) == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert pair.store.puts == 1


def test_the_sender_lets_go_of_a_batch_when_it_has_told_the_last_consumer() -> None:
    pair = Pair(subpartitions=2, inline=0, exclusive=1)
    for number in (1, 3):
        pair.partition.broadcast(numbers(number, number + 1))
    pair.world.settle()
    assert pair.store.puts == 1, "only the first was sent, for lack of credit"
    assert pair.store.alive == 0
    drain(pair.world, pair.gate)
    assert (pair.store.puts, pair.store.alive) == (2, 0)


def test_the_byte_budget_of_the_slot_bounds_what_is_in_flight() -> None:
    # Target 16 bytes a batch: the budget has room for three credits, two channels would like two each.
    pair = Pair(subpartitions=2, budget=48, target_bytes=16)
    requests = pair.sent(RequestSubpartition)
    assert [request.credit for request in requests] == [2, 1]
    for number in range(6):
        pair.put(number, number, index=number % 2)
    assert len(drain(pair.world, pair.gate)) == 12
    assert pair.world["down"].statistics().bytes_reserved <= 48


def test_what_is_behind_an_aligned_barrier_stays_at_the_producer_until_consumption_is_resumed() -> None:
    pair = Pair()
    pair.partition.broadcast_event(BARRIER)
    pair.put(1)
    assert drain(pair.world, pair.gate) == [(0, BARRIER)]
    assert pair.partition.statistics().queued_buffers == 1
    pair.gate.resume_consumption(0)
    assert drain(pair.world, pair.gate) == [(0, 1)]


def test_a_partition_that_is_not_registered_yet_is_asked_for_again_with_all_credit() -> None:
    world = NetworkWorld("up", "down", configuration=configured())
    gate = world.gate("down", ("p", 0, "up"))
    for _ in range(5):
        world.settle()
        world.time.advance(10)
    partition = world["up"].create_partition(partition_descriptor())
    partition.emit(0, numbers(1, 2))
    assert drain(world, gate) == []
    world.time.advance(50)
    assert drain(world, gate) == [(0, 1), (0, 2)]
    requests = [message for message in world.sent if isinstance(message, RequestSubpartition)]
    assert len(requests) > 2
    assert {request.credit for request in requests} == {2}


def test_waiting_for_a_partition_ends_with_an_error() -> None:
    world = NetworkWorld("up", "down", configuration=configured())
    gate = world.gate("down", ("p", 0, "up"))
    asked = 0
    for _ in range(120):
        world.settle()
        world.time.advance(100)
    with pytest.raises(PartitionError, match=r"subpartition 0 of p at up\): its producer did not register"):
        gate.poll()
    asked = sum(isinstance(message, RequestSubpartition) for message in world.sent)
    assert 10 < asked < 30, "the delay doubles up to a second"


def test_a_gap_in_the_sequence_fails_the_channel_by_name() -> None:
    pair = Pair()
    pair.world.is_credit_checked = False
    entry = BufferEntry(CHANNEL, 3, 0, numbers(1), nbytes=8)
    pair.world["down"].on_message(Buffers((entry,)), [])
    pair.world.settle()
    with pytest.raises(PartitionError, match=r"channel consumer/0\.0 .*: buffer 0 was to come, and 3 came"):
        pair.gate.poll()
    assert pair.sent(CancelSubpartition) == [CancelSubpartition((CHANNEL,))]


def test_data_beyond_the_credit_fails_the_channel() -> None:
    pair = Pair()
    pair.world.is_credit_checked = False
    entries = tuple(BufferEntry(CHANNEL, number, 0, numbers(1), nbytes=8) for number in range(3))
    pair.world["down"].on_message(Buffers(entries), [])
    pair.world.settle()
    with pytest.raises(PartitionError, match="without credit"):
        pair.gate.poll()


def test_data_for_a_channel_that_is_gone_is_dropped() -> None:
    pair = Pair()
    pair.put(1)
    pair.world["down"].release_gate(pair.gate)
    assert pair.sent(CancelSubpartition) == [CancelSubpartition((CHANNEL,))]
    assert pair.world["up"].statistics().readers == ()
    assert pair.world["up"].unconsumed_partitions() == ()
    assert pair.world["down"].statistics().bytes_reserved == 0


def test_a_producer_that_fails_fails_its_remote_consumers_with_its_cause() -> None:
    pair = Pair()
    pair.world["up"].release_partition(pair.partition.partition_id, ValueError("bad row"))
    pair.world.settle()
    with pytest.raises(PartitionError, match=r"channel consumer/0\.0 .*p was released: ValueError: bad row"):
        pair.gate.poll()


def test_a_lost_producer_slot_fails_its_channels() -> None:
    pair = Pair()
    pair.put(1)
    pair.world.kill("up")
    pair.world.settle()
    with pytest.raises(PartitionError, match="its slot up is gone: killed"):
        pair.gate.poll()


def test_a_partition_stays_in_its_slot_until_its_last_element_has_been_read_elsewhere() -> None:
    pair = Pair()
    pair.partition.finish()
    pair.world.settle()
    assert pair.world["up"].unconsumed_partitions() == ("p",)
    drain(pair.world, pair.gate)
    assert pair.world["up"].unconsumed_partitions() == ()


def test_a_slot_that_goes_after_everything_has_arrived_fails_nobody() -> None:
    pair = Pair()
    pair.put(1)
    pair.partition.finish()
    pair.world.settle()
    pair.world.kill("up")
    assert drain(pair.world, pair.gate) == [(0, 1), (0, END)]
    assert pair.world["down"].statistics().bytes_reserved == 0


@pytest.mark.parametrize("message", [AddCredit(((CHANNEL, 1),)), NewBufferSize(((CHANNEL, 1),))])
def test_what_a_producer_does_not_hear_fails_the_channel(message: Any) -> None:
    pair = Pair()
    pair.world.is_credit_checked = False
    pair.world["down"].on_delivery_failed(DeliveryFailed(Address("up"), message, "ActorUnavailableError"))
    pair.world.settle()
    with pytest.raises(PartitionError, match="its producer cannot be reached: ActorUnavailableError"):
        pair.gate.poll()


def test_a_credit_that_does_not_arrive_fails_no_channel_that_has_everything() -> None:
    pair = Pair()
    pair.put(1)
    pair.partition.finish()
    pair.world.settle()
    lost = DeliveryFailed(Address("up"), AddCredit(((CHANNEL, 1),)), "ActorUnavailableError")
    pair.world["down"].on_delivery_failed(lost)
    assert drain(pair.world, pair.gate) == [(0, 1), (0, END)]


def test_a_lost_consumer_slot_fails_the_writers_that_fed_it() -> None:
    pair = Pair(subpartitions=2)
    pair.world.kill("down")
    pair.world.settle()
    with pytest.raises(PartitionError, match="its consumer's slot down is gone: killed"):
        pair.put(1)
    assert pair.partition.is_available, "a writer that waited for room must run into the error"


def test_a_lost_slot_leaves_the_channels_of_other_slots_alone() -> None:
    world = NetworkWorld("up", "other", "down", configuration=configured())
    world["up"].create_partition(partition_descriptor(1, "p"))
    other = world["other"].create_partition(partition_descriptor(1, "q"))
    gate = world.gate("down", ("p", 0, "up"), attempt="first")
    spared = world.gate("down", ("q", 0, "other"), attempt="second")
    world.settle()
    world.kill("up")
    other.emit(0, numbers(1, 2))
    assert drain(world, spared) == [(0, 1), (0, 2)]
    with pytest.raises(PartitionError):
        gate.poll()


def test_buffers_that_did_not_arrive_fail_both_ends() -> None:
    pair = Pair()
    lost = Buffers((BufferEntry(CHANNEL, 0, 0, None, 0, 100),))
    pair.world["up"].on_delivery_failed(DeliveryFailed(Address("down"), lost, "ObjectLostError"))
    pair.world.settle()
    with pytest.raises(PartitionError, match=r"buffers for consumer/0\.0 were lost on the way: ObjectLostError"):
        pair.gate.poll()
    with pytest.raises(PartitionError, match="ObjectLostError"):
        pair.put(1)


def test_a_request_that_cannot_be_delivered_fails_the_channel() -> None:
    world = NetworkWorld("down")
    gate = world.gate("down", ("p", 0, "nowhere"))
    world.settle()
    with pytest.raises(PartitionError, match="its producer cannot be reached: no such slot"):
        gate.poll()


def test_a_batch_that_the_object_store_refuses_fails_both_ends() -> None:
    pair = Pair(inline=0)
    pair.store.error = MemoryError("object store is full")
    pair.put(1)
    pair.world.settle()
    with pytest.raises(PartitionError, match="a batch cannot be sent: MemoryError: object store is full"):
        pair.gate.poll()
    with pytest.raises(PartitionError, match="object store is full"):
        pair.put(2)


def test_an_error_for_an_unknown_channel_is_ignored() -> None:
    pair = Pair()
    pair.world["down"].on_message(SubpartitionError(ChannelId("gone"), "cause"), [])
    pair.put(1)
    assert drain(pair.world, pair.gate) == [(0, 1)]


def test_a_slot_is_watched_once_by_each_that_exchanges_data_with_it() -> None:
    pair = Pair(subpartitions=3)
    assert pair.world.contexts[Address("down")].watched == ["up"]
    assert pair.world.contexts[Address("up")].watched == ["down"]


def test_task_events_reach_a_producer_in_another_slot() -> None:
    pair = Pair()
    heard: list[str] = []
    pair.partition.on_task_event = heard.append
    pair.gate.send_task_event("superstep")
    pair.world.settle()
    assert heard == ["superstep"]


def test_a_channel_that_stalls_is_reported_once_by_each_end_that_holds_data(caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair(exclusive=1)
    pair.put(1)
    pair.put(2)
    with caplog.at_level(logging.WARNING, logger="actors.network.connections.environment"):
        for _ in range(20):
            pair.world.settle()
            pair.world.time.advance(5_000)
    assert sorted(record.getMessage().split(" has had")[0] for record in caplog.records) == [
        "channel consumer/0.0 (subpartition 0 of p at up)",
        "the sending end of channel consumer/0.0",
    ]
    assert "credit_available=0" in caplog.text
    assert "outstanding=0" in caplog.text


def test_a_channel_that_moves_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair(exclusive=1)
    with caplog.at_level(logging.WARNING, logger="actors.network.connections.environment"):
        for number in range(20):
            pair.put(number)
            drain(pair.world, pair.gate)
            pair.put(number)
            pair.world.time.advance(20_000)
            pair.world.settle()
    assert caplog.records == []


def test_rows_that_linger_for_ever_are_no_stall(caplog: pytest.LogCaptureFixture) -> None:
    pair = Pair(frame=100)
    pair.partition.emit(0, numbers(1, 2))
    with caplog.at_level(logging.WARNING, logger="actors.network.connections.environment"):
        for _ in range(20):
            pair.world.settle()
            pair.world.time.advance(5_000)
    assert (caplog.records, pair.sent(Buffers)) == ([], [])


def test_no_timer_is_left_when_nothing_could_stall() -> None:
    pair = Pair()
    pair.partition.finish()
    drain(pair.world, pair.gate)
    pair.world["down"].release_gate(pair.gate)
    pair.world.time.advance(30_000)
    pair.world.settle()
    assert pair.world.time.waiting == []


def test_shutdown_ends_the_loop_and_tells_the_others() -> None:
    pair = Pair()
    pair.put(1)
    pair.world["down"].shutdown()
    pair.world.settle()
    assert pair.world["down"].loop.is_done
    assert not pair.world["up"].loop.is_done
    assert pair.world["up"].statistics().readers == ()
    pair.world["up"].shutdown()
    pair.world.settle()
    assert pair.world.time.waiting == []


def test_a_bug_in_the_loop_is_fatal_for_the_slot() -> None:
    pair = Pair()

    def bug() -> None:
        raise RuntimeError("bug")

    pair.world["up"].loop.post(bug)
    with pytest.raises(AssertionError, match="a command of the network loop raised"):
        pair.world["up"].loop.step()
    assert pair.world["up"].loop.is_done


@pytest.mark.parametrize("consumer", ["up", "down"])
def test_a_producer_hears_how_many_rows_buffers_should_have(consumer: str) -> None:
    world = NetworkWorld("up", "down", configuration=configured(target_rows=100))
    partition = world["up"].create_partition(partition_descriptor())
    assert partition.buffer_rows == FIRST_ROWS
    gate = world.gate(consumer, ("p", 0, "up"))
    world.settle()
    for rows in (100, 5):
        gate.set_buffer_rows(rows)
        world.settle()
        assert partition.buffer_rows == rows


@pytest.mark.parametrize("consumer", ["up", "down"])
def test_a_producer_that_comes_later_hears_it_too(consumer: str) -> None:
    world = NetworkWorld("up", "down", configuration=configured(target_rows=100))
    gate = world.gate(consumer, ("p", 0, "up"))
    world.settle()
    gate.set_buffer_rows(7)
    world.settle()
    partition = world["up"].create_partition(partition_descriptor())
    world.time.advance(1_000)
    world.settle()
    assert partition.buffer_rows == 7


def test_sizes_are_told_in_one_message_and_before_the_credits() -> None:
    pair = Pair(subpartitions=2, target_rows=100)
    for index in range(2):
        pair.put(*range(3), index=index)
        pair.put(*range(3), index=index)
    pair.world.settle()
    while pair.gate.poll() is not None:
        pass
    pair.gate.recycle()
    pair.gate.set_buffer_rows(3)
    pair.gate.set_buffer_rows(4)
    pair.world.settle()
    assert len(pair.sent(NewBufferSize)) == 1
    kinds = [type(message) for message in pair.world.sent]
    assert kinds.index(NewBufferSize) < kinds.index(AddCredit)
    assert pair.partition.buffer_rows == 4

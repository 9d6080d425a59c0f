"""When rows become readable, and how large buffers get."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from actors.network.producer.record_writer import RecordWriter
from actors.network.producer.result_partition import ResultPartition
from actors.protocol.elements import LatencyMarker, Watermark
from flinkray.errors import PartitionError
from flinkray.transformations.partitioning import (
    BroadcastPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    Partitioner,
    RebalancePartitioner,
    ShufflePartitioner,
)
from flinkray.types.records import Timestamp
from tests.support.network import ManualTime, numbers, partition, values_of


class Exchange:
    """A writer and everything that its consumers can read."""

    def __init__(
        self, partitioner: Partitioner | None = None, *, channels: int = 1, timeout_ms: int = 100, target_rows: int = 10
    ) -> None:
        self.time = ManualTime()
        self.partition: ResultPartition = partition(channels, target_rows=target_rows, max_buffers=100)
        self.views = [self.partition.create_view(index, lambda: None) for index in range(channels)]
        self.writer = RecordWriter(
            self.partition,
            partitioner or ForwardPartitioner(),
            buffer_timeout_ms=timeout_ms,
            timers=self.time,
            target_rows=target_rows,
            target_bytes=1 << 20,
            generator=random.Random(0),
            where="map (1/2)",
        )

    def read(self, channel: int = 0) -> list[list[Any]]:
        seen: list[list[Any]] = []
        while (polled := self.views[channel].poll()) is not None:
            seen.append(values_of(polled.buffer.element))
        return seen


def test_rows_wait_for_more_until_the_buffer_timeout() -> None:
    exchange = Exchange()
    exchange.writer.emit(numbers(1))
    exchange.time.advance(60)
    exchange.writer.emit(numbers(2))
    exchange.time.advance(39)
    assert exchange.read() == []
    exchange.time.advance(1)
    assert exchange.read() == [[1, 2]]


def test_a_full_buffer_does_not_wait() -> None:
    exchange = Exchange(target_rows=3)
    exchange.writer.emit(numbers(1))
    exchange.writer.emit(numbers(2, 3))
    assert exchange.read() == [[1], [2, 3]]


def test_timeout_zero_makes_every_batch_readable_at_once() -> None:
    exchange = Exchange(timeout_ms=0)
    for number in (1, 2):
        exchange.writer.emit(numbers(number))
        assert exchange.read() == [[number]]
    assert exchange.time.waiting == []


def test_rows_that_nobody_read_yet_are_joined_by_those_that_come() -> None:
    exchange = Exchange(timeout_ms=0)
    exchange.writer.emit(numbers(1))
    exchange.writer.emit(numbers(2))
    assert exchange.read() == [[1, 2]]


def test_rows_that_join_readable_ones_still_have_their_timeout() -> None:
    exchange = Exchange()
    exchange.writer.emit(numbers(1))
    exchange.time.advance(100)
    exchange.writer.emit(numbers(2))
    assert len(exchange.time.waiting) == 1
    assert exchange.read() == [[1, 2]]


def test_a_negative_timeout_waits_for_full_buffers_or_events() -> None:
    exchange = Exchange(timeout_ms=-1)
    exchange.writer.emit(numbers(1))
    assert exchange.time.waiting == []
    exchange.writer.broadcast_event(Watermark(Timestamp(1)))
    assert exchange.read() == [[1], [Watermark(Timestamp(1))]]


def test_the_flush_timer_runs_only_while_something_waits() -> None:
    exchange = Exchange(target_rows=2)
    exchange.writer.emit(numbers(1, 2))
    assert exchange.time.waiting == [], "a full buffer left nothing waiting"
    exchange = Exchange()
    exchange.writer.emit(numbers(1))
    exchange.writer.emit(numbers(2))
    assert len(exchange.time.waiting) == 1
    exchange.time.advance(100)
    assert exchange.time.waiting == []
    assert exchange.read() == [[1, 2]]
    exchange.writer.emit(numbers(3))
    exchange.time.advance(100)
    assert exchange.read() == [[3]]


def test_a_closed_writer_has_no_timer() -> None:
    exchange = Exchange()
    exchange.writer.close()
    exchange.writer.emit(numbers(1))
    exchange.writer.close()
    assert exchange.time.waiting == []


def test_events_flush_what_is_before_them_on_every_channel() -> None:
    exchange = Exchange(RebalancePartitioner(), channels=2)
    exchange.writer.emit(numbers(1, 2))
    mark = Watermark(Timestamp(1))
    exchange.writer.broadcast_event(mark)
    rows = [exchange.read(0), exchange.read(1)]
    assert [part[1:] for part in rows] == [[[mark]], [[mark]]]
    assert sorted(part[0] for part in rows) == [[1], [2]]


def test_a_batch_beyond_four_times_the_target_is_cut_evenly() -> None:
    exchange = Exchange(target_rows=10)
    exchange.writer.emit(numbers(*range(40)))
    exchange.writer.emit(numbers(*range(41)))
    assert [len(piece) for piece in exchange.read()] == [40, 21, 20]


def test_what_each_channel_gets_is_cut_not_what_comes() -> None:
    exchange = Exchange(ShufflePartitioner(), channels=2, target_rows=10)
    exchange.writer.emit(numbers(*range(70)))
    parts = [exchange.read(channel) for channel in range(2)]
    assert sorted(row for part in parts for piece in part for row in piece) == list(range(70))
    assert [len(part) for part in parts] == [1, 1]


def test_bytes_are_cut_too() -> None:
    result = partition(1, target_rows=1_000, target_bytes=16, max_buffers=100)
    view = result.create_view(0, lambda: None)
    writer = RecordWriter(
        result,
        ForwardPartitioner(),
        buffer_timeout_ms=0,
        timers=ManualTime(),
        target_rows=1_000,
        target_bytes=16,
        generator=random.Random(0),
        where="map (1/2)",
    )
    writer.emit(numbers(*range(9)))  # of 8 bytes each
    sizes = []
    while (polled := view.poll()) is not None:
        sizes.append(polled.buffer.nbytes)
    assert sum(sizes) == 72
    assert max(sizes) <= 4 * 16


def test_a_broadcast_reaches_every_channel() -> None:
    exchange = Exchange(BroadcastPartitioner(), channels=3, timeout_ms=0)
    exchange.writer.emit(numbers(1, 2))
    assert [exchange.read(channel) for channel in range(3)] == [[[1, 2]]] * 3


def test_a_latency_marker_goes_to_one_channel_at_random() -> None:
    exchange = Exchange(RebalancePartitioner(), channels=4)
    for number in range(40):
        exchange.writer.emit_latency_marker(LatencyMarker(number, "source", 0))
    counts = [len(exchange.read(channel)) for channel in range(4)]
    assert sum(counts) == 40
    assert min(counts) > 0


def test_an_empty_batch_is_not_sent() -> None:
    exchange = Exchange(timeout_ms=0)
    exchange.writer.emit(numbers())
    assert exchange.read() == []


def test_the_writer_is_available_while_its_partition_has_room() -> None:
    exchange = Exchange(timeout_ms=0)
    for number in range(100):
        assert exchange.writer.is_available
        exchange.writer.emit(numbers(number))
    assert not exchange.writer.is_available
    assert not exchange.writer.availability.is_available


def test_a_released_partition_fails_its_writer_with_the_cause() -> None:
    exchange = Exchange()
    exchange.writer.emit(numbers(1))
    exchange.partition.release("its consumer is gone")
    exchange.time.advance(100)
    with pytest.raises(PartitionError, match="its consumer is gone"):
        exchange.writer.emit(numbers(2))


@pytest.mark.parametrize(
    ("partitioner", "expected"), [(RebalancePartitioner(), 12), (BroadcastPartitioner(), 4), (GlobalPartitioner(), 4)]
)
def test_where_buffers_are_to_be_small_a_writer_wants_one_for_each_consumer(
    partitioner: Partitioner, expected: int
) -> None:
    exchange = Exchange(partitioner, channels=3)
    assert exchange.writer.rows_wanted == math.inf
    for view in exchange.views:
        view.set_buffer_rows(2)
    exchange.views[1].set_buffer_rows(4)  # one that has had no rows yet says nothing
    assert exchange.writer.rows_wanted == expected
    exchange.writer.emit(numbers(*range(7)))
    assert exchange.writer.rows_written == 7


def test_rows_are_collected_up_to_what_their_consumer_said_last() -> None:
    exchange = Exchange()
    exchange.views[0].set_buffer_rows(4)
    for number in range(6):
        exchange.writer.emit(numbers(number))
    assert exchange.read() == [[0, 1, 2, 3]]
    exchange.views[0].set_buffer_rows(2)
    exchange.writer.emit(numbers(6))
    assert exchange.read() == [[4, 5], [6]]


def test_broadcast_rows_are_collected_up_to_what_one_of_the_consumers_wants() -> None:
    exchange = Exchange(BroadcastPartitioner(), channels=2)
    for view, rows in zip(exchange.views, (2, 3), strict=True):
        view.set_buffer_rows(rows)
    for number in range(4):
        exchange.writer.emit(numbers(number))
    assert exchange.read(0) == exchange.read(1) == [[0, 1, 2]]

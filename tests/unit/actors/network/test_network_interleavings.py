"""Whole exchanges between slots in random order of everything: a failing seed is in the test's name and replays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from actors.network.consumer.input_gate import SingleInputGate
from actors.network.consumer.remote_channel import RemoteInputChannel
from actors.network.producer.record_writer import RecordWriter
from actors.protocol.elements import CheckpointBarrier, Event, LatencyMarker, Watermark
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.transformations.partitioning import (
    BroadcastPartitioner,
    KeyGroupPartitioner,
    Partitioner,
    RebalancePartitioner,
    ShufflePartitioner,
)
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Timestamp
from tests.support.network import END, NetworkWorld, numbers, partition_descriptor, values_of

SLOTS = ("a", "b", "c")


class Producer:
    """Writes numbers, each once, and events between them; remembers what every channel is to get."""

    def __init__(self, world: NetworkWorld, chance: random.Random, name: str, consumers: int, first: int) -> None:
        self.slot = chance.choice(SLOTS)
        self.partition = world[self.slot].create_partition(partition_descriptor(consumers, name))
        self._chance = chance
        partitioners: list[Partitioner] = [
            RebalancePartitioner(),
            ShufflePartitioner(),
            BroadcastPartitioner(),
            KeyGroupPartitioner(ColumnKey(("value",)), 128),
        ]
        self.partitioner = chance.choice(partitioners)
        self._writer = RecordWriter(
            self.partition,
            self.partitioner,
            buffer_timeout_ms=chance.choice([0, 10, 100]),
            timers=world.time,
            target_rows=chance.choice([4, 16]),
            target_bytes=1 << 20,
            generator=chance,
            where=name,
        )
        self.written: list[int] = []
        self.events: list[Event] = []
        self._first = first
        self._steps = 40

    def step(self) -> None:
        """Emits something, if there is room; finishes at last."""
        if self.partition.is_finished or not self._writer.is_available:
            return
        self._steps -= 1
        kind = self._chance.random()
        if self._steps == 0:
            self._writer.close()
            self.partition.finish()
        elif kind < 0.8:
            start = self._first + len(self.written)
            rows = list(range(start, start + self._chance.randint(1, 30)))
            self.written += rows
            self._writer.emit(numbers(*rows))
        elif kind < 0.95:
            event: Event = Watermark(Timestamp(self._steps))
            if self._chance.random() < 0.5:
                event = CheckpointBarrier(100 - self._steps, 0)
            self.events.append(event)
            self._writer.broadcast_event(event)
        else:
            self._writer.emit_latency_marker(LatencyMarker(0, "source", 0))


class Consumer:
    """Reads one subpartition of every producer, now and then; resumes barriers when it feels like it."""

    def __init__(self, world: NetworkWorld, chance: random.Random, index: int, producers: list[Producer]) -> None:
        self._chance = chance
        slot = chance.choice(SLOTS)
        channels = [(producer.partition.partition_id, index, producer.slot) for producer in producers]
        self.gate: SingleInputGate = world.gate(slot, *channels, attempt=f"consumer{index}")
        self.seen: list[list[Any]] = [[] for _ in producers]
        self._blocked: list[int] = []
        self._pauses = chance.random() < 0.3

    def step(self) -> None:
        action = self._chance.random()
        if self._blocked and action < 0.2:
            self.gate.resume_consumption(self._blocked.pop(self._chance.randrange(len(self._blocked))))
        elif not self._pauses or action < 0.3:
            polled = self.gate.poll()
            if polled is None:
                return
            channel, element = polled
            assert channel not in self._blocked, "nothing may come behind an aligned barrier"
            self.seen[channel] += values_of(element)
            if isinstance(element, CheckpointBarrier):
                self._blocked.append(channel)
            elif isinstance(element, Batch) and action < 0.5:
                self.gate.recycle()
            elif action > 0.9:
                self.gate.set_buffer_rows(self._chance.choice([1, 3, 16]))


def configuration(chance: random.Random) -> Configuration:
    return Configuration(
        {
            "flinkray.batch.target-rows": chance.choice([4, 16]),
            "flinkray.batch.target-bytes": 128,
            "flinkray.network.inline-bytes": chance.choice([0, 64, 1 << 16]),
            "flinkray.network.frame-bytes": chance.choice([0, 256, 4 << 20]),
            "flinkray.network.bytes-in-flight": chance.choice([128, 1_024, 1 << 20]),
            "taskmanager.network.memory.buffers-per-channel": chance.choice([1, 2, 4]),
            "taskmanager.network.memory.floating-buffers-per-gate": chance.choice([0, 1, 8]),
        }
    )


class Exchange:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = NetworkWorld(*SLOTS, configuration=configuration(self.chance))
        consumers = self.chance.randint(1, 4)
        self.producers = [
            Producer(self.world, self.chance, f"p{index}", consumers, first=10_000 * index)
            for index in range(self.chance.randint(1, 3))
        ]
        self.consumers = [Consumer(self.world, self.chance, index, self.producers) for index in range(consumers)]

    def run(self) -> None:
        tasks: list[Callable[[], Any]] = [task.step for task in (*self.producers, *self.consumers)]
        for step in range(60_000):
            if all(consumer.gate.is_finished for consumer in self.consumers):
                return
            if self.chance.random() < 0.02:
                self.world.time.advance(self.chance.choice([1, 30]))
            self.chance.choice([*self.world.actions(), *tasks])()
            if step % 5 == 0:
                self.world.check()
                self.check_in_flight()
        raise AssertionError(f"the exchange does not end: {[slot.statistics() for slot in self.world.slots.values()]}")

    def check_in_flight(self) -> None:
        """What a channel holds and has granted never exceeds its buffers and its gate's floating ones."""
        for consumer in self.consumers:
            for channel in consumer.gate.channels:
                if isinstance(channel, RemoteInputChannel):
                    credit = channel.credit.statistics()
                    assert credit.buffered + credit.outstanding <= credit.exclusive + credit.floating


@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_lost_and_the_order_of_each_channel_is_kept(seed: int) -> None:
    exchange = Exchange(seed)
    exchange.run()
    for number, producer in enumerate(exchange.producers):
        received = [consumer.seen[number] for consumer in exchange.consumers]
        for seen in received:
            rows = [each for each in seen if isinstance(each, int)]
            events = [each for each in seen if isinstance(each, Watermark | CheckpointBarrier)]
            assert rows == sorted(rows)
            assert events == producer.events
            assert seen[-1] == END
        everything = sorted(each for seen in received for each in seen if isinstance(each, int))
        copies = len(received) if isinstance(producer.partitioner, BroadcastPartitioner) else 1
        assert everything == sorted(producer.written * copies)
    exchange.world.settle()
    for address, slot in exchange.world.slots.items():
        assert slot.unconsumed_partitions() == ()
        assert slot.statistics().readers == ()
        assert slot.statistics().bytes_reserved == 0
        assert exchange.world.contexts[address].objects.alive == 0

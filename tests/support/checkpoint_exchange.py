"""Producers and consumers that take checkpoints while they exchange rows, in random order of everything.

The rule they check: of each channel, the rows before the producer's barrier are those that the consumer had processed
when it took its snapshot, then those that it captured, then those that the producer captured.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from actors.network.consumer.input_gate import InputGate, SingleInputGate, UnionInputGate
from actors.network.consumer.remote_channel import RemoteInputChannel
from actors.protocol.elements import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointOptions,
    EndOfData,
    EndOfPartition,
    Watermark,
)
from actors.protocol.ports import Address
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.types.records import Timestamp
from tests.support.network import NetworkWorld, numbers, partition_descriptor, values_of

SLOTS = ("a", "b")
ALIGNED = CheckpointOptions()
TIMEOUT = CheckpointOptions(aligned_timeout_ms=1)
AT_LEAST_ONCE = CheckpointOptions(is_exactly_once=False)
UNALIGNED = CheckpointOptions(is_unaligned=True)


class Producer:
    """A task that writes numbers, each once per consumer at most, and snapshots how far it is."""

    def __init__(self, exchange: CheckpointExchange, name: str, consumers: int, first: int) -> None:
        self._exchange = exchange
        self._chance = exchange.chance
        self.slot = self._chance.choice(SLOTS)
        self.name = name
        self.written: list[list[int]] = [[] for _ in range(consumers)]
        self.before: dict[int, list[list[int]]] = {}
        """Per checkpoint and consumer: what precedes the barrier."""
        self.captured: dict[int, list[list[int]]] = {}
        self._next = first
        self._steps = self._chance.randint(3, 14)
        self.partition = exchange.world[self.slot].create_partition(partition_descriptor(consumers, name))

    def step(self) -> None:
        partition, chance = self.partition, self._chance
        newest = self._exchange.newest
        if partition.is_finished:
            return
        if newest not in self.before and chance.random() < 0.4:
            self._snapshot(newest)
        elif newest in self.before and self._exchange.options[newest] == TIMEOUT and chance.random() < 0.1:
            self._capture(newest, partition.overtake(newest))
        elif newest in self.before and chance.random() < 0.05:
            partition.cancel_checkpoint(newest)
        elif partition.is_available or chance.random() < 0.02:
            self._write()

    def _write(self) -> None:
        kind = self._chance.random()
        self._steps -= 1
        if self._steps <= 0:
            self.partition.broadcast_event(EndOfData())
            self.partition.finish()
        elif kind < 0.6:
            index = self._chance.randrange(len(self.written))
            self.partition.emit(index, self._rows([index]))
        elif kind < 0.8:
            self.partition.broadcast(self._rows(range(len(self.written))))
        elif kind < 0.9:
            self.partition.broadcast_event(Watermark(Timestamp(self._steps)))
        else:
            self.partition.flush_all()

    def _rows(self, consumers: Iterable[int]) -> Batch:
        rows = list(range(self._next, self._next + self._chance.randint(1, 5)))
        self._next += len(rows)
        for consumer in consumers:
            self.written[consumer] += rows
        return numbers(*rows)

    def _snapshot(self, checkpoint_id: int) -> None:
        self.before[checkpoint_id] = [list(rows) for rows in self.written]
        barrier = CheckpointBarrier(
            checkpoint_id, self._exchange.world.time.now_ms(), self._exchange.options[checkpoint_id]
        )
        self._capture(checkpoint_id, self.partition.broadcast_barrier(barrier))

    def _capture(self, checkpoint_id: int, overtaken: list[list[Batch]] | None) -> None:
        captured = self.captured.setdefault(checkpoint_id, [[] for _ in self.written])
        for rows, batches in zip(captured, overtaken or (), strict=overtaken is not None):
            assert not (rows and batches), "what was overtaken once is overtaken again"
            rows += in_order(batches)

    def rows_before(self, checkpoint_id: int, consumer: int) -> list[int]:
        """Everything, for a producer that had ended."""
        return self.before.get(checkpoint_id, self.written)[consumer]

    def in_flight(self, checkpoint_id: int, consumer: int) -> list[int]:
        return self.captured[checkpoint_id][consumer] if checkpoint_id in self.captured else []


class Consumer:
    """A task that reads one subpartition of every producer, and handles barriers as tasks do."""

    def __init__(self, exchange: CheckpointExchange, index: int, producers: list[Producer]) -> None:
        self._exchange = exchange
        self._chance = exchange.chance
        self.index = index
        self.slot = self._chance.choice(SLOTS)
        channels = [(producer.name, index, producer.slot) for producer in producers]
        cut = self._chance.randint(1, len(channels)) if self._chance.random() < 0.3 else len(channels)
        self.gates: list[SingleInputGate] = [
            exchange.world.gate(self.slot, *part, attempt=f"consumer{index}.{number}")
            for number, part in enumerate((channels[:cut], channels[cut:]))
            if part
        ]
        self.gate: InputGate = self.gates[0] if len(self.gates) == 1 else UnionInputGate(self.gates)
        self.processed: list[list[int]] = [[] for _ in channels]
        self._ended: set[int] = set()
        self._checkpoint = 0
        """The one that is going on, or the last one."""
        self._arrived: set[int] = set()
        self._blocked: set[int] = set()
        self._snapshot: list[list[int]] | None = None
        self._is_capturing = False
        self._is_done = True
        self._slow = self._chance.random() < 0.3

    def step(self) -> None:
        kind = self._chance.random()
        if self.gate.is_finished and not self._is_capturing:
            return
        if kind < 0.2:
            self._handle(self.gate.poll_priority())
        elif kind < 0.25:
            if not self._is_done and self._exchange.options[self._checkpoint] == TIMEOUT:
                self._go_unaligned()
        elif kind < 0.26:
            self._abort()
        elif kind < 0.3:
            self.gate.recycle()
        elif kind < 0.32:
            # Nothing waits for it: a barrier that is on its way must not be taken for handled.
            for channel in set(range(len(self.processed))) - self._blocked:
                self.gate.resume_consumption(channel)
        elif kind < 0.5 or not self._slow:
            waiting = [channel for gate in self.gates for channel in gate.channels if channel.has_priority]
            polled = self.gate.poll()
            assert polled is None or not waiting or isinstance(polled[1], CheckpointBarrier), "rows before a barrier"
            self._handle(polled)
        self._complete()

    def trigger(self, checkpoint_id: int) -> None:
        """All producers have ended: no barrier will come."""
        assert checkpoint_id > self._checkpoint
        self._begin(checkpoint_id)
        self._arrived |= set(self.gate.unfinished_channels())
        self._go_unaligned()

    def _handle(self, polled: tuple[int, Any] | None) -> None:
        if polled is None:
            return
        channel, element = polled
        assert channel not in self._blocked or isinstance(element, CheckpointBarrier), "rows behind an aligned barrier"
        if isinstance(element, Batch):
            self.processed[channel] += values_of(element)
        elif isinstance(element, EndOfPartition):
            self._ended.add(channel)
        elif isinstance(element, CheckpointBarrier):
            self._on_barrier(channel, element)
        elif isinstance(element, CancelCheckpointMarker) and element.checkpoint_id >= self._checkpoint:
            self._begin(element.checkpoint_id)
            self._abort()
        assert set(self.gate.unfinished_channels()) == set(range(len(self.processed))) - self._ended

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        if barrier.checkpoint_id > self._checkpoint:
            self._begin(barrier.checkpoint_id)
        if barrier.blocks_channel:
            self._blocked.add(channel)
        is_late = barrier.checkpoint_id < self._checkpoint or self._is_done
        if not is_late:
            self._arrived.add(channel)
            if barrier.options.is_unaligned:
                self._go_unaligned()
        if is_late or self._is_capturing:
            self._resume(channel)

    def _begin(self, checkpoint_id: int) -> None:
        self._abort()
        self._checkpoint, self._is_done = checkpoint_id, False

    def _go_unaligned(self) -> None:
        if self._snapshot is None and not self._is_done:
            self._take_snapshot()
            self.gate.begin_capture(self._checkpoint)
            self._is_capturing = True
            for channel in list(self._blocked):
                self._resume(channel)

    def _take_snapshot(self) -> None:
        self._snapshot = [list(rows) for rows in self.processed]

    def _resume(self, channel: int) -> None:
        if channel in self._blocked:
            self._blocked.remove(channel)
            self.gate.resume_consumption(channel)

    def _complete(self) -> None:
        if self._is_done:
            return
        have_all = self._arrived | self._ended >= set(range(len(self.processed)))
        if self._snapshot is None and have_all:
            self._take_snapshot()
            self._end(None)
        elif self._is_capturing and (have_all or self._chance.random() < 0.5):
            is_captured = self.gate.is_captured(self._checkpoint)
            assert is_captured or not have_all or self._exchange.has_ended, "all barriers were polled"
            if is_captured:
                self._end(self.gate.end_capture(self._checkpoint))

    def _end(self, captured: dict[int, list[Batch]] | None) -> None:
        assert self._snapshot is not None
        self._exchange.on_complete(self, self._checkpoint, self._snapshot, captured)
        self._is_capturing = False
        self._abort()

    def _abort(self) -> None:
        if self._is_capturing:
            self.gate.end_capture(self._checkpoint)
        self._is_done = True
        self._is_capturing = False
        self._snapshot = None
        self._arrived.clear()
        for channel in list(self._blocked):
            self._resume(channel)


class CheckpointExchange:
    """One run, all from its seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = NetworkWorld(*SLOTS, configuration=_configuration(self.chance))
        self.options: dict[int, CheckpointOptions] = {}
        self.newest = 0
        self.completed = 0
        self.captured_rows = 0
        consumers = self.chance.randint(1, 2)
        self.producers = [
            Producer(self, f"p{index}", consumers, first=1_000 * index) for index in range(self.chance.randint(1, 3))
        ]
        self.consumers = [Consumer(self, index, self.producers) for index in range(consumers)]
        self.trigger()

    @property
    def has_ended(self) -> bool:
        return all(producer.partition.is_finished for producer in self.producers)

    def trigger(self) -> None:
        """The next checkpoint: also while the last one is going on."""
        self.newest += 1
        kinds = (ALIGNED, TIMEOUT, TIMEOUT, AT_LEAST_ONCE, UNALIGNED, UNALIGNED)
        self.options[self.newest] = UNALIGNED if self.has_ended else self.chance.choice(kinds)
        if self.has_ended:
            for consumer in self.consumers:
                consumer.trigger(self.newest)

    def run(self) -> None:
        tasks: list[Callable[[], Any]] = [producer.step for producer in self.producers]
        tasks += [consumer.step for consumer in self.consumers]
        for step in range(20_000):
            if all(consumer.gate.is_finished for consumer in self.consumers):
                self._check_end()
                return
            if self.chance.random() < 0.03:
                self.trigger()
            if self.chance.random() < 0.01:
                self.world.time.advance(1)
            has_acted = self.chance.choice([*self.world.actions(), *tasks, *tasks])()
            if has_acted is not False:
                self.world.check()
            if step % 10 == 0:
                self._check_in_flight()
        raise AssertionError(f"the exchange does not end: {[slot.statistics() for slot in self.world.slots.values()]}")

    def on_complete(
        self,
        consumer: Consumer,
        checkpoint_id: int,
        snapshot: list[list[int]],
        captured: dict[int, list[Batch]] | None,
    ) -> None:
        self.completed += 1
        for channel, producer in enumerate(self.producers):
            expected = producer.rows_before(checkpoint_id, consumer.index)
            processed = snapshot[channel]
            if not self.options[checkpoint_id].is_exactly_once:
                assert processed[: len(expected)] == expected
                continue
            received = in_order((captured or {}).get(channel, []))
            overtaken = producer.in_flight(checkpoint_id, consumer.index)
            assert captured is not None or not overtaken, "a barrier that overtook rows was taken for an aligned one"
            self.captured_rows += len(received) + len(overtaken)
            assert processed + received + overtaken == expected, (channel, processed, received, overtaken, expected)

    def _check_in_flight(self) -> None:
        for consumer in self.consumers:
            for gate in consumer.gates:
                for channel in gate.channels:
                    if isinstance(channel, RemoteInputChannel):
                        credit = channel.credit.statistics()
                        assert credit.buffered + credit.outstanding <= credit.exclusive + credit.floating

    def _check_end(self) -> None:
        for consumer in self.consumers:
            consumer._abort()
            for channel, producer in enumerate(self.producers):
                assert consumer.processed[channel] == producer.written[consumer.index]
            for gate in consumer.gates:
                self.world[consumer.slot].release_gate(gate)
        self.world.settle()
        for slot in SLOTS:
            assert_nothing_left(self.world, slot)


def in_order(batches: Iterable[Batch]) -> list[int]:
    return [value for batch in batches for value in values_of(batch)]


def assert_nothing_left(world: NetworkWorld, slot: str) -> None:
    """Both halves of a slot's connections have forgotten everything."""
    environment = world[slot]
    assert environment.unconsumed_partitions() == ()
    statistics = environment.statistics()
    assert (statistics.partitions, statistics.readers, statistics.channels) == ((), (), ())
    assert statistics.bytes_reserved == 0
    receiver, sender = environment._receiver, environment._sender
    tables = (receiver._channels, receiver._producers, receiver._requests._backoffs, sender._readers, sender._consumers)
    assert not any(tables), tables
    assert not environment._registry._waiting
    assert world.contexts[Address(slot)].objects.alive == 0


def _configuration(chance: random.Random) -> Configuration:
    return Configuration(
        {
            "flinkray.batch.target-rows": chance.choice([4, 8]),
            "flinkray.batch.target-bytes": 128,
            "flinkray.network.inline-bytes": chance.choice([0, 1 << 16]),
            "flinkray.network.frame-bytes": chance.choice([0, 256, 4 << 20]),
            "flinkray.network.bytes-in-flight": chance.choice([128, 1 << 20]),
            "taskmanager.network.memory.buffers-per-channel": chance.choice([1, 2]),
            "taskmanager.network.memory.floating-buffers-per-gate": chance.choice([0, 1, 4]),
        }
    )

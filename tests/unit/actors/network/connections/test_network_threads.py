"""The same exchange on real threads: no wake-up may be lost. It ends by itself; the deadline only catches a hang."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.network.connections.environment import NetworkEnvironment
from actors.network.consumer.input_gate import SingleInputGate
from actors.network.producer.record_writer import RecordWriter
from actors.protocol.elements import CheckpointBarrier, CheckpointOptions, EndOfPartition
from actors.protocol.ports import Address
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.transformations.partitioning import RebalancePartitioner
from tests.support.network import NetworkWorld, numbers, partition_descriptor, values_of

DEADLINE = 20.0
BATCHES = 300


class DirectWorld(NetworkWorld):
    """Delivers at once, on the sender's thread."""

    def send(self, sender: Address, receiver: Address, message: Any, payloads: list[Batch]) -> None:
        self.slots[receiver].on_message(message, payloads)
        self.slots[receiver].after_message()


class SharedWorld(DirectWorld):
    """All slots in one process: whoever has something for a network loop runs it."""

    shares_process = True


def run_loop(environment: NetworkEnvironment) -> None:
    while not environment.loop.is_done:
        if not environment.loop.step():
            environment.loop.wait(DEADLINE * 1_000)


@contextmanager
def threads(*targets: Callable[[], None]) -> Iterator[list[threading.Thread]]:
    running = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in running:
        thread.start()
    yield running
    for thread in running:
        thread.join(DEADLINE)
        assert not thread.is_alive(), "a thread waits for a wake-up that never comes"


def produce(world: NetworkWorld, address: str, name: str, first: int) -> None:
    partition = world[address].create_partition(partition_descriptor(2, name))
    writer = RecordWriter(
        partition,
        RebalancePartitioner(),
        buffer_timeout_ms=0,
        timers=world.time,
        target_rows=4,
        target_bytes=1 << 20,
        generator=random.Random(first),
        where=name,
    )
    room = threading.Event()
    for number in range(BATCHES):
        while not writer.is_available:
            room.clear()
            writer.availability.on_available(room.set)
            assert room.wait(DEADLINE)
        writer.emit(numbers(first + 2 * number, first + 2 * number + 1))
    partition.finish()


def consume(gate: SingleInputGate, seen: list[int]) -> None:
    data = threading.Event()
    while not gate.is_finished:
        polled = gate.poll()
        if polled is None:
            data.clear()
            gate.availability.on_available(data.set)
            assert gate.is_finished or data.wait(DEADLINE)
        elif isinstance(polled[1], Batch):
            seen += values_of(polled[1])


@pytest.mark.parametrize("worlds", [DirectWorld, SharedWorld])
def test_no_wake_up_is_lost_between_threads(worlds: type[NetworkWorld]) -> None:
    settings = {
        "taskmanager.network.memory.buffers-per-channel": 1,
        "taskmanager.network.memory.floating-buffers-per-gate": 1,
    }
    world = worlds("a", "b", configuration=Configuration(settings))
    seen: list[list[int]] = [[], []]
    with threads(*(lambda slot=slot: run_loop(slot) for slot in world.slots.values())):
        gates = [
            world.gate("b", ("p", 0, "a"), ("q", 0, "b"), attempt="first"),
            world.gate("a", ("p", 1, "a"), ("q", 1, "b"), attempt="second"),
        ]
        with threads(
            lambda: produce(world, "a", "p", 0),
            lambda: produce(world, "b", "q", 100_000),
            lambda: consume(gates[0], seen[0]),
            lambda: consume(gates[1], seen[1]),
        ) as running:
            # What is not registered yet when it is asked for is asked for again: by timers, which this test moves.
            while any(thread.is_alive() for thread in running):
                world.time.advance(10)
                running[-1].join(0.01)
        for slot in world.slots.values():
            slot.shutdown()
    everything = sorted(seen[0] + seen[1])
    assert everything == [*range(2 * BATCHES), *range(100_000, 100_000 + 2 * BATCHES)]


CHECKPOINTS = 15
UNALIGNED = CheckpointOptions(is_unaligned=True)


class CheckpointedProducer:
    """Writes rows, and at each checkpoint, which it begins together with the others, a barrier that overtakes them."""

    def __init__(self, world: NetworkWorld, address: str, name: str, together: threading.Barrier) -> None:
        self.partition = world[address].create_partition(partition_descriptor(1, name))
        self._together = together
        self.before: list[int] = []
        """Rows before each barrier."""
        self.overtaken: list[list[int]] = []

    def run(self) -> None:
        room = threading.Event()
        rows = 0
        for checkpoint_id in range(CHECKPOINTS):
            for _ in range(20):
                while not self.partition.is_available:
                    room.clear()
                    self.partition.availability.on_available(room.set)
                    assert room.wait(DEADLINE)
                self.partition.emit(0, numbers(rows, rows + 1))
                rows += 2
            self._together.wait(DEADLINE)
            self.before.append(rows)
            (batches,) = self.partition.broadcast_barrier(CheckpointBarrier(checkpoint_id, 0, UNALIGNED))
            self.overtaken.append([row for batch in batches for row in values_of(batch)])
        self.partition.finish()


class CheckpointedConsumer:
    """Snapshots how far it is at the first barrier, and captures what comes on the other channel until its own."""

    def __init__(self, gate: SingleInputGate) -> None:
        self._gate = gate
        self.seen: list[list[int]] = [[], []]
        self.taken: dict[int, tuple[list[int], dict[int, list[Batch]]]] = {}
        """Per checkpoint: rows processed of each channel, and what was captured."""
        self._processed: list[int] = []

    def run(self) -> None:
        gate, data = self._gate, threading.Event()
        checkpoint_id, arrived = -1, 0
        while not gate.is_finished:
            polled = gate.poll()
            if polled is None:
                data.clear()
                gate.availability.on_available(data.set)
                assert gate.is_finished or data.wait(DEADLINE)
                continue
            channel, element = polled
            if isinstance(element, Batch):
                self.seen[channel] += values_of(element)
            elif isinstance(element, CheckpointBarrier):
                if element.checkpoint_id > checkpoint_id:
                    gate.end_capture(checkpoint_id)
                    checkpoint_id, arrived = element.checkpoint_id, 0
                    self._processed = [len(rows) for rows in self.seen]
                    gate.begin_capture(checkpoint_id)
                arrived += element.checkpoint_id == checkpoint_id
                if arrived == 2:
                    assert gate.is_captured(checkpoint_id)
                    self.taken[checkpoint_id] = (self._processed, gate.end_capture(checkpoint_id))
            else:
                assert isinstance(element, EndOfPartition)


@pytest.mark.parametrize("worlds", [DirectWorld, SharedWorld])
def test_on_threads_too_every_row_is_in_each_checkpoint_once(worlds: type[NetworkWorld]) -> None:
    settings = {
        "taskmanager.network.memory.buffers-per-channel": 2,
        "taskmanager.network.memory.floating-buffers-per-gate": 1,
        "flinkray.batch.target-rows": 4,
    }
    world = worlds("a", "b", configuration=Configuration(settings))
    together = threading.Barrier(2)
    producers = [CheckpointedProducer(world, address, name, together) for address, name in (("a", "p"), ("b", "q"))]
    consumer = CheckpointedConsumer(world.gate("b", ("p", 0, "a"), ("q", 0, "b")))
    with threads(*(lambda slot=slot: run_loop(slot) for slot in world.slots.values())):
        with threads(consumer.run, *(producer.run for producer in producers)):
            pass
        for slot in world.slots.values():
            slot.shutdown()
    assert consumer.taken
    for checkpoint_id, (processed, captured) in consumer.taken.items():
        for channel, producer in enumerate(producers):
            received = [row for batch in captured.get(channel, []) for row in values_of(batch)]
            everything = consumer.seen[channel][: processed[channel]] + received + producer.overtaken[checkpoint_id]
            assert everything == list(range(producer.before[checkpoint_id]))

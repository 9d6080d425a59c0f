"""The result partitions of one slot by id, and the local channels that wait for theirs."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from actors.network.connections.partition_requests import PARTITION_PATIENCE_MS, not_registered
from actors.network.consumer.input_channel import InputChannel
from actors.network.consumer.local_channel import LocalInputChannel
from actors.network.producer.result_partition import ResultPartition
from actors.protocol.ports import Cancellable, Timers
from graphs.execution_graph import PartitionId


class PartitionRegistry:
    """Finds the partitions that this slot's tasks write. Any thread may call it.

    A local channel that connects before its partition is registered waits for it, PARTITION_PATIENCE_MS at most.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._lock = threading.Lock()
        self._partitions: dict[PartitionId, ResultPartition] = {}
        self._waiting: dict[LocalInputChannel, Cancellable] = {}

    def register(self, partition: ResultPartition) -> None:
        """Makes the partition readable, and connects the local channels that wait for it."""
        with self._lock:
            assert partition.partition_id not in self._partitions, f"{partition.partition_id} is registered twice"
            self._partitions[partition.partition_id] = partition
            waiting = [each for each in self._waiting if each.descriptor.partition_id == partition.partition_id]
            deadlines = [self._waiting.pop(channel) for channel in waiting]
        for deadline in deadlines:
            deadline.cancel()
        for channel in waiting:
            channel.attach(partition)

    def remove(self, partition: ResultPartition) -> None:
        """Forgets the partition. Without effect if it is not there."""
        with self._lock:
            self._partitions.pop(partition.partition_id, None)

    def find(self, partition_id: PartitionId) -> ResultPartition | None:
        with self._lock:
            return self._partitions.get(partition_id)

    def all(self) -> list[ResultPartition]:
        with self._lock:
            return list(self._partitions.values())

    def connect(self, channel: LocalInputChannel) -> None:
        """Attaches the channel to its partition: now, or when that is registered."""
        with self._lock:
            partition = self._partitions.get(channel.descriptor.partition_id)
            if partition is None:
                give_up = partial(self._give_up, channel)
                self._waiting[channel] = self._timers.call_later(PARTITION_PATIENCE_MS, give_up)
        if partition is not None:
            channel.attach(partition)

    def disconnect(self, channel: LocalInputChannel) -> None:
        """The channel waits no longer."""
        with self._lock:
            deadline = self._waiting.pop(channel, None)
        if deadline is not None:
            deadline.cancel()

    def _give_up(self, channel: LocalInputChannel) -> None:
        with self._lock:
            if self._waiting.pop(channel, None) is None:
                return
        channel.fail(not_registered(channel))

    def publish(self, channel: InputChannel, event: Any) -> None:
        """Hands an event of the channel's task to the task that writes the partition, if that is still there."""
        partition = self.find(channel.descriptor.partition_id)
        if partition is not None:
            partition.publish_task_event(event)

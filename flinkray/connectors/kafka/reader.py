"""Reads partitions on a thread of its own, which hands batches of a partition each over to the task."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flinkray.batches.batch import Batch
from flinkray.connectors.handover import Handover
from flinkray.connectors.kafka.clients import KafkaError, confluent_kafka, explained
from flinkray.connectors.kafka.enumerator import KafkaSplit
from flinkray.connectors.kafka.rows import KafkaRows
from flinkray.connectors.kafka.settings import KafkaSourceSettings
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceReader, SourceReaderContext
from flinkray.errors import operator_label

log = logging.getLogger(__name__)

_MESSAGES = 10_000
"""Messages are taken so many at a time: of fewer each costs more (2 instead of 5 µs at 500)."""
_WAIT_S = 0.02
"""How long the thread waits for so many: rows are under way for so long at least while few come."""
_AHEAD_BYTES = 16 << 20
"""The most bytes that may wait for the task."""
_END_S = 10.0
"""How long closing waits for the thread, which closes its connections meanwhile."""


class _Fetched(Struct, frozen=True):
    """What came of a partition: rows, if there are any, and the offset of the message after them."""

    split_id: str
    offset: int
    batch: Batch | None = None
    is_end: bool = False


class KafkaReader(SourceReader):
    """The task's side: gives what the thread has fetched, and knows how far each partition has been given."""

    def __init__(
        self, context: SourceReaderContext, settings: KafkaSourceSettings, make_consumer: Callable[[], Any]
    ) -> None:
        self._context = context
        self._where = operator_label(context.operator_name, f"{context.subtask_index + 1} of {context.parallelism}")
        self._splits: dict[str, KafkaSplit] = {}
        self._handover: Handover[_Fetched] = Handover(_AHEAD_BYTES, context.notify_available)
        self._fetcher = _Fetcher(settings, self._handover, make_consumer, self._where)
        self._paused: set[str] = set()
        self._held: deque[_Fetched] = deque()
        """What had been fetched of partitions before they were paused."""
        self._has_no_more = False
        self._commits = settings.group_id is not None
        self._uncommitted: dict[int, list[KafkaSplit]] = {}

    def start(self) -> None:
        self._fetcher.start()

    def add_splits(self, splits: Sequence[Any]) -> None:
        self._splits.update((split.split_id, split) for split in splits)
        self._fetcher.tell(lambda: self._fetcher.add(splits))

    def notify_no_more_splits(self) -> None:
        self._has_no_more = True
        self._context.notify_available()

    def poll(self) -> SourceBatch | ReaderStatus:
        while (fetched := self._next()) is not None:
            split = self._splits[fetched.split_id]
            self._splits[fetched.split_id] = replace(split, offset=fetched.offset)
            if fetched.is_end:
                del self._splits[fetched.split_id]
                self._context.split_finished(fetched.split_id)
            if fetched.batch is not None:
                return SourceBatch(fetched.batch, fetched.split_id)
        is_at_end = self._has_no_more and not self._splits
        return ReaderStatus.END_OF_INPUT if is_at_end else ReaderStatus.NOTHING_AVAILABLE

    def _next(self) -> _Fetched | None:
        if self._held and self._held[0].split_id not in self._paused:
            return self._held.popleft()
        while taken := self._handover.take_nowait(1):
            if taken[0].split_id not in self._paused:
                return taken[0]
            self._held.append(taken[0])
        return None

    def snapshot_state(self, checkpoint_id: int) -> list[KafkaSplit]:
        splits = list(self._splits.values())
        if self._commits:
            self._uncommitted[checkpoint_id] = splits
        return splits

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        splits = self._uncommitted.get(checkpoint_id)
        self._uncommitted = {each: known for each, known in self._uncommitted.items() if each > checkpoint_id}
        if splits:
            self._fetcher.tell(lambda: self._fetcher.commit(splits))

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> bool:
        self._paused = (self._paused | set(to_pause)) - set(to_resume)
        # Held ones that may be given come first, in their order.
        self._held = deque(sorted(self._held, key=lambda each: each.split_id in self._paused))
        self._fetcher.tell(lambda: self._fetcher.pause(to_pause, to_resume))
        return True

    def close(self) -> None:
        self._fetcher.close()


class _Fetcher:
    """The thread that has the consumer. Whatever else is to be done with it is told to the thread."""

    def __init__(
        self,
        settings: KafkaSourceSettings,
        handover: Handover[_Fetched],
        make_consumer: Callable[[], Any],
        where: str,
    ) -> None:
        self._settings = settings
        self._handover = handover
        self._make_consumer = make_consumer
        self._where = where
        self._kafka = confluent_kafka()
        self._orders: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._is_closed = False
        self._splits: dict[tuple[str, int], KafkaSplit] = {}
        self._rows = KafkaRows(settings.value_format, settings.metadata, settings.bad_messages, where)
        self._thread = threading.Thread(target=self._run, name=f"kafka of {where}", daemon=True)

    # -- the task's thread

    def start(self) -> None:
        self._thread.start()

    def tell(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        self._wake.set()

    def close(self) -> None:
        self._is_closed = True
        self._handover.close()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    # -- orders, carried out by the thread

    def add(self, splits: Sequence[KafkaSplit]) -> None:
        for split in splits:
            self._splits[split.topic, split.partition] = split
        begun = [self._kafka.TopicPartition(split.topic, split.partition, split.offset) for split in splits]
        self._consumer.incremental_assign(begun)
        for split in splits:
            self._end_if_reached(split, split.offset)

    def pause(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        self._consumer.pause(self._partitions(to_pause))
        self._consumer.resume(self._partitions(to_resume))

    def commit(self, splits: Sequence[KafkaSplit]) -> None:
        offsets = [self._kafka.TopicPartition(split.topic, split.partition, split.offset) for split in splits]
        with contextlib.suppress(self._kafka.KafkaException):  # for monitoring only: the next checkpoint tries again
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _partitions(self, split_ids: Sequence[str]) -> list[Any]:
        return [
            self._kafka.TopicPartition(topic, number)
            for (topic, number), split in self._splits.items()
            if split.split_id in split_ids
        ]

    # -- the thread

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._consumer = self._make_consumer()
            try:
                while not self._is_closed:
                    self._step()
                self._carry_out_orders()  # what a checkpoint has just completed is committed at the end, too
            finally:
                self._consumer.close()
        except BaseException as caught:  # the task must learn of every way in which the thread ends
            error = caught
        self._handover.finish(None if self._is_closed else error)

    def _carry_out_orders(self) -> None:
        while self._orders:
            self._orders.popleft()()

    def _step(self) -> None:
        self._carry_out_orders()
        if not self._splits:
            self._wake.wait(1.0)
            self._wake.clear()
            return
        by_partition: dict[tuple[str, int], list[Any]] = defaultdict(list)
        for message in self._consumer.consume(_MESSAGES, _WAIT_S):
            if message.error() is None:
                by_partition[message.topic(), message.partition()].append(message)
            else:
                self._on_event(message)
        for partition, messages in by_partition.items():
            if partition in self._splits:
                self._hand_over(self._splits[partition], messages)

    def _on_event(self, message: Any) -> None:
        error, split = message.error(), self._splits.get((message.topic(), message.partition()))
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            if split is not None:
                self._end_if_reached(split, message.offset())
            return
        if error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET and split is not None:
            raise KafkaError(
                f"{self._where}: partition {split.partition} of topic {split.topic!r} cannot be read on at offset "
                f"{split.offset}: its messages were deleted, or it never had so many ({error.str()}). Keep messages "
                "for longer than a job may stand still, or start from another place without the state of this source"
            )
        if error.retriable() or error.code() in (
            self._kafka.KafkaError._ALL_BROKERS_DOWN,
            self._kafka.KafkaError._TRANSPORT,
        ):
            log.warning("%s: %s; trying again", self._where, explained(error, self._settings.servers))
            return
        raise KafkaError(f"{self._where}: {explained(error, self._settings.servers)}")

    def _hand_over(self, split: KafkaSplit, messages: list[Any]) -> None:
        last = messages[-1].offset()
        if split.stop is not None and last >= split.stop:
            messages = [message for message in messages if message.offset() < split.stop]
        batch = self._rows.of(messages) if messages else None
        following = replace(split, offset=last + 1)
        self._splits[split.topic, split.partition] = following
        size = 1 if batch is None else max(1, batch.nbytes)
        self._handover.offer(_Fetched(split.split_id, last + 1, batch if batch and batch.num_rows else None), size)
        self._end_if_reached(following, last + 1)

    def _end_if_reached(self, split: KafkaSplit, offset: int) -> None:
        """Ends a partition that is read to its stop, or has nothing before it: offsets are left out where a transaction
        ended or messages were compacted."""
        if split.stop is None or offset < split.stop:
            return
        del self._splits[split.topic, split.partition]
        self._consumer.incremental_unassign([self._kafka.TopicPartition(split.topic, split.partition)])
        self._handover.offer(_Fetched(split.split_id, offset, is_end=True))

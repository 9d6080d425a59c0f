"""Collect writers, their coordinator and a driver, with channels between them that a seeded random generator moves."""

from __future__ import annotations

import pickle
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from actors.coordinators.collect_coordinator import CollectCoordinator
from actors.operators.sinks.collect_writer import CollectWriter
from actors.protocol.operator_events import RowsPersisted, RowsTaken
from tests.support.tasks import numbers

PARTITIONS = 4
_PARTITION = 1_000_000


@dataclass
class Checkpoint:
    """A checkpoint under way or complete."""

    checkpoint_id: int
    parallelism: int
    is_savepoint: bool
    coordinator: bytes
    got: list[int]
    """What the driver had when the coordinator's part was taken: a driver that starts from here gets all else."""
    waits_for: set[int]
    states: dict[int, bytes | None] = field(default_factory=dict)
    """By subtask; None: it had finished."""
    read: dict[int, int] = field(default_factory=dict)
    """Rows read of each partition."""


class WriterContext:
    """What a CollectWriter uses of its task."""

    batch_bytes = 1_000

    def __init__(self, subtask_index: int, has_checkpoints: bool, inbox: deque[Any]) -> None:
        self.subtask_index = subtask_index
        self.has_checkpoints = has_checkpoints
        self._inbox = inbox

    def send_to_coordinator(self, event: Any) -> None:
        self._inbox.append(event)


class _CoordinatorContext:
    def __init__(self, run: CollectedRun) -> None:
        self._run = run
        self.parallelism = run.parallelism

    def send_event(self, subtask_index: int, event: Any) -> None:
        self._run.down[subtask_index].append(event)

    def fail_job(self, error: BaseException) -> None:
        raise error


class CollectedRun:
    """A job whose rows are numbers of PARTITIONS partitions, each read by one subtask, and whose rows are collected."""

    def __init__(self, seed: int, has_checkpoints: bool = True, has_final: bool = True) -> None:
        """
        Args:
            has_final: a checkpoint follows the end of the rows; what the writers are told.
        """
        self.random = random.Random(seed)
        self.has_checkpoints = has_checkpoints
        self.has_final = has_final
        self.parallelism = self.random.randrange(1, 4)
        self.read = dict.fromkeys(range(PARTITIONS), 0)
        self.got: list[int] = []
        self.positions: tuple[int, ...] = ()
        self.last_id = 0
        self.pending: Checkpoint | None = None
        self.completed: Checkpoint | None = None
        self.rescales = 0
        self._create()
        for index in range(self.parallelism):
            self._start(index, None)

    def step(self) -> None:
        index = self.random.randrange(self.parallelism)
        action = self.random.random()
        if action < 0.25:
            self.write(index)
        elif action < 0.55:
            self.deliver(index)
        elif action < 0.67:
            self.take(self.random.randrange(1, 4))
        elif action < 0.90:
            self.on_barrier(index)
        elif action < 0.98:
            self.trigger(is_savepoint=self.random.random() < 0.2)
        else:
            self._fail(index)
        self.check()

    def check(self) -> None:
        self.coordinator.check()
        for writer in self.writers.values():
            writer.check()

    # -- what goes well ------------------------------------------------------------------------------------------

    def write(self, index: int) -> None:
        writer = self.writers[index]
        if writer.is_available and index not in self.finished:
            partition = self.random.choice(self._partitions(index))
            first, count = self.read[partition], self.random.randrange(1, 4)
            self.read[partition] = first + count
            base = partition * _PARTITION
            writer.write(numbers(*range(base + first, base + first + count)))

    def deliver(self, index: int) -> None:
        """A message of each direction, if there is one."""
        if self.up[index]:
            event = self.up[index].popleft()
            if isinstance(event, tuple):
                self._acknowledged(index, *event)
            else:
                self.coordinator.handle_event(index, pickle.loads(pickle.dumps(event)))
        if self.down.get(index):  # the message that came may have ended the job, and another one runs now
            event = self.down[index].popleft()
            if isinstance(event, RowsTaken):
                self.writers[index].on_rows_taken(event.sequence)
            else:
                assert isinstance(event, RowsPersisted)
                self.writers[index].on_rows_kept(event.sequence)

    def take(self, batches: int) -> None:
        found, _ = self.coordinator.take(batches, self.positions)
        if self.random.random() < 0.2:  # the answer is lost
            found, _ = self.coordinator.take(batches, self.positions)
        self.got += [value for batch in found for value in batch.data.column(0).to_pylist()]
        self.positions = self.coordinator.positions
        twice = [value for value, count in Counter(self.got).items() if count > 1]
        assert not twice, f"the driver got {twice} twice"

    def trigger(self, is_savepoint: bool = False) -> None:
        if self.pending is None:
            self.last_id += 1
            self.take(0)  # tells a new JobMaster what the driver has
            state = self.coordinator.snapshot(self.last_id)
            waits_for = set(range(self.parallelism))
            self.pending = Checkpoint(self.last_id, self.parallelism, is_savepoint, state, list(self.got), waits_for)

    def on_barrier(self, index: int) -> None:
        pending = self.pending
        if pending is None or index not in pending.waits_for:
            return
        pending.waits_for.remove(index)
        pending.read.update({each: self.read[each] for each in self._partitions(index)})
        state = None
        if index not in self.finished:
            writer = self.writers[index]
            writer.flush(end_of_input=False)
            state = pickle.dumps(writer.snapshot(pending.checkpoint_id))
        self.up[index].append((pending.checkpoint_id, state))

    def _acknowledged(self, index: int, checkpoint_id: int, state: bytes | None) -> None:
        pending = self.pending
        if pending is None or pending.checkpoint_id != checkpoint_id:
            return
        pending.states[index] = state
        if len(pending.states) == self.parallelism:
            self.pending = None
            if not pending.is_savepoint:
                self.completed = pending
                self.coordinator.notify_checkpoint_complete(checkpoint_id)
                self._finish_some(pending)
            elif self.random.random() < 0.5:
                self.rescale(pending)

    def _finish_some(self, completed: Checkpoint) -> None:
        """A subtask that wrote nothing since the complete checkpoint may have been at its end then."""
        for index in range(self.parallelism):
            is_at_end = all(completed.read[each] == self.read[each] for each in self._partitions(index))
            if is_at_end and self.random.random() < 0.3:
                self.finished.add(index)

    # -- what does not -------------------------------------------------------------------------------------------

    def _fail(self, index: int) -> None:
        self.abort()
        match self.random.randrange(8):
            case 0 | 1 | 2:
                self.restart([index])
            case 3:
                self.restart(list(range(self.parallelism)))
            case 4 | 5:
                self.replace_job_master()
            case 6 if self.completed is not None:
                self.rescale(self.completed)

    def abort(self) -> None:
        if self.pending is not None:
            self.coordinator.notify_checkpoint_aborted(self.pending.checkpoint_id)
            self.pending = None

    def restart(self, subtasks: list[int]) -> None:
        """In the same JobMaster."""
        completed = self.completed
        for index in subtasks:
            self.coordinator.subtask_failed(index, None if completed is None else completed.checkpoint_id)
        for index in subtasks:
            self._start(index, completed)

    def replace_job_master(self) -> None:
        self.abort()
        self._create()
        if self.completed is not None:
            self.coordinator.restore(self.completed.coordinator)
        for index in range(self.parallelism):
            self._start(index, self.completed)

    def rescale(self, checkpoint: Checkpoint) -> None:
        """Another job starts from the checkpoint, with a driver of its own."""
        self.parallelism = self.random.choice([each for each in range(1, 5) if each != self.parallelism])
        self.rescales += 1
        self.got = list(checkpoint.got)
        self.positions = ()
        self.completed = checkpoint
        self.replace_job_master()

    def conclude(self) -> None:
        """Everything arrives, a last checkpoint is taken, the job ends, and the driver has every row once."""
        self.abort()
        for writer in self.writers.values():
            writer.flush(end_of_input=True)
        if self.has_checkpoints:
            self._complete_one()
        self._deliver_all()
        self.coordinator.close()
        self.take(1_000_000)
        self.check()
        expected = [part * _PARTITION + n for part, count in self.read.items() for n in range(count)]
        assert sorted(self.got) == expected, "rows were lost"
        if self.rescales == 0:
            for partition in range(PARTITIONS):
                mine = [value for value in self.got if value // _PARTITION == partition]
                assert mine == sorted(mine), "the order of a partition's rows"

    # -- inside --------------------------------------------------------------------------------------------------

    def _complete_one(self) -> None:
        self.trigger()
        for index in range(self.parallelism):
            self.on_barrier(index)
        self._deliver_all()
        assert self.pending is None

    def _deliver_all(self) -> None:
        for index in range(self.parallelism):
            while self.up[index] or self.down[index]:
                self.deliver(index)

    def _create(self) -> None:
        self.up: dict[int, deque[Any]] = {index: deque() for index in range(self.parallelism)}
        self.down: dict[int, deque[Any]] = {index: deque() for index in range(self.parallelism)}
        self.writers: dict[int, CollectWriter] = {}
        self.finished: set[int] = set()
        context: Any = _CoordinatorContext(self)
        self.coordinator = CollectCoordinator("collect", "id", context, self.has_checkpoints)

    def _open(self, index: int) -> None:
        """Messages of the former attempt do not arrive any more."""
        self.up[index].clear()
        self.down[index].clear()
        self.finished.discard(index)
        context: Any = WriterContext(index, self.has_checkpoints and self.has_final, self.up[index])
        self.writers[index] = CollectWriter(context)

    def _start(self, index: int, checkpoint: Checkpoint | None) -> None:
        self._open(index)
        for partition in self._partitions(index):
            self.read[partition] = 0 if checkpoint is None else checkpoint.read[partition]
        if checkpoint is not None:
            is_rescaled = checkpoint.parallelism != self.parallelism
            given = [each for each in sorted(checkpoint.states) if each % self.parallelism == index]
            found = [checkpoint.states[each] for each in (given if is_rescaled else [index])]
            states = [pickle.loads(state) for state in found if state is not None]
            self.writers[index].restore(states, is_rescaled, checkpoint.checkpoint_id)

    def _partitions(self, index: int) -> list[int]:
        return [each for each in range(PARTITIONS) if each % self.parallelism == index]

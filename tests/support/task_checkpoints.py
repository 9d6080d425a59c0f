"""The other side of a task's checkpoints, played by the test: storage in memory, and I/O that runs when it is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.protocol.checkpoint_handles import (
    InlineState,
    OperatorSubtaskState,
    RestoredPart,
    TaskRestore,
    TaskSnapshot,
)
from actors.protocol.elements import CheckpointBarrier, CheckpointOptions, StopMode
from actors.protocol.task_messages import AcknowledgeCheckpoint, DeclineCheckpoint, EndOfDataReached, TaskDeployment
from actors.state.snapshots.snapshot import RestoredState, read_list
from actors.tasks.checkpoints.in_flight import read_in_flight
from flinkray.types.records import OperatorId
from graphs.key_groups import key_group_range
from tests.support.state import RecordingStateWriter, restored_from

Answer = AcknowledgeCheckpoint | DeclineCheckpoint | EndOfDataReached


class TaskWriter(RecordingStateWriter):
    """Knows how it ended."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.is_closed = False
        self.is_aborted = False

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


@dataclass
class Storage:
    """A TaskServices' storage and I/O threads."""

    writers: list[TaskWriter] = field(default_factory=list)
    blocking: deque[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = field(
        default_factory=deque
    )
    answers: list[Answer] = field(default_factory=list)
    is_slow: bool = False
    """Nothing is written before `write_one`."""
    fails: BaseException | None = None
    on_write: Callable[[], object] = lambda: None
    """Called on the thread that writes, before it does."""
    on_done: Callable[[], object] = lambda: None
    """Called when it has written."""

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.blocking.append((work, done))
        if not self.is_slow:
            self.write_one()

    def write_one(self, index: int = 0) -> None:
        """Runs one piece of what waits."""
        work, done = self.blocking[index]
        del self.blocking[index]
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            self.on_done()
            done(result, None)

    def create_writer(self, options: CheckpointOptions, name: str, inline_bytes: int) -> TaskWriter:
        if self.fails is not None:
            raise self.fails
        self.on_write()
        self.writers.append(TaskWriter(name))
        return self.writers[-1]

    def create_reader(self, deployment: TaskDeployment) -> MemoryReader:
        return MemoryReader(deployment)

    # -- looking -------------------------------------------------------------------------------------------------

    def acknowledged(self) -> dict[int, AcknowledgeCheckpoint]:
        return {each.checkpoint_id: each for each in self.answers if isinstance(each, AcknowledgeCheckpoint)}

    def declined(self) -> dict[int, str]:
        return {each.checkpoint_id: each.reason for each in self.answers if isinstance(each, DeclineCheckpoint)}

    def snapshot(self, checkpoint_id: int) -> TaskSnapshot:
        return self.acknowledged()[checkpoint_id].snapshot

    def check(self) -> None:
        """What was not acknowledged is not left anywhere, except where it was given up after it had been written."""
        for writer in self.writers:
            assert writer.is_closed or writer.is_aborted, f"the writer {writer.name} was neither closed nor aborted"


@dataclass
class MemoryReader:
    """A StateReader for states that are inline."""

    deployment: TaskDeployment

    def operator_state(self, restore: TaskRestore, operator_id: OperatorId) -> RestoredState:
        parts = tuple(each.part for each in restore.operators.get(operator_id, ()))
        of_task = self.deployment
        owned = key_group_range(of_task.subtask_index, of_task.parallelism, of_task.max_parallelism)
        return restored_from([OperatorSubtaskState(parts)], owned, checkpoint_id=restore.checkpoint_id)

    def read(self, restore: TaskRestore, part: RestoredPart) -> bytes:
        assert isinstance(part.part.data, InlineState)
        return part.part.data.data


def restore_of(snapshot: TaskSnapshot, checkpoint_id: int = 1, is_finished: bool = False) -> TaskRestore:
    """Starts the same subtask again from its own snapshot; its results' rows in flight go to its consumers."""
    return TaskRestore(
        checkpoint_id,
        "memory:",
        {
            operator_id: tuple(RestoredPart(part) for part in state.parts if not part.name.startswith("result "))
            for operator_id, state in snapshot.operators.items()
        },
        is_finished,
    )


def items_of(snapshot: TaskSnapshot, operator: str, name: str = "seen") -> list[Any]:
    """A list in an operator's state."""
    states: Mapping[OperatorId, OperatorSubtaskState] = snapshot.operators
    parts = states[OperatorId(f"id of {operator}")].parts
    return [item for part in parts if part.name == name for item in read_list(_bytes(part.data))]


def in_flight_of(snapshot: TaskSnapshot) -> dict[str, list[int]]:
    """First column of the rows in flight, by the name of their part."""
    return {
        part.name: [value for batch in read_in_flight(_bytes(part.data)) for value in batch.data.column(0).to_pylist()]
        for state in snapshot.operators.values()
        for part in state.parts
        if part.name.startswith(("gate ", "result "))
    }


def _bytes(data: Any) -> bytes:
    assert isinstance(data, InlineState)
    return data.data


def barrier(
    checkpoint_id: int,
    timestamp_ms: int = 1_000_000,
    *,
    unaligned: bool = False,
    exactly_once: bool = True,
    timeout_ms: int | None = None,
    stop: StopMode = StopMode.GO_ON,
) -> CheckpointBarrier:
    options = CheckpointOptions(
        is_savepoint=stop is not StopMode.GO_ON,
        is_exactly_once=exactly_once,
        is_unaligned=unaligned,
        aligned_timeout_ms=timeout_ms,
        stop=stop,
    )
    return CheckpointBarrier(checkpoint_id, timestamp_ms, options)

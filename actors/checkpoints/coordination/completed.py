"""A whole checkpoint, once every task has acknowledged it: what metadata holds and a restore starts from. Values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from actors.protocol.checkpoint_handles import OperatorSubtaskState, SharedFile
from flinkray.types.records import JobId, OperatorId


class OperatorState(Struct, frozen=True):
    """One operator with all its subtasks."""

    operator_id: OperatorId
    name: str
    uid: str | None
    parallelism: int
    max_parallelism: int
    subtasks: Mapping[int, OperatorSubtaskState] = field(default_factory=dict)
    """By subtask index; those without state may be missing."""
    finished: frozenset[int] = frozenset()
    """Subtasks that had processed all their rows."""
    coordinator: bytes | None = None
    """State of the operator's coordinator."""

    @property
    def is_finished(self) -> bool:
        """All subtasks had processed all their rows."""
        return len(self.finished) == self.parallelism


class CompletedCheckpoint(Struct, frozen=True):
    """A checkpoint or savepoint that a job can start from."""

    job_id: JobId
    job_name: str
    checkpoint_id: int
    triggered_ms: int
    completed_ms: int
    is_savepoint: bool
    directory: str
    """URI; empty for a checkpoint in the JobMaster's memory."""
    operators: Mapping[OperatorId, OperatorState]

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for operator in self.operators.values() for state in operator.subtasks.values())

    def states(self) -> Iterator[OperatorSubtaskState]:
        for operator in self.operators.values():
            yield from operator.subtasks.values()

    def shared_files(self) -> Iterator[SharedFile]:
        """Files that other checkpoints may use as well."""
        for state in self.states():
            yield from state.shared_files()

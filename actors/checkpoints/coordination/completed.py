"""A completed checkpoint: what every task has acknowledged, what its metadata holds and what a restore starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from actors.protocol.checkpoint_handles import OperatorSubtaskState, PartKind, SharedFile
from flinkray.types.records import JobId, OperatorId


class OperatorState(Struct, frozen=True):
    """The state of one operator, with all of its subtasks."""

    operator_id: OperatorId
    name: str
    uid: str | None
    parallelism: int
    max_parallelism: int
    subtasks: Mapping[int, OperatorSubtaskState] = field(default_factory=dict)
    """The state of each subtask, by its index; subtasks without state may be missing."""
    finished: frozenset[int] = frozenset()
    """Indices of the subtasks that had processed all their rows."""
    coordinator: bytes | None = None
    """The state of the operator's coordinator; None: it has none."""
    computes: str = ""
    """What the operator computed, as text; "": it is not known."""
    gates: tuple[int, ...] = ()
    """Where its task has rows in flight, and it is the task's head: its input behind each gate, by gate index."""
    results: tuple[tuple[OperatorId, int], ...] = ()
    """Where its task has rows in flight, and it is the task's head: by result index the operator that reads the
    result, and the input of that one."""

    @property
    def is_finished(self) -> bool:
        """Whether all subtasks had processed all their rows."""
        return len(self.finished) == self.parallelism

    def has(self, *kinds: PartKind) -> bool:
        """Whether any subtask has state of one of these kinds."""
        return any(part.kind in kinds for each in self.subtasks.values() for part in each.parts)


class CompletedCheckpoint(Struct, frozen=True):
    """A checkpoint or savepoint that a job can start from."""

    job_id: JobId
    job_name: str
    checkpoint_id: int
    triggered_ms: int
    completed_ms: int
    is_savepoint: bool
    directory: str
    """URI of its own directory; empty for a checkpoint in the JobMaster's memory."""
    operators: Mapping[OperatorId, OperatorState]

    def with_all_finished(self) -> CompletedCheckpoint:
        """As if all subtasks had processed all their rows: who starts from that commits what is prepared, and ends."""
        operators = {
            operator_id: replace(state, finished=frozenset(range(state.parallelism)))
            for operator_id, state in self.operators.items()
        }
        return replace(self, operators=operators)

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for operator in self.operators.values() for state in operator.subtasks.values())

    def states(self) -> Iterator[OperatorSubtaskState]:
        for operator in self.operators.values():
            yield from operator.subtasks.values()

    def shared_files(self) -> Iterator[SharedFile]:
        """The files that other checkpoints may use as well."""
        for state in self.states():
            yield from state.shared_files()

"""Where the state of a checkpoint is: the values that tasks acknowledge, metadata lists, and deployments bring back.

Values only, small and picklable; `actors.checkpoints.storage` reads and writes what they name.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from flinkray.types.records import OperatorId


class InlineState(Struct, frozen=True):
    """Bytes that travel in the message, and are kept in the metadata: state too small for a file of its own."""

    data: bytes
    checksum: int
    """zlib.crc32 of the bytes."""

    @property
    def length(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"InlineState({self.length} bytes)"


class FileState(Struct, frozen=True):
    """A slice of a file."""

    path: str
    """The absolute path within the file system of the checkpoint."""
    offset: int
    length: int
    checksum: int
    """zlib.crc32 of the slice."""


StateBytes = InlineState | FileState


class SharedFile(Struct, frozen=True):
    """A whole file that several checkpoints may use: part of an incremental one. Never changed once written."""

    name: str
    """What the state backend calls it."""
    path: str
    """The absolute path within the file system of the checkpoint."""
    length: int
    checksum: int


class PartKind(enum.Enum):
    """What a part of an operator's state is, which says how it is given out when a job is restored."""

    KEYED = "keyed"
    """A table ordered by key group: each subtask gets the rows of its key groups."""
    SPLIT = "split"
    """A list of items that the subtasks share out."""
    UNION = "union"
    """A list of items; every subtask gets those of all, and none may be missing."""
    GATHERED = "gathered"
    """A list of items; every subtask gets those of all that have not finished: of what these had come to, or had seen,
    nobody needs to know any more."""
    BROADCAST = "broadcast"
    """A list of items, the same at every subtask: each gets one copy."""
    NATIVE = "native"
    """Files of a state backend, readable by that backend alone."""
    IN_FLIGHT = "in flight"
    """Rows that an unaligned barrier overtook on one input of the task, oldest first."""


class StatePart(Struct, frozen=True):
    """One named piece of one operator subtask's state."""

    name: str
    kind: PartKind
    data: StateBytes
    items: int
    """How many rows the table has, or items the list."""
    key_groups: tuple[int, int] | None = None
    """The key groups [first, end) of the subtask that wrote it, for KEYED and NATIVE."""
    shared: tuple[SharedFile, ...] = ()
    """The files of a NATIVE part; `data` says how the backend puts them together."""

    @property
    def nbytes(self) -> int:
        return self.data.length + sum(file.length for file in self.shared)


class OperatorSubtaskState(Struct, frozen=True):
    """Everything one subtask of one operator has in one checkpoint."""

    parts: tuple[StatePart, ...] = ()

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def files(self) -> Iterator[str]:
        """Paths of the files that belong to this checkpoint alone, each perhaps several times."""
        for part in self.parts:
            if isinstance(part.data, FileState):
                yield part.data.path

    def shared_files(self) -> Iterator[SharedFile]:
        for part in self.parts:
            yield from part.shared


class TaskSnapshot(Struct, frozen=True):
    """What a task acknowledges."""

    operators: Mapping[OperatorId, OperatorSubtaskState]
    is_finished: bool = False
    """All rows of the subtask were processed before this checkpoint, and its operators have finished."""
    is_at_end: bool = False
    """All rows were processed, so that the task finishes when this checkpoint, if not a savepoint, is complete."""

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for state in self.operators.values())


class RestoredPart(Struct, frozen=True):
    """A part that a subtask reads when it is restored, or a piece of one."""

    part: StatePart
    first: int = 0
    """The items [first, end) of a list; of other kinds everything is read."""
    end: int | None = None
    is_shared: bool = False
    """Of rows in flight: other subtasks get them as well, and each keeps its own."""


class TaskRestore(Struct, frozen=True):
    """What a task is to start from; part of its deployment."""

    checkpoint_id: int
    directory: str
    """URI of the checkpoint, for reading its parts and for errors."""
    operators: Mapping[OperatorId, tuple[RestoredPart, ...]] = field(default_factory=dict)
    """Operator -> the parts of its state; only operators that have state."""
    is_finished: bool = False
    """Every subtask of the vertex had finished, so that the task emits nothing but its end."""
    rescaled: frozenset[OperatorId] = frozenset()
    """Operators that had another parallelism at the checkpoint."""


class CheckpointMetrics(Struct, frozen=True):
    """How a subtask's part of a checkpoint went."""

    start_delay_ms: float = 0.0
    """Time from the coordinator's trigger to the first barrier at the task."""
    alignment_ms: float = 0.0
    """Time from the first to the last barrier."""
    sync_ms: float = 0.0
    """How long the task processed no rows for it."""
    async_ms: float = 0.0
    in_flight_bytes: int = 0
    """Bytes of rows in flight that an unaligned checkpoint persisted."""

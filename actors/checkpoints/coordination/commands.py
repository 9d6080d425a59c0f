"""What the checkpoint coordinator wants done: the JobMaster carries the commands out, in their order."""

from __future__ import annotations

from msgspec import Struct

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.protocol.checkpoint_handles import TaskSnapshot
from actors.protocol.elements import CheckpointOptions
from flinkray.errors import ErrorInfo
from graphs.execution_graph import AttemptId


class SnapshotCoordinators(Struct, frozen=True):
    """Call `snapshot` of every operator coordinator and answer with `coordinators_snapshotted`, all in one handler.

    What a coordinator sends to its operators before that is covered by its snapshot; so nothing may be sent between
    the snapshot and the triggers, which the answer brings.
    """

    checkpoint_id: int


class SendTrigger(Struct, frozen=True):
    """Have the attempt begin the checkpoint."""

    attempt_id: AttemptId
    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions


class SendComplete(Struct, frozen=True):
    """Tell the attempt that the checkpoint is complete."""

    attempt_id: AttemptId
    checkpoint_id: int


class SendAborted(Struct, frozen=True):
    """Tell the attempt that the checkpoint will not be completed."""

    attempt_id: AttemptId
    checkpoint_id: int


class CoordinatorsNotified(Struct, frozen=True):
    """Tell every operator coordinator what became of the checkpoint."""

    checkpoint_id: int
    is_complete: bool


class StoreCheckpoint(Struct, frozen=True):
    """Write its metadata, and, unless it is a savepoint, add it to those that the job recovers from; then `stored`.

    One at a time, in the order of ids except for savepoints.
    """

    checkpoint: CompletedCheckpoint


class DropState(Struct, frozen=True):
    """Delete what these snapshots alone refer to: no checkpoint will have them.

    Files that checkpoints share are for the store of completed checkpoints to judge.
    """

    checkpoint_id: int
    directory: str
    """Of the checkpoint, where it is known; nothing else will use it. Tasks may still write there."""
    snapshots: tuple[TaskSnapshot, ...]


class FailJob(Struct, frozen=True):
    """Checkpoints are the reason why the job cannot go on as it is; the restart strategy has its say."""

    error: ErrorInfo
    attempt_id: AttemptId | None
    """The task that is to blame; None: nobody in particular."""


class SavepointDone(Struct, frozen=True):
    """Answer the request. For one that stops the job, this comes when all tasks have finished."""

    request_id: str
    directory: str | None
    error: ErrorInfo | None
    """Exactly one of the two is there; an error may name a directory all the same."""


Command = (
    SnapshotCoordinators
    | SendTrigger
    | SendComplete
    | SendAborted
    | CoordinatorsNotified
    | StoreCheckpoint
    | DropState
    | FailJob
    | SavepointDone
)

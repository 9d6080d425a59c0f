"""What the checkpoint coordinator decides to do: commands, which the JobMaster carries out in their order."""

from __future__ import annotations

from msgspec import Struct

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.protocol.checkpoint_handles import TaskSnapshot
from actors.protocol.elements import CheckpointOptions
from flinkray.errors import ErrorInfo
from graphs.execution_graph import AttemptId


class SnapshotCoordinators(Struct, frozen=True):
    """Make the directory, snapshot every operator coordinator, and answer with `coordinators_snapshotted`, now or
    later; with `coordinators_failed` where either fails.

    The snapshot of a coordinator covers what it has sent to its operators before; so it must send nothing between the
    snapshot and the triggers, which the answer leads to.
    """

    checkpoint_id: int
    directory: str = ""
    """Of a savepoint. As in Flink, one that cannot be made is refused before any task hears of it; "": none is made."""


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
    """Tell the attempt that the checkpoint is aborted."""

    attempt_id: AttemptId
    checkpoint_id: int


class CoordinatorsNotified(Struct, frozen=True):
    """Tell every operator coordinator what became of the checkpoint."""

    checkpoint_id: int
    is_complete: bool


class StoreCheckpoint(Struct, frozen=True):
    """Write the checkpoint's metadata, add it to those that the job recovers from unless it is a savepoint that lets
    the job go on, and answer with `stored`.

    One at a time, in the order of ids except for savepoints.
    """

    checkpoint: CompletedCheckpoint
    stop_request: str = ""
    """The request for the savepoint if it stops the job: from it the job does nothing more than to end."""


class DropState(Struct, frozen=True):
    """Delete state that no checkpoint will refer to.

    Files that checkpoints share are not meant: the store of completed checkpoints knows which of them are unused.
    """

    checkpoint_id: int
    directory: str
    """The directory of an aborted checkpoint, into which tasks may still be writing; "" if only `snapshots` are to
    go."""
    snapshots: tuple[TaskSnapshot, ...]


class FailJob(Struct, frozen=True):
    """Fail the job because of its checkpoints; the restart strategy decides whether it goes on."""

    error: ErrorInfo
    attempt_id: AttemptId | None
    """The task that caused it; None: no task in particular."""


class SavepointDone(Struct, frozen=True):
    """Answer the request for a savepoint; for one that stops the job, once all tasks have finished."""

    request_id: str
    directory: str | None
    error: ErrorInfo | None
    """None if the savepoint succeeded; else `directory` is None, but the error may name a directory."""


CheckpointCommand = (
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

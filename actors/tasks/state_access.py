"""The storage of checkpoints, as tasks see it."""

from __future__ import annotations

from actors.checkpoints.handles import RestoredPart, TaskRestore
from actors.elements import CheckpointOptions
from actors.messages import TaskDeployment
from actors.state.snapshot import RestoredState
from actors.tasks.environment import SnapshotWriter
from flinkray.types import OperatorId


def create_snapshot_writer(options: CheckpointOptions, name: str, inline_bytes: int) -> SnapshotWriter:
    """For `TaskServices.create_writer`."""
    from actors.checkpoints.storage import create_writer

    return create_writer(options, name, inline_bytes)


class RestoredTaskReader:
    """Implements `actors.tasks.environment.StateReader`."""

    def __init__(self, deployment: TaskDeployment) -> None:
        self._deployment = deployment

    def operator_state(self, restore: TaskRestore, operator_id: OperatorId) -> RestoredState:
        from actors.checkpoints.reading import RestoredOperatorState

        return RestoredOperatorState(self._deployment, restore, operator_id)

    def read(self, restore: TaskRestore, part: RestoredPart) -> bytes:
        from actors.checkpoints.reading import read_part

        return read_part(restore, part)

"""The checkpoint that a task starts from, as `actors.tasks.environment.TaskServices` hands it out."""

from __future__ import annotations

from actors.checkpoints.handles import RestoredPart, TaskRestore
from actors.checkpoints.reading import RestoredOperatorState, read_part
from actors.messages import TaskDeployment
from actors.state.snapshot import RestoredState
from flinkray.types import OperatorId


class RestoredTaskReader:
    """Implements `actors.tasks.environment.StateReader`."""

    def __init__(self, deployment: TaskDeployment) -> None:
        self._deployment = deployment

    def operator_state(self, restore: TaskRestore, operator_id: OperatorId) -> RestoredState:
        return RestoredOperatorState(self._deployment, restore, operator_id)

    def read(self, restore: TaskRestore, part: RestoredPart) -> bytes:
        return read_part(restore, part)

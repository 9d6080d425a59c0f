"""The checkpoint that a task starts from, as `actors.tasks.chain.task_services.TaskServices` hands it out."""

from __future__ import annotations

from actors.checkpoints.storage.reading import RestoredOperatorState, read_part
from actors.protocol.checkpoint_handles import RestoredPart, TaskRestore
from actors.protocol.data_messages import TaskDeployment
from actors.state.snapshots.snapshot import RestoredState
from flinkray.types.records import OperatorId


class RestoredTaskReader:
    """Implements `actors.tasks.chain.task_services.StateReader`."""

    def __init__(self, deployment: TaskDeployment) -> None:
        self._deployment = deployment

    def operator_state(self, restore: TaskRestore, operator_id: OperatorId) -> RestoredState:
        return RestoredOperatorState(self._deployment, restore, operator_id)

    def read(self, restore: TaskRestore, part: RestoredPart) -> bytes:
        return read_part(restore, part)

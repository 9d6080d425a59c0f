"""What the scheduler wants done: the JobMaster carries the commands out, in their order."""

from __future__ import annotations

from msgspec import Struct

from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, SlotRequest
from actors.protocol.task_messages import TaskDeployment
from flinkray.execution import JobStatus
from graphs.execution_graph import AttemptId, ExecutionVertexId, PartitionId
from graphs.job_graph import JobVertexId


class DeclareSlots(Struct, frozen=True):
    """Declare these requirements to the ResourceManager."""

    requests: tuple[SlotRequest, ...]


class DeployTask(Struct, frozen=True):
    """Submit the task to that TaskExecutor."""

    task_executor: Address
    deployment: TaskDeployment


class CancelAttempt(Struct, frozen=True):
    """Cancel the attempt, which runs in that slot."""

    task_executor: Address
    allocation_id: AllocationId
    attempt_id: AttemptId


class ReleaseResultPartitions(Struct, frozen=True):
    """Nobody reads these results of the slot any more."""

    task_executor: Address
    allocation_id: AllocationId
    partition_ids: tuple[PartitionId, ...]


class ReleaseSlot(Struct, frozen=True):
    """Give the slot back; whatever runs in it is killed."""

    task_executor: Address
    allocation_id: AllocationId
    reason: str


class KillSlot(Struct, frozen=True):
    """End the slot's process yourself: its TaskExecutor is gone and cannot."""

    slot: Address


class SubtaskStarted(Struct, frozen=True):
    """An attempt is being set up: its operators' coordinators may send to it."""

    vertex_id: JobVertexId
    subtask_index: int


class StatusChanged(Struct, frozen=True):
    """The job has this status now."""

    status: JobStatus


class SlotsTimedOut(Struct, frozen=True):
    """Slots are missing for too long: find out what the cluster has, then call `fail_for_slots`."""


class SubtasksReset(Struct, frozen=True):
    """These subtasks are to run again, and have ended: work out what they start from, then call `deploy_restarted`.

    The coordinators of their operators are told first (`subtask_failed`, or new ones where the restart is global).
    What `restore_of` gives is asked for after that, at the deployment.
    """

    restart: int
    """For `deploy_restarted`: a call for a restart that another failure has changed meanwhile is ignored."""
    vertices: tuple[ExecutionVertexId, ...]
    """The subtasks, in topological order; some of them may not have run since their last reset."""
    is_global: bool
    """The job is restarted because it failed as a whole: `vertices` are all, and its coordinators begin anew."""


SchedulerCommand = (
    DeclareSlots
    | DeployTask
    | CancelAttempt
    | ReleaseResultPartitions
    | ReleaseSlot
    | KillSlot
    | SubtaskStarted
    | SubtasksReset
    | StatusChanged
    | SlotsTimedOut
)

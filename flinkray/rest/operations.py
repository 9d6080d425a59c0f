"""What changes something: it is begun by one request, and looked after with another one, by its id.

As in Flink, a request with a field that it does not have is refused: some have `target-directory` and others
`targetDirectory`, and what is ignored would be done, but not as it was asked for.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field


class Nothing(Struct, frozen=True, kw_only=True):
    """The empty answer: what was asked for is under way."""


class Triggered(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The operation has begun; `request-id` is what its progress is asked for with."""

    request_id: str


class SavepointRequest(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Take a savepoint."""

    target_directory: str | None = None
    """None: the job's own (execution.checkpointing.savepoint-dir)."""
    cancel_job: bool | None = False
    """Stop the job once the savepoint is complete."""
    format_type: str | None = field(default=None, name="formatType")
    """CANONICAL, or nothing: there is one format."""
    trigger_id: str | None = field(default=None, name="triggerId")
    """32 hex digits of one's own, so that the request can be repeated without a second savepoint."""


class StopRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Stop a job with a savepoint."""

    target_directory: str | None = None
    drain: bool | None = False
    """Fire all windows and timers first: the job is not to go on from there."""
    format_type: str | None = None
    trigger_id: str | None = None


class CheckpointRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Take the next periodic checkpoint now."""

    checkpoint_type: str | None = None
    """CONFIGURED, or nothing: checkpoints are as the job configures them."""
    trigger_id: str | None = None


class DisposalRequest(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Delete a savepoint."""

    savepoint_path: str


class OperationStatus(Struct, frozen=True, kw_only=True):
    """IN_PROGRESS or COMPLETED; what has failed is completed too."""

    id: str


class FailureCause(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Why an operation failed."""

    class_: str = field(name="class")
    stack_trace: str


class SavepointResult(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Where the savepoint is, or why there is none."""

    location: str | UnsetType = UNSET
    failure_cause: FailureCause | UnsetType = UNSET


class SavepointProgress(Struct, frozen=True, kw_only=True):
    """What has become of a savepoint; while it is under way there is no `operation`."""

    status: OperationStatus
    operation: SavepointResult | None = None


class CheckpointResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """The id of the checkpoint, or why there is none."""

    checkpoint_id: int | UnsetType = UNSET
    failure_cause: FailureCause | UnsetType = UNSET


class CheckpointProgress(Struct, frozen=True, kw_only=True):
    """What has become of a checkpoint that was asked for."""

    status: OperationStatus
    operation: CheckpointResult | None = None


class RescalingResult(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Why a job goes on as it was; empty: it is rescaled."""

    failure_cause: FailureCause | UnsetType = UNSET


class RescalingProgress(Struct, frozen=True, kw_only=True):
    """What has become of a rescale that was asked for."""

    status: OperationStatus
    operation: RescalingResult | None = None


class DisposalResult(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Why a savepoint was not deleted; empty: it was."""

    failure_cause: FailureCause | UnsetType = UNSET


class DisposalProgress(Struct, frozen=True, kw_only=True):
    """What has become of the deletion of a savepoint."""

    status: OperationStatus
    operation: DisposalResult | None = None


OpenApi = dict[str, Any]
"""The description of this interface as OpenAPI 3.1."""

"""Why a checkpoint fails, and how many may fail one after another (Flink's CheckpointFailureManager).

The limit is execution.checkpointing.tolerable-failed-checkpoints.
"""

from __future__ import annotations

import enum

from msgspec import Struct

from flinkray.errors import CheckpointError, ErrorInfo
from graphs.execution_graph import AttemptId


class FailureReason(enum.Enum):
    """Why a checkpoint was aborted: (text, whether it counts towards the tolerable failures)."""

    EXPIRED = ("it was not complete in time", True)
    TASK_ERROR = ("a task could not write its state", True)
    COORDINATOR_ERROR = ("an operator's coordinator could not give its state", True)
    NO_DIRECTORY = ("its directory could not be made", True)
    NOT_STORED = ("its metadata could not be written", True)
    DECLINED = ("a task declined", False)
    TASK_LOST = ("a task failed or was cancelled", False)
    TASK_FINISHED = ("a task finished before it had acknowledged", False)
    SUBSUMED = ("a later checkpoint was completed before it", False)
    JOB_STOPPED_RUNNING = ("the job does not run any more", False)
    PARTLY_FINISHED = ("union state of subtasks that have finished would be missing", False)

    @property
    def text(self) -> str:
        return self.value[0]

    @property
    def counts(self) -> bool:
        return self.value[1]


class CheckpointFailure(Struct, frozen=True):
    """How one checkpoint failed."""

    reason: FailureReason
    detail: str = ""
    error: ErrorInfo | None = None
    attempt_id: AttemptId | None = None
    """The task that caused it; None: no task in particular."""

    def __str__(self) -> str:
        text = self.reason.text + (f": {self.detail}" if self.detail else "")
        return f"{text}: {self.error.type_name}: {self.error.message}" if self.error is not None else text


class StoppingFailedError(CheckpointError):
    """The savepoint that was to stop the job is complete, and perhaps committed, but the job failed for good, or was
    cancelled, before it had ended.

    A job that is started from an older checkpoint would write again what the savepoint has committed.
    """

    @classmethod
    def of(cls, directory: str, reason: str) -> StoppingFailedError:
        return cls(
            f"the job did not end after savepoint {directory}: {reason}; the savepoint is complete, but perhaps not "
            "everything is committed: start the job from it"
        )


class FailureCounter:
    """Counts checkpoints that failed one after another.

    A checkpoint counts once, however many of its tasks report a failure. As in Flink, a savepoint counts only if a task
    could not write its state, as then a checkpoint would have failed too.
    """

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._counted: set[int] = set()
        self._last_success = 0

    @property
    def failures(self) -> int:
        """How many checkpoints have failed since the last success."""
        return len(self._counted)

    def succeeded(self, checkpoint_id: int) -> None:
        """Forgets all failures; earlier checkpoints that are yet to fail will not count either."""
        self._last_success = max(self._last_success, checkpoint_id)
        self._counted.clear()

    def failed(self, checkpoint_id: int, is_savepoint: bool, failure: CheckpointFailure) -> bool:
        """Counts a failure; whether it is one too many, after which counting begins anew."""
        counts = failure.reason.counts and (not is_savepoint or failure.reason is FailureReason.TASK_ERROR)
        if not counts or checkpoint_id <= self._last_success:
            return False
        self._counted.add(checkpoint_id)
        if len(self._counted) <= self._tolerable:
            return False
        self._counted.clear()
        return True

    def error(self, checkpoint_id: int, failure: CheckpointFailure) -> ErrorInfo:
        """The error that the job fails with, caused by the task's own error if there is one."""
        error = CheckpointError(
            f"checkpoint {checkpoint_id} failed, and only {self._tolerable} may fail one after another "
            f"(execution.checkpointing.tolerable-failed-checkpoints): {failure}"
        )
        if failure.error is not None:
            error.__cause__ = failure.error.exception()
        return ErrorInfo.of(error)

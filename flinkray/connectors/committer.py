"""How what the writers of a sink prepared becomes visible, once its checkpoint is complete."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

_Committable = TypeVar("_Committable")

END_OF_INPUT = 2**63 - 1
"""The checkpoint id of what is committed when the input of a job without checkpoints has ended."""


class CommitOutcome(enum.Enum):
    """What became of a request."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RETRY_LATER = "retry later"
    CARRIED_OVER = "carried over"
    GIVEN_UP = "given up"


class CommitRequest(Generic[_Committable]):
    """One committable that is to be committed (Flink's CommitRequest). Unless `commit` says otherwise, it is committed.

    Args:
        committable: as the writer's `prepare_commit` gave it, or as an earlier attempt replaced it.
        checkpoint_id: the checkpoint that it belongs to; `END_OF_INPUT` in a job without checkpoints.
        attempt: 0 for the first attempt of this task, one more after each that was put off.
    """

    def __init__(self, committable: _Committable, checkpoint_id: int = 1, attempt: int = 0) -> None:
        self._committable = committable
        self._checkpoint_id = checkpoint_id
        self._attempt = attempt
        self._outcome = CommitOutcome.COMMITTED
        self._reason = ""

    @property
    def committable(self) -> _Committable:
        """What is to be committed."""
        return self._committable

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint that the committable belongs to."""
        return self._checkpoint_id

    @property
    def attempt(self) -> int:
        """How often it was put off before."""
        return self._attempt

    @property
    def outcome(self) -> CommitOutcome:
        """What `commit` said of it; COMMITTED if nothing."""
        return self._outcome

    @property
    def reason(self) -> str:
        """Why it was put off or given up."""
        return self._reason

    def already_committed(self) -> None:
        """An attempt before this one has committed it, perhaps of a task that died then. Counted apart, and well."""
        self._outcome = CommitOutcome.ALREADY_COMMITTED

    def retry_later(self, reason: str, committable: _Committable | None = None) -> None:
        """It cannot be committed now, but may be in a moment: it is tried again after a pause that grows.

        Args:
            reason: for the log, and for the error if it is put off too often (`sink.committer.retries`).
            committable: what is to be committed then; None: the same.
        """
        self._outcome, self._reason = CommitOutcome.RETRY_LATER, reason
        if committable is not None:
            self._committable = committable

    def carry_over(self) -> None:
        """Its time has not come: it comes again with the requests of the next checkpoint, and is in all snapshots until
        then. Nothing waits for it, and after the last checkpoint of a job nothing comes."""
        self._outcome = CommitOutcome.CARRIED_OVER

    def give_up(self, reason: str) -> None:
        """It can never be committed, and the job is to go on without its rows: it is logged as an error and counted.

        Where rows must not be lost, let `commit` raise instead.
        """
        self._outcome, self._reason = CommitOutcome.GIVEN_UP, reason


class Committer(ABC):
    """Makes prepared output visible.

    All methods are called on threads of the runtime other than the task's, one at a time. Committing the same twice
    must do no more than once, since a failure may repeat it.
    """

    @abstractmethod
    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Makes visible what writers have prepared for one checkpoint.

        Called for one checkpoint after the other, in order: not for the next before all requests of this one are
        committed, given up or carried over. Those that are put off come again, without the others; those that earlier
        checkpoints carried over come first. It may block, with a deadline;
        the task goes on meanwhile, but takes no more rows when commits stay several checkpoints behind.

        Raises:
            Exception: it cannot be done; the job fails, and after a restart commits all of these again.
        """

    def abort(self, committables: Sequence[Any]) -> None:
        """Drops what was prepared and is never going to be committed."""

    def close(self) -> None:
        """Releases everything."""


class CommittableSummary(Struct, frozen=True):
    """In a sink's streams of committables: how many `CommittableWithLineage` of a subtask follow for a checkpoint.

    Those of one subtask come with ascending checkpoints, also where it had nothing to commit. After a failure one may
    stand for some before it that never come, and may come again.
    """

    subtask_index: int
    number_of_subtasks: int
    checkpoint_id: int
    """`END_OF_INPUT` in a job without checkpoints, and for what was prepared at the end, where it is not committed."""
    number_of_committables: int
    number_of_failed: int
    """How many were given up: they do not follow."""


class CommittableWithLineage(Struct, frozen=True):
    """In a sink's streams of committables: one of them, with the checkpoint and the subtask that it was prepared or
    committed with."""

    committable: Any
    checkpoint_id: int
    subtask_index: int

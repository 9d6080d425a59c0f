"""Decides when a task may end whose data has ended: perhaps only after one more checkpoint. Pure."""

from __future__ import annotations

from actors.protocol.elements import StopMode


class TaskEnd:
    """What a task waits for at the end of its data.

    - If a savepoint stops the job: until that savepoint is complete, which commits what sinks have prepared.
    - Else, if the job has checkpoints: until a checkpoint is complete that was taken after the end of data, or a later
      one (Flink's final checkpoint).
    - Else for nothing.

    Args:
        has_checkpoints: whether a checkpoint will follow the end of the data.
    """

    def __init__(self, has_checkpoints: bool) -> None:
        self._has_checkpoints = has_checkpoints
        self._has_data_ended = False
        self._needed: int | None = None
        self._savepoint: int | None = None
        self._stopped_for: int | None = None
        self._is_finished = False
        self._is_covered = False

    @property
    def has_data_ended(self) -> bool:
        return self._has_data_ended

    @property
    def is_finished(self) -> bool:
        """Whether all rows are processed, and the operators have finished."""
        return self._is_finished

    @property
    def savepoint(self) -> int | None:
        """The id of the savepoint that stops the job, once it has been taken here."""
        return self._savepoint

    @property
    def may_end(self) -> bool:
        """Whether the task may end, once all of its inputs have ended."""
        if self._savepoint is not None or self._has_checkpoints:
            return self._is_covered
        return True

    def on_sources_stopped(self, checkpoint_id: int) -> None:
        """The task's own sources have stopped reading, for a savepoint."""
        self._stopped_for = checkpoint_id

    def on_end_of_data(self, should_drain: bool) -> bool:
        """All rows are processed; whether the coordinator must hear of it, so that a final checkpoint follows."""
        self._has_data_ended = True
        self._is_finished = should_drain
        return self._has_checkpoints and self._savepoint is None

    def on_taken(self, checkpoint_id: int, stop: StopMode) -> None:
        """The task's part of a checkpoint has been snapshotted."""
        if stop is not StopMode.GO_ON:
            self._savepoint = checkpoint_id
        if self._has_data_ended and self._needed is None:
            self._needed = checkpoint_id

    def on_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, as the coordinator says."""
        if self._savepoint is not None:
            self._is_covered |= checkpoint_id == self._savepoint
        elif self._needed is not None:
            self._is_covered |= checkpoint_id >= self._needed

    def is_fatal(self, aborted_checkpoint_id: int) -> bool:
        """Whether the task cannot go on as that checkpoint was aborted, for which its sources have stopped."""
        return aborted_checkpoint_id in (self._savepoint, self._stopped_for)

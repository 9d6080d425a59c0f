"""When a task whose data has ended may end itself: decides. Pure."""

from __future__ import annotations

from actors.protocol.elements import StopMode


class TaskEnd:
    """What a task at the end of its data waits for.

    - A savepoint that stops the job: until that very savepoint is complete, which commits what sinks have prepared.
    - Otherwise, where the job has checkpoints: until a checkpoint that was taken after the end of data is complete, or
      one after it. (Flink's final checkpoint.)
    - Otherwise nothing.

    Args:
        has_checkpoints: a checkpoint will follow the end of the data.
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
        """All rows are processed, and the operators have finished."""
        return self._is_finished

    @property
    def savepoint(self) -> int | None:
        """The one that stops the job, once it has been taken here."""
        return self._savepoint

    @property
    def may_end(self) -> bool:
        """Once all inputs have ended."""
        if self._savepoint is not None or self._has_checkpoints:
            return self._is_covered
        return True

    def on_sources_stopped(self, checkpoint_id: int) -> None:
        """The task's own sources read nothing more, for this savepoint."""
        self._stopped_for = checkpoint_id

    def on_end_of_data(self, should_drain: bool) -> bool:
        """All rows are processed; whether the coordinator must hear of it, so that a last checkpoint follows."""
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
        """The coordinator says that a checkpoint is complete."""
        if self._savepoint is not None:
            self._is_covered |= checkpoint_id == self._savepoint
        elif self._needed is not None:
            self._is_covered |= checkpoint_id >= self._needed

    def is_fatal(self, aborted_checkpoint_id: int) -> bool:
        """Whether the task cannot go on without that checkpoint: its sources have stopped for it."""
        return aborted_checkpoint_id in (self._savepoint, self._stopped_for)

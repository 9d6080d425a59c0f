"""Which completed checkpoints a job keeps, and when a file that several of them share is used by none any more. Pure.

Whole checkpoints and shared files are handed out for deletion once each, as soon as nothing needs them, never before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.protocol.checkpoint_handles import SharedFile
from flinkray.execution import JobStatus
from graphs.job_graph import CheckpointRetention

_KEPT_AT: dict[JobStatus, frozenset[CheckpointRetention]] = {
    JobStatus.FINISHED: frozenset(),  # a job that was stopped with a savepoint has finished as well
    JobStatus.FAILED: frozenset({CheckpointRetention.ON_FAILURE, CheckpointRetention.ON_CANCELLATION}),
    JobStatus.CANCELED: frozenset({CheckpointRetention.ON_CANCELLATION}),
}


class Deletions(Struct, frozen=True):
    """What nothing needs any more."""

    checkpoints: tuple[CompletedCheckpoint, ...] = ()
    """Oldest first; each without the files that it shares with others."""
    files: tuple[SharedFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.checkpoints or self.files)


class CompletedCheckpoints:
    """The checkpoints of one job. The job's savepoints, and what it was started from, are offered for recovery too, but
    belong to the user: they and their files are never deleted, and do not count as retained."""

    def __init__(self, retained: int) -> None:
        self._retained = retained
        self._own: dict[int, CompletedCheckpoint] = {}
        """By id, ascending: checkpoints and savepoints."""
        self._initial: CompletedCheckpoint | None = None
        self._aside: set[int] = set()
        self._pending: dict[int, dict[str, SharedFile]] = {}
        self._uses: Counter[str] = Counter()
        """Path of a shared file -> retained and pending checkpoints that use it."""
        self._protected: set[str] = set()
        """Paths of files of savepoints, and of what the job was started from."""

    @property
    def newest_first(self) -> tuple[CompletedCheckpoint, ...]:
        """All that a job can recover from, in the order in which that is tried."""
        own = tuple(self._own[each] for each in reversed(self._own) if each not in self._aside)
        return own if self._initial is None else (*own, self._initial)

    @property
    def own(self) -> tuple[CompletedCheckpoint, ...]:
        """The checkpoints among them that the job has taken itself, newest first."""
        return tuple(each for each in self.newest_first if each is not self._initial and not each.is_savepoint)

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """What the job recovers from."""
        return next(iter(self.newest_first), None)

    def start_from(self, checkpoint: CompletedCheckpoint) -> None:
        """The checkpoint or savepoint that the user has named. It is older than all of the job's own, whatever its
        id says."""
        self._initial = checkpoint
        self._protected.update(_shared(checkpoint))

    def add(self, completed: CompletedCheckpoint) -> Deletions:
        """A checkpoint is complete; those beyond the number to be retained go. In place of `abandon` for its id.

        Raises:
            ValueError: there is one with its id.
        """
        if completed.checkpoint_id in self._own:
            raise ValueError(f"checkpoint {completed.checkpoint_id} is in the store already")
        files = _shared(completed)
        released = self._pending.pop(completed.checkpoint_id, {})
        self._own = dict(sorted({**self._own, completed.checkpoint_id: completed}.items()))
        if completed.is_savepoint:
            self._protected.update(files)
        else:
            self._uses.update(files.keys())
        readable = [each for each in self._checkpoints() if each.checkpoint_id not in self._aside]
        retained = {each.checkpoint_id for each in readable[-self._retained :]}
        return self._delete([each for each in self._checkpoints() if each.checkpoint_id not in retained], [released])

    def set_aside(self, checkpoint: CompletedCheckpoint) -> None:
        """It could not be read, or its user has disposed of it: it is not offered any more. It goes, unless it is the
        user's, once a newer one is complete; until then what is wrong with it may pass."""
        if checkpoint == self._initial:
            self._initial = None
        elif checkpoint.is_savepoint:
            self._own.pop(checkpoint.checkpoint_id, None)
        elif checkpoint.checkpoint_id in self._own:
            self._aside.add(checkpoint.checkpoint_id)

    def register(self, checkpoint_id: int, files: Iterable[SharedFile]) -> None:
        """A task has acknowledged a pending checkpoint with these, which are to be there until its end is known."""
        known = self._pending.setdefault(checkpoint_id, {})
        for file in files:
            if file.path not in known:
                known[file.path] = file
                self._uses[file.path] += 1

    def abandon(self, checkpoint_id: int) -> Deletions:
        """A pending checkpoint will not be completed. Also for what comes late, after `register`."""
        return self._delete([], [self._pending.pop(checkpoint_id, {})])

    def at_job_end(self, status: JobStatus, retention: CheckpointRetention) -> Deletions:
        """The job has ended: what it does not leave behind. `status` is a terminal one."""
        kept = retention in _KEPT_AT[status]
        checkpoints = [] if kept else self._checkpoints()
        pending = list(self._pending.values())
        self._pending.clear()
        return self._delete(checkpoints, pending)

    def check(self) -> None:
        """Uses are counted exactly; for tests, after every step."""
        users = [_shared(each) for each in self._checkpoints()]
        expected = Counter(path for files in (*users, *self._pending.values()) for path in files)
        assert self._uses == expected, f"counted {self._uses}, there are {expected}"
        assert all(count > 0 for count in self._uses.values())

    def _checkpoints(self) -> list[CompletedCheckpoint]:
        """The job's own, without savepoints; oldest first."""
        return [each for each in self._own.values() if not each.is_savepoint]

    def _delete(
        self, checkpoints: Iterable[CompletedCheckpoint], released: Iterable[dict[str, SharedFile]] = ()
    ) -> Deletions:
        """Takes these out, and finds the files that were used by nothing else."""
        checkpoints = tuple(checkpoints)
        unused: dict[str, SharedFile] = {}
        for checkpoint in checkpoints:
            del self._own[checkpoint.checkpoint_id]
            self._aside.discard(checkpoint.checkpoint_id)
        for files in (*map(_shared, checkpoints), *released):
            for path, file in files.items():
                self._uses[path] -= 1
                if self._uses[path] == 0:
                    del self._uses[path]
                    unused[path] = file
        return Deletions(checkpoints, tuple(file for path, file in unused.items() if path not in self._protected))


def _shared(checkpoint: CompletedCheckpoint) -> dict[str, SharedFile]:
    return {file.path: file for file in checkpoint.shared_files()}

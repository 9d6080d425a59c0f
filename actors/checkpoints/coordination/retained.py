"""Which completed checkpoints a job retains, and when nobody uses a file any more that several of them share.

After Flink's CompletedCheckpointStore and SharedStateRegistry. Pure: checkpoints and shared files are handed out for
deletion, each once, as soon as nothing needs them and never before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.protocol.checkpoint_handles import SharedFile
from flinkray.execution import JobStatus
from graphs.job_graph import CheckpointRetention

# For each status in which a job ends, the settings with which it leaves its checkpoints behind. A job that was stopped
# with a savepoint has FINISHED.
_RETAINED_AT: dict[JobStatus, frozenset[CheckpointRetention]] = {
    JobStatus.FINISHED: frozenset(),
    JobStatus.FAILED: frozenset({CheckpointRetention.ON_FAILURE, CheckpointRetention.ON_CANCELLATION}),
    JobStatus.CANCELED: frozenset({CheckpointRetention.ON_CANCELLATION}),
}


class Deletions(Struct, frozen=True):
    """What is to be deleted, as nothing needs it any more."""

    checkpoints: tuple[CompletedCheckpoint, ...] = ()
    """Checkpoints, oldest first, without the files that they share with others."""
    files: tuple[SharedFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.checkpoints or self.files)


class CompletedCheckpoints:
    """The checkpoints that one job can recover from.

    Its savepoints, and the checkpoint that it was started from, are among them, but belong to the user: neither they
    nor their files are deleted, and they do not count as retained.

    Args:
        retained: how many checkpoints the job keeps (execution.checkpointing.num-retained).
    """

    def __init__(self, retained: int) -> None:
        self._retained = retained
        self._own: dict[int, CompletedCheckpoint] = {}
        """Checkpoints and savepoints that the job has taken, by id, ascending."""
        self._initial: CompletedCheckpoint | None = None
        """The checkpoint or savepoint that the user started the job from; None: none."""
        self._aside: set[int] = set()
        """Checkpoints that could not be read."""
        self._pending: dict[int, dict[str, SharedFile]] = {}
        """The shared files of checkpoints under way, by path."""
        self._uses: Counter[str] = Counter()
        """How many retained and pending checkpoints use a shared file, by its path."""
        self._protected: set[str] = set()
        """Paths of files that belong to the user."""

    @property
    def newest_first(self) -> tuple[CompletedCheckpoint, ...]:
        """All checkpoints that the job can recover from, in the order in which they are tried."""
        own = tuple(self._own[each] for each in reversed(self._own) if each not in self._aside)
        return own if self._initial is None else (*own, self._initial)

    @property
    def own(self) -> tuple[CompletedCheckpoint, ...]:
        """The checkpoints among them that the job has taken itself, without savepoints, newest first."""
        return tuple(each for each in self.newest_first if each is not self._initial and not each.is_savepoint)

    @property
    def directories(self) -> tuple[str, ...]:
        """URIs of all checkpoints that are not to be deleted, with those that could not be read."""
        initial = () if self._initial is None else (self._initial,)
        return tuple(each.directory for each in (*self._checkpoints(), *initial))

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """The checkpoint that the job recovers from; None if there is none."""
        return next(iter(self.newest_first), None)

    def start_from(self, checkpoint: CompletedCheckpoint) -> None:
        """Adds the checkpoint or savepoint that the user starts the job from.

        It counts as older than all that the job takes itself, whatever its id.
        """
        self._initial = checkpoint
        self._protected.update(_shared(checkpoint))

    def add(self, completed: CompletedCheckpoint) -> Deletions:
        """Adds a checkpoint that is complete, and gives up those beyond the number to be retained.

        Replaces `abandon` for its id.

        Raises:
            ValueError: the job has a checkpoint with that id.
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
        """Offers a checkpoint no longer, as it could not be read or its user has disposed of it.

        Unless it belongs to the user, it is deleted once a newer one is complete; until then, what is wrong with it may
        pass.
        """
        if checkpoint == self._initial:
            self._initial = None
        elif checkpoint.is_savepoint:
            self._own.pop(checkpoint.checkpoint_id, None)
        elif checkpoint.checkpoint_id in self._own:
            self._aside.add(checkpoint.checkpoint_id)

    def register(self, checkpoint_id: int, files: Iterable[SharedFile]) -> None:
        """A task has acknowledged a pending checkpoint with these files: they stay until the checkpoint's end is
        known."""
        known = self._pending.setdefault(checkpoint_id, {})
        for file in files:
            if file.path not in known:
                known[file.path] = file
                self._uses[file.path] += 1

    def abandon(self, checkpoint_id: int) -> Deletions:
        """A pending checkpoint is aborted. Also called, after `register`, for acknowledgements that come too late."""
        return self._delete([], [self._pending.pop(checkpoint_id, {})])

    def at_job_end(self, status: JobStatus, retention: CheckpointRetention, *, keeps_last: bool = False) -> Deletions:
        """Deletes what the job does not leave behind, as it has ended in a terminal status.

        Args:
            keeps_last: the newest checkpoint that can be read stays in any case.
        """
        last = {each.checkpoint_id for each in self.own[:1]} if keeps_last else set()
        owned = [each for each in self._checkpoints() if each.checkpoint_id not in last]
        checkpoints = [] if retention in _RETAINED_AT[status] else owned
        pending = list(self._pending.values())
        self._pending.clear()
        return self._delete(checkpoints, pending)

    def check(self) -> None:
        """Raises AssertionError if uses of shared files are not counted exactly. Tests call it after every step."""
        users = [_shared(each) for each in self._checkpoints()]
        expected = Counter(path for files in (*users, *self._pending.values()) for path in files)
        assert self._uses == expected, f"counted {self._uses}, there are {expected}"
        assert all(count > 0 for count in self._uses.values())

    def _checkpoints(self) -> list[CompletedCheckpoint]:
        """The checkpoints that the job has taken, without savepoints, oldest first."""
        return [each for each in self._own.values() if not each.is_savepoint]

    def _delete(
        self, checkpoints: Iterable[CompletedCheckpoint], released: Iterable[dict[str, SharedFile]] = ()
    ) -> Deletions:
        """Removes checkpoints, and finds the shared files that nothing else uses.

        Args:
            released: files that pending checkpoints do not use any more, by path.
        """
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

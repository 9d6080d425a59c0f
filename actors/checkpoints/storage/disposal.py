"""Savepoints, without the job that made them."""

from __future__ import annotations

from actors.checkpoints.storage.directories import discard
from actors.checkpoints.storage.metadata import load
from flinkray.errors import CheckpointError


def dispose_savepoint(path: str) -> str:
    """Deletes a savepoint; gives its directory.

    Raises:
        CheckpointError: there is none, it is a checkpoint that its job looks after, or it cannot be deleted; names it.
    """
    checkpoint = load(path)
    if not checkpoint.is_savepoint:
        raise CheckpointError(
            f"{checkpoint.directory} is no savepoint, but checkpoint {checkpoint.checkpoint_id} of job "
            f"{checkpoint.job_name!r} ({checkpoint.job_id}), which may share files with others of that job"
        )
    discard(checkpoint)
    return checkpoint.directory

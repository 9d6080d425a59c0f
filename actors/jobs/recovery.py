"""What a JobMaster finds out before it starts its job: which checkpoint the job goes on from. Blocks."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.storage.metadata import load
from actors.high_availability.pointers import CheckpointPointers, JobLeadership, StopSavepoint
from flinkray.errors import CheckpointError, DamagedCheckpointError
from graphs.job_graph import CheckpointSettings, JobVertexId

log = logging.getLogger(__name__)

RESERVED_IDS = 1_000
"""So many checkpoint ids at a time are recorded as used, so that no JobMaster uses those of another."""


class Recovered(Struct, frozen=True):
    """What the job starts with."""

    generation: int = 0
    """How many JobMasters the job had before this one."""
    first_id: int = 1
    """The first id for new checkpoints: above all that the job has used, and above that of what it starts from."""
    checkpoints: tuple[CompletedCheckpoint, ...] = ()
    """The job's own checkpoints that it can go on from, newest first, and behind them the savepoint of `stop`."""
    recorded: tuple[str, ...] = ()
    """The directories (URIs) of the job's own checkpoints, with those that cannot be read."""
    initial: CompletedCheckpoint | None = None
    """The savepoint or checkpoint that the user has named, if the job goes on from that."""
    ended: bytes = b""
    """As CheckpointPointers.ended; not empty: the job has ended, and there is nothing to start any more."""
    stop: StopSavepoint | None = None
    """The savepoint with which the job is to stop, if it was stopping; there is nothing else to do any more."""
    parallelism: dict[JobVertexId, int] = {}
    """As CheckpointPointers has it."""


def recover(settings: CheckpointSettings, leadership: JobLeadership | None) -> Recovered:
    """Takes the job over, and reads the metadata of what it can start from.

    A damaged checkpoint of the job's own is passed over for an older one, with a warning: what sinks committed with
    it may be committed once more. Not so the savepoint with which the job was stopping.

    Raises:
        CheckpointError: the job had checkpoints, or the user has named one, and none can be read; or it was stopping
            with a savepoint that cannot be read.
    """
    pointers = CheckpointPointers() if leadership is None else leadership.take()
    if pointers.ended:
        return Recovered(pointers.generation, pointers.next_id, ended=pointers.ended)
    may_be_none = bool(settings.restore_path) or pointers.stop is not None
    checkpoints = tuple(_readable(pointers.directories, may_be_none))
    if pointers.stop is not None:
        checkpoints = (*checkpoints, _stop_savepoint(pointers.stop.directory))
    # The user may have removed the initial checkpoint since, where the job has gone on from it to others of its own.
    initial = load(settings.restore_path) if settings.restore_path and not checkpoints else None
    first_id = pointers.next_id if initial is None else max(pointers.next_id, initial.checkpoint_id + 1)
    if leadership is not None:
        leadership.record(replace(pointers, next_id=first_id + RESERVED_IDS))
    return Recovered(
        pointers.generation,
        first_id,
        checkpoints,
        pointers.directories,
        initial=initial,
        stop=pointers.stop,
        parallelism=pointers.parallelism,
    )


def _stop_savepoint(directory: str) -> CompletedCheckpoint:
    try:
        return load(directory).with_all_finished()
    except DamagedCheckpointError as error:
        text = f"{error}; the job was stopping with it, and from an older one sinks may commit rows a second time"
        raise DamagedCheckpointError(text) from error


def _readable(directories: Iterable[str], may_be_none: bool) -> Iterable[CompletedCheckpoint]:
    first: CheckpointError | None = None
    found = False
    for directory in directories:
        try:
            yield load(directory)
            found = True
        except DamagedCheckpointError as error:
            log.warning("%s; an older one is tried", error)
            first = first or error
    if first is not None and not found and not may_be_none:
        raise first

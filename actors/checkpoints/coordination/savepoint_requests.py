"""Savepoints that clients have asked for, before they begin and, where they stop the job, until it has ended."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from actors.high_availability.pointers import StopSavepoint
from actors.protocol.elements import CheckpointOptions, StopMode
from graphs.job_graph import CheckpointSettings

Directories = Callable[[int, bool, str], tuple[str, str]]
"""(checkpoint id, whether it is a savepoint, the directory that its request names or "") -> (URI of its own directory,
URI of the directory for shared files), as in CheckpointOptions. Raises CheckpointError if there is no directory to
use."""


class SavepointRequest(Struct, frozen=True):
    """A savepoint that was asked for and has not begun."""

    request_id: str
    target: str
    stop: StopMode


class StopWithSavepoint(Struct):
    """A savepoint that is to stop the job."""

    request_id: str
    directory: str | None = None
    """The savepoint's directory, once it is complete and the tasks are about to finish."""

    @classmethod
    def of(cls, stop: StopSavepoint | None) -> StopWithSavepoint | None:
        """That of a JobMaster before this one, which had completed it."""
        return None if stop is None else cls(stop.request_id, stop.directory)


def checkpoint_options(
    settings: CheckpointSettings, directories: Directories, checkpoint_id: int, request: SavepointRequest | None
) -> CheckpointOptions:
    """How tasks take a checkpoint, or the savepoint that was asked for.

    Raises:
        CheckpointError: there is no directory for it.
    """
    target = "" if request is None else request.target
    directory, shared_directory = directories(checkpoint_id, request is not None, target)
    may_overtake = settings.is_unaligned and settings.exactly_once and request is None
    timeout = settings.aligned_timeout_ms
    return CheckpointOptions(
        is_savepoint=request is not None,
        is_exactly_once=settings.exactly_once,
        is_unaligned=may_overtake and timeout == 0,
        aligned_timeout_ms=timeout if may_overtake and timeout > 0 else None,
        stop=StopMode.GO_ON if request is None else request.stop,
        directory=directory,
        shared_directory=shared_directory,
    )

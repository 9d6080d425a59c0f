"""Savepoints that clients have asked for, before they begin and, where they stop the job, until it has ended."""

from __future__ import annotations

from msgspec import Struct

from actors.high_availability.pointers import StopSavepoint
from actors.protocol.elements import StopMode


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

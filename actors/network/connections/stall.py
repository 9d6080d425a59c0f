"""Finds channels that stall: one of their ends has a buffer to send or to read, and has not moved it for a while."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class ChannelProgress(Struct, frozen=True):
    """How far one end of a channel has come."""

    name: str
    """Names this end of the channel in the log."""
    waits: bool
    """Whether there is a buffer that this end has to move."""
    moved: int
    """How many buffers this end has moved so far."""
    statistics: object
    """What is logged when the channel stalls."""


class _Observed(Struct):
    """Since when a channel that has something to move has stood still."""

    moved: int
    since_ms: float
    is_reported: bool = False


class StallDetector:
    """Remembers since when each channel has not moved. Pure: the caller brings the time."""

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._observed: dict[str, _Observed] = {}

    def observe(self, channels: Iterable[ChannelProgress], now_ms: float) -> list[ChannelProgress]:
        """The channels that have stalled for the timeout; each stall is reported once."""
        before, self._observed = self._observed, {}
        stalled = []
        for progress in channels:
            if not progress.waits:
                continue
            known = before.get(progress.name)
            if known is None or known.moved != progress.moved:
                known = _Observed(progress.moved, now_ms)
            self._observed[progress.name] = known
            if not known.is_reported and now_ms - known.since_ms >= self._timeout_ms:
                known.is_reported = True
                stalled.append(progress)
        return stalled

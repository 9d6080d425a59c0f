"""Who has been silent for too long. Times are milliseconds of a clock that never goes back."""

from __future__ import annotations

from collections.abc import Iterable

from actors.protocol.ports import Address


class HeartbeatMonitor:
    """The peers that a component expects to hear from (Flink's HeartbeatManager). Not thread-safe.

    One that has hung itself could hear nobody: what it takes for silence then is its own, and its peers are given as
    much time again. That happens once in a row, so that it does not go on for ever.
    """

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._heard: dict[Address, float] = {}
        self._looked_at: float | None = None
        self._has_forgiven = False

    def add(self, peer: Address, now: float) -> None:
        """Expects to hear from the peer from now on."""
        self._heard.setdefault(peer, now)

    def remove(self, peer: Address) -> None:
        self._heard.pop(peer, None)

    def hear(self, peer: Address, now: float) -> None:
        """The peer is alive; ignored for one that is not monitored (any more)."""
        if peer in self._heard:
            self._heard[peer] = now

    def peers(self) -> Iterable[Address]:
        return tuple(self._heard)

    def take_silent(self, now: float) -> list[Address]:
        """Removes and gives the peers that were silent for the whole timeout. To be called several times in that."""
        away = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        self._has_forgiven = away >= self._timeout_ms and not self._has_forgiven
        if self._has_forgiven:
            self._heard = dict.fromkeys(self._heard, now)
        silent = [peer for peer, heard in self._heard.items() if now - heard >= self._timeout_ms]
        for peer in silent:
            del self._heard[peer]
        return silent

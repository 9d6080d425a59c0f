"""Who has been silent for too long. Times are milliseconds of a clock that never goes back."""

from __future__ import annotations

from collections.abc import Iterable

from actors.ports import Address


class HeartbeatMonitor:
    """The peers that a component expects to hear from (Flink's HeartbeatManager). Not thread-safe."""

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._heard: dict[Address, float] = {}

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
        """Removes and gives the peers that were silent for the whole timeout."""
        silent = [peer for peer, heard in self._heard.items() if now - heard >= self._timeout_ms]
        for peer in silent:
            del self._heard[peer]
        return silent

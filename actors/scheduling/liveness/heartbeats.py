"""Heartbeats between components, and who has been silent for too long (Flink's HeartbeatManager).

The ResourceManager asks the Dispatcher, JobMasters and TaskExecutors for heartbeats, the Dispatcher its JobMasters, a
JobMaster the TaskExecutors that have slots for it, and a TaskExecutor its slots. Who is asked answers in its own
thread, so that an answer says that it acts, and takes the question for a sign of life of the other one. Times are
milliseconds of a clock that never goes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from actors.protocol.control_messages import HeartbeatAnswered, HeartbeatRequested
from actors.protocol.main_thread import MainThread
from actors.protocol.ports import Address, Cancellable, EndpointContext, SessionId

HEARTBEATS_STOPPED = "its heartbeats stopped"
"""Why a peer is lost that is silent."""

# How long a process that has just been started may take until it is first heard: a busy machine may take a minute for
# that.
FIRST_HEARTBEAT_MS = 120_000.0
# And where packages are installed for it before: Ray itself gives up after ten minutes.
INSTALLED_HEARTBEAT_MS = 660_000.0


class HeartbeatMonitor:
    """The peers that a component expects to hear from. Not thread-safe.

    A component that has hung itself could hear nobody: what it takes for silence then is its own, and its peers are
    given as much time again. That happens once in a row, so that it does not go on for ever.
    """

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._heard: dict[Address, float] = {}
        self._looked_at: float | None = None
        self._has_forgiven = False

    def add(self, peer: Address, now: float, within_ms: float | None = None) -> None:
        """Expects to hear from the peer from now on.

        Args:
            within_ms: how long it may take until it is first heard; None, or if that is shorter: the timeout.
        """
        self._heard.setdefault(peer, now + max(0.0, (within_ms or 0.0) - self.timeout_ms))

    def remove(self, peer: Address) -> None:
        self._heard.pop(peer, None)

    def hear(self, peer: Address, now: float) -> None:
        """The peer is alive; ignored for one that is not monitored (any more)."""
        if peer in self._heard:
            self._heard[peer] = now

    def heard_at(self, peer: Address, now: float) -> float:
        """When the peer was heard last; of one that is not monitored, or is yet to be heard: now."""
        return min(now, self._heard.get(peer, now))

    def peers(self) -> Iterable[Address]:
        return tuple(self._heard)

    def take_silent(self, now: float) -> list[Address]:
        """Removes and gives the peers that were silent for the whole timeout. To be called several times in that."""
        away = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        self._has_forgiven = away >= self.timeout_ms and not self._has_forgiven
        if self._has_forgiven:
            self._heard = {peer: max(heard, now) for peer, heard in self._heard.items()}
        silent = [peer for peer, heard in self._heard.items() if now - heard >= self.timeout_ms]
        for peer in silent:
            del self._heard[peer]
        return silent


class Heartbeats:
    """The heartbeats of one endpoint: it asks for some, answers others, and learns who has fallen silent.

    For the endpoint's thread.
    """

    def __init__(
        self,
        context: EndpointContext,
        main_thread: MainThread,
        on_silent: Callable[[Address], None],
        *,
        session: SessionId | None = None,
        also_asked: tuple[Address, ...] = (),
    ) -> None:
        """
        Args:
            on_silent: called with each peer that has been silent for the whole timeout; it is not monitored any more.
            session: what this endpoint's questions are fenced with; None: it asks nobody.
            also_asked: peers that are asked for heartbeats, and not monitored here.
        """
        self._context = context
        self._main_thread = main_thread
        self._on_silent = on_silent
        self._session = session
        self._also_asked = also_asked
        self._monitor = HeartbeatMonitor(math.inf)
        self._asking: set[Address] = set()
        """Monitored peers that ask for heartbeats themselves."""
        self._rounds: Cancellable | None = None

    def start(self, interval_ms: float, timeout_ms: float) -> None:
        """Asks, and looks who has been silent, once in each interval from now on. Without effect the second time."""
        if self._rounds is None:
            self._monitor.timeout_ms = timeout_ms
            self._rounds = self._main_thread.run_every(interval_ms, self._begin_round)

    def stop(self) -> None:
        """Ends what `start` has begun."""
        if self._rounds is not None:
            self._rounds.cancel()

    def monitor(
        self, peer: Address, *, asks_itself: bool = False, is_starting: bool = False, is_installing: bool = False
    ) -> None:
        """Expects to hear from the peer from now on; from one whose process is being started, some time later, and
        later still where packages may be installed for it before."""
        within_ms = INSTALLED_HEARTBEAT_MS if is_installing else FIRST_HEARTBEAT_MS if is_starting else None
        self._monitor.add(peer, self._now(), within_ms)
        if asks_itself:
            self._asking.add(peer)
        else:
            self._ask(peer)  # one that is being started answers as soon as it can

    def heard_at(self, peer: Address) -> float:
        """When the peer was heard last, by the clock that never goes back."""
        return self._monitor.heard_at(peer, self._now())

    def unmonitor(self, peer: Address) -> None:
        self._monitor.remove(peer)

    def on_message(self, message: HeartbeatRequested | HeartbeatAnswered) -> None:
        """The sender is alive; a question is answered."""
        self._monitor.hear(message.sender, self._now())
        if isinstance(message, HeartbeatRequested):
            self._context.tell(message.sender, HeartbeatAnswered(message.session, self._context.address))

    def _begin_round(self) -> None:
        for peer in self._monitor.take_silent(self._now()):
            self._on_silent(peer)
        for peer in (*self._also_asked, *self._monitor.peers()):
            if peer not in self._asking:
                self._ask(peer)

    def _ask(self, peer: Address) -> None:
        if self._session is not None:
            self._context.tell(peer, HeartbeatRequested(self._session, self._context.address))

    def _now(self) -> float:
        return self._context.clock.monotonic_ms()

"""Turns: lets no more tasks of one process act at a time than there are cores."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from types import TracebackType

# How long a thread keeps its turn while others wait: long enough for the cost of waking the next one to be small.
# Python lets a thread keep the interpreter's lock for as long.
_TURN_S = 0.005

# A thread that has been at one piece of work for so long is assumed to be waiting, for example for a server.
_PATIENCE_S = 0.01


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Turns:
    """Lets at most `count` threads act at a time, first come, first served.

    More threads than cores evict each other's caches and take the interpreter's lock from each other in the middle of a
    batch; to switch between two batches costs little. A thread takes a turn for a piece of work, `with turns: act()`,
    and can do another piece while `may_go_on` says so. Nobody waits for a thread that waits itself: after 10 ms at one
    piece of work its turn goes to the next thread, and it continues without one.

    Any thread may take a turn, one at a time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._acting: dict[int, _Turn] = {}
        """The turns that are taken, by thread, oldest first."""
        self._waiting: deque[_Ticket] = deque()
        self._watcher: _Ticket | None = None
        """The waiting thread that looks for pieces of work that take too long. If all that wait did, hundreds of
        threads would wake up every few milliseconds."""

    def __enter__(self) -> Turns:
        with self._lock:
            if len(self._acting) < self._count:  # so that nobody waits
                self._begin(threading.get_ident())
                return self
            ticket = _Ticket()
            self._waiting.append(ticket)
            if self._watcher is None:
                self._watcher = ticket
        while not ticket.is_given:
            if not ticket.bell.acquire(timeout=_PATIENCE_S if ticket is self._watcher else -1):
                self._pass_over_waiting()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            if self._acting.pop(threading.get_ident(), None) is not None:
                self._begin_next()

    def may_go_on(self) -> bool:
        """Whether the calling thread keeps its turn, for another piece of work that begins now."""
        with self._lock:
            turn = self._acting.get(threading.get_ident())
            if turn is None:
                return False
            turn.piece_began_s = time.monotonic()
            return not self._waiting or turn.piece_began_s - turn.began_s < _TURN_S

    def _begin(self, thread: int) -> None:
        self._acting[thread] = _Turn(time.monotonic())

    def _begin_next(self) -> None:
        if self._waiting:
            ticket = self._waiting.popleft()
            self._begin(ticket.thread)
            ticket.is_given = True
            ticket.ring()
            if ticket is self._watcher:
                # The last one has longest to wait, so that the watcher seldom changes.
                self._watcher = self._waiting[-1] if self._waiting else None
                if self._watcher is not None:
                    self._watcher.ring()

    def _pass_over_waiting(self) -> None:
        """Gives the turns of threads that have been at one piece of work for too long to those that wait."""
        with self._lock:
            before = time.monotonic() - _PATIENCE_S
            for thread in [thread for thread, turn in self._acting.items() if turn.piece_began_s <= before]:
                del self._acting[thread]
                self._begin_next()


class _Turn:
    """A turn that a thread has taken."""

    def __init__(self, now_s: float) -> None:
        self.began_s = now_s
        self.piece_began_s = now_s


class _Ticket:
    """A thread that waits for its turn."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.is_given = False
        self.bell = threading.Lock()
        self.bell.acquire()

    def ring(self) -> None:
        """Wakes the thread, unless it is about to wake up anyway. Called with the lock of the turns held."""
        if self.bell.locked():
            self.bell.release()

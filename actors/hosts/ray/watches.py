"""Watches actors on Ray: exactly one notice for each death of a process, and none for a broken connection."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import ray
from msgspec import Struct, field
from ray.exceptions import ActorUnavailableError

from actors.hosts.ray.deaths import cause_of_death
from actors.hosts.ray.lives import ActorEntry, is_refused, read_entry
from actors.protocol.ports import Address

log = logging.getLogger(__name__)

ActorHandle = Any
"""A Ray actor handle. Ray's own type cannot express the methods of a class that is made at run time."""

# The pause between two looks at an actor whose process died, until it is alive again.
LOOK_INTERVAL_S = 0.1

STARTED_AGAIN = "its process ended, and it is started again"


class _ActorWatch(Struct, eq=False):
    """One actor that is watched."""

    address: Address
    handle: ActorHandle
    life: int
    """The life of the actor that is watched now: all deaths before it have been reported."""
    restarts: bool
    attempt: int = 0
    """How many calls of `watch` have ended."""
    calls: list[ray.ObjectRef[Any]] = field(default_factory=list)
    """The results of the present calls, which end if nobody refers to them."""


class Watches:
    """The actors that one endpoint watches. Any thread may call it.

    A call of an actor's `watch` never returns: it ends with an error when the actor's process ends. For an actor that
    restarts, or whose node was lost, that is the same error as for a broken connection, and it comes 0.8 to 1.8 s after
    the death. So lives are counted: Ray's table of actors has the number of the present life, and so does every message
    of an endpoint that restarts. The first of these that shows a new life leads to the report of the death, and no
    message of the new life is delivered before that.

    Args:
        report: called with the address, a cause, and whether the actor is dead for good; must hand over and return.
        look: gives an actor's entry in Ray's table.
        refused: whether nobody listens at a host and port any more.
    """

    def __init__(
        self,
        report: Callable[[Address, str, bool], None],
        look: Callable[[ActorHandle], ActorEntry] = read_entry,
        refused: Callable[[tuple[str, int]], bool] = is_refused,
    ) -> None:
        self._report = report
        self._look = look
        self._is_refused = refused
        self._lock = threading.Lock()
        self._watches: dict[Address, _ActorWatch] = {}

    def add(self, address: Address, handle: ActorHandle, life: int | None = None) -> None:
        """Watches an actor.

        Args:
            life: the number of the first life whose death is reported; None: the present one.
        """
        restarts = hasattr(handle, "life")
        if life is None:
            life = self._look(handle).life if restarts else 0
        with self._lock:
            if address in self._watches:
                return
            watch = self._watches[address] = _ActorWatch(address, handle, life, restarts)
        self._call(watch)

    def remove(self, address: Address) -> None:
        """Reports nothing about an actor any more."""
        with self._lock:
            self._watches.pop(address, None)

    def hear(self, address: Address, life: int) -> bool:
        """Reports the deaths of former lives, as a message came from this one. False: this life was reported dead."""
        with self._lock:
            watch = self._watches.get(address)
            if watch is None:
                return True
            self._learn(watch, life)
            return life == watch.life

    # -- inside --------------------------------------------------------------------------------------------------

    def _call(self, watch: _ActorWatch) -> None:
        attempt = watch.attempt
        ended = watch.handle.watch.remote()
        watch.calls = [ended]
        ended.future().add_done_callback(lambda done: self._on_end(watch, attempt, done.exception()))
        if watch.restarts:
            # If the call of `watch` has reached a later life than the watched one, this call reaches it as well and
            # tells.
            answered = watch.handle.life.remote()
            watch.calls = [ended, answered]
            answered.future().add_done_callback(lambda done: self._on_life(watch, attempt, done))

    def _on_life(self, watch: _ActorWatch, attempt: int, answer: Any) -> None:
        if answer.exception() is not None:
            self._on_end(watch, attempt, answer.exception())
            return
        with self._lock:
            if self._is_current(watch):
                self._learn(watch, answer.result())

    def _on_end(self, watch: _ActorWatch, attempt: int, error: BaseException | None) -> None:
        with self._lock:
            if not self._is_current(watch) or attempt != watch.attempt:
                return
            watch.attempt += 1
            if not watch.restarts and not isinstance(error, ActorUnavailableError):
                self._finish(watch, cause_of_death(error))
                return
        # On another thread, as the present one is Ray's and must not wait for Ray.
        name = f"look at {watch.address}"
        threading.Thread(target=self._find_out, args=(watch, error), name=name, daemon=True).start()

    def _find_out(self, watch: _ActorWatch, error: BaseException | None) -> None:
        """Finds out whether the process died or only the connection broke, and goes on watching if the actor is alive.

        If an actor were reported dead that goes on working, its work would be done twice.
        """
        pause = threading.Event()
        while True:
            entry = self._look_patiently(watch, pause)
            with self._lock:
                if entry is None or not self._is_current(watch):
                    return
                self._learn(watch, entry.life)
                if entry.is_dead:
                    self._finish(watch, cause_of_death(error))
                    return
            if not watch.restarts and entry.process is not None and self._is_refused(entry.process):
                with self._lock:
                    if self._is_current(watch):
                        self._finish(watch, "nothing listens where its process was")
                return
            pause.wait(LOOK_INTERVAL_S)
            if entry.is_alive:
                self._call(watch)
                return

    def _look_patiently(self, watch: _ActorWatch, pause: threading.Event) -> ActorEntry | None:
        """Asks Ray about an actor until it answers; None: the actor is not watched any more."""
        while self._is_current(watch):
            try:
                return self._look(watch.handle)
            except Exception as error:
                log.warning("Ray does not say whether %s lives: %s", watch.address, error)
                pause.wait(1.0)
        return None

    def _is_current(self, watch: _ActorWatch) -> bool:
        return self._watches.get(watch.address) is watch

    def _learn(self, watch: _ActorWatch, life: int) -> None:
        """Reports the deaths of the lives before this one."""
        while watch.life < life:
            watch.life += 1
            self._report(watch.address, STARTED_AGAIN, False)

    def _finish(self, watch: _ActorWatch, cause: str) -> None:
        del self._watches[watch.address]
        self._report(watch.address, cause, True)

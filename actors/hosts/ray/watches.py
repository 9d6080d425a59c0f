"""The endpoints that another one watches on Ray: exactly one notice per death, and none for a broken connection."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import ray
from msgspec import Struct, field
from ray.exceptions import ActorUnavailableError, RayTaskError

from actors.hosts.ray.lives import ActorEntry, is_refused, read_entry
from actors.protocol.ports import Address

log = logging.getLogger(__name__)

Handle = Any
"""A Ray actor handle. Ray's own type cannot express the methods of a class that is made at run time."""

# Between two looks at an actor whose process died, until it is there again.
LOOK_INTERVAL_S = 0.1

STARTED_AGAIN = "its process ended, and it is started again"


class _Watch(Struct, eq=False):
    address: Address
    handle: Handle
    life: int
    """The one whose death has not been reported."""
    restarts: bool
    attempt: int = 0
    calls: list[ray.ObjectRef[Any]] = field(default_factory=list)


class Watches:
    """Any thread may call it.

    A call of `watch` never returns: it ends with an error when the actor's process does. For an actor that restarts, or
    whose node was lost, that is the same error as for a broken connection. It comes 0.8 to 1.8 s after a death, so
    lives are counted: Ray's table of actors tells the present one, and so does every message of an endpoint that
    restarts. Whoever hears of it first reports the death, and nothing of the new life is heard before it.

    Args:
        report: called with the address, a cause, and whether it is gone for good; it must only hand over, and return.
    """

    def __init__(
        self,
        report: Callable[[Address, str, bool], None],
        look: Callable[[Handle], ActorEntry] = read_entry,
        refused: Callable[[tuple[str, int]], bool] = is_refused,
    ) -> None:
        self._report = report
        self._look = look
        self._is_refused = refused
        self._lock = threading.Lock()
        self._watches: dict[Address, _Watch] = {}

    def add(self, address: Address, handle: Handle, life: int | None = None) -> None:
        """Watches an actor from its life of that number on; None: the present one."""
        restarts = hasattr(handle, "life")
        if life is None:
            life = self._look(handle).life if restarts else 0
        with self._lock:
            if address in self._watches:
                return
            watch = self._watches[address] = _Watch(address, handle, life, restarts)
        self._call(watch)

    def remove(self, address: Address) -> None:
        """Nothing is reported of it any more."""
        with self._lock:
            self._watches.pop(address, None)

    def hear(self, address: Address, life: int) -> bool:
        """Something came from that life: reports the deaths of those before. False: it was itself reported dead."""
        with self._lock:
            watch = self._watches.get(address)
            if watch is None:
                return True
            self._learn(watch, life)
            return life == watch.life

    # -- inside --------------------------------------------------------------------------------------------------

    def _call(self, watch: _Watch) -> None:
        attempt = watch.attempt
        ended = watch.handle.watch.remote()
        watch.calls = [ended]
        ended.future().add_done_callback(lambda done: self._on_end(watch, attempt, done.exception()))
        if watch.restarts:
            # If the call before has reached a life after the one that is watched, this one has too, and tells.
            answered = watch.handle.life.remote()
            watch.calls = [ended, answered]
            answered.future().add_done_callback(lambda done: self._on_life(watch, attempt, done))

    def _on_life(self, watch: _Watch, attempt: int, answer: Any) -> None:
        if answer.exception() is not None:
            self._on_end(watch, attempt, answer.exception())
            return
        with self._lock:
            if self._is_current(watch):
                self._learn(watch, answer.result())

    def _on_end(self, watch: _Watch, attempt: int, error: BaseException | None) -> None:
        with self._lock:
            if not self._is_current(watch) or attempt != watch.attempt:
                return
            watch.attempt += 1
            if not watch.restarts and not isinstance(error, ActorUnavailableError):
                self._finish(watch, first_line(error))
                return
        # On a thread of its own, as this one is Ray's and must not wait for Ray.
        name = f"look at {watch.address}"
        threading.Thread(target=self._find_out, args=(watch, error), name=name, daemon=True).start()

    def _find_out(self, watch: _Watch, error: BaseException | None) -> None:
        """Whether it died or only the connection broke; watches what lives.

        Where only the connection broke, to call dead what goes on working would have its work done twice.
        """
        pause = threading.Event()
        while True:
            entry = self._look_patiently(watch, pause)
            with self._lock:
                if entry is None or not self._is_current(watch):
                    return
                self._learn(watch, entry.life)
                if entry.is_dead:
                    self._finish(watch, first_line(error))
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

    def _look_patiently(self, watch: _Watch, pause: threading.Event) -> ActorEntry | None:
        """What Ray knows of it, however long it takes Ray to be there; None: it is not watched any more."""
        while self._is_current(watch):
            try:
                return self._look(watch.handle)
            except Exception as error:
                log.warning("Ray does not say whether %s lives: %s", watch.address, error)
                pause.wait(1.0)
        return None

    def _is_current(self, watch: _Watch) -> bool:
        return self._watches.get(watch.address) is watch

    def _learn(self, watch: _Watch, life: int) -> None:
        while watch.life < life:
            watch.life += 1
            self._report(watch.address, STARTED_AGAIN, False)

    def _finish(self, watch: _Watch, cause: str) -> None:
        del self._watches[watch.address]
        self._report(watch.address, cause, True)


def first_line(error: BaseException | None) -> str:
    """What an error of Ray's says, without where."""
    if isinstance(error, RayTaskError):
        error = error.cause  # what its process raised; its own text begins with where that was
    text = str(error).strip() if error is not None else ""
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else "the endpoint ended"

"""Threads that take turns as a seed says, and files in memory whose every operation is such a turn."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from flinkray.errors import CheckpointError

DEADLINE_S = 30.0


class Killed(BaseException):
    """The process of this thread is gone."""


class Turns:
    """Runs functions in threads of their own, of which one at a time goes on from one `wait_turn` to its next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._go: dict[threading.Thread, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self._errors: list[BaseException] = []
        self._killed: set[threading.Thread] = set()

    def add(self, function: Callable[[], None]) -> None:
        def run() -> None:
            try:
                self._await_turn()
                function()
            except Killed:
                pass
            except BaseException as error:
                self._errors.append(error)
            finally:
                del self._go[threading.current_thread()]
                self._back.release()

        thread = threading.Thread(target=run, daemon=True)
        self._go[thread] = threading.Semaphore(0)
        thread.start()

    def wait_turn(self) -> None:
        """Others may act here."""
        self._back.release()
        self._await_turn()

    def kill_me(self) -> None:
        raise Killed

    def run(self) -> None:
        """Until all have come to their end; raises what one of them has raised."""
        while self._go:
            threads = sorted(self._go, key=lambda thread: thread.name)
            self._go[self.random.choice(threads)].release()
            assert self._back.acquire(timeout=DEADLINE_S), "a thread does not come to its next turn"
        if self._errors:
            raise self._errors[0]

    def _await_turn(self) -> None:
        assert self._go[threading.current_thread()].acquire(timeout=DEADLINE_S), "nobody gave this thread a turn"


class FilesInTurns:
    """Implements RecordFiles. Operations fail, before or after they have done what they do, or end the caller.

    Args:
        faults: the share of the operations that go wrong.
    """

    directory = "memory"

    def __init__(self, turns: Turns, faults: float = 0.0) -> None:
        self.files: dict[str, bytes] = {}
        self._turns = turns
        self._faults = faults

    def make_directory(self) -> None:
        self._turns.wait_turn()

    def names(self) -> list[str]:
        self._turns.wait_turn()
        return list(self.files)

    def read(self, name: str) -> bytes:
        self._turns.wait_turn()
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def create(self, name: str, content: bytes) -> bool:
        def create() -> bool:
            return self.files.setdefault(name, content) is content

        return self._change(create)

    def remove(self, name: str) -> None:
        self._change(lambda: self.files.pop(name, b"") == b"")

    def _change(self, change: Callable[[], bool]) -> bool:
        self._turns.wait_turn()
        chance = self._turns.random
        if chance.random() >= self._faults:
            return change()
        kind = chance.choice(("fails", "lies", "dies before", "dies after"))
        if kind in ("lies", "dies after"):
            change()
        if kind.startswith("dies"):
            raise Killed
        raise CheckpointError(f"a fault of the test ({kind})")

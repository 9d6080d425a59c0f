"""The faults of a simulated cluster: which there are, how likely each is, and when one happens."""

from __future__ import annotations

import random
from collections.abc import Mapping

from msgspec import Struct, field

NODE = "node"
"""Stands for a node among the kinds of processes to kill: a TaskExecutor dies with all of its slots at one moment."""


class StorageFaults(Struct, frozen=True, kw_only=True):
    """The probabilities of faults in each operation of a simulated file system."""

    fails: float = 0.0
    """The operation changes nothing and raises OSError."""
    lies: float = 0.0
    """The operation is done, and raises OSError all the same."""
    tears: float = 0.0
    """Closing a file that was written stores a part of it and raises OSError."""
    crashes: float = 0.0
    """The process that calls is killed, before the operation or right after it."""
    slow: float = 0.0
    """The operation takes a while, if it runs off the endpoint's thread."""
    slow_ms: float = 400.0
    """The most virtual time that a slow operation takes."""


class Faults(Struct, frozen=True, kw_only=True):
    """The probabilities of faults. After `limit` faults nothing goes wrong any more, so that a job can end."""

    kills: Mapping[str, float] = field(default_factory=dict)
    """The probability per step that a process dies, by the name of its endpoint's class or `NODE`."""
    pauses: Mapping[str, float] = field(default_factory=dict)
    """The probability per step that a process stops for a while and then goes on, by the name of its endpoint's
    class."""
    pause_ms: tuple[float, float] = (100.0, 5_000.0)
    """The shortest and the longest pause, in virtual time."""
    payload_loss: float = 0.0
    """The probability that a message with payloads loses one."""
    storage: StorageFaults = StorageFaults()
    limit: int = 4
    """The most faults of one run."""
    after_steps: int = 0
    """The first step at which something may go wrong."""


NO_FAULTS = Faults()


class FaultPlan:
    """Decides which faults happen. It has a generator of its own, so that faults do not change the choice of steps."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.faults = faults
        self._random = random.Random(f"faults {seed}")
        self._left = faults.limit
        self._per_step = sum(faults.kills.values()) + sum(faults.pauses.values())
        self.happened: list[str] = []
        """The faults that have happened so far, in words."""

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    def of_step(self, step: int) -> tuple[str, str] | None:
        """("kill" or "pause", kind of process) if something goes wrong at this step."""
        if not self._per_step or self._left <= 0 or step < self.faults.after_steps:
            return None
        number = self._random.random()
        if number >= self._per_step:
            return None
        for what, rates in (("kill", self.faults.kills), ("pause", self.faults.pauses)):
            for kind, rate in rates.items():
                number -= rate
                if number < 0:
                    return what, kind
        return None

    def choose(self, candidates: list[str]) -> str:
        return self._random.choice(candidates)

    def pause_ms(self) -> float:
        return self._random.uniform(*self.faults.pause_ms)

    def loses_payload(self, step: int) -> bool:
        return step >= self.faults.after_steps and self.happens(self.faults.payload_loss)

    def happens(self, probability: float) -> bool:
        """Whether a fault of this probability happens; if so, the caller says what it was with `note`."""
        return probability > 0 and self._left > 0 and self._random.random() < probability

    def fraction(self) -> float:
        """A random number from 0 to 1, for how much of something is lost."""
        return self._random.random()

    def note(self, what: str) -> None:
        """Counts a fault that has happened."""
        self._left -= 1
        self.happened.append(what)

"""What may go wrong in a simulated cluster."""

from __future__ import annotations

import random
from collections.abc import Mapping

from msgspec import Struct, field

NODE = "node"
"""Among the kinds of processes to kill: a TaskExecutor together with its slots, all at the same moment."""


class StorageFaults(Struct, frozen=True, kw_only=True):
    """Probabilities per operation of a simulated file system."""

    fails: float = 0.0
    """The operation changes nothing and raises OSError."""
    lies: float = 0.0
    """The operation is done, and raises OSError all the same."""
    tears: float = 0.0
    """Closing a file that is written stores a part of it and raises OSError."""
    crashes: float = 0.0
    """The process that calls is killed: before the operation, or right after it."""
    slow: float = 0.0
    slow_ms: float = 400.0
    """A slow operation takes up to this much virtual time, when it runs off the endpoint's thread."""


class Faults(Struct, frozen=True, kw_only=True):
    """Probabilities; those of kills and pauses are per step. After `limit` faults nothing goes wrong any more, so that
    a job can come to its end."""

    kills: Mapping[str, float] = field(default_factory=dict)
    """Name of an endpoint's class, or `NODE` -> probability."""
    pauses: Mapping[str, float] = field(default_factory=dict)
    """Name of an endpoint's class -> probability that one of its processes stops for a while, and then goes on."""
    pause_ms: tuple[float, float] = (100.0, 5_000.0)
    payload_loss: float = 0.0
    """Per message with payloads."""
    storage: StorageFaults = StorageFaults()
    limit: int = 4
    after_steps: int = 0
    """Nothing goes wrong before."""


NO_FAULTS = Faults()


class FaultPlan:
    """Says what goes wrong now. All chance is its own, so that faults do not change the choices between steps."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.faults = faults
        self._random = random.Random(f"faults {seed}")
        self._left = faults.limit
        self._per_step = sum(faults.kills.values()) + sum(faults.pauses.values())
        self.happened: list[str] = []
        """What went wrong so far, in words."""

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    def of_step(self, step: int) -> tuple[str, str] | None:
        """("kill" or "pause", kind) if something goes wrong at this step."""
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
        """Whether something of this probability goes wrong; the caller says what it was with `note`."""
        return probability > 0 and self._left > 0 and self._random.random() < probability

    def fraction(self) -> float:
        """A number from 0 to 1, for how much of something is lost."""
        return self._random.random()

    def note(self, what: str) -> None:
        """Counts a fault that was done."""
        self._left -= 1
        self.happened.append(what)

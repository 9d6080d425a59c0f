"""What can happen in a simulated cluster, now and later; a seed chooses, and time is a number."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

# Rather long ago, so that no code takes virtual time for the machine's.
START_MS = 1_000_000_000_000.0

# Of what a step may take, the seed chooses one: with little, much happens between two timers, with more, less.
STEP_MS = (0.02, 0.1, 0.5)

# How often a random moment passes although something else can happen, so that timers fire in the middle of things.
EARLY_TIME = 0.003

# How many steps the processes that are slow now stay so.
SLOW_STEPS = 150

# Steps that a picture of a failure shows.
REMEMBERED_STEPS = 40


class Action(ABC):
    """One thing that can happen: a message arrives, a loop steps, a timer fires ..."""

    owner: str
    """Address of the process in which it happens."""
    index: int | None = None
    """Its place among those that are ready; None while it is not. The schedule's."""

    @abstractmethod
    def run(self) -> None:
        """Makes it happen. It is not ready any more when this is called, and may be offered again."""

    @abstractmethod
    def describe(self) -> str:
        """What happens, in a word or two; the same in every run of a seed."""


class SimulatedClock:
    """Virtual time; implements `actors.protocol.ports.Clock`."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def now_ms(self) -> int:
        return int(self._schedule.now)

    def monotonic_ms(self) -> float:
        return self._schedule.now - START_MS


class Schedule:
    """Holds what can happen and chooses from it. The same offers and the same seed give the same choices.

    Args:
        step_ms: virtual time that a step takes at most, so that a job that always has work grows old, too; None: the
            seed chooses.
    """

    def __init__(self, seed: int, step_ms: float | None) -> None:
        self.random = random.Random(f"schedule {seed}")
        self.now = START_MS
        self.steps = 0
        self.clock = SimulatedClock(self)
        self._step_ms = self.random.choice(STEP_MS) if step_ms is None else step_ms
        self._ready: list[Action] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._slow: frozenset[str] = frozenset()
        self._digest = hashlib.blake2b(digest_size=16)
        self._recent: deque[str] = deque(maxlen=REMEMBERED_STEPS)

    # -- what can happen -----------------------------------------------------------------------------------------

    def offer(self, action: Action) -> None:
        """It can happen now; nothing changes if it could already."""
        if action.index is None:
            action.index = len(self._ready)
            self._ready.append(action)

    def withdraw(self, action: Action) -> None:
        """It cannot happen; nothing changes if it could not."""
        index = action.index
        if index is None:
            return
        action.index = None
        last = self._ready.pop()
        if last is not action:
            self._ready[index] = last
            last.index = index

    def at(self, due_ms: float, callback: Callable[[], None]) -> None:
        """Calls `callback` when that moment has come; it must only offer or withdraw."""
        heapq.heappush(self._later, (due_ms, next(self._order), callback))

    def after(self, delay_ms: float, callback: Callable[[], None]) -> None:
        if delay_ms <= 0:
            callback()
        else:
            self.at(self.now + delay_ms, callback)

    # -- choosing ------------------------------------------------------------------------------------------------

    def choose(self) -> Action | None:
        """Takes one of the things that can happen now; None when there is none.

        Some processes are slow for a while: a plain choice among all would keep everybody at about the same pace, and
        races that need a laggard would not be run.
        """
        if not self._ready:
            return None
        chance = self.random
        if self.steps % SLOW_STEPS == 0:
            owners = sorted({action.owner for action in self._ready})
            self._slow = frozenset(owner for owner in owners if chance.random() < 0.2)
        for _ in range(8):
            action = self._ready[int(chance.random() * len(self._ready))]
            if action.owner not in self._slow:
                break
        self.withdraw(action)
        return action

    def pass_a_step(self) -> None:
        """Time goes on by what a step takes; rarely, by far more."""
        self.steps += 1
        self.now += self._step_ms * self.random.random()
        if self._later and (self._later[0][0] <= self.now or self.random.random() < EARLY_TIME):
            self.advance()

    def advance(self) -> bool:
        """Lets time pass until the next thing is due; False when nothing ever is."""
        if not self._later:
            return False
        self.now = max(self.now, self._later[0][0])
        while self._later and self._later[0][0] <= self.now:
            heapq.heappop(self._later)[2]()
        return True

    # -- what happened -------------------------------------------------------------------------------------------

    def record(self, what: str) -> None:
        """Adds to the trace."""
        self._digest.update(what.encode())
        self._recent.append(f"{self.steps} at {self.now - START_MS:.2f} ms: {what}")

    @property
    def trace(self) -> str:
        """A hash of everything that happened so far."""
        return self._digest.hexdigest()

    def recent(self) -> list[str]:
        """The last steps, oldest first."""
        return list(self._recent)

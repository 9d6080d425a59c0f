"""The schedule of a simulation: what can happen now and later, from which a seed chooses, and the virtual time."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

# Virtual time begins long ago, so that no code can mistake it for the machine's time.
START_MS = 1_000_000_000_000.0

# The seed chooses one of these as the most time that a step takes: with a short one, much happens between two timers.
STEP_MS = (0.02, 0.1, 0.5)

# How often time passes until the next timer although something else can happen, so that timers fire at any moment.
EARLY_TIME = 0.003

# For how many steps some processes are slow, until others are.
SLOW_STEPS = 150

# How many of the last steps an error shows.
REMEMBERED_STEPS = 40


class Action(ABC):
    """One thing that can happen: a message arrives, a loop steps, a timer fires ..."""

    owner: str
    """The address of the process in which it happens."""
    index: int | None = None
    """Index of the action among those that can happen now; None while it cannot. Set by the schedule alone."""

    @abstractmethod
    def run(self) -> None:
        """Makes it happen. The schedule does not hold it any more when this is called, and it may be offered again."""

    @abstractmethod
    def describe(self) -> str:
        """Says in a few words what happens; the same in every run of a seed."""


class SimulatedClock:
    """Virtual time; implements `actors.protocol.ports.Clock`."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def now_ms(self) -> int:
        return int(self._schedule.now)

    def monotonic_ms(self) -> float:
        return self._schedule.now - START_MS


class Schedule:
    """Holds the actions that can happen, and chooses among them. The same offers and seed give the same choices.

    Args:
        step_ms: the most virtual time that a step takes, so that time passes even if there is always something to do;
            None: the seed chooses.
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
        """Says that an action can happen now. Without effect if it could already."""
        if action.index is None:
            action.index = len(self._ready)
            self._ready.append(action)

    def withdraw(self, action: Action) -> None:
        """Says that an action cannot happen now. Without effect if it could not anyway."""
        index = action.index
        if index is None:
            return
        action.index = None
        last = self._ready.pop()
        if last is not action:
            self._ready[index] = last
            last.index = index

    def at(self, due_ms: float, callback: Callable[[], None]) -> None:
        """Calls `callback` at a moment of virtual time; it must only offer or withdraw actions."""
        heapq.heappush(self._later, (due_ms, next(self._order), callback))

    def after(self, delay_ms: float, callback: Callable[[], None]) -> None:
        if delay_ms <= 0:
            callback()
        else:
            self.at(self.now + delay_ms, callback)

    # -- choosing ------------------------------------------------------------------------------------------------

    def choose(self) -> Action | None:
        """Removes one of the actions that can happen now, and returns it; None if there is none.

        Some processes are slow for a while: an even choice would let all of them progress at about the same speed, so
        that races in which one lags behind would not occur.
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
        """Counts a step, and lets time pass: what the step takes, or rarely as long as until the next timer."""
        self.steps += 1
        self.now += self._step_ms * self.random.random()
        if self._later and (self._later[0][0] <= self.now or self.random.random() < EARLY_TIME):
            self.advance()

    def advance(self) -> bool:
        """Lets time pass until the next callback is due; False if there is none."""
        if not self._later:
            return False
        self.now = max(self.now, self._later[0][0])
        while self._later and self._later[0][0] <= self.now:
            heapq.heappop(self._later)[2]()
        return True

    # -- what happened -------------------------------------------------------------------------------------------

    def record(self, what: str) -> None:
        """Adds something that happened to the trace."""
        self._digest.update(what.encode())
        self._recent.append(f"{self.steps} at {self.now - START_MS:.2f} ms: {what}")

    @property
    def trace(self) -> str:
        """A hash of everything that happened so far."""
        return self._digest.hexdigest()

    def recent(self) -> list[str]:
        """The last steps, oldest first."""
        return list(self._recent)

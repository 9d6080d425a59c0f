"""The non-deterministic automaton of a pattern: its states, and which moves an event allows in each of them.

Conditions of columns are computed for many events at once, and an event's answers to them are its *symbol*, one bit for
each. Which moves a state has by a symbol is found once; only where another condition decides, which may look at the
events of the match so far, the event itself is asked.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from msgspec import Struct

MOST_COLUMN_CONDITIONS = 60
"""As many bits of a symbol there are."""


class Formula(Struct, frozen=True):
    """A condition of a move: an atom by its number, or others joined by "and", "or", "not"; "true" always holds."""

    kind: str
    atom: int = -1
    parts: tuple[Formula, ...] = ()


TRUE = Formula("true")


def negation(formula: Formula) -> Formula:
    """That the condition does not hold."""
    return Formula("not", parts=(formula,))


def conjunction(*formulas: Formula) -> Formula:
    """That all of these hold."""
    parts = tuple(each for each in formulas if each != TRUE)
    if len(parts) > 1:
        return Formula("and", parts=parts)
    return parts[0] if parts else TRUE


Answer = Callable[[int], bool | None]
"""Whether an atom holds; None: that is not known."""


def holds(formula: Formula, answer: Answer) -> bool | None:
    """Whether a condition holds; None: an atom that decides is not known."""
    kind = formula.kind
    if kind == "atom":
        return answer(formula.atom)
    if kind == "true":
        return True
    if kind == "not":
        found = holds(formula.parts[0], answer)
        return None if found is None else not found
    decides = kind == "or"
    is_open = False
    for part in formula.parts:
        found = holds(part, answer)
        if found is decides:
            return decides
        is_open |= found is None
    return None if is_open else not decides


class Action(enum.Enum):
    """What a move does with the event."""

    TAKE = "take"
    IGNORE = "ignore"
    PROCEED = "proceed"
    """Nothing: the next state looks at the same event."""


class StateKind(enum.Enum):
    """What it means to be in a state."""

    NORMAL = "normal"
    FINAL = "final"
    """The match is complete."""
    STOP = "stop"
    """What must not be there has come: there is no match."""
    PENDING = "pending"
    """The match is complete when its time is over."""


class Transition(Struct):
    """A move from a state; `condition` changes while the automaton is made."""

    action: Action
    target: int
    condition: Formula


class State(Struct):
    """A state of the automaton."""

    number: int
    name: str
    """The part of the pattern whose event it waits for."""
    kind: StateKind = StateKind.NORMAL
    transitions: list[Transition] = []
    gap_ms: int | None = None
    """How long after the event before the next one may come; None: any time."""


class Move(Struct, frozen=True):
    """What an event does to a partial match: it is taken for a part of the pattern, or ignored (`name` is None)."""

    name: str | None
    source: int
    """The state that takes or ignores it."""
    target: int
    completes: bool = False
    """Whether the match is complete with this event, whatever comes later in `target`."""


Moves = tuple[Move, ...]


class Automaton:
    """The states of a pattern.

    Args:
        columns: how many atoms there are of columns, which have the numbers 0, 1, ...; those behind them are others.
        window_ms: the time from the first event to the last one; None: any.
    """

    def __init__(self, states: list[State], start: int, columns: int, window_ms: int | None) -> None:
        self.states = states
        self.start = start
        self.window_ms = window_ms
        self._columns = columns
        self._known: dict[tuple[int, int], Moves | None] = {}
        self._starts: dict[int, bool] = {}
        self._changing: dict[int, int] = {}
        self.gaps = {each.number: each.gap_ms for each in states if each.gap_ms is not None}
        """How long after the event before states take or ignore another one."""
        self.limits = {state: gap for state, gap in self.gaps.items() if not self._may_proceed(states[state])}
        """The same of states that wait for nothing else."""

    def _may_proceed(self, state: State) -> bool:
        proceeds = [each.target for each in state.transitions if each.action is Action.PROCEED]
        return any(self.states[each].kind is not StateKind.STOP for each in proceeds)

    def moves(self, state: int, symbol: int, answer: Answer) -> Moves:
        """The moves that an event allows in a state.

        Args:
            answer: answers the atoms that are not those of columns, where one of them decides.
        """
        key = (state, symbol)
        try:
            found = self._known[key]
        except KeyError:
            found = self._known[key] = self._moves_by(state, self._answer(symbol))
        if found is not None:
            return found
        by_symbol = self._answer(symbol)
        known: dict[int, bool | None] = {}

        def ask(atom: int) -> bool | None:
            if atom < self._columns:
                return by_symbol(atom)
            if atom not in known:
                known[atom] = answer(atom)
            return known[atom]

        asked = self._moves_by(state, ask)
        assert asked is not None
        return asked

    def may_start(self, symbol: int) -> bool:
        """Whether an event with this symbol may be the first one of a match."""
        found = self._starts.get(symbol)
        if found is None:
            found = self._starts[symbol] = self._may_take(symbol)
        return found

    def changing(self, symbol: int) -> int:
        """The states, a bit for each, in which an event with this symbol is not just ignored."""
        found = self._changing.get(symbol)
        if found is None:
            found = 0
            for state in self.states:
                moves = self._moves_by(state.number, self._answer(symbol))
                if moves != (Move(None, state.number, state.number),):
                    found |= 1 << state.number
            self._changing[symbol] = found
        return found

    def _answer(self, symbol: int) -> Answer:
        columns = self._columns
        return lambda atom: bool(symbol >> atom & 1) if atom < columns else None

    def _moves_by(self, start: int, answer: Answer) -> Moves | None:
        """The moves in a state; None: one depends on what is not known."""
        found: list[Move] = []
        waiting = [start]
        while waiting:
            current = self.states[waiting.pop()]
            for transition in current.transitions:
                is_allowed = holds(transition.condition, answer)
                if is_allowed is None:
                    return None
                if not is_allowed:
                    continue
                if transition.action is Action.PROCEED:
                    waiting.append(transition.target)
                elif transition.action is Action.IGNORE:
                    found.append(Move(None, current.number, transition.target))
                else:
                    completes = self._completes(transition.target, answer)
                    if completes is None:
                        return None
                    found.append(Move(current.name, current.number, transition.target, completes))
        return tuple(found)

    def _completes(self, start: int, answer: Answer) -> bool | None:
        """Whether a match is complete in a state without another event."""
        waiting = [start]
        while waiting:
            for transition in self.states[waiting.pop()].transitions:
                if transition.action is not Action.PROCEED:
                    continue
                is_allowed = holds(transition.condition, answer)
                if is_allowed is None:
                    return None
                if is_allowed and self.states[transition.target].kind is StateKind.FINAL:
                    return True
                if is_allowed:
                    waiting.append(transition.target)
        return False

    def _may_take(self, symbol: int) -> bool:
        answer = self._answer(symbol)
        waiting = [self.start]
        while waiting:
            for transition in self.states[waiting.pop()].transitions:
                if holds(transition.condition, answer) is False:
                    continue
                if transition.action is Action.TAKE:
                    return True
                if transition.action is Action.PROCEED:
                    waiting.append(transition.target)
        return False

    def may_be_empty(self) -> bool:
        """Whether no event at all would be a match."""
        found = self._proceeds_from(self.start)
        return any(self.states[each].kind is StateKind.FINAL for each in found)

    def has_endless_proceeds(self) -> bool:
        """Whether states lead to each other in a circle without an event."""
        return any(state.number in self._proceeds_from(state.number) for state in self.states)

    def _proceeds_from(self, start: int) -> set[int]:
        found: set[int] = set()
        waiting: list[Any] = [start]
        while waiting:
            for transition in self.states[waiting.pop()].transitions:
                if transition.action is Action.PROCEED and transition.target not in found:
                    found.add(transition.target)
                    waiting.append(transition.target)
        return found

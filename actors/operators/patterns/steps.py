"""One key moved by one event, or by time: partial matches go on, become complete, or end (after Flink's NFA).

A partial match holds its last event, which holds the one before it, and so on: what several have in common is there
once. So the events of a match are those on its own way, without the version numbers of Flink's shared buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from actors.operators.patterns.automaton import Answer, Automaton, Move, StateKind
from flinkray.errors import RecordError
from flinkray.patterns.skipping import AfterMatchSkipStrategy
from flinkray.types.records import MAX_TIMESTAMP

NEVER = int(MAX_TIMESTAMP)


class Event(NamedTuple):
    """An event: its number, which ascends within a key, its time, and what it is to conditions and functions."""

    number: int
    time: int
    value: Any


class Taken(NamedTuple):
    """An event that is part of a match, behind those before it."""

    name: str
    event: Event
    before: Taken | None


class Partial(NamedTuple):
    """A match that is not complete."""

    state: int
    last: Taken
    start: Event
    """Its first event."""


class Match(NamedTuple):
    """A complete match, or a partial one whose time is over."""

    last: Taken
    start: Event
    time: int
    """Its event time: that of its last event, or the one at which its time was over."""

    def events(self) -> dict[str, list[Event]]:
        """Its events by the names of the parts of the pattern, in the order of the pattern."""
        return events_of(self.last)


def events_of(last: Taken | None) -> dict[str, list[Event]]:
    """The events up to this one, by name; names in the order in which they came first."""
    taken = []
    while last is not None:
        taken.append(last)
        last = last.before
    found: dict[str, list[Event]] = {}
    for each in reversed(taken):
        found.setdefault(each.name, []).append(each.event)
    return found


class KeyMatches(NamedTuple):
    """What a key has: partial matches, and complete ones that wait for earlier partial ones."""

    partials: tuple[Partial, ...] = ()
    waiting: tuple[Match, ...] = ()


Ask = Callable[[int, Event, Taken | None], bool]
"""Whether an atom that is not one of columns holds for an event, after those that a partial match has."""


class Steps:
    """Moves keys.

    Args:
        ask: answers the atoms that are not those of columns.
    """

    def __init__(self, automaton: Automaton, skip: AfterMatchSkipStrategy, ask: Ask) -> None:
        self._automaton = automaton
        self._skip = skip
        self._ask = ask
        self._kinds = [each.kind for each in automaton.states]

    def moved(self, matches: KeyMatches, event: Event, symbol: int) -> tuple[KeyMatches, list[Match]]:
        """What a key has after an event, and the matches that are to be given."""
        automaton, gaps = self._automaton, self._automaton.gaps
        partials: list[Partial] = []
        complete: list[Match] = []
        for partial in matches.partials:
            moves = automaton.moves(partial.state, symbol, self._answer(event, partial.last))
            if gaps:
                since = event.time - partial.last.event.time
                moves = tuple(move for move in moves if since < gaps.get(move.source, NEVER))
            self._make(moves, event, partial.last, partial.start, partials, complete)
        if automaton.may_start(symbol):
            moves = automaton.moves(automaton.start, symbol, self._answer(event, None))
            # What begins with no event would begin with a later one as well.
            self._make([move for move in moves if move.name], event, None, event, partials, complete)
        return self._given(partials, matches.waiting, complete)

    def _make(
        self,
        moves: Iterable[Move],
        event: Event,
        before: Taken | None,
        start: Event,
        partials: list[Partial],
        complete: list[Match],
    ) -> None:
        """Adds what becomes of a partial match, or of a beginning, by these moves."""
        kinds, found = self._kinds, []
        is_stopped = False
        for move in moves:
            kind = kinds[move.target]
            if kind is StateKind.STOP:
                is_stopped = True
                continue
            last = before if move.name is None else Taken(move.name, event, before)
            assert last is not None
            if kind is StateKind.FINAL or move.completes:
                complete.append(Match(last, start, event.time))
            if kind is not StateKind.FINAL:
                found.append(Partial(move.target, last, start))
        if not is_stopped:
            partials += found

    def _answer(self, event: Event, last: Taken | None) -> Answer:
        ask = self._ask
        return lambda atom: ask(atom, event, last)

    # -- time

    def deadline(self, matches: KeyMatches) -> int:
        """The time at which the first of the partial matches is over; NEVER: none has a limit."""
        return min(map(self._deadline_of, matches.partials), default=NEVER)

    def _deadline_of(self, partial: Partial) -> int:
        window, gap = self._automaton.window_ms, self._automaton.limits.get(partial.state)
        found = NEVER if window is None else partial.start.time + window
        if gap is not None:
            found = min(found, partial.last.event.time + gap)
        # Within the times that 64 bits hold.
        return NEVER if window is gap is None else min(found, NEVER - 1)

    def advanced(self, matches: KeyMatches, time: int) -> tuple[KeyMatches, list[Match], list[Match]]:
        """What a key has at a time, the matches that are to be given, and the partial ones whose time is over."""
        left: list[Partial] = []
        complete: list[Match] = []
        over: list[Match] = []
        for partial in matches.partials:
            deadline = self._deadline_of(partial)
            if deadline == NEVER or deadline > time:
                left.append(partial)
                continue
            match = Match(partial.last, partial.start, deadline)
            (complete if self._kinds[partial.state] is StateKind.PENDING else over).append(match)
        found, given = self._given(left, matches.waiting, complete)
        return found, given, over

    # -- skipping

    def _given(
        self, partials: list[Partial], waiting: tuple[Match, ...], complete: list[Match]
    ) -> tuple[KeyMatches, list[Match]]:
        """The complete matches that are given now, each of which discards others: those that began first, as long as no
        partial match began before."""
        if self._skip.kind == "NO_SKIP":
            return KeyMatches(tuple(partials)), complete
        if not complete and not waiting:
            return KeyMatches(tuple(partials)), complete
        queue = sorted((*waiting, *complete), key=lambda match: match.start.number)
        given: list[Match] = []
        while queue and all(queue[0].start.number <= each.start.number for each in partials):
            match = queue.pop(0)
            given.append(match)
            first = self._first_kept(match)
            partials = [each for each in partials if each.start.number >= first]
            queue = [each for each in queue if each.start.number >= first]
        return KeyMatches(tuple(partials), tuple(queue)), given

    def _first_kept(self, match: Match) -> int:
        """The number of the first event that may begin another match."""
        kind = self._skip.kind
        if kind == "SKIP_TO_NEXT":
            return match.start.number + 1
        if kind == "SKIP_PAST_LAST_EVENT":
            return match.last.event.number + 1
        name = self._skip.pattern_name
        events = match.events().get(name or "", [])
        if not events:
            if self._skip.fails_on_miss:
                raise RecordError(f"could not skip to {name}: a match has no such event")
            return -1
        found = events[0 if kind == "SKIP_TO_FIRST" else -1].number
        if self._skip.fails_on_miss and found == match.start.number:
            raise RecordError(f"could not skip to {name}: a match begins with it, and would be found for ever")
        return found

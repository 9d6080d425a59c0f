"""Matches of a pattern in the events of many keys: what is columns, and which events are looked at one by one.

Events are looked at one by one only where, as their symbols say, an event of their key may begin a match or do
something to one that is not complete; all others cost what it costs to compute symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.ordering import distinct
from actors.keys.index import Ids
from actors.operators.patterns.automaton import Automaton
from actors.operators.patterns.steps import NEVER, Ask, Event, KeyMatches, Match, Steps
from flinkray.batches.numpy_arrays import as_numpy
from flinkray.patterns.skipping import AfterMatchSkipStrategy

_MOST_STATES = 1 << 62
Symbols = npt.NDArray[np.int64]


def symbols_of(conditions: Iterable[pa.Array], rows: int) -> Symbols:
    """The symbol of each row: a bit for each condition, set where it is true and not NULL."""
    found = np.zeros(rows, np.int64)
    for bit, condition in enumerate(conditions):
        found |= as_numpy(condition.fill_null(False)).astype(np.int64) << bit
    return found


class Found(Struct):
    """Matches with the numbers of their keys."""

    matches: list[tuple[int, Match]] = []
    timed_out: list[tuple[int, Match]] = []
    """Partial matches whose time is over."""


class Matcher:
    """What the keys of an operator have of a pattern. Belongs to the task's thread.

    Args:
        ask: as of `Steps`.
    """

    def __init__(self, automaton: Automaton, skip: AfterMatchSkipStrategy, ask: Ask) -> None:
        self._automaton = automaton
        self._steps = Steps(automaton, skip, ask)
        self._has_limits = automaton.window_ms is not None or bool(automaton.limits)
        self._clear()

    def _clear(self) -> None:
        self.keys: dict[int, KeyMatches] = {}
        """The keys that have partial matches, or complete ones that wait; others have nothing."""
        self._states: Ids = np.zeros(0, np.int64)
        """The states that the partial matches of each key are in, a bit for each; more than 62 are as all of them."""
        self._deadlines: dict[int, int] = {}
        self._earliest = NEVER
        """No deadline is before this."""
        self._next_number = 0

    def drop_all(self) -> None:
        """Forgets all matches of all keys."""
        self._clear()

    # -- events

    def to_look_at(self, keys: Ids, symbols: Symbols) -> npt.NDArray[np.bool_]:
        """The rows of keys of which a row of this batch may begin something, or do something to what they have."""
        kinds = distinct(symbols)
        may_start = np.array([self._automaton.may_start(int(each)) for each in kinds], np.bool_)
        changing = np.array([_as_bits(self._automaton.changing(int(each))) for each in kinds], np.int64)
        kind_of = np.searchsorted(kinds, symbols)
        self._know(int(keys.max(initial=-1)))
        does_something = may_start[kind_of] | ((changing[kind_of] & self._states[keys]) != 0)
        is_wanted = np.zeros(len(self._states), np.bool_)
        is_wanted[keys[does_something]] = True
        return is_wanted[keys]

    def _know(self, key: int) -> None:
        if key >= len(self._states):
            more = max(key + 1, 2 * len(self._states)) - len(self._states)
            self._states = np.concatenate([self._states, np.zeros(more, np.int64)])

    def process(self, keys: Ids, times: Ids, symbols: Symbols, values: Sequence[Any]) -> Found:
        """Events that lie together by key, each key's in their order.

        Args:
            times: of each event, in milliseconds; they ascend within a key.
            values: what conditions that are no columns' and functions get of each event.
        """
        found = Found()
        begins = np.flatnonzero(np.diff(keys, prepend=-1)).tolist()
        events = list(zip(times.tolist(), symbols.tolist(), values, strict=True))
        for begin, end in zip(begins, [*begins[1:], len(events)], strict=True):
            self._process_key(int(keys[begin]), begin, events[begin:end], found)
        self._next_number += len(events)
        return found

    def _process_key(self, key: int, place: int, events: list[tuple[int, int, Any]], found: Found) -> None:
        automaton, steps = self._automaton, self._steps
        matches = self.keys.get(key, KeyMatches())
        deadline = self._deadlines.get(key, NEVER)
        states = _states_of(matches)
        for number, (time, symbol, value) in enumerate(events, self._next_number + place):
            if time >= deadline:
                matches, given, over = steps.advanced(matches, time)
                found.matches += [(key, each) for each in given]
                found.timed_out += [(key, each) for each in over]
                deadline, states = steps.deadline(matches), _states_of(matches)
            if not automaton.changing(symbol) & states and not automaton.may_start(symbol):
                continue
            matches, given = steps.moved(matches, Event(number, time, value), symbol)
            if given:
                found.matches += [(key, each) for each in given]
            states = _states_of(matches)
            if self._has_limits:
                deadline = steps.deadline(matches)
        self._put(key, matches, deadline, states)

    def _put(self, key: int, matches: KeyMatches, deadline: int, states: int) -> None:
        self._states[key] = _as_bits(states)
        if matches.partials or matches.waiting:
            self.keys[key] = matches
        else:
            self.keys.pop(key, None)
        if deadline < NEVER:
            self._deadlines[key] = deadline
            self._earliest = min(self._earliest, deadline)
        else:
            self._deadlines.pop(key, None)

    # -- time

    def advance(self, time: int) -> Found:
        """Ends the partial matches whose time is over at `time`."""
        found = Found()
        if time < self._earliest:
            return found
        due = [key for key, deadline in self._deadlines.items() if deadline <= time]
        for key in due:
            matches, given, over = self._steps.advanced(self.keys[key], time)
            found.matches += [(key, each) for each in given]
            found.timed_out += [(key, each) for each in over]
            self._put(key, matches, self._steps.deadline(matches), _states_of(matches))
        self._earliest = min(self._deadlines.values(), default=NEVER)
        return found

    def next_deadline(self) -> int:
        """A time at or before which the next partial match is over; NEVER: none will be."""
        return self._earliest if self._deadlines else NEVER

    # -- keys and snapshots

    def live_keys(self) -> Ids:
        """The keys that have something."""
        return np.fromiter(self.keys, np.int64, len(self.keys))

    def renumber_keys(self, new_ids: Ids) -> None:
        """Gives key n the number `new_ids[n]`."""
        self.keys = {int(new_ids[key]): matches for key, matches in self.keys.items()}
        self._deadlines = {int(new_ids[key]): deadline for key, deadline in self._deadlines.items()}
        self._states = np.zeros(0, np.int64)
        for key, matches in self.keys.items():
            self._know(key)
            self._states[key] = _as_bits(_states_of(matches))

    def restore(self, key: int, matches: KeyMatches) -> None:
        """Puts back what a key had."""
        lasts = [each.last for each in matches.partials] + [each.last for each in matches.waiting]
        numbers = [last.event.number for last in lasts]
        self._know(key)
        self._next_number = max(self._next_number, *(number + 1 for number in numbers))
        self._put(key, matches, self._steps.deadline(matches), _states_of(matches))


def _states_of(matches: KeyMatches) -> int:
    """The states of a key's partial matches, a bit for each."""
    found = 0
    for each in matches.partials:
        found |= 1 << each.state
    return found


def _as_bits(states: int) -> int:
    """A set of states as a number of 64 bits, all of them set where there are too many states."""
    return states if states < _MOST_STATES else -1

"""What keys have of a pattern, as rows of snapshots: one for each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from actors.keys.state_tables import KeyedTables, StateRows, same_rows
from actors.operators.patterns.matcher import Matcher
from actors.operators.patterns.steps import Event, KeyMatches, Match, Partial, Taken
from actors.operators.windows.buffers.buffered_keys import BufferedKeys
from actors.state.snapshots.pickling import dumps
from actors.state.snapshots.snapshot import KeyedTable, OperatorSnapshot, RestoredState
from flinkray.persistence import loads

MATCHES = "matches"
"""The part of snapshots that has them."""
_PATTERN = "the pattern"
_STATE = "state"


def add_matches(
    snapshot: OperatorSnapshot, matcher: Matcher, keys: BufferedKeys, pattern: str, to: KeyedTables
) -> bool:
    """Adds what all keys have; whether any has something. What is held does not change; it is written elsewhere."""
    held = dict(matcher.keys)
    if held:
        snapshot.add_keyed(MATCHES, _table_of(held, keys, pattern, to), to.owned)
    return bool(held)


def _table_of(
    held: Mapping[int, KeyMatches], keys: BufferedKeys, pattern: str, to: KeyedTables
) -> Callable[[], KeyedTable]:
    columns = keys.columns()
    ids = None if columns is None else np.fromiter(held, np.int64, len(held))

    def table() -> KeyedTable:
        states = pa.array([dumps(_packed(matches)) for matches in held.values()], pa.large_binary())
        return to.make(columns, ids, {_STATE: states}, {_PATTERN: pattern.encode()})

    return table


def restore_matches(restored: RestoredState, matcher: Matcher, keys: BufferedKeys, pattern: str, where: str) -> None:
    """Puts back what keys had.

    Raises:
        IncompatibleStateError: it was of another pattern.
    """
    parts: Iterable[StateRows] = same_rows(restored.keyed(MATCHES), _PATTERN, pattern, where)
    for part in parts:
        ids = keys.restored_ids(part)
        for key, state in zip(ids.tolist(), part.columns[_STATE].to_pylist(), strict=True):
            matcher.restore(key, _unpacked(loads(state)))


_Packed = tuple[list[Event], list[tuple[str, int, int]], list[tuple[int, int, int]], list[tuple[int, int, int]]]
"""Events; taken ones as name, event and the one before (-1: none); partial and waiting matches, which name these."""


def _packed(matches: KeyMatches) -> _Packed:
    """Flat, as pickles of long chains would nest as deeply. What matches have in common is there once."""
    events: dict[int, int] = {}
    taken: dict[int, int] = {}
    chains: list[tuple[str, int, int]] = []
    values: list[tuple[int, int, object]] = []

    def number_of_event(event: Event) -> int:
        if event.number not in events:
            events[event.number] = len(values)
            values.append(tuple(event))
        return events[event.number]

    def number_of(last: Taken) -> int:
        new = []
        each: Taken | None = last
        while each is not None and id(each) not in taken:
            new.append(each)
            each = each.before
        for one in reversed(new):
            before = -1 if one.before is None else taken[id(one.before)]
            taken[id(one)] = len(chains)
            chains.append((one.name, number_of_event(one.event), before))
        return taken[id(last)]

    partials = [(each.state, number_of(each.last), number_of_event(each.start)) for each in matches.partials]
    waiting = [(each.time, number_of(each.last), number_of_event(each.start)) for each in matches.waiting]
    return values, chains, partials, waiting  # type: ignore[return-value]


def _unpacked(packed: _Packed) -> KeyMatches:
    values, chains, partials, waiting = packed
    events = [Event(*each) for each in values]
    taken: list[Taken] = []
    for name, event, before in chains:
        taken.append(Taken(name, events[event], None if before < 0 else taken[before]))
    return KeyMatches(
        tuple(Partial(state, taken[last], events[start]) for state, last, start in partials),
        tuple(Match(taken[last], events[start], time) for time, last, start in waiting),
    )

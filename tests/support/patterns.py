"""Patterns matched over events that are written as text, as in Flink's tests: `a1 b1 c1`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from actors.operators.expressions.column_operators import evaluate
from actors.operators.patterns.compiler import Atoms, compiled
from actors.operators.patterns.matcher import Found, Matcher, symbols_of
from actors.operators.patterns.steps import Match
from flinkray import col
from flinkray.expressions.tree import Expression
from flinkray.patterns.pattern import Pattern


def has(letters: str) -> Expression:
    """That the name of an event has one of these letters."""
    first, *others = (col("name").str.contains(letter) for letter in letters)
    for other in others:
        first = first | other
    return first


def matcher_of(pattern: Pattern) -> tuple[Matcher, Atoms]:
    atoms = Atoms(pattern, lambda leaf: isinstance(leaf, Expression))
    columns = len(atoms.columns)

    def ask(atom: int, event: object, before: object) -> bool:
        return bool(atoms.others[atom - columns](event, before))

    return Matcher(compiled(pattern, atoms), pattern.after_match_skip_strategy, ask), atoms


def found_in(pattern: Pattern, events: str, times: Sequence[int] | None = None) -> Found:
    """What a pattern finds in events of one key, which come a millisecond apart."""
    matcher, atoms = matcher_of(pattern)
    names = events.split()
    data = pa.record_batch({"name": pa.array(names, pa.string())})
    symbols = symbols_of([evaluate(each, data, "test") for each in atoms.columns], len(names))
    at = np.arange(len(names)) if times is None else np.array(times, np.int64)
    found = Found()
    keys = np.zeros(1, np.int64)
    for row, name in enumerate(names):
        one = slice(row, row + 1)
        parts = [matcher.advance(int(at[row]))]
        if matcher.to_look_at(keys, symbols[one]).any():
            parts.append(matcher.process(keys, at[one], symbols[one], [name]))
        for part in parts:
            found.matches += part.matches
            found.timed_out += part.timed_out
    return found


def matches_of(pattern: Pattern, events: str) -> list[str]:
    """The events of each match, as text, sorted."""
    return sorted(as_text(match) for _, match in found_in(pattern, events).matches)


def as_text(match: Match) -> str:
    return " ".join(event.value for events in match.events().values() for event in events)

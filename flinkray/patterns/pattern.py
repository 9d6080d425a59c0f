"""Patterns of events, one part behind the other (Flink's Pattern and GroupPattern)."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.expressions.tree import Expression
from flinkray.patterns.skipping import NO_SKIP, AfterMatchSkipStrategy
from flinkray.time.durations import Duration, to_millis


class Contiguity(enum.Enum):
    """What may lie between an event and the one before it in a match."""

    STRICT = "next"
    """Nothing."""
    RELAXED = "followed by"
    """Events that do not match."""
    NON_DETERMINISTIC_RELAXED = "followed by any"
    """Any events, so that one that matches may be left out."""
    NOT_NEXT = "not next"
    NOT_FOLLOWED_BY = "not followed by"

    @property
    def is_not(self) -> bool:
        """Whether the event must not be there."""
        return self in (Contiguity.NOT_NEXT, Contiguity.NOT_FOLLOWED_BY)


class WithinType(enum.Enum):
    """Between which events the time of `within` counts."""

    FIRST_AND_LAST = "first and last"
    PREVIOUS_AND_CURRENT = "previous and current"


@dataclass(frozen=True)
class Quantifier:
    """How many events a part of a pattern takes."""

    least: int = 1
    most: int | None = 1
    """None: any number."""
    is_applied: bool = False
    """Whether the program has said how many."""
    is_optional: bool = False
    is_greedy: bool = False
    inner: Contiguity = Contiguity.RELAXED
    """What may lie between the events of the part."""

    @property
    def is_looping(self) -> bool:
        """Whether it takes any number of events."""
        return self.most is None

    def __str__(self) -> str:
        found = ""
        if self.is_applied:
            most = "" if self.most is None else str(self.most)
            found = f"{{{self.least},{most}}} {self.inner.value}"
        return found + (" optional" if self.is_optional else "") + (" greedy" if self.is_greedy else "")


@dataclass(frozen=True)
class ConditionTree:
    """A condition: something that an event is asked, or several of them joined.

    Attributes:
        kind: "leaf", "and", "or".
        leaf: what is asked: an expression over columns, or a function of the event, perhaps with a context.
    """

    kind: str
    leaf: Any = None
    parts: tuple[ConditionTree, ...] = ()

    def leaves(self) -> Iterator[Any]:
        """All that is asked."""
        if self.kind == "leaf":
            yield self.leaf
        for part in self.parts:
            yield from part.leaves()

    def __str__(self) -> str:
        if self.kind == "leaf":
            return repr(self.leaf) if isinstance(self.leaf, Expression) else "function"
        return f"({f' {self.kind} '.join(map(str, self.parts))})"


Condition = Expression | Callable[..., Any]
"""An expression over columns, a function of an event, or one of an event and a context."""


@dataclass(frozen=True)
class Pattern:
    """A part of a pattern with all parts before it. Begins with `Pattern.begin`; each method gives a new pattern, and
    the old one can be used again.

    A part has a name, by which a match has its events. Without a condition any event matches.
    """

    name: str
    previous: Pattern | None = None
    contiguity: Contiguity = Contiguity.STRICT
    quantifier: Quantifier = field(default_factory=Quantifier)
    condition: ConditionTree | None = None
    until_condition: ConditionTree | None = None
    window_ms: int | None = None
    """The time from the first event to the last one."""
    gap_ms: int | None = None
    """The time from the event before to each of this part."""
    group: Pattern | None = None
    """The pattern that is this part, where it is not one of single events."""
    after_match_skip_strategy: AfterMatchSkipStrategy = NO_SKIP

    # -- parts

    @staticmethod
    def begin(part: str | Pattern, after_match_skip_strategy: AfterMatchSkipStrategy = NO_SKIP) -> Pattern:
        """A pattern that begins with events of that name, or with a group of parts."""
        return Pattern(*_named(part, "begin"), after_match_skip_strategy=after_match_skip_strategy)._grouped(part)

    def next(self, part: str | Pattern) -> Pattern:
        """The next event is of the part: strict contiguity."""
        return self._followed(part, Contiguity.STRICT)

    def followed_by(self, part: str | Pattern) -> Pattern:
        """An event of the part comes later, and the first one that matches is taken: relaxed contiguity."""
        return self._followed(part, Contiguity.RELAXED)

    def followed_by_any(self, part: str | Pattern) -> Pattern:
        """An event of the part comes later, and each one that matches makes a match: non-deterministic relaxed
        contiguity."""
        return self._followed(part, Contiguity.NON_DETERMINISTIC_RELAXED)

    def not_next(self, name: str) -> Pattern:
        """The next event is not of the part."""
        return self._not(name, Contiguity.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern:
        """No event of the part comes before the next part; as the last part, within the time of `within`."""
        return self._not(name, Contiguity.NOT_FOLLOWED_BY)

    def _followed(self, part: str | Pattern, contiguity: Contiguity) -> Pattern:
        skip = self.after_match_skip_strategy
        found = Pattern(*_named(part, contiguity.value), self, contiguity, after_match_skip_strategy=skip)
        return found._grouped(part)

    def _not(self, name: str, contiguity: Contiguity) -> Pattern:
        if self.quantifier.is_optional:
            raise InvalidProgramError(
                f"{contiguity.value} {name!r}: what comes before it, {self.name!r}, is optional, which Flink does not "
                "support; use two patterns, one with and one without the optional part"
            )
        if not isinstance(name, str):
            raise InvalidProgramError(f"{contiguity.value} takes the name of a part, not {name!r}")
        return self._followed(name, contiguity)

    def _grouped(self, part: str | Pattern) -> Pattern:
        return replace(self, group=part) if isinstance(part, Pattern) else self

    # -- conditions

    def where(self, condition: Condition) -> Pattern:
        """Events of the part match the condition, and those that were given before.

        Args:
            condition: an expression over columns, `col("price") > 10`, which is computed for many rows at once; or a
                function of the event, or of the event and a context (`IterativeConditionContext`), which knows the
                events that the match has so far.
        """
        return self._with_condition("and", _leaf(condition, "where"))

    def or_(self, condition: Condition) -> Pattern:
        """As `where`: events match this condition, or those that were given before."""
        return self._with_condition("or", _leaf(condition, "or_"))

    def _with_condition(self, kind: str, leaf: ConditionTree) -> Pattern:
        if self.group is not None:
            raise InvalidProgramError("a group of parts has no condition of its own; give one to its parts")
        return replace(
            self, condition=leaf if self.condition is None else ConditionTree(kind, parts=(self.condition, leaf))
        )

    def until(self, condition: Condition) -> Pattern:
        """No more events are taken after one that matches this condition; for parts that take any number of events."""
        if self.until_condition is not None:
            raise InvalidProgramError(f"{self.name!r} has an until condition already")
        if not self.quantifier.is_looping:
            raise InvalidProgramError("until is for parts that take any number of events: one_or_more, times_or_more")
        return replace(self, until_condition=_leaf(condition, "until"))

    # -- how many

    def times(self, least: int, most: int | None = None) -> Pattern:
        """So many events, or from `least` to `most`; with a least of 0 the part is optional, too."""
        most = least if most is None else most
        if not 0 <= least <= most or not most:
            raise InvalidProgramError(f"times({least}, {most}): it takes a number from 1, or two in ascending order")
        return self._quantified(Quantifier(max(1, least), most, is_applied=True, is_optional=not least))

    def one_or_more(self) -> Pattern:
        """One event or more."""
        return self.times_or_more(1)

    def times_or_more(self, least: int) -> Pattern:
        """At least so many events."""
        if least < 1:
            raise InvalidProgramError(f"times_or_more takes a number from 1, not {least}")
        return self._quantified(Quantifier(least, None, is_applied=True))

    def optional(self) -> Pattern:
        """Matches also have no event of the part."""
        self._refuse_not("optional")
        if self.quantifier.is_optional:
            raise InvalidProgramError(f"{self.name!r} is optional already")
        self._refuse_behind_greedy()
        return replace(self, quantifier=replace(self.quantifier, is_optional=True))

    def greedy(self) -> Pattern:
        """The part takes as many events as it can."""
        self._refuse_not("greedy")
        self._needs_quantifier("greedy")
        if self.group is not None:
            raise InvalidProgramError("greedy is not for groups of parts")
        if self.quantifier.inner is Contiguity.NON_DETERMINISTIC_RELAXED:
            raise InvalidProgramError("greedy does not go with allow_combinations")
        return replace(self, quantifier=replace(self.quantifier, is_greedy=True))

    def allow_combinations(self) -> Pattern:
        """Events that match may be left out between those of the part: non-deterministic relaxed contiguity."""
        self._needs_quantifier("allow_combinations")
        if self.quantifier.is_greedy:
            raise InvalidProgramError("allow_combinations does not go with greedy")
        return self._with_inner(Contiguity.NON_DETERMINISTIC_RELAXED, "allow_combinations")

    def consecutive(self) -> Pattern:
        """Nothing lies between the events of the part: strict contiguity."""
        self._needs_quantifier("consecutive")
        return self._with_inner(Contiguity.STRICT, "consecutive")

    def _with_inner(self, inner: Contiguity, setting: str) -> Pattern:
        if self.quantifier.inner is not Contiguity.RELAXED:
            raise InvalidProgramError(f"{setting}: {self.name!r} has been told what lies between its events")
        return replace(self, quantifier=replace(self.quantifier, inner=inner))

    def _quantified(self, quantifier: Quantifier) -> Pattern:
        self._refuse_not("a number of events")
        if self.quantifier.is_applied:
            raise InvalidProgramError(f"{self.name!r} has been told how many events it takes")
        if quantifier.is_optional:
            self._refuse_behind_greedy()
        optional = quantifier.is_optional or self.quantifier.is_optional
        return replace(self, quantifier=replace(quantifier, is_optional=optional))

    def _refuse_behind_greedy(self) -> None:
        before = self.previous
        if before is not None and before.quantifier.is_greedy:
            raise InvalidProgramError(
                f"{self.name!r} cannot be optional, as {before.name!r} before it is greedy: Flink does not support that"
            )

    def _refuse_not(self, setting: str) -> None:
        if self.contiguity.is_not:
            raise InvalidProgramError(f"{setting} is not for parts that must not be there ({self.name!r})")

    def _needs_quantifier(self, setting: str) -> None:
        if not self.quantifier.is_applied:
            raise InvalidProgramError(f"{setting} comes behind times, one_or_more or times_or_more ({self.name!r})")

    # -- time

    def within(self, duration: Duration, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Pattern:
        """The time in which the whole pattern is matched: less than this from its first event to its last; or, of this
        part, from the event before to each of its own. Of several times for the whole the shortest counts."""
        millis = to_millis(duration, "within")
        if not millis:
            raise InvalidProgramError("within takes a duration above 0")
        if within_type is WithinType.FIRST_AND_LAST:
            return replace(self, window_ms=millis)
        return replace(self, gap_ms=millis)

    # -- reading it

    def parts(self) -> tuple[Pattern, ...]:
        """The parts from the first one on."""
        found = []
        part: Pattern | None = self
        while part is not None:
            found.append(part)
            part = part.previous
        return tuple(reversed(found))

    def all_parts(self) -> Iterator[Pattern]:
        """The parts of single events, also those in groups."""
        for part in self.parts():
            if part.group is None:
                yield part
            else:
                yield from part.group.all_parts()

    @property
    def whole_window_ms(self) -> int | None:
        """The time for the whole pattern; None: there is no limit."""
        windows = [each.window_ms for each in self.parts()]
        windows += [each.group.whole_window_ms for each in self.parts() if each.group is not None]
        return min((each for each in windows if each is not None), default=None)

    def leaves(self) -> Iterator[Any]:
        """What the conditions of all parts ask: expressions over columns, and functions."""
        for part in self.parts():
            for test in (part.condition, part.until_condition):
                if test is not None:
                    yield from test.leaves()
            if part.group is not None:
                yield from part.group.leaves()

    def columns(self) -> Iterator[frozenset[str]]:
        """The columns that each of its expressions reads."""
        return (leaf.columns() for leaf in self.leaves() if isinstance(leaf, Expression))

    def __str__(self) -> str:
        """The pattern as text, by which state is told from that of another one."""
        found = [_text_of(part) for part in self.parts()]
        window = self.whole_window_ms
        return f"{' '.join(found)}{'' if window is None else f' within {window} ms'}; {self.after_match_skip_strategy}"


def _text_of(part: Pattern) -> str:
    text = "" if part.previous is None else f"{part.contiguity.value} "
    text += part.name if part.group is None else f"({' '.join(map(_text_of, part.group.parts()))})"
    text += str(part.quantifier)
    if part.condition is not None:
        text += f" where {part.condition}"
    if part.until_condition is not None:
        text += f" until {part.until_condition}"
    return text if part.gap_ms is None else f"{text} {part.gap_ms} ms behind the one before"


def _named(part: object, where: str) -> tuple[str]:
    if isinstance(part, Pattern):
        return ("group of " + ", ".join(each.name for each in part.parts()),)
    if not isinstance(part, str) or not part:
        raise InvalidProgramError(f"{where} takes the name of a part, or a pattern as a group, not {part!r}")
    return (part,)


def _leaf(condition: object, where: str) -> ConditionTree:
    if not isinstance(condition, Expression) and not callable(condition):
        raise InvalidProgramError(
            f"{where} takes an expression such as col('price') > 10, or a function of the event (and a context), not "
            f"{condition!r}"
        )
    return ConditionTree("leaf", condition)


def check_pattern(pattern: Pattern) -> None:
    """
    Raises:
        InvalidProgramError: names are given twice, or times or the last part do not fit.
    """
    names = [part.name for part in pattern.all_parts()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidProgramError(f"two parts of a pattern have the name {twice!r}; give each its own")
    window = pattern.whole_window_ms
    gaps = [part.gap_ms for part in pattern.all_parts() if part.gap_ms is not None]
    if window is not None and any(gap > window for gap in gaps):
        raise InvalidProgramError(
            f"a part may come later behind the one before than the whole pattern has: {window} ms"
        )
    if pattern.contiguity is Contiguity.NOT_FOLLOWED_BY and window is None and pattern.gap_ms is None:
        raise InvalidProgramError(
            f"not_followed_by ({pattern.name!r}) is the last part of the pattern, so it needs the time after which "
            "nothing has followed: within(...)"
        )
    skips_to = pattern.after_match_skip_strategy.pattern_name
    if skips_to is not None and skips_to not in names:
        raise InvalidProgramError(f"the pattern has no part {skips_to!r} to skip to; parts: {', '.join(names)}")


def takes_context(condition: Callable[..., Any]) -> bool:
    """Whether a condition that is a function takes a context beside the event."""
    try:
        parameters = inspect.signature(condition).parameters.values()
    except (TypeError, ValueError):  # a built-in function
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.kind in kinds and each.default is each.empty]
    return len(needed) > 1 or any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)

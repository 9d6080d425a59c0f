"""A pattern as an automaton, part by part from the last one to the first (as Flink's NFACompiler does it).

A state waits for an event of a part: TAKE takes it, IGNORE lets it pass, and PROCEED goes to the state behind where the
part may have enough events. Where a part may be left out or repeated, what ignores an event goes to a copy of the state
that does not proceed, so that each way through the automaton is gone once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.operators.patterns.automaton import (
    MOST_COLUMN_CONDITIONS,
    TRUE,
    Action,
    Automaton,
    Formula,
    State,
    StateKind,
    Transition,
    conjunction,
    negation,
)
from flinkray.errors import InvalidProgramError
from flinkray.patterns.pattern import ConditionTree, Contiguity, Pattern, check_pattern

_END = "$end$"


class Atoms:
    """What the conditions of a pattern ask events, numbered: first what is asked of columns.

    Args:
        is_column: whether something that is asked is computed for the columns of many events at once.
    """

    def __init__(self, pattern: Pattern, is_column: Callable[[Any], bool]) -> None:
        leaves = list({id(each): each for each in pattern.leaves()}.values())
        self.columns = [each for each in leaves if is_column(each)]
        self.others = [each for each in leaves if not is_column(each)]
        self._numbers = {id(each): number for number, each in enumerate((*self.columns, *self.others))}
        if len(self.columns) > MOST_COLUMN_CONDITIONS:
            raise InvalidProgramError(
                f"a pattern has at most {MOST_COLUMN_CONDITIONS} conditions over columns, and this one has "
                f"{len(self.columns)}; join some with & and |, or make some functions"
            )

    def formula(self, test: ConditionTree | None) -> Formula:
        """The condition of a part; one that always holds where there is none."""
        if test is None:
            return TRUE
        if test.kind == "leaf":
            return Formula("atom", self._numbers[id(test.leaf)])
        return Formula(test.kind, parts=tuple(map(self.formula, test.parts)))


def compiled(pattern: Pattern, atoms: Atoms) -> Automaton:
    """The automaton of a pattern.

    Raises:
        InvalidProgramError: the pattern is none that can be matched; says why.
    """
    check_pattern(pattern)
    compiler = _Compiler(atoms)
    start = compiler.compile(pattern)
    found = Automaton(compiler.states, start.number, len(atoms.columns), pattern.whole_window_ms)
    if found.has_endless_proceeds():
        raise InvalidProgramError("a group that is repeated has a part that is not optional")
    return found


class _Compiler:
    """Makes the states; `_part` is the part that is being made, and `_group` the group that it is in."""

    def __init__(self, atoms: Atoms) -> None:
        self.states: list[State] = []
        self._atoms = atoms
        self._stops: dict[str, State] = {}
        self._copies: dict[int, State] = {}
        """Of states behind a greedy part with an until condition, the one that is not greedy."""
        self._part: Pattern
        self._following: Pattern | None = None
        self._group: Pattern | None = None
        self._is_later_round: dict[int, bool] = {}
        """Of a repeated group, by the identity of its part, whether states of a later round than the first are made."""

    def compile(self, pattern: Pattern) -> State:
        """The state that the automaton begins with."""
        self._part = pattern
        self._has_window = pattern.whole_window_ms is not None
        return self._converted(self._behind_the_first(self._state(_END, StateKind.FINAL)))

    def _behind_the_first(self, sink: State) -> State:
        """All parts but the first of a sequence, in front of the state that it leads to."""
        while (before := self._part.previous) is not None:
            part = self._part
            if part.contiguity is Contiguity.NOT_FOLLOWED_BY:
                # What must not come is a condition of the states around; only at the end it is a state itself.
                if sink.kind is StateKind.FINAL and (self._has_window or part.gap_ms is not None):
                    sink = self._not_followed_at_end(part)
            elif part.contiguity is Contiguity.NOT_NEXT:
                sink = self._not_next(part, sink)
            else:
                sink = self._converted(sink)
            self._following, self._part = part, before
        return sink

    def _not_followed_at_end(self, part: Pattern) -> State:
        state, condition = self._state(part.name, StateKind.PENDING, part.gap_ms), self._take(part)
        _add(state, Action.PROCEED, self._stop(part.name, condition), condition)
        _add(state, Action.IGNORE, state, negation(condition))
        return state

    def _not_next(self, part: Pattern, sink: State) -> State:
        state, condition = self._state(part.name, gap_ms=part.gap_ms), self._take(part)
        # The event after which a match is complete is not looked at once more.
        action = Action.IGNORE if sink.kind is StateKind.FINAL else Action.PROCEED
        _add(state, action, sink, negation(condition))
        _add(state, Action.PROCEED, self._stop(part.name, condition), condition)
        return state

    def _converted(self, sink: State) -> State:
        """The present part in front of a state."""
        part, quantifier = self._part, self._part.quantifier
        if quantifier.is_looping:
            self._is_later_round[id(part)] = True
            looping = self._looping(self._without_nots(sink))
            self._is_later_round[id(part)] = False
            first = self._rounds(looping, sink)
        elif quantifier.is_applied:
            first = self._rounds(sink, sink)
        else:
            ignored = self._ignored(part)
            first = self._single(sink, sink, self._take(part), ignored, quantifier.is_optional)
        self._add_stops(first)
        return first

    def _state(self, name: str, kind: StateKind = StateKind.NORMAL, gap_ms: int | None = None) -> State:
        state = State(len(self.states), name, kind, [], gap_ms)
        self.states.append(state)
        return state

    def _own_state(self) -> State:
        return self._state(self._part.name, gap_ms=self._part.gap_ms)

    def _stop(self, name: str, condition: Formula) -> State:
        state = self._stops.get(name)
        if state is None:
            state = self._stops[name] = self._state(name, StateKind.STOP)
            _add(state, Action.TAKE, state, condition)
        return state

    # -- what must not come

    def _nots(self) -> list[tuple[str, Formula]]:
        """What must not come before the present part, also before optional parts in front of it."""
        found, part = [], self._part.previous
        while part is not None:
            is_not = part.contiguity is Contiguity.NOT_FOLLOWED_BY
            if not is_not and not part.quantifier.is_optional:
                break
            if is_not:
                found.append((part.name, self._take(part)))
            part = part.previous
        return found

    def _add_stops(self, state: State) -> None:
        for name, condition in self._nots():
            _add(state, Action.PROCEED, self._stop(name, condition), condition)

    def _add_stop_behind(self, state: State) -> None:
        following = self._following
        if following is not None and following.contiguity is Contiguity.NOT_FOLLOWED_BY:
            condition = self._take(following)
            _add(state, Action.PROCEED, self._stop(following.name, condition), condition)

    def _without_nots(self, sink: State) -> State:
        """The state behind an optional part where that has taken an event: what must not come before it may come."""
        nots = {name for name, _ in self._nots()}
        if not nots or not self._part.quantifier.is_optional:
            return sink
        copy = self._state(sink.name, sink.kind, sink.gap_ms)
        for transition in sink.transitions:
            target = self.states[transition.target]
            if transition.action is not Action.PROCEED:
                _add(copy, transition.action, copy if target is sink else target, transition.condition)
            elif target.kind is not StateKind.STOP:
                _add(copy, Action.PROCEED, self._without_nots(target), transition.condition)
            elif target.name not in nots:
                _add(copy, Action.PROCEED, target, transition.condition)
        return copy

    # -- rounds

    def _rounds(self, sink: State, proceeds_to: State) -> State:
        """So many events of the present part as it takes at least, and those that it may take beside them."""
        part, quantifier = self._part, self._part.quantifier
        most = quantifier.least if quantifier.most is None else quantifier.most
        self._is_later_round[id(part)] = True
        until = self._until(part)
        ignored = self._unless(self._inner_ignored(part), until)
        take = conjunction(self._take(part), *([negation(until)] if until is not None else []))
        if quantifier.is_greedy and quantifier.least != most:
            if until is not None:
                self._copies[sink.number] = self._copy(sink)
            _make_greedy(sink, take)
        for _ in range(quantifier.least, most):
            sink = self._single(sink, proceeds_to, take, ignored, is_optional=True)
            self._add_stop_behind(sink)
        for _ in range(quantifier.least - 1):
            sink = self._single(sink, None, take, ignored, is_optional=False)
            self._add_stop_behind(sink)
        self._is_later_round[id(part)] = False
        return self._single(sink, proceeds_to, take, self._ignored(part), quantifier.is_optional)

    def _single(
        self, sink: State, proceeds_to: State | None, take: Formula, ignored: Formula | None, is_optional: bool
    ) -> State:
        """A state for one event of the present part."""
        part = self._part
        if part.group is not None:
            return self._group_round(part, part.group, sink, proceeds_to if is_optional else None)
        state = self._own_state()
        behind = self._without_nots(sink)
        _add(state, Action.TAKE, behind, take)
        if is_optional:
            assert proceeds_to is not None
            self._proceed(state, proceeds_to, self._copies.get(proceeds_to.number))
        if ignored is not None:
            waiting = state
            if is_optional or self._heads_optional_group(part):
                waiting = self._own_state()
                _add(waiting, Action.TAKE, behind, take)
                _add(waiting, Action.IGNORE, waiting, ignored)
                self._add_stops(waiting)
            _add(state, Action.IGNORE, waiting, ignored)
        return state

    def _proceed(self, state: State, sink: State, copy: State | None) -> None:
        """Lets a state proceed to the one behind; where the until condition of a greedy part holds, to its copy."""
        until = self._until(self._part)
        if not self._part.quantifier.is_greedy or until is None or copy is None:
            _add(state, Action.PROCEED, sink, self._always())
            return
        _add(state, Action.PROCEED, copy, conjunction(self._always(), until))
        _add(state, Action.PROCEED, sink, conjunction(self._always(), negation(until)))

    def _looping(self, sink: State) -> State:
        """A state that takes any number of events of the present part."""
        part = self._part
        if part.group is not None:
            return self._looping_group(part, part.group, sink)
        until = self._until(part)
        ignored = self._unless(self._inner_ignored(part), until)
        take = conjunction(self._take(part), *([negation(until)] if until is not None else []))
        state = self._own_state()
        copy = None
        if part.quantifier.is_greedy and until is not None:
            copy = self._copies[sink.number] = self._copy(sink)
        self._proceed(state, sink, copy)
        if part.quantifier.is_greedy:
            _make_greedy(sink, self._take(part))
        _add(state, Action.TAKE, state, take)
        self._add_stop_behind(state)
        if ignored is not None:
            waiting = self._own_state()
            _add(waiting, Action.TAKE, state, take)
            _add(waiting, Action.IGNORE, waiting, ignored)
            _add(state, Action.IGNORE, waiting, ignored)
            self._add_stop_behind(waiting)
        return state

    def _copy(self, state: State) -> State:
        copy = self._state(state.name, state.kind, state.gap_ms)
        for each in state.transitions:
            _add(copy, each.action, copy if each.target == state.number else self.states[each.target], each.condition)
        return copy

    # -- groups

    def _group_round(self, part: Pattern, group: Pattern, sink: State, proceeds_to: State | None) -> State:
        """One round of a group; where it may be left out, with the state that it then proceeds to."""
        always = self._always()
        first = self._inside(part, group, sink)
        if proceeds_to is not None:
            _add(first, Action.PROCEED, proceeds_to, always)
        return first

    def _looping_group(self, part: Pattern, group: Pattern, sink: State) -> State:
        always = self._always()
        again = self._own_state()
        first = self._inside(part, group, again)
        _add(first, Action.PROCEED, sink, always)
        _add(again, Action.PROCEED, first, always)
        return first

    def _inside(self, part: Pattern, group: Pattern, sink: State) -> State:
        outside = self._part, self._following, self._group
        self._group, self._part = part, group
        first = self._converted(self._behind_the_first(sink))
        self._part, self._following, self._group = outside
        return first

    def _is_head(self, part: Pattern) -> bool:
        return self._group is not None and part.previous is None

    def _is_first_round(self) -> bool:
        return not self._is_later_round.get(id(self._group), False)

    def _heads_optional_group(self, part: Pattern) -> bool:
        group = self._group
        return group is not None and self._is_head(part) and self._is_first_round() and group.quantifier.is_optional

    # -- conditions

    def _until(self, part: Pattern | None) -> Formula | None:
        return None if part is None or part.until_condition is None else self._atoms.formula(part.until_condition)

    def _unless(self, condition: Formula | None, until: Formula | None) -> Formula | None:
        return condition if condition is None or until is None else conjunction(negation(until), condition)

    def _always(self) -> Formula:
        until = self._until(self._group)
        return TRUE if until is None else negation(until)

    def _take(self, part: Pattern) -> Formula:
        return conjunction(self._always(), self._atoms.formula(part.condition))

    def _ignored(self, part: Pattern) -> Formula | None:
        """Which events may lie before the first one of a part; None: none may."""
        contiguity = part.contiguity
        if self._group is not None and self._is_head(part):
            contiguity = self._group.contiguity if self._is_first_round() else self._group.quantifier.inner
        return self._may_lie_between(contiguity, part)

    def _inner_ignored(self, part: Pattern) -> Formula | None:
        """Which events may lie between those of a part."""
        contiguity = part.quantifier.inner
        if self._group is not None and self._is_head(part):
            contiguity = self._group.quantifier.inner
        return self._may_lie_between(contiguity, part)

    def _may_lie_between(self, contiguity: Contiguity, part: Pattern) -> Formula | None:
        if contiguity is Contiguity.STRICT:
            return None
        is_any = contiguity is Contiguity.NON_DETERMINISTIC_RELAXED
        found = TRUE if is_any else negation(self._atoms.formula(part.condition))
        return self._unless(found, self._until(self._group))


def _add(state: State, action: Action, target: State, condition: Formula) -> None:
    state.transitions.append(Transition(action, target.number, condition))


def _make_greedy(sink: State, take: Formula) -> None:
    """Lets an event that the part before would take pass a state only where it does not take it."""
    for transition in sink.transitions:
        transition.condition = conjunction(transition.condition, negation(take))

"""The operator of MATCH_RECOGNIZE (Flink's Match, which runs on its CEP library)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from actors.columns.ordering import order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.patterns.compiler import Atoms, compiled
from actors.operators.patterns.matcher import Found, Matcher, symbols_of
from actors.operators.patterns.steps import NEVER, Event, Taken
from actors.operators.patterns.stored import add_matches, restore_matches
from actors.operators.tables.matches.conditions import Condition
from actors.operators.tables.matches.reads import MatchRows, Reads, plain_values
from actors.operators.tables.ranks.sort_codes import sort_codes
from actors.operators.tables.ranks.waiting import DueRowsOperator, times_of
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.errors import RecordError
from flinkray.patterns.pattern import ConditionTree, Contiguity, Pattern, Quantifier
from flinkray.patterns.skipping import AfterMatchSkipStrategy
from flinkray.tables.plans.expressions import PatternVariable
from flinkray.tables.types.arrow import to_arrow
from flinkray.transformations.table_factories import MatchFactory


class MatchOperator(DueRowsOperator[MatchFactory]):
    """Looks for matches among the rows that are due, in their order."""

    def __init__(self, factory: MatchFactory) -> None:
        super().__init__(factory, factory.time)
        types = [to_arrow(kind) for kind in factory.input_rows[0].types]
        self._reads = Reads(factory.reads, factory.keys, types)
        self._pattern = pattern_of(factory)
        self._atoms = Atoms(self._pattern, lambda leaf: isinstance(leaf, int))
        self._automaton = compiled(self._pattern, self._atoms)
        self._conditions = [Condition(each, self._reads) for each in self._atoms.others]
        self._measures = [prepared(each, EvaluationContext()) for each in factory.measures]
        self._timer: Any = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._matcher = Matcher(self._automaton, self._pattern.after_match_skip_strategy, self._holds)

    def close(self) -> None:
        self._set_timer(None)

    def _holds(self, atom: int, event: Event, last: Taken | None) -> bool:
        try:
            return self._conditions[atom - len(self._atoms.columns)].holds(event, last, self.now())
        except RecordError as error:
            raise RecordError(f"{self.where}: {error}") from error

    # -- rows

    def process_due(self, keys: Ids, rows: pa.RecordBatch) -> None:
        symbols = symbols_of([rows.column(number) for number in self._atoms.columns], rows.num_rows)
        looked_at = np.flatnonzero(self._matcher.to_look_at(keys, symbols))
        if self._time is None:
            self.advance(self.now())
        if len(looked_at):
            some = take(rows, from_numpy(looked_at))
            codes = sort_codes([some.column(key.index) for key in self.factory.order], self.factory.order)
            order = order_by(keys[looked_at], *codes)
            some, places = take(some, from_numpy(order)), looked_at[order]
            now = np.full(len(order), self.now())
            times = now if self._time is None else times_of(some.column(self._time))
            values = list(zip(*(plain_values(some.column(each)) for each in self._reads.columns), strict=True))
            values = values or [()] * len(order)
            self._give(self._matcher.process(keys[places], times, symbols[places], values))
        self._await_clock()

    def advance(self, time: int) -> None:
        """Forgets partial matches whose time is over."""
        if self._time is not None or not self.context.is_batch:
            self._give(self._matcher.advance(time if self._time is not None else min(time, self.now())))

    def end_keys(self) -> None:
        super().end_keys()
        if self.context.is_batch:
            self._matcher.drop_all()

    def _give(self, found: Found) -> None:
        matches = [MatchRows(match.events(), match.time) for _, match in found.matches]
        for begin in range(0, len(matches), self.context.batch_rows):
            self.emit(self._results(matches[begin : begin + self.context.batch_rows]))

    def _results(self, matches: Sequence[MatchRows]) -> pa.RecordBatch:
        now = self.now()
        read = [self._reads.column(each, matches, now) for each in self._reads.reads]
        context = EvaluationContext(now_micros=now * 1000)
        measures = [calculate(each, read, len(matches), context) for each in self._measures]
        return pa.RecordBatch.from_arrays([*self._reads.key_columns(matches), *measures], schema=self.schema)

    # -- the clock

    def _await_clock(self) -> None:
        """Where time is the clock's: looks again when a partial match is over, for which complete ones may wait."""
        if self._time is None and not self.context.is_batch:
            deadline = self._matcher.next_deadline()
            self._set_timer(None if deadline == NEVER else max(0, deadline - self.now()))

    def _set_timer(self, delay: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if delay is None else self.context.call_later(delay, self._on_clock, "matches that are over")

    def _on_clock(self) -> None:
        self._timer = None
        self.advance(self.now())
        self._await_clock()

    # -- keys and snapshots

    def forget_unused(self) -> None:
        self._waiting.compact()
        new_ids = self.keys.forget_unused([self._waiting.live_keys(), self._matcher.live_keys()])
        if new_ids is not None:
            self._waiting.renumber_keys(new_ids)
            self._matcher.renumber_keys(new_ids)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        found = super().snapshot_state(checkpoint_id, options)
        snapshot = found or OperatorSnapshot()
        has_matches = add_matches(snapshot, self._matcher, self.keys, self.factory.text, self.tables)
        return snapshot if has_matches else found

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        if restored is not None:
            restore_matches(restored, self._matcher, self.keys, self.factory.text, self.where)

    def open(self) -> None:
        super().open()
        self._await_clock()


def pattern_of(factory: MatchFactory) -> Pattern:
    """The pattern, whose conditions are columns by their numbers, and variables that have others."""
    pattern: Pattern | None = None
    for variable in factory.variables:
        quantifier, condition = _quantifier_of(variable), _condition_of(variable)
        pattern = Pattern(variable.name, pattern, Contiguity.STRICT, quantifier, condition)
    assert pattern is not None
    kinds = {
        "NEXT ROW": AfterMatchSkipStrategy.skip_to_next(),
        "PAST LAST ROW": AfterMatchSkipStrategy.skip_past_last_event(),
    }
    kind, name = factory.skip
    skip = kinds.get(kind) or AfterMatchSkipStrategy(f"SKIP_TO_{kind}", name, fails_on_miss=True)
    return replace(pattern, window_ms=factory.window_ms, after_match_skip_strategy=skip)


def _quantifier_of(variable: PatternVariable) -> Quantifier:
    """As Flink's planner has it: a number of rows that is fixed needs no greed, and rows follow each other."""
    least, most = variable.least, variable.most
    if (least, most) in ((1, 1), (0, 1)):
        return Quantifier(is_optional=least == 0)
    return Quantifier(
        max(1, least),
        most,
        is_applied=True,
        is_optional=least == 0,
        is_greedy=variable.is_greedy and least != most,
        inner=Contiguity.STRICT,
    )


def _condition_of(variable: PatternVariable) -> ConditionTree | None:
    leaves = [ConditionTree("leaf", number) for number in variable.conditions]
    if variable.condition is not None:
        leaves.append(ConditionTree("leaf", variable))
    if len(leaves) > 1:
        return ConditionTree("and", parts=tuple(leaves))
    return leaves[0] if leaves else None

"""The operator of a pattern on a stream (Flink's CepOperator)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from actors.columns.ordering import order_by
from actors.keys.index import Ids
from actors.keys.state_tables import KeyedTables
from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.expressions.column_operators import Evaluator
from actors.operators.functions.result_collector import ResultCollector
from actors.operators.patterns.compiler import Atoms, compiled
from actors.operators.patterns.matcher import Found, Matcher, Symbols, symbols_of
from actors.operators.patterns.steps import NEVER, Event, Match, Taken, events_of
from actors.operators.patterns.stored import add_matches, restore_matches
from actors.operators.patterns.waiting import WaitingRows
from actors.operators.windows.base.operator import TimedOperator
from actors.operators.windows.buffers.buffered_keys import BufferedKeys
from actors.operators.windows.buffers.buffered_rows import BufferedRows, decoded
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.errors import RecordError, TypeMismatchError
from flinkray.expressions.tree import Expression
from flinkray.functions.interfaces import as_callable
from flinkray.patterns.functions import TimedOutPartialMatchHandler
from flinkray.patterns.pattern import takes_context
from flinkray.transformations.operator_factories import PatternFactory
from flinkray.types.records import MAX_TIMESTAMP
from graphs.job_graph import OperatorCode


class PatternOperator(TimedOperator):
    """Keeps rows until the watermark has reached them, and then looks for matches in the order of their times; in
    processing time as they come."""

    _NEEDS_TIME_FOR = "has no place among the events of a pattern"

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, PatternFactory)
        super().__init__(factory.is_event_time, factory.late_tag)
        self._factory = factory
        self._atoms = Atoms(factory.pattern, lambda leaf: isinstance(leaf, Expression))
        self._automaton = compiled(factory.pattern, self._atoms)
        self._text = str(factory.pattern)
        self._next_position = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        selectors = tuple(context.keys) or (None,)
        self._keys = BufferedKeys(selectors, self._where)
        self._waiting = WaitingRows(self._where)
        ask = _Conditions(context, self._atoms).holds
        self._matcher = Matcher(self._automaton, self._factory.pattern.after_match_skip_strategy, ask)
        self._evaluator = Evaluator(self._atoms.columns, label_of(context))
        self._functions = UserFunctions(context, self._factory.user_functions)
        self._results = _Results(context, output, self._factory)

    def open(self) -> None:
        super().open()
        self._functions.open(TaskRuntimeContext(self.context))

    def close(self) -> None:
        super().close()
        self._functions.close()

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        arrived = self._arrived(batch)
        times = self._timestamps(arrived)
        is_late = times <= self._watermark
        if self._is_event_time and is_late.any():
            self._emit_late(arrived.filter(from_numpy(is_late)))
            arrived, times = arrived.filter(from_numpy(~is_late)), times[~is_late]
        if not len(times):
            return
        keys = self._keys.ids(arrived, 0)
        self._waiting.add(arrived, keys, times, self._next_position)
        self._next_position += len(times)
        if not self._is_event_time:
            self._process_until(int(times[0]))
            self._await_clock()

    def _fire_due(self, watermark: int) -> None:
        self._process_until(watermark)
        if self.context.is_batch and watermark == MAX_TIMESTAMP:
            self._matcher.drop_all()  # those keys have ended

    def _process_until(self, time: int) -> None:
        due = self._waiting.take_until(time)
        if due is not None:
            self._give(self._matches_in(*due))
        self._give(self._matcher.advance(time))
        self._forget_unused_keys()

    def _matches_in(self, rows: BufferedRows, times: Ids) -> Found:
        symbols = self._symbols_of(rows.data)
        looked_at = np.flatnonzero(self._matcher.to_look_at(rows.key_ids, symbols))
        keys = rows.key_ids[looked_at]
        order = looked_at[order_by(keys, times[looked_at], rows.positions[looked_at])]
        if not len(order):
            return Found()
        some = rows.take(order)
        return self._matcher.process(some.key_ids, times[order], symbols[order], decoded(some.data, some.kind))

    def _symbols_of(self, data: pa.Table) -> Symbols:
        found = [np.zeros(0, np.int64)]
        for batch in data.to_batches():
            conditions = self._evaluator.arrays(batch)
            for expression, condition in zip(self._atoms.columns, conditions, strict=True):
                if not pa.types.is_boolean(condition.type):
                    raise TypeMismatchError(
                        f"{label_of(self.context)}: a condition of a pattern is true or false, and {expression!r} is "
                        f"{condition.type}"
                    )
            found.append(symbols_of(conditions, batch.num_rows))
        return np.concatenate(found)

    def _give(self, found: Found) -> None:
        for _, match in found.matches:
            self._results.add(match)
        for _, match in found.timed_out:
            self._results.add_timed_out(match)
        self._results.flush()

    def _earliest_end(self) -> int | None:
        deadline = self._matcher.next_deadline()
        return None if deadline == NEVER else deadline + 1

    def _forget_unused_keys(self) -> None:
        new_ids = self._keys.forget_unused([*self._waiting.live_keys(), self._matcher.live_keys()])
        if new_ids is not None:
            self._waiting.renumber_keys(new_ids)
            self._matcher.renumber_keys(new_ids)

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = self._snapshot_subtask(self._next_position)
        tables = KeyedTables.of(self.context)
        self._waiting.add_to(snapshot, self._keys, tables)
        add_matches(snapshot, self._matcher, self._keys, self._text, tables)
        self._functions.snapshot_state(checkpoint_id, snapshot)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None:
            self._next_position = self._restore_subtask(restored)
            self._waiting.restore(restored, self._keys)
            restore_matches(restored, self._matcher, self._keys, self._text, label_of(self.context))
            self._await_clock()
        self._functions.initialize_state(restored)


class _Conditions:
    """Conditions that are functions of the user."""

    def __init__(self, context: OperatorContext, atoms: Atoms) -> None:
        self._context = context
        self._first = len(atoms.columns)
        self._functions: list[tuple[Callable[..., Any], bool]] = [(each, takes_context(each)) for each in atoms.others]

    def holds(self, atom: int, event: Event, last: Taken | None) -> bool:
        function, has_context = self._functions[atom - self._first]
        try:
            if has_context:
                return bool(function(event.value, _ConditionContext(self._context, event, last)))
            return bool(function(event.value))
        except BaseException as error:
            raise_attributed(self._context.operator_name, self._context.subtask, event.value, error)


class _ConditionContext:
    """An IterativeConditionContext."""

    def __init__(self, context: OperatorContext, event: Event, last: Taken | None) -> None:
        self._context = context
        self._event = event
        self._last = last
        self._events: dict[str, list[Event]] | None = None

    def get_events_for_pattern(self, name: str) -> list[Any]:
        if self._events is None:
            self._events = events_of(self._last)
        return [event.value for event in self._events.get(name, [])]

    def timestamp(self) -> int:
        return self._event.time

    def current_processing_time(self) -> int:
        return self._context.clock.now_ms()


class _MatchContext:
    """A PatternContext: one object per operator, changed for each match."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self.time: int | None = None

    def timestamp(self) -> int | None:
        return self.time

    def current_processing_time(self) -> int:
        return self._context.clock.now_ms()


class _Results:
    """Calls the user's functions for matches, and collects what they give."""

    def __init__(self, context: OperatorContext, output: Output, factory: PatternFactory) -> None:
        self._context = context
        self._factory = factory
        self._collector = ResultCollector(context, output, factory.output_type)
        self._match_context = _MatchContext(context)
        self._process = as_callable(factory.function, "process_match")
        self._timed_out: Callable[..., Any] | None = factory.timed_out_select
        if isinstance(factory.function, TimedOutPartialMatchHandler):
            self._timed_out = factory.function.process_timed_out_match

    def add(self, match: Match) -> None:
        """A match."""
        mode, collector = self._factory.mode, self._collector
        events, time = self._values(match)
        try:
            if mode == "select":
                collector.add(self._process(events), time)
            elif mode == "flat_select":
                collector.collect(self._process(events), time)
            else:
                collector.collect(self._process(events, self._match_context), time)
        except BaseException as error:
            raise_attributed(self._context.operator_name, self._context.subtask, events, error)
        collector.flush_if_full()

    def add_timed_out(self, match: Match) -> None:
        """A partial match whose time is over."""
        if self._timed_out is None:
            return
        tag, collector = self._factory.timed_out_tag, self._collector
        events, time = self._values(match)
        try:
            if tag is None:
                collector.collect(self._timed_out(events, self._match_context), time)
                return
            found = self._timed_out(events, match.time)
            results = [found] if self._factory.mode == "select" else _iterated(found)
            collector.collect([(tag, result) for result in results], time)
        except BaseException as error:
            raise_attributed(self._context.operator_name, self._context.subtask, events, error)
        collector.flush_if_full()

    def _values(self, match: Match) -> tuple[dict[str, list[Any]], int | None]:
        time = match.time if self._factory.is_event_time else None
        self._match_context.time = time
        return {name: [event.value for event in events] for name, events in match.events().items()}, time

    def flush(self) -> None:
        self._collector.flush()


def _iterated(results: Any) -> Iterator[Any]:
    if results is None:
        return iter(())
    if isinstance(results, str | bytes | dict):
        raise RecordError(f"the function for partial matches must yield its results, not return {results!r}")
    return iter(results)

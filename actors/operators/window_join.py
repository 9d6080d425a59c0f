"""Window joins and co-groups: rows of two inputs that have the same key and lie in the same window."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from actors.elements import CheckpointOptions
from actors.large_columns import picked_rows, taken_batch, whole
from actors.operators.base import Operator, OperatorContext, Output
from actors.operators.columns import operator_label
from actors.operators.join_buffer import JoinBuffer, JoinKeys, KeyedRows, buffer_table
from actors.operators.joined_rows import PairLayout, PairLimit, both_keys, pairs_of
from actors.operators.keyed_tables import KeyedTables, check_same, state_rows
from actors.operators.results import ResultCollector
from actors.operators.window_base import WindowOperatorBase
from actors.operators.window_join_general import UnionCoGroupOperator, UnionJoinFunctionOperator, UnionJoinOperator
from actors.operators.window_times import PendingWindows
from actors.ordering import distinct, partners_of
from actors.row_sizes import row_sizes
from actors.state.key_index import Ids
from actors.state.snapshot import OperatorSnapshot, RestoredState
from actors.user_code import TaskRuntimeContext, UserFunctions, raise_attributed
from flinkray.batch import Batch
from flinkray.errors import InvalidProgramError
from flinkray.functions import as_callable
from flinkray.operator_factories import WindowCoGroupFactory
from flinkray.types import Kind
from flinkray.windowing import AlignedWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from graphs.job_graph import OperatorCode

_STATES = ("first", "second")
_GRID = "windows"


def create_co_group_operator(code: OperatorCode) -> Operator:
    """The operator of a WindowCoGroupFactory."""
    factory = code.factory
    assert isinstance(factory, WindowCoGroupFactory)
    if factory.function is None and not factory.is_join:
        raise InvalidProgramError("a co-group needs a function (first_rows, second_rows)")
    by_slice = fires_as_aligned(factory)
    if factory.function is None:
        return ColumnarJoinOperator(factory) if by_slice else UnionJoinOperator(factory)
    if factory.is_join:
        return JoinFunctionOperator(factory) if by_slice else UnionJoinFunctionOperator(factory)
    return CoGroupOperator(factory) if by_slice else UnionCoGroupOperator(factory)


def fires_as_aligned(factory: WindowCoGroupFactory) -> bool:
    """Whether windows are our tumbling or sliding ones of event time, and fire at their end with all their rows."""
    assigner, trigger = factory.assigner, factory.trigger
    is_aligned = type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
    return is_aligned and factory.evictor is None and trigger in (None, assigner.get_default_trigger())


class TwoInputWindowOperator(WindowOperatorBase):
    """Base: keeps both inputs' rows by slice until all windows over it are over.

    A window fires when the watermarks of both inputs have reached its end. Late rows that are still allowed make the
    window fire again for their keys, with everything so far. Null is a key like any other, as in `key_by`.
    """

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        assert isinstance(factory.assigner, AlignedWindows)
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._factory = factory
        self._next_position = 0
        self._waiting = PendingWindows()
        self._slices = PendingWindows()

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._buffers = (JoinBuffer(self._where), JoinBuffer(self._where))
        self._selectors = both_keys(context, self._where)
        self._keys = JoinKeys(self._selectors, self._where)
        self._results = ResultCollector(context, output, self._factory.output_type)
        self._functions = UserFunctions(context, self._factory.user_functions)

    @property
    def number_of_inputs(self) -> int:
        return 2

    def open(self) -> None:
        self._functions.open(TaskRuntimeContext(self.context))

    def close(self) -> None:
        self._functions.close()

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        kept = self._in_time(batch)
        if kept is None:
            return
        times = self._times
        key_ids = self._keys.ids(kept, input_index)
        starts, which = times.slices_of_rows(kept)
        self._buffers[input_index].add(kept, key_ids, self._next_position, starts, which)
        self._next_position += kept.num_rows
        fire_again: dict[int, list[Ids]] = {}
        for index, slice_start in enumerate(starts):
            self._slices.add(slice_start)
            for start in times.starts_over_slice(slice_start):
                if not times.is_due(start, self._watermark):
                    self._waiting.add(start)
                elif not times.is_over(start, self._watermark):
                    touched = key_ids if which is None else key_ids[which == index]
                    fire_again.setdefault(start, []).append(touched)
        for start in sorted(fire_again):
            self._fire(start, distinct(np.concatenate(fire_again[start])))
        self._results.flush()

    # -- watermarks

    def _fire_due(self, watermark: int) -> None:
        times = self._times
        for start in self._waiting.pop_until(times.due_limit(watermark)):
            self._fire(start, None)
            self._results.flush_if_full()
        self._results.flush()
        for slice_start in self._slices.pop_until(times.released_limit(watermark)):
            for buffer in self._buffers:
                buffer.release(slice_start)
        self._forget_unused_keys()

    def _forget_unused_keys(self) -> None:
        place = self._keys.forget_unused(part for buffer in self._buffers for part in buffer.live_keys())
        if place is not None:
            for buffer in self._buffers:
                buffer.renumber_keys(place)

    def _fire(self, start: int, only_keys: Ids | None) -> None:
        sides = [buffer.rows_of(self._times.slices_of(start)) for buffer in self._buffers]
        if any(side is not None and side.fired_until is not None for side in sides) and only_keys is None:
            end = start + self._times.size
            only_keys = np.concatenate([side.keys_to_fire(end) for side in sides if side is not None])
        if only_keys is not None:
            sides = [
                None if side is None else side.take(np.flatnonzero(np.isin(side.key_ids, only_keys))) for side in sides
            ]
        self._fire_window(sides[0], sides[1], start + self._times.size - 1)

    @abstractmethod
    def _fire_window(self, first: KeyedRows | None, second: KeyedRows | None, timestamp: int) -> None:
        """Emits the results of one window; `timestamp` is their event time. A side may have no rows, or be None."""

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = self._snapshot_subtask(self._next_position)
        keys, watermark, tables = self._keys.columns(), self._watermark, KeyedTables.of(self.context)
        metadata = {_GRID: self._times.grid.encode()}
        for name, buffer in zip(_STATES, self._buffers, strict=True):
            captured = buffer.capture()
            if captured:
                make = functools.partial(buffer_table, captured, watermark, keys, tables, metadata, self._where)
                snapshot.add_keyed(name, make, tables.owned)
        self._functions.snapshot_state(checkpoint_id, snapshot)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None:
            self._restore(restored)
        self._functions.initialize_state(restored)

    def _restore(self, restored: RestoredState) -> None:
        self._next_position = self._restore_subtask(restored)
        for name, buffer in zip(_STATES, self._buffers, strict=True):
            for part in state_rows(restored.keyed(name)):
                check_same(part, _GRID, self._times.grid, operator_label(self.context))
                assert part.keys is not None
                buffer.restore(part, self._keys.restored_ids(part.keys), self._watermark)
        starts = {start for buffer in self._buffers for start in buffer.slice_starts()}
        for start in starts:
            self._slices.add(start)
        for start in self._times.due_later(sorted(starts), self._watermark):
            self._waiting.add(start)


class CoGroupOperator(TwoInputWindowOperator):
    """Calls the function with the rows of both sides, for every key that either side has in the window."""

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory)
        assert factory.function is not None
        self._call = as_callable(factory.function, "co_group")

    def _fire_window(self, first: KeyedRows | None, second: KeyedRows | None, timestamp: int) -> None:
        for left, right in _rows_by_key(first, second):
            try:
                self._results.collect(self._call(left, right), timestamp)
            except BaseException as error:
                raise_attributed(self.context.operator_name, self.context.subtask, (left, right), error)
            self._results.flush_if_full()


class JoinFunctionOperator(TwoInputWindowOperator):
    """Calls the function for every pair of rows; what it returns is one row."""

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory)
        assert factory.function is not None
        self._call = as_callable(factory.function, "join")

    def _fire_window(self, first: KeyedRows | None, second: KeyedRows | None, timestamp: int) -> None:
        if first is None or second is None:
            return
        for left_rows, right_rows in _rows_by_key(first, second):
            for left in left_rows:
                for right in right_rows:
                    try:
                        result = self._call(left, right)
                    except BaseException as error:
                        raise_attributed(self.context.operator_name, self.context.subtask, (left, right), error)
                    self._results.add(result, timestamp)
                self._results.flush_if_full()


def _rows_by_key(first: KeyedRows | None, second: KeyedRows | None) -> Iterable[tuple[list[Any], list[Any]]]:
    """For each key its rows of both sides, keys by first arrival on either."""
    groups: dict[int, tuple[list[Any], list[Any]]] = {}
    order: list[tuple[int, int, int, Any]] = []
    for index, side in enumerate((first, second)):
        if side is not None and side.num_rows:
            rows = zip(side.positions.tolist(), side.key_ids.tolist(), side.values(), strict=True)
            order += [(position, key_id, index, value) for position, key_id, value in rows]
    order.sort(key=lambda entry: entry[0])
    for _, key_id, index, value in order:
        groups.setdefault(key_id, ([], []))[index].append(value)
    return groups.values()


class ColumnarJoinOperator(TwoInputWindowOperator):
    """The inner join in columns: the first's, then the second's without its key columns.

    A name that both have gets the suffix `_right`. Rows are ordered by window, then by the first's row, then by the
    second's.
    """

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._layout = PairLayout(self._selectors[1], self._where)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._layout.check_kind(batch.kind)
        super().process_batch(batch, input_index)

    def _fire_window(self, first: KeyedRows | None, second: KeyedRows | None, timestamp: int) -> None:
        if first is None or second is None or not first.num_rows or not second.num_rows:
            return
        for side in (first, second):  # rows of two kinds have been put together as objects
            self._layout.check_kind(side.kind)
        order, begins, counts = partners_of(first.key_ids, second.key_ids, len(self._keys))
        kept = self._layout.kept(first.data.column_names, second.data.column_names)
        left_rows = whole(first.data)
        right_rows = picked_rows(whole(second.data.select(kept)), order)  # so that a row's partners lie together
        limit = PairLimit(self.context, row_sizes(left_rows), row_sizes(right_rows))
        for lefts, rights in pairs_of(begins, counts, limit.rows):
            for left, right in limit.cut(lefts, rights):
                data = self._layout.pairs(taken_batch(left_rows, left), taken_batch(right_rows, right))
                self.output.emit(Batch(data, Kind.ROW, timestamp))

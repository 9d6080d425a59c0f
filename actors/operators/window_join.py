"""Window joins and co-groups: rows of two inputs that have the same key and lie in the same window."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actors.elements import CheckpointOptions
from actors.large_columns import repeated_rows, taken_batch, whole
from actors.operators.base import Operator, OperatorContext, Output
from actors.operators.columns import operator_label
from actors.operators.join_buffer import JoinBuffer, buffer_table
from actors.operators.join_keys import JoinKeys
from actors.operators.joined_rows import PairLayout, PairLimit, both_keys, pairs_of
from actors.operators.keyed_tables import KeyedTables, same_rows
from actors.operators.results import ResultCollector
from actors.operators.rows_by_slice import SlicedRun
from actors.operators.window_base import WindowOperatorBase
from actors.operators.window_groups import WindowGroup, groups_of, window_starts, windows_between
from actors.operators.window_join_general import UnionCoGroupOperator, UnionJoinFunctionOperator, UnionJoinOperator
from actors.operators.window_times import Times
from actors.operators.windowed_rows import Found, WindowedRows, found_in, put_in_order
from actors.ordering import distinct, order_by, partners_of
from actors.row_sizes import row_sizes
from actors.state.key_index import Ids
from actors.state.snapshot import OperatorSnapshot, RestoredState
from actors.user_code import TaskRuntimeContext, UserFunctions, raise_attributed
from flinkray.batch import Batch
from flinkray.errors import InvalidProgramError
from flinkray.fixed_width import from_numpy
from flinkray.functions import as_callable
from flinkray.operator_factories import WindowCoGroupFactory
from flinkray.types import MIN_TIMESTAMP, Kind
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

    _ROWS_AT_ONCE = 1 << 12
    """Windows are put together until they have this many rows of both sides; one that has more is alone. So windows of
    few rows cost little each, the values that functions get are not many at a time, and the last watermark, with which
    all windows are due, takes little memory."""

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        assert isinstance(factory.assigner, AlignedWindows)
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._factory = factory
        self._next_position = 0
        self._fired_until: int = MIN_TIMESTAMP
        """Windows that were due at this watermark have fired."""

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
        key_ids = self._keys.ids(kept, input_index)
        run = SlicedRun.of_batch(kept, key_ids, self._next_position, *self._times.slices_of_rows(kept))
        self._next_position += kept.num_rows
        self._buffers[input_index].add(run)
        due = self._times.due_limit(self._watermark)
        if self._times.starts_over_slice(run.earliest)[0] <= due:
            over = self._times.over_limit(self._watermark)
            self._fire(window_starts(self._times, [run.starts], over, due), run)

    # -- watermarks

    def _fire_due(self, watermark: int) -> None:
        before, due = (self._times.due_limit(time) for time in (self._fired_until, watermark))
        self._fired_until = watermark
        self._fire(windows_between(self._times, self._buffers, before, due), None)
        limit = self._times.released_limit(watermark)
        for buffer in self._buffers:
            buffer.release(limit)
        self._forget_unused_keys()

    def end_keys(self) -> None:
        super().end_keys()
        self._fired_until = self._watermark  # the next keys' windows start again

    def _forget_unused_keys(self) -> None:
        place = self._keys.forget_unused(part for buffer in self._buffers for part in buffer.live_keys())
        if place is not None:
            for buffer in self._buffers:
                buffer.renumber_keys(place)

    # -- results

    def _fire(self, windows: Iterable[Times], late: SlicedRun | None) -> None:
        """Results of these windows, ascending; `late`: only of the keys that these rows have in each."""
        for starts in windows:
            for group in groups_of(starts, self._times.size, self._buffers, self._ROWS_AT_ONCE):
                self._fire_group(group, late)
        self._results.flush()

    def _fire_group(self, group: WindowGroup, late: SlicedRun | None) -> None:
        try:
            sides = [self._put_in_order(found) for found in group.sides]
        except pa.ArrowException:
            # Not all columns of several windows can be put together: dictionaries may have too many values for one.
            if len(group.starts) == 1:
                raise
            for half in group.halves():
                self._fire_group(half, late)
            return
        ends = group.starts + self._times.size
        wanted = self._keys_to_fire(sides, group.starts, late)
        if wanted is not None:
            sides = [None if side is None else side.only(np.isin(side.ids, wanted)) for side in sides]
        self._fire_windows(sides[0], sides[1], ends - 1)

    def _put_in_order(self, found: Sequence[Found]) -> WindowedRows | None:
        return put_in_order(found, len(self._keys), self._times.is_sliced, self._where)

    def _keys_to_fire(self, sides: Sequence[WindowedRows | None], starts: Times, late: SlicedRun | None) -> Ids | None:
        """The windows and keys to fire, where these are not all."""
        if late is not None:
            found = found_in(late, starts, self._times.size)
            assert found is not None
            return distinct(found.ids(len(self._keys)))
        there = [side for side in sides if side is not None]
        if all(side.rows.fired_until is None for side in there):
            return None
        return np.concatenate([side.not_fired(starts + self._times.size) for side in there])

    @abstractmethod
    def _fire_windows(self, first: WindowedRows | None, second: WindowedRows | None, times: Times) -> None:
        """Emits the results of some windows, given the event time of each; a side may have no rows, or be None."""

    def _rows_by_key(
        self, first: WindowedRows | None, second: WindowedRows | None, times: Times
    ) -> Iterator[tuple[int, list[Any], list[Any]]]:
        """For each window, and each key there, its event time and the rows of both sides; keys by first arrival on
        either side."""
        sides = [side for side in (first, second) if side is not None]
        windows = np.concatenate([side.windows for side in sides])
        ids = np.concatenate([side.ids for side in sides])
        positions = np.concatenate([side.positions for side in sides])
        values = [value for side in sides for value in side.values()]
        lefts = 0 if first is None else len(first.ids)
        order = order_by(windows, positions)
        groups: dict[int, tuple[list[Any], list[Any]]] = {}
        for place, number in zip(order.tolist(), ids[order].tolist(), strict=True):
            group = groups.get(number)
            if group is None:
                group = groups[number] = ([], [])
            group[place >= lefts].append(values[place])
        ends, keys = times.tolist(), len(self._keys)
        for number, (left, right) in groups.items():
            yield ends[number // keys], left, right

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
            for part in same_rows(restored.keyed(name), _GRID, self._times.grid, operator_label(self.context)):
                assert part.keys is not None
                buffer.restore(part, self._keys.restored_ids(part.keys), self._watermark)
        self._fired_until = self._watermark


class CoGroupOperator(TwoInputWindowOperator):
    """Calls the function with the rows of both sides, for every key that either side has in the window."""

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory)
        assert factory.function is not None
        self._call = as_callable(factory.function, "co_group")

    def _fire_windows(self, first: WindowedRows | None, second: WindowedRows | None, times: Times) -> None:
        for timestamp, left, right in self._rows_by_key(first, second, times):
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

    def _fire_windows(self, first: WindowedRows | None, second: WindowedRows | None, times: Times) -> None:
        if first is None or second is None:
            return
        sides = (first.only(np.isin(first.ids, second.ids)), second.only(np.isin(second.ids, first.ids)))
        for timestamp, left_rows, right_rows in self._rows_by_key(*sides, times):
            for left in left_rows:
                for right in right_rows:
                    try:
                        result = self._call(left, right)
                    except BaseException as error:
                        raise_attributed(self.context.operator_name, self.context.subtask, (left, right), error)
                    self._results.add(result, timestamp)
                self._results.flush_if_full()


class ColumnarJoinOperator(TwoInputWindowOperator):
    """The inner join in columns: the first's, then the second's without its key columns.

    A name that both have gets the suffix `_right`. Rows are ordered by window, then by the first's row, then by the
    second's.
    """

    _ROWS_AT_ONCE = 1 << 16  # what is looked up stays in a core's cache

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._layout = PairLayout(self._selectors[1], self._where)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._layout.check_kind(batch.kind)
        super().process_batch(batch, input_index)

    def _fire_windows(self, first: WindowedRows | None, second: WindowedRows | None, times: Times) -> None:
        if first is None or second is None:
            return
        order, begins, counts = partners_of(first.ids, second.ids, len(times) * len(self._keys))
        if not counts.any():
            return
        for side in (first, second):  # rows of two kinds have been put together as objects
            self._layout.check_kind(side.rows.kind)
        kept = self._layout.kept(first.rows.data.column_names, second.rows.data.column_names)
        left_rows = first.data()
        # So that a row's partners lie together.
        right_rows = repeated_rows(whole(second.rows.data.select(kept)), second.places[order])
        limit = PairLimit(self.context, row_sizes(left_rows), row_sizes(right_rows))
        for lefts, rights in pairs_of(begins, counts, limit.rows):
            for left, right in limit.cut(lefts, rights):
                data = self._layout.pairs(taken_batch(left_rows, left), taken_batch(right_rows, right))
                self.output.emit(Batch(data, Kind.ROW, _event_times(times, first.windows, left)))


def _event_times(times: Times, windows: Ids, rows: Ids) -> pa.Array | int:
    """Of these rows, which ascend, given each one's window: one number where that is the same."""
    first, last = int(windows[rows[0]]), int(windows[rows[-1]])
    return int(times[first]) if first == last else from_numpy(times[windows[rows]])

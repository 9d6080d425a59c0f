"""Window joins and co-groups: rows of two inputs that have the same key and lie in the same window.

Here are aligned windows of event time, whose rows are buffered in columns; the others are in
`general_window_operator.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actors.columns.large_columns import as_columns, take_batch, take_repeated_rows
from actors.columns.ordering import partners_of
from actors.columns.ranges import pairs_of
from actors.columns.row_sizes import row_sizes
from actors.keys.index import Ids
from actors.operators.contract.operator import Operator, OperatorContext, Output
from actors.operators.functions.result_collector import ResultCollector
from actors.operators.joins.general_window_operator import (
    UnionCoGroupOperator,
    UnionJoinFunctionOperator,
    UnionJoinOperator,
)
from actors.operators.joins.pairs import PairLayout, PairLimit, both_keys
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.times import Times
from actors.operators.windows.buffers.buffering_operator import BufferingWindowOperator
from actors.operators.windows.buffers.firing_batches import FiringBatch
from actors.operators.windows.buffers.window_lookup import WindowedRows
from actors.operators.windows.buffers.window_values import ValuesPerWindow
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import as_callable
from flinkray.transformations.operator_factories import WindowCoGroupFactory
from flinkray.types.keys import KeySelector
from flinkray.types.records import Kind
from flinkray.windows.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from graphs.job_graph import OperatorCode


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
    """Whether windows are flinkray's tumbling or sliding ones of event time, and fire at their end with all their
    rows."""
    assigner, trigger = factory.assigner, factory.trigger
    is_aligned = type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
    return is_aligned and factory.evictor is None and trigger in (None, assigner.get_default_trigger())


class TwoInputWindowOperator(BufferingWindowOperator):
    """Base of joins and co-groups in aligned windows. Null is a key like any other, as in `key_by`."""

    _INPUT_PARTS = (state_parts.FIRST_INPUT, state_parts.SECOND_INPUT)
    _PARTS = frozenset(_INPUT_PARTS)

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory)
        self._output_type = factory.output_type
        self._user_functions = factory.user_functions

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._results = ResultCollector(context, output, self._output_type)
        self._functions = UserFunctions(context, self._user_functions)

    def _key_selectors(self) -> tuple[KeySelector, KeySelector]:
        return both_keys(self.context, self._where)

    @property
    def number_of_inputs(self) -> int:
        return 2

    def open(self) -> None:
        super().open()
        self._functions.open(TaskRuntimeContext(self.context))

    def close(self) -> None:
        super().close()
        self._functions.close()

    # -- results

    def _end_round(self) -> None:
        self._results.flush()

    def _sides(self, batch: FiringBatch) -> list[WindowedRows | None]:
        return [self._ordered_by_window(found) for found in batch.sides]

    def _fire_sides(self, sides: Sequence[WindowedRows | None], starts: Times) -> Iterable[int]:
        return self._fire_windows(sides[0], sides[1], starts + (self._times.size - 1))

    @abstractmethod
    def _fire_windows(self, first: WindowedRows | None, second: WindowedRows | None, times: Times) -> Iterable[int]:
        """Emits the results of some windows, given the event time of each; a side may have no rows, or be None.

        Where functions of the user are called, gives the pair of window and key before each call.
        """

    def _rows_by_key(
        self, first: WindowedRows | None, second: WindowedRows | None, times: Times
    ) -> Iterator[tuple[int, int, list[Any], list[Any]]]:
        """For each window, and each key there, the number of the pair, the window's event time and the rows of both
        sides; keys by first arrival on either side."""
        keys = len(self._keys)
        for ids, (left, right) in ValuesPerWindow((first, second), keys).batches(self._VALUES_AT_ONCE):
            yield from zip(ids.tolist(), times[ids // keys].tolist(), left, right, strict=True)

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = super().snapshot_state(checkpoint_id, options)
        self._functions.snapshot_state(checkpoint_id, snapshot)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        self._functions.initialize_state(restored)


class CoGroupOperator(TwoInputWindowOperator):
    """Calls the function with the rows of both sides, for every key that either side has in the window."""

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory)
        assert factory.function is not None
        self._call = as_callable(factory.function, "co_group")

    def _fire_windows(self, first: WindowedRows | None, second: WindowedRows | None, times: Times) -> Iterator[int]:
        for pair, timestamp, left, right in self._rows_by_key(first, second, times):
            yield pair
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

    def _fire_windows(self, first: WindowedRows | None, second: WindowedRows | None, times: Times) -> Iterator[int]:
        if first is None or second is None:
            return
        sides = (first.only(np.isin(first.ids, second.ids)), second.only(np.isin(second.ids, first.ids)))
        for pair, timestamp, left_rows, right_rows in self._rows_by_key(*sides, times):
            yield pair
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
        self._layout = PairLayout(self._key_selectors()[1], self._where)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._layout.check_kind(batch.kind)
        super().process_batch(batch, input_index)

    def _fire_windows(self, first: WindowedRows | None, second: WindowedRows | None, times: Times) -> Iterable[int]:
        if first is None or second is None:
            return ()
        order, begins, counts = partners_of(first.ids, second.ids, len(times) * len(self._keys))
        if not counts.any():
            return ()
        for side in (first, second):  # rows of two kinds have been concatenated as objects
            self._layout.check_kind(side.rows.kind)
        right_columns = self._layout.right_columns(first.rows.data.column_names, second.rows.data.column_names)
        left_rows = first.data()
        # So that a row's partners lie together.
        right_rows = take_repeated_rows(as_columns(second.rows.data.select(right_columns)), second.indices[order])
        limit = PairLimit(self.context, row_sizes(left_rows), row_sizes(right_rows))
        for lefts, rights in pairs_of(begins, counts, limit.rows):
            for left, right in limit.split(lefts, rights):
                data = self._layout.pairs(take_batch(left_rows, left), take_batch(right_rows, right))
                self.output.emit(Batch(data, Kind.ROW, _event_times(times, first.windows, left)))
        return ()


def _event_times(times: Times, windows: Ids, rows: Ids) -> pa.Array | int:
    """The event times of these rows, which ascend, given each one's window: one number where that is the same."""
    first, last = int(windows[rows[0]]), int(windows[rows[-1]])
    return int(times[first]) if first == last else from_numpy(times[windows[rows]])

"""Window joins and co-groups: rows of two inputs that have the same key and lie in the same window."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from actors.elements import CheckpointOptions
from actors.keys import key_columns
from actors.operators.base import Operator, OperatorContext, Output
from actors.operators.columns import operator_label
from actors.operators.join_buffer import JoinBuffer, KeyedRows, buffer_table
from actors.operators.keyed_tables import KeyedTables, check_same, state_rows
from actors.operators.results import ResultCollector
from actors.operators.window_base import WindowOperatorBase
from actors.operators.window_times import PendingWindows
from actors.state.key_index import Ids, KeyIndex
from actors.state.snapshot import OperatorSnapshot, RestoredState
from actors.user_code import TaskRuntimeContext, UserFunctions, raise_attributed
from flinkray.batch import Batch
from flinkray.errors import InvalidProgramError
from flinkray.functions import as_callable
from flinkray.keys import ColumnKey
from flinkray.operator_factories import WindowCoGroupFactory
from flinkray.row_codec import decode
from flinkray.types import Kind
from graphs.job_graph import OperatorCode

_RIGHT_SUFFIX = "_right"
_STATES = ("first", "second")
_GRID = "windows"

# Keys without rows are forgotten when there are more of them than others, and at least this many.
_UNUSED_KEYS_KEPT = 4096


def create_co_group_operator(code: OperatorCode) -> Operator:
    """The operator of a WindowCoGroupFactory."""
    factory = code.factory
    assert isinstance(factory, WindowCoGroupFactory)
    if factory.function is None:
        if not factory.is_join:
            raise InvalidProgramError("a co-group needs a function (first_rows, second_rows)")
        return ColumnarJoinOperator(factory)
    return JoinFunctionOperator(factory) if factory.is_join else CoGroupOperator(factory)


class TwoInputWindowOperator(WindowOperatorBase):
    """Base: keeps both inputs' rows by slice until all windows over it are over.

    A window fires when the watermarks of both inputs have reached its end. Late rows that are still allowed make the
    window fire again for their keys, with everything so far. Null is a key like any other, as in `key_by`.
    """

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._factory = factory
        self._buffers = (JoinBuffer(), JoinBuffer())
        self._keys = KeyIndex()
        self._next_position = 0
        self._waiting = PendingWindows()
        self._slices = PendingWindows()

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        first, second = context.keys[:2] if len(context.keys) >= 2 else (None, None)
        if first is None or second is None:
            raise InvalidProgramError(f"operator {self._where!r}: a window join needs keys for both inputs")
        self._selectors = (first, second)
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
        columns = key_columns(kept, self._selectors[input_index], self._where)
        # The two inputs may call their key columns differently.
        names = [str(index) for index in range(columns.num_columns)]
        key_ids = self._keys.ids(pa.RecordBatch.from_arrays(columns.columns, names=names))
        starts, which = times.slices_of_rows(self._timestamps(kept))
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
            self._fire(start, np.unique(np.concatenate(fire_again[start])))
        self._results.flush()

    # -- watermarks

    def _fire_due(self, watermark: int) -> None:
        times = self._times
        for start in self._waiting.pop_while(lambda start: times.is_due(start, watermark)):
            self._fire(start, None)
            self._results.flush_if_full()
        self._results.flush()
        for slice_start in self._slices.pop_while(lambda s: times.is_over(times.last_start(s), watermark)):
            for buffer in self._buffers:
                buffer.release(slice_start)
        self._forget_unused_keys()

    def _forget_unused_keys(self) -> None:
        if len(self._keys) < _UNUSED_KEYS_KEPT:
            return
        parts = [part for buffer in self._buffers for part in buffer.live_keys()]
        live = np.unique(np.concatenate([*parts, np.empty(0, np.int64)]))
        if 2 * len(live) > len(self._keys):
            return
        place = np.empty(len(self._keys), np.int64)
        place[live] = np.arange(len(live))
        self._keys.retain(live)
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
        keys, watermark, tables = self._keys.key_columns(), self._watermark, KeyedTables.of(self.context)
        metadata = {_GRID: self._times.grid.encode()}
        for name, buffer in zip(_STATES, self._buffers, strict=True):
            captured = buffer.capture()
            if captured:
                make = functools.partial(buffer_table, captured, watermark, keys, tables, metadata)
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
                buffer.restore(part, self._keys.ids(part.keys), self._watermark)
        starts = {start for buffer in self._buffers for start in buffer.slice_starts()}
        for start in starts:
            self._slices.add(start)
        for start in self._times.due_later(starts, self._watermark):
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
            except Exception as error:
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
                    except Exception as error:
                        raise_attributed(self.context.operator_name, self.context.subtask, (left, right), error)
                    self._results.add(result, timestamp)
                self._results.flush_if_full()


def _rows_by_key(first: KeyedRows | None, second: KeyedRows | None) -> Iterable[tuple[list[Any], list[Any]]]:
    """For each key its rows of both sides, keys by first arrival on either."""
    groups: dict[int, tuple[list[Any], list[Any]]] = {}
    order: list[tuple[int, int, int, Any]] = []
    for index, side in enumerate((first, second)):
        if side is not None and side.num_rows:
            rows = zip(side.positions.tolist(), side.key_ids.tolist(), decode(side.batch()), strict=True)
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

    def _fire_window(self, first: KeyedRows | None, second: KeyedRows | None, timestamp: int) -> None:
        if first is None or second is None or not first.num_rows or not second.num_rows:
            return
        order = np.argsort(second.key_ids, kind="stable")
        sorted_ids = second.key_ids[order]
        begins = np.searchsorted(sorted_ids, first.key_ids, "left")
        counts = np.searchsorted(sorted_ids, first.key_ids, "right") - begins
        ends = np.cumsum(counts)
        done = 0
        while done < len(counts):
            # As many of the first's rows as make one batch of pairs (at least one row: its pairs are cut afterwards).
            before = int(ends[done - 1]) if done else 0
            until = max(done + 1, int(np.searchsorted(ends, before + self.context.batch_rows, "right")))
            left = np.repeat(np.arange(done, until), counts[done:until])
            within = np.arange(len(left)) - np.repeat(
                ends[done:until] - counts[done:until] - before, counts[done:until]
            )
            right = order[np.repeat(begins[done:until], counts[done:until]) + within]
            if len(left):
                self._emit_pairs(first.take(left), second.take(right), timestamp)
            done = until

    def _emit_pairs(self, left: KeyedRows, right: KeyedRows, timestamp: int) -> None:
        names = list(left.data.column_names)
        columns = list(left.batch().data.columns)
        right_batch = right.batch().data
        for name, column in zip(right_batch.schema.names, right_batch.columns, strict=True):
            if name not in self._second_keys():
                names.append(name + _RIGHT_SUFFIX if name in left.data.column_names else name)
                columns.append(column)
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidProgramError(
                f"operator {self._where!r}: the join would have two columns {twice!r}; rename one before the join"
            )
        rows = Batch(
            pa.RecordBatch.from_arrays(columns, names=names),
            Kind.ROW,
            pa.array(np.full(len(columns[0]), timestamp, np.int64)),
        )
        for offset in range(0, rows.num_rows, self.context.batch_rows):
            self.output.emit(rows.slice(offset, self.context.batch_rows))

    def _second_keys(self) -> tuple[str, ...]:
        selector = self._selectors[1]
        return selector.columns if isinstance(selector, ColumnKey) else ()

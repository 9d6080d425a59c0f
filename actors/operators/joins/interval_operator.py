"""Interval joins: rows of two inputs that have the same key and lie near each other in event time.

The bounds are checked where a program says them (`flinkray/streams/interval_join.py`); `interval_partners.py` finds the
partners of rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from actors.columns.large_columns import as_columns, take_batch
from actors.columns.ranges import Indices, pairs_of
from actors.columns.row_sizes import row_sizes
from actors.keys.state_tables import KeyedTables, state_rows
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.functions.result_collector import ResultCollector
from actors.operators.joins.interval_partners import IntervalBuffer, buffer_table, shifted
from actors.operators.joins.pairs import PairLayout, PairLimit, both_keys
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.operator import TimedOperator
from actors.operators.windows.base.times import Times
from actors.operators.windows.buffers.buffered_keys import BufferedKeys
from actors.operators.windows.buffers.buffered_rows import BufferedRows
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.row_codec import decode
from flinkray.functions.interfaces import as_callable
from flinkray.transformations.operator_factories import IntervalJoinFactory
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Kind
from graphs.job_graph import OperatorCode

_STATES = (state_parts.LEFT, state_parts.RIGHT)


class IntervalJoinOperator(TimedOperator):
    """Joins each batch with what is buffered of the other input, then buffers it until the watermark says that no row
    of the other input can find it any more (after Flink's operator of this name). Null is a key like any other.

    Pairs come in the order of the arriving rows; the partners of one by time, then by arrival, within each run of the
    other side's buffer.
    """

    _NEEDS_TIME_FOR = "cannot be joined within an interval"
    _PARTS = frozenset(_STATES)

    def __init__(self, code: OperatorCode) -> None:
        factory = code.factory
        assert isinstance(factory, IntervalJoinFactory)
        super().__init__(is_event_time=True, late_tag=None)
        self._factory = factory
        self._state_windows = f"rows that are {factory.lower_ms} ms to {factory.upper_ms} ms apart", 0
        # The range of times in which partners lie, relative to a row of each input.
        self._partner_ranges = ((factory.lower_ms, factory.upper_ms), (-factory.upper_ms, -factory.lower_ms))
        self._next_position = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._buffers = (IntervalBuffer(self._where), IntervalBuffer(self._where))
        self._selectors = both_keys(context, self._where)
        self._keys = BufferedKeys(self._selectors, self._where)
        self._functions = UserFunctions(context, self._factory.user_functions)
        self._layout = PairLayout(self._selectors[1], self._where)
        self._pairs: _ColumnPairOutput | _FunctionPairOutput = (
            _ColumnPairOutput(context, output, self._layout)
            if self._factory.function is None
            else _FunctionPairOutput(context, output, self._factory)
        )

    @property
    def number_of_inputs(self) -> int:
        return 2

    def open(self) -> None:
        self._functions.open(TaskRuntimeContext(self.context))

    def close(self) -> None:
        super().close()
        self._functions.close()

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._factory.function is None:
            self._layout.check_kind(batch.kind)
        in_time = self._in_time(batch, input_index)
        if in_time is None:
            return
        times = self._timestamps(in_time)
        key_ids = self._keys.ids(in_time, input_index)
        positions = np.arange(self._next_position, self._next_position + in_time.num_rows)
        self._next_position += in_time.num_rows
        # Copied, so that the received batch does not stay alive with them.
        data = pa.Table.from_batches([in_time.data.take(from_numpy(np.arange(in_time.num_rows)))])
        rows = BufferedRows(data, in_time.kind, key_ids, positions)
        self._join(rows, times, input_index)
        self._buffers[input_index].add(rows, times.copy())

    def _in_time(self, batch: Batch, input_index: int) -> Batch | None:
        """The rows that are not late; the others go to the input's late output, or are counted."""
        is_late = self._timestamps(batch) < self._watermark
        if not is_late.any():
            return batch
        self._late_tag = self._factory.late_tags[input_index]
        self._emit_late(batch.filter(from_numpy(is_late)))
        return None if is_late.all() else batch.filter(from_numpy(~is_late))

    def _join(self, rows: BufferedRows, times: Times, input_index: int) -> None:
        low, high = self._partner_ranges[input_index]
        lowest, highest = shifted(times, low), shifted(times, high)
        sizes = row_sizes(rows.data)
        for run in self._buffers[1 - input_index].runs_between(int(lowest.min()), int(highest.max())):
            begins, counts = run.find_partners(rows.key_ids, lowest, highest)
            limit = PairLimit(self.context, sizes, run.row_sizes)
            for owns, partners in pairs_of(begins, counts, limit.rows):
                for own, other in limit.split(owns, run.order[partners]):
                    if input_index == 0:
                        self._pairs.add(rows, times, own, run.rows, run.times, other)
                    else:
                        self._pairs.add(run.rows, run.times, other, rows, times, own)
        self._pairs.flush()

    # -- watermarks

    def _fire_due(self, watermark: int) -> None:
        for buffer, (_, high) in zip(self._buffers, self._partner_ranges, strict=True):
            is_last = watermark == MAX_TIMESTAMP
            buffer.end_until(watermark if is_last else max(watermark - max(0, high), MIN_TIMESTAMP))
        self._forget_unused_keys()

    def _forget_unused_keys(self) -> None:
        new_ids = self._keys.forget_unused(ids for buffer in self._buffers for ids in buffer.live_keys())
        if new_ids is not None:
            for buffer in self._buffers:
                buffer.renumber_keys(new_ids)

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = self._snapshot_subtask(self._next_position)
        keys, tables = self._keys.columns(), KeyedTables.of(self.context)
        for name, buffer in zip(_STATES, self._buffers, strict=True):
            captured = buffer.capture()
            if captured and keys is not None:
                snapshot.add_keyed(
                    name, functools.partial(buffer_table, captured, keys, tables, self._where), tables.owned
                )
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
                buffer.restore(part, self._keys.restored_ids(part))


class _ColumnPairOutput:
    """Emits pairs as columns, in batches of at most `batch_rows`, and soon after `batch_bytes`."""

    def __init__(self, context: OperatorContext, output: Output, layout: PairLayout) -> None:
        self._most_rows = context.batch_rows
        self._enough_bytes = context.batch_bytes
        self._output = output
        self._layout = layout
        self._batches: list[pa.RecordBatch] = []
        self._times_of_batches: list[Times] = []
        self._rows_in_batches = self._bytes_in_batches = 0

    def add(
        self,
        left: BufferedRows,
        left_times: Times,
        lefts: Indices,
        right: BufferedRows,
        right_times: Times,
        rights: Indices,
    ) -> None:
        """Adds the pairs of row `lefts[i]` with row `rights[i]`."""
        if self._rows_in_batches + len(lefts) > self._most_rows:
            self.flush()
        for side in (left, right):  # rows of two kinds have been concatenated as objects
            self._layout.check_kind(side.kind)
        right_columns = self._layout.right_columns(left.data.column_names, right.data.column_names)
        left_rows, right_rows = as_columns(left.data), as_columns(right.data.select(right_columns))
        pairs = self._layout.pairs(take_batch(left_rows, lefts), take_batch(right_rows, rights))
        if self._batches and pairs.schema != self._batches[0].schema:
            self.flush()  # a type was widened on the way
        self._batches.append(pairs)
        self._times_of_batches.append(np.maximum(left_times[lefts], right_times[rights]))
        self._rows_in_batches += len(lefts)
        self._bytes_in_batches += pairs.nbytes
        if self._bytes_in_batches >= self._enough_bytes:
            self.flush()

    def flush(self) -> None:
        if not self._batches:
            return
        times = from_numpy(np.concatenate(self._times_of_batches))
        self._output.emit(Batch(pa.concat_batches(self._batches), Kind.ROW, times))
        self._batches, self._times_of_batches = [], []
        self._rows_in_batches = self._bytes_in_batches = 0


class PairContext:
    """The `ctx` of a ProcessJoinFunction: one object per operator, changed for each pair."""

    def __init__(self) -> None:
        self._left = self._right = 0

    def get_left_timestamp(self) -> int:
        return self._left

    def get_right_timestamp(self) -> int:
        return self._right

    def get_timestamp(self) -> int:
        return max(self._left, self._right)


class _FunctionPairOutput:
    """Calls the user's function for each pair; makes Python values only of rows that are in one."""

    def __init__(self, context: OperatorContext, output: Output, factory: IntervalJoinFactory) -> None:
        assert factory.function is not None
        self._context = context
        self._results = ResultCollector(context, output, factory.output_type)
        self._process = as_callable(factory.function, "process_element")
        self._pair = PairContext()

    def add(
        self,
        left: BufferedRows,
        left_times: Times,
        lefts: Indices,
        right: BufferedRows,
        right_times: Times,
        rights: Indices,
    ) -> None:
        """Adds the pairs of row `lefts[i]` with row `rights[i]`."""
        pair, results = self._pair, self._results
        sides = zip(_values(left, left_times, lefts), _values(right, right_times, rights), strict=True)
        for (first, first_time), (second, second_time) in sides:
            pair._left, pair._right = first_time, second_time
            try:
                results.collect(self._process(first, second, pair), pair.get_timestamp())
            except BaseException as error:
                raise_attributed(self._context.operator_name, self._context.subtask, (first, second), error)
            results.flush_if_full()

    def flush(self) -> None:
        self._results.flush()


def _values(rows: BufferedRows, times: Times, indices: Indices) -> Iterator[tuple[object, int]]:
    """The value and the time of each of the rows; a row that is there several times is decoded once."""
    distinct, value_indices = np.unique(indices, return_inverse=True)
    values = decode(Batch(take_batch(as_columns(rows.data), distinct), rows.kind))
    return zip(map(values.__getitem__, value_indices.tolist()), times[indices].tolist(), strict=True)

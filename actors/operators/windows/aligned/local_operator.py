"""The local phase of aligned windows: rows become one row per key and slice before they are sent to their window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.large_columns import batches_with_times
from actors.keys.hashes import key_columns
from actors.operators.aggregates.aggregate_columns import AggregateColumns, column_names
from actors.operators.aggregates.partial import COUNTED, rows_behind
from actors.operators.contract.operator import Operator, OperatorContext, Output, subtask_label
from actors.operators.windows.aligned.distinct_sample import DistinctSample
from actors.operators.windows.aligned.slice_store import SliceStore
from actors.operators.windows.base.times import AlignedWindowTimes
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import INT64, fixed_width, from_numpy
from flinkray.errors import FlinkrayError
from flinkray.transformations.operator_factories import LocalWindowAggregateFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp
from flinkray.windows.assigners import AlignedWindows

# Aggregating is worth it if rows need at most this many accumulators each: numbering keys that are mostly new, and rows
# that are wider than before, cost more than half as many of them save.
_LARGEST_SHARE = 0.4

# Fewer rows than this say nothing about whether it is worth it.
_FEWEST_ROWS = 8192

# How many times as many rows pass unseen after it was not worth it: twice as many each time, up to the last.
_FIRST_PASSING = 4
_MOST_PASSING = 128

# So many accumulators wait for their watermark at most: their arrays stay in a core's cache.
_MOST_ACCUMULATORS = 1 << 17

_NEVER = int(MAX_TIMESTAMP) + 1


class LocalWindowAggregateOperator(Operator):
    """Aggregates what a window would aggregate behind the exchange, as Flink's operator of that name: accumulators wait
    until the watermark, a barrier or a pause of the input is to pass, or until there are many of them. So there is
    nothing to snapshot, no window waits for a row, and no row is late for having waited.

    Rows of large batches pass unchanged until a sample of them says that they need few accumulators; where it says that
    they need many, samples are taken more and more seldom. Rows pass too that may be late, which only the window knows,
    and those of types whose aggregates would not be small. What passes has the columns that the window looks at, and no
    others.
    """

    def __init__(self, factory: LocalWindowAggregateFactory) -> None:
        assigner = factory.window.assigner
        assert isinstance(assigner, AlignedWindows)
        self._selector = factory.key
        self._times = AlignedWindowTimes(assigner, 0)
        self._aggregates = (COUNTED, *factory.window.aggregates)
        keys = frozenset[str]() if factory.key is None else frozenset(factory.key.columns)
        self._read = keys | column_names(factory.window.aggregates)
        """The columns that the window looks at."""
        self._schema: pa.Schema | None = None
        """The schema of the rows that wait, and of those that came last."""
        self._is_combinable = False
        """Whether rows of this schema can be aggregated."""
        self._earliest_end = _NEVER
        """The lowest last millisecond of the slices that wait."""
        self._written_columns: set[str] = set()
        """The columns that `write_partial` has written once."""
        self._sample: DistinctSample | None = DistinctSample()
        """The sample of rows of large batches, which pass while it is not known whether it is worth it; None: it is
        worth it."""
        self._passing = 0
        """How many rows are still to pass unseen."""
        self._next_passing = _FIRST_PASSING

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._where = subtask_label(context)
        self._store = SliceStore(self._aggregates, self._where)

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._passing > 0:
            self._passing -= batch.num_rows
            self._emit_rows(batch)
        elif self._can_combine(batch) and self._is_worth_it(batch):
            self._combine(batch)
        else:
            self._emit_rows(batch)

    def _emit_rows(self, batch: Batch) -> None:
        """Emits rows as they came, as far as the window looks at them: some columns, and of event time only the
        slice."""
        names = batch.data.schema.names
        read = [number for number, name in enumerate(names) if name in self._read]
        # A batch without columns would have no rows either; where one is missing, the window says what there is.
        if 0 < len(read) < len(names) and self._read.issubset(names):
            batch = batch.select(read)
        if self._is_usable(batch):
            starts = {self._times.slice_start(time) for time in batch.time_bounds}
            if len(starts) == 1:  # one number for all rows
                batch = batch.with_times(starts.pop())
        self.output.emit(batch)

    def _is_worth_it(self, batch: Batch) -> bool:
        sample = self._sample
        if sample is None or self._selector is None or batch.num_rows < _FEWEST_ROWS:
            return True
        starts, slice_indices = self._times.slices_of_rows(batch)
        sample.add(key_columns(batch, self._selector, self._where), starts, slice_indices)
        if sample.accumulators <= _LARGEST_SHARE * sample.rows:
            self._sample = None
        elif sample.accumulators >= _MOST_ACCUMULATORS:
            self._pass(sample.rows)
        return self._sample is None

    def _combine(self, batch: Batch) -> None:
        first_open = self._times.first_open_slice(self._combined)
        if batch.time_bounds[0] >= first_open:
            self._accumulate(batch)
            return
        assert batch.timestamps is not None
        is_open = from_numpy(fixed_width(batch.timestamps, INT64) >= first_open)
        self._emit_rows(batch.filter(pc.invert(is_open)))
        open_rows = batch.filter(is_open)
        if open_rows.num_rows:
            self._accumulate(open_rows)

    def _can_combine(self, batch: Batch) -> bool:
        """Whether rows of this schema make aggregates of fixed size, and all have event time. What is wrong with others
        the window says."""
        if self._schema is None or not batch.data.schema.equals(self._schema):
            self._emit_slices(self._store.slice_starts())
            self._store, self._sample = SliceStore(self._aggregates, self._where), DistinctSample()
            self._schema, self._is_combinable = batch.data.schema, self._has_fixed_size(batch.data)
        return self._is_combinable and self._is_usable(batch)

    def _is_usable(self, batch: Batch) -> bool:
        """Whether all rows have event times, which can be put into windows."""
        return batch.is_timed and self._times.are_within_bounds(*batch.time_bounds)

    def _has_fixed_size(self, data: pa.RecordBatch) -> bool:
        aggregates = AggregateColumns(self._aggregates, self._where)
        try:
            aggregates.prepare(data)
        except FlinkrayError:
            return False
        return aggregates.is_fixed_size

    def _accumulate(self, batch: Batch) -> None:
        starts, slice_indices = self._times.slices_of_rows(batch)
        keys = None if self._selector is None else key_columns(batch, self._selector, self._where)
        self._store.add(batch.data, keys, starts, slice_indices)
        self._earliest_end = min(self._earliest_end, starts[0] + self._times.slice - 1)
        # Half of them: otherwise accumulators would be looked at again after few more rows.
        if self._store.accumulator_count >= _MOST_ACCUMULATORS and self._store.pair_count() > _MOST_ACCUMULATORS // 2:
            self._emit_slices(self._store.slice_starts())

    # -- what the accumulators wait for

    def on_watermark(self, timestamp: Timestamp) -> None:
        if timestamp >= self._earliest_end:
            first_open = self._times.first_open_slice(timestamp)
            self._emit_slices([start for start in self._store.slice_starts() if start < first_open])
        super().on_watermark(timestamp)

    def process_status(self, is_idle: bool, input_index: int = 0) -> None:
        if is_idle:  # windows go on without this input
            self._emit_slices(self._store.slice_starts())
        super().process_status(is_idle, input_index)

    def prepare_barrier(self, checkpoint_id: int) -> None:
        self._emit_slices(self._store.slice_starts())

    def finish(self) -> None:
        self._emit_slices(self._store.slice_starts())

    def _emit_slices(self, starts: list[int]) -> None:
        """Emits the accumulators of these slices, which ascend, one slice after the other."""
        if not starts:
            return
        slices = self._store.read(np.array(starts, np.int64))
        accumulators, times = slices.accumulators, np.repeat(slices.starts, slices.counts)
        batches = self._store.partial_rows(accumulators, self._written_columns)
        self._store.release(starts)
        self._store.compact()
        left = self._store.slice_starts()
        self._earliest_end = left[0] + self._times.slice - 1 if left else _NEVER
        self._decide(len(accumulators), sum(map(rows_behind, batches)))
        for rows in batches_with_times(batches, from_numpy(times)):
            self.output.emit(rows)

    # -- whether it is worth it

    def _decide(self, accumulators: int, rows: int) -> None:
        """Decides whether rows are aggregated further, given how many accumulators so many of them needed."""
        if rows < _FEWEST_ROWS:
            return
        if accumulators > _LARGEST_SHARE * rows:
            self._pass(rows)
        else:
            self._sample, self._next_passing = None, _FIRST_PASSING

    def _pass(self, rows: int) -> None:
        """Lets more rows pass: it was not worth it for so many."""
        self._passing = self._next_passing * rows
        self._next_passing = min(2 * self._next_passing, _MOST_PASSING)
        self._sample = DistinctSample()

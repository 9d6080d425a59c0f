"""Sorts the rows of a keyed operator's inputs by key, in memory or in a file, and returns them key by key.

An external merge sort after Flink's sorting inputs (SortingDataInput, MultiInputSortingDataInput), but by batches, each
with the rows of many keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.spilling import Spilled, SpillFile
from actors.keys.hashes import Hashes, key_columns, key_hashes
from flinkray.batches.batch import Batch, concat, is_same_layout
from flinkray.batches.numpy_arrays import INT64, fixed_width, from_numpy
from flinkray.types.keys import KeySelector
from flinkray.types.records import MIN_TIMESTAMP

Int64Array = npt.NDArray[np.int64]


class SortedRows(NamedTuple):
    """The next rows, in the order in which they are to be processed."""

    batches: list[tuple[int, Batch]]
    """Batches, each with the index of its input."""
    ends_keys: bool
    """Whether no more rows come of any key so far."""


class _RowOrder(Struct, frozen=True):
    """The order of some rows: for each row the sort key (key hash and event time), and where the row is.

    Rows of one input whose batches have the same columns are a *stream*.
    """

    hashes: Hashes
    times: Int64Array
    streams: Int64Array
    """The number of the row's stream."""
    rows: Int64Array
    """The index of the row among those of its stream."""

    def __len__(self) -> int:
        return self.hashes.size

    @property
    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        return self.hashes, self.times, self.streams, self.rows

    def take(self, indices: Any) -> _RowOrder:
        return _RowOrder(*(column[indices] for column in self.columns))

    def sorted(self) -> _RowOrder:
        """Sorts by key hash, then by time; rows for which both are equal keep their order."""
        return self.take(order_by(self.hashes, self.times))

    @staticmethod
    def joined(orders: Iterable[_RowOrder]) -> _RowOrder:
        return _RowOrder(*(np.concatenate(each) for each in zip(*(order.columns for order in orders), strict=True)))


class _RunPart(NamedTuple):
    """Consecutive rows of a sorted run."""

    order: _RowOrder
    batches: dict[int, Batch]
    """The rows of each stream, in the order of the run."""


class _SortedRun(Struct, eq=False):
    """A sorted run of rows, in memory or part by part in the file."""

    parts: Iterator[_RunPart]
    number: int
    """Runs are numbered in the order in which their rows came."""
    order: _RowOrder | None = None
    """The order of the loaded rows that are still in the run; None before the first are loaded."""
    batches: dict[int, Batch] = field(default_factory=dict)
    """The loaded rows of each stream."""
    start: dict[int, int] = field(default_factory=dict)
    """How many rows of each stream's batch have been removed."""

    def load(self) -> bool:
        """Loads the next part if no rows are loaded; whether there are any rows."""
        while self.order is None or not len(self.order):
            part = next(self.parts, None)
            if part is None:
                return False
            self.order, self.batches, self.start = part.order, part.batches, {}
        return True

    def last(self) -> tuple[int, int, int]:
        """The position of the last loaded row: key hash, time, number of the run."""
        assert self.order is not None
        return int(self.order.hashes[-1]), int(self.order.times[-1]), self.number

    def count_up_to(self, limit: tuple[int, int, int]) -> int:
        """How many of the loaded rows are not behind a position. Rows that are equal come by the number of their
        run."""
        assert self.order is not None
        key, time = np.uint64(limit[0]), limit[1]
        low = int(np.searchsorted(self.order.hashes, key, "left"))
        high = int(np.searchsorted(self.order.hashes, key, "right"))
        side: Any = "right" if self.number <= limit[2] else "left"
        return low + int(np.searchsorted(self.order.times[low:high], time, side))

    def remove(self, count: int) -> _RunPart:
        """Removes the next `count` of the loaded rows, and returns them."""
        assert self.order is not None
        removed, self.order = self.order.take(slice(count)), self.order.take(slice(count, None))
        batches = {}
        for stream, batch in self.batches.items():
            rows = int(np.count_nonzero(removed.streams == stream))
            begin = self.start.get(stream, 0)
            self.start[stream] = begin + rows
            if rows:
                batches[stream] = batch.slice(begin, rows)
        return _RunPart(removed, batches)


class KeySorter:
    """Sorts batches of all keyed inputs: by key hash, within a key by event time (rows without any first), then by
    arrival.

    Rows up to `memory_bytes` are sorted in memory. Whenever there are as many, they are sorted and written to a file as
    one run, and all runs are merged in the end; then at most `batch_rows` rows of each run are in memory.

    Args:
        selectors: the key selector of each input; None: the input is not sorted, and none of its rows comes here.
        where: names operator and subtask in errors.
        directory: where the file is; empty: in the system's temporary directory.
    """

    def __init__(
        self,
        selectors: Sequence[KeySelector | None],
        where: str,
        *,
        memory_bytes: int,
        directory: str,
        batch_rows: int,
        batch_bytes: int,
    ) -> None:
        self._selectors = selectors
        self._where = where
        self._memory_bytes = memory_bytes
        self._batch_rows = batch_rows
        self._batch_bytes = batch_bytes
        self._file = SpillFile(directory, f"{where}: rows to be sorted")
        self._streams: list[tuple[int, Batch]] = []
        """The input of each stream, and an empty batch with the stream's columns."""
        self._pending: list[tuple[int, Batch]] = []
        self._pending_hashes: list[Hashes] = []
        self._pending_bytes = 0
        self._runs: list[_SortedRun] = []

    @property
    def spilled_bytes(self) -> int:
        """How many bytes have been written to the file."""
        return self._file.size

    def add(self, batch: Batch, input_index: int) -> None:
        """Adds a batch of an input that is sorted.

        Raises:
            UnknownColumnError, UserFunctionError, TypeMismatchError: the rows have no such key.
            FlinkrayError: the file cannot be written.
        """
        selector = self._selectors[input_index]
        assert selector is not None, f"input {input_index} is not keyed"
        self._pending_hashes.append(key_hashes(key_columns(batch, selector, self._where)))
        self._pending.append((self._stream(batch, input_index), batch))
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= self._memory_bytes:
            self._spill()

    def sorted_rows(self) -> Iterator[SortedRows]:
        """All rows in order. Called once, when all rows have been added."""
        if self._pending:
            self._runs.append(_SortedRun(self._sort(), len(self._runs)))
        runs = [run for run in self._runs if run.load()]
        while runs:
            limit = min(run.last() for run in runs)
            parts = [run.remove(count) for run in runs if (count := run.count_up_to(limit))]
            runs = [run for run in runs if run.load()]
            yield from self._by_whole_keys(_merged(parts), min((_first_hash(run) for run in runs), default=None))

    def close(self) -> None:
        """Frees memory and file. May be called twice."""
        self._pending, self._pending_hashes, self._runs = [], [], []
        self._file.close()

    # -- sorting -------------------------------------------------------------------------------------------------

    def _stream(self, batch: Batch, input_index: int) -> int:
        """The number of the stream that a batch belongs to."""
        for number, (its_input, layout) in enumerate(self._streams):
            if its_input == input_index and is_same_layout(layout, batch):
                return number
        self._streams.append((input_index, _empty(batch)))
        return len(self._streams) - 1

    def _sort(self) -> Iterator[_RunPart]:
        """Sorts the pending batches, which are not pending any more, into a run."""
        pending, hashes = self._pending, self._pending_hashes
        nbytes = self._pending_bytes
        self._pending, self._pending_hashes, self._pending_bytes = [], [], 0
        batches: dict[int, list[Batch]] = {}
        rows: list[Int64Array] = []
        counts: dict[int, int] = {}
        for stream, batch in pending:
            batches.setdefault(stream, []).append(batch)
            first = counts.get(stream, 0)
            rows.append(np.arange(first, first + batch.num_rows))
            counts[stream] = first + batch.num_rows
        streams = [np.full(batch.num_rows, stream, np.int64) for stream, batch in pending]
        times = [_times(batch) for _, batch in pending]
        order = _RowOrder(
            np.concatenate(hashes), np.concatenate(times), np.concatenate(streams), np.concatenate(rows)
        ).sorted()
        pending.clear()
        whole = {stream: concat(each) for stream, each in batches.items()}
        batches.clear()
        step = max(1, min(self._batch_rows, len(order) * self._batch_bytes // max(1, nbytes)))
        for start in range(0, len(order), step):
            yield _run_part(order.take(slice(start, start + step)), whole)

    def _spill(self) -> None:
        """Writes the pending batches to the file as a run."""
        locations = [self._write(part) for part in self._sort()]
        self._runs.append(_SortedRun(map(self._read, locations), len(self._runs)))

    def _write(self, part: _RunPart) -> tuple[Spilled, dict[int, Spilled]]:
        columns = [from_numpy(column) for column in part.order.columns]
        order = Batch(pa.RecordBatch.from_arrays(columns, names=["hash", "time", "stream", "row"]))
        return self._file.write(order), {stream: self._file.write(batch) for stream, batch in part.batches.items()}

    def _read(self, location: tuple[Spilled, dict[int, Spilled]]) -> _RunPart:
        order, batches = location
        columns = [column.to_numpy() for column in self._file.read(order).data.columns]
        return _RunPart(_RowOrder(*columns), {stream: self._file.read(each) for stream, each in batches.items()})

    # -- in order ------------------------------------------------------------------------------------------------

    def _by_whole_keys(self, part: _RunPart, next_hash: int | None) -> Iterator[SortedRows]:
        """The rows of a part; those of its last key on their own, if the next rows are of that key too."""
        hashes = part.order.hashes
        if next_hash is None or int(hashes[-1]) != next_hash:
            yield SortedRows(self._in_turns(part), True)
            return
        complete = int(np.searchsorted(hashes, hashes[-1], "left"))
        if complete:
            yield SortedRows(self._in_turns(_RunPart(part.order.take(slice(complete)), part.batches)), True)
        yield SortedRows(self._in_turns(_RunPart(part.order.take(slice(complete, None)), part.batches)), False)

    def _in_turns(self, part: _RunPart) -> list[tuple[int, Batch]]:
        """The rows of several streams in few batches, in which the rows of each key are in their order.

        Only the order within a key matters, so that the streams take turns for all keys at once: a turn has the rows of
        one stream, of each key those up to the first one of another stream.
        """
        order, count = part.order, len(self._streams)
        if len(part.batches) == 1:
            ((stream, batch),) = part.batches.items()
            return [(self._streams[stream][0], _rows_of(batch, order.rows))]
        turns = _turns(order, count)
        in_order = order_by(turns)
        starts = np.flatnonzero(np.diff(turns[in_order], prepend=-1))
        parts = []
        for indices in np.split(in_order, starts[1:]):
            stream = int(order.streams[indices[0]])
            parts.append((self._streams[stream][0], _rows_of(part.batches[stream], order.rows[indices])))
        return parts


def _turns(order: _RowOrder, streams: int) -> Int64Array:
    """The turn that each row comes in: turn n has rows of stream n % streams, and turns ascend within a key."""
    begins = differs_from_previous(order.hashes)
    steps = np.empty(len(order), np.int64)
    steps[0] = 0
    np.mod(np.diff(order.streams), streams, out=steps[1:])
    steps[begins] = 0
    total = np.cumsum(steps)
    at_begin = np.flatnonzero(begins)
    base = order.streams[at_begin] - total[at_begin]
    turns: Int64Array = total + base[np.cumsum(begins) - 1]
    return turns


def _run_part(order: _RowOrder, whole: dict[int, Batch]) -> _RunPart:
    """Copies the rows of an order out of the streams' whole batches."""
    batches, rows = {}, np.empty(len(order), np.int64)
    for stream in distinct(order.streams).tolist():
        mine = np.flatnonzero(order.streams == stream)
        batches[stream] = whole[stream].take(from_numpy(order.rows[mine]))
        rows[mine] = np.arange(mine.size)
    return _RunPart(replace(order, rows=rows), batches)


def _merged(parts: list[_RunPart]) -> _RunPart:
    """Merges parts of several runs into one, whose `rows` are indices into its own batches."""
    batches: dict[int, list[Batch]] = {}
    counts: dict[int, int] = {}
    orders = []
    for part in parts:
        rows = np.empty(len(part.order), np.int64)
        for stream, batch in part.batches.items():
            first = counts.get(stream, 0)
            rows[part.order.streams == stream] = np.arange(first, first + batch.num_rows)
            counts[stream] = first + batch.num_rows
            batches.setdefault(stream, []).append(batch)
        orders.append(replace(part.order, rows=rows))
    order = orders[0] if len(orders) == 1 else _RowOrder.joined(orders).sorted()
    return _RunPart(order, {stream: concat(each) for stream, each in batches.items()})


def _rows_of(batch: Batch, rows: Int64Array) -> Batch:
    if int(rows[-1]) - int(rows[0]) == rows.size - 1 and bool(np.all(np.diff(rows) == 1)):
        return batch.slice(int(rows[0]), int(rows.size))
    return batch.take(from_numpy(rows))


def _first_hash(run: _SortedRun) -> int:
    assert run.order is not None
    return int(run.order.hashes[0])


def _times(batch: Batch) -> Int64Array:
    if batch.timestamps is None:
        return np.full(batch.num_rows, MIN_TIMESTAMP, np.int64)
    times: Int64Array = fixed_width(batch.timestamps, INT64)
    return times


def _empty(batch: Batch) -> Batch:
    """An empty batch with the same columns, which does not hold the memory of the rows."""
    return Batch(
        _no_rows(batch.data.schema),
        batch.kind,
        None if batch.times is None else pa.nulls(0, pa.int64()),
        None if batch.keys is None else _no_rows(batch.keys.schema),
    )


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)

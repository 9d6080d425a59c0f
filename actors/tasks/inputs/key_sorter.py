"""Sorts the rows of a keyed operator's inputs by key, in memory or in a file, and gives them back by whole keys.

After Flink's sorting inputs (SortingDataInput, MultiInputSortingDataInput), but per batch: many keys come at a time.
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

Ints = npt.NDArray[np.int64]


class SortedRows(NamedTuple):
    """Rows that come next, in the order in which they are to be processed."""

    batches: list[tuple[int, Batch]]
    """(input, rows)"""
    ends_keys: bool
    """All keys that have come so far are complete."""


class _Order(Struct, frozen=True):
    """What rows are sorted by, one entry per row: key hash, event time; and where each row is."""

    hashes: Hashes
    times: Ints
    streams: Ints
    """The rows' streams: one per input and layout of its batches."""
    rows: Ints
    """Number of the row among those of its stream."""

    def __len__(self) -> int:
        return self.hashes.size

    @property
    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        return self.hashes, self.times, self.streams, self.rows

    def take(self, indices: Any) -> _Order:
        return _Order(*(column[indices] for column in self.columns))

    def sorted(self) -> _Order:
        """By key hash, then time; rows that are equal stay as they are."""
        return self.take(order_by(self.hashes, self.times))

    @staticmethod
    def joined(orders: Iterable[_Order]) -> _Order:
        return _Order(*(np.concatenate(each) for each in zip(*(order.columns for order in orders), strict=True)))


class _Piece(NamedTuple):
    """Consecutive rows of a run. A stream's rows are in its batch in the run's order."""

    order: _Order
    batches: dict[int, Batch]


class _Run(Struct, eq=False):
    """Sorted rows: in memory, or piece by piece in the file."""

    pieces: Iterator[_Piece]
    number: int
    order: _Order | None = None
    """Of the rows that were loaded and not given yet; None: all are given."""
    batches: dict[int, Batch] = field(default_factory=dict)
    start: dict[int, int] = field(default_factory=dict)
    """By stream: how many rows of the batch were given."""

    def load(self) -> bool:
        """Whether there are rows, loading a piece where that is needed."""
        while self.order is None or not len(self.order):
            piece = next(self.pieces, None)
            if piece is None:
                return False
            self.order, self.batches, self.start = piece.order, piece.batches, {}
        return True

    def last(self) -> tuple[int, int, int]:
        assert self.order is not None
        return int(self.order.hashes[-1]), int(self.order.times[-1]), self.number

    def count_up_to(self, limit: tuple[int, int, int]) -> int:
        """How many of the loaded rows are not behind that place. Rows that are equal come by run."""
        assert self.order is not None
        key, time = np.uint64(limit[0]), limit[1]
        low = int(np.searchsorted(self.order.hashes, key, "left"))
        high = int(np.searchsorted(self.order.hashes, key, "right"))
        side: Any = "right" if self.number <= limit[2] else "left"
        return low + int(np.searchsorted(self.order.times[low:high], time, side))

    def give(self, count: int) -> _Piece:
        """The next `count` of the loaded rows."""
        assert self.order is not None
        taken, self.order = self.order.take(slice(count)), self.order.take(slice(count, None))
        batches = {}
        for stream, batch in self.batches.items():
            rows = int(np.count_nonzero(taken.streams == stream))
            begin = self.start.get(stream, 0)
            self.start[stream] = begin + rows
            if rows:
                batches[stream] = batch.slice(begin, rows)
        return _Piece(taken, batches)


class KeySorter:
    """Takes batches of all keyed inputs in the order of their arrival, then gives their rows by key hash, within a key
    by event time (rows without any first), then by arrival.

    Rows up to `memory_bytes` are held and sorted in memory. Beyond that, as much at a time is sorted and written to a
    file, and what was written is merged; a part of `batch_rows` rows of each is in memory then.

    Args:
        selectors: per input; None: it is not sorted, and gives nothing here.
        where: names operator and subtask in errors.
        directory: of the file; empty: the system's temporary directory.
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
        """Input and layout, the latter by an empty batch."""
        self._pending: list[tuple[int, Batch]] = []
        self._pending_hashes: list[Hashes] = []
        self._pending_bytes = 0
        self._runs: list[_Run] = []

    @property
    def spilled_bytes(self) -> int:
        """Bytes in the file."""
        return self._file.size

    def add(self, batch: Batch, input_index: int) -> None:
        """
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
        """All rows, once; nothing is added after the first."""
        if self._pending:
            self._runs.append(_Run(self._sort(), len(self._runs)))
        runs = [run for run in self._runs if run.load()]
        while runs:
            limit = min(run.last() for run in runs)
            given = [run.give(count) for run in runs if (count := run.count_up_to(limit))]
            runs = [run for run in runs if run.load()]
            yield from self._by_whole_keys(_merged(given), min((_first_hash(run) for run in runs), default=None))

    def close(self) -> None:
        """Frees everything. Closing twice is harmless."""
        self._pending, self._pending_hashes, self._runs = [], [], []
        self._file.close()

    # -- sorting -------------------------------------------------------------------------------------------------

    def _stream(self, batch: Batch, input_index: int) -> int:
        for number, (its_input, layout) in enumerate(self._streams):
            if its_input == input_index and is_same_layout(layout, batch):
                return number
        self._streams.append((input_index, _empty(batch)))
        return len(self._streams) - 1

    def _sort(self) -> Iterator[_Piece]:
        """Takes what is pending; its rows, sorted."""
        pending, hashes = self._pending, self._pending_hashes
        nbytes = self._pending_bytes
        self._pending, self._pending_hashes, self._pending_bytes = [], [], 0
        batches: dict[int, list[Batch]] = {}
        rows: list[Ints] = []
        counts: dict[int, int] = {}
        for stream, batch in pending:
            batches.setdefault(stream, []).append(batch)
            first = counts.get(stream, 0)
            rows.append(np.arange(first, first + batch.num_rows))
            counts[stream] = first + batch.num_rows
        streams = [np.full(batch.num_rows, stream, np.int64) for stream, batch in pending]
        times = [_times(batch) for _, batch in pending]
        order = _Order(
            np.concatenate(hashes), np.concatenate(times), np.concatenate(streams), np.concatenate(rows)
        ).sorted()
        pending.clear()
        whole = {stream: concat(each) for stream, each in batches.items()}
        batches.clear()
        step = max(1, min(self._batch_rows, len(order) * self._batch_bytes // max(1, nbytes)))
        for start in range(0, len(order), step):
            yield _piece(order.take(slice(start, start + step)), whole)

    def _spill(self) -> None:
        locations = [self._write(piece) for piece in self._sort()]
        self._runs.append(_Run(map(self._read, locations), len(self._runs)))

    def _write(self, piece: _Piece) -> tuple[Spilled, dict[int, Spilled]]:
        columns = [from_numpy(column) for column in piece.order.columns]
        order = Batch(pa.RecordBatch.from_arrays(columns, names=["hash", "time", "stream", "row"]))
        return self._file.write(order), {stream: self._file.write(batch) for stream, batch in piece.batches.items()}

    def _read(self, location: tuple[Spilled, dict[int, Spilled]]) -> _Piece:
        order, batches = location
        columns = [column.to_numpy() for column in self._file.read(order).data.columns]
        return _Piece(_Order(*columns), {stream: self._file.read(each) for stream, each in batches.items()})

    # -- giving --------------------------------------------------------------------------------------------------

    def _by_whole_keys(self, piece: _Piece, next_hash: int | None) -> Iterator[SortedRows]:
        """The rows; those of a last key that is not complete, since more of it is to come, on their own."""
        hashes = piece.order.hashes
        if next_hash is None or int(hashes[-1]) != next_hash:
            yield SortedRows(self._in_turns(piece), True)
            return
        complete = int(np.searchsorted(hashes, hashes[-1], "left"))
        if complete:
            yield SortedRows(self._in_turns(_Piece(piece.order.take(slice(complete)), piece.batches)), True)
        yield SortedRows(self._in_turns(_Piece(piece.order.take(slice(complete, None)), piece.batches)), False)

    def _in_turns(self, piece: _Piece) -> list[tuple[int, Batch]]:
        """The rows of several streams, each key's in their order, in few batches.

        Keys do not see each other, so the streams take turns for all keys at once: in its turn a stream gives, of each
        key, the rows up to the first one of another stream.
        """
        order, count = piece.order, len(self._streams)
        if len(piece.batches) == 1:
            ((stream, batch),) = piece.batches.items()
            return [(self._streams[stream][0], _rows_of(batch, order.rows))]
        turns = _turns(order, count)
        in_order = order_by(turns)
        starts = np.flatnonzero(np.diff(turns[in_order], prepend=-1))
        parts = []
        for indices in np.split(in_order, starts[1:]):
            stream = int(order.streams[indices[0]])
            parts.append((self._streams[stream][0], _rows_of(piece.batches[stream], order.rows[indices])))
        return parts


def _turns(order: _Order, streams: int) -> Ints:
    """For each row the turn that it comes in: turn n is that of stream n % streams, and within a key none goes back."""
    begins = differs_from_previous(order.hashes)
    steps = np.empty(len(order), np.int64)
    steps[0] = 0
    np.mod(np.diff(order.streams), streams, out=steps[1:])
    steps[begins] = 0
    total = np.cumsum(steps)
    at_begin = np.flatnonzero(begins)
    base = order.streams[at_begin] - total[at_begin]
    turns: Ints = total + base[np.cumsum(begins) - 1]
    return turns


def _piece(order: _Order, whole: dict[int, Batch]) -> _Piece:
    """Those rows of the whole batches, copied into batches of their own."""
    batches, rows = {}, np.empty(len(order), np.int64)
    for stream in distinct(order.streams).tolist():
        mine = np.flatnonzero(order.streams == stream)
        batches[stream] = whole[stream].take(from_numpy(order.rows[mine]))
        rows[mine] = np.arange(mine.size)
    return _Piece(replace(order, rows=rows), batches)


def _merged(pieces: list[_Piece]) -> _Piece:
    """One piece with the rows of all; `rows` count within the new batches."""
    batches: dict[int, list[Batch]] = {}
    counts: dict[int, int] = {}
    orders = []
    for piece in pieces:
        rows = np.empty(len(piece.order), np.int64)
        for stream, batch in piece.batches.items():
            first = counts.get(stream, 0)
            rows[piece.order.streams == stream] = np.arange(first, first + batch.num_rows)
            counts[stream] = first + batch.num_rows
            batches.setdefault(stream, []).append(batch)
        orders.append(replace(piece.order, rows=rows))
    order = orders[0] if len(orders) == 1 else _Order.joined(orders).sorted()
    return _Piece(order, {stream: concat(each) for stream, each in batches.items()})


def _rows_of(batch: Batch, rows: Ints) -> Batch:
    if int(rows[-1]) - int(rows[0]) == rows.size - 1 and bool(np.all(np.diff(rows) == 1)):
        return batch.slice(int(rows[0]), int(rows.size))
    return batch.take(from_numpy(rows))


def _first_hash(run: _Run) -> int:
    assert run.order is not None
    return int(run.order.hashes[0])


def _times(batch: Batch) -> Ints:
    if batch.timestamps is None:
        return np.full(batch.num_rows, MIN_TIMESTAMP, np.int64)
    times: Ints = fixed_width(batch.timestamps, INT64)
    return times


def _empty(batch: Batch) -> Batch:
    """The layout alone, without holding on to the rows' memory."""
    return Batch(
        _no_rows(batch.data.schema),
        batch.kind,
        None if batch.times is None else pa.nulls(0, pa.int64()),
        None if batch.keys is None else _no_rows(batch.keys.schema),
    )


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
